//! The area of one CPU.
//!
//! Every CPU owns [`AREA_SIZE`] bytes. They begin with [`Local`]; from [`DYNAMIC_START`] on they belong to the crate
//! percpu, which hands out the same offset in every CPU's area. On bare metal the `gs` base of a CPU is the address of
//! its area, so a field is one `gs:`-relative instruction away and a slot costs no multiplication.

use crate::set::{AtomicCpuSet, CpuSet};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The most CPUs that the kernel supports.
pub const MAX_CPUS: usize = 16;
/// Bytes of one CPU's area. The area must be aligned to a page. On the host it is larger: one process runs many tests,
/// each with a machine of its own whose cgroups live forever.
pub const AREA_SIZE: usize = if cfg!(target_os = "none") { 256 << 10 } else { 16 << 20 };
/// Offset at which the slots of the crate percpu begin.
pub const DYNAMIC_START: usize = 4096;

/// The head of a CPU's area. All fields are per CPU: written by their own CPU only.
///
/// The offsets are part of the contract with the assembly of the kernel's entry code.
#[repr(C, align(64))]
pub struct Local {
    /// Address of this area (`gs:0`). Immutable after start.
    pub base: usize,
    /// The preemption count (`gs:8`), see [`crate::preempt`].
    pub preempt_count: u32,
    /// Number of this CPU (`gs:12`), below [`MAX_CPUS`]. Immutable after start.
    pub id: u32,
    /// The running task (`gs:16`): opaque here, the kernel's pointer.
    pub current: usize,
    /// Top of the running task's kernel stack (`gs:24`), for the system-call entry.
    pub kernel_stack: usize,
    /// Where the system-call entry keeps the user's stack pointer for a moment (`gs:32`).
    pub user_stack: usize,
    /// On the host: whether 'interrupts' are on. Unused on bare metal, where the flag is in RFLAGS.
    pub host_interrupts: bool,
    /// Ranks of the locks that this CPU holds, for the lock-order check of debug builds.
    pub held: crate::lock::Held,
    /// Event counters of an instrumented build.
    #[cfg(feature = "events")]
    pub events: crate::event::Counters,
}

static_assertions::const_assert!(size_of::<Local>() <= DYNAMIC_START);

/// Preemption count of a CPU at start: nothing held, no reschedule wanted (the bit is inverted).
pub const INITIAL_PREEMPT_COUNT: u32 = crate::preempt::NO_RESCHED;

impl Local {
    /// The head of a fresh area at `base` for CPU `id`.
    pub const fn new(base: usize, id: usize) -> Local {
        Local {
            base,
            preempt_count: INITIAL_PREEMPT_COUNT,
            id: id as u32,
            current: 0,
            kernel_stack: 0,
            user_stack: 0,
            host_interrupts: true,
            held: crate::lock::Held::new(),
            #[cfg(feature = "events")]
            events: crate::event::Counters::new(),
        }
    }
}

/// Address of each registered CPU's area; 0 before registration.
static AREAS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];
/// Number of registered CPUs.
static POSSIBLE: AtomicUsize = AtomicUsize::new(0);

/// Registers the area of CPU `id` and writes its head. Areas are registered in order of their number, all of them
/// before the first per-CPU slot is allocated.
///
/// # Safety
/// `base` is page-aligned and addresses [`AREA_SIZE`] zeroed bytes that are this CPU's alone and never freed.
pub unsafe fn register_area(id: usize, base: *mut u8) {
    assert!(id < MAX_CPUS, "CPU {id}: the kernel supports {MAX_CPUS}");
    // SAFETY: the caller gives the area to us; Local fits (asserted above) and a page is aligned enough for it.
    unsafe { base.cast::<Local>().write(Local::new(base as usize, id)) };
    AREAS[id].store(base as usize, Ordering::Release);
    POSSIBLE.fetch_max(id + 1, Ordering::AcqRel);
    if cfg!(not(target_os = "none")) {
        ONLINE.insert(id);
    }
}

/// The CPUs that run.
static ONLINE: AtomicCpuSet = AtomicCpuSet::new(CpuSet::EMPTY);

/// The CPUs that run. On the host those with an area: any thread may become one at any time.
#[inline]
pub fn online() -> CpuSet {
    ONLINE.get()
}

/// Says that CPU `id` runs from now on: itself, once it can take interrupts.
pub fn set_online(id: usize) {
    assert!(area(id).is_some(), "CPU {id} has no area");
    ONLINE.insert(id);
}

/// Number of CPUs that have an area (Linux: `nr_cpu_ids`).
#[inline]
pub fn possible() -> usize {
    POSSIBLE.load(Ordering::Acquire)
}

/// Address of the area of CPU `id`; `None` before its registration.
#[inline]
pub fn area(id: usize) -> Option<*mut u8> {
    match AREAS.get(id)?.load(Ordering::Acquire) {
        0 => None,
        base => Some(base as *mut u8),
    }
}

/// Address of this CPU's area. The caller may be moved to another CPU at once unless it is pinned.
#[inline(always)]
pub fn this_area() -> *mut u8 {
    #[cfg(target_os = "none")]
    {
        let base: usize;
        // SAFETY: gs points to this CPU's area from the first steps of boot on; its first word is its own address.
        unsafe {
            core::arch::asm!("mov {}, gs:[0]", out(reg) base, options(nostack, preserves_flags, readonly));
        }
        base as *mut u8
    }
    #[cfg(not(target_os = "none"))]
    crate::host::this_area()
}

/// Number of this CPU. The caller may be moved to another CPU at once unless it is pinned.
#[inline(always)]
pub fn id() -> usize {
    #[cfg(target_os = "none")]
    {
        let id: u32;
        // SAFETY: as in this_area; the field is at offset 12 (asserted below).
        unsafe {
            core::arch::asm!("mov {:e}, gs:[12]", out(reg) id, options(nostack, preserves_flags, readonly));
        }
        id as usize
    }
    #[cfg(not(target_os = "none"))]
    with_local(|local| local.id as usize)
}

/// Runs `f` on the head of this CPU's area.
///
/// For fields without an instruction of their own. The caller is pinned, or the field does not care.
#[inline(always)]
pub(crate) fn with_local<R>(f: impl FnOnce(&mut Local) -> R) -> R {
    let local = this_area().cast::<Local>();
    // SAFETY: the area begins with a Local (register_area). Only this CPU writes it, and f cannot reach with_local
    // again through its argument; nested calls from an interrupt do not overlap a use of the same field, because the
    // field's own module masks interrupts where that could happen.
    f(unsafe { &mut *local })
}

/// The running task's pointer as the kernel stored it with [`set_current`]; 0 before.
#[inline(always)]
pub fn current() -> usize {
    #[cfg(target_os = "none")]
    {
        let task: usize;
        // SAFETY: as in this_area; the field is at offset 16. A task reads its own pointer: right on whichever CPU.
        unsafe {
            core::arch::asm!("mov {}, gs:[16]", out(reg) task, options(nostack, preserves_flags, readonly));
        }
        task
    }
    #[cfg(not(target_os = "none"))]
    with_local(|local| local.current)
}

/// Sets the running task's pointer and the top of its kernel stack. For the scheduler, with interrupts off.
#[inline]
pub fn set_current(task: usize, kernel_stack: usize) {
    with_local(|local| {
        local.current = task;
        local.kernel_stack = kernel_stack;
    });
}

const _: () = {
    assert!(core::mem::offset_of!(Local, base) == 0);
    assert!(core::mem::offset_of!(Local, preempt_count) == 8);
    assert!(core::mem::offset_of!(Local, id) == 12);
    assert!(core::mem::offset_of!(Local, current) == 16);
    assert!(core::mem::offset_of!(Local, kernel_stack) == 24);
    assert!(core::mem::offset_of!(Local, user_stack) == 32);
};
