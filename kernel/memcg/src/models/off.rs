//! Accounting disabled (Linux: `cgroup.memory=nokmem`): the rows' floor.

use crate::accounting::Accounting;
use crate::{Model, OverLimit, OwnerSlot, TaskMemcg};

/// No accounting.
pub struct Off;

impl Model for Off {
    const NAME: &'static str = "off";
    const BATCH: usize = 64;
    type Charge = ();

    #[inline(always)]
    fn pre_alloc(_: &Accounting, _: &TaskMemcg, _: usize) -> Result<(), OverLimit> {
        Ok(())
    }
    #[inline(always)]
    fn post_alloc<'a>(_: &Accounting, (): (), _: usize, _: impl FnOnce() -> Option<&'a OwnerSlot>) {}
    #[inline(always)]
    fn cancel(_: &Accounting, (): (), _: usize) {}
    #[inline(always)]
    fn free<'a>(_: &Accounting, _: usize, _: impl FnOnce() -> Option<&'a OwnerSlot>) {}
}
