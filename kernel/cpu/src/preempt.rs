//! The preemption count.
//!
//! One word per CPU, as on Linux: the low bits count the reasons why the scheduler may not take this CPU from its task,
//! bits 16 to 19 count interrupts in progress, and the top bit is **clear** when a reschedule is wanted. Inverted so,
//! 'the last reason has gone and somebody wants the CPU' is the word reaching zero: leaving a section is one decrement
//! and one conditional jump.

use crate::event::{self, Event};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The top bit: set while no reschedule is wanted.
pub const NO_RESCHED: u32 = 1 << 31;
/// What an interrupt in progress adds.
pub const HARDIRQ: u32 = 1 << 16;
/// The bits that count interrupts in progress.
pub const HARDIRQ_MASK: u32 = 0xf << 16;

/// Proof that the caller stays on its CPU: preemption is off. Lent to closures, never stored.
pub struct Pinned {
    _not_send: PhantomData<*mut ()>,
}

impl Pinned {
    /// For code that knows by other means that it cannot be preempted: boot before the scheduler, interrupt handlers,
    /// the guards of the locks.
    ///
    /// # Safety
    /// The caller is not moved to another CPU while the value lives.
    #[inline(always)]
    pub const unsafe fn assume() -> Pinned {
        Pinned { _not_send: PhantomData }
    }
}

/// Runs `f` with preemption off. Interrupts stay as they are. Sections nest.
#[inline(always)]
pub fn without_preemption<R>(f: impl FnOnce(&Pinned) -> R) -> R {
    let section = Section::enter();
    let result = f(&Pinned { _not_send: PhantomData });
    drop(section);
    result
}

/// Runs `f` as a reader of structures that are retired only after a grace period.
///
/// This kernel's read-copy-update is the classic one: a reader does not give up its CPU, and a grace period is over when
/// every CPU has passed through the scheduler. So a reader costs what a preemption-off section costs.
#[inline(always)]
pub fn rcu_read<R>(f: impl FnOnce(&Pinned) -> R) -> R {
    without_preemption(f)
}

/// A preemption-off section, left on drop.
pub(crate) struct Section(PhantomData<*mut ()>);

impl Section {
    #[inline(always)]
    pub(crate) fn enter() -> Section {
        disable();
        Section(PhantomData)
    }
}

impl Drop for Section {
    #[inline(always)]
    fn drop(&mut self) {
        enable();
    }
}

/// Raises the count. The kernel's scheduler uses this directly; everything else uses [`without_preemption`].
#[inline(always)]
pub fn disable() {
    event::count(Event::Preempt);
    #[cfg(target_os = "none")]
    // SAFETY: one instruction on this CPU's own word (offset 8). It orders the compiler (no `nomem`).
    unsafe {
        core::arch::asm!("inc dword ptr gs:[8]", options(nostack));
    }
    #[cfg(not(target_os = "none"))]
    crate::local::with_local(|local| local.preempt_count += 1);
}

/// Lowers the count, and lets the scheduler in when that was wanted and this was the last reason against it.
#[inline(always)]
pub fn enable() {
    event::count(Event::Preempt);
    #[cfg(target_os = "none")]
    // SAFETY: as in disable; the label is taken when the word has become zero.
    unsafe {
        core::arch::asm!(
            "dec dword ptr gs:[8]",
            "jz {reschedule}",
            reschedule = label { reschedule() },
            options(nostack),
        );
    }
    #[cfg(not(target_os = "none"))]
    if crate::local::with_local(|local| {
        local.preempt_count -= 1;
        local.preempt_count == 0
    }) {
        reschedule();
    }
}

/// Lowers the count without letting the scheduler in: for the scheduler itself.
#[inline(always)]
pub fn enable_no_resched() {
    crate::local::with_local(|local| local.preempt_count -= 1);
}

/// The kernel's scheduler entry, as an address; 0 before it exists.
static RESCHEDULE: AtomicUsize = AtomicUsize::new(0);

/// Tells which function takes the CPU from a task when preemption becomes possible again and was wanted.
/// It is called with preemption on and interrupts as they were; it must cope with interrupts being off.
pub fn set_reschedule(f: fn()) {
    RESCHEDULE.store(f as *const () as usize, Ordering::Release);
}

#[cold]
#[inline(never)]
fn reschedule() {
    let f = RESCHEDULE.load(Ordering::Acquire);
    if f != 0 {
        // SAFETY: set_reschedule stored the address of a `fn()`.
        let f: fn() = unsafe { core::mem::transmute::<usize, fn()>(f) };
        f();
    }
}

/// Asks for a reschedule of this CPU as soon as preemption allows it. From interrupts and wake-ups.
#[inline]
pub fn set_need_resched() {
    #[cfg(target_os = "none")]
    // SAFETY: one instruction on this CPU's own word: an interrupt sees it before or after.
    unsafe {
        core::arch::asm!("and dword ptr gs:[8], 0x7fffffff", options(nostack));
    }
    #[cfg(not(target_os = "none"))]
    crate::local::with_local(|local| local.preempt_count &= !NO_RESCHED);
}

/// Takes back the wish for a reschedule: the scheduler is about to choose.
#[inline]
pub fn clear_need_resched() {
    #[cfg(target_os = "none")]
    // SAFETY: as in set_need_resched.
    unsafe {
        core::arch::asm!("or dword ptr gs:[8], 0x80000000", options(nostack));
    }
    #[cfg(not(target_os = "none"))]
    crate::local::with_local(|local| local.preempt_count |= NO_RESCHED);
}

/// The raw count of this CPU.
#[inline(always)]
pub fn count() -> u32 {
    #[cfg(target_os = "none")]
    {
        let count: u32;
        // SAFETY: reads this CPU's own word.
        unsafe {
            core::arch::asm!("mov {:e}, gs:[8]", out(reg) count, options(nostack, preserves_flags, readonly));
        }
        count
    }
    #[cfg(not(target_os = "none"))]
    crate::local::with_local(|local| local.preempt_count)
}

/// Whether a reschedule of this CPU is wanted.
#[inline]
pub fn need_resched() -> bool {
    count() & NO_RESCHED == 0
}

/// Whether the scheduler may take the CPU now.
#[inline]
pub fn preemptible() -> bool {
    count() & !NO_RESCHED == 0
}

/// Whether the caller is a task, not an interrupt handler (Linux: `in_task()`).
#[inline(always)]
pub fn in_task() -> bool {
    count() & HARDIRQ_MASK == 0
}

/// Enters an interrupt handler: counts it and sets its events apart. Call with interrupts off.
#[inline]
pub fn irq_enter() -> event::Aside {
    crate::local::with_local(|local| local.preempt_count += HARDIRQ);
    event::set_aside()
}

/// Leaves the handler that [`irq_enter`] entered. Does not reschedule: the interrupt's exit path asks
/// [`need_resched`] and [`preemptible`] itself.
#[inline]
pub fn irq_exit(aside: event::Aside) {
    event::put_back(aside);
    crate::local::with_local(|local| local.preempt_count -= HARDIRQ);
}
