//! Objects: in somebody's hands, or free.
//!
//! **Purpose.** The two faces of an object's memory, so that the rest of the crate can be safe code.
//!
//! **How it works.** A [`Taken`] is an object in somebody's hands: the proof that its memory is on no freelist. A free
//! object's first word is its link: the address of the next free object, 0 at the end ([`read_next`], [`write_next`]).
//!
//! **Lock order.** None.

use crate::Cache;
use crate::page::Page;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

/// An object that is in somebody's hands. It must go back by hand: dropping it only forgets it.
#[repr(transparent)]
#[must_use]
pub(crate) struct Taken(NonNull<u8>);

// SAFETY: memory that is nobody else's may be used from any CPU.
unsafe impl Send for Taken {}

impl Taken {
    /// The object at `address`, which the caller took off a freelist.
    ///
    /// # Safety
    /// It is an object of ours that is on no freelist and in nobody's hands.
    #[inline(always)]
    pub(crate) unsafe fn new(address: usize) -> Taken {
        // SAFETY: objects are not at address 0; provenance was exposed by init.
        Taken(unsafe { NonNull::new_unchecked(ptr::with_exposed_provenance_mut(address)) })
    }
    /// An object that went out as a plain pointer.
    ///
    /// # Safety
    /// It came from [`Taken::into_pointer`] and did not come back since.
    #[inline(always)]
    pub(crate) unsafe fn from_pointer(pointer: NonNull<u8>) -> Taken {
        Taken(pointer)
    }
    /// As a plain pointer, with the object still in the caller's hands.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.0
    }
    /// As a plain pointer, for somebody outside.
    #[inline(always)]
    pub(crate) fn into_pointer(self) -> NonNull<u8> {
        self.0
    }
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }
    /// As an address, with the object on its way to a freelist.
    #[inline(always)]
    pub(crate) fn into_address(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }
    /// The page that it belongs to.
    #[inline(always)]
    pub(crate) fn page(&self) -> &'static Page {
        // SAFETY: an object in hand lies in a page that is ours until the object has gone back.
        unsafe { Page::of(self.address()) }
    }
    /// Bytes of the object.
    pub(crate) fn capacity(&self) -> usize {
        let page = self.page();
        page.cache().capacity(page)
    }
    /// Sets the first `bytes` to zero.
    ///
    /// # Panics
    /// When the object is smaller.
    pub(crate) fn zero(&self, bytes: usize) {
        debug_assert!(bytes <= self.capacity());
        // SAFETY: in our hands, and large enough: callers pass the size that they asked for or the cache's.
        unsafe { ptr::write_bytes(self.0.as_ptr(), 0, bytes) };
    }
    /// Notes that the object was handed out. Debug builds only.
    #[inline(always)]
    pub(crate) fn mark_taken(&self, cache: &Cache) {
        #[cfg(debug_assertions)]
        self.page().mark_taken(cache, self.address());
        #[cfg(not(debug_assertions))]
        let _ = cache;
    }
    /// Writes the link word: the object is about to go to the calling CPU's freelist.
    #[inline(always)]
    pub(crate) fn link(&self, next: usize) -> usize {
        let address = self.0.as_ptr().expose_provenance();
        // SAFETY: in our hands; every object has at least a word.
        unsafe { write_next(address, next) };
        address
    }
    /// Makes it hold `value` for ever.
    ///
    /// # Panics
    /// When it is too small or not aligned for a `T`.
    pub(crate) fn leak<T>(self, value: T) -> &'static T {
        assert!(self.capacity() >= size_of::<T>() && self.address().is_multiple_of(align_of::<T>()));
        // SAFETY: in our hands and never given back; large enough and aligned (asserted).
        unsafe {
            let place = self.0.cast::<MaybeUninit<T>>().as_mut();
            place.write(value)
        }
    }
}

impl Taken {
    /// Makes it hold `len` values for ever, the nth made by `value(n)`.
    ///
    /// # Panics
    /// When it is too small or not aligned for them.
    pub(crate) fn leak_slice<T>(self, len: usize, mut value: impl FnMut(usize) -> T) -> &'static [T] {
        assert!(self.capacity() / size_of::<T>() >= len && self.address().is_multiple_of(align_of::<T>()));
        let first = self.0.cast::<T>();
        for n in 0..len {
            // SAFETY: in our hands, large enough and aligned (asserted).
            unsafe { first.add(n).write(value(n)) };
        }
        // SAFETY: all values were written, and the memory is never given back.
        unsafe { core::slice::from_raw_parts(first.as_ptr(), len) }
    }
}

/// Reads the link word of a free object.
///
/// # Safety
/// `object` is the aligned address of an object of ours, whose memory is mapped. The object need not be free any more:
/// then the value means nothing, and the caller must not use it (see [`Cache::take`]).
#[inline(always)]
pub(crate) unsafe fn read_next(object: usize) -> usize {
    // SAFETY: mapped and aligned. Volatile: the word may be its new owner's by now, so the compiler must read it once
    // and conclude nothing.
    unsafe { ptr::with_exposed_provenance::<usize>(object).read_volatile() }
}

/// Writes the link word of an object.
///
/// # Safety
/// `object` is the address of an object of ours that is in the caller's hands, or on a list that the caller guards.
#[inline(always)]
pub(crate) unsafe fn write_next(object: usize, next: usize) {
    // SAFETY: the caller's, and aligned to a word as every object.
    unsafe { ptr::with_exposed_provenance_mut::<usize>(object).write_volatile(next) };
}
