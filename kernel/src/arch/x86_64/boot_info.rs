//! What the loader told us, in one form for every loader.
//!
//! Filled by [`super::pvh`] from copies, so that the memory it came from can be used. The memory map may be unsorted,
//! overlap itself and hold anything: [`BootInfo::usable`] makes of it what the frame allocator may have.

use super::layout::{PAGE_SIZE, PHYS_LIMIT, image_physical, phys_to_virt};
use super::once::BootCell;
use arrayvec::ArrayVec;
use core::ops::Range;
use x86_64::{PhysAddr, align_down, align_up};

/// The longest command line that is taken. Linux's limit is 2048 on x86.
pub const COMMAND_LINE_MAX: usize = 4096;
/// The most entries of a memory map that are kept (Linux keeps 128 in the same place).
pub const MAX_REGIONS: usize = 128;
/// The most ranges that can be left of the map after all holes.
pub const MAX_RANGES: usize = 160;

/// Memory below this is left alone: firmware tables, and the start of other CPUs.
const LOW_MEMORY: u64 = 1 << 20;

/// What a region of physical memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// RAM, free for use.
    Usable,
    /// RAM that holds ACPI tables.
    Acpi,
    /// Not for us.
    Reserved,
}

impl Kind {
    /// From the type numbers of the BIOS call E820h, which PVH uses too (ACPI specification, "System Address Map
    /// Interfaces").
    pub fn from_e820(number: u32) -> Kind {
        match number {
            1 => Kind::Usable,
            3 => Kind::Acpi,
            _ => Kind::Reserved,
        }
    }
}

/// One entry of the memory map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Physical addresses.
    pub range: Range<u64>,
    /// What they are.
    pub kind: Kind,
}

/// What the loader told us.
pub struct BootInfo {
    /// The boot protocol's name.
    pub protocol: &'static str,
    /// The time stamp counter at the kernel's first instruction.
    pub tsc_at_entry: u64,
    /// The command line, any bytes.
    pub command_line: ArrayVec<u8, COMMAND_LINE_MAX>,
    /// Whether it was longer than [`COMMAND_LINE_MAX`].
    pub command_line_cut: bool,
    /// The memory map, as it was given.
    pub regions: ArrayVec<Region, MAX_REGIONS>,
    /// How many entries did not fit.
    pub regions_dropped: usize,
    /// Physical addresses of the initial RAM disk.
    pub initrd: Option<Range<u64>>,
    /// Physical address of ACPI's root pointer.
    pub rsdp: Option<u64>,
}

/// Ranges of physical addresses.
pub type Ranges = ArrayVec<Range<u64>, MAX_RANGES>;

static BOOT_INFO: BootCell<BootInfo> = BootCell::new();

/// Keeps `info` for ever.
pub(super) fn set(info: BootInfo) -> &'static BootInfo {
    BOOT_INFO.set(info)
}

impl BootInfo {
    /// RAM that nothing lives in: whole pages, sorted, disjoint. Whatever the map says twice, the worse counts.
    pub fn usable(&self) -> Ranges {
        let mut free = self.ram(|kind| kind == Kind::Usable);
        for region in self.regions.iter().filter(|region| region.kind != Kind::Usable) {
            remove(&mut free, region.range.clone());
        }
        remove(&mut free, 0..LOW_MEMORY);
        remove(&mut free, image_physical());
        if let Some(initrd) = &self.initrd {
            remove(&mut free, initrd.clone());
        }
        free
    }

    /// A page of RAM below 1 MiB, where processors begin: its number. Neither the first (the BIOS's data) nor, if another
    /// can be had, below 64 KiB, which some firmware writes to.
    pub fn low_page(&self) -> Option<u8> {
        let mut free = self.ram(|kind| kind == Kind::Usable);
        for region in self.regions.iter().filter(|region| region.kind != Kind::Usable) {
            remove(&mut free, region.range.clone());
        }
        let pages = |from: u64| {
            let whole = free
                .iter()
                .map(move |range| range.start.max(from)..range.end.min(LOW_MEMORY));
            whole
                .filter(|range| range.start < range.end)
                .map(|range| range.start)
                .next()
        };
        let start = pages(64 << 10).or_else(|| pages(PAGE_SIZE))?;
        u8::try_from(start / PAGE_SIZE).ok()
    }

    /// What the direct map holds: RAM of any use, and low memory. Whole pages, sorted, disjoint.
    pub fn mapped(&self) -> Ranges {
        let mut ranges = self.ram(|kind| kind != Kind::Reserved);
        // The image and the initrd are in RAM whatever the map says.
        for range in [Some(0..LOW_MEMORY), Some(image_physical()), self.initrd.clone()]
            .into_iter()
            .flatten()
        {
            insert(
                &mut ranges,
                align_down(range.start, PAGE_SIZE)..align_up(range.end, PAGE_SIZE),
            );
        }
        ranges
    }

    /// Whole pages of the regions whose kind passes, sorted, joined.
    fn ram(&self, passes: impl Fn(Kind) -> bool) -> Ranges {
        let mut ranges = Ranges::new();
        for region in self.regions.iter().filter(|region| passes(region.kind)) {
            let end = align_down(region.range.end.min(PHYS_LIMIT), PAGE_SIZE);
            let start = align_up(region.range.start.min(PHYS_LIMIT), PAGE_SIZE);
            if start < end {
                insert(&mut ranges, start..end);
            }
        }
        ranges
    }

    /// The initial RAM disk. After the direct map is made.
    pub fn initrd(&self) -> &'static [u8] {
        match &self.initrd {
            // SAFETY: 1. `usable` leaves these addresses out, so nobody writes them, ever. 2. `mapped` has them in the
            // direct map.
            Some(range) => unsafe {
                core::slice::from_raw_parts(
                    phys_to_virt(PhysAddr::new(range.start)),
                    (range.end - range.start) as usize,
                )
            },
            None => &[],
        }
    }
}

/// Adds a range to a sorted list, joining it with what it touches. A range for which there is no room is lost.
fn insert(ranges: &mut Ranges, mut new: Range<u64>) {
    ranges.retain(|old| {
        let touches = old.start <= new.end && new.start <= old.end;
        if touches {
            new = old.start.min(new.start)..old.end.max(new.end);
        }
        !touches
    });
    let at = ranges.partition_point(|old| old.start < new.start);
    let _ = ranges.try_insert(at, new);
}

/// Takes a hole, widened to whole pages, out of a sorted list.
fn remove(ranges: &mut Ranges, hole: Range<u64>) {
    let hole = align_down(hole.start, PAGE_SIZE)..hole.end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX);
    let old = core::mem::take(ranges);
    for range in old {
        for part in [
            range.start..range.end.min(hole.start),
            range.start.max(hole.end)..range.end,
        ] {
            if part.start < part.end {
                let _ = ranges.try_push(part);
            }
        }
    }
}
