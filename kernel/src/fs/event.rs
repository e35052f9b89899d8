//! Counters that tasks wait for by a descriptor: eventfd(2).
//!
//! **Lock order.** The count's lock has rank 23.

use super::file::UserBuffer;
use super::wait::WaitQueue;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use cpu::SpinLock;
use linux_raw_sys::general;

/// The largest count.
const MAX: u64 = u64::MAX - 1;

/// See the module.
pub struct Event {
    count: SpinLock<u64>,
    /// Each read takes one (`EFD_SEMAPHORE`). Immutable.
    semaphore: bool,
    waiters: WaitQueue,
}

impl Event {
    /// With a first count.
    pub fn new(count: u32, semaphore: bool) -> Event {
        Event {
            count: SpinLock::new(23, count.into()),
            semaphore,
            waiters: WaitQueue::new(),
        }
    }

    /// read(2): the count, or one of it.
    pub fn read(&self, buffer: UserBuffer, nonblocking: bool) -> Result<usize> {
        if buffer.length < 8 {
            return Err(Errno::EINVAL);
        }
        loop {
            let taken = {
                let mut count = self.count.lock();
                let taken = if self.semaphore { (*count).min(1) } else { *count };
                *count -= taken;
                taken
            };
            if taken > 0 {
                self.waiters.wake();
                UserPtr::<u64>::new(buffer.address).write(&taken)?;
                return Ok(8);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            self.waiters.wait(None, || *self.count.lock() > 0)?;
        }
    }

    /// write(2): adds to the count.
    pub fn write(&self, buffer: UserBuffer, nonblocking: bool) -> Result<usize> {
        if buffer.length < 8 {
            return Err(Errno::EINVAL);
        }
        let more = UserPtr::<u64>::new(buffer.address).read()?;
        if more > MAX {
            return Err(Errno::EINVAL);
        }
        loop {
            let added = {
                let mut count = self.count.lock();
                let fits = more <= MAX - *count;
                if fits {
                    *count += more;
                }
                fits
            };
            if added {
                self.waiters.wake();
                return Ok(8);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            self.waiters.wait(None, || more <= MAX - *self.count.lock())?;
        }
    }

    /// poll(2).
    pub fn poll(&self) -> u32 {
        let count = *self.count.lock();
        let mut events = 0;
        if count > 0 {
            events |= general::POLLIN | general::POLLRDNORM;
        }
        if count < MAX {
            events |= general::POLLOUT | general::POLLWRNORM;
        }
        events
    }

    /// Who waits.
    pub fn waiters(&self) -> &WaitQueue {
        &self.waiters
    }
}
