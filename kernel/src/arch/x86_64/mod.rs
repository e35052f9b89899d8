//! x86-64.
//!
//! **Purpose.** All that the kernel asks of the processor and of the few devices that it cannot do without: entry at boot,
//! page tables, traps and interrupts, the system-call path, the context switch, copies from and to user memory, the
//! clock, the serial ports, the way out.
//!
//! **What the kernel calls** (each item is documented where it stands):
//! * [`TrapFrame`]: the registers of a trap or of a system call that wants them all. [`user::enter`]`(&TrapFrame) -> !`:
//!   into ring 3, for the first time or for a forked child (`rax` is the child's result).
//!   [`user::set_fs_base`] / [`user::fs_base`] / [`user::set_gs_base`] / [`user::gs_base`] for `arch_prctl`.
//! * [`usercopy`]: `copy_from_user(&mut [u8], u64)`, `copy_to_user(u64, &[u8])`, `clear_user(u64, usize)`,
//!   `get_user::<T>(u64)`, `put_user::<T>(u64, &T)` for `T:`[`usercopy::UserValue`],
//!   `strncpy_from_user(&mut [u8], u64) -> Result<Option<usize>, Fault>`. All give `Err(Fault)` for what is not mapped.
//! * [`switch`]: [`switch::Context`] (`Context::new(stack, entry, argument)`, `Context::idle()`) and
//!   `switch::switch(prev: *mut Context, next: *const Context)`, called with interrupts off. It saves and loads the kernel
//!   stack, the user's FPU state, the fs and gs bases, the stack for ring 3's traps and the address space.
//! * [`paging::AddressSpaceRoot`]: `new_user_root`, `map_user`, `unmap_user`, `protect_user`, `translate_user`, `flush`.
//!   [`paging::Protection`].
//! * [`tsc`]: `read()`, `khz()`, `now_ns()`. [`rtc::read`]: seconds since 1970. [`serial`]: the console's bytes.
//! * [`syscall_entry::full_frame!`]: makes an entry of the system-call table of a function that takes `&mut TrapFrame`.
//! * [`idle`], [`qemu::exit`].
//!
//! **What the kernel provides** (hooks; interrupts are on unless said):
//! * `syscall::TABLE: [SyscallFn; N]`, `SyscallFn = extern "C" fn(u64, u64, u64, u64, u64, u64) -> i64`, and
//!   `syscall::unknown(nr: u64) -> i64` for numbers from N on.
//! * `task::user_fault(trap: Trap)`: a fault of ring 3 that `mm::address_space::handle_fault` did not mend.
//! * `mm::address_space::handle_fault(address: u64, write: bool, exec: bool, user: bool) -> bool`: true if the access may
//!   be tried again. `user` is false for a copy by the kernel.
//! * `task::tick()`: each tick, in interrupt context, interrupts off.
//! * `task::exit_to_user_work(frame: &mut TrapFrame)`: called before ring 3 as long as a reschedule is wanted or the
//!   task's work word is not zero. **The work word is the first field of what [`cpu::local::current`] points to**: an
//!   `AtomicU32`, any bits. The hook clears what it has dealt with and may change the frame (signals).
//! * `task::current_name()`: for reports; `None` before the first task.

pub mod boot_info;
pub mod layout;
pub mod once;
mod pvh;
pub mod qemu;
pub mod serial;
pub mod tsc;

/// The boot CPU's area: per-CPU state has to exist before the first lock is taken, and so before memory is known.
#[repr(C, align(4096))]
struct BootArea(core::cell::UnsafeCell<[u8; cpu::local::AREA_SIZE]>);

// SAFETY: only its address is taken, by `early`, which gives the area away.
unsafe impl Sync for BootArea {}

static BOOT_AREA: BootArea = BootArea(core::cell::UnsafeCell::new([0; cpu::local::AREA_SIZE]));

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
