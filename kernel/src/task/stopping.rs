//! Standing still and going on: SIGSTOP and its relatives, SIGCONT.
//!
//! A process is stopped as a whole: the task that acts on the signal says so and calls the others; each goes to sleep
//! before it would enter its program. SIGCONT ends that when it is sent, whatever is done about it.

use super::signal::Signal;
use super::{family, table, wake};
use crate::mm::tasks::Current;
use cpu::atomic::{AtomicU32, Ordering};

/// Whether a process stands still, and what its parent has not heard of yet.
pub struct Stopping {
    /// The signal by which it stands still; 0 when it runs.
    by: AtomicU32,
    /// The signal of a stop that is not reported yet; 0 for none.
    stopped: AtomicU32,
    /// Whether going on is not reported yet.
    continued: AtomicU32,
}

impl Stopping {
    /// It runs.
    pub const fn new() -> Stopping {
        Stopping {
            by: AtomicU32::new(0),
            stopped: AtomicU32::new(0),
            continued: AtomicU32::new(0),
        }
    }

    /// Whether it stands still.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.by.load(Ordering::Acquire) != 0
    }

    /// A stop that the parent has not heard of; afterwards it has, unless `keep`.
    pub fn take_stopped(&self, keep: bool) -> Option<Signal> {
        Signal::new(take(&self.stopped, keep))
    }

    /// Whether the parent has not heard that it goes on.
    pub fn take_continued(&self, keep: bool) -> bool {
        take(&self.continued, keep) != 0
    }

    /// It goes on; whether it stood still. Its tasks are to be woken.
    pub(super) fn resume(&self) -> bool {
        let stood = self.by.swap(0, Ordering::AcqRel) != 0;
        if stood {
            self.stopped.store(0, Ordering::Relaxed);
            self.continued.store(1, Ordering::Relaxed);
        }
        stood
    }
}

fn take(word: &AtomicU32, keep: bool) -> u32 {
    if keep {
        word.load(Ordering::Acquire)
    } else {
        word.swap(0, Ordering::AcqRel)
    }
}

/// Stops the running process by `signal`.
pub(super) fn stop(current: &Current, signal: Signal) {
    let process = &current.process;
    let number = u32::from(signal.number());
    process.stopping.continued.store(0, Ordering::Relaxed);
    process.stopping.stopped.store(number, Ordering::Relaxed);
    process.stopping.by.store(number, Ordering::Release);
    table::each_task_of(process.pid, |task| {
        if task.tid != current.tid {
            super::signal::alert(task);
        }
    });
    family::tell_parent(process, family::Change::Stopped(signal));
    stand_still(current);
}

/// Sleeps while the running process is stopped.
pub(super) fn stand_still(current: &Current) {
    let stopping = &current.process.stopping;
    while stopping.is_stopped() {
        current.prepare_to_wait();
        if !stopping.is_stopped() || current.must_end() {
            current.cancel_sleep();
            break;
        }
        super::schedule();
    }
    if stopping.continued.load(Ordering::Relaxed) != 0 && current.tid == current.process.pid && !current.must_end() {
        family::tell_parent(&current.process, family::Change::Continued);
    }
}

/// Ends the sleep of the tasks of a process that has been resumed. Under the table's lock.
pub(super) fn wake_all(table: &table::Table, pid: super::Pid) {
    for task in table.tasks_of(pid) {
        wake(task);
    }
}
