//! Partial lists: slab pages that have free objects and no CPU.
//!
//! **Purpose.** Where slab pages wait between CPUs, and what a free does that does not meet its page on its own CPU.
//!
//! **How it works.** A slab page is in one of these states, told by `frozen` and its freelist:
//!
//! | state | frozen | free objects on its own list | on which list |
//! |---|---|---|---|
//! | current slab of a CPU | yes | those that others freed | none |
//! | on a CPU's partial list | yes | some | that CPU's |
//! | partial | no | some | the node's |
//! | full | no | none | none |
//!
//! A free to a full page freezes it for the freeing CPU's partial list, so that no list lock is needed for the first
//! object that comes back. A free that empties a page of the node's list takes the list's lock and gives the page back,
//! unless the list has only `min_partial` pages.
//!
//! **Lock order.** The list's lock (rank 50), then a page's (rank 55).

use crate::Cache;
use crate::page::Page;
use crate::taken::Taken;
use core::marker::PhantomData;
use cpu::IrqLock;
use cpu::atomic::{AtomicUsize, Ordering};

/// Rank of a node's lock.
const RANK: u8 = 50;

/// What of a cache belongs to no CPU. (One memory node, as on a machine without NUMA.)
pub(crate) struct Node {
    partial: IrqLock<PartialList>,
    /// Pages that the list keeps even when they are empty. Immutable.
    min_partial: usize,
    /// Slab pages in existence. Written with each slab page made or given back.
    slabs: AtomicUsize,
    /// Objects in them.
    objects: AtomicUsize,
}

/// The node's list: doubly linked through the pages.
struct PartialList {
    first: Option<&'static Page>,
    last: Option<&'static Page>,
    count: usize,
}

impl PartialList {
    fn push_front(&mut self, page: &'static Page) {
        page.set_prev(None);
        page.set_next(self.first);
        match self.first {
            Some(first) => first.set_prev(Some(page)),
            None => self.last = Some(page),
        }
        self.first = Some(page);
        self.count += 1;
    }
    fn push_back(&mut self, page: &'static Page) {
        page.set_next(None);
        page.set_prev(self.last);
        match self.last {
            Some(last) => last.set_next(Some(page)),
            None => self.first = Some(page),
        }
        self.last = Some(page);
        self.count += 1;
    }
    fn remove(&mut self, page: &'static Page) {
        match page.prev() {
            Some(prev) => prev.set_next(page.next()),
            None => self.first = page.next(),
        }
        match page.next() {
            Some(next) => next.set_prev(page.prev()),
            None => self.last = page.prev(),
        }
        page.set_next(None);
        page.set_prev(None);
        self.count -= 1;
    }
}

/// A chain of slab pages that nobody else has, linked through the pages.
pub(crate) struct PageChain {
    first: Option<&'static Page>,
    /// A chain is used where it was made.
    _not_send: PhantomData<*mut ()>,
}

impl PageChain {
    pub(crate) const fn new() -> PageChain {
        PageChain {
            first: None,
            _not_send: PhantomData,
        }
    }
    pub(crate) fn push(&mut self, page: &'static Page) {
        page.set_next(self.first);
        self.first = Some(page);
    }
    pub(crate) fn pop(&mut self) -> Option<&'static Page> {
        let page = self.first?;
        self.first = page.next();
        page.set_next(None);
        Some(page)
    }
}

impl Node {
    pub(crate) const fn new(min_partial: usize) -> Node {
        Node {
            partial: IrqLock::new(
                RANK,
                PartialList {
                    first: None,
                    last: None,
                    count: 0,
                },
            ),
            min_partial,
            slabs: AtomicUsize::new(0),
            objects: AtomicUsize::new(0),
        }
    }

    pub(crate) fn slab_made(&self, objects: usize) {
        self.slabs.fetch_add(1, Ordering::Relaxed);
        self.objects.fetch_add(objects, Ordering::Relaxed);
    }
    pub(crate) fn slab_gone(&self, objects: usize) {
        self.slabs.fetch_sub(1, Ordering::Relaxed);
        self.objects.fetch_sub(objects, Ordering::Relaxed);
    }
    /// Slab pages in existence.
    pub(crate) fn slabs(&self) -> usize {
        self.slabs.load(Ordering::Relaxed)
    }
    /// Objects in them, in use or not.
    pub(crate) fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }
    /// Pages on the list, and free objects in them.
    pub(crate) fn partial(&self) -> (usize, usize) {
        let list = self.partial.lock();
        let pages = core::iter::successors(list.first, |page| page.next());
        (list.count, pages.map(|page| page.lock().free()).sum())
    }

    /// Takes pages from the list, frozen for the calling CPU: the first is passed to `current` with its free objects,
    /// the following to `partial` while that returns true. False when the list is empty.
    pub(crate) fn take(
        &self,
        current: impl FnOnce(&'static Page, usize),
        mut partial: impl FnMut(&'static Page) -> bool,
    ) -> bool {
        let mut list = self.partial.lock();
        let Some(page) = list.first else { return false };
        list.remove(page);
        let mut locked = page.lock();
        locked.set_frozen(true);
        let objects = locked.take_all();
        drop(locked);
        current(page, objects);
        while let Some(page) = list.first {
            list.remove(page);
            page.lock().set_frozen(true);
            if !partial(page) {
                break;
            }
        }
        true
    }

    /// Lets go of a page that the calling CPU has: onto the list, or to `empty` when it has no objects in use and the
    /// list has enough. `objects` runs with the page locked and puts back what the CPU still has of it.
    pub(crate) fn unfreeze(
        &self,
        page: &'static Page,
        empty: &mut PageChain,
        objects: impl FnOnce(&mut crate::freelist::LockedPage),
    ) {
        let mut list = self.partial.lock();
        let mut locked = page.lock();
        objects(&mut locked);
        locked.set_frozen(false);
        if locked.outside() == 0 && list.count >= self.min_partial {
            drop(locked);
            empty.push(page);
        } else if !locked.is_full() {
            drop(locked);
            list.push_back(page);
        }
    }

    /// Puts a new slab page on the list.
    pub(crate) fn add_new(&self, page: &'static Page) {
        self.partial.lock().push_front(page);
    }

    /// Gives back the empty pages of the list, all of them: to `empty`.
    pub(crate) fn shrink(&self, empty: &mut PageChain) {
        let mut list = self.partial.lock();
        let mut at = list.first;
        while let Some(page) = at {
            at = page.next();
            if page.lock().outside() == 0 {
                list.remove(page);
                empty.push(page);
            }
        }
    }
}

impl Cache {
    /// Puts an object back to its page's own freelist. Slow path of a free: the page is not this CPU's current slab.
    ///
    /// The page cannot go away under us before the push: the object in hand counts as in use.
    pub(crate) fn put_to_page(&'static self, page: &'static Page, object: Taken, empty: &mut PageChain) {
        let mut locked = page.lock();
        if locked.frozen() {
            // Some CPU has it and will find the object when it runs out.
            locked.push(object);
        } else if locked.is_full() {
            // On no list. From here on it is this CPU's, for its partial list.
            locked.push(object);
            locked.set_frozen(true);
            drop(locked);
            self.keep_partial(page, empty);
        } else if locked.outside() > 1 {
            // Partial, and stays so.
            locked.push(object);
        } else {
            // The last object in use. The list's lock comes first, and the state may change until it is ours.
            drop(locked);
            self.put_last(page, object, empty);
        }
    }

    fn put_last(&'static self, page: &'static Page, object: Taken, empty: &mut PageChain) {
        let mut list = self.node.partial.lock();
        let mut locked = page.lock();
        let was_full = locked.is_full();
        locked.push(object);
        if locked.frozen() {
            return;
        }
        if locked.outside() == 0 && list.count >= self.node.min_partial {
            if !was_full {
                list.remove(page);
            }
            empty.push(page);
        } else if was_full {
            list.push_back(page);
        }
    }
}
