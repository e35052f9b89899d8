//! The adds that went wrong. Kept to be shown, and used by nothing else.
//!
//! Each was proposed, or in use, when System V messages got their per-CPU counters, and each is right but for an interrupt
//! on the same CPU that adds to the same counter. [`CASES`] says where it must come and what it must add; the machine is
//! the same as that of [`crate::counter`]: a shared count under a lock, and a local part of 32 bits.
//!
//! An interrupt comes at a label in the code: on bare metal a debug register holds its address ([`Case::address`]); on the
//! host it is a [`cpu::point`].

// The address of a label is wanted before the code runs, so it needs a name; each function here is compiled once.
#![allow(named_asm_labels)]

use crate::counter::{Counting, PercpuCounter};
use crate::slot::NoSpace;
use crate::word::PerCpuI32;
use cpu::IrqLock;

/// The batch of all cases: the largest, at which the parts are as near to overflow as they may be.
const BATCH: i64 = i32::MAX as i64;
/// One less, the largest that a part may hold.
const FULL: i64 = BATCH - 1;

/// A place where an interrupt may come: a label on bare metal, a point on the host.
macro_rules! label {
    ($name:literal) => {
        cpu::point($name);
        #[cfg(target_os = "none")]
        // SAFETY: no instruction. That it may touch memory keeps the accesses around it in their order.
        unsafe {
            core::arch::asm!(
                concat!(".global ", $name),
                concat!($name, ":"),
                options(nostack, preserves_flags)
            );
        }
    };
}

/// The address of a label.
#[cfg(target_os = "none")]
macro_rules! address {
    ($name:ident) => {{
        unsafe extern "C" {
            static $name: u8;
        }
        &raw const $name as usize
    }};
}

/// A counter whose adds are not safe.
pub struct Racy {
    shared: IrqLock<i64>,
    parts: PerCpuI32,
}

impl Racy {
    /// A counter whose part, on this CPU, is `part`.
    ///
    /// # Errors
    /// The CPUs' areas are full.
    pub fn try_new(part: i32) -> Result<Racy, NoSpace> {
        let racy = Racy {
            shared: IrqLock::new(85, 0),
            parts: PerCpuI32::try_new()?,
        };
        racy.parts.add_wrapping(part);
        Ok(racy)
    }

    /// The shared count and all parts.
    pub fn sum(&self) -> i64 {
        let shared = self.shared.lock();
        *shared + self.parts.sum()
    }

    /// Reads the part, decides, and then acts on what it has read. Linux's add before the thread.
    ///
    /// Interrupted once it has decided to fold, it takes from the part what the part was: below -2^31, where the interrupt
    /// has made it small. Interrupted once it has decided not to fold, it adds to what is no longer small: above 2^31 - 1.
    #[inline(never)]
    pub fn add_by_what_was_read(&self, amount: i64) {
        cpu::without_preemption(|_| {
            let part = i64::from(self.parts.load());
            let sum = part + amount;
            if sum.abs() >= BATCH {
                label!("race_decided_to_fold");
                let mut shared = self.shared.lock();
                *shared += sum;
                self.parts.add_wrapping(-part as i32);
            } else {
                label!("race_decided_to_add");
                self.parts.add_wrapping(amount as i32);
            }
        });
    }

    /// Folds under the lock and empties the part when the lock has been let go, as was proposed to shorten the locked
    /// section. Interrupted in between, what the interrupt added to the part is emptied with it.
    #[inline(never)]
    pub fn add_and_empty_unlocked(&self, amount: i64) {
        cpu::without_preemption(|_| {
            let sum = i64::from(self.parts.load()) + amount;
            if sum.abs() >= BATCH {
                *self.shared.lock() += sum;
                label!("race_folded");
                self.parts.overwrite(0);
            } else {
                self.parts.add_wrapping(amount as i32);
            }
        });
    }

    /// Adds to the part and never folds, as the first three versions did: no interrupt is needed, it only takes time.
    #[inline(never)]
    pub fn add_never_folding(&self, amount: i64) {
        label!("race_about_to_add");
        self.parts.add_wrapping(amount as i32);
    }
}

/// A race: an add, and the interrupt that breaks it.
pub struct Case {
    /// What becomes of the count: `underflow`, `overflow`, `lost`, or `unfolded`.
    pub name: &'static str,
    /// The unsafe add.
    pub add: fn(&Racy, i64),
    /// Where the interrupt comes, by name.
    pub label: &'static str,
    /// What this CPU's part is at first.
    pub part: i32,
    /// What the interrupted add adds.
    pub amount: i64,
    /// What the interrupt adds, by the same add.
    pub interrupt: i64,
}

/// All of them.
pub const CASES: [Case; 4] = [
    Case {
        name: "underflow",
        add: Racy::add_by_what_was_read,
        label: "race_decided_to_fold",
        part: FULL as i32,
        amount: 1,
        interrupt: -2 * FULL,
    },
    Case {
        name: "overflow",
        add: Racy::add_by_what_was_read,
        label: "race_decided_to_add",
        part: 0,
        amount: FULL,
        interrupt: FULL,
    },
    Case {
        name: "lost",
        add: Racy::add_and_empty_unlocked,
        label: "race_folded",
        part: FULL as i32,
        amount: 1,
        // The part is FULL still, so it must take away to stay in it.
        interrupt: -1000,
    },
    Case {
        name: "unfolded",
        add: Racy::add_never_folding,
        label: "race_about_to_add",
        part: FULL as i32,
        amount: 1000,
        interrupt: 0,
    },
];

impl Case {
    /// What the count must be in the end.
    pub fn right(&self) -> i64 {
        i64::from(self.part) + self.amount + self.interrupt
    }

    /// The address of the label.
    #[cfg(target_os = "none")]
    pub fn address(&self) -> usize {
        match self.label {
            "race_decided_to_fold" => address!(race_decided_to_fold),
            "race_decided_to_add" => address!(race_decided_to_add),
            "race_folded" => address!(race_folded),
            "race_about_to_add" => address!(race_about_to_add),
            other => unreachable!("{other} is no label"),
        }
    }

    /// A safe counter in the same state: sum and part as the case begins with.
    ///
    /// # Errors
    /// The CPUs' areas are full.
    pub fn safe(&self, counting: Counting) -> Result<PercpuCounter, NoSpace> {
        let counter = PercpuCounter::try_new(counting, 0)?;
        counter.add(self.part.into());
        Ok(counter)
    }
}
