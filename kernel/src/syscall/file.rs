//! System calls on files and descriptors.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::fs::descriptor;
use crate::fs::file::{File, Object, Status, Timespec, UserBuffer};
use crate::fs::files::lookup;
use crate::fs::path::{self, Found, Last};
use crate::fs::{console, device};
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::task::{self, clock};
use crate::user_struct;
use cpu::atomic::Ordering;
use linux_raw_sys::general;

/// The most buffers of one readv or writev (`UIO_MAXIOV`).
const MAX_BUFFERS: usize = 1024;

/// Runs `f` on the file of a descriptor.
#[inline(always)]
fn with_file<R>(descriptor: i32, f: impl FnOnce(&File) -> Result<R>) -> Result<R> {
    let current = Current::get();
    let file = lookup(&current.own().files, descriptor)?;
    f(&file)
}

pub(super) fn read(descriptor: i32, address: u64, length: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.readable() {
            return Err(Errno::EBADF);
        }
        file.read(UserBuffer::checked(address, length)?)
    })
}

pub(super) fn write(descriptor: i32, address: u64, length: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        file.write(UserBuffer::checked(address, length)?)
    })
}

pub(super) fn pread64(descriptor: i32, address: u64, length: usize, offset: i64) -> Result<usize> {
    let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    with_file(descriptor, |file| {
        file.read_at(UserBuffer::checked(address, length)?, offset)
    })
}

pub(super) fn pwrite64(descriptor: i32, address: u64, length: usize, offset: i64) -> Result<usize> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    with_file(descriptor, |file| match file.object {
        Object::Console => Err(Errno::ESPIPE),
        _ => file.write(UserBuffer::checked(address, length)?),
    })
}

user_struct! {
    /// `struct iovec`
    pub(super) struct Buffer {
        address: u64,
        length: usize,
    }
}

/// Runs `f` on each buffer until one is not done whole; the sum of what was done.
fn each_buffer(
    buffers: UserPtr<Buffer>,
    count: usize,
    mut f: impl FnMut(UserBuffer) -> Result<usize>,
) -> Result<usize> {
    if count > MAX_BUFFERS {
        return Err(Errno::EINVAL);
    }
    // All lengths are looked at first: one that is negative spoils the call before anything is done.
    let mut total = 0usize;
    for index in 0..count {
        let Buffer { address, length } = buffers.at(index).read()?;
        let room = device::MAX_TRANSFER - total;
        total += UserBuffer::checked(address, length)?.length.min(room);
    }
    let mut done = 0;
    for index in 0..count {
        let Buffer { address, length } = buffers.at(index).read()?;
        let mut buffer = UserBuffer::checked(address, length)?;
        buffer.length = buffer.length.min(device::MAX_TRANSFER - done);
        match f(buffer) {
            Ok(part) => {
                done += part;
                if part < buffer.length {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

pub(super) fn readv(descriptor: i32, buffers: UserPtr<Buffer>, count: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.readable() {
            return Err(Errno::EBADF);
        }
        each_buffer(buffers, count, |buffer| file.read(buffer))
    })
}

pub(super) fn writev(descriptor: i32, buffers: UserPtr<Buffer>, count: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        each_buffer(buffers, count, |buffer| file.write(buffer))
    })
}

/// Opens `file` at the lowest free descriptor from `lowest` on.
pub(super) fn install(current: &Current, file: Shared<File>, lowest: usize, close_on_exec: bool) -> Result<i32> {
    let limit = current.process.limit(general::RLIMIT_NOFILE);
    let mut files = current.own().files.borrow_mut();
    files.insert(file, lowest, limit, close_on_exec)
}

pub(super) fn open(path: UserPtr<u8>, flags: u32, mode: u32) -> Result<i32> {
    openat(general::AT_FDCWD, path, flags, mode)
}

pub(super) fn openat(directory: i32, path: UserPtr<u8>, flags: u32, _mode: u32) -> Result<i32> {
    let path = path.read_path(false)?;
    let current = Current::get();
    let path = from_directory(&current, directory, path)?;
    let file = path::open(&path, flags, &current.process.credentials())?;
    install(&current, file, 0, flags & general::O_CLOEXEC != 0)
}

/// The path as seen from the root. EBADF, ENOTDIR for a relative one and a descriptor that is no directory.
fn from_directory(current: &Current, directory: i32, path: alloc::vec::Vec<u8>) -> Result<alloc::vec::Vec<u8>> {
    if path.first() == Some(&b'/') || directory == general::AT_FDCWD {
        return Ok(path);
    }
    let file = lookup(&current.own().files, directory)?;
    let Object::Directory(entry) = &file.object else {
        return Err(Errno::ENOTDIR);
    };
    let mut whole = alloc::vec::Vec::new();
    whole.try_reserve_exact(entry.path.len() + 1 + path.len())?;
    whole.extend_from_slice(entry.path);
    whole.push(b'/');
    whole.extend_from_slice(&path);
    Ok(whole)
}

pub(super) fn close(descriptor: i32) -> Result<()> {
    let current = Current::get();
    let file = current.own().files.borrow_mut().remove(descriptor)?;
    // Closed when the table is free again.
    drop(file);
    Ok(())
}

pub(super) fn lseek(descriptor: i32, offset: i64, whence: u32) -> Result<i64> {
    with_file(descriptor, |file| file.seek(offset, whence).map(|at| at as i64))
}

pub(super) fn dup(descriptor: i32) -> Result<i32> {
    duplicate(descriptor, 0, false)
}

fn duplicate(descriptor: i32, lowest: usize, close_on_exec: bool) -> Result<i32> {
    let current = Current::get();
    let file = current.own().files.borrow().get(descriptor)?.clone();
    install(&current, file, lowest, close_on_exec)
}

pub(super) fn dup2(from: i32, to: i32) -> Result<i32> {
    if from == to {
        with_file(from, |_| Ok(()))?;
        return Ok(to);
    }
    dup3(from, to, 0)
}

pub(super) fn dup3(from: i32, to: i32, flags: u32) -> Result<i32> {
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

pub(super) fn fcntl(descriptor: i32, command: u32, argument: u64) -> Result<i32> {
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
        _ => {
            files.borrow().get(descriptor)?;
            Err(Errno::EINVAL)
        }
    }
}

pub(super) fn ioctl(descriptor: i32, request: u32, argument: u64) -> Result<usize> {
    with_file(descriptor, |file| match file.object {
        Object::Console => console::control(request, argument),
        _ => Err(Errno::ENOTTY),
    })
}

/// A device number as `st_dev` has it (`new_encode_dev`).
fn encoded((major, minor): (u32, u32)) -> u64 {
    u64::from((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

fn stat_of(status: &Status) -> general::stat {
    let [access, modification, change] = status.times.map(Timespec::from_nanoseconds);
    general::stat {
        st_dev: encoded(status.device),
        st_ino: status.ino,
        st_nlink: status.links.into(),
        st_mode: status.mode,
        st_uid: status.uid,
        st_gid: status.gid,
        __pad0: 0,
        st_rdev: encoded(status.special),
        st_size: status.size as i64,
        st_blksize: if status.mode & general::S_IFMT == general::S_IFCHR {
            1024
        } else {
            4096
        },
        st_blocks: status.size.div_ceil(512) as i64,
        st_atime: access.seconds as u64,
        st_atime_nsec: access.nanoseconds as u64,
        st_mtime: modification.seconds as u64,
        st_mtime_nsec: modification.nanoseconds as u64,
        st_ctime: change.seconds as u64,
        st_ctime_nsec: change.nanoseconds as u64,
        __unused: [0; 3],
    }
}

pub(super) fn fstat(descriptor: i32, to: UserPtr<general::stat>) -> Result<()> {
    let status = with_file(descriptor, |file| Ok(file.status()))?;
    to.write(&stat_of(&status))
}

pub(super) fn stat(path: UserPtr<u8>, to: UserPtr<general::stat>) -> Result<()> {
    newfstatat(general::AT_FDCWD, path, to, 0)
}

pub(super) fn lstat(path: UserPtr<u8>, to: UserPtr<general::stat>) -> Result<()> {
    newfstatat(general::AT_FDCWD, path, to, general::AT_SYMLINK_NOFOLLOW)
}

/// The status that a stat call with these arguments asks for.
fn status_at(directory: i32, path: UserPtr<u8>, flags: u32) -> Result<Status> {
    let current = Current::get();
    let empty_allowed = flags & general::AT_EMPTY_PATH != 0;
    let path = if empty_allowed && path.is_null() {
        alloc::vec::Vec::new()
    } else {
        path.read_path(empty_allowed)?
    };
    if path.is_empty() && directory != general::AT_FDCWD {
        return with_file(directory, |file| Ok(file.status()));
    }
    let path = from_directory(&current, directory, path)?;
    let last = if flags & general::AT_SYMLINK_NOFOLLOW != 0 {
        Last::Keep
    } else {
        Last::Follow
    };
    Ok(path::resolve(&path, last, &current.process.credentials())?.status())
}

pub(super) fn newfstatat(directory: i32, path: UserPtr<u8>, to: UserPtr<general::stat>, flags: u32) -> Result<()> {
    const KNOWN: u32 = general::AT_SYMLINK_NOFOLLOW | general::AT_NO_AUTOMOUNT | general::AT_EMPTY_PATH;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    to.write(&stat_of(&status_at(directory, path, flags)?))
}

user_struct! {
    /// `struct statx`, its reserved words last.
    pub(super) struct Statx {
        mask: u32,
        block_size: u32,
        attributes: u64,
        links: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        spare: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        times: [[u64; 2]; 4],
        special: [u32; 2],
        device: [u32; 2],
        reserved: [u64; 14],
    }
}
const _: () = assert!(size_of::<Statx>() == 256);

pub(super) fn statx(directory: i32, path: UserPtr<u8>, flags: u32, mask: u32, to: UserPtr<Statx>) -> Result<()> {
    const SYNC: u32 = general::AT_STATX_FORCE_SYNC | general::AT_STATX_DONT_SYNC;
    const KNOWN: u32 = general::AT_SYMLINK_NOFOLLOW | general::AT_NO_AUTOMOUNT | general::AT_EMPTY_PATH | SYNC;
    if flags & !KNOWN != 0 || flags & SYNC == SYNC || mask & general::STATX__RESERVED != 0 {
        return Err(Errno::EINVAL);
    }
    let status = status_at(directory, path, flags)?;
    let time = |nanoseconds: u64| {
        let Timespec { seconds, nanoseconds } = Timespec::from_nanoseconds(nanoseconds);
        [seconds as u64, nanoseconds as u64]
    };
    let [access, modification, change] = status.times.map(time);
    to.write(&Statx {
        mask: general::STATX_BASIC_STATS,
        block_size: 4096,
        attributes: 0,
        links: status.links,
        uid: status.uid,
        gid: status.gid,
        mode: status.mode as u16,
        spare: 0,
        ino: status.ino,
        size: status.size,
        blocks: status.size.div_ceil(512),
        attributes_mask: 0,
        times: [access, [0, 0], change, modification],
        special: [status.special.0, status.special.1],
        device: [status.device.0, status.device.1],
        reserved: [0; 14],
    })
}

pub(super) fn access(path: UserPtr<u8>, mode: u32) -> Result<()> {
    faccessat2(general::AT_FDCWD, path, mode, 0)
}

pub(super) fn faccessat(directory: i32, path: UserPtr<u8>, mode: u32) -> Result<()> {
    faccessat2(directory, path, mode, 0)
}

pub(super) fn faccessat2(directory: i32, path: UserPtr<u8>, mode: u32, flags: u32) -> Result<()> {
    const KNOWN: u32 = general::AT_EACCESS | general::AT_SYMLINK_NOFOLLOW | general::AT_EMPTY_PATH;
    if mode & !7 != 0 || flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let status = status_at(directory, path, flags)?;
    let mut credentials = Current::get().process.credentials();
    if flags & general::AT_EACCESS == 0 {
        (credentials.euid, credentials.egid) = (credentials.uid, credentials.gid);
    }
    path::access(&status, mode, &credentials)?;
    let kind = status.mode & general::S_IFMT;
    if mode & 2 != 0 && (kind == general::S_IFREG || kind == general::S_IFDIR) {
        return Err(Errno::EROFS);
    }
    Ok(())
}

pub(super) fn readlink(path: UserPtr<u8>, to: u64, length: i32) -> Result<usize> {
    readlinkat(general::AT_FDCWD, path, to, length)
}

pub(super) fn readlinkat(directory: i32, path: UserPtr<u8>, to: u64, length: i32) -> Result<usize> {
    if length <= 0 {
        return Err(Errno::EINVAL);
    }
    let path = path.read_path(false)?;
    let current = Current::get();
    let path = from_directory(&current, directory, path)?;
    match path::resolve(&path, Last::Keep, &current.process.credentials())? {
        Found::Link(target, _) => device::copy_out(&target, UserBuffer::checked(to, length as usize)?, 0),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn getcwd(to: u64, length: usize) -> Result<usize> {
    if length < 2 {
        return Err(Errno::ERANGE);
    }
    crate::arch::usercopy::copy_to_user(to, b"/\0")?;
    Ok(2)
}

pub(super) fn umask(mask: u32) -> u32 {
    let current = Current::get();
    current.process.umask.swap(mask & 0o777, Ordering::Relaxed)
}

/// The events that poll reports whether or not they were asked for.
const ALWAYS: u32 = general::POLLERR | general::POLLHUP | general::POLLNVAL;
/// Nanoseconds between two looks at files that cannot wake a task yet.
const POLL_PERIOD: u64 = 1_000_000;

pub(super) fn poll(files: UserPtr<general::pollfd>, count: usize, milliseconds: i32) -> Result<usize> {
    let deadline = match milliseconds {
        ..0 => None,
        milliseconds => Some(clock::monotonic() + milliseconds as u64 * 1_000_000),
    };
    poll_until(files, count, deadline)
}

pub(super) fn ppoll(
    files: UserPtr<general::pollfd>,
    count: usize,
    timeout: UserPtr<Timespec>,
    mask: UserPtr<u64>,
    mask_size: usize,
) -> Result<usize> {
    let deadline = match timeout.optional() {
        None => None,
        Some(timeout) => Some(clock::monotonic().saturating_add(timeout.read()?.to_nanoseconds()?)),
    };
    let mask = match mask.optional() {
        None => None,
        Some(_) if mask_size != 8 => return Err(Errno::EINVAL),
        Some(mask) => Some(mask.read()?),
    };
    let current = Current::get();
    let blocked = &current.blocked;
    let before = blocked.get();
    if let Some(mask) = mask {
        blocked.set(mask & !task::signal::UNBLOCKABLE);
    }
    let result = poll_until(files, count, deadline);
    blocked.set(before);
    result
}

fn poll_until(files: UserPtr<general::pollfd>, count: usize, deadline: Option<u64>) -> Result<usize> {
    let current = Current::get();
    if count as u64 > current.process.limit(general::RLIMIT_NOFILE) {
        return Err(Errno::EINVAL);
    }
    loop {
        let mut ready = 0;
        for index in 0..count {
            let mut one = files.at(index).read()?;
            let events = match (one.fd, lookup(&current.own().files, one.fd)) {
                (..0, _) => 0,
                (_, Err(_)) => general::POLLNVAL,
                (_, Ok(file)) => file.poll() & (u32::from(one.events as u16) | ALWAYS),
            };
            one.revents = events as i16;
            ready += usize::from(events != 0);
            files.at(index).write(&one)?;
        }
        if ready > 0 || deadline.is_some_and(|deadline| clock::monotonic() >= deadline) {
            return Ok(ready);
        }
        current.prepare_to_sleep();
        if current.signal_pending() {
            current.cancel_sleep();
            return Err(Errno::EINTR);
        }
        let look = clock::monotonic() + POLL_PERIOD;
        task::schedule_until(Some(deadline.map_or(look, |deadline| deadline.min(look))));
    }
}
