//! x86-64.
//!
//! **Purpose.** All that the kernel asks of the processor and of the few devices that it cannot do without: entry at boot,
//! page tables, traps and interrupts, the system-call path, the context switch, copies from and to user memory, the
//! clock, the serial ports, the way out.
//!
//! **What the kernel calls** (each item is documented where it stands):
//! * [`TrapFrame`]: the registers of a trap or of a system call that wants them all. [`user::enter`]`(&TrapFrame) -> !`:
//!   into ring 3, for the first time or for a forked child (`rax` is the child's result).
//!   [`user::reset`]: a fresh program's other registers. [`user::set_fs_base`], [`user::fs_base`],
//!   [`user::set_gs_base`], [`user::gs_base`]: for `arch_prctl`.
//! * [`usercopy`]: `copy_from_user(&mut [u8], u64)`, `copy_from_user_uninit`, `copy_to_user(u64, &[u8])`,
//!   `clear_user(u64, usize)`, `strncpy_from_user(&mut [u8], u64) -> Result<Option<usize>, Fault>`. All give
//!   `Err(Fault)` for what is not mapped. Values cross by `mm::plain`.
//! * [`switch`]: [`switch::Context`] (`Context::new(stack, entry, argument)`, `Context::idle()`) and
//!   `switch::switch(prev: *mut Context, next: *const Context)`, called with interrupts off. It saves and loads the kernel
//!   stack, the user's FPU state, the fs and gs bases, the stack for ring 3's traps and the address space.
//! * [`paging::AddressSpaceRoot`]: `new_user_root`, `map_user`, `unmap_user`, `protect_user`, `for_each_user`, `activate`.
//!   [`paging::Protection`].
//! * [`tsc`]: `read()`, `khz()`, `now_ns()`. [`rtc::read`]: seconds since 1970. [`serial`]: the console's bytes.
//! * [`syscall_entry::full_frame!`]: makes an entry of the system-call table of a function that takes `&mut TrapFrame`.
//! * [`startup::Trampoline`]: starts the other processors. [`ipi::call`], [`ipi::reschedule`]: interrupts them.
//! * [`breakpoint::with_interrupt_at`]: an interrupt at a given instruction, for shows.
//! * [`events::report`]: the counted events of each system call, in the build that counts. [`idle`], [`qemu::exit`].
//!
//! **What the kernel provides** (hooks; interrupts are on unless said):
//! * `syscall::TABLE: [SyscallFn; N]`, `SyscallFn = extern "C" fn(u64, u64, u64, u64, u64, u64) -> i64`, and
//!   `syscall::unknown(nr: u64) -> i64` for numbers from N on.
//! * `task::user_fault(trap: Trap)`: a fault of ring 3 that `mm::fault::handle_fault` did not mend.
//! * `mm::fault::handle_fault(address: u64, write: bool, exec: bool, user: bool) -> bool`: true if the access may
//!   be tried again. `user` is false for a copy by the kernel.
//! * `task::tick(user)`: each tick, in interrupt context, interrupts off.
//! * `task::preempt_from_interrupt()`: after an interrupt of the kernel, when a reschedule is wanted and the interrupted
//!   code may be preempted; interrupts off.
//! * `task::exit_to_user_work(frame: &mut TrapFrame)`: called before ring 3 as long as a reschedule is wanted or the
//!   task's work word is not zero. **The work word is the first field of what [`cpu::local::current`] points to**: an
//!   `AtomicU32`, any bits. The hook clears what it has dealt with and may change the frame (signals).
//! * `task::reschedule_asked()`: another CPU wants this one to look for a task; interrupt context.
//! * `task::start_here()`: what a CPU does that has just been started, for ever; interrupts off.
//! * `task::current_name()`: for reports; `None` before the first task.

mod acpi;
mod apic;
mod backtrace;
pub mod boot_info;
mod bootloader_entry;
pub mod breakpoint;
pub mod events;
mod exceptions;
pub mod features;
mod gdt;
mod idt;
pub mod ipi;
pub mod layout;
pub mod once;
pub mod paging;
mod pvh;
pub mod qemu;
mod report;
pub mod rtc;
pub mod serial;
pub mod signal_frame;
pub mod startup;
pub mod switch;
pub mod syscall_entry;
mod tlb;
mod trap;
pub mod tsc;
pub mod user;
mod user_paging;
pub mod usercopy;

pub use syscall_entry::SyscallFn;
pub use trap::{Trap, TrapFrame};

use crate::mm::frames::{self, OutOfMemory};
use boot_info::BootInfo;
use cpu::local::AREA_SIZE;

/// The boot CPU's area: per-CPU state has to exist before the first lock is taken, and so before memory is known.
#[repr(C, align(4096))]
struct BootArea(core::cell::UnsafeCell<[u8; AREA_SIZE]>);

// SAFETY: only its address is taken, by `early`, which gives the area away.
unsafe impl Sync for BootArea {}

static BOOT_AREA: BootArea = BootArea(core::cell::UnsafeCell::new([0; AREA_SIZE]));

/// What must be before the first line of ordinary Rust: the boot CPU's area.
///
/// # Safety
/// Called once, first of all, on the boot CPU.
unsafe fn early() {
    let area = BOOT_AREA.0.get().cast::<u8>();
    // SAFETY: 1. page-aligned, AREA_SIZE bytes, zeroed by the loader (.bss). 2. Given away here, once (caller).
    unsafe { cpu::local::register_area(0, area) };
    x86_64::registers::model_specific::GsBase::write(x86_64::VirtAddr::from_ptr(area));
}

/// Memory, and the processor as the kernel wants it: page tables with their permissions, features, segments, traps with
/// stacks of their own, system calls. Afterwards a mistake is reported as what it is.
pub fn init_memory_and_traps(boot: &'static BootInfo) -> Result<(), OutOfMemory> {
    let features = features::detect();
    let usable = boot.usable();
    // SAFETY: boot, one CPU, interrupts off, the boot page tables active, each of these once and in this order: the
    // segments before the gates that refer to them, the code patched while it can be written, frames before page tables.
    unsafe {
        gdt::init();
        idt::init();
        usercopy::patch_smap_sites(features.smap);
        frames::init(&usable);
        paging::init(boot, if features.gigabyte_pages { 3 } else { 2 })?;
        frames::init_rest(&usable);
        features::enable(features);
    }
    gdt::init_trap_stacks(0)?;
    idt::use_trap_stacks();
    syscall_entry::init();
    backtrace::init(boot.initrd());
    Ok(())
}

/// The same of a processor that has just been started, with the kernel's page tables and its area.
///
/// # Safety
/// Once on each CPU but the boot CPU, interrupts off.
unsafe fn init_this_cpu() {
    // SAFETY: once (caller); the page tables are the kernel's, which map nothing of ring 3's.
    unsafe {
        gdt::init();
        idt::load();
        features::enable(features::get());
    }
    syscall_entry::init();
}

/// An area for each processor that the firmware lists, the boot CPU's own first; the others in the firmware's order. How
/// many there are more than the kernel supports. Before the first per-CPU slot is made.
pub fn init_cpu_areas(boot: &BootInfo) -> Result<usize, OutOfMemory> {
    let own = apic::own_id();
    apic::set_id(0, own);
    let (processors, more) = acpi::processors(boot.rsdp);
    for (id, &processor) in (1..).zip(processors.iter().filter(|&&id| id != own)) {
        let order = const { (AREA_SIZE / layout::PAGE_SIZE as usize).trailing_zeros() as usize };
        let area = layout::phys_to_virt(frames::alloc_zeroed(order)?);
        // SAFETY: page-aligned, AREA_SIZE bytes of zeroes, never freed.
        unsafe { cpu::local::register_area(id, area) };
        apic::set_id(id, processor);
        gdt::init_trap_stacks(id)?;
    }
    Ok(more)
}

/// The clock and this CPU's tick, `hz` times a second once interrupts are on.
///
/// # Panics
/// On a processor without an APIC: the kernel has no other timer.
pub fn init_clock(hz: u32) {
    let features = features::get();
    if apic::init(features).is_err() {
        panic!("this processor has no local APIC");
    }
    tsc::calibrate(features);
    tsc::start_tick(hz);
    cpu::local::set_online(0);
}

/// The tick of a CPU that has been started, as [`init_clock`] has it.
pub fn start_tick(hz: u32) {
    tsc::start_tick(hz);
}

/// Waits for an interrupt. Called with interrupts off, returns with them on; none is missed in between.
pub fn idle() {
    x86_64::instructions::interrupts::enable_and_hlt();
}

const _: () = assert!(AREA_SIZE.is_power_of_two());
