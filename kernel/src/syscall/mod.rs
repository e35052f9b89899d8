//! System calls: from registers to the kernel's parts.
//!
//! * [`table`]: which there are.
//! * [`user`]: arguments; user addresses are claims until a copy has succeeded. [`errno`]: error numbers.
//! * One file a family: [`clone`], [`family`], [`file`], [`memory`], [`process`], [`signal`], [`time`], [`futex`], [`mqueue`], [`system`],
//!   [`identity`], [`schedule`], [`timer`], [`sysv`], [`namespace`], [`socket`].
//!
//! A call's function checks its arguments in Linux's order, asks the part of the kernel that knows, and copies results
//! out. It holds no lock when it touches user memory.

pub mod errno;
pub mod table;
pub mod user;

mod clone;
mod family;
mod file;
mod futex;
mod identity;
mod memory;
mod mqueue;
mod namespace;
mod process;
mod schedule;
mod signal;
mod socket;
pub mod system;
mod sysv;
mod time;
mod timer;

pub use mqueue::start as start_mqueues;
pub(crate) use process::CLOCK_TICKS;
pub use table::TABLE;

use crate::mm::tasks::Current;
use crate::task::table::printable;
use cpu::atomic::{AtomicU64, Ordering};
use errno::Errno;

/// Unknown numbers that have been logged: a bit each; the last one stands for all that are beyond.
static LOGGED: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// A number that no call has: ENOSYS, and a line on the log the first time.
#[cold]
pub fn unknown(number: u64) -> i64 {
    let bit = (number as usize).min(64 * LOGGED.len() - 1);
    let (word, mask) = (&LOGGED[bit / 64], 1 << (bit % 64));
    let before = word.load(Ordering::Relaxed);
    if before & mask == 0 {
        // Two tasks at once may both log it: no harm.
        word.store(before | mask, Ordering::Relaxed);
        let name = Current::get().process.name();
        log::warn!("{}: system call {number} is not there (ENOSYS)", printable(&name));
    }
    Errno::ENOSYS.to_return()
}
