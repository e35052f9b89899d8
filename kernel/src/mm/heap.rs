//! The kernel's heap, behind `alloc`'s types.
//!
//! Until the caches of the crate slab exist, a list allocator serves from a fixed region of the image; from then on the
//! size classes of slab do, over the pages of [`super::frames`]. What came from the early region is told by its address
//! and goes back there.
//!
//! **Lock order.** [`EARLY`] (rank 92) is innermost but for frames and the log; slab's own locks are in its crate.

use super::frames;
use crate::arch::layout::{PHYS_OFFSET, phys_to_virt, virt_to_phys};
use crate::arch::once::BootCell;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use cpu::IrqLock;
use linked_list_allocator::Heap;
use slab::page::{self, PageSource};
use slab::{BootError, Slab};

/// Bytes of the early region.
const EARLY_SIZE: usize = 1 << 20;

#[repr(C, align(4096))]
struct Region(UnsafeCell<[u8; EARLY_SIZE]>);

// SAFETY: only its address is taken; the memory is the early heap's.
unsafe impl Sync for Region {}

static REGION: Region = Region(UnsafeCell::new([0; EARLY_SIZE]));
static EARLY: IrqLock<Heap> = IrqLock::new(92, Heap::empty());
static SLAB: BootCell<&'static Slab> = BootCell::new();

/// The frame allocator as slab sees it: through the direct map.
struct Frames;

// SAFETY: blocks of the buddy allocator: aligned to their size, nobody else's, and all of them in the direct map.
unsafe impl PageSource for Frames {
    fn alloc_pages(&self, order: u32) -> Option<NonNull<u8>> {
        NonNull::new(phys_to_virt(frames::alloc(order as usize).ok()?))
    }

    unsafe fn free_pages(&self, pages: NonNull<u8>, order: u32) {
        // SAFETY: from alloc_pages with the same order, and unused (the trait's contract).
        unsafe { frames::free(virt_to_phys(pages.as_ptr()), order as usize) }
    }
}

struct KernelHeap;

#[global_allocator]
static HEAP: KernelHeap = KernelHeap;

/// Opens the early heap. Once, at boot.
pub fn init() {
    let mut early = EARLY.lock();
    assert!(early.size() == 0, "the early heap was opened twice");
    // SAFETY: 1. the region is EARLY_SIZE bytes of the image that nothing else uses. 2. Given once (asserted).
    unsafe { early.init(REGION.0.get().cast(), EARLY_SIZE) };
}

/// Makes slab's caches, under the accounting model of this name, and the heap theirs. Once, after the frame allocator has
/// all memory and every CPU its area.
pub fn init_slab(model: &str) -> Result<&'static Slab, BootError> {
    let (descriptors, frames) = frames::take_descriptors();
    let Some(base) = NonNull::new(PHYS_OFFSET as *mut u8) else {
        return Err(BootError::NoMemory);
    };
    // SAFETY: 1. the direct map holds every frame that `Frames` can give, for ever. 2. The room was set aside for the
    // descriptors of that many frames, and is taken once.
    unsafe { page::init(base, frames, descriptors, &Frames) };
    Ok(SLAB.set(Slab::by_name(model)?))
}

fn is_early(pointer: *mut u8) -> bool {
    (pointer as usize).wrapping_sub(REGION.0.get() as usize) < EARLY_SIZE
}

// SAFETY: both allocators give blocks that fit the layout and belong to nobody else until they are given back; a block
// goes back to the allocator that it came from.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match SLAB.get() {
            Some(slab) => slab.alloc_aligned(layout.size(), layout.align()).ok(),
            None => EARLY.lock().allocate_first_fit(layout).ok(),
        };
        block.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(pointer) else {
            return;
        };
        // SAFETY: from the allocator that its address says, with this layout, and unused (GlobalAlloc's contract).
        unsafe {
            if is_early(pointer) {
                EARLY.lock().deallocate(block, layout);
            } else {
                slab::kfree(block);
            }
        }
    }
}
