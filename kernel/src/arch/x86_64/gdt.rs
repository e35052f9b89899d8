//! Segments, and the stacks that traps switch to.
//!
//! The order of the segments is what `syscall` and `sysret` want: kernel code and data, user data, user code. A CPU's
//! task state segment names the stack for traps from ring 3 (`rsp0`, the running task's kernel stack) and those for the
//! four traps that can come at any instruction, whatever the stack pointer is (double fault, NMI, machine check, debug).

use super::trap::{IST_DEBUG, IST_DOUBLE_FAULT, IST_MACHINE_CHECK, IST_NMI};
use crate::mm::frames::OutOfMemory;
use crate::mm::stacks::KernelStack;
use core::cell::UnsafeCell;
use cpu::MAX_CPUS;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::segmentation::SegmentSelector;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;
use x86_64::{PrivilegeLevel, VirtAddr};

/// Ring 0's code.
pub const KERNEL_CODE: SegmentSelector = SegmentSelector::new(1, PrivilegeLevel::Ring0);
/// Ring 0's data.
pub const KERNEL_DATA: SegmentSelector = SegmentSelector::new(2, PrivilegeLevel::Ring0);
/// Ring 3's data.
pub const USER_DATA: SegmentSelector = SegmentSelector::new(3, PrivilegeLevel::Ring3);
/// Ring 3's code, 64 bits.
pub const USER_CODE: SegmentSelector = SegmentSelector::new(4, PrivilegeLevel::Ring3);

/// One CPU's tables.
struct Tables {
    segments: GlobalDescriptorTable<8>,
    state: TaskStateSegment,
}

struct PerCpu([UnsafeCell<Tables>; MAX_CPUS]);

// SAFETY: each CPU touches its own element only, and boot those of CPUs that do not run yet.
unsafe impl Sync for PerCpu {}

static TABLES: PerCpu = PerCpu(
    [const {
        UnsafeCell::new(Tables {
            segments: GlobalDescriptorTable::empty(),
            state: TaskStateSegment::new(),
        })
    }; MAX_CPUS],
);

/// Loads this CPU's segments.
///
/// # Safety
/// Once on each CPU, with interrupts off.
pub unsafe fn init() {
    let tables = TABLES.0[cpu::id()].get();
    // SAFETY: 1. this CPU's own element, not loaded yet (caller): nobody else refers to it. 2. The selectors name the
    // descriptors that were appended in this order. 3. The TSS stays where it is.
    unsafe {
        let segments = &mut (*tables).segments;
        let code = segments.append(Descriptor::kernel_code_segment());
        let data = segments.append(Descriptor::kernel_data_segment());
        let user_data = segments.append(Descriptor::user_data_segment());
        let user_code = segments.append(Descriptor::user_code_segment());
        debug_assert!([code, data, user_data, user_code] == [KERNEL_CODE, KERNEL_DATA, USER_DATA, USER_CODE]);
        let state = segments.append(Descriptor::tss_segment_unchecked(&raw const (*tables).state));
        segments.load_unsafe();
        CS::set_reg(KERNEL_CODE);
        SS::set_reg(KERNEL_DATA);
        DS::set_reg(SegmentSelector::NULL);
        ES::set_reg(SegmentSelector::NULL);
        load_tss(state);
    }
}

/// Gives CPU `cpu`, which takes no trap yet, stacks of their own for the traps that can come at any instruction.
pub fn init_trap_stacks(cpu: usize) -> Result<(), OutOfMemory> {
    for index in [IST_DOUBLE_FAULT, IST_NMI, IST_MACHINE_CHECK, IST_DEBUG] {
        let stack = KernelStack::new()?;
        let tables = TABLES.0[cpu].get();
        // SAFETY: at boot, on one CPU, whose own element it is or of one that does not run yet; the processor reads the
        // field only when such a trap comes.
        unsafe { (*tables).state.interrupt_stack_table[usize::from(index)] = VirtAddr::new(stack.top()) };
        core::mem::forget(stack); // in use for ever
    }
    Ok(())
}

/// Sets the stack for traps from ring 3. Interrupts off.
#[inline]
pub fn set_trap_stack(top: u64) {
    let tables = TABLES.0[cpu::id()].get();
    // SAFETY: this CPU's own element, interrupts off; the processor reads it on a trap from ring 3 only. The address is
    // canonical: a kernel stack's.
    unsafe { (*tables).state.privilege_stack_table[0] = VirtAddr::new_unsafe(top) };
}
