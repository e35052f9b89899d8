//! Interrupts from one CPU to another: a look at the run queue, a function call, the stop.
//!
//! **Calls.** Each CPU has one request that it may have under way. It writes the function and its arguments, then the set
//! of those who are to run it, sends each an interrupt, and waits until the set is empty. A CPU that takes the interrupt
//! looks through all requests, so two that come at the same time and arrive as one interrupt are both served. A waiting
//! CPU serves others' requests, because its interrupts are on: so two that call each other do not wait for ever. And
//! nobody who waits for a lock with interrupts off waits for a caller's: [`call`] is not allowed under an
//! [`IrqLock`](cpu::IrqLock).
//!
//! **The stop** is an NMI: it comes where interrupts are off too, and the CPU never goes on. For the report of a failure.

use super::trap::vector;
use super::{apic, report};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use cpu::{AtomicCpuSet, CpuSet, MAX_CPUS};

/// What a CPU can be asked to run: with interrupts off, in interrupt context.
pub type Remote = fn([u64; 3]);

/// What one CPU asks of others.
struct Request {
    /// Who has not run it yet. The caller fills it; each takes itself out.
    pending: AtomicCpuSet,
    /// A [`Remote`]. Written by the caller while `pending` is empty, as the arguments are.
    function: AtomicUsize,
    arguments: [AtomicU64; 3],
}

/// By number of the CPU that asks.
static REQUESTS: [Request; MAX_CPUS] = [const {
    Request {
        pending: AtomicCpuSet::new(CpuSet::EMPTY),
        function: AtomicUsize::new(0),
        arguments: [const { AtomicU64::new(0) }; 3],
    }
}; MAX_CPUS];

/// Runs `function` on those of `targets` that are online, but not on this CPU, and waits until all have.
///
/// # Panics
/// With interrupts off: the others may be waiting for this CPU.
pub fn call(targets: CpuSet, function: Remote, arguments: [u64; 3]) {
    cpu::without_preemption(|_| {
        let targets = (targets & cpu::online()) - CpuSet::of(cpu::id());
        if targets.is_empty() {
            return;
        }
        assert!(cpu::irq::enabled(), "a call to other CPUs with interrupts off");
        let request = &REQUESTS[cpu::id()];
        request
            .function
            .store(function as *const () as usize, Ordering::Relaxed);
        for (place, argument) in request.arguments.iter().zip(arguments) {
            place.store(argument, Ordering::Relaxed);
        }
        request.pending.set(targets);
        for target in targets {
            apic::send(target, vector::CALL);
        }
        while !request.pending.get().is_empty() {
            cpu::pause();
        }
    });
}

/// Runs what others ask of this CPU. Interrupt context.
pub(super) fn serve() {
    let here = cpu::id();
    for request in &REQUESTS[..cpu::possible()] {
        if request.pending.get().contains(here) {
            let function = request.function.load(Ordering::Relaxed) as *const ();
            // SAFETY: `pending` has this CPU (acquire), so the caller has stored the address of a Remote and waits.
            let function: Remote = unsafe { core::mem::transmute::<*const (), Remote>(function) };
            function([0, 1, 2].map(|i| request.arguments[i].load(Ordering::Relaxed)));
            request.pending.remove(here);
        }
    }
}

/// Makes a CPU look whether its task should give way, and whether it has work before ring 3.
pub fn reschedule(target: usize) {
    apic::send(target, vector::RESCHEDULE);
}

/// Stops all other CPUs for good, wherever they are. For the report of a failure.
pub(super) fn stop_others() {
    for target in cpu::online() - CpuSet::of(cpu::id()) {
        apic::send_nmi(target);
    }
}

/// At an NMI: if another CPU reports a failure, this one stands still.
pub(super) fn stop_if_asked() {
    if report::by_another() {
        loop {
            x86_64::instructions::interrupts::disable();
            x86_64::instructions::hlt();
        }
    }
}
