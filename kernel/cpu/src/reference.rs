//! A shared cell for references that live forever.

use crate::event::{self, Event};
use core::fmt;
use core::sync::atomic::{AtomicPtr, Ordering};

/// An atomic `Option<&'static T>`: one word, read without a lock.
///
/// Since only references that live forever go in, what comes out is valid whenever it is used. Whether it is still the
/// *right* object is for the protocol around it: a reference count, or a grace period.
pub struct AtomicRef<T: 'static>(AtomicPtr<T>);

// SAFETY: the cell hands out &'static T to any thread that can reach it, which is what T: Sync allows.
unsafe impl<T: Sync + 'static> Sync for AtomicRef<T> {}
// SAFETY: as for Sync; the cell owns nothing.
unsafe impl<T: Sync + 'static> Send for AtomicRef<T> {}

impl<T: 'static> AtomicRef<T> {
    /// An empty cell.
    pub const fn none() -> Self {
        AtomicRef(AtomicPtr::new(core::ptr::null_mut()))
    }
    /// A cell that refers to `value`.
    pub const fn new(value: &'static T) -> Self {
        AtomicRef(AtomicPtr::new(value as *const T as *mut T))
    }
    /// Reads (acquire).
    #[inline(always)]
    pub fn load(&self) -> Option<&'static T> {
        // SAFETY: the pointer is null or came from a &'static T (pointer() below is the only way in).
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
    /// Reads a cell that was set at boot.
    ///
    /// # Panics
    /// When the cell is empty: the order of boot is wrong.
    #[inline(always)]
    #[track_caller]
    pub fn get(&self) -> &'static T {
        match self.load() {
            Some(value) => value,
            None => empty(),
        }
    }
    /// Writes (release).
    #[inline(always)]
    pub fn store(&self, value: Option<&'static T>) {
        event::shared_write(self);
        self.0.store(pointer(value), Ordering::Release);
    }
    /// Writes to a cell that only this CPU uses, or nobody else can see yet: no shared line is dirtied.
    #[inline(always)]
    pub fn store_private(&self, value: Option<&'static T>) {
        self.0.store(pointer(value), Ordering::Release);
    }
    /// Replaces; gives what was there (acquire and release).
    #[inline(always)]
    pub fn swap(&self, value: Option<&'static T>) -> Option<&'static T> {
        event::count(Event::Locked);
        event::shared_write(self);
        // SAFETY: as in load.
        unsafe { self.0.swap(pointer(value), Ordering::AcqRel).as_ref() }
    }
    /// Fills an empty cell; `Err` gives what is there already.
    #[inline]
    pub fn set_once(&self, value: &'static T) -> Result<(), &'static T> {
        event::count(Event::Locked);
        event::shared_write(self);
        let old = self.0.compare_exchange(
            core::ptr::null_mut(),
            pointer(Some(value)),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match old {
            Ok(_) => Ok(()),
            // SAFETY: not null, so it came from a &'static T.
            Err(old) => Err(unsafe { &*old }),
        }
    }
}

#[inline(always)]
fn pointer<T>(value: Option<&'static T>) -> *mut T {
    value.map_or(core::ptr::null_mut(), |value| value as *const T as *mut T)
}

#[cold]
#[inline(never)]
#[track_caller]
fn empty() -> ! {
    panic!("a cell that boot fills is empty: something was used before its initialisation")
}

impl<T: 'static> Default for AtomicRef<T> {
    fn default() -> Self {
        AtomicRef::none()
    }
}

impl<T: 'static> fmt::Debug for AtomicRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AtomicRef({:p})", self.0.load(Ordering::Relaxed))
    }
}
