//! A memory cgroup and its place in the hierarchy.

use crate::objcg::ObjCgroup;
use crate::page_counter::PageCounter;
use crate::statistics::Statistics;
use crate::{NoMemory, OverLimit, leak};
use core::fmt;
use cpu::AtomicRef;
use cpu::event::{self, Event};
use percpu::PercpuRef;

/// Number of a cgroup, small and dense: the index of its copy of a cache under the model `page` (Linux: `kmemcg_id`).
/// The root's is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KmemId(pub(crate) u16);

impl KmemId {
    /// As an index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for KmemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for KmemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KmemId({})", self.0)
    }
}

/// A memory cgroup. Type-stable: a `&'static Cgroup` is always valid.
pub struct Cgroup {
    /// Immutable.
    id: KmemId,
    /// Immutable; `None` for the root.
    parent: Option<&'static Cgroup>,
    /// Pages charged to it and to those below.
    memory: PageCounter,
    statistics: Statistics,
    /// The objcg that new objects of its tasks belong to. Empty for the root (nothing is charged to it) and after the
    /// cgroup's removal.
    objcg: AtomicRef<ObjCgroup>,
    /// References that keep the number from being given out again: those of stocks, and the owner's (Linux: the css).
    references: PercpuRef,
}

impl Cgroup {
    /// Makes a cgroup that lives forever, without an objcg yet.
    pub(crate) fn try_new(id: KmemId, parent: Option<&'static Cgroup>) -> Result<&'static Cgroup, NoMemory> {
        leak(Cgroup {
            id,
            parent,
            memory: PageCounter::new(),
            statistics: Statistics::try_new()?,
            objcg: AtomicRef::none(),
            references: PercpuRef::try_new()?,
        })
    }

    /// Its number.
    #[inline(always)]
    pub fn id(&self) -> KmemId {
        self.id
    }
    /// The cgroup above; `None` for the root.
    #[inline(always)]
    pub fn parent(&self) -> Option<&'static Cgroup> {
        self.parent
    }
    /// Whether this is the root, which is never charged for itself.
    #[inline(always)]
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }
    /// Its page counter.
    pub fn memory(&self) -> &PageCounter {
        &self.memory
    }
    /// Its statistics.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
    /// The objcg of new objects: see the field.
    #[inline(always)]
    pub(crate) fn objcg(&self) -> &AtomicRef<ObjCgroup> {
        &self.objcg
    }

    /// This cgroup, its parent, and so on to the root.
    pub fn and_ancestors(&self) -> impl Iterator<Item = &Cgroup> {
        core::iter::successors(Some(self), |cgroup| cgroup.parent)
    }

    /// Charges pages here and at every ancestor. Slow path: one locked add a level.
    ///
    /// On refusal everything is taken back, and the error names the level that refused.
    pub(crate) fn try_charge(&'static self, pages: usize) -> Result<(), OverLimit> {
        event::count(Event::Charge);
        let mut level = Some(self);
        while let Some(cgroup) = level {
            if !cgroup.memory.try_charge(pages) {
                let below = self.and_ancestors().take_while(|lower| !core::ptr::eq(*lower, cgroup));
                below.for_each(|lower| lower.memory.uncharge(pages));
                return Err(OverLimit(cgroup));
            }
            level = cgroup.parent;
        }
        Ok(())
    }

    /// Takes pages off here and at every ancestor. Slow path: one locked add a level.
    pub(crate) fn uncharge(&self, pages: usize) {
        event::count(Event::Charge);
        self.and_ancestors().for_each(|level| level.memory.uncharge(pages));
    }

    /// Takes a reference (Linux: `css_get`).
    #[inline]
    pub(crate) fn get(&self) {
        event::count(Event::Reference);
        self.references.get();
    }
    /// Drops a reference (Linux: `css_put`).
    #[inline]
    pub(crate) fn put(&self) {
        event::count(Event::Reference);
        // The owner's own reference is dropped at removal. The memory stays (type-stable); being the last one changes
        // nothing else.
        _ = self.references.put();
    }
}

impl fmt::Debug for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cgroup({}, {} pages)", self.id, self.memory.usage())
    }
}
