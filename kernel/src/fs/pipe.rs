//! Pipes, with names and without (pipe(7), fifo(7)).
//!
//! A ring of bytes that grows to its capacity as it is used. Bytes cross the border to user memory by way of a buffer of
//! the kernel's, because user memory is not touched under a lock: at most [`PIPE_BUF`] at a time, which is also what is
//! written in one piece.
//!
//! **Lock order.** The ring's lock has rank 23; the allocator under it. The line of waiters is woken without it.

use super::file::UserBuffer;
use super::wait::{INTERRUPTED, WaitQueue};
use crate::arch::usercopy;
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::signal::{self, Signal};
use alloc::vec::Vec;
use cpu::SpinLock;
use linux_raw_sys::general;

/// Bytes that are written in one piece.
pub const PIPE_BUF: usize = general::PIPE_BUF as usize;
/// Bytes that a new pipe holds at most (pipe(7)).
const CAPACITY: usize = 65536;
/// What `F_SETPIPE_SZ` allows (`/proc/sys/fs/pipe-max-size`).
const MAX_CAPACITY: usize = 1 << 20;
/// Transfers up to this need no memory of the heap.
const SMALL: usize = 256;

struct Ring {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    capacity: usize,
    readers: u32,
    writers: u32,
    /// How often an end has been opened: a waiting open(2) looks at it, for the other side may be gone again.
    opened: [u64; 2],
}

/// See the module.
pub struct Pipe {
    ring: SpinLock<Ring>,
    /// Readers and writers.
    pub waiters: WaitQueue,
}

/// One open end, or both.
pub struct End {
    pipe: Shared<Pipe>,
    reads: bool,
    writes: bool,
}

impl Ring {
    fn room(&self) -> usize {
        self.capacity - self.length
    }

    /// Makes the ring's memory large enough for `length` bytes.
    fn grow(&mut self, length: usize) -> Result<()> {
        if length <= self.bytes.len() {
            return Ok(());
        }
        let size = length.next_power_of_two().clamp(PIPE_BUF, self.capacity.max(PIPE_BUF));
        let mut larger = Vec::new();
        larger.try_reserve_exact(size)?;
        let (first, second) = self.parts(self.length);
        larger.extend_from_slice(first);
        larger.extend_from_slice(second);
        larger.resize(size, 0);
        self.bytes = larger;
        self.start = 0;
        Ok(())
    }

    /// The first `count` bytes: in two pieces where the ring ends in between.
    fn parts(&self, count: usize) -> (&[u8], &[u8]) {
        let to_end = count.min(self.bytes.len() - self.start);
        (
            &self.bytes[self.start..self.start + to_end],
            &self.bytes[..count - to_end],
        )
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.grow(self.length + bytes.len())?;
        let size = self.bytes.len();
        let at = (self.start + self.length) % size;
        let (first, second) = bytes.split_at(bytes.len().min(size - at));
        self.bytes[at..at + first.len()].copy_from_slice(first);
        self.bytes[..second.len()].copy_from_slice(second);
        self.length += bytes.len();
        Ok(())
    }

    fn pop(&mut self, to: &mut [u8]) -> usize {
        let count = to.len().min(self.length);
        if count > 0 {
            let (first, second) = self.parts(count);
            let border = first.len();
            to[..border].copy_from_slice(first);
            to[border..count].copy_from_slice(second);
            self.start = (self.start + count) % self.bytes.len();
            self.length -= count;
        }
        count
    }

    /// Puts back what was just taken, as far as nobody has filled the place.
    fn put_back(&mut self, count: usize) {
        if self.length + count <= self.bytes.len() {
            self.start = (self.start + self.bytes.len() - count) % self.bytes.len();
            self.length += count;
        }
    }
}

impl Pipe {
    /// An empty pipe without ends.
    pub fn try_new() -> Result<Shared<Pipe>> {
        Ok(Shared::try_new(Pipe {
            ring: SpinLock::new(
                23,
                Ring {
                    bytes: Vec::new(),
                    start: 0,
                    length: 0,
                    capacity: CAPACITY,
                    readers: 0,
                    writers: 0,
                    opened: [0; 2],
                },
            ),
            waiters: WaitQueue::new(),
        })?)
    }
}

impl End {
    /// An open end.
    pub fn new(pipe: &Shared<Pipe>, reads: bool, writes: bool) -> End {
        {
            let mut ring = pipe.ring.lock();
            ring.readers += u32::from(reads);
            ring.writers += u32::from(writes);
            ring.opened[0] += u64::from(reads);
            ring.opened[1] += u64::from(writes);
        }
        pipe.waiters.wake();
        End {
            pipe: pipe.clone(),
            reads,
            writes,
        }
    }

    /// open(2) of a named pipe: waits for the other side. ENXIO for a writer that will not wait, EINTR.
    pub fn open(pipe: &Shared<Pipe>, reads: bool, writes: bool, nonblocking: bool) -> Result<End> {
        if writes && !reads && nonblocking && pipe.ring.lock().readers == 0 {
            return Err(Errno::ENXIO);
        }
        let end = End::new(pipe, reads, writes);
        if reads != writes && !nonblocking {
            let other = usize::from(reads);
            let (before, there) = {
                let ring = pipe.ring.lock();
                (ring.opened[other], [ring.readers, ring.writers][other] > 0)
            };
            if !there {
                pipe.waiters.wait(None, || pipe.ring.lock().opened[other] != before)?;
            }
        }
        Ok(end)
    }

    /// The pipe.
    pub fn pipe(&self) -> &Pipe {
        &self.pipe
    }

    /// read(2): waits for the first byte while there is a writer.
    pub fn read(&self, buffer: UserBuffer, nonblocking: bool) -> Result<usize> {
        if buffer.length == 0 {
            return Ok(0);
        }
        let mut done = 0;
        while done < buffer.length {
            let address = buffer.address + done as u64;
            let taken = with_buffer(buffer.length - done, |bytes| {
                let taken = self.pipe.ring.lock().pop(bytes);
                if taken > 0 && usercopy::copy_to_user(address, &bytes[..taken]).is_err() {
                    self.pipe.ring.lock().put_back(taken);
                    return Err(Errno::EFAULT);
                }
                Ok(taken)
            });
            match taken {
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
                Ok(0) if done > 0 => break,
                Ok(0) => {
                    if self.pipe.ring.lock().writers == 0 {
                        return Ok(0);
                    }
                    if nonblocking {
                        return Err(Errno::EAGAIN);
                    }
                    self.pipe.waiters.wait(None, || {
                        let ring = self.pipe.ring.lock();
                        ring.length > 0 || ring.writers == 0
                    })?;
                }
                Ok(taken) => done += taken,
            }
        }
        self.pipe.waiters.wake();
        Ok(done)
    }

    /// write(2): up to [`PIPE_BUF`] bytes in one piece. EPIPE and SIGPIPE without a reader.
    pub fn write(&self, buffer: UserBuffer, nonblocking: bool) -> Result<usize> {
        let whole = buffer.length <= PIPE_BUF;
        let mut done = 0;
        while done < buffer.length {
            let address = buffer.address + done as u64;
            let left = buffer.length - done;
            let written = with_buffer(left, |bytes| {
                usercopy::copy_from_user(bytes, address)?;
                let mut ring = self.pipe.ring.lock();
                if ring.readers == 0 {
                    return Err(Errno::EPIPE);
                }
                let count = bytes.len().min(ring.room());
                if whole && count < left || count == 0 {
                    return Ok(0);
                }
                ring.push(&bytes[..count])?;
                Ok(count)
            });
            match written {
                Ok(0) => {
                    if nonblocking {
                        return if done > 0 { Ok(done) } else { Err(Errno::EAGAIN) };
                    }
                    let needed = if whole { left } else { 1 };
                    let waited = self.pipe.waiters.wait(None, || {
                        let ring = self.pipe.ring.lock();
                        ring.readers == 0 || ring.room() >= needed
                    });
                    match waited {
                        Err(INTERRUPTED) if done > 0 => return Ok(done),
                        waited => waited?,
                    }
                }
                Ok(count) => {
                    done += count;
                    self.pipe.waiters.wake();
                }
                Err(Errno::EPIPE) => {
                    signal::send(&Current::get(), Signal::SIGPIPE);
                    return if done > 0 { Ok(done) } else { Err(Errno::EPIPE) };
                }
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }

    /// poll(2).
    pub fn poll(&self) -> u32 {
        let ring = self.pipe.ring.lock();
        let mut events = 0;
        if self.reads {
            if ring.length > 0 {
                events |= general::POLLIN | general::POLLRDNORM;
            }
            if ring.writers == 0 && ring.opened[1] > 0 {
                events |= general::POLLHUP;
            }
        }
        if self.writes {
            if ring.room() >= PIPE_BUF.min(ring.capacity) {
                events |= general::POLLOUT | general::POLLWRNORM;
            }
            if ring.readers == 0 {
                events |= general::POLLERR;
            }
        }
        events
    }

    /// Bytes that can be read now (`FIONREAD`).
    pub fn readable_bytes(&self) -> usize {
        self.pipe.ring.lock().length
    }

    /// Bytes that the pipe can hold (`F_GETPIPE_SZ`).
    pub fn capacity(&self) -> usize {
        self.pipe.ring.lock().capacity
    }

    /// As `F_SETPIPE_SZ`. EINVAL, EPERM beyond the system's limit, EBUSY below what is in it.
    pub fn set_capacity(&self, wanted: u64) -> Result<usize> {
        let capacity = usize::try_from(wanted)
            .ok()
            .filter(|&wanted| wanted <= 1 << 31)
            .ok_or(Errno::EINVAL)?
            .next_power_of_two()
            .max(PIPE_BUF);
        if capacity > MAX_CAPACITY {
            return Err(Errno::EPERM);
        }
        let mut ring = self.pipe.ring.lock();
        if ring.length > capacity {
            return Err(Errno::EBUSY);
        }
        ring.capacity = capacity;
        Ok(capacity)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let old = {
            let mut ring = self.pipe.ring.lock();
            ring.readers -= u32::from(self.reads);
            ring.writers -= u32::from(self.writes);
            // What nobody can read any more is gone.
            if ring.readers + ring.writers == 0 {
                (ring.start, ring.length) = (0, 0);
                core::mem::take(&mut ring.bytes)
            } else {
                Vec::new()
            }
        };
        drop(old);
        self.pipe.waiters.wake();
    }
}

/// Runs `f` on a buffer of up to `length` bytes, at most [`PIPE_BUF`].
fn with_buffer<R>(length: usize, f: impl FnOnce(&mut [u8]) -> Result<R>) -> Result<R> {
    if length <= SMALL {
        return f(&mut [0; SMALL][..length]);
    }
    let length = length.min(PIPE_BUF);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length)?;
    bytes.resize(length, 0);
    f(&mut bytes)
}
