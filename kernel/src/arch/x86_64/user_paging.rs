//! The page tables of a program.
//!
//! The user's half of an address space: mapping and unmapping pages, and whole ranges of them at once, table by table: for
//! a copy of the space and for its end. The upper half is the kernel's ([`super::paging`]).
//!
//! **Lock order.** An [`AddressSpaceRoot`] is guarded by its owner; frames (95) are taken below it.

use super::layout::{PAGE_SIZE, USER_END};
use super::paging::{KERNEL, Protection, TABLE, activate_kernel, entry_at, find, index, page_size, table};
use super::tlb;
use crate::mm::frames::{self, OutOfMemory};
use arrayvec::ArrayVec;
use core::ops::Range;
use x86_64::structures::paging::PageTable;
use x86_64::structures::paging::page_table::{PageTableEntry, PageTableFlags as Flags};
use x86_64::{PhysAddr, align_down};

/// Frames that are taken out before the CPUs are told once.
const BATCH: usize = 64;

/// The page tables of one address space: the user's half is its own, the upper half is the kernel's.
///
/// Dropping it frees the tables, not the frames that they map: unmap those first.
pub struct AddressSpaceRoot {
    /// The top-level table. Immutable.
    root: PhysAddr,
}

impl AddressSpaceRoot {
    /// Tables with an empty user's half.
    pub fn new_user_root() -> Result<AddressSpaceRoot, OutOfMemory> {
        let kernel = KERNEL.lock();
        let root = frames::alloc(0)?;
        // SAFETY: fresh, ours alone. The kernel's top level is guarded by its lock.
        let (new, old) = unsafe { (table(root), table(kernel.0)) };
        for i in 0..256 {
            new[i].set_unused();
        }
        for i in 256..512 {
            new[i] = old[i].clone();
        }
        Ok(AddressSpaceRoot { root })
    }

    /// Its physical address, for [`super::switch::Context::set_root`].
    pub fn physical(&self) -> PhysAddr {
        self.root
    }

    /// Maps the page at `page` to `frame`. Gives the frame that was mapped there before, as [`Self::unmap_user`] does.
    ///
    /// # Panics
    /// When `page` is not the user's.
    pub fn map_user(
        &mut self,
        page: u64,
        frame: PhysAddr,
        protection: Protection,
    ) -> Result<Option<PhysAddr>, OutOfMemory> {
        assert!(page < USER_END && page.is_multiple_of(PAGE_SIZE), "map_user: {page:#x}");
        // SAFETY: the user's half is self's alone.
        let entry = unsafe { entry_at(self.root, page, 1, TABLE | Flags::USER_ACCESSIBLE) }?;
        let before = (!entry.is_unused()).then(|| entry.addr());
        entry.set_addr(frame, protection.flags());
        if before.is_some() {
            self.flush(page);
        }
        Ok(before)
    }

    /// Takes the page at `page` out; gives the frame that it was mapped to.
    pub fn unmap_user(&mut self, page: u64) -> Option<PhysAddr> {
        if page >= USER_END {
            return None;
        }
        // SAFETY: the user's half is self's alone.
        let entry = unsafe { find(self.root, page) }?;
        let frame = entry.addr();
        entry.set_unused();
        self.flush(page);
        Some(frame)
    }

    /// Changes what the program may do with the page at `page`; whether one is mapped there.
    pub fn protect_user(&mut self, page: u64, protection: Protection) -> bool {
        if page >= USER_END {
            return false;
        }
        // SAFETY: the user's half is self's alone.
        let Some(entry) = (unsafe { find(self.root, page) }) else {
            return false;
        };
        if set_protection(entry, protection) {
            self.flush(page);
        } else {
            tlb::forget_here(self.root, page..page + PAGE_SIZE);
        }
        true
    }

    /// Changes what the program may do with each mapped page of `pages`: as `rights` says of its address and frame.
    pub fn protect_users(&mut self, pages: Range<u64>, mut rights: impl FnMut(u64, PhysAddr) -> Protection) {
        let done: Result<(), core::convert::Infallible> = self.each_table(pages.clone(), |first, entries| {
            for (index, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| !entry.is_unused()) {
                set_protection(entry, rights(first + index as u64 * PAGE_SIZE, entry.addr()));
            }
            Ok(())
        });
        let Ok(()) = done;
        tlb::forget(self.root, pages);
    }

    /// Calls `f` for each mapped page from `pages.start` to `pages.end`, in order, until it says no; tables that do not
    /// exist are skipped.
    pub fn for_each_user(&self, pages: Range<u64>, mut f: impl FnMut(u64, PhysAddr, Protection) -> bool) {
        let end = pages.end.min(USER_END);
        let mut at = align_down(pages.start, PAGE_SIZE);
        'pages: while at < end {
            // SAFETY: the user's half is self's alone, and &self keeps it from being changed.
            let mut current = unsafe { table(self.root) };
            for level in (2..=4).rev() {
                let entry = &current[index(at, level)];
                if entry.is_unused() {
                    at = align_down(at, page_size(level)) + page_size(level);
                    continue 'pages;
                }
                // SAFETY: as above.
                current = unsafe { table(entry.addr()) };
            }
            for entry in current.iter().skip(index(at, 1)) {
                if at >= end {
                    return;
                }
                if !entry.is_unused() && !f(at, entry.addr(), Protection::from_flags(entry.flags())) {
                    return;
                }
                at += PAGE_SIZE;
            }
        }
    }

    /// The frame of the page at `page`.
    pub fn find_user(&self, page: u64) -> Option<PhysAddr> {
        if page >= USER_END {
            return None;
        }
        // SAFETY: the user's half is self's alone, and nothing is changed.
        unsafe { find(self.root, page) }.map(|entry| entry.addr())
    }

    /// Calls `f` with the parts of the lowest tables that are for `pages`, each with the address of its first page;
    /// tables that do not exist are skipped.
    fn each_table<E>(
        &self,
        pages: Range<u64>,
        mut f: impl FnMut(u64, &mut [PageTableEntry]) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = pages.end.min(USER_END);
        let mut at = pages.start;
        'tables: while at < end {
            // SAFETY: the user's half is self's alone.
            let mut current: &mut PageTable = unsafe { table(self.root) };
            for level in (2..=4).rev() {
                let entry = &current[index(at, level)];
                if entry.is_unused() {
                    at = align_down(at, page_size(level)) + page_size(level);
                    continue 'tables;
                }
                // SAFETY: as above.
                current = unsafe { table(entry.addr()) };
            }
            let first = index(at, 1);
            let count = (512 - first).min(((end - at) / PAGE_SIZE) as usize);
            let base: *mut PageTableEntry = &mut current[first];
            // SAFETY: entries first..first + count of one table of 512, which is self's alone.
            f(at, unsafe { core::slice::from_raw_parts_mut(base, count) })?;
            at += count as u64 * PAGE_SIZE;
        }
        Ok(())
    }

    /// Maps the pages of `pages` in `child` as they are here. Where they are `private`, neither of the two may write any
    /// more. Calls `shared` for each frame that has one more user now.
    ///
    /// What CPUs remember of the older rights is not forgotten: see [`AddressSpaceRoot::flush_all`].
    pub fn copy_to(
        &mut self,
        child: &mut AddressSpaceRoot,
        pages: Range<u64>,
        private: bool,
        mut shared: impl FnMut(PhysAddr),
    ) -> Result<(), OutOfMemory> {
        self.each_table(pages, |first, entries| {
            let mut to: Option<&mut [PageTableEntry]> = None;
            let count = entries.len();
            for (index, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| !entry.is_unused()) {
                let to = match &mut to {
                    Some(to) => to,
                    None => {
                        // SAFETY: the child's user half is the caller's alone; the part is of one table, as here.
                        to.insert(unsafe {
                            let first = entry_at(child.root, first, 1, TABLE | Flags::USER_ACCESSIBLE)?;
                            core::slice::from_raw_parts_mut(first, count)
                        })
                    }
                };
                let mut flags = entry.flags();
                if private && flags.contains(Flags::WRITABLE) {
                    flags.remove(Flags::WRITABLE);
                    entry.set_flags(flags);
                }
                to[index].set_addr(entry.addr(), flags);
                shared(entry.addr());
            }
            Ok(())
        })
    }

    /// Takes all pages of `pages` out, and calls `f` for each frame once no CPU remembers it.
    pub fn take_user(&mut self, pages: Range<u64>, mut f: impl FnMut(PhysAddr)) {
        let root = self.root;
        // Taken out and not forgotten yet, and the range that they are from.
        let mut taken = ArrayVec::<PhysAddr, BATCH>::new();
        let mut range = 0..0;
        let done: Result<(), core::convert::Infallible> = self.each_table(pages, |first, entries| {
            for (index, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| !entry.is_unused()) {
                let page = first + index as u64 * PAGE_SIZE;
                if taken.is_empty() {
                    range.start = page;
                }
                range.end = page + PAGE_SIZE;
                taken.push(entry.addr());
                entry.set_unused();
                if taken.is_full() {
                    tlb::forget(root, range.clone());
                    taken.drain(..).for_each(&mut f);
                }
            }
            Ok(())
        });
        let Ok(()) = done;
        if !taken.is_empty() {
            tlb::forget(root, range);
            taken.into_iter().for_each(f);
        }
    }

    /// Frees the tables that `pages` needed and nobody needs any more: those that lie wholly in `gap`, the range around
    /// `pages` in which nothing may be mapped now. So a table is looked at only when its last area has gone.
    pub fn free_empty_tables(&mut self, pages: Range<u64>, gap: Range<u64>) {
        let end = pages.end.min(USER_END);
        let mut at = pages.start;
        while at < end {
            at = self.free_empty_path(at, &gap);
        }
    }

    /// Frees the tables on the way to `page`, from the lowest up, that lie in `gap` and are empty. Gives the first page
    /// behind the smallest table that is, or would be, on that way.
    fn free_empty_path(&mut self, page: u64, gap: &Range<u64>) -> u64 {
        // The tables on the way: the top level first.
        let mut way = ArrayVec::<PhysAddr, 4>::new();
        let mut at = self.root;
        let mut next = 0;
        for level in (1..=4).rev() {
            way.push(at);
            let span = page_size(level + 1);
            next = align_down(page, span) + span;
            if level == 1 {
                break;
            }
            // SAFETY: the user's half is self's alone, and nothing is changed.
            let entry = unsafe { &table(at)[index(page, level)] };
            if entry.is_unused() {
                next = align_down(page, page_size(level)) + page_size(level);
                break;
            }
            at = entry.addr();
        }
        let mut freed = ArrayVec::<PhysAddr, 3>::new();
        while way.len() > 1 {
            let level = 5 - way.len() as u32;
            let span = page_size(level + 1);
            let start = align_down(page, span);
            let last = way[way.len() - 1];
            // SAFETY: as above.
            let empty = || unsafe { table(last) }.iter().all(PageTableEntry::is_unused);
            if start < gap.start || start + span > gap.end || !empty() {
                break;
            }
            way.pop();
            // SAFETY: the user's half is self's alone.
            let above = unsafe { table(way[way.len() - 1]) };
            above[index(page, level + 1)].set_unused();
            freed.push(last);
        }
        if !freed.is_empty() {
            // The processor may remember the tables themselves.
            self.flush_all();
        }
        for table in freed {
            // SAFETY: no entry leads to it (above), and every CPU has forgotten it.
            unsafe { frames::free(table, 0) };
        }
        next
    }

    /// Makes all CPUs forget what they know of all pages.
    pub fn flush_all(&self) {
        tlb::forget(self.root, 0..USER_END);
    }

    /// Makes all CPUs forget what they know of one page.
    pub fn flush(&self, page: u64) {
        tlb::forget(self.root, page..page + PAGE_SIZE);
    }

    /// Switches this CPU to these tables: for `execve`, whose task goes on running. Interrupts off.
    pub fn activate(&self) {
        // SAFETY: the upper half is the same as before; self outlives its use (the task's context refers to it), and
        // interrupts are off (documented).
        unsafe { tlb::load(self.root) };
    }
}

/// Changes an entry's rights; whether some were lost. Who remembers fewer than there are takes a fault and finds more, so
/// only then other CPUs need be told.
fn set_protection(entry: &mut PageTableEntry, protection: Protection) -> bool {
    const GRANTS: Flags = Flags::PRESENT.union(Flags::WRITABLE).union(Flags::USER_ACCESSIBLE);
    let before = entry.flags();
    let after = protection.flags();
    entry.set_flags(after | before & (Flags::ACCESSED | Flags::DIRTY));
    !(before & (GRANTS - after)).is_empty() || (after - before).contains(Flags::NO_EXECUTE)
}

impl Drop for AddressSpaceRoot {
    fn drop(&mut self) {
        if tlb::is_loaded(self.root) {
            activate_kernel(); // a CPU must not stand on freed tables
        }
        // SAFETY: the user's half is self's alone, and self ends here: no CPU runs on it. This one does not (above); a task
        // elsewhere would have a reference to the address space until it has left the tables.
        unsafe {
            for entry in table(self.root).iter().take(256) {
                free_tables(entry, 3);
            }
            frames::free(self.root, 0);
        }
    }
}

/// Frees the table of `level` that an entry points to, and those below it.
///
/// # Safety
/// Nobody uses them any more.
unsafe fn free_tables(entry: &PageTableEntry, level: u32) {
    if entry.is_unused() {
        return;
    }
    // SAFETY: unused by anybody else (caller); tables are single frames.
    unsafe {
        if level > 1 {
            for lower in table(entry.addr()).iter() {
                free_tables(lower, level - 1);
            }
        }
        frames::free(entry.addr(), 0);
    }
}
