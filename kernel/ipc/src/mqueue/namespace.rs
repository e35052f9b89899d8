//! The names of one IPC namespace's queues, and the limits for making them.
//!
//! **How it works.** The directory holds every queue of the namespace: the named ones in order of their names, and those
//! that were unlinked while somebody has them open. [`Open`] is a hold on a queue; the last hold on an unlinked queue
//! ends the queue. So the directory's size is the count that `queues_max` bounds, and every message cache can be found.
//!
//! Creation is atomic: it happens under the directory's lock, and everything that can fail is done before the name
//! appears.
//!
//! **Order of checks.** Opening: the name (`ENOENT` empty, `ENAMETOOLONG` longer than a path, `EACCES` a dot name or a
//! slash, `ENAMETOOLONG` longer than a name); for a name that exists `EEXIST`, then `EINVAL` for access mode 3, then
//! `EACCES`; for one that does not `ENOENT`, or on creation `ENOSPC`, `EINVAL` (attributes), `EMFILE`, `ENOMEM`. On Linux
//! `EFAULT` for attributes and name, `EMFILE` for want of a descriptor come before the dot names and slashes: the kernel
//! reserves the descriptor first, so that nothing is left behind when it has none.
//!
//! **Lock order.** The directory's lock, rank 30; under it the users' lock, a queue's, and the allocator's.

use super::attributes::{Claim, Limit, Limits};
use super::queue::Queue;
use crate::permission::{Access, Caller, Owner};
use crate::{Error, Ipc};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use cpu::SpinLock;

/// The longest name, in bytes (`NAME_MAX`).
pub const MAX_NAME: usize = 255;
/// A path with its end does not have more bytes (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// How the kernel shares queues: a counted pointer whose making can fail.
pub trait QueueRef: Clone + Deref<Target = Queue> {
    /// Puts a queue behind a counted pointer. [`Error::NoMemory`] when there is none.
    fn try_share(queue: Queue) -> Result<Self, Error>;
}

#[cfg(not(target_os = "none"))]
impl QueueRef for std::sync::Arc<Queue> {
    fn try_share(queue: Queue) -> Result<Self, Error> {
        Ok(std::sync::Arc::new(queue))
    }
}

/// How a queue is made if the name is new (`O_CREAT`).
#[derive(Clone, Copy, Debug)]
pub struct Create {
    /// The name must be new (`O_EXCL`).
    pub exclusive: bool,
    /// Permission bits, the umask taken off.
    pub mode: u16,
    /// The attributes claimed; `None` for the defaults.
    pub attributes: Option<Claim>,
}

/// How the kernel shares a namespace: whoever has a queue of it open has it too.
pub trait NamespaceRef: Clone + Deref<Target = Namespace<Self::Queue>> {
    /// How it shares the queues.
    type Queue: QueueRef;

    /// Opens the queue `name` (without a slash, up to its terminating zero), making it if `create` says so.
    ///
    /// `access` is `None` for access mode 3: a queue that exists refuses it, one that is made gives no right at all.
    ///
    /// # Errors
    /// See the module for all, in order.
    fn open(
        &self,
        caller: &Caller,
        name: &[u8],
        access: Option<Access>,
        create: Option<Create>,
    ) -> Result<Open<Self>, Error> {
        let queue = self.hold(caller, name, access, create)?;
        Ok(Open {
            queue,
            namespace: self.clone(),
            access: access.unwrap_or(Access::empty()),
        })
    }

    /// A hold on the queue `name` that gives no right: for stat(2) by path and the like.
    fn find(&self, name: &[u8]) -> Result<Open<Self>, Error> {
        let queue = self.hold_named(name)?;
        Ok(Open {
            queue,
            namespace: self.clone(),
            access: Access::empty(),
        })
    }
}

impl<R: QueueRef + 'static> NamespaceRef for &'static Namespace<R> {
    type Queue = R;
}

struct Named<R> {
    name: Vec<u8>,
    queue: R,
}

struct Directory<R> {
    /// By name.
    named: Vec<Named<R>>,
    /// By number. Has room for every queue, so that unlinking cannot fail.
    unlinked: Vec<R>,
    /// Number of the next queue.
    next: u64,
}

impl<R: QueueRef> Directory<R> {
    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.named.binary_search_by(|entry| entry.name.as_slice().cmp(name))
    }
    fn queues(&self) -> impl Iterator<Item = &R> {
        self.named.iter().map(|entry| &entry.queue).chain(&self.unlinked)
    }
    fn len(&self) -> usize {
        self.named.len() + self.unlinked.len()
    }
    /// Nothing stays behind in the allocator when there is no queue.
    fn tidy(&mut self) {
        if self.len() == 0 {
            self.named = Vec::new();
            self.unlinked = Vec::new();
        }
    }
}

/// The queues of one IPC namespace. Ends when nobody [has](NamespaceRef) it; its named queues end with it.
pub struct Namespace<R: QueueRef> {
    /// Immutable.
    ipc: &'static Ipc,
    /// The settings of `/proc/sys/fs/mqueue`.
    limits: Limits,
    directory: SpinLock<Directory<R>>,
}

/// A hold on a queue: what an open file description has. Dropping it lets go; the last one of an unlinked queue ends
/// the queue, with its messages.
pub struct Open<N: NamespaceRef> {
    queue: N::Queue,
    namespace: N,
    access: Access,
}

/// Checks a name as a path's last component.
fn check_name(name: &[u8]) -> Result<(), Error> {
    match name {
        [] => Err(Error::NoEntry),
        _ if name.len() >= PATH_MAX => Err(Error::NameTooLong),
        b"." | b".." => Err(Error::Access),
        _ if name.contains(&b'/') => Err(Error::Access),
        _ if name.len() > MAX_NAME => Err(Error::NameTooLong),
        _ => Ok(()),
    }
}

impl<R: QueueRef> Namespace<R> {
    /// A namespace without queues, with Linux's default limits.
    pub fn new(ipc: &'static Ipc) -> Namespace<R> {
        Namespace {
            ipc,
            limits: Limits::new(),
            directory: SpinLock::new(
                30,
                Directory {
                    named: Vec::new(),
                    unlinked: Vec::new(),
                    next: 1,
                },
            ),
        }
    }

    /// The settings of `/proc/sys/fs/mqueue`.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the machine's queues share.
    pub fn ipc(&self) -> &'static Ipc {
        self.ipc
    }

    /// A queue with one hold more: see [`NamespaceRef::open`].
    fn hold(&self, caller: &Caller, name: &[u8], access: Option<Access>, create: Option<Create>) -> Result<R, Error> {
        check_name(name)?;
        let mut directory = self.directory.lock();
        let queue = match (directory.find(name), create) {
            (Ok(_), Some(Create { exclusive: true, .. })) => return Err(Error::Exists),
            (Ok(at), _) => {
                let queue = &directory.named[at].queue;
                queue.owner().check(caller, access.ok_or(Error::Invalid)?)?;
                queue.clone()
            }
            (Err(_), None) => return Err(Error::NoEntry),
            (Err(at), Some(create)) => self.create(&mut directory, at, caller, name, create)?,
        };
        queue.set_holds(queue.holds() + 1);
        Ok(queue)
    }

    fn create(
        &self,
        directory: &mut Directory<R>,
        at: usize,
        caller: &Caller,
        name: &[u8],
        create: Create,
    ) -> Result<R, Error> {
        let privileged = caller.cap_sys_resource;
        if directory.len() >= self.limits.get(Limit::QueuesMax) as usize && !privileged {
            return Err(Error::NoSpace);
        }
        let attributes = self.limits.settle(create.attributes, privileged)?;
        let users = &self.ipc.users;
        let charge = users.charge(caller.uid, attributes.bill(), caller.rlimit_msgqueue)?;
        let mut own_name = Vec::new();
        own_name.try_reserve_exact(name.len())?;
        own_name.extend_from_slice(name);
        directory.named.try_reserve(1)?;
        let all = directory.len() + 1;
        let more = all - directory.unlinked.len();
        directory.unlinked.try_reserve(more)?;
        let owner = Owner {
            uid: caller.uid,
            gid: caller.gid,
            mode: create.mode & 0o7777,
        };
        let queue = R::try_share(Queue::new(self.ipc, attributes, directory.next, owner, charge))?;
        directory.next += 1;
        let entry = Named {
            name: own_name,
            queue: queue.clone(),
        };
        directory.named.insert(at, entry);
        Ok(queue)
    }

    /// A queue with one hold more: see [`NamespaceRef::find`].
    fn hold_named(&self, name: &[u8]) -> Result<R, Error> {
        check_name(name)?;
        let directory = self.directory.lock();
        let at = directory.find(name).map_err(|_| Error::NoEntry)?;
        let queue = directory.named[at].queue.clone();
        queue.set_holds(queue.holds() + 1);
        Ok(queue)
    }

    /// Takes the name away. The queue ends with its last hold; now, if there is none.
    ///
    /// # Errors
    /// Those of the name, then [`Error::NoEntry`], then [`Error::NotPermitted`] for a stranger.
    pub fn unlink(&self, caller: &Caller, name: &[u8]) -> Result<(), Error> {
        check_name(name)?;
        let mut directory = self.directory.lock();
        let at = directory.find(name).map_err(|_| Error::NoEntry)?;
        directory.named[at].queue.owner().check_unlink(caller)?;
        let entry = directory.named.remove(at);
        entry.queue.unlink();
        if entry.queue.holds() > 0 {
            let number = entry.queue.number();
            let at = directory.unlinked.partition_point(|other| other.number() < number);
            directory.unlinked.insert(at, entry.queue.clone());
        }
        directory.tidy();
        drop(directory);
        // The queue, if this was all there was to it, ends here: outside the lock.
        drop(entry);
        Ok(())
    }

    /// Shows the named queues in order, from the first behind `after` on, until `each` says no. The directory's lock is
    /// held meanwhile.
    pub fn list(&self, after: Option<&[u8]>, mut each: impl FnMut(&[u8], &Queue) -> bool) {
        let directory = self.directory.lock();
        let start = after.map_or(0, |after| {
            directory.named.partition_point(|entry| entry.name.as_slice() <= after)
        });
        for entry in &directory.named[start..] {
            if !each(&entry.name, &entry.queue) {
                break;
            }
        }
    }

    /// Number of queues, the unlinked ones included.
    pub fn len(&self) -> usize {
        self.directory.lock().len()
    }

    /// Whether it has no queue.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives back what this CPU's slots of all message caches hold for cgroups of which `owner` is true (by
    /// [`memcg::KmemId::index`]). Gives the bytes of message data given back.
    ///
    /// For a cgroup at its limit or removed. Other CPUs do it for themselves when asked.
    pub fn drain_caches_this_cpu(&self, owner: impl Fn(usize) -> bool) -> usize {
        let directory = self.directory.lock();
        directory
            .queues()
            .map(|queue| queue.cache().drain_this_cpu(directory.pinned(), &owner))
            .sum()
    }
}

impl<N: NamespaceRef> Open<N> {
    /// The namespace that the queue is of.
    pub fn namespace(&self) -> &N {
        &self.namespace
    }

    /// The rights it was opened with.
    #[inline(always)]
    pub fn access(&self) -> Access {
        self.access
    }
}

impl<N: NamespaceRef> Deref for Open<N> {
    type Target = Queue;
    #[inline(always)]
    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl<N: NamespaceRef> Drop for Open<N> {
    fn drop(&mut self) {
        let mut directory = self.namespace.directory.lock();
        let holds = self.queue.holds() - 1;
        self.queue.set_holds(holds);
        let ended = (holds == 0 && !self.queue.is_linked()).then(|| {
            let number = self.queue.number();
            let at = directory.unlinked.partition_point(|other| other.number() < number);
            directory.unlinked.remove(at)
        });
        directory.tidy();
        drop(directory);
        // Outside the lock; the queue itself goes with the field.
        drop(ended);
    }
}

impl<N: NamespaceRef> fmt::Debug for Open<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Open({:?}, {:?})", &**self, self.access)
    }
}
