//! The accounting models: one file each, in order of history.
//!
//! Read two side by side: what differs is what the rows of the table measure. What several share is in [`crate::stock`]
//! and [`crate::objcg`].

mod local_lock;
mod object;
mod off;
mod page;
mod scoped;
mod task_stock;

pub use local_lock::LocalLock;
pub use object::Object;
pub use off::Off;
pub use page::Page;
pub use scoped::Scoped;
pub use task_stock::TaskStock;

/// What an object of a cache with objects of `size` bytes is charged: itself and its slot in the vector (Linux:
/// `obj_full_size`).
#[inline(always)]
const fn full_size(size: usize) -> usize {
    size + size_of::<crate::OwnerSlot>()
}

#[cfg(test)]
mod tests;
