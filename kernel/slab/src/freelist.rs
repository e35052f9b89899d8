//! The freelist of a slab page.
//!
//! **Purpose.** The free objects of a page that no CPU has taken for itself: what a free from afar adds to, and what a CPU
//! takes whole when its own list is empty.
//!
//! **How it works.** The list starts in the page's descriptor and runs through the objects' first words (taken.rs). It is
//! changed under the page's lock.
//!
//! **Lock order.** A page's lock has rank 55. Nothing is locked under it.

use crate::page::Page;
use crate::taken::{Taken, read_next, write_next};

/// 'No object'.
const NONE: u32 = u32::MAX;

/// What a page's lock guards: the page's own freelist.
#[derive(Clone, Copy)]
pub(crate) struct Freelist {
    /// Offset of the first free object from the start of the page, in bytes; [`NONE`] when there is none.
    first: u32,
    /// Objects that are not on this list: in use, or on the freelist of the CPU that has the page.
    pub(crate) outside: u16,
    /// Whether a CPU has the page, as its current one or on its partial list. Then it is on no other list, and only
    /// that CPU decides what becomes of it (Linux: frozen).
    pub(crate) frozen: bool,
}

impl Freelist {
    /// That of a page of `objects` objects, none of them on the list.
    pub(crate) const fn new(objects: u16) -> Freelist {
        Freelist {
            first: NONE,
            outside: objects,
            frozen: false,
        }
    }
}

impl Page {
    /// Locks the page's freelist.
    #[inline(always)]
    pub(crate) fn lock(&'static self) -> LockedPage {
        LockedPage {
            page: self,
            list: self.freelist.lock(),
        }
    }

    /// Puts all objects of a new slab page on its freelist, in order of address.
    pub(crate) fn fill_freelist(&'static self, size: usize) {
        let (start, objects) = (self.address(), self.objects());
        for n in 0..objects {
            let next = if n + 1 < objects { start + (n + 1) * size } else { 0 };
            // SAFETY: the page is new: nobody has any of its objects, and n is below their number.
            unsafe { write_next(start + n * size, next) };
        }
        let mut page = self.lock();
        page.list.first = 0;
        page.list.outside = 0;
    }
}

/// A slab page whose lock is held.
pub(crate) struct LockedPage {
    page: &'static Page,
    list: cpu::lock::IrqGuard<'static, Freelist>,
}

impl LockedPage {
    /// Whether the freelist is empty.
    pub(crate) fn is_full(&self) -> bool {
        self.list.first == NONE
    }
    /// Objects on the freelist.
    pub(crate) fn free(&self) -> usize {
        self.page.objects() - usize::from(self.list.outside)
    }
    /// Objects not on the freelist.
    pub(crate) fn outside(&self) -> usize {
        self.list.outside.into()
    }
    /// Whether a CPU has the page.
    pub(crate) fn frozen(&self) -> bool {
        self.list.frozen
    }
    /// Says whether a CPU has the page.
    pub(crate) fn set_frozen(&mut self, frozen: bool) {
        self.list.frozen = frozen;
    }

    /// Puts one object back.
    pub(crate) fn push(&mut self, object: Taken) {
        let address = object.into_address();
        // SAFETY: the object was in the caller's hands and is nobody's now; the lock is held.
        unsafe { write_next(address, self.first()) };
        self.set_first(address);
        self.list.outside -= 1;
    }

    /// Takes the whole list for the calling CPU: the address of its first object, 0 when empty.
    pub(crate) fn take_all(&mut self) -> usize {
        let first = self.first();
        self.list.first = NONE;
        self.list.outside = self.page.objects() as u16;
        first
    }

    /// Puts back the list that starts at `first`, which the calling CPU had taken: all its objects belong to this page.
    ///
    /// # Safety
    /// The list is the calling CPU's alone: it was taken out of its pair.
    pub(crate) unsafe fn put_back(&mut self, first: usize) {
        let mut object = first;
        while object != 0 {
            // SAFETY: the caller has the list, so its words are links; the lock guards the page's list.
            unsafe {
                let next = read_next(object);
                write_next(object, self.first());
                self.set_first(object);
                object = next;
            }
            self.list.outside -= 1;
        }
    }

    fn first(&self) -> usize {
        match self.list.first {
            NONE => 0,
            offset => self.page.address() + offset as usize,
        }
    }
    fn set_first(&mut self, address: usize) {
        self.list.first = (address - self.page.address()) as u32;
    }
}
