//! System calls on clocks and sleep.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::task::cputime::{self, CpuTime};
use crate::task::deliver::Restart;
use crate::task::{self, clock, signal, table};
use crate::user_struct;
use linux_raw_sys::general;

/// What clock `id` shows, in nanoseconds. EINVAL for a clock that is none.
pub(super) fn now(id: u32) -> Result<u64> {
    match id {
        // There is no leap second offset.
        general::CLOCK_REALTIME
        | general::CLOCK_REALTIME_COARSE
        | general::CLOCK_REALTIME_ALARM
        | general::CLOCK_TAI => Ok(clock::realtime()),
        general::CLOCK_MONOTONIC
        | general::CLOCK_MONOTONIC_RAW
        | general::CLOCK_MONOTONIC_COARSE
        | general::CLOCK_BOOTTIME
        | general::CLOCK_BOOTTIME_ALARM => Ok(clock::monotonic()),
        general::CLOCK_PROCESS_CPUTIME_ID => Ok(cputime::of_process(&Current::get().process).runtime()),
        general::CLOCK_THREAD_CPUTIME_ID => {
            cputime::update();
            Ok(Current::get().cpu_time.runtime())
        }
        id if (id as i32) < 0 => cpu_clock(id),
        _ => Err(Errno::EINVAL),
    }
}

/// The bit of a CPU-time clock's number that says: of one thread.
const PER_THREAD: u32 = 4;
/// The kinds of clock with a negative number, in its lowest two bits: both parts, the program's, and exact time; a
/// descriptor's, of which there are none.
const BOTH: u32 = 0;
const USER: u32 = 1;
const EXACT: u32 = 2;
const DESCRIPTOR: u32 = 3;

/// What a CPU-time clock with a number of its own shows (clock_getcpuclockid(3), pthread_getcpuclockid(3)): the number is
/// that of a process, or of a thread of the caller's, inverted, and three bits. 0 is the caller's own.
fn cpu_clock(id: u32) -> Result<u64> {
    let number = !(id as i32 >> 3) as u32;
    let current = Current::get();
    cputime::update();
    let show = |time: &CpuTime| match id & 3 {
        BOTH | EXACT => Ok(time.runtime()),
        USER => Ok(time.split().0),
        _ => Err(Errno::EINVAL),
    };
    match (number, id & PER_THREAD != 0) {
        (0, true) => show(&current.cpu_time),
        (0, false) => show(&current.process.cpu_time),
        (tid, true) => {
            let task = table::find(tid).filter(|task| task.process.pid == current.process.pid);
            show(&task.ok_or(Errno::EINVAL)?.cpu_time)
        }
        (pid, false) => show(&table::find_process(pid).ok_or(Errno::EINVAL)?.cpu_time),
    }
}

/// Whether one can sleep by clock `id`. EOPNOTSUPP.
fn check_sleep(id: u32) -> Result<()> {
    match id {
        general::CLOCK_THREAD_CPUTIME_ID
        | general::CLOCK_MONOTONIC_RAW
        | general::CLOCK_REALTIME_COARSE
        | general::CLOCK_MONOTONIC_COARSE => Err(Errno::EOPNOTSUPP),
        id if (id as i32) < 0 && id & (PER_THREAD | 3) == DESCRIPTOR => Err(Errno::EOPNOTSUPP),
        id if (id as i32) < 0 => Ok(()), // looked at after the time
        _ => now(id).map(drop),
    }
}

pub(super) fn clock_gettime(id: u32, to: UserPtr<Timespec>) -> Result<()> {
    to.write(&Timespec::from_nanoseconds(now(id)?))
}

pub(super) fn clock_getres(id: u32, to: UserPtr<Timespec>) -> Result<()> {
    now(id)?;
    let resolution = match id {
        // Linux reads its coarse clocks at the tick.
        general::CLOCK_REALTIME_COARSE | general::CLOCK_MONOTONIC_COARSE => 4_000_000,
        _ => 1,
    };
    match to.optional() {
        Some(to) => to.write(&Timespec::from_nanoseconds(resolution)),
        None => Ok(()),
    }
}

user_struct! {
    /// `struct timeval`
    pub(super) struct Timeval {
        seconds: i64,
        microseconds: i64,
    }
}

pub(super) fn gettimeofday(to: UserPtr<Timeval>, zone: UserPtr<[i32; 2]>) -> Result<()> {
    if let Some(to) = to.optional() {
        let now = clock::realtime();
        to.write(&Timeval {
            seconds: (now / clock::SECOND) as i64,
            microseconds: (now % clock::SECOND / 1000) as i64,
        })?;
    }
    match zone.optional() {
        Some(zone) => zone.write(&[0, 0]),
        None => Ok(()),
    }
}

pub(super) fn time(to: UserPtr<i64>) -> Result<i64> {
    // As Linux: the time at the last tick, by which files and queues are stamped too.
    let seconds = (clock::coarse() / clock::SECOND) as i64;
    if let Some(to) = to.optional() {
        to.write(&seconds)?;
    }
    Ok(seconds)
}

pub(super) fn nanosleep(wanted: UserPtr<Timespec>, rest: UserPtr<Timespec>) -> Result<()> {
    sleep(wanted.read()?, rest)
}

pub(super) fn clock_nanosleep(id: u32, flags: u32, wanted: UserPtr<Timespec>, rest: UserPtr<Timespec>) -> Result<()> {
    check_sleep(id)?;
    let wanted = wanted.read()?;
    wanted.to_nanoseconds()?;
    let now = now(id)?;
    // No thread can wait for its own CPU time to pass.
    let own = [0, Current::get().tid].map(|tid| !tid << 3 | PER_THREAD);
    if own.contains(&(id & !3)) {
        return Err(Errno::EINVAL);
    }
    if flags & general::TIMER_ABSTIME == 0 {
        return sleep(wanted, rest);
    }
    let wait = wanted.to_nanoseconds()?.saturating_sub(now);
    let current = Current::get();
    sleep_until(&current, clock::monotonic().saturating_add(wait))
        .map_err(|_| signal::interrupted(&current, Errno::ERESTARTNOHAND))
}

fn sleep(wanted: Timespec, rest: UserPtr<Timespec>) -> Result<()> {
    let deadline = clock::monotonic().saturating_add(wanted.to_nanoseconds()?);
    sleep_restartable(deadline, rest)
}

/// Sleeps until then; interrupted, leaves what is left in `rest`, and how to go on.
fn sleep_restartable(deadline: u64, rest: UserPtr<Timespec>) -> Result<()> {
    let current = Current::get();
    sleep_until(&current, deadline).or_else(|left| {
        if let Some(rest) = rest.optional() {
            rest.write(&Timespec::from_nanoseconds(left))?;
        }
        let rest = rest.address();
        current.own().restart.set(Restart::Sleep { deadline, rest });
        Err(signal::interrupted(&current, Errno::ERESTART_RESTARTBLOCK))
    })
}

/// Goes on with the call that a signal without a handler has interrupted.
pub(super) fn restart_syscall() -> Result<i64> {
    match Current::get().own().restart.replace(Restart::None) {
        Restart::None => Err(Errno::EINTR),
        Restart::Sleep { deadline, rest } => sleep_restartable(deadline, UserPtr::new(rest)).map(|()| 0),
        Restart::Futex(wait) => super::futex::wait(wait).map(|()| 0),
    }
}

/// Sleeps until then; a signal ends it with what is left.
fn sleep_until(current: &Current, deadline: u64) -> core::result::Result<(), u64> {
    loop {
        current.prepare_to_sleep();
        if current.signal_pending() {
            current.cancel_sleep();
            return Err(deadline.saturating_sub(clock::monotonic()));
        }
        if task::schedule_until(Some(deadline)) {
            return Ok(());
        }
    }
}
