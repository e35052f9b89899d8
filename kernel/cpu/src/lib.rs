//! What a mechanism may ask of a CPU.
//!
//! **Purpose.** The crates above (percpu, memcg, slab, ipc) are written once and run in two worlds. On bare metal
//! (`target_os = "none"`) a CPU is the machine's: its state lives in a per-CPU area that the `gs` base points to. On the
//! host a CPU is a thread (see [`host`]), so that everything above runs under `cargo test` and Miri.
//!
//! **How it works.**
//! * [`local`]: the area of one CPU: its number, preemption count, current task, and the space of [`percpu`'s] slots.
//! * [`preempt`]: the preemption count. Raising it pins the caller to its CPU; [`Pinned`] is the proof.
//! * [`irq`]: the interrupt flag; [`Masked`] is the proof that it is off, and implies [`Pinned`].
//! * [`lock`]: the only lock types of the kernel, and the lock order.
//! * [`atomic`], [`AtomicRef`]: atomics that an instrumented build counts.
//! * [`event`]: the counters of that build.
//! * [`CpuSet`]: sets of CPUs; [`online`]: those that run.
//! * [`point`]: the places where a test lets an interrupt happen.
//!
//! **Lock order.** This crate takes no lock of its own; [`lock`] documents everybody's order.
//!
//! [`percpu`'s]: self::local::DYNAMIC_START

#![cfg_attr(target_os = "none", no_std)]

pub mod atomic;
pub mod event;
#[cfg(not(target_os = "none"))]
pub mod host;
pub mod irq;
pub mod local;
pub mod lock;
pub mod preempt;
mod reference;
mod set;
#[cfg(test)]
mod tests;

pub use irq::{Masked, without_interrupts};
pub use local::{MAX_CPUS, id, online, possible};
pub use lock::{IrqLock, SpinLock};
pub use preempt::{Pinned, in_task, rcu_read, without_preemption};
pub use reference::AtomicRef;
pub use set::{AtomicCpuSet, CpuSet};

/// Lets an interrupt happen here, in tests.
///
/// Nothing on bare metal. On the host it runs the handler that a test registered with [`host::on_point`], as an
/// interrupt on this CPU, when 'interrupts' are on: so races of a CPU with its own interrupts are enumerated point by
/// point. `name` says where the point is.
#[inline(always)]
pub fn point(name: &'static str) {
    #[cfg(not(target_os = "none"))]
    host::interrupt_at(name);
    #[cfg(target_os = "none")]
    let _ = name;
}

/// Tells the CPU that it is in a waiting loop (`pause`).
///
/// Under QEMU's instruction counting this is also what lets another virtual CPU run.
#[inline(always)]
pub fn pause() {
    #[cfg(not(target_os = "none"))]
    std::thread::yield_now();
    core::hint::spin_loop();
}
