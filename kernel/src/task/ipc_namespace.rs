//! IPC namespaces (ipc_namespaces(7)): the message queues, of both kinds, that a task can reach.
//!
//! A task has a namespace from its parent, a new one by unshare(2) or clone(2) with `CLONE_NEWIPC`, another's by setns(2).
//! System V queues end with the last task that has their namespace, or the last open file of it in /proc; POSIX queues
//! besides with the last mount of their file system and the last descriptor.
//!
//! **Lock order.** A task's cell (15) is taken alone. The task itself reads what it has without a lock.

use super::Task;
use crate::arch::once::BootCell;
use crate::fs::mqueue::Queues;
use crate::fs::node::{Dynamic, Target};
use crate::fs::{filesystems, node};
use crate::mm::shared::{OutOfMemory, Shared, try_box};
use crate::mm::tasks::Current;
use crate::put;
use crate::syscall::errno::{Errno, Result};
use alloc::vec::Vec;
use core::cell::RefCell;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, Ordering};
use ipc::{Caller, Ipc, sysv};

/// An IPC namespace.
pub struct IpcNamespace {
    /// As /proc tells. Immutable.
    number: u32,
    /// System V queues.
    pub messages: sysv::Namespace,
    /// POSIX queues.
    pub queues: Shared<Queues>,
}

/// The namespace that the first task has.
static FIRST: BootCell<Shared<IpcNamespace>> = BootCell::new();
/// How many have been made.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// Number of a Linux machine's first IPC namespace.
const FIRST_NUMBER: u32 = 0xefff_ffff;
/// Where the numbers of the others begin, above those of the first namespaces.
const LATER_NUMBERS: u32 = 0xf000_0000;

impl IpcNamespace {
    fn try_new(ipc: &'static Ipc) -> core::result::Result<Shared<IpcNamespace>, ipc::Error> {
        let out_of_memory = |OutOfMemory| ipc::Error::NoMemory;
        let namespace = IpcNamespace {
            number: match NUMBERS.fetch_add(1, Ordering::Relaxed) {
                0 => FIRST_NUMBER,
                later => LATER_NUMBERS + later,
            },
            messages: sysv::Namespace::try_new(ipc)?,
            queues: Shared::try_new(Queues::new(ipc)).map_err(out_of_memory)?,
        };
        Shared::try_new(namespace).map_err(out_of_memory)
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// On whose behalf the running task uses queues. Lives as long as the [`Caller`] that is made of it.
pub struct Acting {
    uid: u32,
    gid: u32,
    groups: Option<Shared<Vec<u32>>>,
    /// `RLIMIT_MSGQUEUE`, where it matters.
    limit: u64,
}

impl Acting {
    /// For the running task.
    #[inline(always)]
    pub fn new(current: &Current, limit: u64) -> Acting {
        let (uid, gid) = current.process.effective_ids();
        Acting {
            uid,
            gid,
            groups: current.process.groups(),
            limit,
        }
    }

    /// As the queues want it.
    #[inline(always)]
    pub fn caller(&self) -> Caller<'_> {
        // User 0 has all capabilities.
        Caller {
            groups: match &self.groups {
                None => &[],
                Some(groups) => groups,
            },
            ..Caller::new(self.uid, self.gid, self.uid == 0, self.limit)
        }
    }
}

/// As [`Acting`], of a task without supplementary groups, for what no resource limit matters.
#[inline(always)]
pub fn caller_without_groups(current: &Current) -> Caller<'static> {
    let (uid, gid) = current.process.effective_ids();
    Caller::new(uid, gid, uid == 0, 0)
}

/// What a task has of a namespace; `None` is the first.
#[derive(Default)]
pub struct Own(RefCell<Option<Shared<IpcNamespace>>>);

/// The same, to be seen by other tasks.
pub struct Seen(SpinLock<Option<Shared<IpcNamespace>>>);

impl Seen {
    /// The first.
    pub const fn new() -> Seen {
        Seen(SpinLock::new(15, None))
    }

    /// Shows another one.
    pub fn set(&self, namespace: Option<Shared<IpcNamespace>>) {
        let before = core::mem::replace(&mut *self.0.lock(), namespace);
        drop(before); // outside of the lock: it may have been the last of it
    }
}

impl Own {
    /// What a child of the running task has: the same.
    pub fn inherit(current: &Current) -> Own {
        Own(RefCell::new(current.own().ipc_namespace.get()))
    }

    /// A new one, for a child.
    pub fn new_for_child() -> Result<Own> {
        Ok(Own(RefCell::new(Some(make()?))))
    }

    /// What it is.
    pub fn get(&self) -> Option<Shared<IpcNamespace>> {
        self.0.borrow().clone()
    }
}

/// Makes the first namespace. Once, at boot.
pub fn start(ipc: &'static Ipc) -> core::result::Result<(), ipc::Error> {
    FIRST.set(IpcNamespace::try_new(ipc)?);
    Ok(())
}

/// The first namespace.
#[inline(always)]
pub fn first() -> &'static Shared<IpcNamespace> {
    FIRST.get().expect("the first namespace is made at boot")
}

/// Runs `f` on the running task's namespace.
#[inline(always)]
pub fn with<R>(current: &Current, f: impl FnOnce(&Shared<IpcNamespace>) -> R) -> R {
    let own = current.own().ipc_namespace.0.borrow();
    f(match &*own {
        Some(namespace) => namespace,
        None => first(),
    })
}

/// Runs `f` on the System V queues that the running task can reach.
#[inline(always)]
pub fn with_messages<R>(f: impl FnOnce(&sysv::Namespace) -> R) -> R {
    with(&Current::get(), |namespace| f(&namespace.messages))
}

/// The POSIX queues that the running task can reach.
pub fn queues() -> Shared<Queues> {
    with(&Current::get(), |namespace| namespace.queues.clone())
}

/// The namespace of a task; a task that ends has the first again.
pub fn of(task: &Task) -> Shared<IpcNamespace> {
    let seen = task.ipc_namespace.0.lock();
    seen.as_ref().unwrap_or(first()).clone()
}

fn make() -> Result<Shared<IpcNamespace>> {
    Ok(IpcNamespace::try_new(first().queues.ipc())?)
}

/// Gives the running task a new namespace.
pub fn unshare(current: &Current) -> Result<()> {
    enter(current, Some(make()?));
    Ok(())
}

/// Gives the running task this namespace, or for `None` the first. The one that it had may end here.
fn enter(current: &Current, namespace: Option<Shared<IpcNamespace>>) {
    current.ipc_namespace.set(namespace.clone());
    drop(current.own().ipc_namespace.0.replace(namespace));
}

/// Takes the running task's namespace away, at its end.
pub fn leave(current: &Current) {
    enter(current, None);
}

/// /proc/PID/ns/ipc: what leads to a namespace, and keeps it.
struct Handle(Shared<IpcNamespace>);

impl Dynamic for Handle {
    fn ipc_namespace(&self) -> Option<&Shared<IpcNamespace>> {
        Some(&self.0)
    }
}

/// Where /proc/PID/ns/ipc leads.
pub fn link(task: &Task) -> Result<Target> {
    let namespace = of(task);
    let mut name = crate::fs::text::Text::default();
    put!(name, "ipc:[{}]", namespace.number());
    let ino = namespace.number().into();
    let kind = node::Kind::Dynamic(try_box(Handle(namespace))?);
    Ok(Target::Place(
        filesystems::nameless_numbered(kind, node::REGULAR | 0o444, ino)?,
        name.finish()?,
    ))
}

/// Gives the running task the namespace that an open file leads to (setns(2)). EINVAL, EPERM.
pub fn set(current: &Current, handle: &node::Node) -> Result<()> {
    let node::Kind::Dynamic(dynamic) = &handle.kind else {
        return Err(Errno::EINVAL);
    };
    let namespace = dynamic.ipc_namespace().ok_or(Errno::EINVAL)?;
    if !current.process.credentials().privileged() {
        return Err(Errno::EPERM);
    }
    enter(current, Some(namespace.clone()));
    Ok(())
}
