//! What an accounting model is.
//!
//! A model decides what an accounted allocation does before and after the slab allocator takes an object, and what a
//! free does before the object goes back. The slab allocator is generic over the model and instantiates its accounted
//! paths once for each; the boot chooses one instance through one table of functions, so the choice costs every model
//! the same: one load and one indirect call.

use crate::accounting::Accounting;
use crate::cgroup::{Cgroup, KmemId};
use crate::objcg::ObjCgroup;
use crate::task::TaskMemcg;
use core::fmt;
use cpu::AtomicRef;

/// A charge was refused: this cgroup, or the ancestor that is meant by it, is at its limit.
#[derive(Clone, Copy)]
pub struct OverLimit(pub &'static Cgroup);

impl fmt::Debug for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OverLimit(cgroup {})", self.0.id())
    }
}

/// Where a slab page keeps the owner of one of its objects: a slot of its objcg vector.
pub type OwnerSlot = AtomicRef<ObjCgroup>;

/// An accounting model: one row of the table. One file each in `models/`.
///
/// `size` is always the size of the cache's objects in bytes, as the slab allocator lays them out.
pub trait Model: 'static {
    /// Its name on the kernel's command line.
    const NAME: &'static str;
    /// Pages that a charge takes from the counters at once, and so the most that a CPU's page stock holds back.
    const BATCH: usize;
    /// Whether every cgroup has its own copy of each cache, and slab pages are charged instead of objects.
    const COPIES: bool = false;
    /// Whether accounted kmalloc requests have size classes of their own (Linux 5.14 on: `kmalloc-cg-*`).
    const SEPARATE_KMALLOC: bool = false;

    /// What is carried from before the allocation to after it.
    type Charge: Copy;

    /// Before an accounted allocation of `size` bytes by `task`: charges it, where the model charges objects.
    ///
    /// Where [`COPIES`](Model::COPIES) is set the caller is in a reader section from here to the look-up of the copy.
    fn pre_alloc(accounting: &Accounting, task: &TaskMemcg, size: usize) -> Result<Self::Charge, OverLimit>;

    /// Which cgroup's copy of the cache serves (only where [`COPIES`](Model::COPIES) is set). `None`: the root's.
    #[inline(always)]
    fn copy(charge: Self::Charge) -> Option<KmemId> {
        let _ = charge;
        None
    }

    /// After the allocation: records the owner in the object's slot. `slot` finds the slot, making the vector first if
    /// the slab page has none; it gives `None` where no memory could be had for one: the charge is then taken back and
    /// the object stays unaccounted.
    fn post_alloc<'a>(
        accounting: &Accounting,
        charge: Self::Charge,
        size: usize,
        slot: impl FnOnce() -> Option<&'a OwnerSlot>,
    );

    /// Instead of [`post_alloc`](Model::post_alloc), when there was no memory for the object.
    fn cancel(accounting: &Accounting, charge: Self::Charge, size: usize);

    /// Before an object goes back to its cache, accounted or not. `slot` finds its slot; `None` where its slab page has
    /// no vector.
    fn free<'a>(accounting: &Accounting, size: usize, slot: impl FnOnce() -> Option<&'a OwnerSlot>);
}
