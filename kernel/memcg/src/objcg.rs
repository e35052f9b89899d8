//! What stands between an object and its cgroup.
//!
//! An object's owner slot refers to an objcg, not to a cgroup. When the cgroup is removed its objcg is given to the
//! parent, and whatever is still charged is the parent's from then on, without touching any object.
//!
//! An objcg counts bytes: a charge takes whole pages from the cgroup, and what an object does not need of them is kept in
//! a CPU's byte stock, or in [`ObjCgroup::leftover`] when that stock is needed for another objcg.

use crate::accounting::Accounting;
use crate::{Cgroup, NoMemory, PAGE_SIZE, TaskMemcg, leak};
use core::fmt;
use cpu::AtomicRef;
use cpu::atomic::{AtomicUsize, Ordering};
use cpu::event::{self, Event};
use percpu::PercpuRef;

/// An object cgroup. Type-stable: a `&'static ObjCgroup` is always valid.
pub struct ObjCgroup {
    /// References: one of its cgroup until removal, one for each object, one for each stock that holds its bytes.
    references: PercpuRef,
    /// Who pays. Changes when the cgroup is removed; readers are in a reader section.
    cgroup: AtomicRef<Cgroup>,
    /// Bytes charged that no stock holds, less than a page for each stock drained since (Linux: `nr_charged_bytes`).
    leftover: AtomicUsize,
}

impl ObjCgroup {
    pub(crate) fn try_new(cgroup: &'static Cgroup) -> Result<&'static ObjCgroup, NoMemory> {
        leak(ObjCgroup {
            references: PercpuRef::try_new()?,
            cgroup: AtomicRef::new(cgroup),
            leftover: AtomicUsize::new(0),
        })
    }

    /// Who pays now. In a reader section, or where a removal meanwhile does not matter.
    #[inline(always)]
    pub fn cgroup(&self) -> &'static Cgroup {
        self.cgroup.get()
    }

    pub(crate) fn leftover(&self) -> &AtomicUsize {
        &self.leftover
    }

    /// Leaves bytes that no stock holds any more. Where they make up whole pages, those are uncharged: so a cgroup whose
    /// objects are gone and whose stocks are drained is at zero. (Linux leaves them until the objcg is used or released.)
    pub(crate) fn leave(&self, accounting: &Accounting, mut bytes: usize) {
        while bytes > 0 && self.leftover.fetch_add(bytes, Ordering::AcqRel) + bytes >= PAGE_SIZE {
            let all = self.leftover.swap(0, Ordering::AcqRel);
            if all >= PAGE_SIZE {
                accounting.uncharge_kernel_pages(self.cgroup(), all / PAGE_SIZE);
            }
            bytes = all % PAGE_SIZE;
        }
    }

    /// Takes a reference; the caller has one.
    #[inline(always)]
    pub(crate) fn get(&self) {
        event::count(Event::Reference);
        self.references.get();
    }

    /// Takes a reference if the cgroup still holds its own or an object lives.
    #[inline(always)]
    pub(crate) fn try_get(&self, reader: &cpu::Pinned) -> bool {
        event::count(Event::Reference);
        self.references.try_get(reader)
    }

    /// Drops a reference. The last one, after removal, gives the remaining whole pages back.
    #[inline(always)]
    pub(crate) fn put(&self, accounting: &Accounting) {
        event::count(Event::Reference);
        if self.references.put() {
            self.release(accounting);
        }
    }

    /// Number of references: exact when all is quiet.
    pub fn references(&self) -> i64 {
        self.references.count()
    }

    /// No object and no stock holds bytes any more: what is left is whole pages.
    #[cold]
    fn release(&self, accounting: &Accounting) {
        let bytes = self.leftover.swap(0, Ordering::AcqRel);
        debug_assert_eq!(bytes % PAGE_SIZE, 0, "an objcg without objects holds {bytes} bytes");
        if bytes >= PAGE_SIZE {
            accounting.uncharge_kernel_pages(self.cgroup(), bytes / PAGE_SIZE);
        }
    }

    /// Hands the objcg to `parent` and drops the cgroup's reference. `grace` waits until no reader section that saw the
    /// old owner is open.
    pub(crate) fn reparent(&self, accounting: &Accounting, parent: &'static Cgroup, grace: impl FnOnce()) {
        self.cgroup.store(Some(parent));
        if self.references.kill(grace) {
            self.release(accounting);
        }
    }
}

impl fmt::Debug for ObjCgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjCgroup({:?}, {} references)", self.cgroup(), self.references())
    }
}

/// The objcg that the running task's new objects belong to, with a reference: the task's cgroup's own, or the nearest
/// live one above it (Linux: `get_obj_cgroup_from_current`). `None` when nothing is to be charged: in an interrupt, or in
/// the root cgroup.
#[inline]
pub(crate) fn get_from_current(task: &TaskMemcg) -> Option<&'static ObjCgroup> {
    if !cpu::in_task() {
        return None;
    }
    cpu::rcu_read(|reader| {
        let mut cgroup = task.cgroup();
        while let Some(parent) = cgroup.parent() {
            if let Some(objcg) = cgroup.objcg().load()
                && objcg.try_get(reader)
            {
                return Some(objcg);
            }
            cgroup = parent;
        }
        None
    })
}
