//! Counts for a slabinfo.
//!
//! **Purpose.** What each cache has, for `/proc/slabinfo` and for the check that nothing is left behind.
//!
//! **How it works.** Slab pages and objects are counted when pages are made and given back; free objects are found by
//! walking the freelists. While other CPUs allocate and free, the walk is off by at most what they do meanwhile; when
//! all is quiet the counts are exact.
//!
//! **Lock order.** Node lists (50) with their pages (55), then pages (55) of CPUs, one at a time.

use crate::{Cache, Slab};
use memcg::KmemId;

/// Counts of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheInfo {
    /// The cache's name; a copy has its root's.
    pub name: &'static str,
    /// The cgroup whose copy it is.
    pub cgroup: Option<KmemId>,
    /// Objects in use.
    pub active_objects: usize,
    /// Objects in use and free.
    pub total_objects: usize,
    /// Bytes of an object.
    pub object_size: usize,
    /// Objects in a slab page of the usual order.
    pub objects_per_slab: usize,
    /// Frames of a slab page of the usual order.
    pub pages_per_slab: usize,
    /// Slab pages that are not on the node's partial list: full, or a CPU's.
    pub active_slabs: usize,
    /// Slab pages.
    pub total_slabs: usize,
}

impl Cache {
    /// The cache's counts: see the module for how exact.
    pub fn info(&self) -> CacheInfo {
        let (partial, free) = self.node.partial();
        let free = free + self.free_on_cpus();
        let (total_objects, total_slabs) = (self.node.objects(), self.node.slabs());
        CacheInfo {
            name: self.name(),
            cgroup: self.copy_of.map(|of| of.cgroup.id()),
            active_objects: total_objects.saturating_sub(free),
            total_objects,
            object_size: self.size(),
            objects_per_slab: self.objects_per_slab(),
            pages_per_slab: self.pages_per_slab(),
            active_slabs: total_slabs.saturating_sub(partial),
            total_slabs,
        }
    }
}

impl Slab {
    /// The counts of every cache and copy, one after the other.
    pub fn caches(&self) -> impl Iterator<Item = CacheInfo> + use<> {
        self.all_caches().map(Cache::info)
    }

    /// Objects in use in all caches, for the check that everything is back. Those of which the allocator itself is made
    /// count: caches (for ever), and objcg vectors, which live as long as their slab page: before a comparison, every CPU
    /// [flushes](Slab::flush_this_cpu) and empty pages are [given back](Slab::shrink).
    pub fn active_objects(&self) -> usize {
        self.caches().map(|cache| cache.active_objects).sum()
    }
}
