//! The allocator of a machine: size classes, large allocations, and the list of all caches.
//!
//! **Purpose.** [`Slab::kmalloc`] serves any size from a cache of a class, and [`kfree`] takes any of them back.
//!
//! **How it works.** Classes are the powers of two from 8 to 8192, and 96 and 192. A table gives the class of a size.
//! Under the models that have it so, accounted requests have classes of their own (`kmalloc-cg-*`), so that pages with
//! an objcg vector hold accounted objects only, and vectors come from the unaccounted classes. Where the classes are
//! shared, vectors have classes of their own: else a page could hold its own vector, or two pages each other's, and
//! never become empty (a fault of Linux 5.9 to 5.13, and the reason for `kmalloc-cg-*`). Above 8192 bytes whole pages come from the page source: slab pages of
//! one object, of a cache of their own that has no freelists.
//!
//! **Lock order.** The list of caches (rank 40), held while a cache is added to it.

use crate::accounted::{Hooks, WantedCopies, take_large};
use crate::cache::{Description, Layout};
use crate::node::PageChain;
use crate::page::{self, PAGE_SHIFT, PAGE_SIZE};
use crate::taken::Taken;
use crate::{AllocError, Cache, CacheFlags, Gfp};
use core::fmt;
use core::ptr::NonNull;
use cpu::SpinLock;
use memcg::{Accounting, Model, TaskMemcg};

/// The largest size that has a class, in bytes; larger requests are whole pages.
pub const MAX_SMALL: usize = 8192;

/// A size class.
struct Class {
    size: usize,
    name: &'static str,
    accounted_name: &'static str,
    vector_name: &'static str,
}

macro_rules! classes {
    ($($size:literal $suffix:literal),* $(,)?) => {
        [$(Class {
            size: $size,
            name: concat!("kmalloc-", $suffix),
            accounted_name: concat!("kmalloc-cg-", $suffix),
            vector_name: concat!("objcg-vector-", $suffix),
        }),*]
    };
}

/// The size classes, ascending.
static CLASSES: [Class; 13] = classes!(
    8 "8", 16 "16", 32 "32", 64 "64", 96 "96", 128 "128", 192 "192", 256 "256", 512 "512",
    1024 "1k", 2048 "2k", 4096 "4k", 8192 "8k",
);

/// Class of a size by the number of words that it takes.
static CLASS_OF_WORDS: [u8; MAX_SMALL / 8 + 1] = {
    let mut table = [0; MAX_SMALL / 8 + 1];
    let mut words = 0;
    while words < table.len() {
        let mut class = 0;
        while CLASSES[class].size < words * 8 {
            class += 1;
        }
        table[words] = class as u8;
        words += 1;
    }
    table
};

/// The class of a size up to [`MAX_SMALL`].
#[inline(always)]
fn class_of(size: usize) -> usize {
    usize::from(CLASS_OF_WORDS[(size + 7) >> 3])
}

type Classes = [&'static Cache; CLASSES.len()];

/// Why there is no allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootError {
    /// No accounting model has that name.
    UnknownModel,
    /// No memory, or no per-CPU space.
    NoMemory,
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BootError::UnknownModel => "no accounting model has that name",
            BootError::NoMemory => "no memory for the slab allocator",
        })
    }
}

impl From<AllocError> for BootError {
    fn from(_: AllocError) -> Self {
        BootError::NoMemory
    }
}

/// The slab allocator of a machine. Lives for ever.
pub struct Slab {
    /// Caches of the size classes. Immutable.
    unaccounted: Classes,
    /// The same for accounted requests: under some models the very same caches. Immutable.
    accounted: Classes,
    /// The same for objcg vectors: see the module. Immutable.
    vectors: Classes,
    /// The cache of large allocations. Immutable.
    large: &'static Cache,
    /// The cache of caches (Linux: `kmem_cache`). Immutable.
    cache_of_caches: &'static Cache,
    /// Immutable.
    hooks: &'static Hooks,
    /// Immutable.
    accounting: &'static Accounting,
    /// The root caches, in order of their making, linked through [`Cache::next`]; the lock is for adding.
    first: &'static Cache,
    last: SpinLock<&'static Cache>,
    pub(crate) wanted_copies: WantedCopies,
    /// Held while a copy is made.
    pub(crate) making_copies: SpinLock<()>,
}

impl Slab {
    /// An allocator under model `M`. [`page::init`] comes first.
    pub fn try_new<M: Model>(accounting: &'static Accounting) -> Result<&'static Slab, BootError> {
        Slab::with_hooks(Hooks::of::<M>(), accounting)
    }

    /// Memory control and allocator under the model of this name.
    pub fn by_name(name: &str) -> Result<&'static Slab, BootError> {
        let hooks = Hooks::by_name(name).ok_or(BootError::UnknownModel)?;
        let accounting = (hooks.accounting)().map_err(|_| BootError::NoMemory)?;
        Slab::with_hooks(hooks, accounting)
    }

    fn with_hooks(hooks: &'static Hooks, accounting: &'static Accounting) -> Result<&'static Slab, BootError> {
        #[cfg(not(target_os = "none"))]
        crate::host::power_on();
        let new = |name, size, align, large| {
            let layout = Layout::new(size, align).ok_or(BootError::NoMemory)?;
            let description = Description {
                name,
                layout,
                flags: CacheFlags::empty(),
                copy_of: None,
                large,
            };
            Cache::try_new(description, hooks, accounting, None).map_err(|_| BootError::NoMemory)
        };
        // The first cache has no cache to come from.
        let cache_of_caches = new("kmem_cache", size_of::<Cache>(), align_of::<Cache>(), false)?;
        let cache_of_caches = page::leak_in_pages(cache_of_caches).ok_or(BootError::NoMemory)?;
        let mut last = cache_of_caches;
        let mut make = |name, size, large| -> Result<&'static Cache, BootError> {
            let cache = cache_of_caches.take()?.leak(new(name, size, 8, large)?);
            last.next.store(Some(cache));
            last = cache;
            Ok(cache)
        };
        let large = make("large", PAGE_SIZE, true)?;
        let mut unaccounted = [large; CLASSES.len()];
        for (class, cache) in CLASSES.iter().zip(&mut unaccounted) {
            *cache = make(class.name, class.size, false)?;
        }
        let (mut accounted, mut vectors) = (unaccounted, unaccounted);
        if hooks.separate_kmalloc {
            for (class, cache) in CLASSES.iter().zip(&mut accounted) {
                *cache = make(class.accounted_name, class.size, false)?;
            }
        } else if hooks.owners {
            for (class, cache) in CLASSES.iter().zip(&mut vectors) {
                *cache = make(class.vector_name, class.size, false)?;
            }
        }
        let slab = page::leak_in_pages(Slab {
            unaccounted,
            accounted,
            vectors,
            large,
            cache_of_caches,
            hooks,
            accounting,
            first: cache_of_caches,
            last: SpinLock::new(40, last),
            wanted_copies: WantedCopies::new(),
            making_copies: SpinLock::new(44, ()),
        })
        .ok_or(BootError::NoMemory)?;
        for cache in slab.root_caches() {
            cache.set_slab(slab);
        }
        Ok(slab)
    }

    /// Name of the accounting model.
    pub fn model(&self) -> &'static str {
        self.hooks.name
    }
    /// The machine's memory control.
    pub fn accounting(&self) -> &'static Accounting {
        self.accounting
    }

    /// Takes `size` bytes (at least; 0 is served as 1), aligned to 8 bytes, and to its size where that is a power of two;
    /// accounted to `task`'s cgroup if `gfp` says so.
    ///
    /// # Errors
    /// No memory; or the cgroup, where accounted, is at its limit.
    #[inline(always)]
    pub fn kmalloc(&self, size: usize, gfp: Gfp, task: &TaskMemcg) -> Result<NonNull<u8>, AllocError> {
        let object = if size > MAX_SMALL {
            self.take_large(size, gfp, task)?
        } else if gfp.is_accounted() {
            let cache = self.accounted[class_of(size)];
            (cache.accounted_alloc)(cache, task)?
        } else {
            self.unaccounted[class_of(size)].take()?
        };
        if gfp.contains(Gfp::ZERO) {
            object.zero(size);
        }
        Ok(object.into_pointer())
    }

    /// As [`kmalloc`](Slab::kmalloc), never accounted.
    #[inline(always)]
    pub fn kmalloc_unaccounted(&self, size: usize) -> Result<NonNull<u8>, AllocError> {
        self.take_unaccounted(size).map(Taken::into_pointer)
    }

    #[inline(always)]
    pub(crate) fn take_unaccounted(&self, size: usize) -> Result<Taken, AllocError> {
        if size > MAX_SMALL {
            return take_large(self.large, order_of(size)?);
        }
        self.unaccounted[class_of(size)].take()
    }

    /// Memory for an objcg vector.
    pub(crate) fn take_vector(&self, bytes: usize) -> Result<Taken, AllocError> {
        if bytes > MAX_SMALL {
            return Err(AllocError::NoMemory);
        }
        self.vectors[class_of(bytes)].take()
    }

    #[cold]
    #[inline(never)]
    fn take_large(&self, size: usize, gfp: Gfp, task: &TaskMemcg) -> Result<Taken, AllocError> {
        let order = order_of(size)?;
        if gfp.is_accounted() {
            (self.hooks.alloc_large)(self.large, order, task)
        } else {
            take_large(self.large, order)
        }
    }

    /// For a global allocator: `size` bytes aligned to `align` (a power of two), unaccounted. Free with [`kfree`].
    #[inline]
    pub fn alloc_aligned(&self, size: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        if align <= 8 {
            return self.kmalloc_unaccounted(size);
        }
        // Classes that are powers of two are aligned to their size (up to a page; large ones to their block).
        self.kmalloc_unaccounted(
            size.max(align)
                .checked_next_power_of_two()
                .ok_or(AllocError::NoMemory)?,
        )
    }

    /// Bytes that were really set aside for a request of `size` bytes.
    pub fn size_class(size: usize) -> Option<usize> {
        CLASS_OF_WORDS
            .get(size.div_ceil(8))
            .map(|class| CLASSES[usize::from(*class)].size)
    }

    /// Makes a cache of objects of `size` bytes at multiples of `align` (a power of two, at most a page). It lives for
    /// ever.
    ///
    /// # Errors
    /// No memory, no per-CPU space, or a size above eight pages.
    pub fn create_cache(
        &'static self,
        name: &'static str,
        size: usize,
        align: usize,
        flags: CacheFlags,
    ) -> Result<&'static Cache, AllocError> {
        let align = if flags.contains(CacheFlags::HWCACHE_ALIGN) {
            align.max(64)
        } else {
            align
        };
        let layout = Layout::new(size, align).ok_or(AllocError::NoMemory)?;
        let cache = self.new_cache(Description {
            name,
            layout,
            flags,
            copy_of: None,
            large: false,
        })?;
        let mut last = self.last.lock();
        last.next.store(Some(cache));
        *last = cache;
        Ok(cache)
    }

    /// A cache that is on no list.
    pub(crate) fn new_cache(&'static self, description: Description) -> Result<&'static Cache, AllocError> {
        let place = self.cache_of_caches.take()?;
        match Cache::try_new(description, self.hooks, self.accounting, Some(self)) {
            Ok(cache) => Ok(place.leak(cache)),
            Err(percpu::NoSpace) => {
                self.cache_of_caches.put(place.page(), place);
                Err(AllocError::NoMemory)
            }
        }
    }

    /// Makes a value that lives for ever.
    pub(crate) fn leak<T>(&self, value: T) -> Result<&'static T, AllocError> {
        const { assert!(align_of::<T>() <= 8) };
        Ok(self.take_unaccounted(size_of::<T>())?.leak(value))
    }

    /// All caches but copies, in order of their making.
    pub(crate) fn root_caches(&self) -> impl Iterator<Item = &'static Cache> + use<> {
        core::iter::successors(Some(self.first), |cache| cache.next.load())
    }

    /// All caches, each followed by its copies.
    pub fn all_caches(&self) -> impl Iterator<Item = &'static Cache> + use<> {
        self.root_caches()
            .flat_map(|root| core::iter::once(root).chain(root.copies.iter()))
    }

    /// Lets go of all that this CPU holds back: freelists, current slabs, partial lists. Other CPUs do it for themselves
    /// when asked.
    pub fn flush_this_cpu(&self) {
        self.all_caches().for_each(Cache::flush_this_cpu);
    }

    /// Gives all slab pages without objects back to the page source, but those that CPUs have (Linux: `shrink`).
    pub fn shrink(&self) {
        for cache in self.all_caches() {
            let mut empty = PageChain::new();
            cache.node.shrink(&mut empty);
            Cache::discard(empty);
        }
    }
}

/// log2 of the pages that `size` bytes take.
fn order_of(size: usize) -> Result<u32, AllocError> {
    let pages = size.div_ceil(PAGE_SIZE).checked_next_power_of_two();
    let order = pages.ok_or(AllocError::NoMemory)?.trailing_zeros();
    if order > usize::BITS - 1 - PAGE_SHIFT {
        return Err(AllocError::NoMemory);
    }
    Ok(order)
}

/// Gives back what [`Slab::kmalloc`], [`Cache::alloc`] and the like gave.
///
/// # Safety
/// `object` came from there, was not given back since, and nobody uses it any more.
///
/// # Panics
/// In debug builds, when that is visibly not so; the message names the cache.
#[inline(always)]
pub unsafe fn kfree(object: NonNull<u8>) {
    // SAFETY: the caller's word.
    let object = unsafe { Taken::from_pointer(object) };
    free(object);
}

#[inline(always)]
pub(crate) fn free(object: Taken) {
    let page = object.page();
    let cache = page.cache();
    (cache.free)(cache, page, object);
}

impl Cache {
    /// Gives back an object of this cache.
    ///
    /// # Safety
    /// As for [`kfree`]; the object is of this cache or of a copy of it.
    #[inline(always)]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's word.
        unsafe { kfree(object) };
    }
}
