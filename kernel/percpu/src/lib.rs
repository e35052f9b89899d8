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
//! **Lock order.** The slot allocator's lock has rank 80; no other lock is taken under it.

#![cfg_attr(target_os = "none", no_std)]

mod area;
mod count;
mod pair;
mod reference;
mod slot;

pub use area::{free_bytes, used_bytes};
pub use count::PerCpuI64;
pub use pair::PerCpuPair;
pub use reference::PercpuRef;
pub use slot::{NoSpace, PerCpu};
