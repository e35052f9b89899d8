//! The interrupt descriptor table: one for all CPUs, every vector filled.

use super::trap::{self, IST_DEBUG, IST_DOUBLE_FAULT, IST_MACHINE_CHECK, IST_NMI, vector};
use core::cell::UnsafeCell;
use x86_64::structures::idt::{Entry, HandlerFunc, InterruptDescriptorTable};
use x86_64::{PrivilegeLevel, VirtAddr};

/// The table as the processor sees it: 256 gates of one layout. (The type of the crate x86_64 gives each exception the
/// type of its handler, which needs an ABI that stable Rust does not have; the stubs are ours.)
#[repr(C, align(16))]
struct Table(UnsafeCell<[Entry<HandlerFunc>; 256]>);

// SAFETY: written at boot only, by one CPU; read by the processors.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([const { Entry::missing() }; 256]));

const _: () = assert!(size_of::<Table>() == size_of::<InterruptDescriptorTable>());

/// Fills the table. Once, after the segments are loaded.
///
/// # Safety
/// At boot, on one CPU, with interrupts off.
pub unsafe fn init() {
    for number in 0..256 {
        // SAFETY: 1. the only use of the table (caller). 2. A stub of 16 bytes for each vector, which ends in `iretq`.
        let options = unsafe {
            let gate = &mut (*TABLE.0.get())[number];
            gate.set_handler_addr(VirtAddr::new(trap::stubs() + 16 * number as u64))
        };
        // `int3` and `into` are instructions of programs; every other `int n` in ring 3 is a protection fault.
        if number == 3 || number == 4 {
            options.set_privilege_level(PrivilegeLevel::Ring3);
        }
    }
    load();
}

/// Makes this CPU use the table.
pub fn load() {
    // SAFETY: the table lives for ever and every gate leads to a stub.
    unsafe { (*TABLE.0.get().cast::<InterruptDescriptorTable>()).load_unsafe() };
}

/// Makes the traps that can come at any instruction use the stacks of the TSS. Once every CPU that takes traps has them.
pub fn use_trap_stacks() {
    for (number, index) in [
        (vector::DOUBLE_FAULT, IST_DOUBLE_FAULT),
        (vector::NMI, IST_NMI),
        (vector::MACHINE_CHECK, IST_MACHINE_CHECK),
        (vector::DEBUG, IST_DEBUG),
    ] {
        // SAFETY: 1. at boot, on one CPU. 2. The stack has just been put into the TSS, and this vector alone has it. The
        // gate is written anew: same handler, with the stack.
        unsafe {
            let gate = &mut (*TABLE.0.get())[usize::from(number)];
            gate.set_handler_addr(VirtAddr::new(trap::stubs() + 16 * u64::from(number)))
                .set_stack_index(u16::from(index));
        }
    }
}
