//! System calls on the scheduler: policies, priorities, affinity; and prctl.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::task::clock::SECOND;
use crate::task::policy::{Policy, Scheduling};
use crate::task::process::NAME_MAX;
use crate::task::{Task, scheduler, table};
use cpu::CpuSet;
use cpu::atomic::Ordering;
use linux_raw_sys::{general, prctl as options};

/// Runs `f` on the task that a call's pid means, 0 for the caller. ESRCH.
fn with_task<R>(pid: i32, f: impl FnOnce(&Task) -> Result<R>) -> Result<R> {
    match pid {
        0 => f(&Current::get()),
        _ => f(&*table::find(pid as u32).ok_or(Errno::ESRCH)?),
    }
}

/// As [`with_task`]; a negative pid is EINVAL.
fn with_valid_task<R>(pid: i32, f: impl FnOnce(&Task) -> Result<R>) -> Result<R> {
    if pid < 0 {
        return Err(Errno::EINVAL);
    }
    with_task(pid, f)
}

/// Whether the caller may change how `task` is scheduled, or where: its own user's, or any with the privilege.
fn owns(task: &Task) -> bool {
    let caller = Current::get().process.credentials();
    let owner = task.process.credentials();
    caller.privileged() || caller.euid == owner.uid || caller.euid == owner.euid
}

/// The priorities of a policy. EINVAL for one that is none.
fn priorities(policy: u32) -> Result<core::ops::RangeInclusive<i32>> {
    if policy == general::SCHED_DEADLINE {
        return Ok(0..=0);
    }
    Policy::new(policy).map(Policy::priorities)
}

pub(super) fn sched_get_priority_max(policy: u32) -> Result<i32> {
    priorities(policy).map(|range| *range.end())
}

pub(super) fn sched_get_priority_min(policy: u32) -> Result<i32> {
    priorities(policy).map(|range| *range.start())
}

pub(super) fn sched_getscheduler(pid: i32) -> Result<i32> {
    with_valid_task(pid, |task| {
        let scheduling = task.scheduling().unpack();
        let reset = if scheduling.reset_on_fork {
            general::SCHED_RESET_ON_FORK
        } else {
            0
        };
        Ok((scheduling.policy as u32 | reset) as i32)
    })
}

pub(super) fn sched_getparam(pid: i32, to: UserPtr<i32>) -> Result<()> {
    if to.is_null() {
        return Err(Errno::EINVAL);
    }
    let priority = with_valid_task(pid, |task| Ok(task.scheduling().unpack().priority))?;
    to.write(&priority.into())
}

/// Gives the task of `pid` a policy and a priority, `None` for the policy that it has. EINVAL for a pair that does not go
/// together, EPERM without the right: more priority than RLIMIT_RTPRIO, or another user's task.
fn set_scheduler(pid: i32, policy: Option<u32>, param: UserPtr<i32>) -> Result<()> {
    if param.is_null() || pid < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = param.read()?;
    with_task(pid, |task| {
        let before = task.scheduling().unpack();
        let (policy, reset_on_fork) = match policy {
            None => (before.policy, before.reset_on_fork),
            Some(number) => (
                Policy::new(number & !general::SCHED_RESET_ON_FORK)?,
                number & general::SCHED_RESET_ON_FORK != 0,
            ),
        };
        if !policy.priorities().contains(&priority) {
            return Err(Errno::EINVAL);
        }
        let wanted = Scheduling {
            policy,
            priority: priority as u8,
            reset_on_fork,
        };
        if !Current::get().process.credentials().privileged() {
            let limit = task.process.limit(general::RLIMIT_RTPRIO);
            let raised = policy.is_realtime()
                && (policy != before.policy && limit == 0
                    || wanted.priority > before.priority && u64::from(wanted.priority) > limit);
            let leaves_idle = before.policy == Policy::Idle && policy != Policy::Idle;
            let forgets = before.reset_on_fork && !reset_on_fork;
            if raised || leaves_idle || forgets || !owns(task) {
                return Err(Errno::EPERM);
            }
        }
        scheduler::set_scheduling(task, wanted);
        Ok(())
    })
}

pub(super) fn sched_setscheduler(pid: i32, policy: i32, param: UserPtr<i32>) -> Result<()> {
    if policy < 0 {
        return Err(Errno::EINVAL);
    }
    set_scheduler(pid, Some(policy as u32), param)
}

pub(super) fn sched_setparam(pid: i32, param: UserPtr<i32>) -> Result<()> {
    set_scheduler(pid, None, param)
}

/// The length of a task's turns; 0 for one that has no end. Ours are counted in ticks.
pub(super) fn sched_rr_get_interval(pid: i32, to: UserPtr<Timespec>) -> Result<()> {
    let ticks = with_valid_task(pid, |task| {
        Ok(task
            .scheduling()
            .slice(task.process.nice.load(Ordering::Relaxed) as i32))
    })?;
    let tick = SECOND / u64::from(crate::task::system().options.tick);
    to.write(&Timespec::from_nanoseconds(u64::from(ticks.unwrap_or(0)) * tick))
}

pub(super) fn sched_setaffinity(pid: i32, length: u32, mask: UserPtr<u64>) -> Result<()> {
    let mut bytes = [0u8; 8];
    let known = bytes.len().min(length as usize);
    crate::arch::usercopy::copy_from_user(&mut bytes[..known], mask.address())?;
    let wanted = CpuSet::from_bits(u64::from_le_bytes(bytes));
    with_task(pid, |task| {
        if !owns(task) {
            return Err(Errno::EPERM);
        }
        if (wanted & cpu::online()).is_empty() {
            return Err(Errno::EINVAL);
        }
        scheduler::set_affinity(task, wanted);
        Ok(())
    })
}

pub(super) fn sched_getaffinity(pid: i32, length: u32, mask: UserPtr<u64>) -> Result<usize> {
    let length = length as usize;
    if length * 8 < cpu::possible() || !length.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let set = with_task(pid, |task| Ok(task.affinity() & cpu::online()))?;
    mask.write(&set.bits())?;
    Ok(8)
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
