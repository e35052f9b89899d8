//! All tasks, by number.
//!
//! **Lock order.** The table's lock has rank 5: outside every lock of a task or process.

use super::process::Process;
use super::task::{Pid, Task};
use crate::mm::shared::{OutOfMemory, Shared};
use alloc::vec::Vec;
use cpu::SpinLock;

/// Numbers start again at [`FIRST_AGAIN`] behind this one (`pid_max`).
pub const PID_MAX: Pid = 32768;
/// As on Linux: the first numbers are for the system.
const FIRST_AGAIN: Pid = 300;

/// Room for this many tasks, and processes, is made at boot: the lists seldom move.
const ROOM: usize = 2048;

/// What has a number.
pub(super) struct Table {
    /// Every task that has not ended, by number.
    tasks: Vec<Shared<Task>>,
    /// Every process that has not ended, or whose parent has not waited for it yet, by number.
    pub(super) processes: Vec<Shared<Process>>,
    last: Pid,
}

pub(super) static TABLE: SpinLock<Table> = SpinLock::new(
    5,
    Table {
        tasks: Vec::new(),
        processes: Vec::new(),
        last: 0,
    },
);

impl Table {
    fn is_used(&self, number: Pid) -> bool {
        self.tasks.binary_search_by_key(&number, |task| task.tid).is_ok()
            || self
                .processes
                .iter()
                .any(|process| [process.pid, process.group(), process.session()].contains(&number))
    }

    /// The process with this number.
    pub(super) fn process(&self, pid: Pid) -> Option<&Shared<Process>> {
        let at = self.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        Some(&self.processes[at])
    }

    /// The tasks of a process that have not ended.
    pub(super) fn tasks_of(&self, pid: Pid) -> impl Iterator<Item = &Shared<Task>> {
        self.tasks.iter().filter(move |task| task.process.pid == pid)
    }
}

/// A number that nobody has, no group and no session either.
pub fn free_number() -> Pid {
    let mut table = TABLE.lock();
    loop {
        table.last = if table.last >= PID_MAX {
            FIRST_AGAIN
        } else {
            table.last + 1
        };
        if !table.is_used(table.last) {
            return table.last;
        }
    }
}

/// Makes room for one more in a list of the table. Memory is got outside the lock.
fn reserve<T>(list: impl Fn(&mut Table) -> &mut Vec<T>) -> Result<(), OutOfMemory> {
    loop {
        let (length, capacity) = {
            let mut table = TABLE.lock();
            let list = list(&mut table);
            (list.len(), list.capacity())
        };
        if length < capacity {
            return Ok(());
        }
        let mut larger = Vec::new();
        larger
            .try_reserve_exact((2 * length).max(ROOM))
            .map_err(|_| OutOfMemory)?;
        let mut table = TABLE.lock();
        let list = list(&mut table);
        if larger.capacity() > list.len() {
            larger.append(list);
            core::mem::swap(list, &mut larger);
        }
        drop(table);
    }
}

/// Adds a task; with the first one of a process, the process.
pub fn insert(task: &Shared<Task>) -> Result<(), OutOfMemory> {
    loop {
        reserve(|table| &mut table.tasks)?;
        reserve(|table| &mut table.processes)?;
        let mut table = TABLE.lock();
        let full = |length, capacity| length == capacity;
        if full(table.tasks.len(), table.tasks.capacity()) || full(table.processes.len(), table.processes.capacity()) {
            continue;
        }
        let at = table.tasks.partition_point(|other| other.tid < task.tid);
        table.tasks.insert(at, task.clone());
        if task.tid == task.process.pid {
            let at = table.processes.partition_point(|other| other.pid < task.tid);
            table.processes.insert(at, task.process.clone());
        }
        return Ok(());
    }
}

/// Takes a task out.
pub fn remove(tid: Pid) {
    let mut table = TABLE.lock();
    let task = match table.tasks.binary_search_by_key(&tid, |task| task.tid) {
        Ok(at) => Some(table.tasks.remove(at)),
        Err(_) => None,
    };
    drop(table);
    // Freed, if this was the last reference, outside the lock.
    drop(task);
}

/// The task with this number.
pub fn find(tid: Pid) -> Option<Shared<Task>> {
    let table = TABLE.lock();
    let at = table.tasks.binary_search_by_key(&tid, |task| task.tid).ok()?;
    Some(table.tasks[at].clone())
}

/// The task with this identity, if it has not ended.
pub fn find_by_id(id: ipc::TaskId) -> Option<Shared<Task>> {
    find(id as Pid).filter(|task| task.id == id)
}

/// The process with this number, ended or not.
pub fn find_process(pid: Pid) -> Option<Shared<Process>> {
    TABLE.lock().process(pid).cloned()
}

/// Runs `f` on each task of a process that has not ended, under the table's lock.
pub fn each_task_of(pid: Pid, f: impl FnMut(&Shared<Task>)) {
    TABLE.lock().tasks_of(pid).for_each(f);
}

/// The first process with a number above `pid`.
pub fn next_process(pid: Pid) -> Option<Shared<Process>> {
    let table = TABLE.lock();
    let at = table.processes.partition_point(|process| process.pid <= pid);
    table.processes.get(at).cloned()
}

/// The first task with a number above `tid`.
pub fn next(tid: Pid) -> Option<Shared<Task>> {
    let table = TABLE.lock();
    let at = table.tasks.partition_point(|task| task.tid <= tid);
    table.tasks.get(at).cloned()
}

/// The number that was given last.
pub fn last_number() -> Pid {
    TABLE.lock().last
}

/// Number of tasks.
pub fn count() -> usize {
    TABLE.lock().tasks.len()
}

/// A name for the log: what is not printable ASCII shows as '?'.
pub fn printable(name: &[u8]) -> impl core::fmt::Display + '_ {
    struct Printable<'a>(&'a [u8]);
    impl core::fmt::Display for Printable<'_> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            use core::fmt::Write;
            self.0.iter().try_for_each(|&byte| {
                let shown = if byte == b' ' || byte.is_ascii_graphic() {
                    byte
                } else {
                    b'?'
                };
                f.write_char(shown.into())
            })
        }
    }
    Printable(name)
}
