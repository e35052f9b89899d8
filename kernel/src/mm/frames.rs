//! Physical memory: the buddy allocator.
//!
//! **Purpose.** Hands out blocks of 2^order frames (4 KiB each), order 0 to [`MAX_ORDER`], each aligned to its size.
//!
//! **How it works.** One list of free blocks per order, linked through the blocks themselves by way of the direct map.
//! A block that is too large is halved, the upper halves go on the lists below. A block that comes back is joined with
//! its buddy (the block whose address differs in the bit of its size) as long as the buddy is free and whole; that is
//! read off a byte per frame, which says for the first frame of a free block its order, and zero for all others.
//!
//! Memory comes in two parts: first what the boot page tables map, so that the kernel's page tables can be made of it;
//! the rest once they are in use. The bytes of all of it are taken from the first part, and with them the room for the
//! crate slab's descriptors of frames, which must be in one piece larger than any block.
//!
//! A program's frame can have several users (address spaces, after fork(2)): [`share`] and [`put`] count them.
//!
//! **Lock order.** [`FRAMES`] has rank 95: below it only the log. Interrupt handlers may allocate.

use crate::arch::boot_info::Ranges;
use crate::arch::layout::{BOOT_MAPPED, PAGE_SIZE, phys_to_virt};
use crate::arch::once::BootCell;
use core::ops::Range;
use core::ptr::NonNull;
use cpu::IrqLock;
use cpu::atomic::{AtomicU32, Ordering};
use x86_64::PhysAddr;

/// The largest order: 4 MiB.
pub const MAX_ORDER: usize = 10;

/// Memory is exhausted: there is no block of the order, or the heap has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// What stands at the beginning of a free block. Physical addresses; 0 is none (frame 0 is never ours).
#[repr(C)]
struct Links {
    next: u64,
    previous: u64,
}

struct Buddy {
    /// First free block of each order.
    heads: [u64; MAX_ORDER + 1],
    /// By frame number: order + 1 for the first frame of a free block, else 0. Empty before `init`.
    free_order: &'static mut [u8],
    /// Frames that are free.
    free: usize,
    /// Frames that are ours.
    total: usize,
    /// Room for slab's descriptors, until [`take_descriptors`].
    descriptors: Option<NonNull<u8>>,
}

// SAFETY: the pointer is to memory of nobody's, on its way to whoever takes it.
unsafe impl Send for Buddy {}

static FRAMES: IrqLock<Buddy> = IrqLock::new(
    95,
    Buddy {
        heads: [0; MAX_ORDER + 1],
        free_order: &mut [],
        free: 0,
        total: 0,
        descriptors: None,
    },
);

/// How many frames there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Not allocated. Exact at the moment of the call.
    pub free: usize,
    /// Under the allocator's control.
    pub total: usize,
}

/// Bytes of a block of `order`.
#[inline]
pub const fn block_size(order: usize) -> u64 {
    PAGE_SIZE << order
}

impl Buddy {
    fn links(&self, block: u64) -> *mut Links {
        phys_to_virt(PhysAddr::new_truncate(block)).cast()
    }

    /// The state byte of the frame at `block`; 0 beyond the last frame that is ours.
    fn order_of_free(&self, block: u64) -> u8 {
        self.free_order.get((block / PAGE_SIZE) as usize).copied().unwrap_or(0)
    }

    fn push(&mut self, block: u64, order: usize) {
        let next = self.heads[order];
        // SAFETY: a free block's memory is the allocator's, mapped by the direct map, page-aligned.
        unsafe { self.links(block).write(Links { next, previous: 0 }) };
        if next != 0 {
            // SAFETY: as above: what is on the list is free.
            unsafe { (*self.links(next)).previous = block };
        }
        self.heads[order] = block;
        self.free_order[(block / PAGE_SIZE) as usize] = order as u8 + 1;
    }

    fn unlink(&mut self, block: u64, order: usize) {
        // SAFETY: the block is on the list of its order, so it is free and holds links; its neighbours likewise.
        unsafe {
            let Links { next, previous } = self.links(block).read();
            if previous == 0 {
                self.heads[order] = next;
            } else {
                (*self.links(previous)).next = next;
            }
            if next != 0 {
                (*self.links(next)).previous = previous;
            }
        }
        self.free_order[(block / PAGE_SIZE) as usize] = 0;
    }

    fn allocate(&mut self, order: usize) -> Option<u64> {
        let found = (order..=MAX_ORDER).find(|&o| self.heads[o] != 0)?;
        let block = self.heads[found];
        self.unlink(block, found);
        for half in (order..found).rev() {
            self.push(block + block_size(half), half);
        }
        self.free -= 1 << order;
        Some(block)
    }

    fn release(&mut self, mut block: u64, mut order: usize) {
        self.free += 1 << order;
        while order < MAX_ORDER {
            let buddy = block ^ block_size(order);
            if self.order_of_free(buddy) != order as u8 + 1 {
                break;
            }
            self.unlink(buddy, order);
            block &= !block_size(order);
            order += 1;
        }
        self.push(block, order);
    }

    /// Adds a range of frames, as the largest blocks that fit.
    fn add(&mut self, range: Range<u64>) {
        let mut at = range.start;
        while at < range.end {
            let aligned = ((at / PAGE_SIZE).trailing_zeros() as usize).min(MAX_ORDER);
            let fits = ((range.end - at) / PAGE_SIZE).ilog2() as usize;
            let order = aligned.min(fits);
            self.total += 1 << order;
            self.release(at, order);
            at += block_size(order);
        }
    }
}

/// The part of `range` that is (`mapped`) or is not mapped by the boot page tables.
fn part(range: &Range<u64>, mapped: bool) -> Range<u64> {
    if mapped {
        range.start..range.end.min(BOOT_MAPPED)
    } else {
        range.start.max(BOOT_MAPPED)..range.end
    }
}

/// Takes over the memory that the boot page tables map. Once.
///
/// # Panics
/// When there is not even room for the descriptions of memory.
///
/// # Safety
/// `usable` is RAM that nobody else uses, sorted and disjoint, without frame 0; the boot page tables are active.
pub unsafe fn init(usable: &Ranges) {
    let frames = usable.last().map_or(0, |last| last.end / PAGE_SIZE);
    let state_bytes = frames.next_multiple_of(PAGE_SIZE);
    let share_bytes = (frames * size_of::<AtomicU32>() as u64).next_multiple_of(PAGE_SIZE);
    let bytes =
        state_bytes + share_bytes + (slab::page::descriptor_bytes(frames as usize) as u64).next_multiple_of(PAGE_SIZE);
    let mut first: Ranges = usable
        .iter()
        .map(|range| part(range, true))
        .filter(|range| !range.is_empty())
        .collect();
    // From the end of the largest part, so that the whole low blocks stay whole.
    let Some(host) = first.iter_mut().max_by_key(|range| range.end - range.start) else {
        panic!("the memory map has no usable memory");
    };
    assert!(
        host.end - host.start > bytes,
        "too little memory: {} KiB",
        (host.end - host.start) / 1024
    );
    host.end -= bytes;
    let state = phys_to_virt(PhysAddr::new(host.end));
    let shares = state.wrapping_add(state_bytes as usize);
    // SAFETY: 1. RAM of nobody's (caller), cut off from what the lists get. 2. Mapped (below BOOT_MAPPED). 3. Zeroed
    // before it is a slice; it begins at a page's border.
    let (free_order, shares) = unsafe {
        state.write_bytes(0, (state_bytes + share_bytes) as usize);
        (
            core::slice::from_raw_parts_mut(state, frames as usize),
            core::slice::from_raw_parts(shares.cast::<AtomicU32>(), frames as usize),
        )
    };
    SHARES.set(shares);
    let mut buddy = FRAMES.lock();
    buddy.free_order = free_order;
    buddy.descriptors = NonNull::new(state.wrapping_add((state_bytes + share_bytes) as usize));
    for range in first {
        buddy.add(range);
    }
}

/// Takes over the rest.
///
/// # Safety
/// `usable` is what [`init`] got; the direct map holds all of it.
pub unsafe fn init_rest(usable: &Ranges) {
    let mut buddy = FRAMES.lock();
    for range in usable
        .iter()
        .map(|range| part(range, false))
        .filter(|range| !range.is_empty())
    {
        buddy.add(range);
    }
}

/// The room for slab's descriptors and the number of frames that it is for, counted from physical address 0. Once.
///
/// # Panics
/// The second time.
pub fn take_descriptors() -> (NonNull<u8>, usize) {
    let mut buddy = FRAMES.lock();
    let Some(room) = buddy.descriptors.take() else {
        panic!("the descriptors' room was taken twice, or there is no memory yet");
    };
    (room, buddy.free_order.len())
}

/// A block of 2^order frames with arbitrary contents.
pub fn alloc(order: usize) -> Result<PhysAddr, OutOfMemory> {
    assert!(
        order <= MAX_ORDER,
        "a block of order {order}: the largest is {MAX_ORDER}"
    );
    FRAMES
        .lock()
        .allocate(order)
        .map(PhysAddr::new_truncate)
        .ok_or(OutOfMemory)
}

/// A block of 2^order frames of zeroes.
pub fn alloc_zeroed(order: usize) -> Result<PhysAddr, OutOfMemory> {
    let block = alloc(order)?;
    // SAFETY: the block was just allocated: nobody else uses it; the direct map has it.
    unsafe { phys_to_virt(block).write_bytes(0, block_size(order) as usize) };
    Ok(block)
}

/// Gives a block back.
///
/// # Safety
/// 1. `block` came from an allocation of this `order` and has not been given back. 2. Nobody uses or maps it any more.
pub unsafe fn free(block: PhysAddr, order: usize) {
    let mut buddy = FRAMES.lock();
    debug_assert!(buddy.order_of_free(block.as_u64()) == 0, "a frame was freed twice");
    buddy.release(block.as_u64(), order);
}

/// By frame number: how many users a program's frame has besides the first one.
static SHARES: BootCell<&'static [AtomicU32]> = BootCell::new();

fn shares(frame: PhysAddr) -> &'static AtomicU32 {
    &SHARES.get().expect("frames are shared after boot")[(frame.as_u64() / PAGE_SIZE) as usize]
}

/// Counts one more user of a single frame. Each of them gives it back with [`put`].
#[inline]
pub fn share(frame: PhysAddr) {
    shares(frame).fetch_add(1, Ordering::Relaxed);
}

/// Whether a frame has more than one user. Who is the only one may write to it.
#[inline]
pub fn is_shared(frame: PhysAddr) -> bool {
    shares(frame).load(Ordering::Acquire) != 0
}

/// Gives back one use of a single frame; the last one frees it.
///
/// # Safety
/// As for [`free`], of this user alone.
pub unsafe fn put(frame: PhysAddr) {
    let shares = shares(frame);
    let mut users = shares.load(Ordering::Acquire);
    while users != 0 {
        match shares.compare_exchange(users, users - 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => users = now,
        }
    }
    // SAFETY: nobody else uses the frame, and this user is the caller's.
    unsafe { free(frame, 0) };
}

/// How many frames there are, and how many of them are free.
pub fn count() -> Count {
    let buddy = FRAMES.lock();
    Count {
        free: buddy.free,
        total: buddy.total,
    }
}
