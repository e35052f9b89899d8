//! Where things are in the address space.
//!
//! | from | what | permissions |
//! |---|---|---|
//! | 0 | the user's pages, up to [`USER_END`] | the user's |
//! | [`PHYS_OFFSET`] | all of RAM (the direct map) | RW, no execution; R where the image's code and constants lie |
//! | [`STACKS`] | kernel stacks, with unmapped pages between them | RW, no execution |
//! | [`MMIO`] | device registers | RW, no execution, uncached |
//! | [`KERNEL_OFFSET`] + 2 MiB | the kernel's image | R-X, R--, RW- by segment |
//!
//! The upper half is the same in every address space: its top-level entries are made at boot and never change.

use core::ops::Range;
use x86_64::PhysAddr;

/// Bytes of a page.
pub const PAGE_SIZE: u64 = 4096;
/// The first address that is not the user's. One page below the canonical limit, so that no `syscall` instruction can
/// be the last bytes before it: the return address that `sysret` loads is canonical always.
pub const USER_END: u64 = 0x7fff_ffff_f000;
/// Where physical address 0 is mapped.
pub const PHYS_OFFSET: u64 = 0xffff_8000_0000_0000;
/// The first physical address that the direct map has no room for (64 TiB).
pub const PHYS_LIMIT: u64 = 1 << 46;
/// Where kernel stacks begin.
pub const STACKS: u64 = 0xffff_c000_0000_0000;
/// Where device registers begin.
pub const MMIO: u64 = 0xffff_d000_0000_0000;
/// What the linker script adds to the image's load address.
pub const KERNEL_OFFSET: u64 = 0xffff_ffff_8000_0000;
/// What the page tables of the entry code map at 0 and at [`PHYS_OFFSET`].
pub const BOOT_MAPPED: u64 = 4 << 30;

/// The pointer to physical memory at `address`, through the direct map.
#[inline(always)]
pub fn phys_to_virt(address: PhysAddr) -> *mut u8 {
    (PHYS_OFFSET + address.as_u64()) as *mut u8
}

/// The physical address of a pointer into the direct map.
#[inline(always)]
pub fn virt_to_phys(pointer: *const u8) -> PhysAddr {
    debug_assert!((PHYS_OFFSET..PHYS_OFFSET + PHYS_LIMIT).contains(&(pointer as u64)));
    PhysAddr::new_truncate((pointer as u64).wrapping_sub(PHYS_OFFSET))
}

/// Whether `address` is in the user's half.
#[inline(always)]
pub fn is_user(address: u64) -> bool {
    address < USER_END
}

macro_rules! linker_symbol {
    ($(#[$doc:meta])* $name:ident, $symbol:ident) => {
        $(#[$doc])*
        #[inline]
        pub fn $name() -> u64 {
            unsafe extern "C" {
                static $symbol: u8;
            }
            // Only the address is taken; nothing is read.
            &raw const $symbol as u64
        }
    };
}
linker_symbol!(
    /// First address of the image, and of its code.
    image_start, image_start
);
linker_symbol!(
    /// End of the code, start of the constants.
    text_end, text_end
);
linker_symbol!(
    /// End of the constants, start of the data.
    rodata_end, rodata_end
);
linker_symbol!(
    /// End of the image.
    image_end, image_end
);

/// The image's physical addresses.
pub fn image_physical() -> Range<u64> {
    image_start() - KERNEL_OFFSET..image_end() - KERNEL_OFFSET
}

/// Whether `address` is in the kernel's code.
pub fn is_text(address: u64) -> bool {
    (image_start()..text_end()).contains(&address)
}
