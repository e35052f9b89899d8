//! System calls on signals.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::mm::tasks::Current;
use crate::task::signal::{self, Action, Signal, UNBLOCKABLE};
use crate::task::table;
use linux_raw_sys::general;

/// Bytes of a set of signals.
const SET: usize = 8;

pub(super) fn rt_sigaction(number: u32, new: UserPtr<Action>, old: UserPtr<Action>, size: usize) -> Result<()> {
    if size != SET {
        return Err(Errno::EINVAL);
    }
    let new = new.optional().map(UserPtr::read).transpose()?;
    let signal = Signal::new(number).ok_or(Errno::EINVAL)?;
    if new.is_some() && signal.bit() & UNBLOCKABLE != 0 {
        return Err(Errno::EINVAL);
    }
    let signals = &Current::get().process.signals;
    let before = signals.action(signal);
    if let Some(mut action) = new {
        action.mask &= !UNBLOCKABLE;
        signals.set_action(signal, action);
    }
    match old.optional() {
        Some(old) => old.write(&before),
        None => Ok(()),
    }
}

pub(super) fn rt_sigprocmask(how: u32, set: UserPtr<u64>, old: UserPtr<u64>, size: usize) -> Result<()> {
    if size != SET {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    let blocked = &current.own().blocked;
    let before = blocked.get();
    if let Some(set) = set.optional() {
        let set = set.read()? & !UNBLOCKABLE;
        blocked.set(match how {
            general::SIG_BLOCK => before | set,
            general::SIG_UNBLOCK => before & !set,
            general::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        });
        if current.signal_pending() {
            current.add_work(crate::task::work::SIGNAL);
        }
    }
    match old.optional() {
        Some(old) => old.write(&before),
        None => Ok(()),
    }
}

pub(super) fn rt_sigpending(set: UserPtr<u64>, size: usize) -> Result<()> {
    if size > SET {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    set.write(&(current.pending_signals() & current.own().blocked.get()))
}

/// Sends signal `number` (0: only looks) to task `tid`. EINVAL, ESRCH.
fn send(tid: i32, process: Option<i32>, number: u32) -> Result<()> {
    let signal = match number {
        0 => None,
        number => Some(Signal::new(number).ok_or(Errno::EINVAL)?),
    };
    let task = table::find(tid as u32).ok_or(Errno::ESRCH)?;
    if process.is_some_and(|pid| pid as u32 != task.process.pid) {
        return Err(Errno::ESRCH);
    }
    // The kernel's own tasks take no signals from programs.
    if let Some(signal) = signal
        && task.is_program()
    {
        signal::send(&task, signal);
    }
    Ok(())
}

pub(super) fn kill(pid: i32, number: u32) -> Result<()> {
    match pid {
        // One's own group: there is nobody else in it yet.
        0 | -1 => send(Current::get().tid as i32, None, number),
        1.. => send(pid, None, number),
        _ if number > signal::COUNT => Err(Errno::EINVAL),
        _ => Err(Errno::ESRCH),
    }
}

pub(super) fn tkill(tid: i32, number: u32) -> Result<()> {
    if tid <= 0 {
        return Err(Errno::EINVAL);
    }
    send(tid, None, number)
}

pub(super) fn tgkill(pid: i32, tid: i32, number: u32) -> Result<()> {
    if tid <= 0 || pid <= 0 {
        return Err(Errno::EINVAL);
    }
    send(tid, Some(pid), number)
}
