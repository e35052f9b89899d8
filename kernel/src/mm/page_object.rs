//! Memory that several address spaces map at once: an anonymous shared mapping (`MAP_SHARED | MAP_ANONYMOUS`).
//!
//! The object holds one use of each of its frames; each page that maps one holds another. Pages come when they are first
//! touched, by whoever maps them, and stay until the last mapping is gone.
//!
//! **Lock order.** An object's lock has rank 22: under an address space's (20), above the heap and frames.

use super::frames::{self, OutOfMemory};
use super::shared::Shared;
use alloc::vec::Vec;
use cpu::SpinLock;
use x86_64::PhysAddr;

/// Pages by number. See the module.
pub struct PageObject {
    pages: SpinLock<Vec<Option<PhysAddr>>>,
    /// How many there can be. Immutable.
    length: u64,
}

impl PageObject {
    /// An object of `length` pages, none of which is there yet.
    pub fn try_new(length: u64) -> Result<Shared<PageObject>, OutOfMemory> {
        Shared::try_new(PageObject {
            pages: SpinLock::new(22, Vec::new()),
            length,
        })
    }

    /// The frame of page `number`, made if need be, with a use for the caller. `None` behind the object's end.
    pub fn get(&self, number: u64) -> Result<Option<PhysAddr>, OutOfMemory> {
        if number >= self.length {
            return Ok(None);
        }
        let number = number as usize;
        let mut pages = self.pages.lock();
        if pages.len() <= number {
            let more = number + 1 - pages.len();
            pages.try_reserve(more).map_err(|_| OutOfMemory)?;
            pages.resize(number + 1, None);
        }
        let frame = match pages[number] {
            Some(frame) => frame,
            None => *pages[number].insert(frames::alloc_zeroed(0)?),
        };
        frames::share(frame);
        Ok(Some(frame))
    }
}

impl Drop for PageObject {
    fn drop(&mut self) {
        for frame in self.pages.lock().drain(..).flatten() {
            // SAFETY: the object's own use; nobody reaches the object any more.
            unsafe { frames::put(frame) };
        }
    }
}
