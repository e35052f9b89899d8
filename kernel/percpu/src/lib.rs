//! Per-CPU slots: one value for each CPU, at the same offset in every CPU's area.
//!
//! **Purpose.** What only its own CPU touches needs no lock and no locked instruction. Stocks, freelists, statistics and
//! the message cache live here.
//!
//! **How it works.** [`area`] hands out offsets in the CPUs' areas. A [`PerCpu`] is such an offset with a type; it is
//! reached with a proof that the caller stays on its CPU ([`cpu::Pinned`]), and the reference cannot outlive the proof.
//! Three kinds of slot need no proof, because each of their operations is one instruction on whichever CPU runs it:
//! [`PerCpuPair`] (a compare-and-exchange of two words, SLUB's freelist), [`PerCpuI64`] (an add) and, on top of it,
//! [`PercpuRef`] (a reference count that is per CPU until it is killed).
//!
//! [`counter`] has the counters that are cheap to add to and dear to read, and [`races`] those of them that went wrong.
//!
//! **Lock order.** The slot allocator's lock has rank 80, a counter's 85; no other lock is taken under either.

#![cfg_attr(target_os = "none", no_std)]

mod area;
mod count;
pub mod counter;
mod pair;
pub mod races;
mod reference;
mod slot;
#[cfg(test)]
mod tests;
mod word;

pub use area::{free_bytes, used_bytes};
pub use count::PerCpuI64;
pub use counter::{Counting, PercpuCounter};
pub use pair::PerCpuPair;
pub use reference::PercpuRef;
pub use slot::{NoSpace, PerCpu};
