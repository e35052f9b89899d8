//! The kernel's heap, behind `alloc`'s types.
//!
//! Until the caches of the crate slab exist, a list allocator serves from a fixed region of the image; from then on the
//! size classes of slab do. What came from the early region is told by its address and goes back there.
//!
//! **Lock order.** [`EARLY`] (rank 92) is innermost but for frames and the log; slab's own locks are in its crate.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use cpu::IrqLock;
use linked_list_allocator::Heap;

/// Bytes of the early region.
const EARLY_SIZE: usize = 1 << 20;

#[repr(C, align(4096))]
struct Region(UnsafeCell<[u8; EARLY_SIZE]>);

// SAFETY: only its address is taken; the memory is the early heap's.
unsafe impl Sync for Region {}

static REGION: Region = Region(UnsafeCell::new([0; EARLY_SIZE]));
static EARLY: IrqLock<Heap> = IrqLock::new(92, Heap::empty());

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

fn is_early(pointer: *mut u8) -> bool {
    (pointer as usize).wrapping_sub(REGION.0.get() as usize) < EARLY_SIZE
}

// SAFETY: both allocators give blocks that fit the layout and belong to nobody else until they are given back; a block
// goes back to the allocator that it came from.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        EARLY.lock().allocate_first_fit(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let Some(block) = NonNull::new(pointer).filter(|_| is_early(pointer)) {
            // SAFETY: it came from the early heap (its address says so) with this layout (GlobalAlloc's contract).
            unsafe { EARLY.lock().deallocate(block, layout) };
        }
    }
}
