//! What the CPUs remember of page tables, and how they forget it.
//!
//! A CPU remembers pages of the address space that it runs on and of no other: loading another root forgets all of the
//! user's half. So who changes an entry for the worse (takes a page away, or a right, or a table) tells the CPUs that run
//! on that root, and waits for them, before the frame is used for anything else (Linux: TLB shoot-down).
//!
//! **Who runs on a root** is in [`LOADED`], without a lock. The two sides:
//! * A changes an entry, then (fence) reads `LOADED` of B.
//! * B writes `LOADED`, then loads the root: `mov cr3` is serialising, so the write is seen before any walk of the tables.
//!
//! If A does not see B's write, then B's walks come after A's change: B finds the new entry. If A sees it, B is told. Where
//! B leaves a root it may be told no more while it still remembers pages, between its write and `mov cr3`: in between it
//! touches no user memory, and then it has forgotten them.
//!
//! **Lock order.** Not under an `IrqLock` and not with interrupts off ([`super::ipi::call`]); an address space's lock may
//! be held.

use super::ipi;
use super::layout::PAGE_SIZE;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use cpu::{CpuSet, MAX_CPUS};
use x86_64::instructions::tlb;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::PhysFrame;
use x86_64::{PhysAddr, VirtAddr};

/// More pages than this are not forgotten one by one: all are.
const ONE_BY_ONE: u64 = 32;

/// The root that each CPU runs on. Written by that CPU.
static LOADED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Makes this CPU run on `root`.
///
/// # Safety
/// 1. Its upper half is the kernel's, and it stays until this CPU has loaded another. 2. The caller stays on this CPU:
///    preemption or interrupts are off.
#[inline]
pub(super) unsafe fn load(root: PhysAddr) {
    LOADED[cpu::id()].store(root.as_u64(), Ordering::Relaxed);
    // SAFETY: condition 1.
    unsafe { Cr3::write(PhysFrame::containing_address(root), Cr3Flags::empty()) };
}

/// Whether this CPU runs on `root`.
pub(super) fn is_loaded(root: PhysAddr) -> bool {
    Cr3::read_raw().0.start_address() == root
}

/// The other CPUs that run on `root`. After a change to its tables.
fn others(root: PhysAddr) -> CpuSet {
    let online = cpu::online();
    let mut found = CpuSet::EMPTY;
    if !online.is_single() {
        fence(Ordering::SeqCst); // the change comes before the look: see above
        for other in online - CpuSet::of(cpu::id()) {
            if LOADED[other].load(Ordering::Relaxed) == root.as_u64() {
                found = found | CpuSet::of(other);
            }
        }
    }
    found
}

/// Makes every CPU that runs on `root` forget `pages`. When this returns nobody has access by what was there before.
pub(super) fn forget(root: PhysAddr, pages: Range<u64>) {
    cpu::without_preemption(|_| {
        forget_here(root, pages.clone());
        let others = others(root);
        if !others.is_empty() {
            ipi::call(
                others,
                |[root, start, end]| forget_here(PhysAddr::new_truncate(root), start..end),
                [root.as_u64(), pages.start, pages.end],
            );
        }
    });
}

/// Makes this CPU forget `pages`, if it runs on `root`.
pub(super) fn forget_here(root: PhysAddr, pages: Range<u64>) {
    if !is_loaded(root) {
        return;
    }
    if (pages.end - pages.start) / PAGE_SIZE > ONE_BY_ONE {
        tlb::flush_all(); // what is global stays: the kernel's
    } else {
        for page in pages.step_by(PAGE_SIZE as usize) {
            tlb::flush(VirtAddr::new_truncate(page));
        }
    }
}
