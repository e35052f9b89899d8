//! What a CPU holds back: pages of one cgroup, bytes of one objcg.
//!
//! A charge to the hierarchy is a locked add a level. So a CPU charges [`crate::Model::BATCH`] pages at once and serves
//! the next requests of the same cgroup from its page stock; and a page's worth of bytes at once for objects, from its
//! byte stock. A stock holds for one owner: another owner's request drains it first.
//!
//! A page stock is used with interrupts off. How a byte stock is guarded, and how many a CPU has, is where the models
//! differ: see [`ByteStocks`] and [`Single`], [`Split`].

use crate::accounting::Accounting;
use crate::statistics::Item;
use crate::{Cgroup, ObjCgroup, PAGE_SIZE};
use core::cell::Cell;
use cpu::atomic::Ordering;
use cpu::event::{self, Event};

/// The stocks of one CPU.
#[derive(Default)]
pub struct Stock {
    /// Interrupts off.
    pub(crate) pages: PageStock,
    /// The byte stock of task context, or of all contexts ([`Single`]).
    task: ByteStock,
    /// The byte stock of interrupt context ([`Split`]).
    interrupt: ByteStock,
}

/// Pages charged in advance to one cgroup.
#[derive(Default)]
pub(crate) struct PageStock {
    /// Whose; with a reference.
    cgroup: Cell<Option<&'static Cgroup>>,
    pages: Cell<usize>,
}

impl PageStock {
    /// Serves a charge. False when the stock is another's or too small.
    #[inline]
    pub(crate) fn consume(&self, cgroup: &'static Cgroup, pages: usize) -> bool {
        let hit = self.cgroup.get().is_some_and(|cached| core::ptr::eq(cached, cgroup)) && self.pages.get() >= pages;
        if hit {
            event::count(Event::Charge);
            self.pages.set(self.pages.get() - pages);
        }
        hit
    }

    /// Takes charged pages in, draining another owner's first; more than `batch` go back to the hierarchy.
    pub(crate) fn refill(&self, cgroup: &'static Cgroup, pages: usize, batch: usize) {
        event::count(Event::Charge);
        if self.cgroup.get().is_none_or(|cached| !core::ptr::eq(cached, cgroup)) {
            self.drain();
            cgroup.get();
            self.cgroup.set(Some(cgroup));
        }
        self.pages.set(self.pages.get() + pages);
        if self.pages.get() > batch {
            self.drain();
        }
    }

    /// Gives everything back to the hierarchy.
    pub(crate) fn drain(&self) {
        if let Some(cgroup) = self.cgroup.take() {
            let pages = self.pages.take();
            if pages > 0 {
                cgroup.uncharge(pages);
            }
            cgroup.put();
        }
    }
}

/// Bytes charged in advance to one objcg, and statistics not yet passed on.
#[derive(Default)]
pub struct ByteStock {
    /// Whose; with a reference.
    objcg: Cell<Option<&'static ObjCgroup>>,
    bytes: Cell<usize>,
    /// Change of [`Item::SlabUnreclaimable`] that the objcg's cgroup has not seen yet (models that batch statistics).
    slab_bytes: Cell<i64>,
}

impl ByteStock {
    #[inline(always)]
    fn is_of(&self, objcg: &'static ObjCgroup) -> bool {
        self.objcg.get().is_some_and(|cached| core::ptr::eq(cached, objcg))
    }

    /// Serves a charge of bytes. False when the stock is another's or too small.
    #[inline(always)]
    fn consume(&self, objcg: &'static ObjCgroup, bytes: usize) -> bool {
        let hit = self.is_of(objcg) && self.bytes.get() >= bytes;
        if hit {
            event::count(Event::Charge);
            self.bytes.set(self.bytes.get() - bytes);
        }
        hit
    }

    /// Takes charged bytes in; whole pages go back when there is more than one.
    #[inline(always)]
    fn refill(&self, accounting: &Accounting, objcg: &'static ObjCgroup, bytes: usize) {
        event::count(Event::Charge);
        if !self.is_of(objcg) {
            self.adopt(accounting, objcg);
        }
        self.bytes.set(self.bytes.get() + bytes);
        if self.bytes.get() > PAGE_SIZE {
            self.give_back_pages(accounting, objcg);
        }
    }

    /// Makes the stock `objcg`'s.
    #[cold]
    fn adopt(&self, accounting: &Accounting, objcg: &'static ObjCgroup) {
        self.drain(accounting);
        objcg.get();
        self.objcg.set(Some(objcg));
        self.bytes.set(objcg.leftover().swap(0, Ordering::AcqRel));
    }

    /// Uncharges the whole pages in the stock; the rest stays.
    #[cold]
    fn give_back_pages(&self, accounting: &Accounting, objcg: &'static ObjCgroup) {
        let bytes = self.bytes.get();
        self.bytes.set(bytes % PAGE_SIZE);
        accounting.uncharge_kernel_pages(objcg.cgroup(), bytes / PAGE_SIZE);
    }

    /// Counts a change of slab bytes, passing it on when it has grown past a page.
    #[inline(always)]
    fn count_slab_bytes(&self, accounting: &Accounting, objcg: &'static ObjCgroup, delta: i64) {
        if !self.is_of(objcg) {
            self.adopt(accounting, objcg);
        }
        let sum = self.slab_bytes.get() + delta;
        self.slab_bytes.set(sum);
        if sum.unsigned_abs() as usize > PAGE_SIZE {
            self.pass_on_statistics(objcg);
        }
    }

    #[cold]
    fn pass_on_statistics(&self, objcg: &'static ObjCgroup) {
        let delta = self.slab_bytes.take();
        cpu::rcu_read(|_| objcg.cgroup().statistics().modify(Item::SlabUnreclaimable, delta));
    }

    /// Gives everything back: pages to the cgroup, the rest to the objcg, statistics to the cgroup.
    pub(crate) fn drain(&self, accounting: &Accounting) {
        let Some(objcg) = self.objcg.take() else { return };
        let bytes = self.bytes.take();
        if bytes >= PAGE_SIZE {
            accounting.uncharge_kernel_pages(objcg.cgroup(), bytes / PAGE_SIZE);
        }
        objcg.leave(accounting, bytes % PAGE_SIZE);
        if self.slab_bytes.get() != 0 {
            self.pass_on_statistics(objcg);
        }
        objcg.put(accounting);
    }
}

/// How a model reaches the byte stock of the moment.
pub(crate) trait ByteStocks {
    /// Runs `f` on the byte stock that the caller's context uses, guarded as the model guards it.
    fn with<R>(accounting: &Accounting, f: impl FnOnce(&ByteStock) -> R) -> R;
}

/// One stock for all contexts, interrupts off around each access.
pub(crate) struct Single;

impl ByteStocks for Single {
    #[inline(always)]
    fn with<R>(accounting: &Accounting, f: impl FnOnce(&ByteStock) -> R) -> R {
        cpu::without_interrupts(|masked| f(&accounting.stocks().get(masked).task))
    }
}

/// One stock for task context, only preemption off; one for interrupts, which are off there already.
pub(crate) struct Split;

impl ByteStocks for Split {
    #[inline(always)]
    fn with<R>(accounting: &Accounting, f: impl FnOnce(&ByteStock) -> R) -> R {
        if cpu::in_task() {
            cpu::without_preemption(|pinned| f(&accounting.stocks().get(pinned).task))
        } else {
            cpu::without_interrupts(|masked| f(&accounting.stocks().get(masked).interrupt))
        }
    }
}

/// Charges `bytes` to `objcg`: from the byte stock, or a page at a time from the cgroup (Linux: `obj_cgroup_charge`).
#[inline(always)]
pub(crate) fn charge<S: ByteStocks>(
    accounting: &Accounting,
    objcg: &'static ObjCgroup,
    bytes: usize,
) -> Result<(), crate::OverLimit> {
    if S::with(accounting, |stock| stock.consume(objcg, bytes)) {
        return Ok(());
    }
    charge_pages::<S>(accounting, objcg, bytes)
}

/// Slow path of [`charge`]: whole pages from the cgroup, the rest into the byte stock.
#[cold]
#[inline(never)]
fn charge_pages<S: ByteStocks>(
    accounting: &Accounting,
    objcg: &'static ObjCgroup,
    bytes: usize,
) -> Result<(), crate::OverLimit> {
    let cgroup = cpu::rcu_read(|_| {
        let cgroup = objcg.cgroup();
        cgroup.get();
        cgroup
    });
    let pages = bytes.div_ceil(PAGE_SIZE);
    let charged = accounting.charge_kernel_pages(cgroup, pages);
    if charged.is_ok() && pages * PAGE_SIZE > bytes {
        uncharge::<S>(accounting, objcg, pages * PAGE_SIZE - bytes);
    }
    cgroup.put();
    charged
}

/// Gives `bytes` of `objcg` back to the byte stock (Linux: `obj_cgroup_uncharge`).
#[inline(always)]
pub(crate) fn uncharge<S: ByteStocks>(accounting: &Accounting, objcg: &'static ObjCgroup, bytes: usize) {
    S::with(accounting, |stock| stock.refill(accounting, objcg, bytes));
}

/// Counts a change of `objcg`'s slab bytes in the byte stock, to be passed on by the page (Linux 5.14 on:
/// `mod_objcg_state`).
#[inline(always)]
pub(crate) fn count_slab_bytes<S: ByteStocks>(accounting: &Accounting, objcg: &'static ObjCgroup, delta: i64) {
    S::with(accounting, |stock| stock.count_slab_bytes(accounting, objcg, delta));
}

impl Stock {
    /// Gives back all that this CPU holds, in the order of use: bytes become pages, pages go to the hierarchy. Interrupts
    /// off.
    pub(crate) fn drain(&self, accounting: &Accounting) {
        self.task.drain(accounting);
        self.interrupt.drain(accounting);
        self.pages.drain();
    }
}
