//! Counted pages of memory that are not one program's alone: what files in memory are made of.
//!
//! A page is copied from and to by raw copies only, never through a reference to its bytes: programs and other CPUs may
//! write it meanwhile, as they may on Linux.

use super::frames;
use super::shared::{OutOfMemory, Shared};
use crate::arch::layout::{PAGE_SIZE, phys_to_virt};
use crate::arch::usercopy::{self, Fault};
use cpu::atomic::{AtomicUsize, Ordering};
use x86_64::PhysAddr;

/// Bytes of a page.
pub const PAGE: usize = PAGE_SIZE as usize;

/// Pages that exist, on the whole machine. Exact when nobody makes or frees one.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// See the module.
pub struct Page {
    frame: PhysAddr,
}

impl Page {
    /// A page that begins with `bytes` (at most a page) and goes on with zeros.
    pub fn try_new(bytes: &[u8]) -> Result<Shared<Page>, OutOfMemory> {
        let frame = frames::alloc_zeroed(0)?;
        COUNT.fetch_add(1, Ordering::Relaxed);
        let page = Page { frame };
        let length = bytes.len().min(PAGE);
        // SAFETY: the frame is ours alone, a page long and in the direct map; at most a page is copied.
        unsafe { phys_to_virt(frame).copy_from_nonoverlapping(bytes.as_ptr(), length) };
        Shared::try_new(page)
    }

    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset <= PAGE && length <= PAGE - offset, "beyond the end of a page");
        phys_to_virt(self.frame).wrapping_add(offset)
    }

    /// Copies `length` bytes from `offset` on to the program's memory at `to`.
    pub fn copy_to_user(&self, offset: usize, length: usize, to: u64) -> Result<(), Fault> {
        // SAFETY: `at` has checked that the bytes are the page's, which lives as long as self.
        unsafe { usercopy::copy_raw_to_user(to, self.at(offset, length), length) }
    }

    /// Fills `length` bytes from `offset` on from the program's memory at `from`.
    pub fn copy_from_user(&self, offset: usize, length: usize, from: u64) -> Result<(), Fault> {
        // SAFETY: as above.
        unsafe { usercopy::copy_raw_from_user(self.at(offset, length), from, length) }
    }

    /// Makes the bytes from `offset` on zero.
    pub fn clear_from(&self, offset: usize) {
        // SAFETY: as above; nobody holds a reference to the bytes.
        unsafe { self.at(offset, PAGE - offset).write_bytes(0, PAGE - offset) };
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the frame came from try_new; nobody has it any more: a mapping would hold the page.
        unsafe { frames::free(self.frame, 0) };
    }
}

/// Pages that exist.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}
