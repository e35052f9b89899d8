//! The statistics of one cgroup (Linux: `memory.stat`).
//!
//! Each item is kept for the cgroup and for the cgroup on its memory node, as Linux keeps it (this kernel has one node).
//! Two ways of counting, for the two designs that Linux had:
//!
//! * [`Statistics::modify_batched`] (up to 5.12): a local count, and a batch that is folded into a number of the cgroup
//!   and of each ancestor when it passes a threshold. Reading that number is cheap and off by at most the threshold
//!   times the number of CPUs, for each cgroup below.
//! * [`Statistics::modify`] (5.13 on): only the local count; a reader adds up.
//!
//! [`Statistics::local`] is exact in both when nobody counts meanwhile.

use crate::{Cgroup, NoMemory, PAGE_SIZE};
use core::cell::Cell;
use cpu::Masked;
use cpu::atomic::{AtomicI64, Ordering};
use percpu::{PerCpu, PerCpuI64};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Bytes of slab objects (or, under the model `page`, of slab pages) charged to the cgroup.
    SlabUnreclaimable,
    /// Bytes of kernel memory charged to the page counters, those held back in byte stocks included.
    Kernel,
}
const ITEMS: usize = 2;

/// Where a batch is folded: when it passes this many bytes (Linux: `MEMCG_CHARGE_BATCH` pages for byte items).
const THRESHOLD: i64 = (32 * PAGE_SIZE) as i64;

/// One item.
struct Tally {
    /// What each CPU added.
    local: PerCpuI64,
    /// What each CPU has not folded yet. Interrupts off.
    batch: PerCpu<Cell<i64>>,
    /// What was folded, by this cgroup and those below.
    folded: AtomicI64,
}

impl Tally {
    fn try_new() -> Result<Self, NoMemory> {
        Ok(Tally {
            local: PerCpuI64::try_new()?,
            batch: PerCpu::try_new(|_| Cell::new(0))?,
            folded: AtomicI64::new(0),
        })
    }
    /// Adds to the local count and the batch. Gives what is to be folded.
    fn add(&self, masked: &Masked, delta: i64) -> Option<i64> {
        self.local.add(delta);
        let batch = self.batch.get(masked);
        let sum = batch.get() + delta;
        let fold = sum.abs() > THRESHOLD;
        batch.set(if fold { 0 } else { sum });
        fold.then_some(sum)
    }
}

/// The statistics of a cgroup.
pub struct Statistics {
    cgroup: [Tally; ITEMS],
    node: [Tally; ITEMS],
}

impl Statistics {
    pub(crate) fn try_new() -> Result<Self, NoMemory> {
        Ok(Statistics {
            cgroup: [Tally::try_new()?, Tally::try_new()?],
            node: [Tally::try_new()?, Tally::try_new()?],
        })
    }

    /// Counts the way of Linux up to 5.12: for `cgroup`, whose statistics these are, and by batches for its ancestors.
    pub(crate) fn modify_batched(&self, masked: &Masked, cgroup: &Cgroup, item: Item, delta: i64) {
        let select: [fn(&Statistics) -> &[Tally; ITEMS]; 2] = [|s| &s.cgroup, |s| &s.node];
        for record in select {
            if let Some(fold) = record(self)[item as usize].add(masked, delta) {
                for level in cgroup.and_ancestors() {
                    record(level.statistics())[item as usize]
                        .folded
                        .fetch_add(fold, Ordering::Relaxed);
                }
            }
        }
    }

    /// Counts the way of Linux from 5.13 on.
    pub(crate) fn modify(&self, item: Item, delta: i64) {
        self.cgroup[item as usize].local.add(delta);
        self.node[item as usize].local.add(delta);
    }

    /// What this cgroup itself counts, without those below.
    pub fn local(&self, item: Item) -> i64 {
        self.cgroup[item as usize].local.sum()
    }

    /// The cheap number of the batched way, with those below; see the module for its error.
    pub fn folded(&self, item: Item) -> i64 {
        self.cgroup[item as usize].folded.load(Ordering::Relaxed)
    }
}
