//! Which CPU a task goes to.
//!
//! * A task that wakes up or is new goes to a CPU that has nothing to do, first of all the one that it was on: its caches
//!   may still hold what it needs. If all are busy it stays where it was, or comes to the one that wakes it where fewer
//!   wait there.
//! * A CPU that has nothing to do takes a task that waits for another.
//! * Once in a while a busy CPU compares its queue with the longest, and takes one where two more wait there.
//!
//! **Lock order.** That of [`super::scheduler`]: one run queue at a time. [`IDLE`] and the queues' lengths are read
//! without a lock: they are hints, and a task is moved under the locks.

use super::scheduler::{running, take_over, waiting};
use super::task::Task;
use cpu::{AtomicCpuSet, CpuSet};

/// The CPUs that have nothing to do. Who chooses one for a task takes it out, so that the next one chooses another; it
/// puts itself in again.
pub(super) static IDLE: AtomicCpuSet = AtomicCpuSet::new(CpuSet::EMPTY);

/// Ticks from one comparison of the queues to the next.
const PERIOD: u32 = 32;

/// The CPU for a task that wants one.
pub(super) fn choose_cpu(task: &Task) -> usize {
    let last = task.cpu();
    let online = cpu::online();
    if online.is_single() {
        return last;
    }
    let allowed = task.affinity() & online;
    let idle = IDLE.get() & allowed;
    if idle.contains(last) && IDLE.remove(last) {
        return last;
    }
    for candidate in idle {
        if IDLE.remove(candidate) {
            return candidate;
        }
    }
    let level = task.scheduling().level() as u32 + 1;
    let here = cpu::id();
    if level > 1 {
        // A real-time task: where it need not wait, or else waits behind the lowest.
        let lowest = allowed.min_by_key(|&candidate| (running(candidate), candidate != last));
        return lowest.unwrap_or(here);
    }
    let stays = allowed.contains(last);
    if allowed.contains(here) && (!stays || waiting(here) < waiting(last)) {
        return here;
    }
    if stays {
        last
    } else {
        allowed.min_by_key(|&candidate| waiting(candidate)).unwrap_or(here)
    }
}

/// Takes a task from the CPU for which most wait, at least `most_here`, for CPU `here`, which is this one. Interrupts are
/// off.
pub(super) fn steal(here: usize, at_least: u32) -> bool {
    let mut others = cpu::online() - CpuSet::of(here);
    while let Some(busiest) = others.max_by_key(|&other| waiting(other)) {
        if waiting(busiest) < at_least {
            return false;
        }
        if take_over(busiest, here) {
            return true;
        }
        others = others - CpuSet::of(busiest);
    }
    false
}

/// At CPU `here`'s tick number `ticks`: takes a task from where at least two more wait than here.
pub(super) fn tick(here: usize, ticks: u32) {
    // Not all CPUs at the same tick.
    if (ticks + 2 * here as u32).is_multiple_of(PERIOD) && !cpu::online().is_single() {
        let mine = waiting(here) + u32::from(running(here) != 0);
        steal(here, mine + 1);
    }
}
