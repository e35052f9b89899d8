//! Page frames: a descriptor for each, where they come from, and the objects inside them.
//!
//! **Purpose.** The allocator is handed addresses and must find what they belong to, and it keeps lists through memory
//! that nobody owns at the moment. Both are here, so that the rest of the crate can be safe code.
//!
//! **How it works.**
//! * One [`Page`] a frame, in one array: the descriptor of an address is a shift and an add away. Descriptors live for
//!   ever, so a `&'static Page` is always valid; what it describes is for the protocol of its fields.
//! * A block of 2^order frames is described by its first descriptor, the head; the others point to it.
//! * A free object's first word is the address of the next free object. The freelist of a slab page starts in its
//!   descriptor ([`Freelist`]); the part of it that a CPU has taken for itself starts in that CPU's pair (cpu_slab.rs).
//! * [`Taken`] is an object that is in somebody's hands: the proof that its memory is not on any freelist.
//! * Frames come from a [`PageSource`]: the kernel's buddy allocator, or host.rs under `cargo test`.
//!
//! **Lock order.** A page's lock has rank 55. It is the innermost of this crate: under it nothing but memory is touched.

use crate::Cache;
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

/// What a page's lock guards: the page's own freelist.
#[derive(Clone, Copy)]
pub(crate) struct Freelist {
    /// Offset of the first free object from the start of the page, in bytes; [`NONE`] when there is none.
    first: u32,
    /// Objects that are not on this list: in use, or on the freelist of the CPU that has the page.
    pub(crate) outside: u16,
    /// Whether a CPU has the page, as its current one or on its partial list. Then it is on no other list, and only
    /// that CPU decides what becomes of it (Linux: frozen).
    pub(crate) frozen: bool,
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
    freelist: IrqLock<Freelist>,
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
            freelist: IrqLock::new(
                RANK,
                Freelist {
                    first: NONE,
                    outside: 0,
                    frozen: false,
                },
            ),
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
        *page.freelist.lock() = Freelist {
            first: NONE,
            outside: objects as u16,
            frozen: false,
        };
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

    /// Locks the page's freelist.
    #[inline(always)]
    pub(crate) fn lock(&'static self) -> LockedPage {
        LockedPage {
            page: self,
            list: self.freelist.lock(),
        }
    }

    /// Puts all objects of a new slab page on its freelist, in order of address.
    pub(crate) fn fill_freelist(&'static self, size: usize) {
        let (start, objects) = (self.address(), self.objects());
        for n in 0..objects {
            let next = if n + 1 < objects { start + (n + 1) * size } else { 0 };
            // SAFETY: the page is new: nobody has any of its objects, and n is below their number.
            unsafe { write_next(start + n * size, next) };
        }
        let mut page = self.lock();
        page.list.first = 0;
        page.list.outside = 0;
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
        NonNull::new(self.owners.swap(ptr::null_mut(), Ordering::AcqRel)).map(|slots| Taken(slots.cast()))
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

/// A slab page whose lock is held.
pub(crate) struct LockedPage {
    page: &'static Page,
    list: cpu::lock::IrqGuard<'static, Freelist>,
}

impl LockedPage {
    /// Whether the freelist is empty.
    pub(crate) fn is_full(&self) -> bool {
        self.list.first == NONE
    }
    /// Objects on the freelist.
    pub(crate) fn free(&self) -> usize {
        self.page.objects() - usize::from(self.list.outside)
    }
    /// Objects not on the freelist.
    pub(crate) fn outside(&self) -> usize {
        self.list.outside.into()
    }
    /// Whether a CPU has the page.
    pub(crate) fn frozen(&self) -> bool {
        self.list.frozen
    }
    /// Says whether a CPU has the page.
    pub(crate) fn set_frozen(&mut self, frozen: bool) {
        self.list.frozen = frozen;
    }

    /// Puts one object back.
    pub(crate) fn push(&mut self, object: Taken) {
        let address = object.into_address();
        // SAFETY: the object was in the caller's hands and is nobody's now; the lock is held.
        unsafe { write_next(address, self.first()) };
        self.set_first(address);
        self.list.outside -= 1;
    }

    /// Takes the whole list for the calling CPU: the address of its first object, 0 when empty.
    pub(crate) fn take_all(&mut self) -> usize {
        let first = self.first();
        self.list.first = NONE;
        self.list.outside = self.page.objects() as u16;
        first
    }

    /// Puts back the list that starts at `first`, which the calling CPU had taken: all its objects belong to this page.
    ///
    /// # Safety
    /// The list is the calling CPU's alone: it was taken out of its pair.
    pub(crate) unsafe fn put_back(&mut self, first: usize) {
        let mut object = first;
        while object != 0 {
            // SAFETY: the caller has the list, so its words are links; the lock guards the page's list.
            unsafe {
                let next = read_next(object);
                write_next(object, self.first());
                self.set_first(object);
                object = next;
            }
            self.list.outside -= 1;
        }
    }

    fn first(&self) -> usize {
        match self.list.first {
            NONE => 0,
            offset => self.page.address() + offset as usize,
        }
    }
    fn set_first(&mut self, address: usize) {
        self.list.first = (address - self.page.address()) as u32;
    }
}

/// An object that is in somebody's hands. It must go back by hand: dropping it only forgets it.
#[repr(transparent)]
#[must_use]
pub(crate) struct Taken(NonNull<u8>);

// SAFETY: memory that is nobody else's may be used from any CPU.
unsafe impl Send for Taken {}

impl Taken {
    /// The object at `address`, which the caller took off a freelist.
    ///
    /// # Safety
    /// It is an object of ours that is on no freelist and in nobody's hands.
    #[inline(always)]
    pub(crate) unsafe fn new(address: usize) -> Taken {
        // SAFETY: objects are not at address 0; provenance was exposed by init.
        Taken(unsafe { NonNull::new_unchecked(ptr::with_exposed_provenance_mut(address)) })
    }
    /// An object that went out as a plain pointer.
    ///
    /// # Safety
    /// It came from [`Taken::into_pointer`] and did not come back since.
    #[inline(always)]
    pub(crate) unsafe fn from_pointer(pointer: NonNull<u8>) -> Taken {
        Taken(pointer)
    }
    /// As a plain pointer, with the object still in the caller's hands.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.0
    }
    /// As a plain pointer, for somebody outside.
    #[inline(always)]
    pub(crate) fn into_pointer(self) -> NonNull<u8> {
        self.0
    }
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }
    #[inline(always)]
    fn into_address(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }
    /// The page that it belongs to.
    #[inline(always)]
    pub(crate) fn page(&self) -> &'static Page {
        // SAFETY: an object in hand lies in a page that is ours until the object has gone back.
        unsafe { Page::of(self.address()) }
    }
    /// Bytes of the object.
    pub(crate) fn capacity(&self) -> usize {
        let page = self.page();
        page.cache().capacity(page)
    }
    /// Sets the first `bytes` to zero.
    ///
    /// # Panics
    /// When the object is smaller.
    pub(crate) fn zero(&self, bytes: usize) {
        debug_assert!(bytes <= self.capacity());
        // SAFETY: in our hands, and large enough: callers pass the size that they asked for or the cache's.
        unsafe { ptr::write_bytes(self.0.as_ptr(), 0, bytes) };
    }
    /// Notes that the object was handed out. Debug builds only.
    #[inline(always)]
    pub(crate) fn mark_taken(&self, cache: &Cache) {
        #[cfg(debug_assertions)]
        {
            let (page, address) = (self.page(), self.address());
            let index = cache.index(address - page.address());
            let before = page.taken[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
            assert!(
                before >> (index % 64) & 1 == 0,
                "{}: object {address:#x} handed out twice",
                cache.name()
            );
        }
        #[cfg(not(debug_assertions))]
        let _ = cache;
    }
    /// Writes the link word: the object is about to go to the calling CPU's freelist.
    #[inline(always)]
    pub(crate) fn link(&self, next: usize) -> usize {
        let address = self.0.as_ptr().expose_provenance();
        // SAFETY: in our hands; every object has at least a word.
        unsafe { write_next(address, next) };
        address
    }
    /// Makes it hold `value` for ever.
    ///
    /// # Panics
    /// When it is too small or not aligned for a `T`.
    pub(crate) fn leak<T>(self, value: T) -> &'static T {
        assert!(self.capacity() >= size_of::<T>() && self.address().is_multiple_of(align_of::<T>()));
        // SAFETY: in our hands and never given back; large enough and aligned (asserted).
        unsafe {
            let place = self.0.cast::<MaybeUninit<T>>().as_mut();
            place.write(value)
        }
    }
}

impl Taken {
    /// Makes it hold `len` values for ever, the nth made by `value(n)`.
    ///
    /// # Panics
    /// When it is too small or not aligned for them.
    pub(crate) fn leak_slice<T>(self, len: usize, mut value: impl FnMut(usize) -> T) -> &'static [T] {
        assert!(self.capacity() / size_of::<T>() >= len && self.address().is_multiple_of(align_of::<T>()));
        let first = self.0.cast::<T>();
        for n in 0..len {
            // SAFETY: in our hands, large enough and aligned (asserted).
            unsafe { first.add(n).write(value(n)) };
        }
        // SAFETY: all values were written, and the memory is never given back.
        unsafe { core::slice::from_raw_parts(first.as_ptr(), len) }
    }
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

/// Reads the link word of a free object.
///
/// # Safety
/// `object` is the aligned address of an object of ours, whose memory is mapped. The object need not be free any more:
/// then the value means nothing, and the caller must not use it (see [`Cache::take`]).
#[inline(always)]
pub(crate) unsafe fn read_next(object: usize) -> usize {
    // SAFETY: mapped and aligned. Volatile: the word may be its new owner's by now, so the compiler must read it once
    // and conclude nothing.
    unsafe { ptr::with_exposed_provenance::<usize>(object).read_volatile() }
}

/// Writes the link word of an object.
///
/// # Safety
/// `object` is the address of an object of ours that is in the caller's hands, or on a list that the caller guards.
#[inline(always)]
unsafe fn write_next(object: usize, next: usize) {
    // SAFETY: the caller's, and aligned to a word as every object.
    unsafe { ptr::with_exposed_provenance_mut::<usize>(object).write_volatile(next) };
}
