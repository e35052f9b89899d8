//! Memory cgroups: who pays for kernel memory, and what the paying costs.
//!
//! **Purpose.** Every design of kernel-memory accounting that Linux had from 4.18 to 6.12, as interchangeable parts over
//! one set of cgroups, so that two designs can be read side by side as a diff and measured against each other.
//!
//! **How it works.**
//! * A [`Cgroup`] has a page counter; a charge walks from the cgroup to the root ([`cgroup`], [`page_counter`]).
//! * An [`ObjCgroup`] stands between an object and its cgroup, so that the cgroup can be removed while the object lives:
//!   removal re-parents it ([`objcg`]).
//! * Stocks hold back what was charged in advance, per CPU: pages of one cgroup, bytes of one objcg ([`stock`]).
//! * A [`Model`] says what happens around an accounted allocation ([`model`], [`models`]).
//! * [`Accounting`] is the machine's whole: the hierarchy and the stocks ([`accounting`]).
//! * [`TaskMemcg`] is what a task carries ([`task`]).
//!
//! Cgroups and objcgs are type-stable: made once, never freed, so a reference to one is always valid memory; reference
//! counts and reader sections say whether it is still the right one. That is why nothing here is unsafe.
//!
//! **Lock order.** The hierarchy's lock (rank 60) is taken when a cgroup is made or removed, never while charging. The
//! stocks have no lock: their CPU's interrupt flag or preemption count guards them. Under either the percpu allocator's
//! lock (rank 80) may be taken.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod accounting;
pub mod cgroup;
pub mod model;
pub mod models;
pub mod objcg;
pub mod page_counter;
pub mod statistics;
pub mod stock;
pub mod task;

pub use accounting::Accounting;
pub use cgroup::{Cgroup, KmemId};
pub use model::{Model, OverLimit, OwnerSlot};
pub use objcg::ObjCgroup;
pub use task::TaskMemcg;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;

/// No memory, or no per-CPU space, for a cgroup or its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl From<percpu::NoSpace> for NoMemory {
    fn from(_: percpu::NoSpace) -> Self {
        NoMemory
    }
}

/// Makes a value that lives forever. `Err` when there is no memory.
fn leak<T>(value: T) -> Result<&'static T, NoMemory> {
    let mut one = alloc::vec::Vec::new();
    one.try_reserve_exact(1).map_err(|_| NoMemory)?;
    one.push(value);
    Ok(&one.leak()[0])
}
