//! System calls on contents: reading, writing, positions, lengths.

use super::{shared_file, with_file};
use crate::fs::console;
use crate::fs::device;
use crate::fs::file::{self, File, Object, UserBuffer};
use crate::fs::node::Kind;
use crate::mm::shared::Shared;
use crate::net::buffers::Buffers;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use crate::user_struct;
use alloc::vec::Vec;
use linux_raw_sys::{general, ioctl};

/// The most buffers of one readv or writev (`UIO_MAXIOV`).
const MAX_BUFFERS: usize = 1024;

pub(in crate::syscall) fn read(descriptor: i32, address: u64, length: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.readable() {
            return Err(Errno::EBADF);
        }
        file.read(UserBuffer::checked(address, length)?)
    })
}

pub(in crate::syscall) fn write(descriptor: i32, address: u64, length: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        file.write(UserBuffer::checked(address, length)?)
    })
}

pub(in crate::syscall) fn pread64(descriptor: i32, address: u64, length: usize, offset: i64) -> Result<usize> {
    let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    with_file(descriptor, |file| {
        file.read_at(UserBuffer::checked(address, length)?, offset)
    })
}

pub(in crate::syscall) fn pwrite64(descriptor: i32, address: u64, length: usize, offset: i64) -> Result<usize> {
    let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    with_file(descriptor, |file| {
        file.write_at(UserBuffer::checked(address, length)?, offset)
    })
}

user_struct! {
    /// `struct iovec`
    pub(in crate::syscall) struct Buffer {
        address: u64,
        length: usize,
    }
}

/// The buffers of a call that takes them all at once. EMSGSIZE for too many.
pub(in crate::syscall) fn buffers_of(buffers: UserPtr<Buffer>, count: usize) -> Result<Buffers> {
    if count > MAX_BUFFERS {
        return Err(Errno::EMSGSIZE);
    }
    let mut all = Buffers::default();
    for index in 0..count {
        let Buffer { address, length } = buffers.at(index).read()?;
        let mut buffer = UserBuffer::checked(address, length)?;
        buffer.length = buffer.length.min(device::MAX_TRANSFER - all.length());
        all.push(buffer)?;
    }
    Ok(all)
}

/// Runs `f` on each buffer until one is not done whole; the sum of what was done.
fn each_buffer(
    buffers: UserPtr<Buffer>,
    count: usize,
    mut f: impl FnMut(UserBuffer) -> Result<usize>,
) -> Result<usize> {
    // As Linux: the upper half of the number is not looked at.
    let count = count as u32 as usize;
    if count > MAX_BUFFERS {
        return Err(Errno::EINVAL);
    }
    // All lengths are looked at first: one that is negative spoils the call before anything is done.
    let mut total = 0usize;
    for index in 0..count {
        let Buffer { address, length } = buffers.at(index).read()?;
        if (length as isize) < 0 {
            return Err(Errno::EINVAL);
        }
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

/// The buffers of readv(2) and writev(2). EINVAL for too many.
fn vector(buffers: UserPtr<Buffer>, count: usize) -> Result<Buffers> {
    if count > MAX_BUFFERS {
        return Err(Errno::EINVAL);
    }
    buffers_of(buffers, count)
}

pub(in crate::syscall) fn readv(descriptor: i32, buffers: UserPtr<Buffer>, count: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.readable() {
            return Err(Errno::EBADF);
        }
        if let Object::Socket(socket) = &file.object {
            let received = socket.receive(&vector(buffers, count)?, 0, file.nonblocking())?;
            return Ok(received.result);
        }
        each_buffer(buffers, count, |buffer| file.read(buffer))
    })
}

pub(in crate::syscall) fn writev(descriptor: i32, buffers: UserPtr<Buffer>, count: usize) -> Result<usize> {
    with_file(descriptor, |file| {
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        if let Object::Socket(socket) = &file.object {
            return socket.send();
        }
        each_buffer(buffers, count, |buffer| file.write(buffer))
    })
}

pub(in crate::syscall) fn lseek(descriptor: i32, offset: i64, whence: u32) -> Result<i64> {
    with_file(descriptor, |file| file.seek(offset, whence).map(|at| at as i64))
}

fn vectored_at(
    descriptor: i32,
    buffers: UserPtr<Buffer>,
    count: usize,
    offset: i64,
    f: impl Fn(&File, UserBuffer, u64) -> Result<usize>,
) -> Result<usize> {
    let mut at = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    with_file(descriptor, |file| {
        each_buffer(buffers, count, |buffer| {
            let done = f(file, buffer, at)?;
            at += done as u64;
            Ok(done)
        })
    })
}

pub(in crate::syscall) fn preadv(
    descriptor: i32,
    buffers: UserPtr<Buffer>,
    count: usize,
    offset: i64,
) -> Result<usize> {
    vectored_at(descriptor, buffers, count, offset, File::read_at)
}

pub(in crate::syscall) fn pwritev(
    descriptor: i32,
    buffers: UserPtr<Buffer>,
    count: usize,
    offset: i64,
) -> Result<usize> {
    vectored_at(descriptor, buffers, count, offset, File::write_at)
}

pub(in crate::syscall) fn ftruncate(descriptor: i32, size: i64) -> Result<()> {
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    with_file(descriptor, |file| file.truncate(size))
}

pub(in crate::syscall) fn truncate(path: UserPtr<u8>, size: i64) -> Result<()> {
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    let (walker, place) = super::place_at(general::AT_FDCWD, path, 0)?;
    if place.node.is_directory() {
        return Err(Errno::EISDIR);
    }
    place.mount.check_writable()?;
    crate::fs::node::access(&place.node.attributes(), 2, &walker.credentials)?;
    file::truncate(&place.node, size)
}

pub(in crate::syscall) fn fallocate(descriptor: i32, mode: u32, offset: i64, length: i64) -> Result<()> {
    let (Ok(from), Ok(length)) = (u64::try_from(offset), u64::try_from(length)) else {
        return Err(Errno::EINVAL);
    };
    if length == 0 {
        return Err(Errno::EINVAL);
    }
    if mode & !general::FALLOC_FL_KEEP_SIZE != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    with_file(descriptor, |file| {
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        let to = from
            .checked_add(length)
            .filter(|&to| to <= crate::fs::content::MAX_SIZE)
            .ok_or(Errno::EFBIG)?;
        match &file.object {
            Object::Regular(node) => match &node.kind {
                Kind::Regular(content) => {
                    content.allocate(&node.fs, from, to, mode & general::FALLOC_FL_KEEP_SIZE != 0)
                }
                _ => Err(Errno::ENODEV),
            },
            Object::Pipe(_) => Err(Errno::ESPIPE),
            _ => Err(Errno::ENODEV),
        }
    })
}

/// fsync(2), fdatasync(2): everything is in memory, and stays there.
pub(in crate::syscall) fn fsync(descriptor: i32) -> Result<()> {
    with_file(descriptor, |file| match file.object {
        Object::Regular(_) | Object::Directory(_) => Ok(()),
        Object::Path => Err(Errno::EBADF),
        _ => Err(Errno::EINVAL),
    })
}

pub(in crate::syscall) fn sync() -> Result<()> {
    Ok(())
}

pub(in crate::syscall) fn ioctl(descriptor: i32, request: u32, argument: u64) -> Result<usize> {
    with_file(descriptor, |file| match (&file.object, request) {
        (Object::Path, _) => Err(Errno::EBADF),
        (_, ioctl::FIONBIO) => {
            let on: i32 = UserPtr::new(argument).read()?;
            file.set_nonblocking(on != 0);
            Ok(0)
        }
        (Object::Console, _) => console::control(request, argument),
        (Object::Pipe(end), ioctl::FIONREAD) => {
            UserPtr::new(argument).write(&(end.readable_bytes() as i32))?;
            Ok(0)
        }
        (Object::Regular(node), ioctl::FIONREAD) => {
            let left = node.status().size.saturating_sub(file.position());
            UserPtr::new(argument).write(&(left.min(i32::MAX as u64) as i32))?;
            Ok(0)
        }
        _ => Err(Errno::ENOTTY),
    })
}

/// getdents64(2): as many names as fit.
pub(in crate::syscall) fn getdents64(descriptor: i32, to: u64, length: usize) -> Result<usize> {
    /// Bytes before the name: inode, offset, length, type.
    const HEADER: usize = 19;
    /// The most that is filled at once: the names are copied out when the directory is free again.
    const MOST: usize = 32768;
    let file: Shared<File> = shared_file(descriptor)?;
    let Object::Directory(node) = &file.object else {
        return Err(if file.is_path() { Errno::EBADF } else { Errno::ENOTDIR });
    };
    let mut bytes = Vec::new();
    let room = length.min(MOST);
    bytes.try_reserve_exact(room)?;
    let mut position = file.position();
    let mut add = |ino: u64, next: u64, kind: u32, name: &[u8]| {
        let size = (HEADER + name.len() + 1).next_multiple_of(8);
        if size > room - bytes.len() {
            return false;
        }
        let end = bytes.len() + size;
        bytes.extend_from_slice(&ino.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
        bytes.extend_from_slice(&(size as u16).to_le_bytes());
        bytes.push((kind >> 12) as u8);
        bytes.extend_from_slice(name);
        bytes.resize(end, 0);
        position = next;
        true
    };
    let mut full = false;
    let above = node.parent().map_or(node.ino, |parent| parent.ino);
    for (at, ino, name) in [(0, node.ino, &b"."[..]), (1, above, b"..")] {
        if file.position() <= at && !full {
            full = !add(ino, at + 1, general::S_IFDIR, name);
        }
    }
    if !full {
        node.list(file.position().max(2), &mut |listed| {
            full = !add(listed.ino, listed.next, listed.kind, listed.name);
            !full
        })?;
    }
    if bytes.is_empty() && full {
        return Err(Errno::EINVAL);
    }
    crate::arch::usercopy::copy_to_user(to, &bytes)?;
    file.set_position(position);
    Ok(bytes.len())
}
