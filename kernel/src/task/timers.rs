//! Timers of programs: setitimer(2), timer_create(2). When one runs out its process or task gets a signal.
//!
//! All of them are in one list. A task of the kernel sleeps until the first deadline and sends what is due: sending takes
//! memory and locks that an interrupt must not take. A timer is as exact as the tick.
//!
//! **Lock order.** The list's lock has rank 9; signals are sent after it.

use super::signal::{self, Info, Signal};
use super::task::Pid;
use super::{clock, schedule_until, table};
use crate::arch::once::BootCell;
use crate::mm::shared::OutOfMemory;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use alloc::vec::Vec;
use cpu::SpinLock;

/// Which timer of its process one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// setitimer(2)'s, by its number (`ITIMER_*`).
    Interval(u32),
    /// timer_create(2)'s, by its number.
    Posix(i32),
}

/// Whom a timer tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notify {
    /// Nobody.
    Nobody,
    /// The process, by this signal.
    Process(Signal),
    /// One of its tasks.
    Task(Pid, Signal),
}

/// A timer.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Its process.
    pub pid: Pid,
    /// Its name.
    pub which: Which,
    /// Whether its absolute times are CLOCK_REALTIME's.
    pub realtime: bool,
    /// Whom it tells.
    pub notify: Notify,
    /// What the signal carries.
    pub value: u64,
    /// When it runs out, in nanoseconds since boot; 0 while it does not run.
    pub deadline: u64,
    /// Nanoseconds after which it runs out again; 0 for never.
    pub interval: u64,
    /// How often it ran out besides the signal that was sent last.
    pub overruns: u32,
}

/// What is left of a timer: nanoseconds to its end, 0 where it does not run, and its interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// To the end.
    pub left: u64,
    /// From then on.
    pub interval: u64,
}

impl Timer {
    fn setting(&self) -> Setting {
        Setting {
            // One that is due shows as running still.
            left: match self.deadline {
                0 => 0,
                deadline => deadline.saturating_sub(clock::monotonic()).max(1),
            },
            interval: self.interval,
        }
    }

    /// Notes that it has run out by `now`.
    fn run_out(&mut self, now: u64) {
        let late = now - self.deadline;
        match late.checked_div(self.interval) {
            None => (self.deadline, self.overruns) = (0, 0),
            Some(missed) => {
                self.overruns = missed.min(i32::MAX as u64) as u32;
                self.deadline += (missed + 1) * self.interval;
            }
        }
    }

    fn info(&self, signal: Signal) -> Info {
        match self.which {
            Which::Interval(_) => Info::kernel(signal),
            Which::Posix(id) => Info::timer(signal, id, self.overruns as i32, self.value),
        }
    }

    /// Sends its signal. False where the one before still waits.
    fn tell(&self) -> bool {
        match self.notify {
            Notify::Nobody => true,
            Notify::Process(signal) => table::find_process(self.pid).is_none_or(|process| {
                let waits = process.signals.pending.bits() & signal.bit() != 0;
                !waits && signal::send_to_process(&process, self.info(signal)).is_ok()
            }),
            Notify::Task(tid, signal) => table::find(tid).is_none_or(|task| {
                let waits = task.pending.bits() & signal.bit() != 0;
                !waits && signal::send_to_task(&task, self.info(signal)).is_ok()
            }),
        }
    }
}

static TIMERS: SpinLock<Vec<Timer>> = SpinLock::new(9, Vec::new());

/// Runs `f` on a timer of the running process. EINVAL where there is none.
pub fn with<R>(current: &Current, which: Which, f: impl FnOnce(&mut Timer) -> R) -> Result<R> {
    let mut timers = TIMERS.lock();
    let timer = timers
        .iter_mut()
        .find(|timer| timer.pid == current.process.pid && timer.which == which)
        .ok_or(Errno::EINVAL)?;
    Ok(f(timer))
}

/// What is left of a timer.
pub fn get(current: &Current, which: Which) -> Result<Setting> {
    with(current, which, |timer| timer.setting())
}

/// Starts a timer, which runs out at `deadline` (0: it does not run), then after each `interval`: what was left of it.
pub fn set(current: &Current, which: Which, deadline: u64, interval: u64) -> Result<Setting> {
    let before = with(current, which, |timer| {
        let before = timer.setting();
        timer.deadline = deadline;
        timer.interval = interval;
        timer.overruns = 0;
        before
    })?;
    wake_worker();
    Ok(before)
}

/// Adds a timer. A POSIX timer gets a free number of its process, which is given.
pub fn add(mut timer: Timer) -> core::result::Result<i32, OutOfMemory> {
    let mut timers = TIMERS.lock();
    timers.try_reserve(1).map_err(|_| OutOfMemory)?;
    let mut number = 0;
    if let Which::Posix(_) = timer.which {
        while timers
            .iter()
            .any(|other| other.pid == timer.pid && other.which == Which::Posix(number))
        {
            number += 1;
        }
        timer.which = Which::Posix(number);
    }
    timers.push(timer);
    drop(timers);
    wake_worker();
    Ok(number)
}

/// Takes timers of a process away: at its end, or one. Whether there were any.
pub fn remove(pid: Pid, which: impl Fn(Which) -> bool) -> bool {
    let mut timers = TIMERS.lock();
    let before = timers.len();
    timers.retain(|timer| timer.pid != pid || !which(timer.which));
    let changed = timers.len() != before;
    if timers.is_empty() {
        *timers = Vec::new();
    }
    drop(timers);
    changed
}

/// Sends what is due by `now`; when the next one is.
fn expire(now: u64) -> Option<u64> {
    loop {
        let due = {
            let mut timers = TIMERS.lock();
            let due = timers
                .iter_mut()
                .find(|timer| timer.deadline != 0 && timer.deadline <= now);
            let Some(timer) = due else {
                let running = timers.iter().filter(|timer| timer.deadline != 0);
                return running.map(|timer| timer.deadline).min();
            };
            timer.run_out(now);
            *timer
        };
        if !due.tell() {
            // The signal before still waits: this end counts with it.
            let mut timers = TIMERS.lock();
            let same = |timer: &&mut Timer| timer.pid == due.pid && timer.which == due.which;
            if let Some(timer) = timers.iter_mut().find(same) {
                timer.overruns = timer.overruns.saturating_add(1);
            }
        }
    }
}

/// The task that waits for timers.
static WORKER: BootCell<&'static super::Task> = BootCell::new();

/// Notes which task runs [`work`].
pub(super) fn start(worker: &'static super::Task) {
    WORKER.set(worker);
}

fn wake_worker() {
    if let Some(worker) = WORKER.get() {
        super::wake(worker);
    }
}

/// What that task does.
pub(super) fn work() {
    let current = Current::get();
    loop {
        // Announced before the look: a timer that is set meanwhile ends the sleep.
        current.prepare_to_wait();
        let next = expire(clock::monotonic());
        schedule_until(next);
    }
}
