//! The local APIC: the tick, interrupts to other CPUs, and the end of interrupts.
//!
//! Its registers are reached through a page of MMIO, or through MSRs where the processor has x2APIC mode. The old 8259
//! controllers are silenced.

use super::features::{self, Features};
use super::once::BootCell;
use super::paging;
use super::trap::vector;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU32, Ordering, fence};
use cpu::MAX_CPUS;
use x86_64::PhysAddr;
use x86_64::instructions::port::Port;
use x86_64::registers::model_specific::Msr;

/// IA32_APIC_BASE.
const BASE_MSR: u32 = 0x1b;
const BASE_ENABLE: u64 = 1 << 11;
const BASE_X2APIC: u64 = 1 << 10;
/// The registers' MSRs begin here, one for 16 bytes of MMIO.
const X2APIC_MSR: u32 = 0x800;

/// Offsets of registers (Intel SDM volume 3, "Local APIC Register Address Map").
mod register {
    pub const TASK_PRIORITY: u32 = 0x80;
    pub const END_OF_INTERRUPT: u32 = 0xb0;
    pub const SPURIOUS: u32 = 0xf0;
    pub const ERROR: u32 = 0x280;
    pub const COMMAND: u32 = 0x300;
    pub const COMMAND_TARGET: u32 = 0x310;
    pub const LVT_TIMER: u32 = 0x320;
    pub const LVT_LINT0: u32 = 0x350;
    pub const LVT_LINT1: u32 = 0x360;
    pub const LVT_ERROR: u32 = 0x370;
    pub const TIMER_INITIAL: u32 = 0x380;
    pub const TIMER_CURRENT: u32 = 0x390;
    pub const TIMER_DIVIDE: u32 = 0x3e0;
}

const MASKED: u32 = 1 << 16;
const PERIODIC: u32 = 1 << 17;
const DELIVER_NMI: u32 = 4 << 8;
const DELIVER_INIT: u32 = 5 << 8;
const DELIVER_STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
/// The command before has not been sent yet (MMIO only).
const SEND_PENDING: u32 = 1 << 12;
const SOFTWARE_ENABLE: u32 = 1 << 8;
const DIVIDE_BY_1: u32 = 0b1011;

/// How the registers are reached.
enum Access {
    /// Through MMIO at this address.
    Mmio(usize),
    /// Through MSRs.
    Msr,
}

static ACCESS: BootCell<Access> = BootCell::new();

/// The APIC ids of the CPUs, by their numbers. Written at boot.
static IDS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

/// Notes which processor CPU `cpu` is.
pub(super) fn set_id(cpu: usize, id: u32) {
    IDS[cpu].store(id, Ordering::Relaxed);
}

/// Why there is no tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoApic;

#[inline]
fn write(register: u32, value: u32) {
    match ACCESS.get() {
        // SAFETY: the address is the APIC's page, mapped uncached for ever; the offsets are registers of it.
        Some(Access::Mmio(base)) => unsafe { ((base + register as usize) as *mut u32).write_volatile(value) },
        // SAFETY: x2APIC mode is on, so these MSRs exist; the values are those of the MMIO form.
        Some(Access::Msr) => unsafe { Msr::new(X2APIC_MSR + (register >> 4)).write(value.into()) },
        None => {}
    }
}

#[inline]
fn read(register: u32) -> u32 {
    match ACCESS.get() {
        // SAFETY: as in write.
        Some(Access::Mmio(base)) => unsafe { ((base + register as usize) as *const u32).read_volatile() },
        // SAFETY: as in write.
        Some(Access::Msr) => unsafe { Msr::new(X2APIC_MSR + (register >> 4)).read() as u32 },
        None => 0,
    }
}

/// Silences the 8259 controllers: all lines masked, and what comes nevertheless (a spurious line 7 or 15) at vectors that
/// are no exceptions.
fn silence_8259() {
    let writes: [(u16, u8); 10] = [
        (0x20, 0x11), // begin initialisation, four words
        (0xa0, 0x11),
        (0x21, vector::PIC),
        (0xa1, vector::PIC + 8),
        (0x21, 4), // the second one hangs on line 2
        (0xa1, 2),
        (0x21, 1), // 8086 mode
        (0xa1, 1),
        (0x21, 0xff), // mask
        (0xa1, 0xff),
    ];
    for (port, value) in writes {
        // SAFETY: the ports of the two controllers, or nobody's.
        unsafe { Port::new(port).write(value) };
    }
}

/// Switches the boot CPU's APIC on, its timer stopped.
///
/// # Panics
/// When memory for a page table is missing.
pub fn init(features: &Features) -> Result<(), NoApic> {
    silence_8259();
    if __cpuid(1).edx >> 9 & 1 == 0 {
        return Err(NoApic);
    }
    ACCESS.set(if features.x2apic {
        Access::Msr
    } else {
        // SAFETY: a processor with an APIC has this MSR.
        let base = unsafe { Msr::new(BASE_MSR).read() };
        match paging::map_device(0, PhysAddr::new_truncate(base & !0xfff)) {
            Ok(address) => Access::Mmio(address as usize),
            Err(_) => panic!("no memory to map the APIC"),
        }
    });
    enable();
    Ok(())
}

/// Switches this CPU's APIC on, its timer stopped. After [`init`] on the boot CPU.
pub(super) fn enable() {
    let mut msr = Msr::new(BASE_MSR);
    // SAFETY: 1. a processor with an APIC has this MSR; the address stays. 2. Where registers are MSRs CPUID has said
    // that the mode exists; from the enabled state it may be switched on.
    unsafe {
        let base = msr.read() | BASE_ENABLE;
        msr.write(base);
        if let Some(Access::Msr) = ACCESS.get() {
            msr.write(base | BASE_X2APIC);
        }
    }
    write(register::TASK_PRIORITY, 0);
    write(register::LVT_TIMER, MASKED);
    write(register::LVT_LINT0, MASKED);
    write(register::LVT_LINT1, DELIVER_NMI);
    write(register::LVT_ERROR, vector::APIC_ERROR.into());
    write(register::SPURIOUS, SOFTWARE_ENABLE | u32::from(vector::APIC_SPURIOUS));
    write(register::TIMER_DIVIDE, DIVIDE_BY_1);
}

/// This processor's APIC id, from CPUID: also before the APIC is on.
pub(super) fn own_id() -> u32 {
    let extended = if features::max_leaf() >= 0xb {
        __cpuid_count(0xb, 0)
    } else {
        __cpuid(0)
    };
    if features::max_leaf() >= 0xb && extended.ebx != 0 {
        extended.edx
    } else {
        __cpuid(1).ebx >> 24
    }
}

/// Sends a command to the processor of CPU `target`.
fn command(target: usize, command: u32) {
    let id = IDS[target].load(Ordering::Relaxed);
    // What was written before is to be seen by who gets the interrupt: a write of an MSR does not order by itself.
    fence(Ordering::SeqCst);
    cpu::without_interrupts(|_| match ACCESS.get() {
        Some(Access::Msr) => {
            let value = u64::from(id) << 32 | u64::from(command);
            // SAFETY: as in write; this MSR takes both halves at once.
            unsafe { Msr::new(X2APIC_MSR + (register::COMMAND >> 4)).write(value) };
        }
        // Two registers: no interrupt in between may send another.
        Some(Access::Mmio(_)) => {
            while read(register::COMMAND) & SEND_PENDING != 0 {
                cpu::pause();
            }
            write(register::COMMAND_TARGET, id << 24);
            write(register::COMMAND, command);
        }
        None => {}
    });
}

/// Interrupts CPU `target`.
pub(super) fn send(target: usize, vector: u8) {
    command(target, ASSERT | u32::from(vector));
}

/// Sends CPU `target` an NMI.
pub(super) fn send_nmi(target: usize) {
    command(target, ASSERT | DELIVER_NMI);
}

/// Resets the processor of CPU `target`: it waits for [`send_startup`].
pub(super) fn send_init(target: usize) {
    command(target, ASSERT | DELIVER_INIT);
}

/// Starts the processor of CPU `target` in real mode at the page `page` (below 1 MiB).
pub(super) fn send_startup(target: usize, page: u8) {
    command(target, ASSERT | DELIVER_STARTUP | u32::from(page));
}

/// Starts the timer as a counter from the top down, for calibration.
pub(super) fn start_counting() {
    write(register::TIMER_INITIAL, u32::MAX);
}

/// The counter that [`start_counting`] started: counts since then.
pub(super) fn counted() -> u32 {
    u32::MAX - read(register::TIMER_CURRENT)
}

/// Starts the tick: an interrupt at [`vector::TIMER`] every `counts` counts.
pub(super) fn start_tick(counts: u32) {
    write(register::LVT_TIMER, PERIODIC | u32::from(vector::TIMER));
    write(register::TIMER_INITIAL, counts);
}

/// Acknowledges the interrupt in service.
#[inline]
pub(super) fn end_of_interrupt() {
    write(register::END_OF_INTERRUPT, 0);
}

/// What the APIC has to complain about.
pub(super) fn error() -> u32 {
    write(register::ERROR, 0); // latches
    read(register::ERROR)
}
