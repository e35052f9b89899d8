//! Linux 5.14 to 5.17: as `object`, with two byte stocks a CPU.
//!
//! Task context has a stock of its own that needs only preemption off; interrupt context has the other, where interrupts
//! are off already. And the statistics are gathered in the stock, to be passed on by the page.
//!
//! It was dropped in 5.18: on PREEMPT_RT a section with preemption off may not take the sleeping locks that draining a
//! stock can need.

use super::full_size;
use crate::accounting::Accounting;
use crate::stock::{self, Split};
use crate::{Model, ObjCgroup, OverLimit, OwnerSlot, TaskMemcg, objcg};

/// Objects are charged; two stocks a CPU; statistics are batched.
pub struct TaskStock;

impl Model for TaskStock {
    const NAME: &'static str = "task-stock";
    const BATCH: usize = 32;
    const SEPARATE_KMALLOC: bool = true;
    type Charge = Option<&'static ObjCgroup>;

    #[inline(always)]
    fn pre_alloc(accounting: &Accounting, task: &TaskMemcg, size: usize) -> Result<Self::Charge, OverLimit> {
        let Some(objcg) = objcg::get_from_current(task) else {
            return Ok(None);
        };
        match stock::charge::<Split>(accounting, objcg, full_size(size)) {
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
                stock::count_slab_bytes::<Split>(accounting, objcg, full_size(size) as i64);
            }
            None => stock::uncharge::<Split>(accounting, objcg, full_size(size)),
        }
        objcg.put(accounting);
    }

    #[inline(always)]
    fn cancel(accounting: &Accounting, charge: Self::Charge, size: usize) {
        let Some(objcg) = charge else { return };
        stock::uncharge::<Split>(accounting, objcg, full_size(size));
        objcg.put(accounting);
    }

    #[inline(always)]
    fn free<'a>(accounting: &Accounting, size: usize, slot: impl FnOnce() -> Option<&'a OwnerSlot>) {
        let Some(slot) = slot() else { return };
        let Some(objcg) = slot.load() else { return };
        slot.store_private(None);
        stock::uncharge::<Split>(accounting, objcg, full_size(size));
        stock::count_slab_bytes::<Split>(accounting, objcg, -(full_size(size) as i64));
        objcg.put(accounting);
    }
}
