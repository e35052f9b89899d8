//! A cell that boot fills.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that is written once during boot and read by everybody after.
///
/// No lock: only boot writes, on one CPU. Reading an empty cell gives `None`.
pub struct BootCell<T> {
    /// Guarded by `filled`: written before it is set, only read after.
    value: UnsafeCell<MaybeUninit<T>>,
    filled: AtomicBool,
}

// SAFETY: after `filled` is set (release) the value is only read, through shared references: T: Sync allows that from
// anywhere. It was written by the boot CPU, which may hand it on: T: Send.
unsafe impl<T: Sync + Send> Sync for BootCell<T> {}

impl<T> BootCell<T> {
    /// An empty cell.
    pub const fn new() -> BootCell<T> {
        BootCell {
            value: UnsafeCell::new(MaybeUninit::uninit()),
            filled: AtomicBool::new(false),
        }
    }

    /// Fills the cell, during boot, while one CPU runs.
    ///
    /// # Panics
    /// When it has been filled before.
    pub fn set(&'static self, value: T) -> &'static T {
        assert!(!self.filled.load(Ordering::Acquire), "a cell of boot was filled twice");
        // SAFETY: 1. not filled, so nobody has a reference to the value. 2. Boot runs on one CPU and no interrupt
        // handler fills cells, so nobody else is here.
        let value = unsafe { (*self.value.get()).write(value) };
        self.filled.store(true, Ordering::Release);
        value
    }

    /// The value, once filled.
    #[inline]
    pub fn get(&'static self) -> Option<&'static T> {
        if self.filled.load(Ordering::Acquire) {
            // SAFETY: filled, so the value is initialised and will not be written again.
            Some(unsafe { (*self.value.get()).assume_init_ref() })
        } else {
            None
        }
    }
}
