//! Linux 5.9 to 5.13: one set of caches; each object is charged in bytes.
//!
//! An allocation looks the caller's objcg up and takes a reference (reader section), takes the bytes from the CPU's stock
//! (interrupts off), records the owner with a reference of its own, and updates the statistics (interrupts off). A free
//! does it all backwards.

use super::full_size;
use crate::accounting::Accounting;
use crate::statistics::Item;
use crate::stock::{self, Single};
use crate::{Model, ObjCgroup, OverLimit, OwnerSlot, TaskMemcg, objcg};

/// Objects are charged, statistics are updated for each.
pub struct Object;

impl Model for Object {
    const NAME: &'static str = "object";
    const BATCH: usize = 32;
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
                count(objcg, full_size(size) as i64);
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
        count(objcg, -(full_size(size) as i64));
        objcg.put(accounting);
    }
}

/// Updates the slab bytes of the objcg's cgroup at once (Linux 5.9: `mod_objcg_state`).
#[inline(always)]
fn count(objcg: &'static ObjCgroup, delta: i64) {
    cpu::rcu_read(|_| {
        let cgroup = objcg.cgroup();
        cpu::without_interrupts(|masked| {
            cgroup
                .statistics()
                .modify_batched(masked, cgroup, Item::SlabUnreclaimable, delta);
        });
    });
}
