//! The areas of an address space: which addresses a program has asked for, and with what rights.
//!
//! A sorted list of ranges that do not overlap. It knows nothing of page tables. Every change first [makes
//! room](Areas::reserve), so that it either happens whole or not at all.

use super::page_object::PageObject;
use super::shared::Shared;
use crate::arch::layout::PAGE_SIZE as PAGE;
use crate::arch::paging::Protection;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::ops::Range;

/// Where a page's first contents come from.
#[derive(Clone)]
pub enum Backing {
    /// Zeros.
    Anonymous,
    /// Bytes of the initramfs: the first one belongs at address `base`; zeros where they end. A private mapping.
    Bytes {
        /// The bytes.
        data: &'static [u8],
        /// Address of the first one.
        base: u64,
    },
    /// Memory that other address spaces may map too.
    Object {
        /// Its pages.
        object: Shared<PageObject>,
        /// Address of the first one.
        base: u64,
    },
}

impl Backing {
    /// Whether what is written here is seen by all who map it; otherwise it is the address space's own.
    pub fn is_shared(&self) -> bool {
        matches!(self, Backing::Object { .. })
    }

    /// As it is after a move by `distance`, which may wrap.
    pub fn moved(&self, distance: u64) -> Backing {
        let mut moved = self.clone();
        match &mut moved {
            Backing::Anonymous => {}
            Backing::Bytes { base, .. } | Backing::Object { base, .. } => *base = base.wrapping_add(distance),
        }
        moved
    }

    fn same(&self, other: &Backing) -> bool {
        match (self, other) {
            (Backing::Anonymous, Backing::Anonymous) => true,
            (Backing::Bytes { data, base }, Backing::Bytes { data: d, base: b }) => {
                core::ptr::eq(*data, *d) && base == b
            }
            (Backing::Object { object, base }, Backing::Object { object: o, base: b }) => {
                core::ptr::eq(&**object, &**o) && base == b
            }
            _ => false,
        }
    }
}

/// Bytes kept free below an area that grows (Linux: `stack_guard_gap`).
pub const GUARD_GAP: u64 = 256 * PAGE;

/// What an area is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Segments of the program and what mmap gave.
    Mapping,
    /// Between the program and its break (brk(2)).
    Heap,
    /// Grows down when touched below its start (`MAP_GROWSDOWN`, and the stack).
    Stack,
}

/// One range of equal rights.
#[derive(Clone)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Rights.
    pub protection: Protection,
    /// First contents.
    pub backing: Backing,
    /// Use.
    pub purpose: Purpose,
}

impl Area {
    /// Its size in pages.
    pub fn pages(&self) -> u64 {
        (self.end - self.start) / PAGE
    }

    /// The lowest address that must stay free below it: a growing area keeps its distance ([`GUARD_GAP`]).
    pub fn start_with_gap(&self) -> u64 {
        match self.purpose {
            Purpose::Stack => self.start.saturating_sub(GUARD_GAP),
            _ => self.start,
        }
    }

    /// As /proc/PID/maps names it.
    pub fn purpose_name(&self) -> &'static str {
        match self.purpose {
            Purpose::Mapping => "",
            Purpose::Heap => "[heap]",
            Purpose::Stack => "[stack]",
        }
    }

    fn joins(&self, next: &Area) -> bool {
        self.end == next.start
            && self.protection == next.protection
            && self.purpose == next.purpose
            && self.backing.same(&next.backing)
    }
}

/// All areas of one address space, by address.
#[derive(Default)]
pub struct Areas {
    list: Vec<Area>,
    /// Sum of all areas' pages.
    pages: u64,
}

impl Areas {
    /// The most areas of a program (`vm.max_map_count`).
    pub const MAX: usize = 65530;

    /// Pages in all areas.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Number of areas.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The areas, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Area> {
        self.list.iter()
    }

    /// A copy, with room for a change.
    pub fn try_clone(&self) -> Result<Areas, TryReserveError> {
        let mut list = Vec::new();
        list.try_reserve_exact(self.list.len() + 2)?;
        list.extend_from_slice(&self.list);
        Ok(Areas {
            list,
            pages: self.pages,
        })
    }

    /// Makes room for the two areas that any one change adds at most.
    pub fn reserve(&mut self) -> Result<(), TryReserveError> {
        self.list.try_reserve(2)
    }

    /// Index of the first area that ends behind `address`.
    fn position(&self, address: u64) -> usize {
        self.list.partition_point(|area| area.end <= address)
    }

    /// The area that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Area> {
        self.list
            .get(self.position(address))
            .filter(|area| area.start <= address)
    }

    /// What is free around `address`, which is in no area: from the end of the area below to the start of the one above.
    pub fn gap_around(&self, address: u64) -> Range<u64> {
        let at = self.position(address);
        let start = at.checked_sub(1).map_or(0, |below| self.list[below].end);
        start..self.list.get(at).map_or(u64::MAX, |above| above.start)
    }

    /// The first area that ends behind `address`: the one that holds it, or the next above.
    pub fn at_or_above(&self, address: u64) -> Option<&Area> {
        self.list.get(self.position(address))
    }

    /// The areas that overlap `range`, in order.
    pub fn overlapping(&self, range: Range<u64>) -> &[Area] {
        let from = self.position(range.start);
        let to = self.list.partition_point(|area| area.start < range.end);
        &self.list[from..to.max(from)]
    }

    /// Pages of `range` that are in areas.
    pub fn pages_in(&self, range: Range<u64>) -> u64 {
        let of = |area: &Area| (area.end.min(range.end) - area.start.max(range.start)) / PAGE;
        self.overlapping(range.clone()).iter().map(of).sum()
    }

    /// The highest free range of `length` bytes within `within`; its start.
    pub fn highest_gap(&self, length: u64, within: Range<u64>) -> Option<u64> {
        let mut top = within.end;
        for area in self.list.iter().rev().skip_while(|area| area.start >= within.end) {
            if top >= area.end && top - area.end >= length {
                break;
            }
            top = top.min(area.start_with_gap());
            if top <= within.start {
                return None;
            }
        }
        top.checked_sub(length).filter(|&start| start >= within.start)
    }

    /// Adds `area` to a free range. Room was [reserved](Areas::reserve).
    pub fn insert(&mut self, area: Area) {
        let at = self.position(area.start);
        self.pages += area.pages();
        self.list.insert(at, area);
        self.join(at + 1);
        self.join(at);
    }

    /// Takes `range` away. Room was reserved.
    pub fn remove(&mut self, range: Range<u64>) {
        let span = self.isolate(range);
        self.pages -= self.list[span.clone()].iter().map(Area::pages).sum::<u64>();
        self.list.drain(span);
    }

    /// Sets the rights of what `range` holds. Room was reserved.
    pub fn protect(&mut self, range: Range<u64>, protection: Protection) {
        let span = self.isolate(range);
        for area in &mut self.list[span.clone()] {
            area.protection = protection;
        }
        for at in (span.start..=span.end).rev() {
            self.join(at);
        }
    }

    /// Moves the start of the area that begins at `start` down to `to`; the range between is free.
    pub fn grow_down(&mut self, start: u64, to: u64) {
        let at = self.position(start);
        debug_assert!(self.list[at].start == start && to < start);
        self.pages += (start - to) / PAGE;
        self.list[at].start = to;
    }

    /// Splits areas so that `range` begins and ends at borders of areas; gives the indices inside.
    fn isolate(&mut self, range: Range<u64>) -> Range<usize> {
        self.split(range.start);
        self.split(range.end);
        let from = self.position(range.start);
        let to = self.list.partition_point(|area| area.start < range.end);
        from..to.max(from)
    }

    fn split(&mut self, address: u64) {
        let at = self.position(address);
        if let Some(area) = self.list.get_mut(at)
            && area.start < address
        {
            let upper = Area {
                start: address,
                ..area.clone()
            };
            area.end = address;
            self.list.insert(at + 1, upper);
        }
    }

    /// Makes one area of those at `at - 1` and `at`, if they are alike.
    fn join(&mut self, at: usize) {
        if at > 0 && at < self.list.len() && self.list[at - 1].joins(&self.list[at]) {
            self.list[at - 1].end = self.list[at].end;
            self.list.remove(at);
        }
    }
}
