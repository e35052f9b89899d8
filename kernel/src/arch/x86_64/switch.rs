//! The context switch.
//!
//! What a task leaves behind when it loses its CPU: on its kernel stack the registers that a function must keep, in its
//! [`Context`] the rest. The kernel itself does not use the FPU, so its registers are the program's at every moment and
//! change hands here; the same goes for the bases of fs and gs.

use super::features::{self, FPU_AREA};
use super::usercopy::Fault;
use super::{gdt, paging, pvh, tlb};
use x86_64::PhysAddr;
use x86_64::VirtAddr;

use x86_64::registers::model_specific::{FsBase, KernelGsBase};

/// A saved state of the FPU, SSE and AVX, in the form of XSAVE (or FXSAVE, its first 512 bytes).
#[repr(C, align(64))]
#[derive(Clone)]
pub(super) struct Fpu([u8; FPU_AREA]);

impl Fpu {
    /// As after a reset: all zero but the control words, every exception masked (System V ABI, "Registers").
    const INITIAL: Fpu = {
        let mut area = [0; FPU_AREA];
        [area[0], area[1]] = 0x37fu16.to_le_bytes();
        [area[24], area[25], area[26], area[27]] = 0x1f80u32.to_le_bytes();
        Fpu(area)
    };

    /// Saves the running program's state for its eyes.
    pub(super) fn save_to(area: &mut [u8; FPU_AREA]) {
        let mut state = Fpu::INITIAL;
        // Interrupts may come: the switch saves and loads the same state.
        state.save();
        *area = state.0;
    }

    /// Loads a state that a program has had its hands on; `extended` says that it is more than the legacy area. What no
    /// processor would take is a fault.
    pub(super) fn load_checked(area: &mut [u8; FPU_AREA], extended: bool) -> Result<(), Fault> {
        const HEADER: usize = 512;
        let components = features::get().xsave.map_or(0, |components| components.bits());
        let word = |area: &[u8; FPU_AREA], at: usize| {
            area[at..at + 8]
                .iter()
                .rev()
                .fold(0u64, |word, &byte| word << 8 | u64::from(byte))
        };
        if !extended {
            area[HEADER..].fill(0);
            area[HEADER] = 3; // the FPU and SSE
        }
        let header_fits =
            word(area, HEADER) & !components == 0 && area[HEADER + 8..HEADER + 64].iter().all(|&b| b == 0);
        // Reserved bits of MXCSR.
        if area[26] != 0 || area[27] != 0 || !header_fits && components != 0 {
            return Err(Fault);
        }
        Fpu(*area).load();
        Ok(())
    }

    /// Saves this CPU's state.
    #[inline]
    fn save(&mut self) {
        // SAFETY: 1. the area is FPU_AREA bytes, aligned to 64: enough for the components that `features` switched on.
        // 2. XSAVE is used only where it was switched on.
        unsafe {
            if features::get().xsave.is_some() {
                core::arch::asm!("xsave64 [{}]", in(reg) &mut self.0, in("eax") -1, in("edx") -1, options(nostack));
            } else {
                core::arch::asm!("fxsave64 [{}]", in(reg) &mut self.0, options(nostack));
            }
        }
    }

    /// Loads it into this CPU.
    #[inline]
    fn load(&self) {
        // SAFETY: as in save; the area was written by save or is INITIAL, so its header is well-formed. Kernel code has
        // no use for these registers.
        unsafe {
            if features::get().xsave.is_some() {
                core::arch::asm!("xrstor64 [{}]", in(reg) &self.0, in("eax") -1, in("edx") -1, options(nostack));
            } else {
                core::arch::asm!("fxrstor64 [{}]", in(reg) &self.0, options(nostack));
            }
        }
    }
}

/// The state of a task that does not run.
#[repr(C)]
pub struct Context {
    /// Stack pointer; what it points to was pushed by [`switch_stacks`].
    stack_pointer: u64,
    /// Top of the kernel stack, for traps from ring 3. Immutable.
    stack_top: u64,
    /// Page tables.
    root: PhysAddr,
    /// The program's fs and gs bases.
    fs_base: u64,
    gs_base: u64,
    fpu: Fpu,
}

impl Context {
    /// A task that has not run: it will call `entry(argument)` with interrupts off on the stack whose top is `stack_top`
    /// (a multiple of 16), with the kernel's own page tables and a fresh FPU.
    ///
    /// The stack must be the task's own, mapped, and live as long as the context is used.
    pub fn new(stack_top: u64, entry: extern "C" fn(usize) -> !, argument: usize) -> Context {
        // As switch_stacks leaves a stack: r15 r14 r13 r12 rbx rbp, the return address; two words for the alignment.
        let initial = [
            0,
            0,
            0,
            entry as *const () as u64,
            argument as u64,
            0,
            first_steps as *const () as u64,
            0,
            0,
        ];
        let stack_pointer = stack_top - size_of_val(&initial) as u64;
        // SAFETY: the top of a kernel stack that nobody runs on (documented).
        unsafe { (stack_pointer as *mut [u64; 9]).write(initial) };
        Context {
            stack_pointer,
            stack_top,
            root: paging::kernel_root(),
            fs_base: 0,
            gs_base: 0,
            fpu: Fpu::INITIAL,
        }
    }

    /// The thread of execution that a CPU begins with: it runs already, on boot's stack or on the one with this top.
    pub fn idle(stack_top: Option<u64>) -> Context {
        Context {
            stack_pointer: 0,
            stack_top: stack_top.unwrap_or(pvh::boot_stack().end),
            root: paging::kernel_root(),
            fs_base: 0,
            gs_base: 0,
            fpu: Fpu::INITIAL,
        }
    }

    /// Gives a task that has not run what the running program has in registers that are in no frame: the FPU, the fs and
    /// gs bases. Interrupts off.
    pub fn inherit(&mut self) {
        self.fpu.save();
        self.fs_base = FsBase::read().as_u64();
        self.gs_base = KernelGsBase::read().as_u64();
    }

    /// Sets the fs base of a task that does not run; it is in the user's half.
    pub fn set_fs_base(&mut self, base: u64) {
        self.fs_base = base;
    }

    /// Sets the page tables that the next switch to this context loads.
    pub fn set_root(&mut self, root: PhysAddr) {
        self.root = root;
    }
}

/// Gives the running task a fresh FPU. Interrupts off.
pub(super) fn reset_fpu() {
    Fpu::INITIAL.load();
}

/// Leaves `prev`, which runs here, for `next`. Returns when somebody switches back to `prev`.
///
/// # Safety
/// 1. Interrupts are off. 2. `prev` is the running task's; `next` is of a task that runs nowhere, was saved by this
///    function or is fresh, and nobody else uses either. 3. Both stacks live; `next`'s page tables have the kernel's
///    upper half.
pub unsafe fn switch(prev: *mut Context, next: *const Context) {
    // SAFETY: condition 2: both are ours for the moment.
    let (from, to) = unsafe { (&mut *prev, &*next) };
    from.fpu.save();
    to.fpu.load();
    from.fs_base = FsBase::read().as_u64();
    from.gs_base = KernelGsBase::read().as_u64();
    FsBase::write(VirtAddr::new_truncate(to.fs_base));
    KernelGsBase::write(VirtAddr::new_truncate(to.gs_base));
    gdt::set_trap_stack(to.stack_top);
    if from.root != to.root {
        // SAFETY: conditions 1 and 3.
        unsafe { tlb::load(to.root) };
    }
    // SAFETY: conditions 1 and 3; the stack pointer was left by this function or made by Context::new.
    unsafe { switch_stacks(&mut from.stack_pointer, to.stack_pointer) };
}

/// Saves the registers that a function must keep on this stack, and takes those of the other.
#[unsafe(naked)]
unsafe extern "C" fn switch_stacks(save: &mut u64, load: u64) {
    core::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where a new task begins: r12 is its function, rbx the argument (see [`Context::new`]).
#[unsafe(naked)]
unsafe extern "C" fn first_steps() {
    core::arch::naked_asm!("mov rdi, rbx", "xor ebp, ebp", "call r12", "ud2")
}
