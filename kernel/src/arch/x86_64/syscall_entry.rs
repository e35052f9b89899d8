//! System calls: `syscall`, the table, `sysret`.
//!
//! **How it works.** The entry takes the task's kernel stack, saves what Linux's ABI promises to keep and the compiler
//! does not (the six arguments), and what `sysret` needs; it calls the table's function with interrupts on. At exit,
//! interrupts off, two words say whether anything is to be done first: the preemption count (a reschedule is wanted) and
//! the task's work word. Callee-saved registers are left to the functions themselves.
//!
//! On the fast path the entry is 19 instructions up to and with the call, the exit 18 from the return to `sysret`:
//! with `syscall` itself and the function's `ret` 39 for a call that does nothing.
//!
//! Two slow ways make a [`TrapFrame`] of all registers and leave by `iretq`: that of pending work, and that of the calls
//! that want all registers ([`full_frame!`](crate::arch::full_frame)).
//!
//! The stack from the task's top down: rsp, rflags, rip, rdi, rsi, rdx, r10, r8, r9, number.
//!
//! In the build with `events` the counters of the crate cpu are read around every call.

use super::gdt::{KERNEL_CODE, KERNEL_DATA, USER_CODE, USER_DATA};
use super::trap::{TrapFrame, exit_to_user, vector};
use x86_64::VirtAddr;
use x86_64::registers::model_specific::{LStar, SFMask, Star};
use x86_64::registers::rflags::RFlags;

/// A system call: six arguments as they stand in rdi, rsi, rdx, r10, r8 and r9; the result is rax.
pub type SyscallFn = extern "C" fn(u64, u64, u64, u64, u64, u64) -> i64;

/// Bytes that the fast path keeps on the stack.
const SAVED: usize = 10 * 8;

core::arch::global_asm!(
    r#"
    # Makes a TrapFrame of the fast path's words, whose address is in rcx, and of the live registers; `result` is rax.
    .macro build_trap_frame
    push {user_data}
    push qword ptr [rcx + 72]
    push qword ptr [rcx + 64]
    push {user_code}
    push qword ptr [rcx + 56]
    push qword ptr [rcx]                      # the call's number
    push {vector}
    push qword ptr [rcx + 48]                 # rdi
    push qword ptr [rcx + 40]                 # rsi
    push qword ptr [rcx + 32]                 # rdx
    push qword ptr [rcx + 56]                 # rcx is rip
    push rax
    push qword ptr [rcx + 16]                 # r8
    push qword ptr [rcx + 8]                  # r9
    push qword ptr [rcx + 24]                 # r10
    push qword ptr [rcx + 64]                 # r11 is rflags
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    .endm

    .pushsection .text.syscall, "ax", @progbits
    .p2align 6
    .global syscall_entry
syscall_entry:
    swapgs                          # 1
    mov gs:[32], rsp
    mov rsp, gs:[24]
    push qword ptr gs:[32]
    push r11                        # 5
    push rcx
    push rdi
    push rsi
    push rdx
    push r10                        # 10
    push r8
    push r9
    push rax
    sti
    mov eax, eax                    # 15: a number is an int
    cmp eax, {count}
    jae 7f
    mov rcx, r10
    "#,
    #[cfg(not(feature = "events"))]
    "call [rax * 8 + {table}]       # 19",
    #[cfg(feature = "events")]
    "call {counted}", // the number, pushed last, is its seventh argument
    r#"
6:  cli                             # 1
    cmp dword ptr gs:[8], 0x80000000
    jne 8f
    mov rcx, gs:[16]
    cmp dword ptr [rcx], 0          # 5
    jne 8f
    pop rcx                         # the number
    pop r9
    pop r8
    pop r10                         # 10
    pop rdx
    pop rsi
    pop rdi
    pop rcx
    pop r11                         # 15
    pop rsp
    swapgs
    sysretq                         # 18

7:  mov rdi, rax
    call {unknown}
    jmp 6b

8:  mov rcx, rsp
    build_trap_frame
    mov rdi, rsp
    call {exit_to_user}
    jmp trap_exit

    # From a stub of full_frame!, whose function is in rax.
    .global syscall_full_frame
syscall_full_frame:
    mov rdx, rax
    mov rcx, gs:[24]
    sub rcx, {saved}
    mov rsp, rcx                    # the caller's frames are given up: this call returns by iretq
    xor eax, eax
    build_trap_frame
    mov rdi, rsp
    call rdx
    mov [rsp + {rax}], rax
    mov rdi, rsp
    call {full_frame_done}
    jmp trap_exit
    .popsection
    "#,
    user_data = const USER_DATA.0,
    user_code = const USER_CODE.0,
    vector = const vector::SYSCALL,
    count = const crate::syscall::TABLE.len(),
    #[cfg(not(feature = "events"))]
    table = sym crate::syscall::TABLE,
    unknown = sym unknown,
    #[cfg(feature = "events")]
    counted = sym super::events::call,
    exit_to_user = sym exit_to_user,
    saved = const SAVED,
    rax = const core::mem::offset_of!(TrapFrame, rax),
    full_frame_done = sym full_frame_done,
);

extern "C" fn unknown(number: u64) -> i64 {
    crate::syscall::unknown(number)
}

/// After the function of a call that wanted all registers: what it left in the frame need not be right.
extern "C" fn full_frame_done(frame: &mut TrapFrame) {
    frame.sanitise();
    exit_to_user(frame);
}

/// Makes a [`SyscallFn`] of a function that wants all registers and may change them, for the table; its result is stored
/// in the frame's rax: `full_frame!(/// Doc. pub fn name => function);`
#[macro_export]
macro_rules! full_frame {
    ($(#[$doc:meta])* $vis:vis fn $name:ident => $function:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        $vis extern "C" fn $name(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> i64 {
            const _: extern "C" fn(&mut $crate::arch::TrapFrame) -> i64 = $function;
            core::arch::naked_asm!(
                "lea rax, [rip + {function}]",
                "jmp syscall_full_frame",
                function = sym $function,
            )
        }
    };
}

/// Sets this CPU's MSRs for `syscall` and `sysret`.
pub fn init() {
    unsafe extern "C" {
        static syscall_entry: u8;
    }
    if let Err(error) = Star::write(USER_CODE, USER_DATA, KERNEL_CODE, KERNEL_DATA) {
        panic!("the segments do not fit syscall: {error}");
    }
    LStar::write(VirtAddr::new(&raw const syscall_entry as u64));
    // Off in the kernel: interrupts until there is a stack; single steps, the direction flag and the alignment check,
    // which suspends SMAP, altogether.
    SFMask::write(
        RFlags::INTERRUPT_FLAG
            | RFlags::TRAP_FLAG
            | RFlags::DIRECTION_FLAG
            | RFlags::ALIGNMENT_CHECK
            | RFlags::NESTED_TASK
            | RFlags::IOPL_LOW
            | RFlags::IOPL_HIGH
            | RFlags::RESUME_FLAG,
    );
}
