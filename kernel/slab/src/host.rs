//! Page frames on the host.
//!
//! One region for the process, made on first use; a stack of free blocks for each order. For tests: the number of frames
//! in use, and failing on demand.

use crate::page::{self, MAX_ORDER, PAGE_SIZE, PageSource};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed};
use std::cell::Cell;
use std::sync::{Mutex, Once, PoisonError};
use std::vec::Vec;

/// Frames of the region.
const FRAMES: usize = if cfg!(miri) { 8 * 1024 } else { 128 * 1024 };

std::thread_local! {
    /// Allocations that this CPU may still make.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Blocks {
    base: usize,
    /// Frames that were never given out begin here.
    fresh: usize,
    free: [Vec<usize>; MAX_ORDER as usize + 1],
    used: usize,
}

struct Region(Mutex<Blocks>);

static REGION: Region = Region(Mutex::new(Blocks {
    base: 0,
    fresh: 0,
    free: [const { Vec::new() }; MAX_ORDER as usize + 1],
    used: 0,
}));

// SAFETY: blocks are disjoint: each is either in use, on one stack, or behind `fresh`; a block of order n starts at a
// multiple of its size, and the region is aligned to the largest.
unsafe impl PageSource for Region {
    fn alloc_pages(&self, order: u32) -> Option<NonNull<u8>> {
        if order > MAX_ORDER || LEFT.get() == 0 {
            return None;
        }
        if LEFT.get() != usize::MAX {
            LEFT.set(LEFT.get() - 1);
        }
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = 1 << order;
        let frame = match blocks.free[order as usize].pop() {
            Some(frame) => frame,
            None => {
                let frame = blocks.fresh.next_multiple_of(frames);
                if frame + frames > FRAMES {
                    return None;
                }
                blocks.fresh = frame + frames;
                frame
            }
        };
        blocks.used += frames;
        NonNull::new(core::ptr::with_exposed_provenance_mut(blocks.base + frame * PAGE_SIZE))
    }

    unsafe fn free_pages(&self, pages: NonNull<u8>, order: u32) {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = (pages.addr().get() - blocks.base) / PAGE_SIZE;
        blocks.free[order as usize].push(frame);
        blocks.used -= 1 << order;
    }
}

/// Makes the region, once.
pub(crate) fn power_on() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let memory = Layout::from_size_align(FRAMES * PAGE_SIZE, PAGE_SIZE << MAX_ORDER).expect("a region");
        let descriptors = Layout::from_size_align(page::descriptor_bytes(FRAMES), 64).expect("descriptors");
        // SAFETY: both layouts have a size; the memory is aligned to the largest block and never freed, and REGION
        // gives out its frames only.
        unsafe {
            let memory = NonNull::new(alloc_zeroed(memory)).expect("memory for the region");
            let descriptors = NonNull::new(alloc_zeroed(descriptors)).expect("memory for descriptors");
            REGION.0.lock().unwrap_or_else(PoisonError::into_inner).base = memory.as_ptr().expose_provenance();
            page::init(memory, FRAMES, descriptors, &REGION);
        }
    });
}

/// Frames in use.
pub fn used_frames() -> usize {
    REGION.0.lock().unwrap_or_else(PoisonError::into_inner).used
}

/// Runs `f` with only `pages` more allocations of pages granted to this CPU.
pub fn with_pages_left<R>(pages: usize, f: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(usize::MAX);
        }
    }
    LEFT.set(pages);
    let _restore = Restore;
    f()
}
