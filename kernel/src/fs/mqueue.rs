//! A POSIX message queue as a file.
//!
//! A descriptor of a queue is one like any other: it can be duplicated, passed on, closed, looked at with fstat(2), and
//! read: reading gives the status line of mq_overview(7) and takes no message.
//!
//! The mqueue file system shows the queues by name: they can be listed, looked at, opened, made and deleted there.

use super::file::{Object, Status, UserBuffer};
use super::node::{Attributes, DIRECTORY, Dynamic, Each, FileSystem, Kind, Listed, Node, REGULAR, TYPE_MASK};
use super::path::Name;
use super::wait::WaitQueue;
use super::{device, notification};
use crate::mm::shared::Shared;
use crate::mm::shared::try_box;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::clock;
use crate::task::ipc_namespace::{Acting, queues};
use arrayvec::ArrayString;
use cpu::atomic::{AtomicU32, Ordering};
use ipc::Access;
use ipc::mqueue::{Create, Namespace, NamespaceRef, Open, Queue, QueueRef};
use linux_raw_sys::general;

/// Bytes of the status line, as fstat tells (`FILENT_SIZE`).
pub const STATUS_SIZE: u64 = 80;

/// The POSIX queues of an IPC namespace.
pub type Queues = Namespace<Shared<Queue>>;

impl NamespaceRef for Shared<Queues> {
    type Queue = Shared<Queue>;
}

impl QueueRef for Shared<Queue> {
    fn try_share(queue: Queue) -> core::result::Result<Self, ipc::Error> {
        Shared::try_new(queue).map_err(|_| ipc::Error::NoMemory)
    }
}

/// Those who poll queues. One line for all: who is woken over another queue looks and sleeps again.
static POLLERS: WaitQueue = WaitQueue::new();
/// How many they are. A poller counts itself before it looks at the queue, under the queue's lock; a receiver looks here
/// after it has had that lock: so either the poller sees the free place or the receiver sees the poller. (A send tells by
/// itself whether its queue is polled; for a receive this look is cheaper.)
static POLLING: AtomicU32 = AtomicU32::new(0);

/// Whether anybody polls any queue.
#[inline(always)]
pub fn somebody_polls() -> bool {
    POLLING.load(Ordering::Relaxed) != 0
}

/// A queue that somebody polls has changed.
#[cold]
pub fn wake_pollers() {
    POLLERS.wake();
}

/// On whose behalf the running task acts.
pub fn acting(current: &Current) -> Acting {
    Acting::new(current, current.process.limit(general::RLIMIT_MSGQUEUE))
}

/// A hold on a queue, as what a file is.
pub struct QueueFile(Open<Shared<Queues>>);

impl QueueFile {
    /// Of an open queue.
    pub fn new(open: Open<Shared<Queues>>) -> QueueFile {
        QueueFile(open)
    }

    /// The queue.
    #[inline(always)]
    pub fn queue(&self) -> &Queue {
        &self.0
    }

    /// A task begins to poll it.
    pub fn begin_poll(&self) {
        POLLING.fetch_add(1, Ordering::AcqRel);
        self.queue().add_poller();
    }

    /// A task ends to poll it.
    pub fn end_poll(&self) {
        self.queue().remove_poller();
        POLLING.fetch_sub(1, Ordering::AcqRel);
    }

    /// fchmod(2).
    pub fn change_mode(&self, mode: u32) -> Result<()> {
        change_mode(self.queue(), mode)
    }

    /// fchown(2).
    pub fn change_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        change_owner(self.queue(), uid, gid)
    }

    /// The line of those who poll.
    pub fn waiters(&self) -> &WaitQueue {
        &POLLERS
    }

    /// read(2): the status line from `at` on.
    pub fn read_status(&self, buffer: UserBuffer, at: u64) -> Result<usize> {
        let mut line = ArrayString::<{ STATUS_SIZE as usize + 32 }>::new();
        let status = self.queue().status();
        let pid = status.process.map_or(0, notification::pid_of);
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
        status_of(self.queue())
    }
}

fn status_of(queue: &Queue) -> Status {
    let owner = queue.owner();
    Status {
        device: (0, 19),
        ino: queue.number() + 1,
        mode: general::S_IFREG | u32::from(owner.mode),
        links: queue.is_linked().into(),
        uid: owner.uid,
        gid: owner.gid,
        special: (0, 0),
        size: STATUS_SIZE,
        blocks: 0,
        times: [queue.touched(); 3],
    }
}

/// The root of the mqueue file system, which shows the queues of the namespace that its mounter had.
struct Root(Shared<Queues>);

/// A queue's name in it. It holds the queue without any right.
struct Named {
    name: Name,
    open: Open<Shared<Queues>>,
}

/// The root of an instance of the file system.
pub fn root(fs: &Shared<FileSystem>) -> Result<Shared<Node>> {
    let attributes = Attributes::new(DIRECTORY | general::S_ISVTX | 0o777, 0, 0);
    Node::try_new(fs, Kind::Dynamic(try_box(Root(queues()))?), attributes)
}

impl Root {
    fn node(&self, this: &Node, name: &[u8], open: Open<Shared<Queues>>) -> Result<Shared<Node>> {
        let status = status_of(&open);
        let attributes = Attributes {
            links: status.links,
            times: status.times,
            ..Attributes::new(status.mode, status.uid, status.gid)
        };
        let named = Named {
            name: Name::try_from(name).map_err(|_| Errno::ENAMETOOLONG)?,
            open,
        };
        Node::numbered(&this.fs, status.ino, Kind::Dynamic(try_box(named)?), attributes)
    }
}

impl Dynamic for Root {
    fn lookup(&self, this: &Shared<Node>, name: &[u8]) -> Result<Option<Shared<Node>>> {
        match self.0.find(name) {
            Ok(open) => Ok(Some(self.node(this, name, open)?)),
            Err(ipc::Error::NoEntry) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self, _this: &Node, from: u64, each: &mut Each) -> Result<()> {
        // Positions count names: with deletions in between some may be passed over, as on Linux.
        let mut at = 2;
        self.0.list(None, |name, queue| {
            at += 1;
            at <= from
                || each(Listed {
                    next: at,
                    ino: queue.number() + 1,
                    kind: REGULAR,
                    name,
                })
        });
        Ok(())
    }

    fn create(&self, this: &Shared<Node>, name: &[u8], mode: u32) -> Result<Shared<Node>> {
        if mode & TYPE_MASK != REGULAR {
            return Err(Errno::EPERM);
        }
        let create = Create {
            exclusive: true,
            mode: (mode & 0o7777) as u16,
            attributes: None,
        };
        let open = self.0.open(
            &acting(&Current::get()).caller(),
            name,
            Some(Access::READ),
            Some(create),
        )?;
        open.touch(clock::realtime());
        self.node(this, name, open)
    }

    fn remove(&self, name: &[u8], directory: bool) -> Result<()> {
        if directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(self.0.unlink(&acting(&Current::get()).caller(), name)?)
    }
}

impl Dynamic for Named {
    fn open(&self, flags: u32) -> Result<Option<Object>> {
        // A hold of its own, found anew: in between the name may have gone to another queue.
        let access = Access::from_flags(flags);
        let open = self
            .open
            .namespace()
            .open(&acting(&Current::get()).caller(), &self.name, access, None)?;
        if open.number() != self.open.number() {
            return Err(Errno::ENOENT);
        }
        Ok(Some(Object::Queue(QueueFile::new(open))))
    }

    fn status(&self, status: &mut Status) {
        *status = Status {
            device: status.device,
            ..status_of(&self.open)
        };
    }

    fn change_mode(&self, mode: u32) -> Option<Result<()>> {
        Some(change_mode(&self.open, mode))
    }

    fn change_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Option<Result<()>> {
        Some(change_owner(&self.open, uid, gid))
    }
}

fn change_mode(queue: &Queue, mode: u32) -> Result<()> {
    Ok(queue.change_mode(&acting(&Current::get()).caller(), (mode & 0o7777) as u16)?)
}

fn change_owner(queue: &Queue, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    Ok(queue.change_owner(&acting(&Current::get()).caller(), uid, gid)?)
}
