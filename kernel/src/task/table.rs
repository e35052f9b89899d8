//! All tasks, by number.
//!
//! **Lock order.** The table's lock has rank 5: outside every lock of a task or process.

use super::task::{Pid, Task};
use crate::mm::shared::{OutOfMemory, Shared};
use alloc::vec::Vec;
use cpu::SpinLock;

/// Numbers start again at [`FIRST_AGAIN`] behind this one (`pid_max`).
pub const PID_MAX: Pid = 32768;
/// As on Linux: the first numbers are for the system.
const FIRST_AGAIN: Pid = 300;

/// Every task that has not ended, sorted by number.
struct Table {
    tasks: Vec<Shared<Task>>,
    last: Pid,
}

static TABLE: SpinLock<Table> = SpinLock::new(
    5,
    Table {
        tasks: Vec::new(),
        last: 0,
    },
);

/// A number that no task has.
pub fn free_number() -> Pid {
    let mut table = TABLE.lock();
    loop {
        table.last = if table.last >= PID_MAX {
            FIRST_AGAIN
        } else {
            table.last + 1
        };
        if table.tasks.binary_search_by_key(&table.last, |task| task.tid).is_err() {
            return table.last;
        }
    }
}

/// Adds a task.
pub fn insert(task: &Shared<Task>) -> Result<(), OutOfMemory> {
    loop {
        // Memory is got outside the lock.
        let mut larger = Vec::new();
        let needed = TABLE.lock().tasks.len() + 1;
        larger
            .try_reserve(needed.next_power_of_two().max(16))
            .map_err(|_| OutOfMemory)?;
        let mut table = TABLE.lock();
        if table.tasks.capacity() == table.tasks.len() {
            if larger.capacity() <= table.tasks.len() {
                continue;
            }
            larger.append(&mut table.tasks);
            core::mem::swap(&mut table.tasks, &mut larger);
        }
        let at = table.tasks.partition_point(|other| other.tid < task.tid);
        table.tasks.insert(at, task.clone());
        drop(table);
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
