//! A count that many CPUs change and few read (Linux: `percpu_counter`), in the variants that were tried for System V
//! messages.
//!
//! **Purpose.** A counter that every send and every receive changes is a cache line that every CPU writes. Per-CPU
//! counters leave the line alone: a CPU adds to a local part of its own, and folds it into the shared count when it has
//! grown to `batch`.
//!
//! **How it works.** A file a variant, and the boot chooses one: [`Atomic`] is one shared word; [`Batch`] folds at
//! `batch`; [`Local`] is [`Batch`] at the largest there is, 2^31 - 1, so that it folds as good as never. The local parts
//! are 32 bits, so that the fold is what keeps them from overflowing: an add must never let a part reach ±`batch`, whatever
//! an interrupt on the same CPU adds between its steps. There are two ways to that, and both are here: the part is
//! changed by a compare-and-exchange that notices what came between ([`Batch`], [`Local`]), or interrupts are off from the
//! read to the write ([`BatchMasked`], [`LocalMasked`]). What goes wrong without is in [`crate::races`].
//!
//! A counter holds the address of its variant's add, so that the choice costs each variant one indirect call.
//!
//! **How exact a read is.** With C CPUs, and parts below `batch` in either direction:
//!
//! | | `atomic` | `batch=N` | `local` |
//! |---|---|---|---|
//! | [`read`](PercpuCounter::read) is off by at most | 0 | C × (N - 1) | C × (2^31 - 2) |
//! | [`sum`](PercpuCounter::sum) is off by at most | 0 | what is added while it runs | the same |
//!
//! **Lock order.** The shared count's lock has rank 85, for fold, set and sum; nothing is taken under it. Interrupts are
//! off while it is held, since interrupt handlers add.

mod atomic;
mod batch;
mod local;

pub use atomic::Atomic;
pub use batch::{Batch, BatchMasked};
pub use local::{Local, LocalMasked};

use crate::slot::NoSpace;
use crate::word::PerCpuI32;
use core::cmp::Ordering as Order;
use core::fmt;
use cpu::IrqLock;
use cpu::atomic::{AtomicI64, Ordering};

/// How a counter counts.
pub(crate) trait Variant {
    /// Adds `amount`, which may be negative. Safe in tasks and in interrupt handlers.
    fn add(counter: &PercpuCounter, amount: i64);
}

/// A variant's add.
type Add = fn(&PercpuCounter, i64);

/// A variant by name, with its batch: what the boot chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// One shared word: [`Atomic`].
    Atomic,
    /// Local parts below this, from 1: [`Batch`].
    Batch(i32),
    /// The same with interrupts off: [`BatchMasked`].
    BatchMasked(i32),
    /// Local parts as large as may be: [`Local`].
    Local,
    /// The same with interrupts off: [`LocalMasked`].
    LocalMasked,
}

impl Counting {
    /// The names that [`parse`](Counting::parse) reads.
    pub const NAMES: &str = "atomic, batch=N, batch-irq=N, local and local-irq (N from 1 to 2147483647)";

    /// Reads `atomic`, `batch=N`, `batch-irq=N`, `local` or `local-irq`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Counting> {
        let batch = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|&batch| digits && batch > 0)
        };
        Some(match text {
            "atomic" => Counting::Atomic,
            "local" => Counting::Local,
            "local-irq" => Counting::LocalMasked,
            _ => match text.split_once('=')? {
                ("batch", text) => Counting::Batch(batch(text)?),
                ("batch-irq", text) => Counting::BatchMasked(batch(text)?),
                _ => return None,
            },
        })
    }

    /// Its add, and its batch.
    fn variant(self) -> (Add, i32) {
        match self {
            Counting::Atomic => (Atomic::add, 1),
            Counting::Batch(batch) => (Batch::add, batch),
            Counting::BatchMasked(batch) => (BatchMasked::add, batch),
            Counting::Local => (Local::add, local::BATCH),
            Counting::LocalMasked => (LocalMasked::add, local::BATCH),
        }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counting::Atomic => f.write_str("atomic"),
            Counting::Batch(batch) => write!(f, "batch={batch}"),
            Counting::BatchMasked(batch) => write!(f, "batch-irq={batch}"),
            Counting::Local => f.write_str("local"),
            Counting::LocalMasked => f.write_str("local-irq"),
        }
    }
}

/// A signed 64-bit count. Dropping it gives its local parts back (Linux: `percpu_counter_destroy`).
///
/// Two fit into a cache line, as the two atomics that they stand for do.
#[repr(align(32))]
pub struct PercpuCounter {
    /// The variant's add. Immutable.
    add: Add,
    /// What has been folded; in [`Atomic`] everything. Written under `fold` by the others.
    shared: AtomicI64,
    /// What has not. Per CPU.
    parts: PerCpuI32,
    /// A part stays below this in either direction; 1, which leaves nothing in a part, where there is one shared word.
    /// Immutable.
    batch: i32,
    fold: IrqLock<()>,
}

const _: () = assert!(size_of::<PercpuCounter>() == 32);

impl PercpuCounter {
    /// A counter at `amount`.
    ///
    /// # Errors
    /// The CPUs' areas are full.
    ///
    /// # Panics
    /// When the batch is below 1.
    pub fn try_new(counting: Counting, amount: i64) -> Result<Self, NoSpace> {
        let (add, batch) = counting.variant();
        assert!(batch > 0, "a batch is at least 1");
        Ok(PercpuCounter {
            add,
            shared: AtomicI64::new(amount),
            parts: PerCpuI32::try_new()?,
            batch,
            fold: IrqLock::new(85, ()),
        })
    }

    /// Adds `amount`, which may be negative. Sums beyond 64 bits wrap. In tasks and in interrupt handlers.
    #[inline(always)]
    pub fn add(&self, amount: i64) {
        (self.add)(self, amount);
    }

    /// Where the machine code of a variant's add is, with perhaps what comes behind it: the addresses at which to
    /// interrupt it, for a show that interrupts it everywhere.
    #[cfg(target_os = "none")]
    pub fn add_code(counting: Counting) -> core::ops::Range<usize> {
        let (add, _) = counting.variant();
        let start = add as usize;
        start..start + 256
    }

    /// The shared count alone: one load. Off by at most [`error`](PercpuCounter::error).
    #[inline]
    pub fn read(&self) -> i64 {
        self.shared.load(Ordering::Relaxed)
    }

    /// How far [`read`](PercpuCounter::read) may be off: CPUs × (batch - 1).
    pub fn error(&self) -> i64 {
        cpu::possible() as i64 * (i64::from(self.batch) - 1)
    }

    /// The shared count and all parts: exact when nobody adds meanwhile, else off by at most what is added during the
    /// call. It holds the lock, so that no fold is missed or seen twice.
    pub fn sum(&self) -> i64 {
        let _fold = self.fold.lock();
        self.read().wrapping_add(self.parts.sum())
    }

    /// Makes the sum `amount`. An add that runs on another CPU meanwhile comes before it or after it.
    ///
    /// It changes the shared count only, so that what the parts hold is part of `amount`: no CPU's part is written from
    /// afar.
    pub fn set(&self, amount: i64) {
        let _fold = self.fold.lock();
        let shared = amount.wrapping_sub(self.parts.sum());
        self.shared.store(shared, Ordering::Relaxed);
    }

    /// Compares the count with `other`: by [`read`](PercpuCounter::read) where that is farther away than it can be off,
    /// else by [`sum`](PercpuCounter::sum). So right as a sum is.
    pub fn compare(&self, other: i64) -> Order {
        let rough = self.read();
        match rough.abs_diff(other) > self.error().unsigned_abs() {
            true => rough.cmp(&other),
            false => self.sum().cmp(&other),
        }
    }

    /// Moves this CPU's part and `amount` to the shared count. The part is read and emptied under the lock, with
    /// interrupts off: whatever it was when the caller decided to fold, what it is now is what moves.
    #[cold]
    fn fold(&self, amount: i64) {
        let fold = self.fold.lock();
        let part = i64::from(self.parts.load());
        self.parts.set(0, fold.masked());
        let sum = self.read().wrapping_add(part).wrapping_add(amount);
        self.shared.store(sum, Ordering::Relaxed);
    }
}

/// What a part becomes by `amount`; `None` where that is ±`batch` or beyond.
#[inline(always)]
fn grown(part: i32, amount: i64, batch: i32) -> Option<i32> {
    let sum = i64::from(part).wrapping_add(amount);
    // From -(batch - 1) to batch - 1, in one comparison.
    let most = i64::from(batch) - 1;
    (sum.wrapping_add(most) as u64 <= 2 * most as u64).then_some(sum as i32)
}
