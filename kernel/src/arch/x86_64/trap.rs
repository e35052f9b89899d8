//! Traps and interrupts: from the processor's gate to Rust and back.
//!
//! **How it works.** 256 stubs of 16 bytes push what the processor did not (a zero for an error code, the number of the
//! vector) and go to one of two entries. The ordinary one swaps gs when it comes from ring 3, saves all registers as a
//! [`TrapFrame`] and calls [`trap`]. The other serves the four traps that can come between any two instructions, also
//! where the kernel runs with the user's gs or stack: they have stacks of their own, and tell whose gs base is loaded by
//! its sign. When such a trap comes from ring 3 nothing of the kernel is in flight: it moves to the task's stack and is
//! an ordinary one.
//!
//! [`trap`] returns with interrupts off. The way out (`trap_exit`, shared with [`super::user::enter`] and the slow exits
//! of system calls) expects a frame on top of the stack.

use super::{apic, exceptions, gdt, ipi};
use core::sync::atomic::{AtomicU32, Ordering};
use cpu::{irq, preempt};

/// Numbers of vectors.
pub mod vector {
    /// Debug (#DB).
    pub const DEBUG: u8 = 1;
    /// Non-maskable interrupt.
    pub const NMI: u8 = 2;
    /// Double fault (#DF).
    pub const DOUBLE_FAULT: u8 = 8;
    /// Page fault (#PF).
    pub const PAGE_FAULT: u8 = 14;
    /// Machine check (#MC).
    pub const MACHINE_CHECK: u8 = 18;
    /// First vector that is not an exception.
    pub const FIRST_INTERRUPT: u8 = 32;
    /// The local APIC's timer.
    pub const TIMER: u8 = 0x20;
    /// Another CPU has a task for this one, or work for the task that runs here.
    pub const RESCHEDULE: u8 = 0x21;
    /// Another CPU wants a function to be run here.
    pub const CALL: u8 = 0x22;
    /// The 8259's sixteen vectors, all masked there: what comes is spurious.
    pub const PIC: u8 = 0x30;
    /// The local APIC's errors.
    pub const APIC_ERROR: u8 = 0xfe;
    /// The local APIC's spurious interrupts.
    pub const APIC_SPURIOUS: u8 = 0xff;
    /// Not a vector of the processor: what [`super::TrapFrame::vector`] holds in a system call.
    pub const SYSCALL: u64 = 256;
    /// The same, once the call's result is settled.
    pub const SETTLED: u64 = 257;
}

/// Trap stack of the double fault (index into the TSS).
pub const IST_DOUBLE_FAULT: u8 = 0;
/// Trap stack of the NMI.
pub const IST_NMI: u8 = 1;
/// Trap stack of the machine check.
pub const IST_MACHINE_CHECK: u8 = 2;
/// Trap stack of debug exceptions.
pub const IST_DEBUG: u8 = 3;

/// All registers at a trap, an interrupt, or a system call that wants them all.
///
/// The order is that of the pushes: fixed by the entry code.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs, reason = "they are the registers' names")]
pub struct TrapFrame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The vector, or [`vector::SYSCALL`].
    pub vector: u64,
    /// The processor's error code; in a system call its number.
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Where the flag IF is in rflags.
const INTERRUPTS: u64 = 1 << 9;
/// The flags that a program may choose: carry, parity, adjust, zero, sign, trap, direction, overflow, resume, alignment
/// check, identification.
const USER_FLAGS: u64 = 0xcd5 | 1 << 8 | 1 << 16 | 1 << 18 | 1 << 21;

impl TrapFrame {
    /// A frame that starts a program at `rip` with its stack at `rsp` and all else zero.
    pub fn new_user(rip: u64, rsp: u64) -> TrapFrame {
        let mut frame = TrapFrame {
            rip,
            rsp,
            vector: vector::SYSCALL,
            ..TrapFrame::default()
        };
        frame.sanitise();
        frame
    }

    /// Whether it is a system call's, and its result has not been looked at yet.
    #[inline]
    pub fn is_system_call(&self) -> bool {
        self.vector == vector::SYSCALL
    }

    /// Takes the call for done: its result, or its restart, is settled.
    pub fn forget_system_call(&mut self) {
        self.vector = vector::SETTLED;
    }

    /// Whether ring 3 was running.
    #[inline]
    pub fn is_user(&self) -> bool {
        self.cs & 3 != 0
    }

    /// Whether interrupts were on.
    #[inline]
    pub fn interrupts_on(&self) -> bool {
        self.rflags & INTERRUPTS != 0
    }

    /// Makes a frame that anybody may have written fit for the return to ring 3: segments and flags that a program may
    /// have, and an address that `iretq` takes. An address beyond the user's half faults in ring 3, as it should.
    pub fn sanitise(&mut self) {
        self.cs = u64::from(gdt::USER_CODE.0);
        self.ss = u64::from(gdt::USER_DATA.0);
        self.rflags = self.rflags & USER_FLAGS | INTERRUPTS | 2;
        self.rip = self.rip.min(super::layout::USER_END);
    }
}

/// A fault of ring 3, for the hook that makes a signal of it.
pub struct Trap<'a> {
    /// The processor's vector, below 32.
    pub vector: u8,
    /// The processor's error code; 0 where there is none.
    pub error: u64,
    /// The address of a page fault (cr2), else that of the instruction.
    pub address: u64,
    /// The registers; what is changed here is what the program goes on with.
    pub frame: &'a mut TrapFrame,
}

core::arch::global_asm!(
    r#"
    .macro save_registers
    push rdi
    push rsi
    push rdx
    push rcx
    push rax
    push r8
    push r9
    push r10
    push r11
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    .endm

    .macro restore_registers
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    pop r11
    pop r10
    pop r9
    pop r8
    pop rax
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    .endm

    # Ring 3 can set AC, which would suspend SMAP here: cleared where the processor has SMAP (see usercopy).
    .macro clear_ac
    .pushsection .smap_sites, "a", @progbits
    .quad 661f
    .quad 0
    .popsection
661:
    .byte 0x0f, 0x1f, 0x00
    .endm

    .pushsection .text.trap, "ax", @progbits
    .p2align 4
    .global trap_stubs
trap_stubs:
    .set vector, 0
    .rept 256
    .p2align 4
    .if vector != 8 && (vector < 10 || vector > 14) && vector != 17 && vector != 21 && vector != 29 && vector != 30
    push 0
    .endif
    push vector
    .if vector == 1 || vector == 2 || vector == 8 || vector == 18
    jmp trap_anywhere
    .else
    jmp trap_entry
    .endif
    .set vector, vector + 1
    .endr

    .p2align 4
trap_entry:
    test byte ptr [rsp + 24], 3
    jz 2f
    swapgs
2:  save_registers
3:  cld
    clear_ac
    mov rdi, rsp
    call {trap}
    .global trap_exit
trap_exit:
    test byte ptr [rsp + {cs}], 3
    jz 4f
    swapgs
4:  restore_registers
    add rsp, 16
    iretq

trap_anywhere:
    test byte ptr [rsp + 24], 3
    jnz 5f
    save_registers
    cld
    clear_ac
    mov ecx, 0xc0000101             # the gs base: the kernel's is negative, the user's is not
    rdmsr
    xor ebx, ebx
    test edx, edx
    js 6f
    swapgs
    mov ebx, 1
6:  mov rdi, rsp
    call {anywhere}
    test ebx, ebx
    jz 4b
    swapgs
    jmp 4b
5:  swapgs
    save_registers
    cld
    mov rsi, rsp
    mov rsp, gs:[24]
    sub rsp, {size}
    mov rdi, rsp
    mov ecx, {size} / 8
    rep movsq
    jmp 3b
    .popsection
    "#,
    trap = sym trap,
    anywhere = sym trap_anywhere_in_kernel,
    cs = const core::mem::offset_of!(TrapFrame, cs),
    size = const size_of::<TrapFrame>(),
);

/// Address of the stub of vector 0; the others follow every 16 bytes.
pub fn stubs() -> u64 {
    unsafe extern "C" {
        static trap_stubs: u8;
    }
    &raw const trap_stubs as u64
}

/// Every trap and interrupt but those below. Interrupts are off at entry and at return.
extern "C" fn trap(frame: &mut TrapFrame) {
    if frame.vector < u64::from(vector::FIRST_INTERRUPT) {
        exceptions::exception(frame);
    } else {
        interrupt(frame.vector as u8, frame.is_user());
    }
    irq::disable();
    if frame.is_user() {
        exit_to_user(frame);
    } else if frame.interrupts_on() && preempt::need_resched() && preempt::preemptible() {
        crate::task::preempt_from_interrupt();
        irq::disable();
    }
}

/// A trap of the four that can come anywhere, in ring 0: on its own stack, so it must not sleep or be preempted.
extern "C" fn trap_anywhere_in_kernel(frame: &mut TrapFrame) {
    exceptions::anywhere_in_kernel(frame);
}

/// Interrupt `number`, which interrupted a program (`user`) or the kernel.
fn interrupt(number: u8, user: bool) {
    let aside = preempt::irq_enter();
    match number {
        vector::TIMER => {
            apic::end_of_interrupt();
            crate::task::tick(user);
        }
        vector::RESCHEDULE => {
            apic::end_of_interrupt();
            crate::task::reschedule_asked();
        }
        vector::CALL => {
            // Before the requests are looked at: one that comes later interrupts again.
            apic::end_of_interrupt();
            ipi::serve();
        }
        vector::APIC_ERROR => {
            log::warn!("APIC error {:#x}", apic::error());
            apic::end_of_interrupt();
        }
        vector::APIC_SPURIOUS => {} // not to be acknowledged
        _ if (vector::PIC..vector::PIC + 16).contains(&number) => {}
        _ => {
            log::warn!("interrupt {number:#x} is nobody's");
            apic::end_of_interrupt();
        }
    }
    preempt::irq_exit(aside);
}

/// Whether something is to be done before this task's ring 3 runs on.
fn work_pending() -> bool {
    let task = cpu::local::current() as *const AtomicU32;
    // SAFETY: a CPU that comes from or goes to ring 3 has a current task, and the first field of a task is its work word
    // (the kernel's contract in the module `arch`).
    preempt::need_resched() || unsafe { &*task }.load(Ordering::Relaxed) != 0
}

/// Does what is pending for this task before it goes back to ring 3 with `frame`. Returns with interrupts off.
pub(super) extern "C" fn exit_to_user(frame: &mut TrapFrame) {
    loop {
        irq::disable();
        if !work_pending() {
            return;
        }
        irq::enable();
        crate::task::exit_to_user_work(frame);
        frame.sanitise();
    }
}
