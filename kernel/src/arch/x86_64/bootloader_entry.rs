//! Entry by the crate `bootloader`: from a disk image on a BIOS machine to the same point as [`super::pvh`].
//!
//! The boot loader has long mode on and the image mapped at its linked addresses, but in frames of its own choice, and
//! no part of the kernel wants to know that. So the image moves: it is copied, as it stands, to the physical address
//! that it is linked for, and the page tables of the entry code, which are part of it, take over. What runs is the same
//! at the same virtual addresses before and after. From there on everything is as after PVH.
//!
//! What the boot loader says is copied first: memory map, RAM disk, ACPI's root pointer. There is no command line: all
//! options have their defaults, and the log goes to the first serial port.
//!
//! Source: the documentation of the crate bootloader_api, version 0.11.

use super::boot_info::{BootInfo, Kind, Region};
use super::layout::{KERNEL_OFFSET, image_end, image_physical, image_start};
use super::pvh::boot_stack;
use arrayvec::ArrayVec;
use bootloader_api::config::{BootloaderConfig, Mapping};
use bootloader_api::info::MemoryRegionKind;
use core::ops::Range;
use x86_64::VirtAddr;
use x86_64::registers::control::{Cr3, Cr4, Cr4Flags};
use x86_64::registers::model_specific::{Efer, EferFlags};
use x86_64::structures::paging::{OffsetPageTable, Translate};

static CONFIG: BootloaderConfig = {
    let mut config = BootloaderConfig::new_default();
    config.kernel_stack_size = 64 << 10;
    config.mappings.physical_memory = Some(Mapping::Dynamic);
    config
};

bootloader_api::entry_point!(start, config = &CONFIG);

/// The first code, on the boot loader's stack and page tables.
fn start(loader: &'static mut bootloader_api::BootInfo) -> ! {
    let tsc = super::tsc::read();
    // SAFETY: this is the first code of the kernel that runs, once.
    unsafe { super::early() };
    let offset = match loader.physical_memory_offset {
        bootloader_api::info::Optional::Some(offset) => offset,
        bootloader_api::info::Optional::None => panic!("boot loader: physical memory is not mapped"),
    };
    let info = match gather(loader, offset, tsc) {
        Ok(info) => info,
        Err(reason) => panic!("boot loader: {reason}"),
    };
    let target = image_physical();
    let mut free = info.regions.iter().filter(|region| region.kind == Kind::Usable);
    if !free.any(|region| region.range.start <= target.start && target.end <= region.range.end) {
        panic!("boot loader: the kernel's place, physical {target:#x?}, is in use");
    }
    let info = super::boot_info::set(info);
    // SAFETY: 1. The image is what is between the symbols, and it is at rest but for this stack, which is not in it.
    // 2. The target is free RAM (checked above), mapped by the loader at `offset`.
    unsafe {
        core::ptr::copy_nonoverlapping(
            image_start() as *const u8,
            (offset + target.start) as *mut u8,
            (image_end() - image_start()) as usize,
        );
    }
    go_on(info)
}

/// From the loader's page tables and stack to those of the image in its own place, and on.
fn go_on(info: &'static BootInfo) -> ! {
    unsafe extern "C" {
        static boot_pml4: u8;
    }
    // As the PVH entry has it: system calls and no-execute. Global pages of the loader's, if any, end with the bit.
    // SAFETY: long mode stays on; nothing relies on what is turned on here yet.
    unsafe {
        Efer::update(|flags| flags.insert(EferFlags::SYSTEM_CALL_EXTENSIONS | EferFlags::NO_EXECUTE_ENABLE));
        Cr4::update(|flags| flags.remove(Cr4Flags::PAGE_GLOBAL));
    }
    // SAFETY: 1. The tables map the image's addresses to the copy, which is the same code, so execution goes on behind
    // the first instruction. 2. They map the boot stack, which nobody uses. 3. `info` is in the image. 4. Interrupts are
    // off, and the segment registers' hidden parts stay good until `init_memory_and_traps` loads its own.
    unsafe {
        core::arch::asm!(
            "mov cr3, {root}",
            "mov rsp, {stack}",
            "xor ebp, ebp",
            "call {next}",
            "ud2",
            root = in(reg) &raw const boot_pml4 as u64 - KERNEL_OFFSET,
            stack = in(reg) boot_stack().end,
            next = sym in_place,
            in("rdi") info,
            options(noreturn),
        );
    }
}

extern "C" fn in_place(info: &'static BootInfo) -> ! {
    crate::boot(info)
}

/// Copies what the loader says.
fn gather(loader: &bootloader_api::BootInfo, offset: u64, tsc: u64) -> Result<BootInfo, &'static str> {
    let mut regions = ArrayVec::new();
    let mut regions_dropped = 0;
    for region in loader.memory_regions.iter() {
        let region = Region {
            range: region.start..region.end,
            kind: match region.kind {
                MemoryRegionKind::Usable => Kind::Usable,
                MemoryRegionKind::UnknownBios(number) => Kind::from_e820(number),
                // The loader's own: the RAM disk and the page tables that we run on are among it. Left alone.
                _ => Kind::Reserved,
            },
        };
        regions_dropped += usize::from(regions.try_push(region).is_err());
    }
    let initrd = match loader.ramdisk_addr {
        bootloader_api::info::Optional::Some(address) => Some(physical(address, loader.ramdisk_len, offset)?),
        bootloader_api::info::Optional::None => None,
    };
    Ok(BootInfo {
        protocol: "boot loader",
        tsc_at_entry: tsc,
        command_line: ArrayVec::new(),
        command_line_cut: false,
        regions,
        regions_dropped,
        initrd,
        rsdp: loader.rsdp_addr.into_option(),
    })
}

/// The physical addresses of `length` bytes at a virtual address of the loader's.
fn physical(address: u64, length: u64, offset: u64) -> Result<Range<u64>, &'static str> {
    let (root, _) = Cr3::read();
    let root = (offset + root.start_address().as_u64()) as *mut _;
    // SAFETY: the loader maps all physical memory at `offset`, the table that CR3 names included; nobody writes tables
    // while this lives.
    let tables = unsafe { OffsetPageTable::new(&mut *root, VirtAddr::new(offset)) };
    let at = |address: u64| {
        tables
            .translate_addr(VirtAddr::new(address))
            .map(|found| found.as_u64())
    };
    let start = at(address).ok_or("the RAM disk is not mapped")?;
    for distance in (0..length).step_by(super::layout::PAGE_SIZE as usize) {
        if at(address + distance) != Some(start + distance) {
            return Err("the RAM disk is not in one piece");
        }
    }
    Ok(start..start + length)
}
