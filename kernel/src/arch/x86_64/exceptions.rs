//! Exceptions: whose fault it is, and what becomes of it.
//!
//! * A page fault at a user's address is first offered to the address space, which may map the page.
//! * Any other fault of ring 3 is the program's: the kernel makes a signal of it.
//! * A fault of ring 0 in a copy from or to user memory ends the copy (see [`super::usercopy`]).
//! * Everything else is a failure of the kernel: reported, and the end. So is an NMI: a CPU that reports a failure stops
//!   the others by it, and a person sends one who wants to know where a kernel hangs.

use super::layout::{self, is_user};
use super::trap::{Trap, TrapFrame, vector};
use super::{breakpoint, ipi, pvh, report, usercopy};
use crate::mm::stacks::{self, Place};
use core::fmt;
use cpu::irq;
use x86_64::registers::control::Cr2;

/// Names of the processor's exceptions (Intel SDM volume 3, "Interrupt and Exception Handling").
const NAMES: [&str; 32] = [
    "divide error",
    "debug",
    "NMI",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack segment fault",
    "general protection fault",
    "page fault",
    "exception 15",
    "x87 floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point error",
    "virtualization exception",
    "control protection",
    "exception 22",
    "exception 23",
    "exception 24",
    "exception 25",
    "exception 26",
    "exception 27",
    "hypervisor injection",
    "VMM communication",
    "security exception",
    "exception 31",
];

/// The error code of a page fault.
#[derive(Clone, Copy)]
struct Access(u64);

impl Access {
    /// The page is there; its permissions forbid the access.
    fn protection(self) -> bool {
        self.0 & 1 != 0
    }
    fn write(self) -> bool {
        self.0 & 2 != 0
    }
    fn user(self) -> bool {
        self.0 & 4 != 0
    }
    /// A bit is set that must be zero in a page table.
    fn reserved(self) -> bool {
        self.0 & 8 != 0
    }
    fn fetch(self) -> bool {
        self.0 & 16 != 0
    }
}

/// An exception in readable words.
pub struct Description {
    vector: u8,
    error: u64,
    /// The address of a page fault, and of the page fault behind a double fault.
    address: u64,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.get(usize::from(self.vector)).unwrap_or(&"unknown exception"))?;
        match self.vector {
            vector::PAGE_FAULT => {
                let access = Access(self.error);
                let what = match (access.fetch(), access.write()) {
                    (true, _) => "execute",
                    (_, true) => "write",
                    _ => "read",
                };
                let why = match (access.reserved(), access.protection()) {
                    (true, _) => "reserved bit set in a page table",
                    (_, true) => "forbidden by its protection",
                    _ => "not mapped",
                };
                let who = if access.user() { "user" } else { "kernel" };
                write!(f, ": {who} {what} at {:#x}, {why}", self.address)?;
                write!(f, "{}", Region(self.address))
            }
            vector::DOUBLE_FAULT => {
                write!(f, ", last page fault at {:#x}{}", self.address, Region(self.address))
            }
            10..=13 | 17 | 21 if self.error != 0 => write!(f, " (error code {:#x})", self.error),
            _ => Ok(()),
        }
    }
}

/// Which part of the address space an address is in, as a remark.
struct Region(u64);

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.0;
        let boot = pvh::boot_stack();
        if let Some(Place::Guard(stack)) = stacks::place(address) {
            return write!(
                f,
                ": kernel stack overflow, guard of the stack {:#x}-{:#x}",
                stack.start, stack.end
            );
        }
        if (boot.start - layout::PAGE_SIZE..boot.start).contains(&address) {
            return write!(
                f,
                ": kernel stack overflow, guard of the boot stack {:#x}-{:#x}",
                boot.start, boot.end
            );
        }
        f.write_str(match address {
            0..layout::PAGE_SIZE => " (null pointer)",
            _ if is_user(address) => " (user memory)",
            _ if (layout::PHYS_OFFSET..layout::PHYS_OFFSET + layout::PHYS_LIMIT).contains(&address) => " (direct map)",
            _ if layout::is_text(address) => " (kernel code)",
            _ if (layout::text_end()..layout::rodata_end()).contains(&address) => " (kernel constants)",
            _ if (layout::rodata_end()..layout::image_end()).contains(&address) => " (kernel data)",
            _ => "",
        })
    }
}

fn describe(frame: &TrapFrame) -> Description {
    Description {
        vector: frame.vector as u8,
        error: frame.error,
        address: Cr2::read_raw(),
    }
}

/// An ordinary exception. Interrupts are off at entry.
pub(super) fn exception(frame: &mut TrapFrame) {
    let number = frame.vector as u8;
    // Read before interrupts are on: another task's fault would change it.
    let address = if number == vector::PAGE_FAULT {
        Cr2::read_raw()
    } else {
        frame.rip
    };
    if number == vector::NMI {
        ipi::stop_if_asked();
    }
    if matches!(number, vector::NMI | vector::MACHINE_CHECK) {
        report::exception(frame, &describe(frame)); // nothing that the program did
    }
    if frame.is_user() {
        irq::enable();
        // A far return reads its stack with the processor's own rights (in QEMU), which SMAP refuses for a page that is
        // there: nothing that the address space could mend.
        const PRESENT_AND_NOT_USER: u64 = 1;
        let mendable = frame.error & 0b101 != PRESENT_AND_NOT_USER;
        if number == vector::PAGE_FAULT && mendable && offer(address, frame.error) {
            return;
        }
        crate::task::user_fault(Trap {
            vector: number,
            error: frame.error,
            address,
            frame,
        });
        frame.sanitise();
    } else if let Some(resume) = usercopy::fixup(frame.rip) {
        // Where the copy runs in a section that must not sleep, the page is not looked for.
        if number == vector::PAGE_FAULT && frame.interrupts_on() && cpu::preempt::preemptible() {
            irq::enable();
            if offer(address, frame.error) {
                return;
            }
        }
        frame.rip = resume;
    } else {
        report::exception(frame, &describe(frame));
    }
}

/// Offers a page fault to the address space: whether the access may be tried again.
fn offer(address: u64, error: u64) -> bool {
    let access = Access(error);
    is_user(address)
        && !access.reserved()
        && crate::mm::fault::handle_fault(address, access.write(), access.fetch(), access.user())
}

/// One of the traps that can come anywhere, in ring 0.
pub(super) fn anywhere_in_kernel(frame: &mut TrapFrame) {
    match frame.vector as u8 {
        vector::DEBUG if breakpoint::met(frame) => {}
        // A single step that ring 3 set and ring 0 ran into: harmless, and not ours to follow.
        vector::DEBUG => frame.rflags &= !(1 << 8),
        number => {
            if number == vector::NMI {
                ipi::stop_if_asked();
            }
            report::exception(frame, &describe(frame))
        }
    }
}
