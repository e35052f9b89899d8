//! System calls on clocks and sleep.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::task::{self, clock};
use crate::user_struct;
use linux_raw_sys::general;

/// What clock `id` shows, in nanoseconds. EINVAL for a clock that is none.
fn now(id: u32) -> Result<u64> {
    match id {
        general::CLOCK_REALTIME | general::CLOCK_REALTIME_COARSE => Ok(clock::realtime()),
        // There is no leap second offset.
        general::CLOCK_TAI => Ok(clock::realtime()),
        general::CLOCK_MONOTONIC
        | general::CLOCK_MONOTONIC_RAW
        | general::CLOCK_MONOTONIC_COARSE
        | general::CLOCK_BOOTTIME => Ok(clock::monotonic()),
        general::CLOCK_PROCESS_CPUTIME_ID | general::CLOCK_THREAD_CPUTIME_ID => {
            Ok(clock::monotonic() - Current::get().process.started)
        }
        _ => Err(Errno::EINVAL),
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
    let seconds = (clock::realtime() / clock::SECOND) as i64;
    if let Some(to) = to.optional() {
        to.write(&seconds)?;
    }
    Ok(seconds)
}

pub(super) fn nanosleep(wanted: UserPtr<Timespec>, rest: UserPtr<Timespec>) -> Result<()> {
    sleep(wanted.read()?, rest)
}

pub(super) fn clock_nanosleep(id: u32, flags: u32, wanted: UserPtr<Timespec>, rest: UserPtr<Timespec>) -> Result<()> {
    let now = now(id)?;
    if id == general::CLOCK_THREAD_CPUTIME_ID {
        return Err(Errno::EINVAL);
    }
    let wanted = wanted.read()?;
    if flags & general::TIMER_ABSTIME == 0 {
        return sleep(wanted, rest);
    }
    let wait = wanted.to_nanoseconds()?.saturating_sub(now);
    sleep_until(clock::monotonic().saturating_add(wait)).map_err(|_| Errno::EINTR)
}

fn sleep(wanted: Timespec, rest: UserPtr<Timespec>) -> Result<()> {
    let deadline = clock::monotonic().saturating_add(wanted.to_nanoseconds()?);
    sleep_until(deadline).or_else(|left| {
        if let Some(rest) = rest.optional() {
            rest.write(&Timespec::from_nanoseconds(left))?;
        }
        Err(Errno::EINTR)
    })
}

/// Sleeps until then; a signal ends it with what is left.
fn sleep_until(deadline: u64) -> core::result::Result<(), u64> {
    let current = Current::get();
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
