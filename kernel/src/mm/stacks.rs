//! Kernel stacks: whole pages in an area of their own, with unmapped pages between them.
//!
//! A stack that overflows runs into the gap below it; the fault is reported as what it is (see
//! `arch::exceptions`). Stacks that are given back stay mapped and are used again, so that no other CPU has to be told;
//! the area never holds more than the most stacks that existed at once.
//!
//! **Lock order.** [`POOL`] (rank 28), then the kernel's page tables (94).

use super::frames::OutOfMemory;
use crate::arch::layout::{PAGE_SIZE, STACKS};
use crate::arch::paging;
use arrayvec::ArrayVec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use cpu::SpinLock;

/// Bytes of a stack: as on Linux; more where the code is not optimised.
pub const STACK_SIZE: u64 = if cfg!(debug_assertions) { 64 * 1024 } else { 16 * 1024 };
/// From one stack to the next: the gap is as large as the stack.
const STRIDE: u64 = 2 * STACK_SIZE;
/// The most stacks.
const MAX_STACKS: u64 = 32 * 1024;
/// The most unused stacks that are remembered; it bounds nothing but memory that an earlier peak leaves behind.
const MAX_UNUSED: usize = 4096;

/// Stacks made so far: the next has this number. Written under [`POOL`]'s lock, read by reports.
static MADE: AtomicU64 = AtomicU64::new(0);

struct Pool {
    /// Numbers of stacks that nobody uses.
    unused: ArrayVec<u16, MAX_UNUSED>,
}

static POOL: SpinLock<Pool> = SpinLock::new(
    28,
    Pool {
        unused: ArrayVec::new_const(),
    },
);

/// A kernel stack. Dropping it gives it back: whoever runs on it must have left it.
pub struct KernelStack {
    number: u16,
}

impl KernelStack {
    /// A stack with arbitrary contents.
    pub fn new() -> Result<KernelStack, OutOfMemory> {
        let mut pool = POOL.lock();
        if let Some(number) = pool.unused.pop() {
            return Ok(KernelStack { number });
        }
        let made = MADE.load(Ordering::Relaxed);
        if made == MAX_STACKS {
            return Err(OutOfMemory);
        }
        let stack = KernelStack { number: made as u16 };
        if let Err(error) = paging::map_kernel(stack.range()) {
            core::mem::forget(stack); // it does not exist
            return Err(error);
        }
        MADE.store(made + 1, Ordering::Relaxed);
        Ok(stack)
    }

    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        let start = STACKS + u64::from(self.number) * STRIDE + STACK_SIZE;
        start..start + STACK_SIZE
    }

    /// Where a stack pointer starts: the first address above it, aligned to 16.
    pub fn top(&self) -> u64 {
        self.range().end
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        // Where the list is full the stack is lost, mapped and unused: no run comes near.
        let _ = POOL.lock().unused.try_push(self.number);
    }
}

/// What an address in the stack area is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// Inside the stack with these addresses.
    Stack(Range<u64>),
    /// In the gap below the stack with these addresses: it has overflowed.
    Guard(Range<u64>),
}

/// Where in the stack area `address` is; `None` outside of it.
pub fn place(address: u64) -> Option<Place> {
    let offset = address
        .checked_sub(STACKS)
        .filter(|&offset| offset < MAX_STACKS * STRIDE)?;
    let start = STACKS + offset / STRIDE * STRIDE + STACK_SIZE;
    let stack = start..start + STACK_SIZE;
    Some(if address < start {
        Place::Guard(stack)
    } else {
        Place::Stack(stack)
    })
}

/// Whether `address` is on a stack that has been made. Takes no lock: for reports.
pub fn exists(address: u64) -> bool {
    matches!(place(address), Some(Place::Stack(_))) && (address - STACKS) / STRIDE < MADE.load(Ordering::Relaxed)
}

const _: () = assert!(STACK_SIZE.is_multiple_of(PAGE_SIZE) && MAX_STACKS <= 1 << 16);
