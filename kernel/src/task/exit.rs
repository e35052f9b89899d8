//! The end of a task and of a process: everything that was taken is given back.

use super::futex::{self, Key};
use super::signal::{self, Signal};
use super::{clock, family, ipc_namespace, robust, scheduler, table, timers, wake_by_id};
use crate::mm::plain;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use cpu::atomic::Ordering;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// By exit(2), with this status.
    Code(u8),
    /// By this signal.
    Signal(Signal),
}

impl Exit {
    /// As wait(2) gives it.
    pub fn wait_status(self) -> u32 {
        match self {
            Exit::Code(code) => u32::from(code) << 8,
            Exit::Signal(signal) => signal.number().into(),
        }
    }
}

/// Ends the running process.
pub fn exit_group(exit: Exit) -> ! {
    let current = Current::get();
    current.process.end_with(exit);
    end_others(&current);
    exit_task()
}

/// Makes the other tasks of the running process end.
pub fn end_others(current: &Current) {
    if current.process.live() == 1 {
        return;
    }
    table::each_task_of(current.process.pid, |task| {
        if task.tid != current.tid {
            signal::kill_task(task);
        }
    });
}

/// Makes the other tasks of the running process end and waits until they have: for execve(2). EAGAIN where the running
/// task must end itself.
pub fn leave_threads(current: &Current) -> Result<()> {
    end_others(current);
    while current.process.live() != 1 {
        if current.must_end() {
            return Err(Errno::EAGAIN);
        }
        current.prepare_to_wait();
        super::schedule_until(Some(clock::monotonic() + clock::SECOND / 1000));
    }
    Ok(())
}

/// Ends the running task; the process ends with its last one.
pub fn exit_task() -> ! {
    let current = Current::get();
    let own = current.own();
    release_memory(&current);
    own.files.leave();
    ipc_namespace::leave(&current);
    current.memcg.exit(super::memory());
    table::remove(current.tid);
    if current.process.end_live() {
        current.process.end_with(Exit::Code(current.process.first_status()));
        timers::remove(current.process.pid, |_| true);
        family::end(&current.process);
    }
    scheduler::end(&current)
}

/// Lets go of the running task's memory: for its end. Who shares it or has lent it is told.
fn release_memory(current: &Current) {
    let own = current.own();
    // The C library waits for this word when it joins a thread; nobody minds if it is not there any more.
    let word = own.clear_child_tid.replace(0);
    let shared = own.space.borrow().as_ref().is_some_and(|space| space.count() > 1);
    robust::leave_locks(current);
    if word != 0 && shared && plain::write_user(word, &0u32).is_ok() {
        wake_futex(current, word);
    }
    let space = own.space.borrow_mut().take();
    if let Some(space) = &space {
        // The page tables must not be in use when they are freed.
        space.leave(current);
    }
    drop(space);
    return_memory(current);
}

/// Wakes one waiter for the word at `address`, whether or not others may share it.
pub(super) fn wake_futex(current: &Current, address: u64) {
    for private in [false, true] {
        if let Ok(key) = Key::of(current, address, private) {
            futex::wake(key, 1, futex::ANY);
        }
    }
}

/// Wakes the parent that has lent its memory to the running task (vfork(2)), which does not use it any more.
pub fn return_memory(current: &Current) {
    if let Some(lender) = current.own().lender.take() {
        lender.returned.store(1, Ordering::Release);
        wake_by_id(lender.id);
    }
}
