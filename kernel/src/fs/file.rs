//! An open file.

use super::event::Event;
use super::mount::Place;
use super::mqueue::QueueFile;
use super::node::{Kind, Node};
use super::pipe::End;
use super::wait::WaitQueue;
use super::{console, device, notification};
use crate::mm::shared::{OutOfMemory, Shared};
use crate::mm::tasks::Current;
use crate::net::Socket;
use crate::net::buffers::Buffers;
use crate::syscall::errno::{Errno, Result};
use crate::task::signal::{self, Signal};
use crate::user_struct;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general;

/// The bits of `O_*` that say how a file is opened for access.
pub const ACCESS_MODE: u32 = general::O_ACCMODE;
/// The status flags that `F_SETFL` may change.
const CHANGEABLE: u32 =
    general::O_APPEND | general::O_NONBLOCK | general::O_DIRECT | general::O_NOATIME | general::FASYNC;
/// The most bytes written to a file of text at once.
const MAX_TEXT: usize = 4096;

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
    /// /dev/kmsg
    Kmsg,
    /// A place and nothing more (`O_PATH`).
    Path,
    /// A file in memory.
    Regular(Shared<Node>),
    /// A directory.
    Directory(Shared<Node>),
    /// Text that the kernel makes.
    Text(Shared<Node>),
    /// A POSIX message queue.
    Queue(QueueFile),
    /// An end of a pipe.
    Pipe(End),
    /// An eventfd(2).
    Event(Event),
    /// An epoll(7) instance.
    Epoll(super::epoll::Epoll),
    /// A socket.
    Socket(Socket),
}

/// An open file (Linux: `struct file`). Descriptors refer to it.
pub struct File {
    /// What it is. Immutable.
    pub object: Object,
    /// `O_*`: access mode and status flags.
    flags: AtomicU32,
    /// Where the next read begins. Only for what has a position.
    position: SpinLock<u64>,
    /// Where it is in the tree, if it was opened by a path. Immutable.
    pub place: Option<Place>,
    /// The directory by which it was found. Immutable.
    pub parent: Option<Place>,
    /// Entries of epoll(7) sets that refer to it.
    pub watchers: AtomicU32,
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
    /// An open file without a path; `flags` as open(2) has them.
    pub fn try_new(object: Object, flags: u32) -> core::result::Result<Shared<File>, OutOfMemory> {
        File::assemble(object, flags, None, None)
    }

    /// An open file of a place.
    pub fn try_new_at(
        object: Object,
        flags: u32,
        place: Place,
        parent: Option<Place>,
    ) -> core::result::Result<Shared<File>, OutOfMemory> {
        File::assemble(object, flags, Some(place), parent)
    }

    fn assemble(
        object: Object,
        flags: u32,
        place: Option<Place>,
        parent: Option<Place>,
    ) -> core::result::Result<Shared<File>, OutOfMemory> {
        let kept =
            flags & !(general::O_CREAT | general::O_EXCL | general::O_NOCTTY | general::O_TRUNC | general::O_CLOEXEC);
        Shared::try_new(File {
            object,
            flags: AtomicU32::new(kept),
            position: SpinLock::new(18, 0),
            place,
            parent,
            watchers: AtomicU32::new(0),
        })
    }

    /// The running process has closed a descriptor of it.
    pub fn descriptor_closed(&self) {
        if let Object::Queue(queue) = &self.object {
            notification::withdraw(queue.queue());
        }
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

    /// Whether it is a place and nothing more.
    pub fn is_path(&self) -> bool {
        matches!(self.object, Object::Path)
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
            Object::Kmsg => Err(Errno::EAGAIN),
            Object::Pipe(end) => end.read(buffer, self.nonblocking()),
            Object::Event(event) => event.read(buffer, self.nonblocking()),
            Object::Socket(socket) => {
                let received = socket.receive(&Buffers::one(buffer)?, 0, self.nonblocking())?;
                Ok(received.result)
            }
            Object::Regular(_) | Object::Text(_) | Object::Queue(_) => {
                let at = *self.position.lock();
                let read = self.read_at(buffer, at)?;
                *self.position.lock() = at + read as u64;
                Ok(read)
            }
            Object::Directory(_) => Err(Errno::EISDIR),
            Object::Epoll(_) => Err(Errno::EINVAL),
            Object::Path => Err(Errno::EBADF),
        }
    }

    /// pread(2). ESPIPE for what has no position.
    pub fn read_at(&self, buffer: UserBuffer, at: u64) -> Result<usize> {
        if self.is_path() {
            return Err(Errno::EBADF);
        }
        if !self.seekable() {
            return Err(Errno::ESPIPE);
        }
        if !self.readable() {
            return Err(Errno::EBADF);
        }
        match &self.object {
            Object::Regular(node) => match &node.kind {
                Kind::Regular(content) => content.read(buffer, at),
                _ => Err(Errno::EIO),
            },
            Object::Text(node) => {
                let Kind::Dynamic(dynamic) = &node.kind else {
                    return Err(Errno::EIO);
                };
                let mut text = super::text::Text::default();
                dynamic.read(&mut text)?;
                device::copy_out(&text.finish()?, buffer, at)
            }
            Object::Queue(queue) => queue.read_status(buffer, at),
            Object::Directory(_) => Err(Errno::EISDIR),
            _ => self.read(buffer),
        }
    }

    /// Whether it has a position.
    fn seekable(&self) -> bool {
        !matches!(
            self.object,
            Object::Console | Object::Pipe(_) | Object::Event(_) | Object::Epoll(_) | Object::Socket(_)
        )
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
            Object::Kmsg => device::log_line(buffer),
            Object::Pipe(end) => end.write(buffer, self.nonblocking()),
            Object::Event(event) => event.write(buffer, self.nonblocking()),
            Object::Socket(socket) => socket.send(),
            Object::Regular(_) => {
                let append = self.flags() & general::O_APPEND != 0;
                let at = if append { None } else { Some(*self.position.lock()) };
                let (start, written) = self.write_regular(buffer, at)?;
                *self.position.lock() = start + written as u64;
                Ok(written)
            }
            Object::Text(_) => self.write_at(buffer, 0),
            // A queue is not written like a file.
            Object::Directory(_) | Object::Queue(_) | Object::Epoll(_) => Err(Errno::EINVAL),
            Object::Path => Err(Errno::EBADF),
        }
    }

    /// pwrite(2). ESPIPE for what has no position.
    pub fn write_at(&self, buffer: UserBuffer, at: u64) -> Result<usize> {
        if self.is_path() {
            return Err(Errno::EBADF);
        }
        if !self.seekable() {
            return Err(Errno::ESPIPE);
        }
        if !self.writable() {
            return Err(Errno::EBADF);
        }
        match &self.object {
            Object::Regular(_) => {
                // As on Linux, and against POSIX: what appends, appends.
                let append = self.flags() & general::O_APPEND != 0;
                Ok(self.write_regular(buffer, if append { None } else { Some(at) })?.1)
            }
            Object::Text(node) => {
                let Kind::Dynamic(dynamic) = &node.kind else {
                    return Err(Errno::EIO);
                };
                let mut bytes = alloc::vec::Vec::new();
                let length = buffer.length.min(MAX_TEXT);
                bytes.try_reserve_exact(length)?;
                bytes.resize(length, 0);
                crate::arch::usercopy::copy_from_user(&mut bytes, buffer.address)?;
                dynamic.write(&bytes)?;
                Ok(buffer.length)
            }
            _ => self.write(buffer),
        }
    }

    /// Where it began, and how many bytes. EFBIG and SIGXFSZ at `RLIMIT_FSIZE`.
    fn write_regular(&self, mut buffer: UserBuffer, at: Option<u64>) -> Result<(u64, usize)> {
        let Object::Regular(node) = &self.object else {
            return Err(Errno::EINVAL);
        };
        let Kind::Regular(content) = &node.kind else {
            return Err(Errno::EINVAL);
        };
        if buffer.length == 0 {
            return Ok((at.unwrap_or(content.size()), 0));
        }
        let from = at.unwrap_or_else(|| content.size());
        buffer.length = buffer.length.min(room_below_limit(from)?);
        let written = content.write(&node.fs, buffer, at)?;
        node.modified();
        Ok(written)
    }

    /// ftruncate(2). EINVAL for what is no file opened for writing; EFBIG.
    pub fn truncate(&self, size: u64) -> Result<()> {
        match &self.object {
            Object::Regular(node) if self.writable() => truncate(node, size),
            Object::Path => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The bytes that the boot loader brought, of a file that nobody has changed.
    pub fn archive_bytes(&self) -> Option<&'static [u8]> {
        match &self.object {
            Object::Regular(node) => match &node.kind {
                Kind::Regular(content) => content.unchanged(),
                _ => None,
            },
            _ => None,
        }
    }

    /// lseek(2).
    pub fn seek(&self, offset: i64, whence: u32) -> Result<u64> {
        if self.is_path() {
            return Err(Errno::EBADF);
        }
        if whence > general::SEEK_HOLE {
            return Err(Errno::EINVAL);
        }
        if !self.seekable() {
            return Err(Errno::ESPIPE);
        }
        let size = match &self.object {
            Object::Null | Object::Zero | Object::Full => return Ok(0),
            Object::Regular(node) | Object::Directory(node) => node.status().size,
            Object::Queue(_) => super::mqueue::STATUS_SIZE,
            _ => 0,
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

    /// The position.
    pub fn position(&self) -> u64 {
        *self.position.lock()
    }

    /// Sets the position.
    pub fn set_position(&self, to: u64) {
        *self.position.lock() = to;
    }

    /// poll(2): which of `POLL*` hold now.
    pub fn poll(&self) -> u32 {
        match &self.object {
            Object::Queue(queue) => queue.poll(),
            Object::Pipe(end) => end.poll(),
            Object::Event(event) => event.poll(),
            Object::Epoll(epoll) => epoll.poll(),
            Object::Socket(socket) => socket.poll(),
            Object::Console => general::POLLOUT | general::POLLWRNORM | console::readable(),
            Object::Path => general::POLLNVAL,
            _ => general::POLLIN | general::POLLRDNORM | general::POLLOUT | general::POLLWRNORM,
        }
    }

    /// The line of those who wait for it to become ready; `None` for what is ready always, or cannot wake anybody.
    pub fn waiters(&self) -> Option<&WaitQueue> {
        match &self.object {
            Object::Queue(queue) => Some(queue.waiters()),
            Object::Pipe(end) => Some(&end.pipe().waiters),
            Object::Event(event) => Some(event.waiters()),
            Object::Socket(socket) => Some(socket.waiters()),
            _ => None,
        }
    }

    /// fstat(2).
    pub fn status(&self) -> Status {
        match (&self.object, &self.place) {
            (Object::Queue(queue), _) => queue.status(),
            (_, Some(place)) => place.node.status(),
            (Object::Pipe(_), None) => Status::nameless(general::S_IFIFO | 0o600),
            (Object::Console, None) => Status::nameless(general::S_IFCHR | 0o620),
            _ => Status::nameless(0o600),
        }
    }
}

/// truncate(2) of a regular file. EISDIR, EINVAL for what is none, EFBIG.
pub fn truncate(node: &Node, size: u64) -> Result<()> {
    match &node.kind {
        Kind::Regular(content) => {
            if size > content.size() {
                let room = room_below_limit(size.saturating_sub(1))?;
                debug_assert!(room > 0);
            }
            content.resize(&node.fs, size);
            node.modified();
            Ok(())
        }
        _ if node.is_directory() => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

/// Bytes that a file may still grow from `at` on. EFBIG and SIGXFSZ for none.
fn room_below_limit(at: u64) -> Result<usize> {
    let current = Current::get();
    let limit = current.process.limit(general::RLIMIT_FSIZE);
    if at >= limit {
        if let Some(signal) = Signal::new(general::SIGXFSZ) {
            signal::send(&current, signal);
        }
        return Err(Errno::EFBIG);
    }
    Ok(usize::try_from(limit - at).unwrap_or(usize::MAX))
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
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Nanoseconds since 1970 of access, modification and change.
    pub times: [u64; 3],
}

impl Status {
    /// Of what has no name, in a file system of the kernel's own.
    pub fn nameless(mode: u32) -> Status {
        Status {
            device: (0, 1),
            ino: 1,
            mode,
            links: 1,
            uid: 0,
            gid: 0,
            special: (0, 0),
            size: 0,
            blocks: 0,
            times: [0; 3],
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
