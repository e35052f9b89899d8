//! Signals: what is pending, what a program wants done about it, and the default actions (signal(7)).
//!
//! A signal is a bit in a pending set: the task's for faults and tgkill, the process's for kill. Sending sets the bit,
//! marks the task and wakes it; the task acts before it goes back to ring 3.
//!
//! Default actions end the process or do nothing; nothing stops and continues yet. A program's handlers are kept for
//! sigaction(2) but not called: such a signal ends the program, with a line on the log.
//!
//! **Lock order.** The actions' lock (rank 13) is taken alone.

use super::exit::{self, Exit};
use super::table;
use super::task::{Task, work};
use crate::mm::tasks::Current;
use crate::user_struct;
use cpu::SpinLock;
use cpu::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general;

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
    SIGPIPE
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
        1 << (self.0 - 1)
    }
    /// The lowest signal of a set.
    fn lowest(set: u64) -> Option<Signal> {
        Signal::new(set.trailing_zeros() + 1)
    }
    /// Whether nothing happens by default.
    fn ignored_by_default(self) -> bool {
        [Signal::SIGCHLD, Signal::SIGCONT, Signal::SIGURG, Signal::SIGWINCH].contains(&self)
    }
}

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
    const DEFAULT: Action = Action {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    /// The handler's value for 'ignore' (`SIG_IGN`).
    const IGNORE: u64 = 1;
}

/// The signal state that a process's tasks share.
pub struct Signals {
    pending: AtomicU64,
    actions: SpinLock<[Action; COUNT as usize]>,
}

impl Signals {
    /// Nothing pending, everything by default.
    pub const fn new() -> Signals {
        Signals {
            pending: AtomicU64::new(0),
            actions: SpinLock::new(13, [Action::DEFAULT; COUNT as usize]),
        }
    }

    /// The process's pending signals.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
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

    fn ignores(&self, signal: Signal) -> bool {
        match self.action(signal).handler {
            0 => signal.ignored_by_default(),
            handler => handler == Action::IGNORE,
        }
    }
}

/// Sends `signal` to one task.
pub fn send(task: &Task, signal: Signal) {
    if task.process.signals.ignores(signal) {
        return;
    }
    task.set_pending(signal);
    task.add_work(work::SIGNAL);
    super::wake_interruptible(task);
}

/// Makes a fault's signal end the process even where it is blocked or ignored, as on Linux.
pub fn force(current: &Current, signal: Signal) {
    let signals = &current.process.signals;
    let blocked = current.own().blocked.get() & signal.bit() != 0;
    if blocked || signals.ignores(signal) {
        signals.set_action(signal, Action::DEFAULT);
        current.own().blocked.set(current.own().blocked.get() & !signal.bit());
    }
    current.set_pending(signal);
    current.add_work(work::SIGNAL);
}

/// Acts on the running task's pending signals; comes back when none is left that is not blocked.
pub fn deliver(current: &Current) {
    while let Some(signal) = take(current) {
        let action = current.process.signals.action(signal);
        match action.handler {
            Action::IGNORE => {}
            0 if signal.ignored_by_default() => {}
            0 => exit::exit_group(Exit::Signal(signal)),
            _ => {
                let name = current.process.name();
                log::error!(
                    "{} ({}): signal {} has a handler, and handlers are not called yet: the program ends",
                    table::printable(&name),
                    current.tid,
                    signal.0
                );
                exit::exit_group(Exit::Signal(signal));
            }
        }
    }
}

/// Takes the next signal to act on: SIGKILL before all others, then by number.
fn take(current: &Current) -> Option<Signal> {
    let wanted = current.pending_signals() & !current.own().blocked.get();
    let signal = match wanted & Signal::SIGKILL.bit() {
        0 => Signal::lowest(wanted)?,
        _ => Signal::SIGKILL,
    };
    let sets = [&current.pending, &current.process.signals.pending];
    for set in sets {
        let mut old = set.load(Ordering::Acquire);
        while let Err(now) = set.compare_exchange(old, old & !signal.bit(), Ordering::AcqRel, Ordering::Acquire) {
            old = now;
        }
    }
    Some(signal)
}
