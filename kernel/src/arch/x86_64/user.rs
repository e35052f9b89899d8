//! Into ring 3, and the program's registers that are not in a frame.

use super::layout::is_user;
use super::trap::TrapFrame;
use super::tsc;
use core::sync::atomic::{AtomicBool, Ordering};
use cpu::irq;
use x86_64::VirtAddr;
use x86_64::registers::model_specific::{FsBase, KernelGsBase};

/// Whether a program has run.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Goes to ring 3 with the registers of `frame`, which must be of [`TrapFrame::new_user`]'s making or of a trap from
/// ring 3; what it lets a program have is checked. The kernel stack is left as it is: nothing on it is used again.
pub fn enter(frame: &TrapFrame) -> ! {
    let mut frame = *frame;
    frame.sanitise();
    if !ENTERED.swap(true, Ordering::Relaxed) {
        crate::control!("first-user-instruction tsc={}", tsc::read());
    }
    irq::disable();
    // SAFETY: 1. the frame lies on this stack, whole, and is fit for ring 3 (sanitise). 2. Interrupts are off until iretq.
    // 3. trap_exit takes the frame from the stack pointer; nothing below is needed again.
    unsafe {
        core::arch::asm!(
            "mov rsp, {}",
            "jmp trap_exit",
            in(reg) &raw const frame,
            options(noreturn),
        )
    }
}

/// As [`enter`], after what is pending for the task: for a child, which may have been sent a signal already.
pub fn enter_with_work(frame: &mut TrapFrame) -> ! {
    frame.sanitise();
    super::trap::exit_to_user(frame);
    enter(frame)
}

/// Gives the running task a fresh FPU.
pub(super) fn reset_fpu() {
    cpu::without_interrupts(|_| super::switch::reset_fpu());
}

/// Gives the running task a fresh program's registers, as far as they are not in a frame: FPU, fs and gs bases. For
/// `execve`.
pub fn reset() {
    cpu::without_interrupts(|_| {
        super::switch::reset_fpu();
        FsBase::write(VirtAddr::zero());
        KernelGsBase::write(VirtAddr::zero());
    });
}

/// The running program's fs base.
pub fn fs_base() -> u64 {
    FsBase::read().as_u64()
}

/// Sets the running program's fs base, which the caller has found to be in the user's half.
pub fn set_fs_base(base: u64) {
    debug_assert!(is_user(base));
    FsBase::write(VirtAddr::new_truncate(base));
}

/// The running program's gs base.
pub fn gs_base() -> u64 {
    KernelGsBase::read().as_u64()
}

/// Sets the running program's gs base, which the caller has found to be in the user's half.
pub fn set_gs_base(base: u64) {
    debug_assert!(is_user(base));
    KernelGsBase::write(VirtAddr::new_truncate(base));
}
