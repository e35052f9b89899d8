//! The start of the other processors.
//!
//! **How it works.** INIT and a start-up message make a processor begin in real mode at a page below 1 MiB. There lies a
//! copy of [`ap_trampoline`](self): it goes straight to long mode by the page tables of the boot processor's own entry
//! (see [`super::pvh`]), which map it where it runs, then jumps to the image, takes the kernel's page tables and the
//! stack that [`Start`] names, and calls [`arrived`]. Processors are started one after the other, so one [`Start`] is
//! enough.
//!
//! A processor that does not come is given up, and nobody is started after it: should it come late it finds that it is
//! not wanted, and stands still on a stack that stays its own.
//!
//! Source: Intel SDM volume 3, "MP Initialization Protocol".

use super::boot_info::BootInfo;
use super::layout::{KERNEL_OFFSET, PAGE_SIZE, phys_to_virt};
use super::{apic, features, paging, tlb, tsc};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use x86_64::registers::model_specific::GsBase;
use x86_64::{PhysAddr, VirtAddr};

/// How long a processor has to arrive, in milliseconds.
const PATIENCE_MS: u64 = 2000;
/// How long INIT takes on a real machine, in milliseconds.
const INIT_MS: u64 = 10;

core::arch::global_asm!(
    r#"
    .pushsection .rodata.ap_trampoline, "a", @progbits
    .code16
ap_trampoline:
    cli
    cld
    movw    %cs, %ax
    movw    %ax, %ds
    xorl    %ebx, %ebx
    movw    %cs, %bx
    shll    $4, %ebx                        # where this copy lies
    leal    (ap_long - ap_trampoline)(%ebx), %eax
    movl    %eax, ap_far - ap_trampoline
    lgdtl   ap_gdt_pointer - ap_trampoline
    movl    $0x20, %eax                     # PAE
    movl    %eax, %cr4
    movl    $(boot_pml4 - {offset}), %eax
    movl    %eax, %cr3
    movl    $0xc0000080, %ecx               # EFER:
    rdmsr
    orl     $0x901, %eax                    # syscall, long mode, no-execute
    wrmsr
    movl    $0x80010033, %eax               # paging, write protection, FPU by the book, protected mode; the cache on
    movl    %eax, %cr0
    ljmpl   *(ap_far - ap_trampoline)
    .p2align 2
ap_far:
    .long   0
    .word   8                               # 64-bit code
ap_gdt_pointer:
    .word   23
    .long   boot_gdt - {offset}
    .code64
ap_long:
    movl    $16, %eax
    movl    %eax, %ss
    xorl    %eax, %eax
    movl    %eax, %ds
    movl    %eax, %es
    movl    %eax, %fs
    movl    %eax, %gs
    movabsq $ap_entry, %rax
    jmpq    *%rax
ap_trampoline_end:
    .popsection

    .pushsection .text.boot, "ax", @progbits
ap_entry:
    movq    {start} + {root}(%rip), %rax
    movq    %rax, %cr3
    movq    {start} + {stack}(%rip), %rsp
    movq    {start} + {cpu}(%rip), %rdi
    xorl    %ebp, %ebp
    callq   {arrived}
    ud2
    .popsection
    "#,
    offset = const KERNEL_OFFSET,
    start = sym START,
    root = const core::mem::offset_of!(Start, root),
    stack = const core::mem::offset_of!(Start, stack),
    cpu = const core::mem::offset_of!(Start, cpu),
    arrived = sym arrived,
    options(att_syntax)
);

/// What the processor that starts finds. Written by the boot processor before it starts one.
#[repr(C)]
struct Start {
    /// The kernel's page tables.
    root: AtomicU64,
    /// Top of its stack.
    stack: AtomicU64,
    /// Its number.
    cpu: AtomicUsize,
    /// [`NOBODY`], or the number of the CPU that is wanted. It takes it out.
    wanted: AtomicUsize,
}

const NOBODY: usize = usize::MAX;

static START: Start = Start {
    root: AtomicU64::new(0),
    stack: AtomicU64::new(0),
    cpu: AtomicUsize::new(0),
    wanted: AtomicUsize::new(NOBODY),
};

/// Why a processor does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotStarted {
    /// There is no page below 1 MiB for it to begin in.
    NoPage,
    /// It did not come.
    Silent,
}

/// A place for the trampoline, and what has been written there.
pub struct Trampoline {
    page: u8,
}

impl Trampoline {
    /// Puts the trampoline where processors can begin.
    pub fn new(boot: &BootInfo) -> Result<Trampoline, NotStarted> {
        unsafe extern "C" {
            static ap_trampoline: u8;
            static ap_trampoline_end: u8;
        }
        let (start, end) = (&raw const ap_trampoline, &raw const ap_trampoline_end);
        let page = boot.low_page().ok_or(NotStarted::NoPage)?;
        let to = phys_to_virt(PhysAddr::new(u64::from(page) * PAGE_SIZE));
        // SAFETY: 1. The symbols enclose the trampoline, less than a page. 2. The page is RAM below 1 MiB, which the
        // direct map has and the frame allocator has not; what the loader left there has been copied.
        unsafe { to.copy_from_nonoverlapping(start, end as usize - start as usize) };
        Ok(Trampoline { page })
    }

    /// Starts the processor of CPU `cpu` on the kernel stack with this top, which nobody else uses, ever, and waits until it
    /// has come, which it says by [`cpu::local::set_online`]. Interrupts are off at entry and on while it waits.
    pub fn start(&self, cpu: usize, stack_top: u64) -> Result<(), NotStarted> {
        START.root.store(paging::kernel_root().as_u64(), Ordering::Relaxed);
        START.stack.store(stack_top, Ordering::Relaxed);
        START.cpu.store(cpu, Ordering::Relaxed);
        START.wanted.store(cpu, Ordering::Release);
        apic::send_init(cpu);
        if !features::get().hypervisor {
            wait(INIT_MS, || false);
        }
        // Twice, as the protocol has it: the second is ignored by a processor that runs.
        for _ in 0..2 {
            apic::send_startup(cpu, self.page);
            if wait(PATIENCE_MS / 2, || cpu::online().contains(cpu)) {
                return Ok(());
            }
        }
        match START
            .wanted
            .compare_exchange(cpu, NOBODY, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Err(NotStarted::Silent),
            // It has come at the last moment, and is on its way.
            Err(_) => {
                while !cpu::online().contains(cpu) {
                    cpu::pause();
                }
                Ok(())
            }
        }
    }
}

/// Waits until `done`, at most `ms` milliseconds; whether it was. Looks at each tick: the tick must be on. Interrupts are
/// on meanwhile, and off afterwards.
fn wait(ms: u64, done: impl Fn() -> bool) -> bool {
    let end = tsc::read() + ms * tsc::khz();
    while tsc::read() < end && !done() {
        super::idle();
        cpu::irq::disable();
    }
    done()
}

/// The first Rust code of a processor: on its own stack and the kernel's page tables.
extern "C" fn arrived(cpu: usize) -> ! {
    let wanted = START
        .wanted
        .compare_exchange(cpu, NOBODY, Ordering::AcqRel, Ordering::Acquire);
    let Some(area) = cpu::local::area(cpu).filter(|_| wanted.is_ok()) else {
        loop {
            x86_64::instructions::hlt(); // too late; interrupts are off
        }
    };
    GsBase::write(VirtAddr::from_ptr(area));
    // SAFETY: 1. once on this CPU, interrupts off, after the same on the boot CPU. 2. `root` is the kernel's.
    unsafe {
        tlb::load(PhysAddr::new_truncate(START.root.load(Ordering::Relaxed)));
        super::init_this_cpu();
    }
    apic::enable();
    crate::task::start_here()
}
