//! The machine's memory control: the hierarchy of cgroups and the CPUs' stocks.
//!
//! **Lock order.** The list of cgroups (rank 60): held while one is added, and while a statistic is read, which takes
//! nothing. Charging takes no lock.

use crate::cgroup::{Cgroup, KmemId};
use crate::statistics::Item;
use crate::stock::Stock;
use crate::{Model, NoMemory, ObjCgroup, OverLimit, PAGE_SIZE, leak};
use alloc::vec::Vec;
use cpu::SpinLock;
use percpu::PerCpu;

/// Memory control of one machine. Lives forever.
pub struct Accounting {
    /// Pages charged at once: the model's. Immutable.
    batch: usize,
    /// Each used with its CPU's interrupts (or preemption) off.
    stocks: PerCpu<Stock>,
    /// Immutable.
    root: &'static Cgroup,
    /// All cgroups by number.
    cgroups: SpinLock<Vec<&'static Cgroup>>,
}

impl Accounting {
    /// Memory control with only the root cgroup, for model `M`.
    pub fn try_new<M: Model>() -> Result<&'static Accounting, NoMemory> {
        let root = Cgroup::try_new(KmemId(0), None)?;
        let mut cgroups = Vec::new();
        cgroups.try_reserve(8).map_err(|_| NoMemory)?;
        cgroups.push(root);
        leak(Accounting {
            batch: M::BATCH,
            stocks: PerCpu::try_new(|_| Stock::default())?,
            root,
            cgroups: SpinLock::new(60, cgroups),
        })
    }

    /// The root cgroup.
    pub fn root(&self) -> &'static Cgroup {
        self.root
    }

    /// Makes a cgroup below `parent`.
    pub fn create(&self, parent: &'static Cgroup) -> Result<&'static Cgroup, NoMemory> {
        // Made before the lock: the allocator's locks rank before the hierarchy's. The number is settled under it.
        let mut room = Vec::new();
        loop {
            let count = self.cgroups.lock().len();
            room.try_reserve(count + 1).map_err(|_| NoMemory)?;
            let id = KmemId(u16::try_from(count).map_err(|_| NoMemory)?);
            let cgroup = Cgroup::try_new(id, Some(parent))?;
            let objcg = ObjCgroup::try_new(cgroup)?;
            cgroup.objcg().store(Some(objcg));
            let mut cgroups = self.cgroups.lock();
            if cgroups.len() != count {
                continue;
            }
            room.extend_from_slice(&cgroups);
            room.push(cgroup);
            core::mem::swap(&mut *cgroups, &mut room);
            drop(cgroups);
            return Ok(cgroup);
        }
    }

    /// Removes a cgroup that has no task and no child: its objcg goes to the parent, with all that is still charged.
    /// `grace` waits for a grace period. The CPUs' stocks may hold some of its pages until they are drained.
    pub fn offline(&self, cgroup: &'static Cgroup, grace: impl FnOnce()) {
        let parent = cgroup.parent().expect("the root cgroup is never removed");
        if let Some(objcg) = cgroup.objcg().swap(None) {
            objcg.reparent(self, parent, grace);
        }
    }

    /// Bytes of `item` counted by `cgroup` and all cgroups below it: exact when nobody counts meanwhile.
    pub fn statistic(&self, cgroup: &Cgroup, item: Item) -> i64 {
        let cgroups = self.cgroups.lock();
        let below = cgroups
            .iter()
            .filter(|other| other.and_ancestors().any(|level| core::ptr::eq(level, cgroup)));
        below.map(|other| other.statistics().local(item)).sum()
    }

    /// Number of cgroups ever made, the root included: every [`KmemId`] is below.
    pub fn cgroups(&self) -> usize {
        self.cgroups.lock().len()
    }

    pub(crate) fn stocks(&self) -> &PerCpu<Stock> {
        &self.stocks
    }

    /// Charges pages to `cgroup` and its ancestors (Linux: `try_charge`). The root is never charged for itself.
    ///
    /// Fast path: from this CPU's page stock, interrupts off. Slow path: a batch from the hierarchy, the surplus into the
    /// stock; where a batch does not fit, the bare need.
    pub fn charge(&self, cgroup: &'static Cgroup, pages: usize) -> Result<(), OverLimit> {
        if cgroup.is_root() {
            return Ok(());
        }
        if pages <= self.batch && cpu::without_interrupts(|masked| self.stocks.get(masked).pages.consume(cgroup, pages))
        {
            return Ok(());
        }
        let batch = pages.max(self.batch);
        if batch > pages && cgroup.try_charge(batch).is_ok() {
            self.refill(cgroup, batch - pages);
            return Ok(());
        }
        cgroup.try_charge(pages)
    }

    /// Gives pages back to this CPU's page stock, and so to `cgroup` and its ancestors by the batch.
    pub fn uncharge(&self, cgroup: &'static Cgroup, pages: usize) {
        if !cgroup.is_root() {
            self.refill(cgroup, pages);
        }
    }

    fn refill(&self, cgroup: &'static Cgroup, pages: usize) {
        cpu::without_interrupts(|masked| self.stocks.get(masked).pages.refill(cgroup, pages, self.batch));
    }

    /// Charges pages for kernel objects: as [`charge`](Accounting::charge), and counted as kernel memory.
    pub fn charge_kernel_pages(&self, cgroup: &'static Cgroup, pages: usize) -> Result<(), OverLimit> {
        self.charge(cgroup, pages)?;
        cgroup.statistics().modify(Item::Kernel, (pages * PAGE_SIZE) as i64);
        Ok(())
    }

    /// Gives back what [`charge_kernel_pages`](Accounting::charge_kernel_pages) charged.
    pub fn uncharge_kernel_pages(&self, cgroup: &'static Cgroup, pages: usize) {
        cgroup.statistics().modify(Item::Kernel, -((pages * PAGE_SIZE) as i64));
        self.uncharge(cgroup, pages);
    }

    /// Charges the pages of a slab that belongs to `cgroup`'s copy of a cache (model `page`).
    pub fn charge_slab_pages(&self, cgroup: &'static Cgroup, pages: usize) -> Result<(), OverLimit> {
        self.charge_kernel_pages(cgroup, pages)?;
        self.count_slab_pages(cgroup, pages as i64);
        Ok(())
    }

    /// Gives back what [`charge_slab_pages`](Accounting::charge_slab_pages) charged.
    pub fn uncharge_slab_pages(&self, cgroup: &'static Cgroup, pages: usize) {
        self.count_slab_pages(cgroup, -(pages as i64));
        self.uncharge_kernel_pages(cgroup, pages);
    }

    fn count_slab_pages(&self, cgroup: &'static Cgroup, pages: i64) {
        let bytes = pages * PAGE_SIZE as i64;
        cpu::without_interrupts(|masked| {
            cgroup
                .statistics()
                .modify_batched(masked, cgroup, Item::SlabUnreclaimable, bytes);
        });
    }

    /// Gives back all that this CPU holds in its stocks. For limits, removal and the end of a run; other CPUs do it for
    /// themselves when asked.
    pub fn drain_this_cpu(&self) {
        cpu::without_interrupts(|masked| self.stocks.get(masked).drain(self));
    }
}
