//! System calls on descriptors, and those that make files without a name.

use super::{install, with_file};
use crate::fs::descriptor;
use crate::fs::event::Event;
use crate::fs::file::{File, Object};
use crate::fs::filesystems;
use crate::fs::node::Kind;
use crate::fs::pipe::{End, Pipe};
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use linux_raw_sys::general;

pub(in crate::syscall) fn close(descriptor: i32) -> Result<()> {
    let current = Current::get();
    let slot = current.own().files.borrow_mut().remove(descriptor)?;
    // Closed when the table is free again.
    drop(slot);
    Ok(())
}

pub(in crate::syscall) fn dup(descriptor: i32) -> Result<i32> {
    duplicate(descriptor, 0, false)
}

fn duplicate(descriptor: i32, lowest: usize, close_on_exec: bool) -> Result<i32> {
    let current = Current::get();
    let file = current.own().files.borrow().get(descriptor)?.clone();
    install(&current, file, lowest, close_on_exec)
}

pub(in crate::syscall) fn dup2(from: i32, to: i32) -> Result<i32> {
    if from == to {
        with_file(from, |_| Ok(()))?;
        return Ok(to);
    }
    dup3(from, to, 0)
}

pub(in crate::syscall) fn dup3(from: i32, to: i32, flags: u32) -> Result<i32> {
    if flags & !general::O_CLOEXEC != 0 || from == to {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    let limit = current.process.limit(general::RLIMIT_NOFILE).min(descriptor::MAX);
    let at = u64::from(to as u32);
    if at >= limit {
        return Err(Errno::EBADF);
    }
    let mut files = current.own().files.borrow_mut();
    let file = files.get(from)?.clone();
    let before = files.replace(at as usize, file, flags & general::O_CLOEXEC != 0)?;
    drop(files);
    drop(before);
    Ok(to)
}

pub(in crate::syscall) fn fcntl(descriptor: i32, command: u32, argument: u64) -> Result<i32> {
    let current = Current::get();
    let files = &current.own().files;
    match command {
        general::F_DUPFD | general::F_DUPFD_CLOEXEC => {
            files.borrow().get(descriptor)?;
            if argument >= current.process.limit(general::RLIMIT_NOFILE) {
                return Err(Errno::EINVAL);
            }
            duplicate(descriptor, argument as usize, command == general::F_DUPFD_CLOEXEC)
        }
        general::F_GETFD => Ok((*files.borrow_mut().close_on_exec(descriptor)?).into()),
        general::F_SETFD => {
            *files.borrow_mut().close_on_exec(descriptor)? = argument & u64::from(general::FD_CLOEXEC) != 0;
            Ok(0)
        }
        general::F_GETFL => with_file(descriptor, |file| Ok(file.flags() as i32)),
        general::F_SETFL => with_file(descriptor, |file| {
            file.set_flags(argument as u32);
            Ok(0)
        }),
        general::F_GETPIPE_SZ | general::F_SETPIPE_SZ => with_file(descriptor, |file| match &file.object {
            Object::Pipe(end) if command == general::F_GETPIPE_SZ => Ok(end.capacity() as i32),
            Object::Pipe(end) => Ok(end.set_capacity(argument)? as i32),
            _ => Err(Errno::EBADF),
        }),
        _ => {
            files.borrow().get(descriptor)?;
            Err(Errno::EINVAL)
        }
    }
}

pub(in crate::syscall) fn pipe(to: UserPtr<[i32; 2]>) -> Result<()> {
    pipe2(to, 0)
}

pub(in crate::syscall) fn pipe2(to: UserPtr<[i32; 2]>, flags: u32) -> Result<()> {
    const KNOWN: u32 = general::O_CLOEXEC | general::O_NONBLOCK | general::O_DIRECT;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    let pipe = Pipe::try_new()?;
    let credentials = current.process.credentials();
    let place = filesystems::nameless(Kind::Pipe(pipe.clone()), general::S_IFIFO | 0o600, &credentials)?;
    let end = |writes: bool| {
        let access = if writes { general::O_WRONLY } else { general::O_RDONLY };
        let object = Object::Pipe(End::new(&pipe, !writes, writes));
        File::try_new_at(object, flags | access, place.clone(), None)
    };
    let (reader, writer) = (end(false)?, end(true)?);
    let close_on_exec = flags & general::O_CLOEXEC != 0;
    let first = install(&current, reader, 0, close_on_exec)?;
    let second = install(&current, writer, 0, close_on_exec);
    let done = match second {
        Ok(second) => to.write(&[first, second]).inspect_err(|_| _ = close(second)),
        Err(errno) => Err(errno),
    };
    done.inspect_err(|_| _ = close(first))
}

pub(in crate::syscall) fn eventfd(count: u32) -> Result<i32> {
    eventfd2(count, 0)
}

pub(in crate::syscall) fn eventfd2(count: u32, flags: u32) -> Result<i32> {
    const KNOWN: u32 = general::O_CLOEXEC | general::O_NONBLOCK | general::EFD_SEMAPHORE;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let object = Object::Event(Event::new(count, flags & general::EFD_SEMAPHORE != 0));
    let file = File::try_new(object, general::O_RDWR | flags & general::O_NONBLOCK)?;
    install(&Current::get(), file, 0, flags & general::O_CLOEXEC != 0)
}
