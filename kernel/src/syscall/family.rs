//! System calls on parents, children, groups and sessions.

use super::errno::{Errno, Result};
use super::process::usage;
use super::user::UserPtr;
use crate::mm::tasks::Current;
use crate::task::exit::Exit;
use crate::task::family::{self, Change, Clones, Report, Wanted, Whom};
use crate::task::signal::{Info, Signal};
use crate::task::table;
use linux_raw_sys::general::{self, rusage};

/// Waits as `options` say: `None` where nothing has happened and the caller does not wait.
fn wait(wanted: &Wanted, options: u32) -> Result<Option<Report>> {
    let current = Current::get();
    if options & general::WNOHANG != 0 {
        return family::look(&current.process, wanted);
    }
    family::wait(&current, wanted).map(Some)
}

fn clones(options: u32) -> Clones {
    if options & general::__WALL != 0 {
        Clones::Too
    } else if options & general::__WCLONE != 0 {
        Clones::Only
    } else {
        Clones::No
    }
}

pub(super) fn wait4(pid: i32, status: UserPtr<i32>, options: u32, used: UserPtr<rusage>) -> Result<i32> {
    const KNOWN: u32 = general::WNOHANG
        | general::WUNTRACED
        | general::WCONTINUED
        | general::__WNOTHREAD
        | general::__WCLONE
        | general::__WALL;
    if options & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let whom = match pid {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => Whom::Any,
        0 => Whom::Group(Current::get().process.group()),
        pid if pid < 0 => Whom::Group(-pid as u32),
        pid => Whom::Process(pid as u32),
    };
    let wanted = Wanted {
        whom,
        exited: true,
        stopped: options & general::WUNTRACED != 0,
        continued: options & general::WCONTINUED != 0,
        clones: clones(options),
        keep: false,
    };
    let Some(report) = wait(&wanted, options)? else {
        return Ok(0);
    };
    if let Some(status) = status.optional() {
        status.write(&match report.change {
            Change::Ended(exit) => exit.wait_status() as i32,
            Change::Stopped(signal) => i32::from(signal.number()) << 8 | 0x7f,
            Change::Continued => 0xffff,
        })?;
    }
    if let Some(used) = used.optional() {
        used.write(&usage(report.usage))?;
    }
    Ok(report.pid as i32)
}

pub(super) fn waitid(kind: u32, id: i32, info: UserPtr<[u64; 6]>, options: u32, used: UserPtr<rusage>) -> Result<()> {
    const EVENTS: u32 = general::WEXITED | general::WSTOPPED | general::WCONTINUED;
    const KNOWN: u32 =
        EVENTS | general::WNOHANG | general::WNOWAIT | general::__WNOTHREAD | general::__WCLONE | general::__WALL;
    if options & !KNOWN != 0 || options & EVENTS == 0 {
        return Err(Errno::EINVAL);
    }
    let whom = match kind {
        general::P_ALL => Whom::Any,
        general::P_PID if id > 0 => Whom::Process(id as u32),
        general::P_PGID if id == 0 => Whom::Group(Current::get().process.group()),
        general::P_PGID if id > 0 => Whom::Group(id as u32),
        _ => return Err(Errno::EINVAL),
    };
    let wanted = Wanted {
        whom,
        exited: options & general::WEXITED != 0,
        stopped: options & general::WSTOPPED != 0,
        continued: options & general::WCONTINUED != 0,
        clones: clones(options),
        keep: options & general::WNOWAIT != 0,
    };
    let report = wait(&wanted, options)?;
    if let Some(used) = used.optional()
        && let Some(report) = &report
    {
        used.write(&usage(report.usage))?;
    }
    let Some(to) = info.optional() else {
        return Ok(());
    };
    let Some(report) = report else {
        return to.write(&[0; 6]);
    };
    let (code, status) = match report.change {
        Change::Ended(Exit::Code(code)) => (Info::CLD_EXITED, i32::from(code)),
        Change::Ended(Exit::Signal(signal)) => (Info::CLD_KILLED, signal.number().into()),
        Change::Stopped(signal) => (Info::CLD_STOPPED, signal.number().into()),
        Change::Continued => (Info::CLD_CONTINUED, Signal::SIGCONT.number().into()),
    };
    UserPtr::new(to.address()).write(&Info::child(Signal::SIGCHLD, code, report.pid, report.uid, status))
}

/// The process that a call's `pid` means: 0 is the caller.
fn named(pid: i32) -> u32 {
    match pid {
        0 => Current::get().process.pid,
        pid => pid as u32,
    }
}

pub(super) fn setpgid(pid: i32, group: i32) -> Result<()> {
    if group < 0 {
        return Err(Errno::EINVAL);
    }
    let pid = named(pid);
    let group = if group == 0 { pid } else { group as u32 };
    family::set_group(&Current::get().process, pid, group)
}

pub(super) fn getpgid(pid: i32) -> Result<i32> {
    let process = table::find_process(named(pid)).ok_or(Errno::ESRCH)?;
    Ok(process.group() as i32)
}

pub(super) fn getpgrp() -> u32 {
    Current::get().process.group()
}

pub(super) fn setsid() -> Result<i32> {
    family::new_session(&Current::get().process).map(|session| session as i32)
}

pub(super) fn getsid(pid: i32) -> Result<i32> {
    let process = table::find_process(named(pid)).ok_or(Errno::ESRCH)?;
    Ok(process.session() as i32)
}
