//! System calls on timers: alarm, setitimer, timer_create and its relatives.

use super::errno::{Errno, Result};
use super::time::Timeval;
use super::user::UserPtr;
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::task::signal::Signal;
use crate::task::timers::{self, Notify, Setting, Timer, Which};
use crate::task::{clock, table};
use crate::user_struct;
use linux_raw_sys::general;

user_struct! {
    /// `struct itimerval`
    pub(super) struct IntervalValue {
        interval: Timeval,
        value: Timeval,
    }
}

user_struct! {
    /// `struct itimerspec`
    pub(super) struct TimerSpec {
        interval: Timespec,
        value: Timespec,
    }
}

user_struct! {
    /// `struct sigevent`
    pub(super) struct Event {
        value: u64,
        signal: i32,
        notify: u32,
        task: i32,
        rest: [u32; 11],
    }
}
const _: () = assert!(size_of::<Event>() == 64);

/// Nanoseconds of a `struct timeval`. EINVAL.
fn nanoseconds(value: Timeval) -> Result<u64> {
    if value.seconds < 0 || !(0..1_000_000).contains(&value.microseconds) {
        return Err(Errno::EINVAL);
    }
    Ok((value.seconds as u64)
        .saturating_mul(clock::SECOND)
        .saturating_add(value.microseconds as u64 * 1000))
}

fn timeval(nanoseconds: u64) -> Timeval {
    let microseconds = nanoseconds.div_ceil(1000);
    Timeval {
        seconds: (microseconds / 1_000_000) as i64,
        microseconds: (microseconds % 1_000_000) as i64,
    }
}

fn interval_value(setting: Setting) -> IntervalValue {
    IntervalValue {
        interval: timeval(setting.interval),
        value: timeval(setting.left),
    }
}

/// Starts an interval timer, made if need be: what was left of it. All three count real time: a process's own time is not
/// measured.
fn set_interval(which: u32, value: u64, interval: u64) -> Result<Setting> {
    let signal = match which {
        general::ITIMER_REAL => Signal::SIGALRM,
        general::ITIMER_VIRTUAL => Signal::SIGVTALRM,
        general::ITIMER_PROF => Signal::SIGPROF,
        _ => return Err(Errno::EINVAL),
    };
    let current = Current::get();
    let deadline = match value {
        0 => 0,
        value => clock::monotonic().saturating_add(value),
    };
    match timers::set(&current, Which::Interval(which), deadline, interval) {
        Ok(before) => Ok(before),
        Err(_) if deadline == 0 => Ok(Setting::default()),
        Err(_) => {
            timers::add(Timer {
                pid: current.process.pid,
                which: Which::Interval(which),
                realtime: false,
                notify: Notify::Process(signal),
                value: 0,
                deadline,
                interval,
                overruns: 0,
            })?;
            Ok(Setting::default())
        }
    }
}

pub(super) fn alarm(seconds: u32) -> Result<usize> {
    let before = set_interval(general::ITIMER_REAL, u64::from(seconds) * clock::SECOND, 0)?;
    // Rounded, but never to 0 where the timer ran.
    let rounded = (before.left + clock::SECOND / 2) / clock::SECOND;
    Ok(rounded.max(u64::from(before.left != 0)) as usize)
}

pub(super) fn setitimer(which: u32, new: UserPtr<IntervalValue>, old: UserPtr<IntervalValue>) -> Result<()> {
    let (value, interval) = match new.optional() {
        None => (0, 0),
        Some(new) => {
            let new = new.read()?;
            (nanoseconds(new.value)?, nanoseconds(new.interval)?)
        }
    };
    let before = set_interval(which, value, interval)?;
    match old.optional() {
        Some(old) => old.write(&interval_value(before)),
        None => Ok(()),
    }
}

pub(super) fn getitimer(which: u32, to: UserPtr<IntervalValue>) -> Result<()> {
    if which > general::ITIMER_PROF {
        return Err(Errno::EINVAL);
    }
    let setting = timers::get(&Current::get(), Which::Interval(which)).unwrap_or_default();
    to.write(&interval_value(setting))
}

pub(super) fn timer_create(id: u32, event: UserPtr<Event>, to: UserPtr<i32>) -> Result<()> {
    super::time::now(id)?;
    let current = Current::get();
    let pid = current.process.pid;
    let event = event.optional().map(UserPtr::read).transpose()?;
    let notify = match event {
        None => Notify::Process(Signal::SIGALRM),
        Some(event) => {
            let signal = || Signal::new(event.signal as u32).ok_or(Errno::EINVAL);
            match event.notify {
                general::SIGEV_NONE => Notify::Nobody,
                general::SIGEV_SIGNAL | general::SIGEV_THREAD => Notify::Process(signal()?),
                general::SIGEV_THREAD_ID => {
                    let task = table::find(event.task as u32).filter(|task| task.process.pid == pid);
                    Notify::Task(task.ok_or(Errno::EINVAL)?.tid, signal()?)
                }
                _ => return Err(Errno::EINVAL),
            }
        }
    };
    let number = timers::add(Timer {
        pid,
        which: Which::Posix(0),
        realtime: id == general::CLOCK_REALTIME || id == general::CLOCK_TAI,
        notify,
        value: event.map_or(0, |event| event.value),
        deadline: 0,
        interval: 0,
        overruns: 0,
    })
    .map_err(|_| Errno::EAGAIN)?;
    if event.is_none() {
        // By default the signal carries the timer's number.
        timers::with(&current, Which::Posix(number), |timer| timer.value = number as u64)?;
    }
    to.write(&number).inspect_err(|_| {
        timers::remove(pid, |which| which == Which::Posix(number));
    })
}

fn timer_spec(setting: Setting) -> TimerSpec {
    TimerSpec {
        interval: Timespec::from_nanoseconds(setting.interval),
        value: Timespec::from_nanoseconds(setting.left),
    }
}

pub(super) fn timer_settime(number: i32, flags: u32, new: UserPtr<TimerSpec>, old: UserPtr<TimerSpec>) -> Result<()> {
    if new.is_null() {
        return Err(Errno::EINVAL);
    }
    let new = new.read()?;
    let (value, interval) = (new.value.to_nanoseconds()?, new.interval.to_nanoseconds()?);
    let current = Current::get();
    let which = Which::Posix(number);
    let realtime = timers::with(&current, which, |timer| timer.realtime)?;
    let deadline = match (value, flags & general::TIMER_ABSTIME != 0) {
        (0, _) => 0,
        (value, false) => clock::monotonic().saturating_add(value),
        (value, true) if realtime => clock::monotonic_of(value).max(1),
        (value, true) => value,
    };
    let before = timers::set(&current, which, deadline, interval)?;
    match old.optional() {
        Some(old) => old.write(&timer_spec(before)),
        None => Ok(()),
    }
}

pub(super) fn timer_gettime(number: i32, to: UserPtr<TimerSpec>) -> Result<()> {
    let setting = timers::get(&Current::get(), Which::Posix(number))?;
    to.write(&timer_spec(setting))
}

pub(super) fn timer_getoverrun(number: i32) -> Result<i32> {
    timers::with(&Current::get(), Which::Posix(number), |timer| timer.overruns as i32)
}

pub(super) fn timer_delete(number: i32) -> Result<()> {
    match timers::remove(Current::get().process.pid, |which| which == Which::Posix(number)) {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}
