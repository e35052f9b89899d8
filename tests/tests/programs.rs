//! What a program finds when it starts and what every program asks of a kernel: C programs of programs/.

use tests::guest::on_tollgate;
use tests::{End, Program, Setting, questions, verdict};

questions! {
    /// A static program of the C library.
    libc_start = Program::new("libc_start").arguments(&["one", "two words"]);
    are_the_arguments_as_given
    do_the_three_lists_follow_each_other
    does_the_environment_hold_pairs
    does_the_auxiliary_vector_describe_the_program
    are_sixteen_random_bytes_given
    have_constructors_and_thread_local_storage_been_set_up
    does_formatted_output_work
    does_malloc_give_memory_small_and_big
    does_the_rest_of_the_library_work
}

questions! {
    /// The same program, position-independent.
    libc_start_pie = Program::new("libc_start").options(&["-static-pie", "-fPIE"]).arguments(&["one", "two words"]);
    are_the_arguments_as_given
    do_the_three_lists_follow_each_other
    does_the_environment_hold_pairs
    does_the_auxiliary_vector_describe_the_program
    are_sixteen_random_bytes_given
    have_constructors_and_thread_local_storage_been_set_up
    does_formatted_output_work
    does_malloc_give_memory_small_and_big
    does_the_rest_of_the_library_work
}

questions! {
    /// The memory of a program.
    memory = Program::new("memory");
    does_brk_move_the_end_of_the_heap
    does_brk_answer_where_it_is_when_it_refuses
    is_fresh_memory_zero_and_writable
    does_memory_come_back_clean
    what_mappings_are_refused
    does_a_fixed_mapping_take_the_place_of_another
    is_an_address_only_a_hint_unless_fixed
    can_a_part_of_a_mapping_be_given_back
    what_may_be_unmapped
    does_mprotect_change_what_may_be_done
    can_a_mapping_change_its_length
    what_does_mremap_refuse
    can_code_be_written_and_then_run
    what_does_mprotect_refuse
    does_much_more_memory_than_there_is_cost_nothing_untouched
    does_unmapping_give_page_tables_back
    does_the_stack_grow
}

questions! {
    /// The calls that every program makes.
    calls = Program::new("calls");
    is_a_number_that_is_no_call_enosys
    is_only_the_low_half_of_a_call_number_looked_at
    does_write_check_its_descriptor_and_address
    do_clocks_go_forward_only
    does_the_real_time_lie_after_2020
    what_does_clock_gettime_refuse
    does_getrandom_give_random_bytes
    what_does_readlink_refuse
    does_uname_name_a_machine
    who_is_the_program
    does_prlimit_keep_what_is_set
    what_does_arch_prctl_do
    does_stat_of_a_missing_file_fail
}

questions! {
    /// What is in the registers.
    registers = Program::new("registers").options(&["-Wl,-e,record_entry"]);
    are_the_registers_clear_at_the_start
    are_the_vector_registers_clear_at_the_start
    does_a_call_keep_every_register_but_rax_rcx_and_r11
    does_a_call_that_fails_keep_them_too
    does_a_call_keep_the_flags
    does_a_copy_run_forward_whatever_the_direction_flag_says
    does_a_call_work_on_any_stack_pointer
    do_vector_registers_survive_the_timer
    do_vector_registers_survive_calls
    do_the_upper_halves_survive_too_if_they_may_be_used
    do_floating_point_modes_survive
    does_the_gs_base_survive
    may_the_segment_registers_be_cleared
}

questions! {
    /// Processes: fork, exec, wait, groups.
    processes = Program::new("processes");
    does_a_child_have_memory_of_its_own
    is_a_shared_mapping_shared
    does_wait_say_how_a_child_ended
    can_wait_look_without_waiting
    does_a_stopped_child_go_on
    does_an_ignored_end_leave_no_zombie
    do_orphans_get_another_parent
    do_groups_and_sessions_keep_their_rules
    does_exec_replace_the_program
    what_does_exec_refuse
    does_a_child_share_open_files_and_only_them
    do_many_processes_come_and_go
}

questions! {
    /// Signals: handlers, what they carry, what they interrupt.
    signals = Program::new("signals");
    does_a_handler_learn_who_sent
    are_real_time_signals_queued
    does_a_fault_tell_its_address_and_keep_the_registers
    does_a_handler_run_on_the_alternate_stack
    does_a_handler_interrupt_a_sleep
    does_wait_go_on_as_the_flags_say
    does_a_stop_not_disturb_a_sleep
    does_sigsuspend_change_the_mask_for_its_length
    does_a_timer_signal_carry_its_value
    what_may_a_signal_call_not_do
}

questions! {
    /// Threads of the C library, and the futexes below them.
    threads = Program::new("threads");
    does_a_thread_run_and_end
    do_condition_variables_pass_turns
    do_threads_share_descriptors
    what_does_a_futex_say
    does_a_futex_work_between_processes
    does_a_robust_lock_outlive_its_owner
    does_exit_end_all_threads
    do_many_threads_come_and_go
}

questions! {
    /// Files and names.
    files = Program::new("files");
    is_a_new_file_empty_and_then_what_was_written
    does_a_hole_read_as_zeros
    does_append_write_at_the_end
    what_does_open_refuse
    do_links_lead_where_they_say
    do_directories_come_and_go
    does_rename_move_and_replace
    does_a_deleted_file_live_until_it_is_closed
    where_is_the_working_directory
    are_names_relative_to_a_descriptor
    are_all_names_listed_once
    do_modes_and_owners_bind_who_is_not_root
    are_times_set_as_asked
    can_a_file_system_be_mounted_and_taken_away
    do_vectors_read_and_write
    does_dev_have_its_devices
}

questions! {
    /// Files that are ready or not.
    ready = Program::new("ready");
    does_a_pipe_carry_bytes_in_order
    does_a_pipe_hold_64_kib_and_no_more
    is_a_pipe_without_a_reader_broken
    does_poll_see_what_is_ready
    does_select_see_what_is_ready
    does_a_counter_count
    does_epoll_report_levels_edges_and_shots
    is_a_queue_ready_when_it_has_a_message
}

questions! {
    /// Queues as files.
    mq_files = Program::new("mq_files");
    is_a_queue_listed_and_looked_at
    does_reading_tell_the_status_and_take_nothing
    what_cannot_be_done_with_a_queues_name
    does_open_make_a_queue
    are_the_settings_bounded
}

/// Runs `finish` and returns what it printed and how it ended.
fn finish(arguments: &'static [&'static str]) -> (String, End) {
    let run =
        verdict::run(&Program::new("finish").arguments(arguments), Setting::DEFAULT).unwrap_or_else(|e| panic!("{e}"));
    (
        run.text().lines().next().unwrap_or_default().trim_end().to_owned(),
        run.end,
    )
}

#[test]
fn is_a_status_the_low_eight_bits() {
    let flushed = "buffered;at exit".to_owned();
    assert_eq!(finish(&["return", "0"]), (flushed.clone(), End::Code(0)));
    assert_eq!(finish(&["exit", "7"]), (flushed.clone(), End::Code(7)));
    assert_eq!(finish(&["return", "263"]), (flushed, End::Code(7)));
}

#[test]
fn does_ending_by_the_call_itself_flush_nothing() {
    for how in [&["group", "255"], &["thread", "255"]] {
        let run =
            verdict::run(&Program::new("finish").arguments(how), Setting::DEFAULT).unwrap_or_else(|e| panic!("{e}"));
        assert!(!run.text().contains("buffered"), "{how:?}: {}", run.text());
        // A shell between cannot tell a status above 128 from a signal.
        assert!(run.end == End::Code(255) || !on_tollgate(), "{how:?}: {:?}", run.end);
    }
}

#[test]
fn does_output_arrive_byte_for_byte() {
    let program = Program::new("output").arguments(&["plain", "two words", "\u{fc}ml\u{e4}ut", "-x", "a\tb\nc"]);
    let run = verdict::run(&program, Setting::DEFAULT).unwrap_or_else(|e| panic!("{e}"));
    if !on_tollgate() {
        return; // What another kernel's terminal makes of the bytes is not asked.
    }
    assert_eq!(run.end, End::Code(0));
    let mut want: Vec<u8> = (0..=255).collect();
    want.extend((0..100_000).map(|i| b'a' + (i % 26) as u8));
    want.extend("[plain][two words][\u{fc}ml\u{e4}ut][-x][a\tb\nc][standard error]".bytes());
    assert_eq!(run.output.len(), want.len());
    assert!(
        run.output == want,
        "the bytes differ first at {:?}",
        run.output.iter().zip(&want).position(|(a, b)| a != b)
    );
}
