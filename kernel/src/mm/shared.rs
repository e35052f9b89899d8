//! Counted objects whose making can fail.
//!
//! [`Shared`] is the standard library's `Arc` without weak references, and with the one thing that a kernel needs from
//! it: a program that asks for too many objects gets ENOMEM, the kernel lives. [`try_box`] is the same for a sole owner.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use cpu::atomic::{AtomicUsize, Ordering};

pub use super::frames::OutOfMemory;

struct Counted<T> {
    count: AtomicUsize,
    value: T,
}

/// A counted reference to a `T` on the heap; the last one drops it.
pub struct Shared<T> {
    object: NonNull<Counted<T>>,
    _owns: PhantomData<Counted<T>>,
}

// SAFETY: as for Arc: a reference on another CPU gives &T there and may drop the T there.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// A new object with one reference.
    pub fn try_new(value: T) -> Result<Shared<T>, OutOfMemory> {
        let object = try_box(Counted {
            count: AtomicUsize::new(1),
            value,
        })?;
        Ok(Shared {
            object: NonNull::from(Box::leak(object)),
            _owns: PhantomData,
        })
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: the object lives as long as its count is above zero, and self is one of the count.
        unsafe { self.object.as_ref() }
    }

    /// References to the object. Exact as long as nobody clones or drops one.
    pub fn count(&self) -> usize {
        self.counted().count.load(Ordering::Acquire)
    }

    /// Whether both refer to the same object.
    pub fn same_object(&self, other: &Shared<T>) -> bool {
        self.object == other.object
    }

    /// Gives the reference up as an address; [`Shared::from_raw`] takes it back.
    pub fn into_raw(self) -> NonNull<T> {
        let object = self.object;
        core::mem::forget(self);
        // SAFETY: the object is alive: the reference was forgotten, not dropped.
        NonNull::from(unsafe { &(*object.as_ptr()).value })
    }

    /// Takes back a reference.
    ///
    /// # Safety
    /// `value` came from [`Shared::into_raw`], once for each call.
    pub unsafe fn from_raw(value: NonNull<T>) -> Shared<T> {
        let offset = core::mem::offset_of!(Counted<T>, value);
        Shared {
            // SAFETY: into_raw gave the address of the field `value` inside a live Counted<T>.
            object: unsafe { value.byte_sub(offset).cast() },
            _owns: PhantomData,
        }
    }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.counted().count.fetch_add(1, Ordering::Relaxed);
        Shared {
            object: self.object,
            _owns: PhantomData,
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: as in counted().
        unsafe { &(*self.object.as_ptr()).value }
    }
}

impl<T> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        // Release: what this owner did happens before the drop; acquire: the last owner sees all of it.
        if self.counted().count.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the count was one and was ours: nobody else can reach the object; it came from a Box.
            drop(unsafe { Box::from_raw(self.object.as_ptr()) });
        }
    }
}

/// `Box::new`, with a result.
pub fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(Box::new(value));
    }
    // SAFETY: the layout has a size.
    let Some(place) = NonNull::new(unsafe { alloc(layout) }.cast::<T>()) else {
        return Err(OutOfMemory);
    };
    // SAFETY: the place is ours, fresh, and of T's layout: what Box asks of its memory.
    unsafe {
        place.write(value);
        Ok(Box::from_raw(place.as_ptr()))
    }
}
