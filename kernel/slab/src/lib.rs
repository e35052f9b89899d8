//! The slab allocator: SLUB's structure.
//!
//! **Purpose.** Kernel objects in constant time without a lock, any of them accountable to a cgroup under any of the
//! models of the crate memcg.
//!
//! **How it works.** A [`Cache`] hands out objects of one size from slab pages. Each CPU has a current slab page whose
//! free objects it keeps to itself on a freelist that is reached with one compare-and-exchange (cpu_slab.rs); a page
//! that was full and got an object back waits on that CPU's partial list; the surplus is on the cache's node partial
//! list (node.rs). An object freed on another CPU goes to its page's own freelist (page.rs). [`Slab`] holds the size
//! classes of `kmalloc` (kmalloc.rs). Accounted allocations go through functions instantiated once for each model
//! (accounted.rs). Everything above the page layer may be used from interrupt handlers.
//!
//! For the crates above that have no unsafe code: [`Object`], an owning pointer to a header with inline bytes;
//! [`Fifo`], a queue of such objects; [`Tree`], a red-black tree whose nodes are such objects.
//!
//! **Lock order.** 40: the list of caches; 42: the queue of copies to be made; 44: making them; 50: a node's partial
//! list; 55: a page's freelist. Page source and memcg are called with none of them held, or with 40 or 44 only.

#![cfg_attr(target_os = "none", no_std)]
#![deny(unsafe_code)]

mod accounted;
mod cache;
#[allow(unsafe_code)]
mod cpu_slab;
#[allow(unsafe_code)]
mod fifo;
#[allow(unsafe_code)]
mod freelist;
#[cfg(not(target_os = "none"))]
#[allow(unsafe_code)]
pub mod host;
mod info;
#[allow(unsafe_code)]
mod kmalloc;
mod node;
#[allow(unsafe_code)]
mod object;
#[allow(unsafe_code)]
pub mod page;
#[allow(unsafe_code)]
mod taken;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
#[allow(unsafe_code)]
mod tree;

pub use cache::{Cache, CacheFlags};
pub use fifo::Fifo;
pub use info::CacheInfo;
pub use kmalloc::{BootError, MAX_SMALL, Slab, kfree};
pub use object::{Fault, Object, Sink, Source};
pub use page::{PAGE_SIZE, PageSource};
pub use tree::{Spare, Tree};

use memcg::{Cgroup, OverLimit};

bitflags::bitflags! {
    /// How an allocation is to be made.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Gfp: u32 {
        /// Accounted to the caller's cgroup (Linux: `__GFP_ACCOUNT`).
        const ACCOUNT = 1;
        /// Filled with zeroes.
        const ZERO = 2;
    }
}

/// Why there is no object.
#[derive(Clone, Copy, Debug)]
pub enum AllocError {
    /// The page source has no pages.
    NoMemory,
    /// This cgroup is at its limit.
    OverLimit(&'static Cgroup),
}

impl From<OverLimit> for AllocError {
    fn from(OverLimit(cgroup): OverLimit) -> Self {
        AllocError::OverLimit(cgroup)
    }
}
