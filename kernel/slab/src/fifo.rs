//! A queue of owned objects, first in first out.
//!
//! **Purpose.** Messages of one priority, segments of one message: O(1) at both ends, no allocation, two words.
//!
//! **How it works.** Singly linked through the word before the objects' headers.
//!
//! **Lock order.** None: whoever has `&mut` of the queue has its objects.

use crate::Object;
use crate::object::{Fault, Raw, Source};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{ControlFlow, Deref, Range};
use core::ptr::NonNull;

/// A queue of [`Object`]s. Dropping it drops them one after the other, without recursion.
pub struct Fifo<H> {
    first: Option<NonNull<Raw<H>>>,
    /// Dangling when the queue is empty.
    last: NonNull<Raw<H>>,
    _owns: PhantomData<Object<H>>,
}

// SAFETY: the queue owns its objects.
unsafe impl<H: Send> Send for Fifo<H> {}
// SAFETY: a shared queue gives &H only.
unsafe impl<H: Sync> Sync for Fifo<H> {}

impl<H> Fifo<H> {
    /// An empty queue.
    pub const fn new() -> Self {
        Fifo {
            first: None,
            last: NonNull::dangling(),
            _owns: PhantomData,
        }
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Appends an object.
    #[inline]
    pub fn push(&mut self, object: Object<H>) {
        let mut raw = object.into_raw();
        // SAFETY: the object is ours now; `last` is an object of ours where the queue is not empty.
        unsafe {
            raw.as_mut().next = None;
            match self.first {
                Some(_) => self.last.as_mut().next = Some(raw),
                None => self.first = Some(raw),
            }
        }
        self.last = raw;
    }

    /// Puts an object before all others.
    #[inline]
    pub fn push_front(&mut self, object: Object<H>) {
        let mut raw = object.into_raw();
        // SAFETY: the object is ours now.
        unsafe { raw.as_mut().next = self.first };
        if self.first.is_none() {
            self.last = raw;
        }
        self.first = Some(raw);
    }

    /// Takes the oldest object.
    #[inline]
    pub fn pop(&mut self) -> Option<Object<H>> {
        let raw = self.first?;
        // SAFETY: the queue's first object is ours, put there by into_raw; it leaves the queue here, once.
        unsafe {
            self.first = raw.as_ref().next;
            Some(Object::from_raw(raw))
        }
    }

    /// Looks at the objects, the oldest first, until `f` breaks off; takes out the one it broke off at if it says so.
    ///
    /// O(n) for the n-th object.
    pub fn take_where(&mut self, mut f: impl FnMut(&H) -> ControlFlow<bool>) -> Option<Object<H>> {
        let mut before: Option<NonNull<Raw<H>>> = None;
        let mut at = self.first;
        while let Some(raw) = at {
            // SAFETY: the queue's objects live as long as it is borrowed, and nobody else changes them.
            let (header, next) = unsafe { (&raw.as_ref().header, raw.as_ref().next) };
            match f(header) {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(false) => return None,
                ControlFlow::Break(true) => {
                    match before {
                        // SAFETY: as above; `f`'s borrow has ended.
                        Some(mut before) => unsafe { before.as_mut().next = next },
                        None => self.first = next,
                    }
                    if let (None, Some(before)) = (next, before) {
                        self.last = before;
                    }
                    // SAFETY: put there by into_raw; it has left the queue, once.
                    return Some(unsafe { Object::from_raw(raw) });
                }
            }
            before = at;
            at = next;
        }
        None
    }

    /// The header of the oldest object.
    #[inline]
    pub fn front(&self) -> Option<&H> {
        // SAFETY: the queue's objects live as long as it is borrowed.
        self.first.map(|raw| unsafe { &raw.as_ref().header })
    }

    /// The oldest object, to be changed in place.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut H> {
        // SAFETY: as in front; borrowed mutably.
        self.first.map(|mut raw| unsafe { &mut raw.as_mut().header })
    }

    /// All objects, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Object<H>> {
        let mut at = &self.first;
        core::iter::from_fn(move || {
            let raw = at.as_ref()?;
            // SAFETY: an Object is a transparent NonNull<Raw<H>>, so the link is an Object in place, lent and not owned;
            // the queue's objects live as long as it is borrowed.
            unsafe {
                at = &raw.as_ref().next;
                Some(&*(raw as *const NonNull<Raw<H>>).cast::<Object<H>>())
            }
        })
    }

    /// All objects, the oldest first, to be changed in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = Entry<'_, H>> {
        let mut at = self.first;
        core::iter::from_fn(move || {
            let raw = at?;
            // SAFETY: the queue's objects live as long as it is borrowed; an entry never changes a link.
            at = unsafe { (*raw.as_ptr()).next };
            Some(Entry {
                raw,
                _borrows: PhantomData,
            })
        })
    }
}

/// An object in a [`Fifo`] that is borrowed mutably: everything of it may be changed but its place in the queue.
pub struct Entry<'a, H> {
    raw: NonNull<Raw<H>>,
    _borrows: PhantomData<&'a mut Object<H>>,
}

impl<H> Entry<'_, H> {
    /// The header.
    pub fn header_mut(&mut self) -> &mut H {
        // SAFETY: each object has one entry at a time, and the queue is borrowed as long. Only the header is borrowed:
        // the iterator reads the link beside it.
        unsafe { &mut (*self.raw.as_ptr()).header }
    }
    /// As [`Object::fill`].
    pub fn fill(&mut self, range: Range<usize>, source: &mut (impl Source + ?Sized)) -> Result<(), Fault> {
        self.object().fill(range, source)
    }
    /// As [`Object::clear`].
    pub fn clear(&mut self) {
        self.object().clear();
    }
    fn object(&mut self) -> ManuallyDrop<Object<H>> {
        // SAFETY: the pointer came from into_raw; the copy is not dropped, and used by one method of Object at a time.
        ManuallyDrop::new(unsafe { Object::from_raw(self.raw) })
    }
}

impl<H> Deref for Entry<'_, H> {
    type Target = Object<H>;
    fn deref(&self) -> &Object<H> {
        // SAFETY: an Object is a transparent NonNull<Raw<H>>, lent and not owned.
        unsafe { &*(&raw const self.raw).cast::<Object<H>>() }
    }
}

impl<H> Default for Fifo<H> {
    fn default() -> Self {
        Fifo::new()
    }
}

impl<H> Drop for Fifo<H> {
    #[inline]
    fn drop(&mut self) {
        while let Some(object) = self.pop() {
            drop(object);
        }
    }
}

impl<H> fmt::Debug for Fifo<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fifo({} objects)", self.iter().count())
    }
}
