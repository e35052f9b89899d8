//! An open file.

use super::mqueue::QueueFile;
use super::{console, device};
use crate::mm::shared::{OutOfMemory, Shared};
use crate::syscall::errno::{Errno, Result};
use crate::user_struct;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general;

/// The bits of `O_*` that say how a file is opened for access.
pub const ACCESS_MODE: u32 = general::O_ACCMODE;
/// The status flags that `F_SETFL` may change.
const CHANGEABLE: u32 =
    general::O_APPEND | general::O_NONBLOCK | general::O_DIRECT | general::O_NOATIME | general::FASYNC;

/// What was opened.
pub enum Object {
    /// The terminal.
    Console,
    /// /dev/null
    Null,
    /// /dev/zero
    Zero,
    /// /dev/full
    Full,
    /// /dev/urandom, /dev/random
    Random,
    /// A regular file of the initramfs.
    Regular(super::initramfs::Entry),
    /// A directory of the initramfs.
    Directory(super::initramfs::Entry),
    /// A POSIX message queue.
    Queue(QueueFile),
}

/// An open file (Linux: `struct file`). Descriptors refer to it.
pub struct File {
    /// What it is. Immutable.
    pub object: Object,
    /// `O_*`: access mode and status flags.
    flags: AtomicU32,
    /// Where the next read begins. Only for what has a position.
    position: SpinLock<u64>,
}

/// A buffer in the program, by its claim.
#[derive(Clone, Copy)]
pub struct UserBuffer {
    /// Address.
    pub address: u64,
    /// Bytes.
    pub length: usize,
}

impl File {
    /// An open file; `flags` as open(2) has them.
    pub fn try_new(object: Object, flags: u32) -> core::result::Result<Shared<File>, OutOfMemory> {
        let kept =
            flags & !(general::O_CREAT | general::O_EXCL | general::O_NOCTTY | general::O_TRUNC | general::O_CLOEXEC);
        Shared::try_new(File {
            object,
            flags: AtomicU32::new(kept),
            position: SpinLock::new(18, 0),
        })
    }

    /// Access mode and status flags.
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// As `F_SETFL`: what may not change stays.
    pub fn set_flags(&self, flags: u32) {
        let kept = self.flags() & !CHANGEABLE;
        self.flags.store(kept | (flags & CHANGEABLE), Ordering::Relaxed);
    }

    /// Sets or clears `O_NONBLOCK`.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        let others = self.flags() & !general::O_NONBLOCK;
        self.flags.store(
            others | if nonblocking { general::O_NONBLOCK } else { 0 },
            Ordering::Relaxed,
        );
    }

    /// Whether a call that would wait fails instead.
    #[inline(always)]
    pub fn nonblocking(&self) -> bool {
        self.flags() & general::O_NONBLOCK != 0
    }

    /// Whether it was opened for reading.
    #[inline(always)]
    pub fn readable(&self) -> bool {
        let mode = self.flags() & (ACCESS_MODE | general::O_PATH);
        mode == general::O_RDONLY || mode == general::O_RDWR
    }

    /// Whether it was opened for writing.
    #[inline(always)]
    pub fn writable(&self) -> bool {
        let mode = self.flags() & (ACCESS_MODE | general::O_PATH);
        mode == general::O_WRONLY || mode == general::O_RDWR
    }

    /// read(2) into a buffer. EBADF unless opened for reading.
    pub fn read(&self, buffer: UserBuffer) -> Result<usize> {
        if !self.readable() {
            return Err(Errno::EBADF);
        }
        match &self.object {
            Object::Console => console::read(buffer, self.nonblocking()),
            Object::Null => Ok(0),
            Object::Zero | Object::Full => device::zeros(buffer),
            Object::Random => device::random(buffer),
            Object::Regular(_) => {
                let at = *self.position.lock();
                let read = self.read_at(buffer, at)?;
                *self.position.lock() = at + read as u64;
                Ok(read)
            }
            Object::Directory(_) => Err(Errno::EISDIR),
            Object::Queue(queue) => {
                let at = *self.position.lock();
                let read = queue.read_status(buffer, at)?;
                *self.position.lock() = at + read as u64;
                Ok(read)
            }
        }
    }

    /// pread(2). ESPIPE for what has no position.
    pub fn read_at(&self, buffer: UserBuffer, at: u64) -> Result<usize> {
        if !self.readable() {
            return Err(Errno::EBADF);
        }
        match &self.object {
            Object::Regular(entry) => device::copy_out(entry.data, buffer, at),
            Object::Queue(queue) => queue.read_status(buffer, at),
            Object::Directory(_) => Err(Errno::EISDIR),
            Object::Console => Err(Errno::ESPIPE),
            _ => self.read(buffer),
        }
    }

    /// write(2). EBADF unless opened for writing.
    pub fn write(&self, buffer: UserBuffer) -> Result<usize> {
        if !self.writable() {
            return Err(Errno::EBADF);
        }
        match &self.object {
            Object::Console => console::write(buffer),
            Object::Null | Object::Zero => Ok(buffer.length),
            Object::Full => Err(Errno::ENOSPC),
            // Mixing bytes into the pool changes nothing: its seed is fixed.
            Object::Random => Ok(buffer.length),
            // Opening for writing was refused (the tree is read-only), and a queue is not written like a file.
            Object::Regular(_) | Object::Directory(_) | Object::Queue(_) => Err(Errno::EINVAL),
        }
    }

    /// lseek(2).
    pub fn seek(&self, offset: i64, whence: u32) -> Result<u64> {
        if whence > general::SEEK_HOLE {
            return Err(Errno::EINVAL);
        }
        let size = match &self.object {
            Object::Console => return Err(Errno::ESPIPE),
            Object::Null | Object::Zero | Object::Full => return Ok(0),
            Object::Random => 0,
            Object::Regular(entry) | Object::Directory(entry) => entry.data.len() as u64,
            Object::Queue(_) => super::mqueue::STATUS_SIZE,
        };
        let mut position = self.position.lock();
        let base = match whence {
            general::SEEK_SET => 0,
            general::SEEK_CUR => *position,
            general::SEEK_END => size,
            general::SEEK_DATA | general::SEEK_HOLE if offset < 0 || offset as u64 >= size => return Err(Errno::ENXIO),
            general::SEEK_DATA => 0,
            general::SEEK_HOLE => {
                *position = size;
                return Ok(size);
            }
            _ => return Err(Errno::EINVAL),
        };
        let to = (base as i64)
            .checked_add(offset)
            .filter(|&to| to >= 0)
            .ok_or(Errno::EINVAL)?;
        *position = to as u64;
        Ok(to as u64)
    }

    /// poll(2): which of `POLL*` hold now.
    pub fn poll(&self) -> u32 {
        match &self.object {
            Object::Queue(queue) => queue.poll(),
            Object::Console => general::POLLOUT | general::POLLWRNORM | console::readable(),
            _ => general::POLLIN | general::POLLRDNORM | general::POLLOUT | general::POLLWRNORM,
        }
    }

    /// fstat(2).
    pub fn status(&self) -> Status {
        match &self.object {
            Object::Console => Status::device(5, 1, 0o620, 3),
            Object::Null => Status::device(1, 3, 0o666, 4),
            Object::Zero => Status::device(1, 5, 0o666, 5),
            Object::Full => Status::device(1, 7, 0o666, 6),
            Object::Random => Status::device(1, 9, 0o666, 8),
            Object::Regular(entry) | Object::Directory(entry) => Status::of_entry(entry),
            Object::Queue(queue) => queue.status(),
        }
    }
}

/// What stat(2) tells, before it is put into one of Linux's structures.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// The file system's device number.
    pub device: (u32, u32),
    /// Inode number.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device that the file is, for a device.
    pub special: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970 of access, modification and change.
    pub times: [u64; 3],
}

impl Status {
    /// A character device of /dev.
    pub fn device(major: u32, minor: u32, permissions: u32, ino: u64) -> Status {
        Status {
            device: (0, 6),
            ino,
            mode: general::S_IFCHR | permissions,
            links: 1,
            uid: 0,
            gid: 0,
            special: (major, minor),
            size: 0,
            times: [0; 3],
        }
    }

    /// A file of the initramfs.
    pub fn of_entry(entry: &super::initramfs::Entry) -> Status {
        let directory = entry.mode & super::initramfs::TYPE_MASK == super::initramfs::DIRECTORY;
        Status {
            device: (0, 2),
            ino: entry.ino.into(),
            mode: entry.mode,
            links: if directory { 2 } else { 1 },
            uid: entry.uid,
            gid: entry.gid,
            special: (0, 0),
            size: entry.data.len() as u64,
            times: [u64::from(entry.mtime) * crate::task::clock::SECOND; 3],
        }
    }
}

user_struct! {
    /// `struct timespec`
    pub struct Timespec {
        /// Seconds.
        seconds: i64,
        /// Nanoseconds below a second.
        nanoseconds: i64,
    }
}

impl Timespec {
    /// Of nanoseconds.
    pub fn from_nanoseconds(nanoseconds: u64) -> Timespec {
        Timespec {
            seconds: (nanoseconds / 1_000_000_000) as i64,
            nanoseconds: (nanoseconds % 1_000_000_000) as i64,
        }
    }

    /// As nanoseconds, the largest number for what does not fit. EINVAL as Linux's timespec64_valid.
    pub fn to_nanoseconds(self) -> Result<u64> {
        if self.seconds < 0 || !(0..1_000_000_000).contains(&self.nanoseconds) {
            return Err(Errno::EINVAL);
        }
        let seconds = (self.seconds as u64).saturating_mul(1_000_000_000);
        Ok(seconds.saturating_add(self.nanoseconds as u64))
    }
}
