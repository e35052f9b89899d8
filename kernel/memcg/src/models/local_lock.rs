//! Linux 5.18 to 6.6: as `task-stock` without the split.
//!
//! One byte stock a CPU for all contexts again, behind a local lock: interrupts off around each access, which PREEMPT_RT
//! turns into a lock that may sleep. The statistics stay batched. The page stock holds 64 pages, as from 6.1 on.

use super::full_size;
use crate::accounting::Accounting;
use crate::stock::{self, Single};
use crate::{Model, ObjCgroup, OverLimit, OwnerSlot, TaskMemcg, objcg};

/// Objects are charged; one stock a CPU behind a local lock; statistics are batched.
pub struct LocalLock;

impl Model for LocalLock {
    const NAME: &'static str = "local-lock";
    const BATCH: usize = 64;
    const SEPARATE_KMALLOC: bool = true;
    type Charge = Option<&'static ObjCgroup>;

    #[inline(always)]
    fn pre_alloc(accounting: &Accounting, task: &TaskMemcg, size: usize) -> Result<Self::Charge, OverLimit> {
        let Some(objcg) = objcg::get_from_current(task) else {
            return Ok(None);
        };
        match stock::charge::<Single>(accounting, objcg, full_size(size)) {
            Ok(()) => Ok(Some(objcg)),
            Err(over) => {
                objcg.put(accounting);
                Err(over)
            }
        }
    }

    #[inline(always)]
    fn post_alloc<'a>(
        accounting: &Accounting,
        charge: Self::Charge,
        size: usize,
        slot: impl FnOnce() -> Option<&'a OwnerSlot>,
    ) {
        let Some(objcg) = charge else { return };
        match slot() {
            Some(slot) => {
                objcg.get();
                slot.store_private(Some(objcg));
                stock::count_slab_bytes::<Single>(accounting, objcg, full_size(size) as i64);
            }
            None => stock::uncharge::<Single>(accounting, objcg, full_size(size)),
        }
        objcg.put(accounting);
    }

    #[inline(always)]
    fn cancel(accounting: &Accounting, charge: Self::Charge, size: usize) {
        let Some(objcg) = charge else { return };
        stock::uncharge::<Single>(accounting, objcg, full_size(size));
        objcg.put(accounting);
    }

    #[inline(always)]
    fn free<'a>(accounting: &Accounting, size: usize, slot: impl FnOnce() -> Option<&'a OwnerSlot>) {
        let Some(slot) = slot() else { return };
        let Some(objcg) = slot.load() else { return };
        slot.store_private(None);
        stock::uncharge::<Single>(accounting, objcg, full_size(size));
        stock::count_slab_bytes::<Single>(accounting, objcg, -(full_size(size) as i64));
        objcg.put(accounting);
    }
}
