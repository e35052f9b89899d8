//! Parents and children: who waits for whom, what is left of who has ended, groups and sessions.
//!
//! A process that has ended is a zombie until its parent has waited for it (wait(2)). The children of one that ends go to
//! init, which wants to know nothing: theirs is an end without trace. So it is where the parent ignores SIGCHLD.
//!
//! A task that waits for children marks itself, looks at all of them, and sleeps; an ending child wakes its parent's
//! marked tasks.
//!
//! **Lock order.** Everything here happens under the table's lock (5); waking takes run queues (91) below it.

use super::cputime::Usage;
use super::exit::Exit;
use super::process::Process;
use super::signal::{self, Info, Signal};
use super::table::{TABLE, Table};
use super::task::Pid;
use super::{cputime, wake, wake_interruptible};
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use cpu::atomic::Ordering;

/// The number of init, which takes orphans.
pub const INIT: Pid = 1;

/// Which children a wait is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whom {
    /// All.
    Any,
    /// This one.
    Process(Pid),
    /// Those of this group.
    Group(Pid),
}

/// What a wait is for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The children.
    pub whom: Whom,
    /// Whether their ends count.
    pub exited: bool,
    /// Whether their stops count.
    pub stopped: bool,
    /// Whether their going on counts.
    pub continued: bool,
    /// Also, or only, children whose end gives another signal than SIGCHLD (`__WALL`, `__WCLONE`).
    pub clones: Clones,
    /// Whether what is reported stays to be reported (`WNOWAIT`).
    pub keep: bool,
}

/// See [`Wanted::clones`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clones {
    /// Not them.
    No,
    /// Them too.
    Too,
    /// Them only.
    Only,
}

/// What has become of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It has ended.
    Ended(Exit),
    /// It stands still, by this signal.
    Stopped(Signal),
    /// It goes on.
    Continued,
}

/// What a wait found.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The child.
    pub pid: Pid,
    /// Its real user.
    pub uid: u32,
    /// What has become of it.
    pub change: Change,
    /// What it used, with what its children did.
    pub usage: Usage,
}

impl Wanted {
    fn matches(&self, child: &Process) -> bool {
        let whom = match self.whom {
            Whom::Any => true,
            Whom::Process(pid) => child.pid == pid,
            Whom::Group(group) => child.group() == group,
        };
        let clone = child.exit_signal.load(Ordering::Relaxed) != u32::from(Signal::SIGCHLD.number());
        whom && match self.clones {
            Clones::No => !clone,
            Clones::Too => true,
            Clones::Only => clone,
        }
    }

    /// What of `child` there is to be reported.
    fn change(&self, child: &Process) -> Option<Change> {
        if child.is_zombie() {
            return child.exit().filter(|_| self.exited).map(Change::Ended);
        }
        if self.stopped
            && let Some(signal) = child.stopping.take_stopped(self.keep)
        {
            return Some(Change::Stopped(signal));
        }
        (self.continued && child.stopping.take_continued(self.keep)).then_some(Change::Continued)
    }
}

/// Looks once at the running process's children: what is `wanted` of them, if there is any. ECHILD where no child could
/// ever give it.
pub fn look(parent: &Process, wanted: &Wanted) -> Result<Option<Report>> {
    let mut table = TABLE.lock();
    let mut any = false;
    let mut found = None;
    for (at, child) in table.processes.iter().enumerate() {
        if child.parent() != parent.pid || !wanted.matches(child) {
            continue;
        }
        any = true;
        if let Some(change) = wanted.change(child) {
            found = Some((at, change));
            break;
        }
    }
    let Some((at, change)) = found else {
        return if any { Ok(None) } else { Err(Errno::ECHILD) };
    };
    let child = table.processes[at].clone();
    let gone = matches!(change, Change::Ended(_)) && !wanted.keep;
    let removed = gone.then(|| table.processes.remove(at));
    drop(table);
    let mut usage = child.cpu_time.usage();
    usage += child.children_usage();
    let report = Report {
        pid: child.pid,
        uid: child.credentials().uid,
        change,
        usage,
    };
    if removed.is_some() {
        parent.add_child_usage(usage);
    }
    Ok(Some(report))
}

/// Waits until there is something `wanted` of a child. ECHILD; ERESTARTSYS.
pub fn wait(current: &Current, wanted: &Wanted) -> Result<Report> {
    if let Some(report) = look(&current.process, wanted)? {
        return Ok(report);
    }
    current.awaits_child.store(1, Ordering::Relaxed);
    let result = loop {
        current.prepare_to_sleep();
        match look(&current.process, wanted).transpose() {
            Some(result) => break result,
            None if current.signal_pending() => break Err(signal::interrupted(current, Errno::ERESTARTSYS)),
            None => super::schedule(),
        }
    };
    current.cancel_sleep();
    current.awaits_child.store(0, Ordering::Relaxed);
    result
}

/// The last task of `process` has let go of everything: its children get another parent, its own parent is told.
pub(super) fn end(process: &Shared<Process>) {
    // Before its parent can look; what follows until the last switch is lost, as on Linux.
    cputime::update();
    // One at a time, so that what is dropped is dropped outside the lock.
    loop {
        let mut table = TABLE.lock();
        let ended = table
            .processes
            .iter()
            .position(|child| child.parent() == process.pid && child.is_zombie());
        let Some(at) = ended else {
            for child in table.processes.iter().filter(|child| child.parent() == process.pid) {
                child.set_parent(INIT);
                if let Some(signal) = Signal::new(child.death_signal.load(Ordering::Relaxed)) {
                    _ = signal::send_to_process_locked(
                        &table,
                        child,
                        Info::sent(signal, Info::SI_USER, process.pid, 0),
                    );
                }
                child
                    .exit_signal
                    .store(Signal::SIGCHLD.number().into(), Ordering::Relaxed);
            }
            break;
        };
        let orphan = table.processes.remove(at);
        drop(table);
        drop(orphan);
    }
    let mut table = TABLE.lock();
    let parent = table.process(process.parent()).cloned();
    let number = process.exit_signal.load(Ordering::Relaxed);
    let unwanted = match &parent {
        None => true,
        Some(parent) => {
            !parent.is_program() || number == u32::from(Signal::SIGCHLD.number()) && parent.signals.wants_no_zombies()
        }
    };
    let mut removed = None;
    if unwanted {
        if let Ok(at) = table.processes.binary_search_by_key(&process.pid, |other| other.pid) {
            removed = Some(table.processes.remove(at));
        }
    } else {
        process.become_zombie();
    }
    if let Some(parent) = &parent {
        if let Some(signal) = Signal::new(number)
            && parent.is_program()
            && let Some(exit) = process.exit()
        {
            _ = signal::send_to_process_locked(&table, parent, child_info(signal, process, Change::Ended(exit)));
        }
        wake_waiting(&table, parent);
    }
    drop(table);
    drop(removed);
}

/// What a signal about a child carries.
fn child_info(signal: Signal, child: &Process, change: Change) -> Info {
    let (code, status) = match change {
        Change::Ended(Exit::Code(status)) => (Info::CLD_EXITED, i32::from(status)),
        Change::Ended(Exit::Signal(by)) => (Info::CLD_KILLED, by.number().into()),
        Change::Stopped(by) => (Info::CLD_STOPPED, by.number().into()),
        Change::Continued => (Info::CLD_CONTINUED, Signal::SIGCONT.number().into()),
    };
    Info::child(signal, code, child.pid, child.credentials().uid, status)
}

/// Wakes the tasks of a parent that wait for children, and init, which waits for the program.
fn wake_waiting(table: &Table, parent: &Process) {
    for task in table.tasks_of(parent.pid) {
        if !parent.is_program() {
            wake(task);
        } else if task.awaits_child.load(Ordering::Relaxed) != 0 {
            wake_interruptible(task);
        }
    }
}

/// A process has stopped or goes on: its parent is told.
pub(super) fn tell_parent(process: &Process, change: Change) {
    let table = TABLE.lock();
    let Some(parent) = table.process(process.parent()).cloned() else {
        return;
    };
    if parent.is_program() {
        if !parent.signals.wants_no_stops() {
            _ = signal::send_to_process_locked(&table, &parent, child_info(Signal::SIGCHLD, process, change));
        }
        wake_waiting(&table, &parent);
    }
    drop(table);
}

/// Whether nobody outside of `group`, but in its session, is a parent in it: then nobody could make it go on.
pub(super) fn is_orphaned(group: Pid) -> bool {
    let table = TABLE.lock();
    !table
        .processes
        .iter()
        .filter(|member| member.group() == group)
        .any(|member| {
            table
                .process(member.parent())
                .is_some_and(|parent| parent.group() != group && parent.session() == member.session())
        })
}

/// setpgid(2): moves process `pid` into `group`. ESRCH, EACCES, EPERM.
pub fn set_group(caller: &Process, pid: Pid, group: Pid) -> Result<()> {
    let table = TABLE.lock();
    let process = table.process(pid).ok_or(Errno::ESRCH)?;
    if process.parent() == caller.pid {
        if process.session() != caller.session() {
            return Err(Errno::EPERM);
        }
        if process.executed.load(Ordering::Relaxed) != 0 {
            return Err(Errno::EACCES);
        }
    } else if pid != caller.pid {
        return Err(Errno::ESRCH);
    }
    if process.session() == pid {
        return Err(Errno::EPERM);
    }
    let exists = |other: &Shared<Process>| other.group() == group && other.session() == caller.session();
    if group != pid && !table.processes.iter().any(exists) {
        return Err(Errno::EPERM);
    }
    process.set_group(group, process.session());
    Ok(())
}

/// setsid(2): the session's number. EPERM for the leader of a group.
pub fn new_session(caller: &Process) -> Result<Pid> {
    let table = TABLE.lock();
    if table.processes.iter().any(|other| other.group() == caller.pid) {
        return Err(Errno::EPERM);
    }
    caller.set_group(caller.pid, caller.pid);
    Ok(caller.pid)
}
