//! Accounted allocation: the same steps for every model, instantiated once for each.
//!
//! **Purpose.** Where the allocator meets the crate memcg. What a model does before and after an object is taken, and
//! before it goes back, is the model's file; here is where it is called, where an object's owner is kept, and the
//! copies of caches that the model `page` wants.
//!
//! **How it works.** [`Hooks`] holds a model's functions; each cache has the pointer, so every model costs one indirect
//! call. The owner of an object is in its page's objcg vector, one slot an object, which is made at the first accounted
//! allocation from that page; two CPUs may make one at once, and the later gives its own back.
//!
//! Under the model `page` each root cache has an array of copies by the cgroup's number. A copy that does not exist yet
//! is asked for (a short queue) and made later by [`Slab::make_pending_copies`], which the kernel's worker calls; until
//! then the root cache serves, uncharged. The reference that an allocation holds on a copy outlasts the reader section.
//!
//! **Lock order.** The queue of wanted copies (rank 42); making copies (rank 44). The queue's lock is taken with
//! nothing of this crate held.

use crate::cache::Description;
use crate::page::{MAX_ORDER, PAGE_SIZE, Page};
use crate::taken::Taken;
use crate::{AllocError, Cache, Gfp, Slab};
use cpu::atomic::{AtomicUsize, Ordering};
use cpu::event::{self, Event};
use cpu::{AtomicRef, IrqLock};
use memcg::{Accounting, Cgroup, KmemId, Model, OwnerSlot, TaskMemcg, models};
use percpu::PercpuRef;

/// Rank of the queue of wanted copies.
const QUEUE_RANK: u8 = 42;
/// Length of that queue. What does not fit is asked for again by the next allocation.
const QUEUE: usize = 32;
/// Entries of the first array of copies.
const FIRST_COPIES: usize = 64;

/// An accounted allocation from a cache.
pub(crate) type AllocFn = fn(&'static Cache, &TaskMemcg) -> Result<Taken, AllocError>;
/// A free of an object of this page of the cache.
pub(crate) type FreeFn = fn(&'static Cache, &'static Page, Taken);

/// The functions of one model.
pub(crate) struct Hooks {
    /// The model's name on the command line.
    pub(crate) name: &'static str,
    /// Whether accounted kmalloc requests have classes of their own.
    pub(crate) separate_kmalloc: bool,
    /// Whether objects have owners: a model that carries nothing from before an allocation to after it, or charges
    /// pages, records none.
    pub(crate) owners: bool,
    /// Makes the machine's memory control for the model.
    pub(crate) accounting: fn() -> Result<&'static Accounting, memcg::NoMemory>,
    /// Accounted allocation from a root cache.
    pub(crate) alloc: AllocFn,
    /// Free, of accounted objects and others.
    pub(crate) free: FreeFn,
    /// Accounted allocation of 2^order pages.
    pub(crate) alloc_large: fn(&'static Cache, u32, &TaskMemcg) -> Result<Taken, AllocError>,
    /// Free of such.
    pub(crate) free_large: FreeFn,
}

/// `Of::<M>::HOOKS` are the functions of model `M`.
struct Of<M>(core::marker::PhantomData<M>);

impl<M: Model> Of<M> {
    const HOOKS: Hooks = Hooks {
        name: M::NAME,
        separate_kmalloc: M::SEPARATE_KMALLOC,
        owners: size_of::<M::Charge>() != 0 && !M::COPIES,
        accounting: Accounting::try_new::<M>,
        alloc: alloc::<M>,
        free: free::<M>,
        alloc_large: alloc_large::<M>,
        free_large: free_large::<M>,
    };
}

impl Hooks {
    /// Those of model `M`.
    pub(crate) const fn of<M: Model>() -> &'static Hooks {
        &Of::<M>::HOOKS
    }

    /// Those of the model with this name.
    pub(crate) fn by_name(name: &str) -> Option<&'static Hooks> {
        const ALL: [&Hooks; 6] = [
            Hooks::of::<models::Off>(),
            Hooks::of::<models::Page>(),
            Hooks::of::<models::Object>(),
            Hooks::of::<models::TaskStock>(),
            Hooks::of::<models::LocalLock>(),
            Hooks::of::<models::Scoped>(),
        ];
        ALL.into_iter().find(|hooks| hooks.name == name)
    }
}

fn alloc<M: Model>(cache: &'static Cache, task: &TaskMemcg) -> Result<Taken, AllocError> {
    if M::COPIES {
        return alloc_from_copy::<M>(cache, task);
    }
    let (accounting, size) = (cache.accounting(), cache.size());
    let charge = M::pre_alloc(accounting, task, size)?;
    match cache.take() {
        Ok(object) => {
            M::post_alloc(accounting, charge, size, || {
                owner_slot_or_new(cache, object.page(), object.address())
            });
            Ok(object)
        }
        Err(error) => {
            M::cancel(accounting, charge, size);
            Err(error)
        }
    }
}

fn alloc_from_copy<M: Model>(root: &'static Cache, task: &TaskMemcg) -> Result<Taken, AllocError> {
    let copy = cpu::rcu_read(|reader| {
        let charge = M::pre_alloc(root.accounting(), task, root.size())?;
        let Some(id) = M::copy(charge) else { return Ok(None) };
        match root.copies.get(id) {
            Some(copy) if copy.references.try_get(reader) => {
                event::count(Event::Reference);
                Ok(Some(copy))
            }
            _ => {
                root.slab().ask_for_copy(root, task.cgroup());
                Ok::<_, AllocError>(None)
            }
        }
    })?;
    let Some(copy) = copy else { return root.take() };
    let object = copy.cache.take();
    // The owner never lets go of a copy: cgroups are never forgotten here, only emptied. So this is never the last.
    event::count(Event::Reference);
    _ = copy.references.put();
    object
}

fn free<M: Model>(cache: &'static Cache, page: &'static Page, object: Taken) {
    M::free(cache.accounting(), cache.size(), || {
        page.owner_slot(cache, object.address())
    });
    cache.put(page, object);
}

fn alloc_large<M: Model>(cache: &'static Cache, order: u32, task: &TaskMemcg) -> Result<Taken, AllocError> {
    let (accounting, size) = (cache.accounting(), PAGE_SIZE << order);
    if M::COPIES {
        // The pages themselves are charged, to the cgroup; which cache serves does not matter.
        let charged = cpu::rcu_read(|_| {
            let charge = M::pre_alloc(accounting, task, size)?;
            let cgroup = M::copy(charge).map(|_| task.cgroup());
            if let Some(cgroup) = cgroup {
                accounting.charge_kernel_pages(cgroup, 1 << order)?;
            }
            Ok::<_, AllocError>(cgroup)
        })?;
        let object = take_large(cache, order);
        match (&object, charged) {
            (Ok(object), Some(cgroup)) => object.page().set_charged(cgroup),
            (Err(_), Some(cgroup)) => accounting.uncharge_kernel_pages(cgroup, 1 << order),
            (_, None) => {}
        }
        return object;
    }
    let charge = M::pre_alloc(accounting, task, size)?;
    match take_large(cache, order) {
        Ok(object) => {
            M::post_alloc(accounting, charge, size, || {
                owner_slot_or_new(cache, object.page(), object.address())
            });
            Ok(object)
        }
        Err(error) => {
            M::cancel(accounting, charge, size);
            Err(error)
        }
    }
}

/// Takes 2^order pages, unaccounted: a slab page of one object.
pub(crate) fn take_large(cache: &'static Cache, order: u32) -> Result<Taken, AllocError> {
    if order > MAX_ORDER {
        return Err(AllocError::NoMemory);
    }
    let object = Page::alloc_whole(cache, order).ok_or(AllocError::NoMemory)?;
    cache.node.slab_made(1);
    Ok(object)
}

fn free_large<M: Model>(cache: &'static Cache, page: &'static Page, object: Taken) {
    page.mark_free(cache, object.address());
    let order = page.order();
    M::free(cache.accounting(), PAGE_SIZE << order, || {
        page.owner_slot(cache, object.address())
    });
    if let Some(cgroup) = page.charged() {
        cache.accounting().uncharge_kernel_pages(cgroup, 1 << order);
    }
    let vector = page.take_owners();
    cache.node.slab_gone(1);
    page.give_back();
    if let Some(vector) = vector {
        let page = vector.page();
        page.cache().put(page, vector);
    }
}

/// The slot of an object, in a vector that is made if there is none; `None` when there is no memory for one.
#[inline(always)]
fn owner_slot_or_new(cache: &'static Cache, page: &'static Page, address: usize) -> Option<&'static OwnerSlot> {
    match page.owner_slot(cache, address) {
        Some(slot) => Some(slot),
        None => {
            make_vector(cache, page)?;
            page.owner_slot(cache, address)
        }
    }
}

#[cold]
#[inline(never)]
fn make_vector(cache: &'static Cache, page: &'static Page) -> Option<()> {
    let bytes = page.objects() * size_of::<OwnerSlot>();
    let vector = cache.slab().take_vector(bytes).ok()?;
    if let Err(mine) = page.set_owners(vector) {
        // Another CPU, or an interrupt, was first.
        let page = mine.page();
        page.cache().put(page, mine);
    }
    Some(())
}

/// Whose copy a cache is.
#[derive(Clone, Copy)]
pub(crate) struct CopyOf {
    pub(crate) cgroup: &'static Cgroup,
}

/// A cgroup's copy of a cache.
pub(crate) struct CacheCopy {
    cache: &'static Cache,
    /// References of allocations under way, and the owner's.
    references: PercpuRef,
}

/// The copies of a root cache, by the cgroup's number.
pub(crate) struct Copies {
    /// Replaced by a longer one when a number does not fit; written under the rank-44 lock.
    array: AtomicRef<CopyArray>,
}

/// An array of copies. Never freed: readers need no grace period, and the lengths double.
struct CopyArray {
    entries: &'static [AtomicRef<CacheCopy>],
}

impl Copies {
    pub(crate) const fn new() -> Copies {
        Copies {
            array: AtomicRef::none(),
        }
    }
    /// The copy for the cgroup with this number.
    #[inline(always)]
    fn get(&self, id: KmemId) -> Option<&'static CacheCopy> {
        self.array.load()?.entries.get(id.index())?.load()
    }
    /// All copies.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Cache> {
        let entries = self.array.load().map_or(&[][..], |array| array.entries);
        entries.iter().filter_map(|entry| entry.load()).map(|copy| copy.cache)
    }
}

/// The copies that allocations asked for.
pub(crate) struct WantedCopies {
    /// Tells the kernel that there is something to make. Set at boot.
    tell: AtomicRef<fn()>,
    queue: IrqLock<[Option<(&'static Cache, &'static Cgroup)>; QUEUE]>,
    count: AtomicUsize,
}

impl WantedCopies {
    pub(crate) const fn new() -> WantedCopies {
        WantedCopies {
            tell: AtomicRef::none(),
            queue: IrqLock::new(QUEUE_RANK, [None; QUEUE]),
            count: AtomicUsize::new(0),
        }
    }

    fn pop(&self) -> Option<(&'static Cache, &'static Cgroup)> {
        let mut queue = self.queue.lock();
        let wanted = queue.iter_mut().find(|entry| entry.is_some())?.take();
        self.count.fetch_sub(1, Ordering::Release);
        wanted
    }
}

impl Slab {
    #[cold]
    #[inline(never)]
    fn ask_for_copy(&'static self, root: &'static Cache, cgroup: &'static Cgroup) {
        let mut queue = self.wanted_copies.queue.lock();
        let same = |&(cache, of): &(&Cache, &Cgroup)| core::ptr::eq(cache, root) && core::ptr::eq(of, cgroup);
        if queue.iter().flatten().any(same) {
            return;
        }
        if let Some(entry) = queue.iter_mut().find(|entry| entry.is_none()) {
            *entry = Some((root, cgroup));
            self.wanted_copies.count.fetch_add(1, Ordering::Release);
            drop(queue);
            if let Some(tell) = self.wanted_copies.tell.load() {
                tell();
            }
        }
    }

    /// Has `tell` called whenever there is a copy to make: it wakes the kernel's worker. It may be called in any context,
    /// with preemption off, and must take no lock of a lower rank than a run queue's.
    pub fn on_wanted_copy(&self, tell: &'static fn()) {
        self.wanted_copies.tell.store(Some(tell));
    }

    /// Whether [`make_pending_copies`](Slab::make_pending_copies) has something to do. One load.
    #[inline]
    pub fn has_pending_copies(&self) -> bool {
        self.wanted_copies.count.load(Ordering::Acquire) != 0
    }

    /// Makes the copies of caches that allocations asked for (model `page`), in task context: the kernel's worker calls
    /// it. Gives the number made. Where memory is short the copy is not made, and the next allocation asks again.
    pub fn make_pending_copies(&'static self) -> usize {
        let mut made = 0;
        while let Some((root, cgroup)) = self.wanted_copies.pop() {
            made += usize::from(self.make_copy(root, cgroup).is_ok());
        }
        made
    }

    fn make_copy(&'static self, root: &'static Cache, cgroup: &'static Cgroup) -> Result<(), AllocError> {
        let _making = self.making_copies.lock();
        let index = cgroup.id().index();
        if root.copies.get(cgroup.id()).is_some() {
            return Ok(());
        }
        let old = root.copies.array.load().map_or(&[][..], |array| array.entries);
        if index >= old.len() {
            let len = (index + 1).next_power_of_two().max(FIRST_COPIES);
            let entry = |n: usize| {
                let copy = old.get(n).and_then(AtomicRef::load);
                copy.map_or(AtomicRef::none(), AtomicRef::new)
            };
            let entries = self
                .take_unaccounted(len * size_of::<AtomicRef<CacheCopy>>())?
                .leak_slice(len, entry);
            let array = self.leak(CopyArray { entries })?;
            root.copies.array.store(Some(array));
        }
        let description = Description {
            name: root.name(),
            layout: *root.layout(),
            flags: root.flags(),
            copy_of: Some(CopyOf { cgroup }),
            large: false,
        };
        let references = PercpuRef::try_new().map_err(|_| AllocError::NoMemory)?;
        let cache = self.new_cache(description)?;
        let copy = self.leak(CacheCopy { cache, references })?;
        if let Some(entry) = root.copies.array.get().entries.get(index) {
            entry.store(Some(copy));
        }
        Ok(())
    }
}

impl Gfp {
    /// Whether the allocation is accounted.
    #[inline(always)]
    pub(crate) fn is_accounted(self) -> bool {
        self.contains(Gfp::ACCOUNT)
    }
}
