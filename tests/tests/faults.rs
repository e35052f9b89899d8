//! What a program may not do: each fault ends the program with the signal that Linux gives, and nothing else.
//!
//! Every boot must end in order: a fault of a program that the kernel takes for its own is a failure here.

use tests::signal::{SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
use tests::{End, Program, Setting, verdict};

/// Commits each fault in a boot of its own.
fn expect(faults: &[&'static [&'static str]], signal: i32) {
    for arguments in faults {
        let program = Program::new("faults").arguments(arguments);
        let run = verdict::run(&program, Setting::DEFAULT).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        let text = run.text();
        assert!(
            text.contains(&format!("about to commit {}", arguments[0])),
            "{arguments:?} printed:\n{text}"
        );
        assert_eq!(run.end, End::Signal(signal), "{arguments:?} printed:\n{text}");
    }
}

#[test]
fn is_the_first_page_out_of_bounds() {
    expect(&[&["null_load"], &["null_store"], &["null_jump"]], SIGSEGV);
}

#[test]
fn is_an_address_that_is_none_out_of_bounds() {
    expect(
        &[&["noncanonical_load"], &["noncanonical_store"], &["noncanonical_jump"]],
        SIGSEGV,
    );
}

#[test]
fn is_the_kernels_memory_out_of_bounds() {
    expect(&[&["kernel_load"], &["kernel_store"], &["kernel_jump"]], SIGSEGV);
}

#[test]
fn are_text_and_constants_read_only() {
    expect(&[&["text_store"], &["constant_store"], &["read_only_store"]], SIGSEGV);
}

#[test]
fn are_data_and_stack_not_to_be_run() {
    expect(&[&["data_run"], &["mapping_run"], &["stack_run"]], SIGSEGV);
}

#[test]
fn is_memory_gone_once_it_is_given_back() {
    expect(&[&["unmapped_load"], &["no_access_load"]], SIGSEGV);
}

#[test]
fn does_the_stack_end_somewhere() {
    expect(&[&["stack_overflow"], &["bad_stack_push"]], SIGSEGV);
}

#[test]
fn are_the_kernels_instructions_refused() {
    expect(
        &[
            &["interrupts_off"],
            &["halt"],
            &["page_table_load"],
            &["gs_swap"],
            &["kernel_return"],
        ],
        SIGSEGV,
    );
}

#[test]
fn are_ports_and_model_specific_registers_refused() {
    expect(&[&["port_in"], &["port_out"], &["msr_read"], &["msr_write"]], SIGSEGV);
}

#[test]
fn are_the_kernels_gates_and_segments_refused() {
    expect(
        &[&["software_interrupt"], &["double_fault_gate"], &["bad_segment"]],
        SIGSEGV,
    );
}

#[test]
fn is_an_unknown_instruction_illegal() {
    expect(&[&["undefined"], &["lock_prefix"]], SIGILL);
}

#[test]
fn does_arithmetic_without_a_result_trap() {
    expect(&[&["divide_by_zero"], &["divide_overflow"], &["x87_exception"]], SIGFPE);
}

#[test]
fn do_breakpoints_and_single_steps_trap() {
    expect(
        &[&["breakpoint"], &["single_step"], &["single_step_into_call"]],
        SIGTRAP,
    );
}

/// Emulators read the stack of a far return with the kernel's rights, and the page fault that comes of it says so:
/// Linux takes it for its own and kills the program (SIGKILL). A processor gives SIGSEGV, and Tollgate does in both.
#[test]
fn is_a_far_return_to_nowhere_the_programs_own_fault() {
    if tests::guest::on_tollgate() {
        expect(&[&["kernel_segment"], &["bad_interrupt_return"]], SIGSEGV);
    }
}
