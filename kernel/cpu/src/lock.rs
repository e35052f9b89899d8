//! The locks of the kernel, and their order.
//!
//! [`SpinLock`] raises the preemption count; [`IrqLock`] also masks interrupts and is for what an interrupt handler may
//! take too. Their core is the crate spin's.
//!
//! **Lock order.** Each lock has a rank; a CPU takes locks in rising rank only. Debug builds check it on every
//! acquisition. The ranges, from outside in:
//!
//! | ranks | layer |
//! |---|---|
//! | 0-29 | the kernel's tasks, files, address spaces |
//! | 30-39 | ipc: namespaces, then queues |
//! | 40-59 | slab: cache list, node lists, pages |
//! | 60-79 | memcg: hierarchy, then stocks |
//! | 80-89 | percpu: the slot allocator |
//! | 90-99 | the kernel's run queues and timers, then physical frames |
//! | 100-109 | log and console |

use crate::event::{self, Event};
use crate::{irq, preempt};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use spin::mutex::{SpinMutex, SpinMutexGuard};

/// How a waiting CPU passes the time: with `pause`.
struct Relax;
impl spin::RelaxStrategy for Relax {
    #[inline(always)]
    fn relax() {
        crate::pause();
    }
}

type Core<T> = SpinMutex<T, Relax>;

/// A lock that is held with preemption off. Never taken by interrupt handlers.
pub struct SpinLock<T: ?Sized> {
    rank: u8,
    core: Core<T>,
}

/// A lock that is held with interrupts (and so preemption) off. Interrupt handlers may take it.
pub struct IrqLock<T: ?Sized> {
    rank: u8,
    core: Core<T>,
}

/// A held [`SpinLock`]. Dropping it lets go.
pub struct SpinGuard<'a, T: ?Sized> {
    // Dropped in this order: the lock is free before preemption is possible.
    core: SpinMutexGuard<'a, T, Relax>,
    _held: HeldRank,
    _section: preempt::Section,
    pinned: preempt::Pinned,
}

/// A held [`IrqLock`]. Dropping it lets go.
pub struct IrqGuard<'a, T: ?Sized> {
    core: SpinMutexGuard<'a, T, Relax>,
    _held: HeldRank,
    // As Linux's spin_lock_irqsave does, the count is raised besides: a debug build can tell, and an unlock inside an
    // outer interrupts-off section does not reschedule.
    _preempt: preempt::Section,
    _irq: irq::Section,
    masked: irq::Masked,
}

macro_rules! lock {
    ($lock:ident) => {
        impl<T> $lock<T> {
            /// A free lock of `rank` (see the table above) around `value`.
            pub const fn new(rank: u8, value: T) -> Self {
                $lock {
                    rank,
                    core: Core::new(value),
                }
            }
        }
        impl<T: ?Sized> $lock<T> {
            /// The value, without locking: `&mut` proves that nobody else has it.
            pub fn get_mut(&mut self) -> &mut T {
                self.core.get_mut()
            }
        }
    };
}
lock!(SpinLock);
lock!(IrqLock);

impl<T: ?Sized> SpinLock<T> {
    /// Takes the lock, waiting for it.
    #[inline(always)]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        let section = preempt::Section::enter();
        let held = HeldRank::take(self.rank);
        count(&self.core);
        // SAFETY: the section lives in the guard, and the proof is lent only as long as the guard lives.
        let pinned = unsafe { preempt::Pinned::assume() };
        SpinGuard {
            core: self.core.lock(),
            _held: held,
            _section: section,
            pinned,
        }
    }
}

impl<T: ?Sized> IrqLock<T> {
    /// Takes the lock, waiting for it with interrupts off.
    #[inline(always)]
    pub fn lock(&self) -> IrqGuard<'_, T> {
        let irq = irq::Section::enter();
        let section = preempt::Section::enter();
        let held = HeldRank::take(self.rank);
        count(&self.core);
        // SAFETY: the section lives in the guard, and the proof is lent only as long as the guard lives.
        let masked = unsafe { irq::Masked::assume() };
        IrqGuard {
            core: self.core.lock(),
            _held: held,
            _preempt: section,
            _irq: irq,
            masked,
        }
    }
}

/// Acquisition is one locked operation on a shared line; release is a plain store to the same line.
#[inline(always)]
fn count<T: ?Sized>(core: &Core<T>) {
    event::count(Event::Locked);
    event::shared_write(core);
}

impl<T: ?Sized> SpinGuard<'_, T> {
    /// The proof that preemption is off.
    #[inline(always)]
    pub fn pinned(&self) -> &preempt::Pinned {
        &self.pinned
    }
}

impl<T: ?Sized> IrqGuard<'_, T> {
    /// The proof that interrupts are off.
    #[inline(always)]
    pub fn masked(&self) -> &irq::Masked {
        &self.masked
    }
}

macro_rules! guard {
    ($guard:ident) => {
        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;
            #[inline(always)]
            fn deref(&self) -> &T {
                &self.core
            }
        }
        impl<T: ?Sized> DerefMut for $guard<'_, T> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut T {
                &mut self.core
            }
        }
    };
}
guard!(SpinGuard);
guard!(IrqGuard);

/// The ranks that a CPU holds, in order of acquisition. Per CPU; empty in release builds.
pub struct Held {
    #[cfg(debug_assertions)]
    ranks: [u8; 16],
    #[cfg(debug_assertions)]
    depth: usize,
}

impl Held {
    /// No lock held.
    pub const fn new() -> Held {
        Held {
            #[cfg(debug_assertions)]
            ranks: [0; 16],
            #[cfg(debug_assertions)]
            depth: 0,
        }
    }
}

impl Default for Held {
    fn default() -> Self {
        Held::new()
    }
}

/// Whether the order is not checked any more.
static UNCHECKED: AtomicBool = AtomicBool::new(false);

/// Ends the checking of the order: for the report of a failure, which may have come in the middle of anything.
pub fn stop_checking() {
    UNCHECKED.store(true, Ordering::Relaxed);
}

/// One entry of [`Held`], taken off on drop.
struct HeldRank {
    #[cfg(debug_assertions)]
    rank: u8,
}

impl HeldRank {
    #[inline(always)]
    fn take(rank: u8) -> HeldRank {
        // An interrupt between the two writes below would put its own rank where this one was written. (On the host an
        // interrupt comes at marked points only.)
        #[cfg(all(debug_assertions, target_os = "none"))]
        let _whole = irq::Section::enter();
        #[cfg(debug_assertions)]
        crate::local::with_local(|local| {
            let held = &mut local.held;
            if UNCHECKED.load(Ordering::Relaxed) {
                return;
            }
            if let Some(&above) = held.ranks[..held.depth].iter().find(|&&r| r >= rank) {
                panic!("lock order: rank {rank} wanted while rank {above} is held");
            }
            assert!(
                held.depth < held.ranks.len(),
                "lock order: more than {} locks held",
                held.ranks.len()
            );
            held.ranks[held.depth] = rank;
            held.depth += 1;
        });
        #[cfg(not(debug_assertions))]
        let _ = rank;
        HeldRank {
            #[cfg(debug_assertions)]
            rank,
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for HeldRank {
    fn drop(&mut self) {
        #[cfg(target_os = "none")]
        let _whole = irq::Section::enter();
        crate::local::with_local(|local| {
            let held = &mut local.held;
            // Guards may be dropped in another order than they were taken.
            let at = held.ranks[..held.depth].iter().rposition(|&r| r == self.rank);
            if at.is_none() && UNCHECKED.load(Ordering::Relaxed) {
                return;
            }
            let at = at.expect("lock order: a lock was let go that this CPU does not hold");
            held.ranks.copy_within(at + 1..held.depth, at);
            held.depth -= 1;
        });
    }
}
