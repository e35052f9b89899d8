//! Signals: their numbers, what a program wants done about them, and how they are sent (signal(7)).
//!
//! A signal waits in a line ([`Pending`]): the task's for faults and tgkill, the process's for kill. Sending adds it there,
//! marks a task that does not block it, and wakes that task; it acts before it goes back to ring 3
//! ([`deliver`](super::deliver)).
//!
//! **Lock order.** Sending happens under the table's lock (5). The actions' lock (13) is taken alone, a line's (17) below
//! it.

use super::process::Process;
use super::stopping;
use super::table::{TABLE, Table};
use super::task::{Task, work};
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::user_struct;
use cpu::SpinLock;
use linux_raw_sys::general;

pub use super::pending::{Info, Pending};

/// Number of signals (`_NSIG`).
pub const COUNT: u32 = general::_NSIG;

/// A signal's number, 1 to [`COUNT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal(u8);

macro_rules! signals {
    ($($name:ident)*) => {
        impl Signal {
            $(#[doc = concat!("`", stringify!($name), "`, signal(7).")]
            #[allow(dead_code, reason = "the set is Linux's")]
            pub const $name: Signal = Signal(general::$name as u8);)*
        }
    };
}
signals! {
    SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGSEGV SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGWINCH
    SIGPIPE SIGALRM SIGVTALRM SIGPROF SIGSYS
}

impl Signal {
    /// The signal with this number; `None` for 0 and numbers above the last.
    pub fn new(number: u32) -> Option<Signal> {
        (1..=COUNT).contains(&number).then_some(Signal(number as u8))
    }
    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
    /// Its bit in a set.
    pub fn bit(self) -> u64 {
        self.set()
    }
    const fn set(self) -> u64 {
        1 << (self.0 - 1)
    }
    /// The lowest signal of a set.
    pub(super) fn lowest(set: u64) -> Option<Signal> {
        Signal::new(set.trailing_zeros() + 1)
    }
    /// Whether nothing happens by default.
    pub(super) fn ignored_by_default(self) -> bool {
        [Signal::SIGCHLD, Signal::SIGCONT, Signal::SIGURG, Signal::SIGWINCH].contains(&self)
    }
}

impl Signal {
    /// Whether each one sent is acted on.
    pub fn is_realtime(self) -> bool {
        self.0 >= 32
    }
    /// Whether the process stops by default.
    pub(super) fn stops(self) -> bool {
        STOPS & self.bit() != 0
    }
}

/// Signals that stop a process.
pub(super) const STOPS: u64 =
    Signal::SIGSTOP.set() | Signal::SIGTSTP.set() | Signal::SIGTTIN.set() | Signal::SIGTTOU.set();

/// Signals that can be neither blocked, ignored nor handled.
pub const UNBLOCKABLE: u64 = (1 << (general::SIGKILL - 1)) | (1 << (general::SIGSTOP - 1));

user_struct! {
    /// `struct sigaction` as the system call takes it (x86-64).
    pub struct Action {
        /// 0 (default), 1 (ignore) or the handler's address.
        handler: u64,
        /// `SA_*`.
        flags: u64,
        /// Where the handler returns to.
        restorer: u64,
        /// Signals blocked meanwhile.
        mask: u64,
    }
}

impl Action {
    pub(super) const DEFAULT: Action = Action {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    /// The handler's value for 'ignore' (`SIG_IGN`).
    pub(super) const IGNORE: u64 = 1;
}

/// The signal state that a process's tasks share.
pub struct Signals {
    /// What waits for any of the tasks.
    pub pending: Pending,
    actions: SpinLock<[Action; COUNT as usize]>,
}

impl Signals {
    /// Nothing pending, everything by default.
    pub const fn new() -> Signals {
        Signals {
            pending: Pending::new(),
            actions: SpinLock::new(13, [Action::DEFAULT; COUNT as usize]),
        }
    }

    /// What is done about signals becomes as with `parent`.
    pub fn inherit(&self, parent: &Signals) {
        let actions = *parent.actions.lock();
        *self.actions.lock() = actions;
    }

    /// What is done about `signal`.
    pub fn action(&self, signal: Signal) -> Action {
        self.actions.lock()[signal.0 as usize - 1]
    }

    /// Changes what is done about `signal`.
    pub fn set_action(&self, signal: Signal, action: Action) {
        self.actions.lock()[signal.0 as usize - 1] = action;
    }

    /// As after execve(2): handlers are gone, what is ignored stays ignored.
    pub fn reset_handlers(&self) {
        for action in self
            .actions
            .lock()
            .iter_mut()
            .filter(|action| action.handler != Action::IGNORE)
        {
            *action = Action::DEFAULT;
        }
    }

    /// Whether nothing is done about `signal`.
    pub fn ignores(&self, signal: Signal) -> bool {
        match self.action(signal).handler {
            0 => signal.ignored_by_default(),
            handler => handler == Action::IGNORE,
        }
    }

    /// Whether children that end leave nothing to wait for.
    pub(super) fn wants_no_zombies(&self) -> bool {
        let action = self.action(Signal::SIGCHLD);
        action.handler == Action::IGNORE || action.flags & u64::from(general::SA_NOCLDWAIT) != 0
    }

    /// Whether children that stop or go on are not to be told of.
    pub(super) fn wants_no_stops(&self) -> bool {
        let action = self.action(Signal::SIGCHLD);
        action.handler == Action::IGNORE || action.flags & u64::from(general::SA_NOCLDSTOP) != 0
    }
}

/// Whether the task would do nothing about `signal`: then it is not even noted. What is blocked may be waited for.
fn is_lost(task: &Task, signal: Signal) -> bool {
    (task.blocked.get() | task.awaited.get()) & signal.bit() == 0 && task.process.signals.ignores(signal)
}

/// What sending does besides: SIGCONT and the stopping signals cancel each other.
fn prepare(table: &Table, process: &Process, signal: Signal) {
    let forget = |set| {
        process.signals.pending.forget(set);
        table.tasks_of(process.pid).for_each(|task| task.pending.forget(set));
    };
    if signal == Signal::SIGCONT {
        forget(STOPS);
        if process.stopping.resume() {
            stopping::wake_all(table, process.pid);
        }
    } else if signal.stops() {
        forget(Signal::SIGCONT.bit());
    }
}

/// Makes a task look at its signals, and whether it is to stand still: at once, if it sleeps or runs elsewhere.
pub(super) fn alert(task: &Task) {
    task.add_work(work::SIGNAL);
    if !super::wake_interruptible(task) {
        super::scheduler::kick(task);
    }
}

/// Makes a task end.
pub(super) fn kill_task(task: &Task) {
    task.pending.add_bit(Signal::SIGKILL);
    task.add_work(work::SIGNAL);
    if !super::wake(task) {
        super::scheduler::kick(task);
    }
}

/// Sends a signal to a process. EAGAIN where a real-time signal finds no room.
pub fn send_to_process(process: &Process, info: Info) -> Result<()> {
    send_to_process_locked(&TABLE.lock(), process, info)
}

/// As [`send_to_process`], under the table's lock.
pub(super) fn send_to_process_locked(table: &Table, process: &Process, info: Info) -> Result<()> {
    let signal = info.signal();
    prepare(table, process, signal);
    if signal == Signal::SIGKILL {
        table.tasks_of(process.pid).for_each(|task| kill_task(task));
        return Ok(());
    }
    let Some(first) = table.tasks_of(process.pid).next() else {
        return Ok(());
    };
    if is_lost(first, signal) {
        return Ok(());
    }
    let limit = process.limit(general::RLIMIT_SIGPENDING);
    process.signals.pending.add(info, limit).map_err(|_| Errno::EAGAIN)?;
    if let Some(task) = table
        .tasks_of(process.pid)
        .find(|task| task.blocked.get() & signal.bit() == 0)
    {
        alert(task);
    }
    Ok(())
}

/// Sends `signal` to one task, as from its own process: what a call has to say.
pub fn send(task: &Task, signal: Signal) {
    let process = &task.process;
    let info = Info::sent(signal, Info::SI_USER, process.pid, process.credentials().uid);
    // A standard signal always finds room.
    _ = send_to_task(task, info);
}

/// Sends a signal to one task. EAGAIN where a real-time signal finds no room.
pub fn send_to_task(task: &Task, info: Info) -> Result<()> {
    let signal = info.signal();
    let table = TABLE.lock();
    prepare(&table, &task.process, signal);
    if signal == Signal::SIGKILL {
        table.tasks_of(task.process.pid).for_each(|task| kill_task(task));
        return Ok(());
    }
    drop(table);
    if is_lost(task, signal) {
        return Ok(());
    }
    let limit = task.process.limit(general::RLIMIT_SIGPENDING);
    task.pending.add(info, limit).map_err(|_| Errno::EAGAIN)?;
    if task.blocked.get() & signal.bit() == 0 {
        alert(task);
    }
    Ok(())
}

/// Sends the running task a fault's signal: it ends the process even where it is blocked or ignored, as on Linux.
pub fn force(current: &Current, info: Info) {
    let signal = info.signal();
    let signals = &current.process.signals;
    let blocked = current.blocked.get();
    if blocked & signal.bit() != 0 || signals.action(signal).handler == Action::IGNORE {
        signals.set_action(signal, Action::DEFAULT);
        current.blocked.set(blocked & !signal.bit());
    }
    // Without room the bit alone is enough: a fault's signal is a standard one.
    _ = current.pending.add(info, u64::MAX);
    current.add_work(work::SIGNAL);
}

/// What a call returns that a signal has interrupted: `errno`, one of `ERESTART*`, which is seen to before ring 3.
#[cold]
pub fn interrupted(current: &Current, errno: Errno) -> Errno {
    current.add_work(work::SIGNAL);
    errno
}
