//! A process: what its tasks have in common, and what is left of it when they have ended.

use super::credentials::{Credentials, Limits};
use super::exit::Exit;
use super::signal::Signals;
use super::task::Pid;
use crate::fs::path::Directories;
use crate::mm::shared::{OutOfMemory, Shared};
use arrayvec::ArrayVec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, AtomicU64, Ordering};

/// The longest name of a task, its zero included (`TASK_COMM_LEN`).
pub const NAME_MAX: usize = 16;

/// A name as prctl(PR_GET_NAME) gives it.
pub type Name = ArrayVec<u8, { NAME_MAX - 1 }>;

/// A process (Linux: a thread group and its signal_struct).
pub struct Process {
    /// Its number, that of its first task too. Immutable.
    pub pid: Pid,
    /// Its parent's number; 1 once the parent has ended. Read without a lock.
    parent: AtomicU32,
    /// The program's name.
    name: SpinLock<Name>,
    /// User and groups.
    credentials: SpinLock<Credentials>,
    /// Resource limits.
    limits: SpinLock<Limits>,
    /// Mask of new files' permission bits (umask(2)).
    pub umask: AtomicU32,
    /// Signal handling.
    pub signals: Signals,
    /// How it ended; `None` while it lives.
    exit: SpinLock<Option<Exit>>,
    /// The program's path, for /proc/self/exe.
    executable: SpinLock<Option<Shared<alloc::vec::Vec<u8>>>>,
    /// The arguments of its program, each with its zero, for /proc/PID/cmdline.
    arguments: SpinLock<Option<Shared<alloc::vec::Vec<u8>>>>,
    /// Where its paths begin; `None` for the kernel's own.
    directories: SpinLock<Option<Directories>>,
    /// Nanoseconds since boot at its start. Immutable.
    pub started: u64,
    /// Tasks that exist, ended ones that have not been left included.
    tasks: AtomicU32,
    /// Page faults without input or output.
    pub minor_faults: AtomicU64,
}

impl Process {
    /// A process with root's credentials and the initial limits.
    pub fn try_new(pid: Pid, parent: Pid, name: &[u8]) -> Result<Shared<Process>, OutOfMemory> {
        Shared::try_new(Process {
            pid,
            parent: AtomicU32::new(parent),
            name: SpinLock::new(10, shortened(name)),
            credentials: SpinLock::new(11, Credentials::ROOT),
            limits: SpinLock::new(12, Limits::initial()),
            umask: AtomicU32::new(0o022),
            signals: Signals::new(),
            exit: SpinLock::new(14, None),
            executable: SpinLock::new(15, None),
            arguments: SpinLock::new(15, None),
            directories: SpinLock::new(16, None),
            started: super::clock::monotonic(),
            tasks: AtomicU32::new(0),
            minor_faults: AtomicU64::new(0),
        })
    }

    /// The parent's number.
    #[inline(always)]
    pub fn parent(&self) -> Pid {
        self.parent.load(Ordering::Relaxed)
    }

    /// The program's name.
    pub fn name(&self) -> Name {
        self.name.lock().clone()
    }

    /// Names the process after its program.
    pub fn set_name(&self, name: &[u8]) {
        *self.name.lock() = shortened(name);
    }

    /// A copy of its credentials.
    pub fn credentials(&self) -> Credentials {
        *self.credentials.lock()
    }

    /// Runs `f` on its limits.
    pub fn with_limits<R>(&self, f: impl FnOnce(&mut Limits) -> R) -> R {
        f(&mut self.limits.lock())
    }

    /// The limit in force for `resource`, one of `RLIMIT_*`.
    pub fn limit(&self, resource: u32) -> u64 {
        self.limits.lock().current(resource)
    }

    /// How it ended; `None` while it lives.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.lock()
    }

    /// Notes how it ends, if that is not settled yet.
    pub fn end_with(&self, exit: Exit) {
        self.exit.lock().get_or_insert(exit);
    }

    /// Counts a new task.
    pub(super) fn task_made(&self) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// A task has been freed.
    pub(super) fn task_gone(&self) {
        self.tasks.fetch_sub(1, Ordering::Release);
    }

    /// Whether no task is left, nor any task's stack.
    pub fn is_gone(&self) -> bool {
        self.tasks.load(Ordering::Acquire) == 0
    }

    /// The arguments of its program, each with its zero.
    pub fn arguments(&self) -> Option<Shared<alloc::vec::Vec<u8>>> {
        self.arguments.lock().clone()
    }

    /// Notes the arguments of its program.
    pub fn set_arguments(&self, arguments: Shared<alloc::vec::Vec<u8>>) {
        let old = self.arguments.lock().replace(arguments);
        // Freed outside the lock.
        drop(old);
    }

    /// Where its paths begin.
    pub fn directories(&self) -> Option<Directories> {
        self.directories.lock().clone()
    }

    /// Sets where its paths begin.
    pub fn set_directories(&self, directories: Option<Directories>) {
        let old = core::mem::replace(&mut *self.directories.lock(), directories);
        // Freed outside the lock.
        drop(old);
    }

    /// The path of its program.
    pub fn executable(&self) -> Option<Shared<alloc::vec::Vec<u8>>> {
        self.executable.lock().clone()
    }

    /// Notes the path of its program.
    pub fn set_executable(&self, path: Shared<alloc::vec::Vec<u8>>) {
        let old = self.executable.lock().replace(path);
        // Freed outside the lock.
        drop(old);
    }
}

/// The part of `name` behind its last slash, cut to what a name may have.
fn shortened(name: &[u8]) -> Name {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    last.iter().copied().take(NAME_MAX - 1).collect()
}
