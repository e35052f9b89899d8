//! Page frames: a descriptor for each, and where they come from.
//!
//! **Purpose.** The allocator is handed addresses and must find what they belong to. That is here, so that the rest of the
//! crate can be safe code.
//!
//! **How it works.**
//! * One [`Page`] a frame, in one array: the descriptor of an address is a shift and an add away. Descriptors live for
//!   ever, so a `&'static Page` is always valid; what it describes is for the protocol of its fields.
//! * A block of 2^order frames is described by its first descriptor, the head; the others point to it.
//! * The freelist of a slab page starts in its descriptor ([`Freelist`]) and runs through the free objects (freelist.rs); the
//!   part of it that a CPU has taken for itself starts in that CPU's pair (cpu_slab.rs).
//! * Frames come from a [`PageSource`]: the kernel's buddy allocator, or host.rs under `cargo test`.
//!
//! **Lock order.** A page's lock has rank 55. It is the innermost of this crate: under it nothing but memory is touched.

use crate::Cache;
use crate::freelist::Freelist;
use crate::taken::{Taken, read_next};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, Ordering};
use cpu::{AtomicRef, IrqLock};
use memcg::{Cgroup, OwnerSlot};

/// log2 of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a page frame.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;
/// The largest order that is ever asked of a [`PageSource`].
pub const MAX_ORDER: u32 = 10;

/// The most objects in one slab page (whatever its order).
pub(crate) const MAX_OBJECTS: usize = 512;
/// Rank of a page's lock.
const RANK: u8 = 55;
/// 'No frame' and 'no object' where a number of 32 bits stands for one.
const NONE: u32 = u32::MAX;
/// 'No CPU' in [`Page::current_of`].
const NOBODY: u32 = u32::MAX;

/// Where page frames come from.
///
/// # Safety
/// `alloc_pages` gives 2^order frames inside the memory that [`init`] was told of, aligned to their whole size, that
/// nobody else uses until they are given back.
pub unsafe trait PageSource: Sync {
    /// Takes 2^order frames; `None` when there are none. Callable with interrupts off and from interrupt handlers.
    fn alloc_pages(&self, order: u32) -> Option<NonNull<u8>>;
    /// Gives back what `alloc_pages` gave for the same order.
    ///
    /// # Safety
    /// The frames came from `alloc_pages(order)`, and nobody uses them any more.
    unsafe fn free_pages(&self, pages: NonNull<u8>, order: u32);
}

/// The memory that descriptors exist for. Immutable after [`init`].
struct Memory {
    base: *mut u8,
    frames: usize,
    descriptors: *mut Page,
    source: &'static dyn PageSource,
}

// SAFETY: the pointers are only computed with; the source is Sync.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

static MEMORY: AtomicRef<Memory> = AtomicRef::none();
/// Where the descriptor of address 0 would be: what an address, shifted right by [`PAGE_SHIFT`], indexes.
static DESCRIPTOR_OF_ZERO: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());

/// Room for the `Memory` before the descriptors.
const MEMORY_ROOM: usize = size_of::<Memory>().next_multiple_of(align_of::<Page>());

/// Bytes of memory that [`init`] needs for the descriptors of `frames` frames.
pub const fn descriptor_bytes(frames: usize) -> usize {
    MEMORY_ROOM + frames * size_of::<Page>()
}

/// Makes the descriptors. Once, before anything else of this crate is used.
///
/// # Safety
/// 1. `base` is page-aligned (aligned to the largest block, so that blocks are aligned to their size) and addresses
///    `frames` frames that stay mapped, readable and writable for ever; their content is for `source` to give out.
/// 2. `descriptors` is aligned to 64 bytes and addresses [`descriptor_bytes`]`(frames)` bytes that are ours for ever.
/// 3. `source` gives out frames of that memory only.
///
/// # Panics
/// When called twice.
pub unsafe fn init(base: NonNull<u8>, frames: usize, descriptors: NonNull<u8>, source: &'static dyn PageSource) {
    assert!(
        frames < NONE as usize
            && base.addr().get().is_multiple_of(PAGE_SIZE)
            && descriptors.addr().get().is_multiple_of(64),
        "page::init: misaligned, or too many frames"
    );
    // Objects are found again from addresses that went through the per-CPU pairs, which hold plain integers.
    base.as_ptr().expose_provenance();
    // SAFETY: condition 2: the room is ours, large enough and aligned.
    let memory = unsafe {
        let array = descriptors.add(MEMORY_ROOM).cast::<Page>();
        for frame in 0..frames {
            array.add(frame).write(Page::new());
        }
        let memory = descriptors.cast::<Memory>();
        memory.write(Memory {
            base: base.as_ptr(),
            frames,
            descriptors: array.as_ptr(),
            source,
        });
        memory.as_ref()
    };
    let biased = memory.descriptors.wrapping_sub(base.addr().get() >> PAGE_SHIFT);
    DESCRIPTOR_OF_ZERO.store(biased, Ordering::Release);
    assert!(MEMORY.set_once(memory).is_ok(), "page::init was called before");
}

/// Whether [`init`] was called.
pub fn is_ready() -> bool {
    MEMORY.load().is_some()
}

/// The descriptor of a frame.
#[repr(C, align(64))]
pub struct Page {
    /// The descriptor of the block's first frame. Immutable while the block is ours.
    head: AtomicRef<Page>,
    /// The cache whose slab this is; empty while the frame is not ours. Immutable while it is.
    cache: AtomicRef<Cache>,
    /// The objcg vector: one slot an object; null until the first accounted allocation. Set once while the page is ours.
    owners: AtomicPtr<OwnerSlot>,
    /// The cgroup that the page is charged to as a page. Immutable while it is ours.
    charged: AtomicRef<Cgroup>,
    /// Neighbours on a list, as frame numbers. Guarded by the list: the node's lock, or the CPU that has the page.
    next: AtomicU32,
    prev: AtomicU32,
    /// The CPU whose current slab this is, or [`NOBODY`]. Written by that CPU with interrupts off.
    current_of: AtomicU32,
    /// Objects in the slab. Immutable while the page is ours.
    objects: AtomicU16,
    /// log2 of the number of frames. Immutable while the page is ours.
    order: AtomicU8,
    pub(crate) freelist: IrqLock<Freelist>,
    /// One bit an object, set while it is taken: finds double and wild frees in debug builds.
    #[cfg(debug_assertions)]
    taken: [core::sync::atomic::AtomicU64; MAX_OBJECTS / 64],
}

// One cache line a descriptor where it is measured.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Page>() == 64);

impl Page {
    const fn new() -> Page {
        Page {
            head: AtomicRef::none(),
            cache: AtomicRef::none(),
            owners: AtomicPtr::new(ptr::null_mut()),
            charged: AtomicRef::none(),
            next: AtomicU32::new(NONE),
            prev: AtomicU32::new(NONE),
            current_of: AtomicU32::new(NOBODY),
            objects: AtomicU16::new(0),
            order: AtomicU8::new(0),
            freelist: IrqLock::new(RANK, Freelist::new(0)),
            #[cfg(debug_assertions)]
            taken: [const { core::sync::atomic::AtomicU64::new(0) }; MAX_OBJECTS / 64],
        }
    }

    /// The descriptor of the block that holds `address`.
    ///
    /// # Safety
    /// `address` lies in the memory that [`init`] was told of, in a block that [`Page::alloc`] gave.
    #[inline(always)]
    pub(crate) unsafe fn of(address: usize) -> &'static Page {
        let descriptor = DESCRIPTOR_OF_ZERO
            .load(Ordering::Relaxed)
            .wrapping_add(address >> PAGE_SHIFT);
        // SAFETY: the address is of the memory, so this is inside the array of descriptors, which live for ever.
        let page = unsafe { &*descriptor };
        match page.head.load() {
            Some(head) => head,
            None => not_allocated(address),
        }
    }

    /// Takes a block of 2^order frames from the source, for `cache`, and describes it: `objects` objects, none on the
    /// freelist, not frozen.
    pub(crate) fn alloc(cache: &'static Cache, order: u32, objects: usize) -> Option<&'static Page> {
        let memory = MEMORY.get();
        let block = memory.source.alloc_pages(order)?;
        let frame = (block.addr().get() - memory.base.addr()) >> PAGE_SHIFT;
        debug_assert!(
            frame + (1 << order) <= memory.frames,
            "the page source gave foreign memory"
        );
        let page = descriptor(frame as u32)?;
        for tail in 0..1 << order {
            if let Some(tail) = descriptor((frame + tail) as u32) {
                tail.head.store(Some(page));
            }
        }
        page.owners.store(ptr::null_mut(), Ordering::Relaxed);
        page.charged.store(None);
        page.next.store(NONE, Ordering::Relaxed);
        page.prev.store(NONE, Ordering::Relaxed);
        page.objects.store(objects as u16, Ordering::Relaxed);
        page.current_of.store(NOBODY, Ordering::Relaxed);
        page.order.store(order as u8, Ordering::Relaxed);
        *page.freelist.lock() = Freelist::new(objects as u16);
        page.cache.store(Some(cache));
        Some(page)
    }

    /// Takes a block of 2^order frames as one object of `cache`.
    pub(crate) fn alloc_whole(cache: &'static Cache, order: u32) -> Option<Taken> {
        let page = Page::alloc(cache, order, 1)?;
        // SAFETY: the block is new, and this is its only object.
        let object = unsafe { Taken::new(page.start().as_ptr().expose_provenance()) };
        object.mark_taken(cache);
        Some(object)
    }

    /// Gives the block back to the source.
    ///
    /// # Safety
    /// Nothing of it is in use, and it is on no list.
    pub(crate) unsafe fn free(&'static self) {
        let memory = MEMORY.get();
        let order = self.order();
        let block = self.start();
        self.cache.store(None);
        let frame = self.frame() as usize;
        for tail in 0..1 << order {
            if let Some(tail) = descriptor((frame + tail) as u32) {
                tail.head.store(None);
            }
        }
        // SAFETY: the block came from alloc_pages(order) in alloc; the caller vouches for the rest.
        unsafe { memory.source.free_pages(block, order) };
    }

    /// Number of the frame.
    pub(crate) fn frame(&self) -> u32 {
        // SAFETY: every Page that anybody sees lies in the array.
        let frame = unsafe { (self as *const Page).offset_from(MEMORY.get().descriptors) };
        frame as u32
    }

    /// Address of the first byte.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        let zero = DESCRIPTOR_OF_ZERO.load(Ordering::Relaxed).addr();
        ((self as *const Page).addr().wrapping_sub(zero) / size_of::<Page>()) << PAGE_SHIFT
    }

    fn start(&self) -> NonNull<u8> {
        let memory = MEMORY.get();
        // SAFETY: the frame lies in the memory, whose base is not null.
        unsafe { NonNull::new_unchecked(memory.base.add((self.frame() as usize) << PAGE_SHIFT)) }
    }

    /// The cache whose slab this is.
    #[inline(always)]
    pub(crate) fn cache(&self) -> &'static Cache {
        match self.cache.load() {
            Some(cache) => cache,
            None => not_allocated(self.address()),
        }
    }
    /// Whether this is the head of a block of `cache`.
    pub(crate) fn belongs_to(&self, cache: &Cache) -> bool {
        self.cache.load().is_some_and(|of| ptr::eq(of, cache))
    }
    /// Objects in the slab.
    #[inline(always)]
    pub(crate) fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed).into()
    }
    /// log2 of the number of frames.
    #[inline(always)]
    pub(crate) fn order(&self) -> u32 {
        self.order.load(Ordering::Relaxed).into()
    }
    /// The cgroup that the page is charged to as a page.
    pub(crate) fn charged(&self) -> Option<&'static Cgroup> {
        self.charged.load()
    }
    /// Notes the cgroup that the page is charged to.
    pub(crate) fn set_charged(&self, cgroup: &'static Cgroup) {
        self.charged.store(Some(cgroup));
    }

    /// Whether this is the current slab of `cpu`.
    #[inline(always)]
    pub(crate) fn is_current_of(&self, cpu: usize) -> bool {
        self.current_of.load(Ordering::Acquire) == cpu as u32
    }
    /// Makes it the current slab of the calling CPU, or of nobody.
    pub(crate) fn set_current_of(&self, cpu: Option<usize>) {
        self.current_of
            .store(cpu.map_or(NOBODY, |cpu| cpu as u32), Ordering::Release);
    }

    /// The neighbour behind on its list.
    pub(crate) fn next(&self) -> Option<&'static Page> {
        descriptor(self.next.load(Ordering::Relaxed))
    }
    /// The neighbour before on its list.
    pub(crate) fn prev(&self) -> Option<&'static Page> {
        descriptor(self.prev.load(Ordering::Relaxed))
    }
    /// Sets the neighbour behind. By whoever guards the list.
    pub(crate) fn set_next(&self, page: Option<&'static Page>) {
        self.next.store(page.map_or(NONE, Page::frame), Ordering::Relaxed);
    }
    /// Sets the neighbour before. By whoever guards the list.
    pub(crate) fn set_prev(&self, page: Option<&'static Page>) {
        self.prev.store(page.map_or(NONE, Page::frame), Ordering::Relaxed);
    }

    /// The slot of the object at `address` in the objcg vector; `None` where the page has no vector.
    #[inline(always)]
    pub(crate) fn owner_slot(&self, cache: &Cache, address: usize) -> Option<&OwnerSlot> {
        let owners = NonNull::new(self.owners.load(Ordering::Acquire))?;
        let index = cache.index(address - self.address());
        debug_assert!(index < self.objects());
        // SAFETY: set_owners stored a vector of `objects` slots; a taken object's index is below. The vector is freed
        // only with the page, and `self` is borrowed from somebody who has an object of the page in hand.
        Some(unsafe { owners.add(index).as_ref() })
    }

    /// Publishes `vector` as the objcg vector of the page, or gives it back when another CPU was first.
    ///
    /// # Panics
    /// When the memory is too small for one slot an object.
    pub(crate) fn set_owners(&self, vector: Taken) -> Result<(), Taken> {
        assert!(vector.capacity() >= self.objects() * size_of::<OwnerSlot>());
        let slots = vector.pointer().cast::<OwnerSlot>();
        for index in 0..self.objects() {
            // SAFETY: the memory is in our hands, large enough (asserted) and aligned to a word as every object.
            unsafe { slots.add(index).write(OwnerSlot::none()) };
        }
        // Release: whoever reads the pointer sees the empty slots.
        match self
            .owners
            .compare_exchange(ptr::null_mut(), slots.as_ptr(), Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(vector),
        }
    }

    /// Takes the objcg vector away, when the page is about to be given back.
    pub(crate) fn take_owners(&self) -> Option<Taken> {
        let slots = NonNull::new(self.owners.swap(ptr::null_mut(), Ordering::AcqRel))?;
        // SAFETY: the pointer is a vector's that set_owners stored, and came out once.
        Some(unsafe { Taken::from_pointer(slots.cast()) })
    }

    /// Length of the list of free objects that starts at `first`, followed through memory that may change meanwhile:
    /// exact when all is quiet, always at most the number of objects.
    pub(crate) fn count_list(&self, first: usize, size: usize) -> usize {
        let (start, objects) = (self.address(), self.objects());
        let (mut object, mut count) = (first, 0);
        while count < objects
            && (start..start + objects * size).contains(&object)
            && (object - start).is_multiple_of(size)
        {
            count += 1;
            // SAFETY: the word lies in the page, whose memory stays mapped; a stale value ends the walk or is bounded
            // by the number of objects.
            object = unsafe { read_next(object) };
        }
        count
    }

    /// Notes that the object was handed out.
    #[cfg(debug_assertions)]
    pub(crate) fn mark_taken(&self, cache: &Cache, address: usize) {
        let index = cache.index(address - self.address());
        let before = self.taken[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
        assert!(
            before >> (index % 64) & 1 == 0,
            "{}: object {address:#x} handed out twice",
            cache.name()
        );
    }

    /// Notes that the object came back. Debug builds only.
    ///
    /// # Panics
    /// When it is not the start of an object of this page that was handed out.
    #[inline(always)]
    pub(crate) fn mark_free(&self, cache: &Cache, address: usize) {
        #[cfg(debug_assertions)]
        {
            let offset = address - self.address();
            let index = cache.index(offset);
            assert!(
                index < self.objects() && index * cache.size() == offset,
                "{}: free of {address:#x}, which is not the start of an object",
                cache.name()
            );
            let before = self.taken[index / 64].fetch_and(!(1 << (index % 64)), Ordering::Relaxed);
            assert!(
                before >> (index % 64) & 1 != 0,
                "{}: free of {address:#x}, which is not in use: freed twice?",
                cache.name()
            );
        }
        #[cfg(not(debug_assertions))]
        let _ = (cache, address);
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({:#x}, order {})", self.address(), self.order())
    }
}

#[cold]
#[inline(never)]
fn not_allocated(address: usize) -> ! {
    panic!("address {address:#x} does not belong to an allocated page")
}

/// The descriptor of a frame; `None` for [`NONE`] and beyond the memory.
fn descriptor(frame: u32) -> Option<&'static Page> {
    let memory = MEMORY.get();
    if frame as usize >= memory.frames {
        return None;
    }
    // SAFETY: inside the array, whose descriptors live for ever.
    Some(unsafe { &*memory.descriptors.add(frame as usize) })
}

/// Takes pages for a value that is needed before there is a cache, and lives for ever.
pub(crate) fn leak_in_pages<T>(value: T) -> Option<&'static T> {
    let order = size_of::<T>().div_ceil(PAGE_SIZE).next_power_of_two().trailing_zeros();
    let pages = MEMORY.get().source.alloc_pages(order)?;
    // SAFETY: the frames are ours for ever, large enough, and aligned to a page (T's alignment is less).
    unsafe {
        const { assert!(align_of::<T>() <= PAGE_SIZE) };
        let place = pages.cast::<MaybeUninit<T>>().as_mut();
        Some(place.write(value))
    }
}
