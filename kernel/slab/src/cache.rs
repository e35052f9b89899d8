//! A cache: objects of one size.
//!
//! **Purpose.** The parameters of a cache, and its life: how objects are laid out in slab pages, how a slab page is made
//! and given back.
//!
//! **How it works.** Objects lie one behind the other from the start of a slab page of 2^order frames. The order is the
//! smallest that gives [`MIN_OBJECTS`] objects and wastes at most a sixteenth; where the page source has no block of it,
//! the smallest that holds one object. Caches live for ever.
//!
//! **Lock order.** None of its own; making and giving back slab pages is done with no lock of this crate held (but those
//! of ranks 40 and 44).

use crate::accounted::{AllocFn, Copies, CopyOf, FreeFn, Hooks};
use crate::cpu_slab::CpuSlab;
use crate::node::{Node, PageChain};
use crate::page::{MAX_OBJECTS, MAX_ORDER, PAGE_SIZE, Page};
use crate::taken::Taken;
use crate::{AllocError, Gfp, Slab};
use core::fmt;
use core::ptr::NonNull;
use cpu::AtomicRef;
use memcg::{Accounting, TaskMemcg};
use percpu::{NoSpace, PerCpu, PerCpuPair};

/// Objects that a slab page should hold at least.
const MIN_OBJECTS: usize = 16;
/// The largest order for that aim.
const AIM_ORDER: u32 = 3;
/// The smallest object: it must hold the link of a freelist.
const MIN_SIZE: usize = size_of::<usize>();

bitflags::bitflags! {
    /// Properties of a cache.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CacheFlags: u32 {
        /// Every allocation is accounted (Linux: `SLAB_ACCOUNT`).
        const ACCOUNT = 1;
        /// Objects start on cache lines of their own (Linux: `SLAB_HWCACHE_ALIGN`).
        const HWCACHE_ALIGN = 2;
    }
}

/// How objects lie in slab pages. Immutable.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Bytes from one object to the next.
    size: u32,
    /// ⌈2^32 / size⌉: a multiplication instead of a division (see [`Cache::index`]).
    reciprocal: u32,
    /// The order to ask for.
    order: u32,
    /// The order to make do with.
    min_order: u32,
}

impl Layout {
    /// The layout for objects of `size` bytes at multiples of `align`; `None` when they are larger than a block.
    pub(crate) const fn new(size: usize, align: usize) -> Option<Layout> {
        let align = if align > MIN_SIZE { align } else { MIN_SIZE };
        let size = if size > MIN_SIZE { size } else { MIN_SIZE };
        // Offsets within a page must stay below what the reciprocal is exact for.
        if !align.is_power_of_two() || align > PAGE_SIZE || size > PAGE_SIZE << AIM_ORDER {
            return None;
        }
        let size = size.next_multiple_of(align);
        let mut min_order = 0;
        while PAGE_SIZE << min_order < size {
            min_order += 1;
        }
        let mut order = min_order;
        while order < AIM_ORDER {
            let bytes = PAGE_SIZE << order;
            if bytes / size >= MIN_OBJECTS && bytes % size <= bytes / 16 {
                break;
            }
            order += 1;
        }
        Some(Layout {
            size: size as u32,
            reciprocal: (1u64 << 32).div_ceil(size as u64) as u32,
            order,
            min_order,
        })
    }

    pub(crate) const fn objects(&self, order: u32) -> usize {
        let objects = (PAGE_SIZE << order) / self.size as usize;
        if objects < MAX_OBJECTS { objects } else { MAX_OBJECTS }
    }
}

/// A cache of objects of one size. Type-stable: a `&'static Cache` is always valid.
pub struct Cache {
    /// The CPUs' freelists: the address of the first free object, 0 when there is none; and the transaction number.
    pub(crate) freelist: PerCpuPair,
    layout: Layout,
    /// The model's functions. Immutable.
    pub(crate) accounted_alloc: AllocFn,
    pub(crate) free: FreeFn,
    /// Immutable.
    accounting: &'static Accounting,
    /// What else each CPU has of this cache.
    pub(crate) cpu: PerCpu<CpuSlab>,
    pub(crate) node: Node,
    /// Slab pages that a CPU's partial list may hold. Immutable.
    pub(crate) cpu_partial: u32,
    /// Immutable.
    name: &'static str,
    /// Immutable.
    flags: CacheFlags,
    /// The allocator that it belongs to. Set once, at boot before it is used from outside.
    slab: AtomicRef<Slab>,
    /// The next in the list of all caches. Guarded by the list's lock when written.
    pub(crate) next: AtomicRef<Cache>,
    /// The copies for cgroups (model `page`).
    pub(crate) copies: Copies,
    /// Whose copy this is; `None` for a root cache. Immutable.
    pub(crate) copy_of: Option<CopyOf>,
}

/// What a cache is made from.
pub(crate) struct Description {
    pub(crate) name: &'static str,
    pub(crate) layout: Layout,
    pub(crate) flags: CacheFlags,
    pub(crate) copy_of: Option<CopyOf>,
    /// Whether its objects are whole blocks of any order.
    pub(crate) large: bool,
}

impl Cache {
    /// A cache with nothing in it.
    pub(crate) fn try_new(
        description: Description,
        hooks: &'static Hooks,
        accounting: &'static Accounting,
        slab: Option<&'static Slab>,
    ) -> Result<Cache, NoSpace> {
        let Description {
            name,
            layout,
            flags,
            copy_of,
            large,
        } = description;
        let size = layout.size as usize;
        // As Linux: about this many free objects a CPU, in half-full slab pages.
        let wanted: usize = match size {
            0..256 => 120,
            256..1024 => 52,
            1024..PAGE_SIZE => 24,
            _ => 6,
        };
        let cache = Cache {
            freelist: PerCpuPair::try_new()?,
            layout,
            accounted_alloc: hooks.alloc,
            free: if large { hooks.free_large } else { hooks.free },
            accounting,
            cpu: PerCpu::try_new(|_| CpuSlab::new())?,
            node: Node::new((size.ilog2() as usize / 2).clamp(5, 10)),
            cpu_partial: (wanted * 2).div_ceil(layout.objects(layout.order)) as u32,
            name,
            flags,
            slab: AtomicRef::none(),
            next: AtomicRef::none(),
            copies: Copies::new(),
            copy_of,
        };
        cache.slab.store(slab);
        Ok(cache)
    }

    /// Its name, as in slabinfo. A copy has its root's.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// Bytes of an object, as laid out.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.layout.size as usize
    }
    /// Its flags.
    pub fn flags(&self) -> CacheFlags {
        self.flags
    }
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
    #[inline(always)]
    pub(crate) fn accounting(&self) -> &'static Accounting {
        self.accounting
    }
    pub(crate) fn slab(&self) -> &'static Slab {
        self.slab.get()
    }
    pub(crate) fn set_slab(&self, slab: &'static Slab) {
        self.slab.store(Some(slab));
    }
    /// Bytes that an object of `page` may use: for the cache of large allocations the whole block.
    pub(crate) fn capacity(&self, page: &Page) -> usize {
        if page.objects() == 1 {
            PAGE_SIZE << page.order()
        } else {
            self.size()
        }
    }
    /// Objects in a slab page of the order that is asked for first.
    pub fn objects_per_slab(&self) -> usize {
        self.layout.objects(self.layout.order)
    }
    /// Frames of a slab page of the order that is asked for first.
    pub fn pages_per_slab(&self) -> usize {
        1 << self.layout.order
    }

    /// Number of the object that lies `offset` bytes into a slab page.
    ///
    /// ⌊offset / size⌋ as ⌊offset · ⌈2^32 / size⌉ / 2^32⌋. The factor is too large by less than 1, so the product by less
    /// than offset; the result is exact while offset · size < 2^32, and both are at most 2^15 (a test tries all).
    #[inline(always)]
    pub(crate) fn index(&self, offset: usize) -> usize {
        ((offset as u64 * u64::from(self.layout.reciprocal)) >> 32) as usize
    }

    /// Takes an object; accounted to `task`'s cgroup where `gfp` or the cache says so.
    ///
    /// Fast path: no lock, no locked instruction, nothing masked.
    #[inline]
    pub fn alloc(&'static self, gfp: Gfp, task: &TaskMemcg) -> Result<NonNull<u8>, AllocError> {
        let object = if gfp.contains(Gfp::ACCOUNT) || self.flags.contains(CacheFlags::ACCOUNT) {
            (self.accounted_alloc)(self, task)?
        } else {
            self.take()?
        };
        if gfp.contains(Gfp::ZERO) {
            object.zero(self.size());
        }
        Ok(object.into_pointer())
    }

    /// Makes a slab page: all its objects are on its own freelist, it is on no list, and it is charged where this is
    /// a cgroup's copy.
    pub(crate) fn new_slab(&'static self) -> Result<&'static Page, AllocError> {
        let Layout { order, min_order, .. } = self.layout;
        let page = Page::alloc(self, order, self.layout.objects(order))
            .or_else(|| (min_order < order).then(|| Page::alloc(self, min_order, self.layout.objects(min_order)))?)
            .ok_or(AllocError::NoMemory)?;
        if let Some(CopyOf { cgroup, .. }) = self.copy_of {
            if let Err(refused) = self.accounting.charge_slab_pages(cgroup, 1 << page.order()) {
                page.give_back();
                return Err(refused.into());
            }
            page.set_charged(cgroup);
        }
        page.fill_freelist(self.size());
        self.node.slab_made(page.objects());
        Ok(page)
    }

    /// Gives back slab pages without objects: to the page source, their charge to the cgroup, their vectors to kmalloc.
    ///
    /// A vector's own slab page may become empty by that: hence the loop, not a recursion.
    pub(crate) fn discard(mut empty: PageChain) {
        while let Some(page) = empty.pop() {
            let cache = page.cache();
            cache.node.slab_gone(page.objects());
            if let Some(cgroup) = page.charged() {
                cache.accounting.uncharge_slab_pages(cgroup, 1 << page.order());
            }
            let vector = page.take_owners();
            page.give_back();
            if let Some(vector) = vector {
                let page = vector.page();
                page.cache().put_without_discard(page, vector, &mut empty);
            }
        }
    }

    /// Puts an object back, unaccounted.
    #[inline(always)]
    pub(crate) fn put(&'static self, page: &'static Page, object: Taken) {
        if let Err(object) = self.put_fast(page, object) {
            self.put_slow(page, object);
        }
    }

    #[cold]
    #[inline(never)]
    fn put_slow(&'static self, page: &'static Page, object: Taken) {
        let mut empty = PageChain::new();
        self.put_to_page(page, object, &mut empty);
        Cache::discard(empty);
    }

    /// Puts an object back, unaccounted; slab pages that became empty and are too many are added to `empty`.
    fn put_without_discard(&'static self, page: &'static Page, object: Taken, empty: &mut PageChain) {
        if let Err(object) = self.put_fast(page, object) {
            self.put_to_page(page, object, empty);
        }
    }
}

const _: () = assert!(AIM_ORDER <= MAX_ORDER);

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({}, {} bytes)", self.name, self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Miri is slow: it tries a sample.
    const STEP: usize = if cfg!(miri) { 97 } else { 1 };

    #[test]
    fn is_the_reciprocal_a_division() {
        for size in (8..=16384).step_by(8 * STEP) {
            let layout = Layout::new(size, 8).unwrap();
            for offset in (0..PAGE_SIZE << layout.order).step_by(STEP) {
                let index = (offset as u64 * u64::from(layout.reciprocal)) >> 32;
                assert_eq!(index as usize, offset / size, "{offset} / {size}");
            }
        }
    }

    #[test]
    fn do_slab_pages_hold_enough_and_waste_little() {
        for size in (1..=PAGE_SIZE << AIM_ORDER).step_by(STEP) {
            let layout = Layout::new(size, 1).unwrap();
            assert!(layout.objects(layout.min_order) >= 1);
            assert!(layout.order <= AIM_ORDER && layout.order >= layout.min_order);
            assert!(layout.order == AIM_ORDER || layout.objects(layout.order) >= MIN_OBJECTS);
        }
        assert!(Layout::new((PAGE_SIZE << AIM_ORDER) + 1, 8).is_none());
        assert!(Layout::new(8, 24).is_none(), "an alignment that is no power of two");
    }
}
