//! The pages of an address space: their contents, their rights, and whose they are.
//!
//! A private page may be shared with relatives since fork(2): then none of them may write to it, whatever its area says,
//! until the writer has a copy of its own ([`rights`]).

use super::address_space::Inner;
use super::areas::{Area, Areas, Backing};
use super::frames::{self, OutOfMemory};
use crate::arch::layout::{PAGE_SIZE as PAGE, phys_to_virt};
use crate::arch::paging::{AddressSpaceRoot, Protection};
use crate::syscall::errno::{Errno, Result};
use arrayvec::ArrayVec;
use core::ops::Range;
use x86_64::PhysAddr;

/// Pages of one step of a change to many.
const STEP: usize = 128;

/// What may be done at once with a page of `area` that is mapped to `frame`.
fn rights(area: &Area, frame: PhysAddr) -> Protection {
    if !area.backing.is_shared() && area.protection.contains(Protection::WRITE) && frames::is_shared(frame) {
        area.protection - Protection::WRITE
    } else {
        area.protection
    }
}

/// Makes `page`, which is mapped to `frame`, ready for an access that its area allows. Always true.
pub(super) fn ready(
    root: &mut AddressSpaceRoot,
    page: u64,
    frame: PhysAddr,
    area: &Area,
    write: bool,
) -> core::result::Result<bool, OutOfMemory> {
    if !write || area.backing.is_shared() || !frames::is_shared(frame) {
        root.protect_user(page, rights(area, frame));
        return Ok(true);
    }
    let own = frames::alloc(0)?;
    // SAFETY: 1. `own` is fresh, ours alone, a page long. 2. `frame` is in use by this address space, which is locked;
    // nobody writes to it while it is shared. 3. Both are in the direct map.
    unsafe { phys_to_virt(own).copy_from_nonoverlapping(phys_to_virt(frame), PAGE as usize) };
    map(root, page, own, area.protection)?;
    // SAFETY: the page's use, and it is mapped here no more.
    unsafe { frames::put(frame) };
    Ok(true)
}

/// Gives `page`, which has no frame, its first contents. False where the mapping has none there.
pub(super) fn fill(root: &mut AddressSpaceRoot, page: u64, area: &Area) -> core::result::Result<bool, OutOfMemory> {
    let frame = match &area.backing {
        Backing::Object { object, base } => match object.get(page.wrapping_sub(*base) / PAGE)? {
            Some(frame) => frame,
            None => return Ok(false),
        },
        Backing::Anonymous => frames::alloc_zeroed(0)?,
        Backing::Bytes { data, base } => {
            let frame = frames::alloc_zeroed(0)?;
            // A mapping that was moved down may have its first byte below address 0, by wrapping.
            let from = (page.wrapping_sub(*base) as usize).min(data.len());
            let to = (from + PAGE as usize).min(data.len());
            // SAFETY: a fresh frame is ours alone, a page long, and in the direct map; at most a page is copied.
            unsafe { phys_to_virt(frame).copy_from_nonoverlapping(data[from..to].as_ptr(), to - from) };
            frame
        }
    };
    map(root, page, frame, area.protection)?;
    Ok(true)
}

/// Maps `page` to `frame`, whose use is the page's from then on; without memory for tables it is given back.
fn map(
    root: &mut AddressSpaceRoot,
    page: u64,
    frame: PhysAddr,
    protection: Protection,
) -> core::result::Result<(), OutOfMemory> {
    root.map_user(page, frame, protection).map(drop).inspect_err(|_| {
        // SAFETY: the caller's use, mapped nowhere.
        unsafe { frames::put(frame) };
    })
}

impl Inner {
    /// A copy with the same areas and contents.
    pub(super) fn fork(&mut self) -> Result<Inner> {
        let mut child = Inner {
            root: AddressSpaceRoot::new_user_root()?,
            areas: self.areas.try_clone()?,
            heap: self.heap.clone(),
        };
        let mut result = Ok(());
        for area in self.areas.iter() {
            let private = !area.backing.is_shared();
            let pages = area.start..area.end;
            result = self.root.copy_to(&mut child.root, pages, private, frames::share);
            if result.is_err() {
                break;
            }
        }
        // In any case: some pages may not be written any more.
        self.root.flush_all();
        result?;
        Ok(child)
    }

    /// Takes a range's areas and pages away. Room was reserved.
    pub(super) fn take_away(&mut self, range: Range<u64>) {
        if !self.areas.overlapping(range.clone()).is_empty() {
            self.areas.remove(range.clone());
            self.drop_pages(range.clone());
            let gap = self.areas.gap_around(range.start);
            self.root.free_empty_tables(range, gap);
        }
    }

    /// Gives the pages of a range, which one right covers now, the rights of their areas.
    pub(super) fn protect_pages(&mut self, range: Range<u64>) {
        let Inner { root, areas, .. } = self;
        root.protect_users(range, |page, frame| match areas.find(page) {
            Some(area) => rights(area, frame),
            None => Protection::empty(),
        });
    }

    /// Moves the pages of `from`, which are of `area`, with what is in them, to addresses from `to` on, where nothing is
    /// mapped. All of them or, where memory for page tables runs out, none.
    pub(super) fn move_pages(&mut self, from: Range<u64>, to: u64, area: &Area) -> Result<()> {
        let mut result = Ok(());
        let (start, end) = (from.start, from.end);
        each_step(&mut self.root, from, |root, page, frame| {
            if result.is_ok() {
                match root.map_user(page - start + to, frame, rights(area, frame)) {
                    Ok(_) => _ = root.unmap_user(page),
                    Err(OutOfMemory) => result = Err(Errno::ENOMEM),
                }
            }
        });
        if result.is_err() {
            each_step(&mut self.root, to..to + (end - start), |root, page, frame| {
                root.unmap_user(page);
                // The tables that the page was in are there still: unmapping frees none.
                if root.map_user(page - to + start, frame, rights(area, frame)).is_err() {
                    unreachable!("a page table was lost while a page was moved");
                }
            });
            let gap = self.areas.gap_around(to);
            self.root.free_empty_tables(to..to + (end - start), gap);
        }
        result
    }

    /// Unmaps a range's pages and gives their frames back.
    pub(super) fn drop_pages(&mut self, range: Range<u64>) {
        self.root.take_user(range, |frame| {
            // SAFETY: the page's use of the frame; it is mapped here no more: take_user has flushed it.
            unsafe { frames::put(frame) };
        });
    }
}

/// Runs `f` on each mapped page of `range`, with the tables free to be changed.
fn each_step(root: &mut AddressSpaceRoot, range: Range<u64>, mut f: impl FnMut(&mut AddressSpaceRoot, u64, PhysAddr)) {
    let mut at = range.start;
    loop {
        let mut pages = ArrayVec::<(u64, PhysAddr), STEP>::new();
        root.for_each_user(at..range.end, |page, frame, _| {
            pages.push((page, frame));
            !pages.is_full()
        });
        for &(page, frame) in &pages {
            f(root, page, frame);
        }
        match pages.last() {
            Some((page, _)) if pages.is_full() => at = page + PAGE,
            _ => return,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let areas: Areas = core::mem::take(&mut self.areas);
        for area in areas.iter() {
            self.drop_pages(area.start..area.end);
        }
    }
}
