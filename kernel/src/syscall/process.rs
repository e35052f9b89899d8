//! System calls on the process itself: numbers, limits, thread state, its end.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::arch;
use crate::arch::layout::USER_END;
use crate::mm::tasks::Current;
use crate::task::cputime::{self, Usage};
use crate::task::credentials::Credentials;
use crate::task::exit::{self, Exit};
use crate::task::process::Process;
use crate::task::{self, clock, table};
use crate::user_struct;
use core::convert::Infallible;
use linux_raw_sys::general::{self, rlimit64, rusage};

pub(super) fn exit(status: i32) -> Result<Infallible> {
    let current = Current::get();
    if current.tid == current.process.pid {
        current.process.set_first_status(status as u8);
    }
    exit::exit_task()
}

pub(super) fn exit_group(status: i32) -> Result<Infallible> {
    exit::exit_group(Exit::Code(status as u8))
}

#[inline(always)]
pub(super) fn getpid() -> u32 {
    Current::get().process.pid
}

#[inline(always)]
pub(super) fn gettid() -> u32 {
    Current::get().tid
}

#[inline(always)]
pub(super) fn getppid() -> u32 {
    Current::get().process.parent()
}

fn credentials() -> Credentials {
    Current::get().process.credentials()
}

pub(super) fn getuid() -> u32 {
    credentials().uid
}

pub(super) fn geteuid() -> u32 {
    credentials().euid
}

pub(super) fn getgid() -> u32 {
    credentials().gid
}

pub(super) fn getegid() -> u32 {
    credentials().egid
}

pub(super) fn set_tid_address(word: u64) -> u32 {
    let current = Current::get();
    current.own().clear_child_tid.set(word);
    current.tid
}

/// Size of `struct robust_list_head`.
const ROBUST_HEAD: usize = 24;

pub(super) fn set_robust_list(head: u64, length: usize) -> Result<()> {
    if length != ROBUST_HEAD {
        return Err(Errno::EINVAL);
    }
    Current::get().own().robust_list.set((head, length));
    Ok(())
}

pub(super) fn rseq(area: u64, length: u32, flags: u32, signature: u32) -> Result<()> {
    task::rseq::register(&Current::get(), area, length, flags, signature)
}

const ARCH_SET_GS: u32 = 0x1001;
const ARCH_SET_FS: u32 = 0x1002;
const ARCH_GET_FS: u32 = 0x1003;
const ARCH_GET_GS: u32 = 0x1004;

pub(super) fn arch_prctl(code: u32, argument: u64) -> Result<()> {
    match code {
        ARCH_SET_FS | ARCH_SET_GS if argument >= USER_END => Err(Errno::EPERM),
        ARCH_SET_FS => {
            arch::user::set_fs_base(argument);
            Ok(())
        }
        ARCH_SET_GS => {
            arch::user::set_gs_base(argument);
            Ok(())
        }
        ARCH_GET_FS => UserPtr::new(argument).write(&arch::user::fs_base()),
        ARCH_GET_GS => UserPtr::new(argument).write(&arch::user::gs_base()),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn getrlimit(resource: u32, to: UserPtr<rlimit64>) -> Result<()> {
    let limits = Current::get().process.with_limits(|limits| *limits);
    to.write(&limits.get(resource as usize).ok_or(Errno::EINVAL)?)
}

pub(super) fn setrlimit(resource: u32, from: UserPtr<rlimit64>) -> Result<()> {
    let new = from.read()?;
    set_limit(&Current::get().process, resource, new).map(drop)
}

pub(super) fn prlimit64(pid: u32, resource: u32, new: UserPtr<rlimit64>, old: UserPtr<rlimit64>) -> Result<()> {
    let current = Current::get();
    let new = new.optional().map(UserPtr::read).transpose()?;
    let process = match pid {
        0 => current.process.clone(),
        _ => table::find(pid).ok_or(Errno::ESRCH)?.process.clone(),
    };
    let (mine, theirs) = (current.process.credentials(), process.credentials());
    let same = [theirs.uid, theirs.euid, theirs.suid]
        .iter()
        .all(|&uid| uid == mine.uid)
        && [theirs.gid, theirs.egid, theirs.sgid]
            .iter()
            .all(|&gid| gid == mine.gid);
    if process.pid != current.process.pid && !same && !mine.privileged() {
        return Err(Errno::EPERM);
    }
    let before = match new {
        Some(new) => set_limit(&process, resource, new)?,
        None => process
            .with_limits(|limits| limits.get(resource as usize))
            .ok_or(Errno::EINVAL)?,
    };
    match old.optional() {
        Some(old) => old.write(&before),
        None => Ok(()),
    }
}

/// Sets a limit of `process`; gives the one before. EINVAL, EPERM as setrlimit(2).
fn set_limit(process: &Process, resource: u32, new: rlimit64) -> Result<rlimit64> {
    if new.rlim_cur > new.rlim_max {
        return Err(Errno::EINVAL);
    }
    let privileged = Current::get().process.credentials().privileged();
    process.with_limits(|limits| {
        let old = limits.get(resource as usize).ok_or(Errno::EINVAL)?;
        if new.rlim_max > old.rlim_max && !privileged {
            return Err(Errno::EPERM);
        }
        if resource == general::RLIMIT_NOFILE && new.rlim_max > crate::fs::descriptor::MAX {
            return Err(Errno::EPERM);
        }
        limits.set(resource as usize, new);
        Ok(old)
    })
}

pub(super) fn sched_yield() -> Result<()> {
    task::scheduler::yield_now();
    Ok(())
}

pub(super) fn getcpu(cpu: UserPtr<u32>, node: UserPtr<u32>) -> Result<()> {
    if let Some(cpu) = cpu.optional() {
        cpu.write(&(cpu::id() as u32))?;
    }
    if let Some(node) = node.optional() {
        node.write(&0)?;
    }
    Ok(())
}

/// Ticks of times(2) in a second (`USER_HZ`).
pub(crate) const CLOCK_TICKS: u64 = 100;

user_struct! {
    /// `struct tms`
    pub(super) struct Times {
        user: i64,
        system: i64,
        children_user: i64,
        children_system: i64,
    }
}

pub(super) fn times(to: UserPtr<Times>) -> Result<i64> {
    let now = clock::monotonic();
    let ticks = |nanoseconds: u64| (nanoseconds / (clock::SECOND / CLOCK_TICKS)) as i64;
    if let Some(to) = to.optional() {
        let process = &Current::get().process;
        let (user, system) = cputime::of_process(process).split();
        let children = process.children_usage();
        to.write(&Times {
            user: ticks(user),
            system: ticks(system),
            children_user: ticks(children.user),
            children_system: ticks(children.system),
        })?;
    }
    Ok(ticks(now))
}

pub(super) fn getrusage(who: i32, to: UserPtr<rusage>) -> Result<()> {
    let current = Current::get();
    /// `RUSAGE_SELF`, `RUSAGE_THREAD` and `RUSAGE_CHILDREN`.
    const SELF: i32 = general::RUSAGE_SELF as i32;
    const THREAD: i32 = general::RUSAGE_THREAD as i32;
    const CHILDREN: i32 = general::RUSAGE_CHILDREN;
    let used = match who {
        SELF => cputime::of_process(&current.process).usage(),
        THREAD => {
            cputime::update();
            current.cpu_time.usage()
        }
        CHILDREN => current.process.children_usage(),
        _ => return Err(Errno::EINVAL),
    };
    to.write(&usage(used))
}

/// `used` as a `struct rusage`.
pub(super) fn usage(used: Usage) -> rusage {
    let time = |nanoseconds: u64| general::__kernel_old_timeval {
        tv_sec: (nanoseconds / clock::SECOND) as i64,
        tv_usec: (nanoseconds % clock::SECOND / 1000) as i64,
    };
    rusage {
        ru_utime: time(used.user),
        ru_stime: time(used.system),
        ru_maxrss: 0,
        ru_ixrss: 0,
        ru_idrss: 0,
        ru_isrss: 0,
        ru_minflt: used.faults as i64,
        ru_majflt: 0,
        ru_nswap: 0,
        ru_inblock: 0,
        ru_oublock: 0,
        ru_msgsnd: 0,
        ru_msgrcv: 0,
        ru_nsignals: 0,
        ru_nvcsw: used.voluntary as i64,
        ru_nivcsw: used.involuntary as i64,
    }
}
