//! A POSIX message queue as a file.
//!
//! A descriptor of a queue is one like any other: it can be duplicated, passed on, closed, looked at with fstat(2), and
//! read: reading gives the status line of mq_overview(7) and takes no message.

use super::device;
use super::file::{Status, UserBuffer};
use crate::arch::once::BootCell;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use arrayvec::ArrayString;
use ipc::mqueue::{Namespace, Open, Queue, QueueRef};
use linux_raw_sys::general;

/// Bytes of the status line, as fstat tells (`FILENT_SIZE`).
pub const STATUS_SIZE: u64 = 80;

/// The queues of the one namespace there is.
static NAMESPACE: BootCell<Namespace<Shared<Queue>>> = BootCell::new();

/// Makes the namespace. Once, at boot.
pub fn start(ipc: &'static ipc::Ipc) {
    NAMESPACE.set(Namespace::new(ipc));
}

/// The namespace of the running task.
pub fn namespace() -> &'static Namespace<Shared<Queue>> {
    NAMESPACE.get().expect("the namespace is made at boot")
}

impl QueueRef for Shared<Queue> {
    fn try_share(queue: Queue) -> core::result::Result<Self, ipc::Error> {
        Shared::try_new(queue).map_err(|_| ipc::Error::NoMemory)
    }
}

/// A hold on a queue, as what a file is.
pub struct QueueFile(Open<Shared<Queue>>);

impl QueueFile {
    /// Of an open queue.
    pub fn new(open: Open<Shared<Queue>>) -> QueueFile {
        QueueFile(open)
    }

    /// The queue.
    #[inline(always)]
    pub fn queue(&self) -> &Queue {
        &self.0
    }

    /// read(2): the status line from `at` on.
    pub fn read_status(&self, buffer: UserBuffer, at: u64) -> Result<usize> {
        let mut line = ArrayString::<{ STATUS_SIZE as usize + 32 }>::new();
        let status = self.queue().status();
        let pid = status.process.unwrap_or(0) as i32;
        status.write(pid, &mut line).map_err(|_| Errno::EIO)?;
        device::copy_out(line.as_bytes(), buffer, at)
    }

    /// poll(2).
    pub fn poll(&self) -> u32 {
        let (receive, send) = self.queue().ready();
        let mut events = 0;
        if receive {
            events |= general::POLLIN | general::POLLRDNORM;
        }
        if send {
            events |= general::POLLOUT | general::POLLWRNORM;
        }
        events
    }

    /// fstat(2).
    pub fn status(&self) -> Status {
        let queue = self.queue();
        let owner = queue.owner();
        Status {
            device: (0, 19),
            ino: queue.number(),
            mode: general::S_IFREG | u32::from(owner.mode),
            links: queue.is_linked().into(),
            uid: owner.uid,
            gid: owner.gid,
            special: (0, 0),
            size: STATUS_SIZE,
            times: [queue.touched(); 3],
        }
    }
}
