//! An owning pointer to an object: a header, and bytes behind it.
//!
//! **Purpose.** What a message is: a typed header with inline data in one allocation, owned by whoever holds the pointer,
//! usable by crates that have no unsafe code.
//!
//! **How it works.** [`Object`] is one word. Before the header `H` lie a link (for [`crate::Fifo`]), the number of inline
//! bytes and how many of them have been filled. Bytes are not initialised until a [`Source`] filled them, in order: only
//! filled bytes can be read. Sources and sinks stand for user memory; the kernel implements them with its user copies,
//! this crate for slices.
//!
//! **Lock order.** None.

use crate::kmalloc::{MAX_SMALL, free};
use crate::taken::Taken;
use crate::{AllocError, Gfp, Slab};
use core::fmt;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, offset_of};
use core::ops::{Deref, DerefMut, Range};
use core::ptr::{self, NonNull};
use memcg::TaskMemcg;

/// Reading a source or writing a sink failed: the user's address is bad (EFAULT), or the slice is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bad address")
    }
}

/// Where bytes come from: user memory, a slice.
///
/// # Safety
/// When [`read`](Source::read) returns `Ok`, it has written every byte of `into`.
pub unsafe trait Source {
    /// Takes the next `into.len()` bytes.
    fn read(&mut self, into: &mut [MaybeUninit<u8>]) -> Result<(), Fault>;
}

/// Where bytes go: user memory, a slice.
pub trait Sink {
    /// Puts the next `from.len()` bytes.
    fn write(&mut self, from: &[u8]) -> Result<(), Fault>;
}

// SAFETY: Ok only after a copy of into.len() bytes.
unsafe impl Source for &[u8] {
    #[inline]
    fn read(&mut self, into: &mut [MaybeUninit<u8>]) -> Result<(), Fault> {
        let (from, rest) = self.split_at_checked(into.len()).ok_or(Fault)?;
        into.write_copy_of_slice(from);
        *self = rest;
        Ok(())
    }
}

impl Sink for &mut [u8] {
    #[inline]
    fn write(&mut self, from: &[u8]) -> Result<(), Fault> {
        let (into, rest) = core::mem::take(self).split_at_mut_checked(from.len()).ok_or(Fault)?;
        into.copy_from_slice(from);
        *self = rest;
        Ok(())
    }
}

/// What lies in the memory of an object, followed by the inline bytes.
#[repr(C)]
pub(crate) struct Raw<H> {
    /// The next in a [`crate::Fifo`]. The list's.
    pub(crate) next: Option<NonNull<Raw<H>>>,
    /// Inline bytes. Immutable.
    capacity: u32,
    /// The first so many inline bytes are initialised.
    filled: u32,
    pub(crate) header: H,
}

/// An owned object: a header `H` and inline bytes in one kmalloc allocation. Dropping it drops the header and gives the
/// memory back.
#[repr(transparent)]
pub struct Object<H> {
    raw: NonNull<Raw<H>>,
    _owns: PhantomData<Raw<H>>,
}

// SAFETY: the object owns its memory; moving it moves the header.
unsafe impl<H: Send> Send for Object<H> {}
// SAFETY: a shared object gives &H and &[u8] only.
unsafe impl<H: Sync> Sync for Object<H> {}

impl<H> Object<H> {
    /// Bytes before the inline bytes: the header `H` and 16 of its own.
    pub const OVERHEAD: usize = size_of::<Raw<H>>();
    /// The most inline bytes that still come from a size class.
    pub const MAX_SMALL_INLINE: usize = MAX_SMALL - Self::OVERHEAD;

    /// Takes memory for a header and `inline` bytes, which are not initialised.
    ///
    /// # Errors
    /// As [`Slab::kmalloc`]; no memory for more inline bytes than 32 bits count. The header is dropped.
    #[inline]
    pub fn try_new(slab: &Slab, gfp: Gfp, task: &TaskMemcg, header: H, inline: usize) -> Result<Self, AllocError> {
        const { assert!(align_of::<H>() <= 8) };
        let capacity = u32::try_from(inline).map_err(|_| AllocError::NoMemory)?;
        let raw = slab.kmalloc(Self::OVERHEAD + inline, gfp, task)?.cast::<Raw<H>>();
        // SAFETY: the memory is ours, of OVERHEAD + inline bytes, aligned to 8 bytes as H is at most.
        unsafe {
            raw.write(Raw {
                next: None,
                capacity,
                filled: 0,
                header,
            });
        }
        // SAFETY: the memory holds a Raw now.
        Ok(unsafe { Object::from_raw(raw) })
    }

    /// Number of inline bytes, filled or not.
    #[inline(always)]
    pub fn inline_len(&self) -> usize {
        self.raw().capacity as usize
    }

    /// Number of inline bytes that were filled, from the first on.
    #[inline(always)]
    pub fn filled(&self) -> usize {
        self.raw().filled as usize
    }

    /// Forgets the content: no inline byte counts as filled.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.raw_mut().filled = 0;
    }

    /// Fills the inline bytes of `range` from `source`. On a fault what was filled before stays so.
    ///
    /// # Panics
    /// When the range begins behind what was filled, or ends behind the inline bytes.
    #[inline]
    pub fn fill(&mut self, range: Range<usize>, source: &mut (impl Source + ?Sized)) -> Result<(), Fault> {
        assert!(
            range.start <= self.filled() && range.start <= range.end && range.end <= self.inline_len(),
            "fill of inline bytes {range:?} of {}, {} filled",
            self.inline_len(),
            self.filled()
        );
        // SAFETY: inside the inline bytes (asserted), which are ours alone while self is borrowed mutably.
        let bytes = unsafe {
            let first = self.bytes().add(range.start).cast::<MaybeUninit<u8>>();
            core::slice::from_raw_parts_mut(first, range.end - range.start)
        };
        // On a fault some bytes of the range may have been overwritten: by bytes of the source, initialised all the same.
        source.read(bytes)?;
        let raw = self.raw_mut();
        raw.filled = raw.filled.max(range.end as u32);
        Ok(())
    }

    /// The filled inline bytes.
    #[inline(always)]
    pub fn bytes_filled(&self) -> &[u8] {
        // SAFETY: the first `filled` bytes were written by sources that kept their contract.
        unsafe { core::slice::from_raw_parts(self.bytes(), self.filled()) }
    }

    /// Copies the filled inline bytes of `range` to `sink`.
    ///
    /// # Panics
    /// When the range ends behind what was filled.
    #[inline]
    pub fn copy_to(&self, range: Range<usize>, sink: &mut (impl Sink + ?Sized)) -> Result<(), Fault> {
        sink.write(&self.bytes_filled()[range])
    }

    #[inline(always)]
    fn bytes(&self) -> *mut u8 {
        // SAFETY: the allocation is OVERHEAD + capacity bytes.
        unsafe { self.raw.as_ptr().cast::<u8>().add(Self::OVERHEAD) }
    }
    #[inline(always)]
    fn raw(&self) -> &Raw<H> {
        // SAFETY: an Object owns a Raw that was written by try_new.
        unsafe { self.raw.as_ref() }
    }
    #[inline(always)]
    fn raw_mut(&mut self) -> &mut Raw<H> {
        // SAFETY: as in raw; borrowed mutably.
        unsafe { self.raw.as_mut() }
    }

    /// Gives up the pointer without dropping.
    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<Raw<H>> {
        let raw = self.raw;
        core::mem::forget(self);
        raw
    }
    /// Takes the pointer back.
    ///
    /// # Safety
    /// It came from [`Object::into_raw`] and is used once.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(raw: NonNull<Raw<H>>) -> Self {
        Object {
            raw,
            _owns: PhantomData,
        }
    }

    /// The pointer to the header, without dropping.
    #[inline(always)]
    pub(crate) fn into_header(self) -> *const H {
        let raw = self.into_raw().as_ptr();
        // SAFETY: inside the allocation; the pointer keeps the right to all of it.
        unsafe { &raw const (*raw).header }
    }
    /// Takes the pointer to the header back.
    ///
    /// # Safety
    /// It came from [`Object::into_header`] and is used once.
    #[inline(always)]
    pub(crate) unsafe fn from_header(header: *const H) -> Self {
        // SAFETY: the header lies that far into its allocation.
        unsafe {
            let raw = header.cast::<u8>().sub(offset_of!(Raw<H>, header)).cast_mut();
            Object::from_raw(NonNull::new_unchecked(raw.cast()))
        }
    }
}

impl<H> Deref for Object<H> {
    type Target = H;
    #[inline(always)]
    fn deref(&self) -> &H {
        &self.raw().header
    }
}

impl<H> DerefMut for Object<H> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut H {
        &mut self.raw_mut().header
    }
}

impl<H> Drop for Object<H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: owned, dropped once, and not used afterwards; the memory came from kmalloc.
        unsafe {
            ptr::drop_in_place(&raw mut (*self.raw.as_ptr()).header);
            free(Taken::from_pointer(self.raw.cast()));
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Object<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({:?}, {} inline bytes)", **self, self.inline_len())
    }
}
