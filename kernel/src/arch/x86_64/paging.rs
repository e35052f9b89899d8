//! Page tables.
//!
//! **Purpose.** The kernel's half of every address space, made once, with no page both writable and executable; and the
//! primitives by which `mm` builds the user's half.
//!
//! **How it works.** Four levels. The tables of the upper half hang off sixteen-odd top-level entries that exist from
//! [`init`] on, so that a new address space copies those entries and shares all that is below them. Tables are reached
//! through the direct map. Large pages are used wherever alignment allows, except where the image's code and constants
//! lie: there the direct map is read-only, page by page.
//!
//! **Lock order.** The kernel's tables are guarded by [`KERNEL`] (rank 94), frames (95) are taken below it. An
//! [`AddressSpaceRoot`] is guarded by its owner.

pub use super::user_paging::AddressSpaceRoot;

use super::boot_info::BootInfo;
use super::layout::{
    KERNEL_OFFSET, MMIO, PAGE_SIZE, PHYS_OFFSET, STACKS, image_end, image_start, phys_to_virt, rodata_end, text_end,
};
use super::tlb;
use crate::mm::frames::{self, OutOfMemory};
use core::ops::Range;
use cpu::IrqLock;
use x86_64::structures::paging::PageTable;
use x86_64::structures::paging::page_table::{PageTableEntry, PageTableFlags as Flags};
use x86_64::{PhysAddr, align_down, align_up};

/// Bytes of a page by level: 1 is 4 KiB, 2 is 2 MiB, 3 is 1 GiB.
pub(super) const fn page_size(level: u32) -> u64 {
    PAGE_SIZE << (9 * (level - 1))
}

pub(super) const TABLE: Flags = Flags::PRESENT.union(Flags::WRITABLE);
/// Kernel data: set up so that the processor need not write accessed and dirty bits.
const DATA: Flags = CONSTANTS.union(Flags::WRITABLE).union(Flags::DIRTY);
const CONSTANTS: Flags = CODE.union(Flags::NO_EXECUTE);
const CODE: Flags = Flags::PRESENT.union(Flags::GLOBAL).union(Flags::ACCESSED);
const DEVICE: Flags = DATA.union(Flags::NO_CACHE).union(Flags::WRITE_THROUGH);

bitflags::bitflags! {
    /// What a program may do with a page. None of them: nothing, though a frame is mapped.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Protection: u8 {
        /// Read.
        const READ = 1;
        /// Write. On x86 it implies reading.
        const WRITE = 2;
        /// Execute. On x86 it implies reading.
        const EXEC = 4;
    }
}

impl Protection {
    /// A page with no permission at all keeps its frame in the table, but is not present: neither ring 3 nor a copy by
    /// the kernel may touch it.
    pub(super) fn flags(self) -> Flags {
        if self.is_empty() {
            return Flags::NO_EXECUTE;
        }
        let mut flags = Flags::PRESENT | Flags::USER_ACCESSIBLE;
        flags.set(Flags::WRITABLE, self.contains(Protection::WRITE));
        flags.set(Flags::NO_EXECUTE, !self.contains(Protection::EXEC));
        flags
    }

    pub(super) fn from_flags(flags: Flags) -> Protection {
        if !flags.contains(Flags::USER_ACCESSIBLE) {
            return Protection::empty();
        }
        let mut protection = Protection::READ;
        protection.set(Protection::WRITE, flags.contains(Flags::WRITABLE));
        protection.set(Protection::EXEC, !flags.contains(Flags::NO_EXECUTE));
        protection
    }
}

/// The kernel's own root, which every other copies the upper half of.
pub(super) struct KernelRoot(pub(super) PhysAddr);

pub(super) static KERNEL: IrqLock<KernelRoot> = IrqLock::new(94, KernelRoot(PhysAddr::zero()));

/// The table at `address`.
///
/// # Safety
/// It is a page table, and nobody else has a reference into it.
pub(super) unsafe fn table<'a>(address: PhysAddr) -> &'a mut PageTable {
    // SAFETY: tables are whole frames of the allocator, reached by the direct map; exclusive by the caller.
    unsafe { &mut *phys_to_virt(address).cast() }
}

pub(super) fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * (level - 1))) as usize & 511
}

/// The entry that `entry`'s table has for `address`, made with `flags` where there is none.
///
/// # Safety
/// As for [`table`], of the table below.
unsafe fn below(entry: &mut PageTableEntry, flags: Flags) -> Result<&mut PageTable, OutOfMemory> {
    if entry.is_unused() {
        entry.set_addr(frames::alloc_zeroed(0)?, flags);
    }
    assert!(
        !entry.flags().contains(Flags::HUGE_PAGE),
        "a large page stands where a table is wanted"
    );
    // SAFETY: the entry is a table's and the caller answers for its being ours.
    Ok(unsafe { table(entry.addr()) })
}

/// The lowest-level-but-`level` entry for `address` under `root`, with all tables above it made as needed.
///
/// # Safety
/// The tables under `root` are the caller's alone.
pub(super) unsafe fn entry_at<'a>(
    root: PhysAddr,
    address: u64,
    level: u32,
    flags: Flags,
) -> Result<&'a mut PageTableEntry, OutOfMemory> {
    // SAFETY: the caller's alone, here and in the loop.
    let mut current = unsafe { table(root) };
    for upper in (level + 1..=4).rev() {
        // SAFETY: as above.
        current = unsafe { below(&mut current[index(address, upper)], flags) }?;
    }
    Ok(&mut current[index(address, level)])
}

/// The entry of a mapped small page, without making anything.
///
/// # Safety
/// As for [`entry_at`].
pub(super) unsafe fn find<'a>(root: PhysAddr, address: u64) -> Option<&'a mut PageTableEntry> {
    // SAFETY: the caller's alone, here and in the loop.
    let mut current = unsafe { table(root) };
    for upper in (2..=4).rev() {
        let entry = &current[index(address, upper)];
        if entry.is_unused() || entry.flags().contains(Flags::HUGE_PAGE) {
            return None;
        }
        // SAFETY: as above.
        current = unsafe { table(entry.addr()) };
    }
    let entry = &mut current[index(address, 1)];
    (!entry.is_unused()).then_some(entry)
}

impl KernelRoot {
    /// Maps a range of addresses to a range of physical ones, in pages as large as `largest` allows.
    fn map(&self, address: u64, physical: Range<u64>, flags: Flags, largest: u32) -> Result<(), OutOfMemory> {
        let mut at = physical.start;
        while at < physical.end {
            let virt = address + (at - physical.start);
            let level = (1..=largest)
                .rev()
                .find(|&l| (virt | at).is_multiple_of(page_size(l)) && physical.end - at >= page_size(l))
                .unwrap_or(1);
            // SAFETY: the kernel's tables are guarded by the lock that self came out of.
            let entry = unsafe { entry_at(self.0, virt, level, TABLE) }?;
            let size = if level > 1 { Flags::HUGE_PAGE } else { Flags::empty() };
            // The rest of this table's run needs no walk.
            let run = (512 - index(virt, level)) as u64;
            let pages = run.min((physical.end - at) / page_size(level));
            let first: *mut PageTableEntry = entry;
            for i in 0..pages {
                // SAFETY: entries index..512 of one table, from `first` on.
                let entry = unsafe { &mut *first.add(i as usize) };
                entry.set_addr(PhysAddr::new(at), flags | size);
                at += page_size(level);
            }
        }
        Ok(())
    }
}

/// Makes the kernel's page tables and switches to them: the image by segment, the direct map of `boot`'s memory, and the
/// top-level entries of the other areas. The low addresses of the entry code are gone afterwards.
///
/// # Safety
/// Once, at boot, with the boot page tables active and the frame allocator holding what they map.
pub unsafe fn init(boot: &BootInfo, large_pages: u32) -> Result<(), OutOfMemory> {
    let mut kernel = KERNEL.lock();
    kernel.0 = frames::alloc_zeroed(0)?;
    // The image: three segments, one stack guard.
    let guard = super::pvh::boot_stack().start - PAGE_SIZE;
    for (range, flags) in [
        (image_start()..text_end(), CODE),
        (text_end()..rodata_end(), CONSTANTS),
        (rodata_end()..guard, DATA),
        (guard + PAGE_SIZE..image_end(), DATA),
    ] {
        let physical = range.start - KERNEL_OFFSET..range.end - KERNEL_OFFSET;
        kernel.map(range.start, physical, flags, 2)?;
    }
    // The direct map. Code and constants are read-only here too.
    let fixed = image_start() - KERNEL_OFFSET..rodata_end() - KERNEL_OFFSET;
    for range in boot.mapped() {
        for (part, flags) in [
            (range.start..range.end.min(fixed.start), DATA),
            (range.start.max(fixed.start)..range.end.min(fixed.end), CONSTANTS),
            (range.start.max(fixed.end)..range.end, DATA),
        ] {
            if !part.is_empty() {
                kernel.map(PHYS_OFFSET + part.start, part, flags, large_pages)?;
            }
        }
    }
    // What is mapped later hangs below entries that every address space has.
    // SAFETY: the kernel's tables, under their lock.
    unsafe {
        entry_at(kernel.0, STACKS, 3, TABLE)?;
        entry_at(kernel.0, MMIO, 3, TABLE)?;
    }
    // SAFETY: the new tables map the running code, the stack, the data and the direct map as they were.
    unsafe { tlb::load(kernel.0) };
    Ok(())
}

/// Maps fresh frames (arbitrary contents) at kernel addresses, for stacks. What is mapped there already stays: where memory
/// runs out in the middle, the next try for the same addresses goes on from there, and no CPU has anything to forget.
pub fn map_kernel(pages: Range<u64>) -> Result<(), OutOfMemory> {
    let kernel = KERNEL.lock();
    for page in pages.step_by(PAGE_SIZE as usize) {
        // SAFETY: the kernel's tables, under their lock.
        let entry = unsafe { entry_at(kernel.0, page, 1, TABLE) }?;
        if entry.is_unused() {
            entry.set_addr(frames::alloc(0)?, DATA);
        }
    }
    Ok(())
}

/// Maps a device's registers, uncached. `slot` numbers the devices; each has a page.
pub fn map_device(slot: u64, physical: PhysAddr) -> Result<*mut u8, OutOfMemory> {
    let start = align_down(physical.as_u64(), PAGE_SIZE);
    let address = MMIO + slot * PAGE_SIZE;
    KERNEL.lock().map(address, start..start + PAGE_SIZE, DEVICE, 1)?;
    Ok((address + physical.as_u64() - start) as *mut u8)
}

/// Bytes of firmware at a physical address, read-only, mapped where the direct map has nothing there.
pub fn map_firmware(physical: u64, length: usize) -> Option<&'static [u8]> {
    let end = physical
        .checked_add(length as u64)
        .filter(|&end| end <= super::layout::PHYS_LIMIT)?;
    let kernel = KERNEL.lock();
    for page in (align_down(physical, PAGE_SIZE)..align_up(end, PAGE_SIZE)).step_by(PAGE_SIZE as usize) {
        if !kernel.is_mapped(PHYS_OFFSET + page) {
            kernel
                .map(PHYS_OFFSET + page, page..page + PAGE_SIZE, CONSTANTS, 1)
                .ok()?;
        }
    }
    // SAFETY: 1. mapped just now or before. 2. Firmware's tables, which nobody writes: not usable RAM by the map, or
    // below 1 MiB, which the frame allocator does not have.
    Some(unsafe { core::slice::from_raw_parts(phys_to_virt(PhysAddr::new(physical)), length) })
}

impl KernelRoot {
    fn is_mapped(&self, address: u64) -> bool {
        // SAFETY: the kernel's tables, under their lock; nothing is changed.
        let mut current = unsafe { table(self.0) };
        for level in (1..=4).rev() {
            let entry = &current[index(address, level)];
            if entry.is_unused() {
                return false;
            }
            if level == 1 || entry.flags().contains(Flags::HUGE_PAGE) {
                return true;
            }
            // SAFETY: as above.
            current = unsafe { table(entry.addr()) };
        }
        false
    }
}

/// The physical address of the kernel's own root, for tasks without a program.
pub fn kernel_root() -> PhysAddr {
    KERNEL.lock().0
}

/// Switches this CPU to the kernel's own tables. Interrupts off, or the task's context says the same.
pub fn activate_kernel() {
    let root = kernel_root();
    // SAFETY: the kernel's root has the upper half that every root has, and is never freed; interrupts are off here.
    cpu::without_interrupts(|_| unsafe { tlb::load(root) });
}
