//! What a CPU has of a cache: the fast paths, and what stands behind them.
//!
//! **Purpose.** Most allocations and frees touch nothing but this CPU's own memory, take no lock, execute no locked
//! instruction and mask nothing; interrupt handlers may do the same in between.
//!
//! **How it works.** Each CPU has, for each cache:
//! * the freelist: the first of the free objects of its current slab, in a pair with a transaction number;
//! * the current slab page, which knows the CPU's number ([`Page::is_current_of`]);
//! * a list of partial slab pages, frozen for this CPU.
//!
//! An allocation pops the freelist; a free pushes to it when the object's page is this CPU's current slab. Both are one
//! compare-and-exchange of head and number. Every other change (all in this file, with interrupts off) moves the number
//! on, so whoever was interrupted between its reading and its exchange is refused and tries again.
//!
//! When the freelist is empty, in this order: the current page's own freelist (what other CPUs freed), this CPU's partial
//! list, the node's partial list, a new slab page.
//!
//! **Lock order.** Takes a node's lock (50) and pages' locks (55), never one of them around the other here.

use crate::node::PageChain;
use crate::page::Page;
use crate::taken::{Taken, read_next};
use crate::{AllocError, Cache};
use core::sync::atomic::{AtomicU32, Ordering};
use cpu::{AtomicRef, Masked};
use percpu::PerCpuPair;

/// One CPU's part of a cache, but the freelist. Changed by its own CPU only, with interrupts off; atomic because other
/// CPUs read it for statistics.
pub(crate) struct CpuSlab {
    /// The page that the freelist's objects belong to.
    current: AtomicRef<Page>,
    /// Partial pages, linked through `next`.
    partial: AtomicRef<Page>,
    /// Their number.
    partial_count: AtomicU32,
}

impl CpuSlab {
    pub(crate) const fn new() -> CpuSlab {
        CpuSlab {
            current: AtomicRef::none(),
            partial: AtomicRef::none(),
            partial_count: AtomicU32::new(0),
        }
    }

    fn push_partial(&self, page: &'static Page) {
        page.set_next(self.partial.load());
        self.partial.store_private(Some(page));
        self.partial_count.store(self.partial_count() + 1, Ordering::Relaxed);
    }
    fn pop_partial(&self) -> Option<&'static Page> {
        let page = self.partial.load()?;
        self.partial.store_private(page.next());
        self.partial_count.store(self.partial_count() - 1, Ordering::Relaxed);
        page.set_next(None);
        Some(page)
    }
    fn partial_count(&self) -> u32 {
        self.partial_count.load(Ordering::Relaxed)
    }
}

impl Cache {
    /// Takes an object, unaccounted.
    #[inline(always)]
    pub(crate) fn take(&'static self) -> Result<Taken, AllocError> {
        let object = loop {
            let seen = self.freelist.load();
            if seen.0 == 0 {
                return self.take_slow();
            }
            // SAFETY: `seen.0` was the head of this cache's freelist on some CPU: the address of an object of ours, in
            // memory that stays mapped. Meanwhile an interrupt, or another task on this CPU, may have taken the object
            // and written anything there; or we run on another CPU by now. In each of these cases the transaction
            // number of the CPU that we exchange on is not `seen.1` any more: the exchange is refused, and what was
            // read here is thrown away.
            let next = unsafe { read_next(seen.0) };
            if self.freelist.compare_exchange(seen, next) {
                // SAFETY: the exchange took the object off the freelist, so it is ours alone.
                break unsafe { Taken::new(seen.0) };
            }
        };
        object.mark_taken(self);
        Ok(object)
    }

    /// Puts an object back to this CPU's freelist, if its page is the current slab; else gives it back to the caller.
    ///
    /// Why the page's word for 'whose current slab' may be read apart from the pair: the pair is read first. If the
    /// page is the current slab of the CPU whose number we read, and ceases to be before the exchange, that CPU has
    /// moved its number on in doing so (`activate`, `release_current`), and the exchange is refused. If we were moved to
    /// another CPU in between, that one's numbers never equal ours.
    #[inline(always)]
    pub(crate) fn put_fast(&'static self, page: &'static Page, object: Taken) -> Result<(), Taken> {
        page.mark_free(self, object.address());
        loop {
            let seen = self.freelist.load();
            if !page.is_current_of(seen.1 % PerCpuPair::STEP) {
                return Err(object);
            }
            // The object is still in our hands: writing its link harms nobody if the exchange is refused.
            let address = object.link(seen.0);
            if self.freelist.compare_exchange(seen, address) {
                return Ok(());
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&'static self) -> Result<Taken, AllocError> {
        let refilled = cpu::without_interrupts(|masked| self.refill(masked));
        let object = match refilled {
            Some(object) => object,
            None => {
                // With interrupts as they were: the page source and the charge have locks of their own.
                let page = self.new_slab()?;
                cpu::without_interrupts(|masked| match self.refill(masked) {
                    // An interrupt, or another task, was here meanwhile.
                    Some(object) => {
                        self.node.add_new(page);
                        object
                    }
                    None => {
                        let mut locked = page.lock();
                        locked.set_frozen(true);
                        let objects = locked.take_all();
                        drop(locked);
                        self.activate(masked, page, objects)
                    }
                })
            }
        };
        object.mark_taken(self);
        Ok(object)
    }

    /// An object from what this CPU and the node have.
    fn refill(&'static self, masked: &Masked) -> Option<Taken> {
        let cpu = self.cpu.get(masked);
        let head = self.freelist.load().0;
        if head != 0 {
            // An interrupt refilled it between the look of the fast path and the masking.
            return Some(self.pop_list(head));
        }
        if let Some(page) = cpu.current.load() {
            let mut locked = page.lock();
            let objects = locked.take_all();
            if objects != 0 {
                drop(locked);
                return Some(self.pop_list(objects));
            }
            // Full: it goes on no list. Nobody's current slab before it is anybody's to freeze, that is, before the
            // page's lock is let go.
            page.set_current_of(None);
            locked.set_frozen(false);
            drop(locked);
            cpu.current.store_private(None);
            self.freelist.swap(0);
        }
        if let Some(page) = cpu.pop_partial() {
            let objects = page.lock().take_all();
            return Some(self.activate(masked, page, objects));
        }
        let mut first = None;
        self.node.take(
            |page, objects| first = Some((page, objects)),
            |page| {
                cpu.push_partial(page);
                cpu.partial_count() <= self.cpu_partial / 2
            },
        );
        let (page, objects) = first?;
        Some(self.activate(masked, page, objects))
    }

    /// Makes a frozen page the current slab, with `objects` of it as the freelist but the first, which is the result.
    fn activate(&'static self, masked: &Masked, page: &'static Page, objects: usize) -> Taken {
        self.cpu.get(masked).current.store_private(Some(page));
        page.set_current_of(Some(cpu::id()));
        self.pop_list(objects)
    }

    /// Makes the list that starts at `objects` the freelist, but for its first object, which is the result. The list
    /// was taken for this CPU, which has interrupts off.
    fn pop_list(&'static self, objects: usize) -> Taken {
        // SAFETY: the list is this CPU's alone, so its first object's word is a link...
        let rest = unsafe { read_next(objects) };
        self.freelist.swap(rest);
        // SAFETY: ... and the object is on no list any more.
        unsafe { Taken::new(objects) }
    }

    /// Puts a page that the calling CPU has just frozen on its partial list. When that is long, all that was on it goes
    /// to the node first.
    pub(crate) fn keep_partial(&'static self, page: &'static Page, empty: &mut PageChain) {
        cpu::without_interrupts(|masked| {
            let cpu = self.cpu.get(masked);
            if cpu.partial_count() >= self.cpu_partial {
                self.release_partial(cpu, empty);
            }
            cpu.push_partial(page);
        });
    }

    fn release_partial(&'static self, cpu: &CpuSlab, empty: &mut PageChain) {
        while let Some(page) = cpu.pop_partial() {
            self.node.unfreeze(page, empty, |_| ());
        }
    }

    /// Lets go of all that this CPU has of the cache.
    pub(crate) fn flush_this_cpu(&'static self) {
        let mut empty = PageChain::new();
        cpu::without_interrupts(|masked| {
            let cpu = self.cpu.get(masked);
            // The number moves on here: a fast path that was interrupted is refused from now on.
            let objects = self.freelist.swap(0);
            if let Some(page) = cpu.current.load() {
                cpu.current.store_private(None);
                page.set_current_of(None);
                self.node.unfreeze(page, &mut empty, |locked| {
                    // SAFETY: the list was taken out of this CPU's pair; its objects are of the current page.
                    unsafe { locked.put_back(objects) };
                });
            }
            self.release_partial(cpu, &mut empty);
        });
        Cache::discard(empty);
    }

    /// Free objects that the CPUs have, seen from outside: exact when all is quiet.
    pub(crate) fn free_on_cpus(&self) -> usize {
        let mut free = 0;
        for id in 0..cpu::possible() {
            let (Some(cpu), Some(head)) = (self.cpu.on(id), self.freelist.value_on(id)) else {
                continue;
            };
            if let Some(page) = cpu.current.load().filter(|page| page.belongs_to(self)) {
                free += page.lock().free() + page.count_list(head, self.size());
            }
            let mut at = cpu.partial.load();
            for _ in 0..=self.cpu_partial {
                let Some(page) = at.filter(|page| page.belongs_to(self)) else {
                    break;
                };
                free += page.lock().free();
                at = page.next();
            }
        }
        free
    }
}

impl Page {
    /// Gives the block back to the page source: it has no objects in use and is on no list.
    pub(crate) fn give_back(&'static self) {
        // SAFETY: the callers (new_slab before the page is seen by anybody, discard with pages from a PageChain, the
        // free of a large allocation) are the only ones that have the page, and none of its objects is in use.
        unsafe { self.free() };
    }
}
