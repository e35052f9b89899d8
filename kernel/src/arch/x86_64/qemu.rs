//! The way out: QEMU's isa-debug-exit device.
//!
//! A byte written to its port ends QEMU with status `byte << 1 | 1`. Where there is no such device the write does
//! nothing and the machine halts.

use x86_64::instructions::{hlt, interrupts, port::Port};

const PORT: u16 = 0xf4;
/// Ended in order: QEMU's status 33.
const OK: u8 = 0x10;
/// The kernel failed: QEMU's status 35.
const FAILED: u8 = 0x11;

/// Ends the run: in order (`ok`) or as a failure of the kernel. On a machine without the device: halts for ever.
pub fn exit(ok: bool) -> ! {
    interrupts::disable();
    // SAFETY: the port is the debug device's or nobody's (the command line of QEMU puts it there); a write ends the
    // machine or is ignored.
    unsafe { Port::new(PORT).write(if ok { OK } else { FAILED }) };
    crate::log::failure(format_args!("tollgate: halted"));
    loop {
        hlt();
    }
}
