//! The memory of a program: its areas, and the pages behind them.
//!
//! **Purpose.** mmap(2) and its relatives, the loader's segments, the growing stack, and page faults.
//!
//! **How it works.** A call changes the list of [`Areas`] and takes pages away; pages come one by one, when a program or
//! the kernel on its behalf touches an address ([`super::fault`]). The page tables hold nothing that an area does not
//! allow. What happens to the pages themselves is in [`super::pages`].
//!
//! Addresses are not random: the same program finds itself at the same place in each run.
//!
//! **Lock order.** An address space's lock has rank 20. Under it come the heap, page tables and frames. User memory is
//! never touched under it.

use super::areas::{Area, Areas, Backing, Purpose};
use super::frames;
use super::shared::{OutOfMemory, Shared};
use super::tasks::{Anchor, Current};
use crate::arch::layout::{PAGE_SIZE as PAGE, USER_END};
use crate::arch::paging::{self, AddressSpaceRoot, Protection};
use crate::arch::switch::Context;
use crate::syscall::errno::{Errno, Result};
use core::ops::Range;
use cpu::SpinLock;
use linux_raw_sys::general;

/// The lowest address that is given without being asked for (`vm.mmap_min_addr`).
pub(super) const LOWEST: u64 = 0x1_0000;
/// Mappings are placed below this, downwards (Linux without randomization).
const MAPPINGS_END: u64 = 0x7fff_f7ff_f000;
/// Where the stack begins, downwards.
pub const STACK_TOP: u64 = USER_END;

/// Rounds up to a page; `None` beyond 64 bits.
pub fn page_up(value: u64) -> Option<u64> {
    value.checked_next_multiple_of(PAGE)
}

/// How an address is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// At the hint if that is free, else anywhere.
    Anywhere,
    /// There, whatever was there before (`MAP_FIXED`).
    Fixed,
    /// There, if nothing is (`MAP_FIXED_NOREPLACE`).
    FixedIfFree,
}

/// A mapping that is wanted.
#[derive(Clone)]
pub struct Request {
    /// Wanted address.
    pub address: u64,
    /// Bytes; rounded up to pages.
    pub length: u64,
    /// Rights.
    pub protection: Protection,
    /// How the address is meant.
    pub placement: Placement,
    /// First contents. A base is relative to the address that is chosen.
    pub backing: Backing,
    /// Use.
    pub purpose: Purpose,
    /// Whether more may be mapped than there is memory (`MAP_NORESERVE`).
    pub unreserved: bool,
}

/// The limits of the process that a change must keep, in bytes.
#[derive(Clone, Copy)]
pub struct SpaceLimits {
    /// `RLIMIT_AS`
    pub total: u64,
    /// `RLIMIT_DATA`
    pub data: u64,
    /// `RLIMIT_STACK`
    pub stack: u64,
}

impl SpaceLimits {
    /// Those of the running process.
    pub fn of(current: &Current) -> SpaceLimits {
        current.process.with_limits(|limits| SpaceLimits {
            total: limits.current(general::RLIMIT_AS),
            data: limits.current(general::RLIMIT_DATA),
            stack: limits.current(general::RLIMIT_STACK),
        })
    }
}

/// The memory of one program. Shared by its threads.
pub struct AddressSpace {
    pub(super) inner: SpinLock<Inner>,
}

pub(super) struct Inner {
    pub(super) root: AddressSpaceRoot,
    pub(super) areas: Areas,
    /// Where the heap begins, and the break (brk(2)): the first address behind it, at any byte.
    pub(super) heap: Range<u64>,
}

impl AddressSpace {
    /// An empty one.
    pub fn try_new() -> core::result::Result<Shared<AddressSpace>, OutOfMemory> {
        let root = AddressSpaceRoot::new_user_root()?;
        Shared::try_new(AddressSpace {
            inner: SpinLock::new(
                20,
                Inner {
                    root,
                    areas: Areas::default(),
                    heap: 0..0,
                },
            ),
        })
    }

    /// A copy for a child: the same areas, the same contents. Private pages are shared until one of the two writes.
    pub fn fork(&self) -> Result<Shared<AddressSpace>> {
        let child = self.inner.lock().fork()?;
        Ok(Shared::try_new(AddressSpace {
            inner: SpinLock::new(20, child),
        })?)
    }

    /// Makes this the running task's memory, from here on and at each switch to it.
    pub fn enter(&self, current: &Current) {
        let inner = self.inner.lock();
        Anchor::with_own_context(current, |context| {
            context.set_root(inner.root.physical());
            inner.root.activate();
        });
    }

    /// Makes this the memory of a task that has not run.
    pub fn be_entered_by(&self, context: &mut Context) {
        context.set_root(self.inner.lock().root.physical());
    }

    /// Takes the running task, whose memory this is, back to the kernel's own.
    pub fn leave(&self, current: &Current) {
        Anchor::with_own_context(current, |context| {
            context.set_root(paging::kernel_root());
            paging::activate_kernel();
        });
    }

    /// Sets where the heap begins. For the loader.
    pub fn set_heap(&self, start: u64) {
        self.inner.lock().heap = start..start;
    }

    /// Pages in all areas.
    pub fn pages(&self) -> u64 {
        self.inner.lock().areas.pages()
    }

    /// A copy of the list of areas.
    pub fn areas(&self) -> Result<alloc::vec::Vec<Area>> {
        let mut copy = alloc::vec::Vec::new();
        loop {
            let needed = self.inner.lock().areas.len();
            copy.try_reserve(needed)?;
            let inner = self.inner.lock();
            if inner.areas.len() <= copy.capacity() {
                copy.extend(inner.areas.iter().cloned());
                return Ok(copy);
            }
        }
    }

    /// mmap(2), its arguments decoded: the address. Errors in Linux's order: ENOMEM (length beyond the address space, or
    /// too many areas), EINVAL (address inside a page), EEXIST, ENOMEM (`RLIMIT_AS`, no room).
    pub fn map(&self, request: &Request, limits: &SpaceLimits) -> Result<u64> {
        let length = page_up(request.length)
            .filter(|&length| length != 0)
            .ok_or(Errno::ENOMEM)?;
        let mut inner = self.inner.lock();
        if inner.areas.len() > Areas::MAX {
            return Err(Errno::ENOMEM);
        }
        let start = inner.place(request, length)?;
        let range = start..start + length;
        let replaced = inner.areas.pages_in(range.clone());
        if replaced != 0 && request.placement == Placement::FixedIfFree {
            return Err(Errno::EEXIST);
        }
        inner.room_for(length / PAGE - replaced, limits)?;
        if request.protection.contains(Protection::WRITE) && !request.unreserved {
            enough_memory(length)?;
        }
        // Twice: for what is removed, then for what is added.
        inner.areas.reserve()?;
        inner.take_away(range.clone());
        inner.areas.reserve()?;
        let backing = request.backing.moved(start);
        inner.areas.insert(Area {
            start: range.start,
            end: range.end,
            protection: request.protection,
            backing,
            purpose: request.purpose,
        });
        Ok(start)
    }

    /// munmap(2). EINVAL for a range that is not whole pages of the user's half.
    pub fn unmap(&self, start: u64, length: u64) -> Result<()> {
        let range = whole_pages(start, length).ok_or(Errno::EINVAL)?;
        if range.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut inner = self.inner.lock();
        inner.areas.reserve()?;
        inner.take_away(range);
        Ok(())
    }

    /// mprotect(2), its arguments checked for form. ENOMEM where the range has a hole, when all before it is changed.
    pub fn protect(&self, range: Range<u64>, protection: Protection) -> Result<()> {
        let mut inner = self.inner.lock();
        let mut end = range.start;
        for area in inner.areas.overlapping(range.clone()) {
            if area.start > end {
                break;
            }
            end = area.end.min(range.end);
        }
        let covered = range.start..end;
        if !covered.is_empty() {
            inner.areas.reserve()?;
            inner.areas.protect(covered.clone(), protection);
            inner.protect_pages(covered);
        }
        if end < range.end { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// madvise(2) with `MADV_DONTNEED`: what was in the range is forgotten. ENOMEM where it has a hole.
    pub fn discard(&self, range: Range<u64>) -> Result<()> {
        let mut inner = self.inner.lock();
        let whole = inner.areas.pages_in(range.clone()) == (range.end - range.start) / PAGE;
        inner.drop_pages(range);
        if whole { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// mremap(2), its arguments checked for form: makes the mapping at `old` as long as `length`, at another place if it
    /// may move and must, or at `to`. The address. ENOMEM, and EFAULT where `old` is not one mapping.
    pub fn remap(
        &self,
        old: Range<u64>,
        length: u64,
        may_move: bool,
        to: Option<u64>,
        limits: &SpaceLimits,
    ) -> Result<u64> {
        let old_length = old.end - old.start;
        let mut inner = self.inner.lock();
        inner.areas.reserve()?;
        let area = inner.areas.find(old.start).ok_or(Errno::EFAULT)?.clone();
        // What shrinks, or stays, may be several areas, with holes.
        if to.is_none() && length <= old_length {
            inner.take_away(old.start + length..old.end);
            return Ok(old.start);
        }
        if area.end < old.end {
            return Err(Errno::EFAULT);
        }
        inner.room_for(length.saturating_sub(old_length) / PAGE, limits)?;
        enough_memory(length.saturating_sub(old_length))?;
        let free_until = inner.areas.at_or_above(old.end).map_or(USER_END, Area::start_with_gap);
        if to.is_none() && area.end == old.end && old.start.checked_add(length).is_some_and(|end| end <= free_until) {
            inner.areas.insert(Area {
                start: old.end,
                end: old.start + length,
                ..area
            });
            return Ok(old.start);
        }
        if !may_move {
            return Err(Errno::ENOMEM);
        }
        let wanted = Request {
            address: to.unwrap_or(0),
            length,
            protection: area.protection,
            placement: if to.is_some() {
                Placement::Fixed
            } else {
                Placement::Anywhere
            },
            backing: area.backing.clone(),
            purpose: area.purpose,
            unreserved: false,
        };
        let start = inner.place(&wanted, length)?;
        if to.is_some() {
            inner.take_away(start..start + length);
            inner.areas.reserve()?;
        }
        inner.move_pages(old.start..old.start + length.min(old_length), start, &area)?;
        // Room was reserved for both: what is taken away may split an area, and the new one.
        inner.take_away(old.clone());
        let backing = area.backing.moved(start.wrapping_sub(old.start));
        inner.areas.insert(Area {
            start,
            end: start + length,
            backing,
            ..area
        });
        Ok(start)
    }

    /// The place in physical memory of a byte that other address spaces may map too; `None` for what is private, or not
    /// there.
    pub fn shared_place(&self, address: u64) -> Option<u64> {
        let inner = self.inner.lock();
        inner.areas.find(address).filter(|area| area.backing.is_shared())?;
        let frame = inner.root.find_user(address & !(PAGE - 1))?;
        Some(frame.as_u64() + address % PAGE)
    }

    /// Whether areas cover the whole range.
    pub fn is_mapped(&self, range: Range<u64>) -> bool {
        self.inner.lock().areas.pages_in(range.clone()) == (range.end - range.start) / PAGE
    }

    /// brk(2): moves the break to `to` if that is possible; gives where it is.
    pub fn set_break(&self, to: u64, limits: &SpaceLimits) -> u64 {
        let mut inner = self.inner.lock();
        if inner.move_break(to, limits).is_ok() {
            inner.heap.end = to;
        }
        inner.heap.end
    }
}

impl Inner {
    /// Chooses the address for a mapping of `length` bytes.
    fn place(&self, request: &Request, length: u64) -> Result<u64> {
        let Some(highest) = USER_END.checked_sub(length) else {
            return Err(Errno::ENOMEM);
        };
        if request.placement != Placement::Anywhere {
            return match request.address {
                address if address > highest => Err(Errno::ENOMEM),
                address if !address.is_multiple_of(PAGE) => Err(Errno::EINVAL),
                address => Ok(address),
            };
        }
        let hint = request.address & !(PAGE - 1);
        if hint != 0 || request.address != 0 {
            let hint = page_up(request.address).unwrap_or(u64::MAX).max(LOWEST);
            let free = |above: Option<&Area>| above.is_none_or(|area| hint + length <= area.start_with_gap());
            if hint <= highest && free(self.areas.at_or_above(hint)) {
                return Ok(hint);
            }
        }
        let below = || self.areas.highest_gap(length, LOWEST..MAPPINGS_END);
        let above = || self.areas.highest_gap(length, MAPPINGS_END..USER_END);
        below().or_else(above).ok_or(Errno::ENOMEM)
    }

    pub(super) fn room_for(&self, pages: u64, limits: &SpaceLimits) -> Result<()> {
        if self.areas.pages() + pages > limits.total / PAGE {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    fn move_break(&mut self, to: u64, limits: &SpaceLimits) -> Result<()> {
        let Range { start, end } = self.heap.clone();
        if to < start || to - start > limits.data {
            return Err(Errno::ENOMEM);
        }
        // Both ends are below USER_END or refused here: rounding cannot overflow.
        if to >= USER_END {
            return Err(Errno::ENOMEM);
        }
        let (old, new) = (end.next_multiple_of(PAGE), to.next_multiple_of(PAGE));
        self.areas.reserve()?;
        if new < old {
            self.take_away(new..old);
        } else if new > old {
            if self
                .areas
                .at_or_above(old)
                .is_some_and(|next| new + PAGE > next.start_with_gap())
            {
                return Err(Errno::ENOMEM);
            }
            self.room_for((new - old) / PAGE, limits)?;
            enough_memory(new - old)?;
            self.areas.insert(Area {
                start: old,
                end: new,
                protection: Protection::READ | Protection::WRITE,
                backing: Backing::Anonymous,
                purpose: Purpose::Heap,
            });
        }
        Ok(())
    }
}

/// Refuses what is obviously too much: more at once than all memory (Linux: `overcommit_memory` 0).
fn enough_memory(bytes: u64) -> Result<()> {
    if bytes / PAGE > frames::count().total as u64 {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

/// The pages from `start`, which must begin one, for `length` bytes; `None` outside the user's half.
pub fn whole_pages(start: u64, length: u64) -> Option<Range<u64>> {
    let fits = start.is_multiple_of(PAGE) && start <= USER_END && length <= USER_END - start;
    fits.then(|| start..start + length.next_multiple_of(PAGE))
}
