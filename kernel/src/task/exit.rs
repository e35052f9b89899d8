//! The end of a task and of a process: everything that was taken is given back.

use super::signal::Signal;
use super::task::State;
use super::{schedule, table, wake};
use crate::mm::plain;
use crate::mm::tasks::Current;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// By exit(2), with this status.
    Code(u8),
    /// By this signal.
    Signal(Signal),
}

/// Ends the running process.
pub fn exit_group(exit: Exit) -> ! {
    Current::get().process.end_with(exit);
    exit_task()
}

/// Ends the running task; the process ends with its last one.
pub fn exit_task() -> ! {
    let current = Current::get();
    let own = current.own();
    // The C library waits for this word when it joins a thread; nobody minds if it is not there any more.
    let word = own.clear_child_tid.replace(0);
    if word != 0 {
        _ = plain::write_user(word, &0u32);
    }
    let files = core::mem::take(&mut *own.files.borrow_mut());
    // Closing may look at the running task, so the table is free while its files go.
    drop(files);
    let space = own.space.borrow_mut().take();
    if let Some(space) = &space {
        // The page tables must not be in use when they are freed.
        space.leave(&current);
    }
    drop(space);
    current.memcg.exit(super::memory());
    current.process.end_with(Exit::Code(0));
    table::remove(current.tid);
    if let Some(parent) = table::find(current.process.parent()) {
        wake(&parent);
    }
    current.set_state(State::Ended);
    schedule();
    unreachable!("an ended task was run")
}
