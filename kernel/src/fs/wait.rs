//! Lines of tasks that wait for a file to become ready.
//!
//! A task joins the lines of all files that it waits for, says that it is about to sleep, looks once more at all of
//! them, and sleeps. Whoever changes a file wakes all who are in its line; they look, and sleep again if it was nothing
//! for them. So no wake-up is lost and nobody looks without being woken.
//!
//! **Lock order.** A line's lock has rank 27; run queues under it.

use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::{self, Task};
use alloc::vec::Vec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU64, Ordering};

/// What a read or write gives that a signal has interrupted: begun again where the handler allows it.
pub const INTERRUPTED: Errno = Errno::ERESTARTSYS;

/// See the module.
pub struct WaitQueue {
    waiting: SpinLock<Vec<Shared<Task>>>,
    /// Wake-ups so far: what edge-triggered readers of epoll(7) compare.
    changes: AtomicU64,
}

impl WaitQueue {
    /// Nobody waits.
    pub const fn new() -> WaitQueue {
        WaitQueue {
            waiting: SpinLock::new(27, Vec::new()),
            changes: AtomicU64::new(0),
        }
    }

    /// Wakes all who wait.
    pub fn wake(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        for task in self.waiting.lock().iter() {
            task::wake_interruptible(task);
        }
    }

    /// Wake-ups so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Puts a task in line.
    pub fn join(&self, task: &Shared<Task>) -> Result<()> {
        let mut waiting = self.waiting.lock();
        waiting.try_reserve(1)?;
        waiting.push(task.clone());
        Ok(())
    }

    /// Takes a task out, once.
    pub fn leave(&self, task: &Shared<Task>) {
        let mut waiting = self.waiting.lock();
        let gone = waiting
            .iter()
            .position(|other| other.same_object(task))
            .map(|at| waiting.swap_remove(at));
        if waiting.is_empty() {
            *waiting = Vec::new();
        }
        drop(waiting);
        drop(gone);
    }

    /// Sleeps until `ready`, which is asked now and after each wake-up and must neither sleep nor touch user memory.
    /// [`INTERRUPTED`], ETIMEDOUT.
    pub fn wait(&self, deadline: Option<u64>, mut ready: impl FnMut() -> bool) -> Result<()> {
        if ready() {
            return Ok(());
        }
        let current = Current::get();
        let task = this_task(&current)?;
        self.join(&task)?;
        let result = sleep_until(&current, deadline, || ready().then_some(()));
        self.leave(&task);
        result.map_err(|errno| match errno {
            Errno::EINTR => task::signal::interrupted(&current, INTERRUPTED),
            errno => errno,
        })
    }
}

/// The running task, to be put in line.
pub fn this_task(current: &Current) -> Result<Shared<Task>> {
    task::table::find(current.tid).ok_or(Errno::ESRCH)
}

/// Sleeps, in lines that the caller has joined, until `look` gives something. EINTR, ETIMEDOUT.
pub fn sleep_until<R>(current: &Current, deadline: Option<u64>, mut look: impl FnMut() -> Option<R>) -> Result<R> {
    let mut late = false;
    loop {
        current.prepare_to_sleep();
        if let Some(found) = look() {
            current.cancel_sleep();
            return Ok(found);
        }
        if late || current.signal_pending() {
            current.cancel_sleep();
            return Err(if late { Errno::ETIMEDOUT } else { Errno::EINTR });
        }
        late = task::schedule_until(deadline);
    }
}
