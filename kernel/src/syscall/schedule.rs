//! System calls on the scheduler: policies, priorities, affinity; and prctl.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::mm::tasks::Current;
use crate::task::process::NAME_MAX;
use crate::task::table;
use cpu::atomic::Ordering;
use linux_raw_sys::{general, prctl as options};

/// The task that a call's pid means, 0 for the caller. ESRCH.
fn exists(pid: i32) -> Result<()> {
    if pid < 0 {
        return Err(Errno::EINVAL);
    }
    if pid != 0 && table::find(pid as u32).is_none() {
        return Err(Errno::ESRCH);
    }
    Ok(())
}

/// The priorities of a policy. EINVAL for one that is none.
fn priorities(policy: u32) -> Result<core::ops::RangeInclusive<i32>> {
    match policy & !general::SCHED_RESET_ON_FORK {
        general::SCHED_FIFO | general::SCHED_RR => Ok(1..=99),
        general::SCHED_NORMAL | general::SCHED_BATCH | general::SCHED_IDLE => Ok(0..=0),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn sched_get_priority_max(policy: u32) -> Result<i32> {
    priorities(policy).map(|range| *range.end())
}

pub(super) fn sched_get_priority_min(policy: u32) -> Result<i32> {
    priorities(policy).map(|range| *range.start())
}

pub(super) fn sched_getscheduler(pid: i32) -> Result<i32> {
    exists(pid)?;
    Ok(general::SCHED_NORMAL as i32)
}

pub(super) fn sched_getparam(pid: i32, to: UserPtr<i32>) -> Result<()> {
    if to.is_null() {
        return Err(Errno::EINVAL);
    }
    exists(pid)?;
    to.write(&0)
}

pub(super) fn sched_setaffinity(pid: i32, length: u32, mask: UserPtr<u64>) -> Result<()> {
    exists(pid)?;
    let wanted = match length {
        0 => 0,
        1..8 => u64::from(UserPtr::<u8>::new(mask.address()).read()?),
        _ => mask.read()?,
    };
    if wanted & ((1 << cpu::possible()) - 1) == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// The processes that `which` and `who` mean: all have nice value 0 until they say otherwise. ESRCH, EINVAL.
fn nice_of(which: u32, who: u32) -> Result<crate::mm::shared::Shared<crate::task::process::Process>> {
    let current = Current::get();
    match which {
        general::PRIO_PROCESS if who == 0 => Ok(current.process.clone()),
        general::PRIO_PROCESS => table::find(who).map(|task| task.process.clone()).ok_or(Errno::ESRCH),
        general::PRIO_PGRP if who == 0 || who == current.process.group() => Ok(current.process.clone()),
        general::PRIO_USER if who == 0 || who == current.process.credentials().uid => Ok(current.process.clone()),
        general::PRIO_PGRP | general::PRIO_USER => Err(Errno::ESRCH),
        _ => Err(Errno::EINVAL),
    }
}

/// As Linux's call gives it: 20 less the nice value.
pub(super) fn getpriority(which: u32, who: u32) -> Result<i32> {
    Ok(20 - nice_of(which, who)?.nice.load(Ordering::Relaxed) as i32)
}

pub(super) fn setpriority(which: u32, who: u32, nice: i32) -> Result<()> {
    let process = nice_of(which, who)?;
    let nice = nice.clamp(-20, 19);
    let privileged = Current::get().process.credentials().privileged();
    if nice < process.nice.load(Ordering::Relaxed) as i32 && !privileged {
        return Err(Errno::EACCES);
    }
    process.nice.store(nice as u32, Ordering::Relaxed);
    Ok(())
}

pub(super) fn prctl(option: u32, second: u64, third: u64, fourth: u64, fifth: u64) -> Result<i32> {
    let current = Current::get();
    match option {
        options::PR_SET_NAME => {
            let mut name = [0; NAME_MAX];
            let length = crate::arch::usercopy::strncpy_from_user(&mut name, second)?.unwrap_or(NAME_MAX - 1);
            current.process.set_thread_name(&name[..length]);
            Ok(0)
        }
        options::PR_GET_NAME => {
            let mut name = [0u8; NAME_MAX];
            let known = current.process.name();
            name[..known.len()].copy_from_slice(&known);
            UserPtr::new(second).write(&name).map(|()| 0)
        }
        options::PR_SET_PDEATHSIG if second <= 64 => {
            current.process.death_signal.store(second as u32, Ordering::Relaxed);
            Ok(0)
        }
        options::PR_GET_PDEATHSIG => {
            let signal = current.process.death_signal.load(Ordering::Relaxed);
            UserPtr::new(second).write(&signal).map(|()| 0)
        }
        options::PR_GET_DUMPABLE => Ok(1),
        options::PR_SET_DUMPABLE if second <= 1 => Ok(0),
        options::PR_GET_NO_NEW_PRIVS if second | third | fourth | fifth == 0 => {
            Ok(current.process.no_new_privileges.load(Ordering::Relaxed) as i32)
        }
        options::PR_SET_NO_NEW_PRIVS if second == 1 && third | fourth | fifth == 0 => {
            current.process.no_new_privileges.store(1, Ordering::Relaxed);
            Ok(0)
        }
        // Sleeps are as exact as the tick: nothing to be set.
        options::PR_SET_TIMERSLACK => Ok(0),
        options::PR_GET_TIMERSLACK => Ok(50_000),
        _ => Err(Errno::EINVAL),
    }
}
