//! A process: what its tasks have in common, and what is left of it when they have ended.

use super::cputime::{CpuTime, Usage};
use super::credentials::{Credentials, Limits};
use super::exit::Exit;
use super::signal::{Signal, Signals};
use super::stopping::Stopping;
use super::task::Pid;
use crate::fs::path::Directories;
use crate::mm::shared::{OutOfMemory, Shared};
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, AtomicU64, Ordering};

/// The longest name of a task, its zero included (`TASK_COMM_LEN`).
pub const NAME_MAX: usize = 16;

/// A name as prctl(PR_GET_NAME) gives it.
pub type Name = ArrayVec<u8, { NAME_MAX - 1 }>;

/// Counts the processes that there have been.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// A process (Linux: a thread group and its signal_struct).
pub struct Process {
    /// Its number, that of its first task too. Immutable.
    pub pid: Pid,
    /// Its identity: never used again; the number is its low half. Immutable.
    pub id: u64,
    /// Its parent's number; 1 once the parent has ended. Read without a lock.
    parent: AtomicU32,
    /// Its process group. Changed under the table's lock, as the session.
    group: AtomicU32,
    /// Its session.
    session: AtomicU32,
    /// What its parent gets when it ends (0: nothing). Immutable but for execve(2) and orphans.
    pub exit_signal: AtomicU32,
    /// Tasks that have not begun to end.
    live: AtomicU32,
    /// Whether it has ended and waits for its parent. Changed under the table's lock.
    zombie: AtomicU32,
    /// How often it has run execve(2). From the first time on its group is its own business.
    pub executed: AtomicU32,
    /// The status with which its first task ended.
    first_status: AtomicU32,
    /// Its nice value, -20 to 19, as a number of 32 bits.
    pub nice: AtomicU32,
    /// The signal that it wants when its parent ends (prctl(2)); 0 for none.
    pub death_signal: AtomicU32,
    /// Whether execve(2) gives no privileges any more: none does here.
    pub no_new_privileges: AtomicU32,
    /// CPU time of all its tasks.
    pub cpu_time: CpuTime,
    /// What the children used for which it waited, and theirs.
    children: SpinLock<Usage>,
    /// The program's name.
    name: SpinLock<Name>,
    /// User and groups.
    credentials: SpinLock<Credentials>,
    /// Effective user and group id, the group's above, for those who need no more: written with the credentials.
    effective: AtomicU64,
    /// Supplementary groups, ascending; `None` for no group.
    groups: SpinLock<Option<Shared<Vec<u32>>>>,
    /// Whether there are any: who sees 0 need not lock.
    has_groups: AtomicU32,
    /// Resource limits.
    limits: SpinLock<Limits>,
    /// Mask of new files' permission bits (umask(2)).
    pub umask: AtomicU32,
    /// Signal handling.
    pub signals: Signals,
    /// Whether it stands still.
    pub stopping: Stopping,
    /// How it ended; `None` while it lives.
    exit: SpinLock<Option<Exit>>,
    /// The program's path, for /proc/self/exe. `None` for the kernel's own.
    executable: SpinLock<Option<Shared<alloc::vec::Vec<u8>>>>,
    /// The arguments of its program, each with its zero, for /proc/PID/cmdline.
    arguments: SpinLock<Option<Shared<alloc::vec::Vec<u8>>>>,
    /// Where its paths begin; `None` for the kernel's own.
    directories: SpinLock<Option<Directories>>,
    /// Nanoseconds since boot at its start. Immutable.
    pub started: u64,
    /// Tasks that exist, ended ones that have not been left included.
    tasks: AtomicU32,
}

impl Process {
    /// A process with root's credentials and the initial limits.
    pub fn try_new(pid: Pid, parent: Pid, name: &[u8]) -> Result<Shared<Process>, OutOfMemory> {
        Shared::try_new(Process {
            pid,
            id: SERIAL.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(pid),
            parent: AtomicU32::new(parent),
            group: AtomicU32::new(pid),
            session: AtomicU32::new(pid),
            exit_signal: AtomicU32::new(Signal::SIGCHLD.number().into()),
            live: AtomicU32::new(1),
            zombie: AtomicU32::new(0),
            executed: AtomicU32::new(0),
            first_status: AtomicU32::new(0),
            nice: AtomicU32::new(0),
            death_signal: AtomicU32::new(0),
            no_new_privileges: AtomicU32::new(0),
            cpu_time: CpuTime::new(),
            children: SpinLock::new(13, Usage::default()),
            name: SpinLock::new(10, shortened(name)),
            credentials: SpinLock::new(11, Credentials::ROOT),
            effective: AtomicU64::new(Credentials::ROOT.effective()),
            groups: SpinLock::new(11, None),
            has_groups: AtomicU32::new(0),
            limits: SpinLock::new(12, Limits::initial()),
            umask: AtomicU32::new(0o022),
            signals: Signals::new(),
            stopping: Stopping::new(),
            exit: SpinLock::new(14, None),
            executable: SpinLock::new(15, None),
            arguments: SpinLock::new(15, None),
            directories: SpinLock::new(16, None),
            started: super::clock::monotonic(),
            tasks: AtomicU32::new(0),
        })
    }

    /// A child of this process: the same user, limits, group, program and signal handling.
    pub fn fork(&self, pid: Pid, parent: Pid, exit_signal: u32) -> Result<Shared<Process>, OutOfMemory> {
        let child = Process::try_new(pid, parent, &self.name())?;
        child.group.store(self.group(), Ordering::Relaxed);
        child.session.store(self.session(), Ordering::Relaxed);
        child.exit_signal.store(exit_signal, Ordering::Relaxed);
        child.set_credentials(self.credentials());
        child.set_groups(self.groups());
        let limits = *self.limits.lock();
        *child.limits.lock() = limits;
        child.set_directories(self.directories());
        child.umask.store(self.umask.load(Ordering::Relaxed), Ordering::Relaxed);
        for (to, from) in [
            (&child.nice, &self.nice),
            (&child.no_new_privileges, &self.no_new_privileges),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        child.signals.inherit(&self.signals);
        *child.executable.lock() = self.executable();
        Ok(child)
    }

    /// Its process group.
    pub fn group(&self) -> Pid {
        self.group.load(Ordering::Relaxed)
    }

    /// Its session.
    pub fn session(&self) -> Pid {
        self.session.load(Ordering::Relaxed)
    }

    /// Moves it to another group and session. Under the table's lock.
    pub(super) fn set_group(&self, group: Pid, session: Pid) {
        self.group.store(group, Ordering::Relaxed);
        self.session.store(session, Ordering::Relaxed);
    }

    /// Gives it to another parent. Under the table's lock.
    pub(super) fn set_parent(&self, parent: Pid) {
        self.parent.store(parent, Ordering::Relaxed);
    }

    /// What the children used for which it waited, and theirs.
    pub fn children_usage(&self) -> Usage {
        *self.children.lock()
    }

    /// Adds what a child used for which it has waited.
    pub(super) fn add_child_usage(&self, usage: Usage) {
        *self.children.lock() += usage;
    }

    /// Whether it runs a program, and is not the kernel's own.
    pub fn is_program(&self) -> bool {
        self.executable.lock().is_some()
    }

    /// Whether it has ended and waits for its parent.
    pub fn is_zombie(&self) -> bool {
        self.zombie.load(Ordering::Acquire) != 0
    }

    /// See [`Process::is_zombie`]. Under the table's lock.
    pub(super) fn become_zombie(&self) {
        self.zombie.store(1, Ordering::Release);
    }

    /// Counts a task that begins.
    pub(super) fn add_live(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Tasks that have not begun to end.
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Acquire)
    }

    /// A task begins to end; whether it is the last one.
    pub(super) fn end_live(&self) -> bool {
        self.live.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Notes the status of its first task.
    pub fn set_first_status(&self, status: u8) {
        self.first_status.store(status.into(), Ordering::Relaxed);
    }

    /// The status of its first task.
    pub fn first_status(&self) -> u8 {
        self.first_status.load(Ordering::Relaxed) as u8
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

    /// Names it by exactly this name.
    pub fn set_thread_name(&self, name: &[u8]) {
        *self.name.lock() = name.iter().copied().take(NAME_MAX - 1).collect();
    }

    /// Replaces its credentials.
    pub fn set_credentials(&self, credentials: Credentials) {
        let mut own = self.credentials.lock();
        *own = credentials;
        self.effective.store(credentials.effective(), Ordering::Relaxed);
    }

    /// Its effective user and group id.
    #[inline(always)]
    pub fn effective_ids(&self) -> (u32, u32) {
        let ids = self.effective.load(Ordering::Relaxed);
        (ids as u32, (ids >> 32) as u32)
    }

    /// Replaces its supplementary groups, which are in order.
    pub fn set_groups(&self, groups: Option<Shared<Vec<u32>>>) {
        let groups = groups.filter(|groups| !groups.is_empty());
        let before = {
            let mut own = self.groups.lock();
            self.has_groups.store(groups.is_some().into(), Ordering::Relaxed);
            core::mem::replace(&mut *own, groups)
        };
        drop(before);
    }

    /// Whether it has supplementary groups.
    #[inline(always)]
    pub fn has_groups(&self) -> bool {
        self.has_groups.load(Ordering::Relaxed) != 0
    }

    /// Its supplementary groups.
    pub fn groups(&self) -> Option<Shared<Vec<u32>>> {
        match self.has_groups() {
            false => None,
            true => self.groups.lock().clone(),
        }
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
