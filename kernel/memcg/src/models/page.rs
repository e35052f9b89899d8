//! Linux 4.18 to 5.8: every cgroup has its own copy of each cache, and slab pages are charged.
//!
//! Charging happens where the copy takes a page from the page allocator ([`Accounting::charge_slab_pages`]), so an
//! allocation from a slab that is there already costs only the look-up of the copy and a reference on it across the
//! allocation, which the slab allocator takes. A free costs nothing.

use crate::accounting::Accounting;
use crate::{KmemId, Model, OverLimit, OwnerSlot, TaskMemcg};

/// One copy of each cache a cgroup; slab pages are charged.
pub struct Page;

impl Model for Page {
    const NAME: &'static str = "page";
    const BATCH: usize = 32;
    const COPIES: bool = true;
    type Charge = Option<KmemId>;

    /// The caller's cgroup, by reading. The caller of this function is in a reader section.
    #[inline(always)]
    fn pre_alloc(_: &Accounting, task: &TaskMemcg, _: usize) -> Result<Option<KmemId>, OverLimit> {
        if !cpu::in_task() {
            return Ok(None);
        }
        let cgroup = task.cgroup();
        Ok((!cgroup.is_root()).then(|| cgroup.id()))
    }
    #[inline(always)]
    fn copy(charge: Option<KmemId>) -> Option<KmemId> {
        charge
    }
    #[inline(always)]
    fn post_alloc<'a>(_: &Accounting, _: Option<KmemId>, _: usize, _: impl FnOnce() -> Option<&'a OwnerSlot>) {}
    #[inline(always)]
    fn cancel(_: &Accounting, _: Option<KmemId>, _: usize) {}
    #[inline(always)]
    fn free<'a>(_: &Accounting, _: usize, _: impl FnOnce() -> Option<&'a OwnerSlot>) {}
}
