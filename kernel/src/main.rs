//! Tollgate, the kernel.
#![no_std]
#![no_main]

mod arch;
mod log;
mod options;

use crate::arch::boot_info::BootInfo;
use crate::options::Options;

fn boot(boot: &'static BootInfo) -> ! {
    log::init(Options::wants_com2(&boot.command_line));
    ::log::info!("hello {:?} entry tsc {} mem {:x?} usable {:x?} mapped {:x?} initrd {:x?} rsdp {:x?}", Options::parse(&boot.command_line), boot.tsc_at_entry, boot.regions, boot.usable(), boot.mapped(), boot.initrd, boot.rsdp);
    arch::qemu::exit(true);
}

#[panic_handler]
fn panicked(info: &core::panic::PanicInfo) -> ! {
    log::failure(format_args!("tollgate: panic {}", info.message()));
    arch::qemu::exit(false);
}
