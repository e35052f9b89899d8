//! Linux 6.7 on: as `local-lock`, with a cheaper look-up.
//!
//! The task carries a pointer to its objcg, and what it points to is good for the length of the call without a reference
//! (each object still takes one for its slot). The root cgroup has no objcg: it returns at once.

use super::full_size;
use crate::accounting::Accounting;
use crate::stock::{self, Single};
use crate::{Model, ObjCgroup, OverLimit, OwnerSlot, TaskMemcg};

/// Objects are charged; the task knows its objcg and lends it for the length of the call.
pub struct Scoped;

impl Model for Scoped {
    const NAME: &'static str = "scoped";
    const BATCH: usize = 64;
    const SEPARATE_KMALLOC: bool = true;
    type Charge = Option<&'static ObjCgroup>;

    #[inline(always)]
    fn pre_alloc(accounting: &Accounting, task: &TaskMemcg, size: usize) -> Result<Self::Charge, OverLimit> {
        if !cpu::in_task() {
            return Ok(None);
        }
        let Some(objcg) = task.current_objcg(accounting) else {
            return Ok(None);
        };
        stock::charge::<Single>(accounting, objcg, full_size(size))?;
        Ok(Some(objcg))
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
    }

    #[inline(always)]
    fn cancel(accounting: &Accounting, charge: Self::Charge, size: usize) {
        let Some(objcg) = charge else { return };
        stock::uncharge::<Single>(accounting, objcg, full_size(size));
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
