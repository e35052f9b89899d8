//! System calls that make and replace programs: fork, vfork, clone, clone3, execve; and rt_sigreturn. They want all registers.

use super::errno::{Errno, Result};
use super::user::{Return, UserPtr};
use crate::arch::TrapFrame;
use crate::exec::{self, Strings};
use crate::full_frame;
use crate::mm::tasks::Current;
use crate::task::clone::{Request, clone as make};
use crate::task::deliver;
use crate::user_struct;
use linux_raw_sys::general;

full_frame! {
    /// fork(2)
    pub fn fork => fork_frame
}
full_frame! {
    /// vfork(2)
    pub fn vfork => vfork_frame
}
full_frame! {
    /// clone(2)
    pub fn clone => clone_frame
}
full_frame! {
    /// clone3(2)
    pub fn clone3 => clone3_frame
}
full_frame! {
    /// execve(2)
    pub fn execve => execve_frame
}
full_frame! {
    /// rt_sigreturn(2)
    pub fn rt_sigreturn => rt_sigreturn_frame
}

extern "C" fn fork_frame(frame: &mut TrapFrame) -> i64 {
    let request = Request {
        exit_signal: general::SIGCHLD,
        ..Request::default()
    };
    make(frame, &request).map(|pid| pid as i32).to_register()
}

extern "C" fn vfork_frame(frame: &mut TrapFrame) -> i64 {
    let request = Request {
        flags: (general::CLONE_VFORK | general::CLONE_VM).into(),
        exit_signal: general::SIGCHLD,
        ..Request::default()
    };
    make(frame, &request).map(|pid| pid as i32).to_register()
}

extern "C" fn clone_frame(frame: &mut TrapFrame) -> i64 {
    let flags = frame.rdi & u64::from(u32::MAX);
    let request = Request {
        flags: flags & !u64::from(general::CSIGNAL),
        exit_signal: flags as u32 & general::CSIGNAL,
        stack: frame.rsi,
        parent_tid: frame.rdx,
        child_tid: frame.r10,
        thread_area: frame.r8,
    };
    make(frame, &request).map(|pid| pid as i32).to_register()
}

user_struct! {
    /// `struct clone_args`, its first version.
    struct CloneArguments {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        thread_area: u64,
    }
}

fn clone3_request(address: u64, size: u64) -> Result<Request> {
    const KNOWN: u64 = size_of::<CloneArguments>() as u64;
    if size > 4096 {
        return Err(Errno::E2BIG);
    }
    if size < KNOWN {
        return Err(Errno::EINVAL);
    }
    let claimed = UserPtr::<CloneArguments>::new(address).read()?;
    // What newer versions have must be zero.
    for at in (KNOWN..size).step_by(8) {
        if UserPtr::<u64>::new(address + at).read()? != 0 {
            return Err(Errno::E2BIG);
        }
    }
    let unknown = claimed.flags & u64::from(general::CSIGNAL) != 0 || claimed.flags >> 34 != 0;
    if unknown || claimed.exit_signal > u64::from(general::CSIGNAL) || (claimed.stack == 0) != (claimed.stack_size == 0)
    {
        return Err(Errno::EINVAL);
    }
    if claimed.flags & u64::from(general::CLONE_THREAD | general::CLONE_PARENT) != 0 && claimed.exit_signal != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Request {
        flags: claimed.flags & !general::CLONE_CLEAR_SIGHAND,
        exit_signal: claimed.exit_signal as u32,
        stack: claimed.stack.wrapping_add(claimed.stack_size),
        parent_tid: claimed.parent_tid,
        child_tid: claimed.child_tid,
        thread_area: claimed.thread_area,
    })
}

extern "C" fn clone3_frame(frame: &mut TrapFrame) -> i64 {
    let request = clone3_request(frame.rdi, frame.rsi);
    request
        .and_then(|request| make(frame, &request))
        .map(|pid| pid as i32)
        .to_register()
}

/// Reads a list of strings that a null pointer ends. E2BIG, EFAULT, ENOMEM.
fn strings(list: UserPtr<u64>) -> Result<Strings> {
    let mut strings = Strings::default();
    if list.is_null() {
        return Ok(strings);
    }
    for index in 0.. {
        match list.at(index).read()? {
            0 => break,
            string => strings.push_from_user(string)?,
        }
    }
    Ok(strings)
}

fn replace(frame: &mut TrapFrame) -> Result<()> {
    let path = UserPtr::<u8>::new(frame.rdi).read_path(false)?;
    let mut arguments = strings(UserPtr::new(frame.rsi))?;
    let environment = strings(UserPtr::new(frame.rdx))?;
    if arguments.first().is_none() {
        // As Linux has it since 5.18.
        arguments.push(b"")?;
    }
    *frame = exec::exec(&path, &arguments, &environment)?;
    frame.forget_system_call();
    Ok(())
}

extern "C" fn execve_frame(frame: &mut TrapFrame) -> i64 {
    replace(frame).to_register()
}

extern "C" fn rt_sigreturn_frame(frame: &mut TrapFrame) -> i64 {
    deliver::return_from_handler(frame);
    frame.rax as i64
}

/// sigaltstack(2), whose check needs the program's stack pointer.
extern "C" fn sigaltstack_frame(frame: &mut TrapFrame) -> i64 {
    alternate_stack(frame).to_register()
}

full_frame! {
    /// sigaltstack(2)
    pub fn sigaltstack => sigaltstack_frame
}

fn alternate_stack(frame: &TrapFrame) -> Result<()> {
    let current = Current::get();
    let (new, old) = (
        UserPtr::<deliver::AlternateStack>::new(frame.rdi),
        UserPtr::<deliver::AlternateStack>::new(frame.rsi),
    );
    let before = current.own().alternate_stack.get().as_seen_from(frame.rsp);
    if let Some(new) = new.optional() {
        deliver::set_alternate_stack(&current, new.read()?, frame.rsp)?;
    }
    match old.optional() {
        Some(old) => old.write(&before),
        None => Ok(()),
    }
}
