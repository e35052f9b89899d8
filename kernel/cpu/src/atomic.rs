//! Atomic integers that an instrumented build counts.
//!
//! Each read-modify-write is a locked instruction on x86-64 and counts as one [`Event::Locked`]; it and each store dirty
//! a line that other CPUs use. Without the feature `events` these are the core types under another name.

use crate::event::{self, Event};
pub use core::sync::atomic::Ordering;

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        #[doc = concat!("[`core::sync::atomic::", stringify!($name), "`], counted.")]
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub struct $name(core::sync::atomic::$name);

        impl $name {
            /// An atomic with this value.
            pub const fn new(value: $int) -> Self {
                $name(core::sync::atomic::$name::new(value))
            }
            /// Reads.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $int {
                self.0.load(order)
            }
            /// Writes.
            #[inline(always)]
            pub fn store(&self, value: $int, order: Ordering) {
                event::shared_write(self);
                self.0.store(value, order);
            }
            /// Adds, wrapping; gives the value before.
            #[inline(always)]
            pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                self.locked();
                self.0.fetch_add(value, order)
            }
            /// Subtracts, wrapping; gives the value before.
            #[inline(always)]
            pub fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                self.locked();
                self.0.fetch_sub(value, order)
            }
            /// Raises to at least `value`; gives the value before.
            #[inline(always)]
            pub fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                self.locked();
                self.0.fetch_max(value, order)
            }
            /// Replaces; gives the value before.
            #[inline(always)]
            pub fn swap(&self, value: $int, order: Ordering) -> $int {
                self.locked();
                self.0.swap(value, order)
            }
            /// Replaces `old` by `new`; `Err` gives the value found instead.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                old: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.locked();
                self.0.compare_exchange(old, new, success, failure)
            }
            #[inline(always)]
            fn locked(&self) {
                event::count(Event::Locked);
                event::shared_write(self);
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicI64, i64);
atomic!(AtomicUsize, usize);
atomic!(AtomicIsize, isize);
