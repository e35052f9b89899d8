//! An interrupt at a given instruction: a debug register of this CPU holds its address (Intel SDM volume 3, "Debug
//! Registers").
//!
//! For the show of the counters' races: what a device's interrupt does once in a long while happens here when it is to. The
//! debug exception comes before the instruction, on its own stack; what runs there counts as an interrupt handler.

use super::trap::TrapFrame;
use core::sync::atomic::{AtomicUsize, Ordering};
use cpu::preempt;

/// In dr7: breakpoint 0 is on (local), for execution, of one byte.
const BREAKPOINT_0: u64 = 1;
/// In dr7: a bit that is always 1.
const FIXED: u64 = 1 << 10;
/// In dr6: breakpoint 0 was met.
const MET_0: u64 = 1;
/// In rflags: the instruction is not stopped at again.
const RESUME: u64 = 1 << 16;

/// Who is to run, as a pointer to a `&mut dyn FnMut()` on the waiting stack; 0 for nobody.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Runs `body` on this CPU with `handler` as an interrupt before the instruction at `address`, once, the first time that it
/// is reached. Whether it was reached. One at a time: the show has one task.
pub fn with_interrupt_at(address: usize, mut handler: impl FnMut(), body: impl FnOnce()) -> bool {
    let mut handler: &mut dyn FnMut() = &mut handler;
    cpu::without_preemption(|_| {
        WAITING.store(&raw mut handler as usize, Ordering::Release);
        // SAFETY: 1. The registers are this CPU's, and the task stays on it. 2. They are off again below, and the handler
        // lives until then.
        unsafe {
            core::arch::asm!("mov dr0, {}", in(reg) address, options(nostack, preserves_flags));
            set_control(FIXED | BREAKPOINT_0);
        }
        body();
        // SAFETY: the same.
        unsafe { set_control(FIXED) };
        WAITING.swap(0, Ordering::AcqRel) == 0
    })
}

/// # Safety
/// What the breakpoints lead to can run.
unsafe fn set_control(dr7: u64) {
    // SAFETY: the caller's; no memory is touched.
    unsafe { core::arch::asm!("mov dr7, {}", in(reg) dr7, options(nostack, preserves_flags)) };
}

/// A debug exception of ring 0: whether it was ours, and dealt with. Where interrupts are off none can come: the breakpoint
/// is passed by, and spent.
pub(super) fn met(frame: &mut TrapFrame) -> bool {
    let status: u64;
    // SAFETY: reads a register of this CPU; no memory is touched.
    unsafe { core::arch::asm!("mov {}, dr6", out(reg) status, options(nomem, nostack, preserves_flags)) };
    if status & MET_0 == 0 {
        return false;
    }
    // SAFETY: 1. A breakpoint that is off does not stop. 2. dr6 keeps its bits until they are cleared.
    unsafe {
        set_control(FIXED);
        core::arch::asm!("mov dr6, {}", in(reg) status & !MET_0, options(nostack, preserves_flags));
    }
    frame.rflags |= RESUME;
    if frame.interrupts_on() {
        let waiting = WAITING.swap(0, Ordering::AcqRel) as *mut &mut dyn FnMut();
        // SAFETY: the handler is on the stack that waits below this exception (with_interrupt_at), and nobody else has it
        // since the swap.
        if let Some(handler) = unsafe { waiting.as_mut() } {
            let aside = preempt::irq_enter();
            handler();
            preempt::irq_exit(aside);
        }
    }
    true
}
