//! CPU time of tasks and processes, as Linux counts it by default (`TICK_CPU_ACCOUNTING`).
//!
//! *How long* is exact: a CPU reads its clock when it changes from one task to another, and adds what has passed to the
//! task and to its process. *Where*, in the program or in the kernel, is a sample: each tick counts for the side that it
//! interrupts. The exact time is shown divided in the proportion of the samples ([`CpuTime::split`]). So a system call
//! pays nothing.
//!
//! A task's own time and its process's are brought up to date before they are read ([`update`]). What other CPUs are
//! running at that moment is missing from a process's time: less than a tick for each of its tasks.

use super::task::Task;
use super::{clock, process::Process};
use crate::mm::tasks::Current;
use core::ops::AddAssign;
use cpu::SpinLock;
use cpu::atomic::{AtomicU64, Ordering};

/// The CPU time of a task, or of all tasks that a process has had.
pub struct CpuTime {
    /// Nanoseconds. Written by the CPU that runs the task (a process's: by several), interrupts off.
    runtime: AtomicU64,
    /// Nanoseconds since boot up to which `runtime` counts; a task's only. Written like it.
    since: AtomicU64,
    /// Ticks that interrupted the program.
    user: AtomicU64,
    /// Ticks that interrupted the kernel on its behalf.
    system: AtomicU64,
    /// Switches away because it went to sleep.
    voluntary: AtomicU64,
    /// Switches away although it wanted to go on.
    involuntary: AtomicU64,
    /// Page faults without input or output.
    faults: AtomicU64,
    /// The division shown last, user's and system's nanoseconds: neither part ever goes back.
    shown: SpinLock<(u64, u64)>,
}

/// What getrusage(2) tells of a task, a process, or a process's children.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds in the program.
    pub user: u64,
    /// Nanoseconds in the kernel.
    pub system: u64,
    /// Page faults without input or output.
    pub faults: u64,
    /// Voluntary switches.
    pub voluntary: u64,
    /// Involuntary switches.
    pub involuntary: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        self.user += more.user;
        self.system += more.system;
        self.faults += more.faults;
        self.voluntary += more.voluntary;
        self.involuntary += more.involuntary;
    }
}

impl CpuTime {
    /// None so far.
    pub const fn new() -> CpuTime {
        CpuTime {
            runtime: AtomicU64::new(0),
            since: AtomicU64::new(0),
            user: AtomicU64::new(0),
            system: AtomicU64::new(0),
            voluntary: AtomicU64::new(0),
            involuntary: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            shown: SpinLock::new(13, (0, 0)),
        }
    }

    /// Nanoseconds on a CPU, up to the last look at the clock.
    pub fn runtime(&self) -> u64 {
        self.runtime.load(Ordering::Relaxed)
    }

    /// Page faults without input or output.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// [`CpuTime::runtime`] divided into the program's and the kernel's part.
    pub fn split(&self) -> (u64, u64) {
        let (user, system) = (self.user.load(Ordering::Relaxed), self.system.load(Ordering::Relaxed));
        let mut shown = self.shown.lock();
        *shown = divide(self.runtime(), user, system, *shown);
        *shown
    }

    /// All that is counted.
    pub fn usage(&self) -> Usage {
        let (user, system) = self.split();
        Usage {
            user,
            system,
            faults: self.faults(),
            voluntary: self.voluntary.load(Ordering::Relaxed),
            involuntary: self.involuntary.load(Ordering::Relaxed),
        }
    }
}

/// Divides `runtime` in the proportion of ticks, neither part below what was shown `before`.
fn divide(runtime: u64, user: u64, system: u64, before: (u64, u64)) -> (u64, u64) {
    if before.0 + before.1 >= runtime {
        return before;
    }
    let of_system = match (user, system) {
        (_, 0) => 0,
        (0, _) => runtime,
        _ => (u128::from(runtime) * u128::from(system) / u128::from(user + system)) as u64,
    };
    let of_system = of_system.max(before.1);
    let of_user = (runtime - of_system).max(before.0);
    (of_user, runtime - of_user)
}

/// Adds the time up to `now` to the task that runs here. Interrupts are off.
fn charge(task: &Task, now: u64) {
    let time = &task.cpu_time;
    let passed = now.saturating_sub(time.since.load(Ordering::Relaxed));
    time.since.store(now, Ordering::Relaxed);
    time.runtime.store(time.runtime() + passed, Ordering::Relaxed);
    task.process.cpu_time.runtime.fetch_add(passed, Ordering::Relaxed);
}

fn count(of: impl Fn(&CpuTime) -> &AtomicU64, task: &Task) {
    of(&task.cpu_time).fetch_add(1, Ordering::Relaxed);
    of(&task.process.cpu_time).fetch_add(1, Ordering::Relaxed);
}

/// This CPU leaves `previous` for `next`. Interrupts are off.
#[inline]
pub(super) fn switch(previous: &Task, next: &Task, voluntary: bool) {
    let now = clock::monotonic();
    if !previous.is_idle() {
        charge(previous, now);
        match voluntary {
            true => count(|time| &time.voluntary, previous),
            false => count(|time| &time.involuntary, previous),
        }
    }
    next.cpu_time.since.store(now, Ordering::Relaxed);
}

/// The tick, which interrupted the program (`user`) or the kernel. Interrupts are off.
pub(super) fn tick(task: &Task, user: bool) {
    if task.is_idle() {
        return;
    }
    charge(task, clock::monotonic());
    match user {
        true => count(|time| &time.user, task),
        false => count(|time| &time.system, task),
    }
}

/// The running task had a page fault without input or output.
pub fn count_fault(current: &Current) {
    count(|time| &time.faults, current);
}

/// Brings the running task's time, and so its process's, up to now.
pub fn update() {
    cpu::without_interrupts(|_| charge(&Current::get(), clock::monotonic()));
}

/// The time of `process`, brought up to date as far as this CPU can.
pub fn of_process(process: &Process) -> &CpuTime {
    update();
    &process.cpu_time
}
