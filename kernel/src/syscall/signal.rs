//! System calls on signals.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::arch::usercopy::{clear_user, copy_to_user};
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::task::pending::INFO_SIZE;
use crate::task::process::Process;
use crate::task::signal::{self, Action, Info, Signal, UNBLOCKABLE};
use crate::task::{self, clock, deliver, table};
use core::convert::Infallible;
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
    let current = Current::get();
    let signals = &current.process.signals;
    let before = signals.action(signal);
    if let Some(mut action) = new {
        action.mask &= !UNBLOCKABLE;
        signals.set_action(signal, action);
        if signals.ignores(signal) {
            signals.pending.forget(signal.bit());
            table::each_task_of(current.process.pid, |task| task.pending.forget(signal.bit()));
        }
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
    let blocked = &current.blocked;
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
    // As Linux: a short set is the first bytes of the whole.
    let waiting = (current.pending_signals() & current.blocked.get()).to_ne_bytes();
    Ok(copy_to_user(set.address(), &waiting[..size])?)
}

/// A set that a call gives.
fn read_set(set: UserPtr<u64>, size: usize) -> Result<u64> {
    if size != SET {
        return Err(Errno::EINVAL);
    }
    Ok(set.read()? & !UNBLOCKABLE)
}

/// Sleeps until a signal is to be acted on.
fn wait_for_signal(current: &Current) -> Errno {
    loop {
        current.prepare_to_sleep();
        if current.signal_pending() {
            current.cancel_sleep();
            return signal::interrupted(current, Errno::ERESTARTNOHAND);
        }
        task::schedule();
    }
}

pub(super) fn pause() -> Result<Infallible> {
    Err(wait_for_signal(&Current::get()))
}

pub(super) fn rt_sigsuspend(set: UserPtr<u64>, size: usize) -> Result<Infallible> {
    let set = read_set(set, size)?;
    let current = Current::get();
    current.own().saved_mask.set(Some(current.blocked.get()));
    current.blocked.set(set);
    Err(wait_for_signal(&current))
}

pub(super) fn rt_sigtimedwait(
    set: UserPtr<u64>,
    info: UserPtr<Info>,
    timeout: UserPtr<Timespec>,
    size: usize,
) -> Result<i32> {
    let set = read_set(set, size)?;
    let deadline = match timeout.optional() {
        None => None,
        Some(timeout) => Some(clock::monotonic().saturating_add(timeout.read()?.to_nanoseconds()?)),
    };
    let current = Current::get();
    let found = match deliver::take(&current, set & current.pending_signals()) {
        Some(found) => Ok(found),
        None if deadline.is_some_and(|deadline| deadline <= clock::monotonic()) => Err(Errno::EAGAIN),
        None => {
            let blocked = current.blocked.get();
            // What is waited for wakes, and is not lost even where it would be ignored.
            current.awaited.set(blocked & set | set);
            current.blocked.set(blocked & !set);
            let mut late = false;
            let found = loop {
                current.prepare_to_sleep();
                if let Some(found) = deliver::take(&current, set & current.pending_signals()) {
                    break Ok(found);
                }
                if current.signal_pending() {
                    break Err(Errno::EINTR);
                }
                if late {
                    break Err(Errno::EAGAIN);
                }
                late = task::schedule_until(deadline);
            };
            current.cancel_sleep();
            current.blocked.set(blocked);
            current.awaited.set(0);
            if current.signal_pending() {
                current.add_work(task::work::SIGNAL);
            }
            found
        }
    }?;
    if let Some(to) = info.optional() {
        let at = to.address();
        to.write(&found)?;
        clear_user(at + size_of::<Info>() as u64, INFO_SIZE - size_of::<Info>())?;
    }
    Ok(found.signal().number().into())
}

/// Checks a signal's number; `None` for 0, which only looks.
fn number(number: u32) -> Result<Option<Signal>> {
    match number {
        0 => Ok(None),
        number => Signal::new(number).map(Some).ok_or(Errno::EINVAL),
    }
}

/// Whether the caller may send `signal` to `process`. EPERM.
fn may_send(current: &Current, process: &Process, signal: Option<Signal>) -> Result<()> {
    let (mine, theirs) = (current.process.credentials(), process.credentials());
    let same = [mine.uid, mine.euid]
        .iter()
        .any(|&uid| uid == theirs.uid || uid == theirs.suid);
    let same_session = signal == Some(Signal::SIGCONT) && process.session() == current.process.session();
    if mine.privileged() || same || same_session || process.pid == current.process.pid {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// What a signal of the running process carries.
fn from(current: &Current, signal: Signal, code: i32) -> Info {
    Info::sent(signal, code, current.process.pid, current.process.credentials().uid)
}

fn kill_process(current: &Current, process: &Process, signal: Option<Signal>, info: Option<Info>) -> Result<()> {
    may_send(current, process, signal)?;
    // The kernel's own tasks take no signals from programs.
    match info {
        Some(info) if process.is_program() => signal::send_to_process(process, info),
        _ => Ok(()),
    }
}

pub(super) fn kill(pid: i32, number_: u32) -> Result<()> {
    let current = Current::get();
    // Whether there is anybody comes before whether the signal is one.
    let signal = number(number_);
    let send = |process: &Process| {
        let signal = signal?;
        let info = signal.map(|signal| from(&current, signal, Info::SI_USER));
        kill_process(&current, process, signal, info)
    };
    if pid > 0 {
        let process = table::find_process(pid as u32).ok_or(Errno::ESRCH)?;
        return send(&process);
    }
    let group = match pid {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => None,
        0 => Some(current.process.group()),
        _ => Some(-pid as u32),
    };
    // One at a time: sending takes the table's lock itself.
    let (mut last, mut any, mut sent, mut refused) = (0, false, false, Errno::ESRCH);
    while let Some(process) = table::next_process(last) {
        last = process.pid;
        let wanted = match group {
            Some(group) => process.group() == group,
            None => process.is_program() && process.pid != current.process.pid,
        };
        if wanted {
            any = true;
            match send(&process) {
                Ok(()) => sent = true,
                Err(errno) => refused = errno,
            }
        }
    }
    if sent {
        Ok(())
    } else {
        Err(if any { refused } else { Errno::ESRCH })
    }
}

/// Sends a signal to task `tid`, of process `pid` if one is named.
fn send_to(tid: i32, pid: Option<i32>, number_: u32, info: impl FnOnce(Signal) -> Info) -> Result<()> {
    let task = table::find(tid as u32).ok_or(Errno::ESRCH)?;
    if pid.is_some_and(|pid| pid as u32 != task.process.pid) {
        return Err(Errno::ESRCH);
    }
    let signal = number(number_)?;
    may_send(&Current::get(), &task.process, signal)?;
    match signal {
        Some(signal) if task.is_program() => signal::send_to_task(&task, info(signal)),
        _ => Ok(()),
    }
}

pub(super) fn tkill(tid: i32, number_: u32) -> Result<()> {
    if tid <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to(tid, None, number_, |signal| {
        from(&Current::get(), signal, Info::SI_TKILL)
    })
}

pub(super) fn tgkill(pid: i32, tid: i32, number_: u32) -> Result<()> {
    if tid <= 0 || pid <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to(tid, Some(pid), number_, |signal| {
        from(&Current::get(), signal, Info::SI_TKILL)
    })
}

/// What a program wants a signal to carry. EPERM for what only the kernel may say, but to oneself.
fn claimed(info: UserPtr<Info>, to: i32) -> Result<Info> {
    let info = info.read()?;
    if info.is_of_the_kernel() && to as u32 != Current::get().process.pid {
        return Err(Errno::EPERM);
    }
    Ok(info)
}

/// `info` with the number of the signal that carries it.
fn carried(mut info: Info, by: Signal) -> Info {
    info.set_signal(Some(by));
    info
}

pub(super) fn rt_sigqueueinfo(pid: i32, number_: u32, info: UserPtr<Info>) -> Result<()> {
    let info = claimed(info, pid)?;
    let process = (pid > 0).then(|| table::find_process(pid as u32)).flatten();
    let process = process.ok_or(Errno::ESRCH)?;
    let signal = number(number_)?;
    let info = signal.map(|signal| carried(info, signal));
    kill_process(&Current::get(), &process, signal, info)
}

pub(super) fn rt_tgsigqueueinfo(pid: i32, tid: i32, number_: u32, info: UserPtr<Info>) -> Result<()> {
    if tid <= 0 || pid <= 0 {
        return Err(Errno::EINVAL);
    }
    let info = claimed(info, pid)?;
    send_to(tid, Some(pid), number_, |signal| carried(info, signal))
}
