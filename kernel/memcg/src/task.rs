//! What a task carries for memory control.

use crate::accounting::Accounting;
use crate::{Cgroup, ObjCgroup, objcg};
use cpu::AtomicRef;
use cpu::atomic::{AtomicU32, Ordering};

/// The memory-control part of a task.
///
/// The objcg pointer is what the model `scoped` adds: valid for the length of a system call without taking a reference,
/// because only the task itself changes it. A move to another cgroup only marks it stale.
pub struct TaskMemcg {
    /// The task's cgroup. Changed by whoever moves the task; read in a reader section.
    cgroup: AtomicRef<Cgroup>,
    /// The objcg of its new objects, with a reference; empty in the root cgroup. Changed by the task only.
    objcg: AtomicRef<ObjCgroup>,
    /// Whether `objcg` is to be looked up anew.
    stale: AtomicU32,
}

impl TaskMemcg {
    /// A task in `cgroup`.
    pub fn new(cgroup: &'static Cgroup) -> Self {
        TaskMemcg {
            cgroup: AtomicRef::new(cgroup),
            objcg: AtomicRef::none(),
            stale: AtomicU32::new(1),
        }
    }

    /// The task's cgroup.
    #[inline(always)]
    pub fn cgroup(&self) -> &'static Cgroup {
        self.cgroup.get()
    }

    /// Moves the task to another cgroup. What is charged stays where it is, as in cgroup v2.
    pub fn set_cgroup(&self, cgroup: &'static Cgroup) {
        self.cgroup.store(Some(cgroup));
        self.stale.store(1, Ordering::Release);
    }

    /// The objcg of the running task, valid until it returns to user mode, without a reference (Linux 6.7 on:
    /// `current_obj_cgroup`). `None` in the root cgroup.
    #[inline(always)]
    pub(crate) fn current_objcg(&self, accounting: &Accounting) -> Option<&'static ObjCgroup> {
        if self.stale.load(Ordering::Acquire) != 0 {
            self.update(accounting);
        }
        self.objcg.load()
    }

    #[cold]
    #[inline(never)]
    fn update(&self, accounting: &Accounting) {
        // The mark goes first: a move after this line is seen by the next call.
        self.stale.store(0, Ordering::Release);
        let new = objcg::get_from_current(self);
        if let Some(old) = self.objcg.swap(new) {
            old.put(accounting);
        }
    }

    /// The task ends: drops what it holds. It may be used again; then it looks everything up anew.
    pub fn exit(&self, accounting: &Accounting) {
        self.stale.store(1, Ordering::Release);
        if let Some(old) = self.objcg.swap(None) {
            old.put(accounting);
        }
    }
}
