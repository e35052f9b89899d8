//! New tasks of programs: fork(2), vfork(2), clone(2), clone3(2).
//!
//! A child enters its program with its parent's registers and 0 as the call's result. What it shares and what it copies
//! the flags say. Whatever can fail is done before the child has a number that others can see.

use super::signal::Signal;
use super::task::{Lender, Pid, Private, Task};
use super::{ipc_namespace, scheduler, table, work};
use crate::arch::{self, TrapFrame};
use crate::mm::plain;
use crate::mm::shared::Shared;
use crate::mm::tasks::{self, Current};
use crate::syscall::errno::{Errno, Result};
use core::cell::Cell;
use cpu::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general;

/// What a new task is to be like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// `CLONE_*`, without the signal.
    pub flags: u64,
    /// What the parent gets at its end; 0 is nothing.
    pub exit_signal: u32,
    /// Its stack pointer; 0 keeps the parent's.
    pub stack: u64,
    /// Where the parent's memory gets its number (`CLONE_PARENT_SETTID`).
    pub parent_tid: u64,
    /// Where its own memory gets its number, or 0 at its end (`CLONE_CHILD_SETTID`, `CLONE_CHILD_CLEARTID`).
    pub child_tid: u64,
    /// Its fs base (`CLONE_SETTLS`).
    pub thread_area: u64,
}

impl Request {
    fn has(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }

    /// What clone(2) refuses.
    fn check(&self) -> Result<()> {
        const NAMESPACES: u64 = (general::CLONE_NEWNS
            | general::CLONE_NEWCGROUP
            | general::CLONE_NEWUTS
            | general::CLONE_NEWUSER
            | general::CLONE_NEWPID
            | general::CLONE_NEWNET) as u64;
        let thread_without_signals = self.has(general::CLONE_THREAD) && !self.has(general::CLONE_SIGHAND);
        let signals_without_memory = self.has(general::CLONE_SIGHAND) && !self.has(general::CLONE_VM);
        if thread_without_signals || signals_without_memory {
            return Err(Errno::EINVAL);
        }
        if self.has(general::CLONE_NEWIPC) {
            if !Current::get().process.credentials().privileged() {
                return Err(Errno::EPERM);
            }
            if self.has(general::CLONE_SYSVSEM) {
                return Err(Errno::EINVAL);
            }
        }
        if self.flags & NAMESPACES != 0 || self.has(general::CLONE_PIDFD) {
            return Err(Errno::EINVAL);
        }
        // Shared by processes of their own: handlers and descriptors that only tasks of one process share here.
        if !self.has(general::CLONE_THREAD) && self.has(general::CLONE_SIGHAND) {
            return Err(Errno::EINVAL);
        }
        if self.exit_signal != 0 && Signal::new(self.exit_signal).is_none() {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

/// Makes a child of the running task that goes on from `frame`: its number. EINVAL, EAGAIN (`RLIMIT_NPROC`), ENOMEM.
pub fn clone(frame: &TrapFrame, request: &Request) -> Result<Pid> {
    request.check()?;
    let current = Current::get();
    let mut first = *frame;
    first.rax = 0;
    if request.stack != 0 {
        first.rsp = request.stack;
    }
    let files = &current.own().files;
    let own = Private {
        files: if request.has(general::CLONE_FILES) {
            files.share()?
        } else {
            files.try_clone()?
        },
        ipc_namespace: if request.has(general::CLONE_NEWIPC) {
            ipc_namespace::Own::new_for_child()?
        } else {
            ipc_namespace::Own::inherit(&current)
        },
        first_frame: Cell::new(Some(first)),
        ..Private::new()
    };
    if !request.has(general::CLONE_VM) || request.has(general::CLONE_VFORK) {
        own.alternate_stack.set(current.own().alternate_stack.get());
    }
    if request.has(general::CLONE_CHILD_SETTID) {
        own.set_child_tid.set(request.child_tid);
    }
    if request.has(general::CLONE_CHILD_CLEARTID) {
        own.clear_child_tid.set(request.child_tid);
    }
    let parents = current.space();
    let space = if request.has(general::CLONE_VM) {
        parents
    } else {
        own.rseq.set(current.own().rseq.get());
        parents.fork()?
    };
    own.space.replace(Some(space));
    let lender = match request.has(general::CLONE_VFORK) {
        true => Some(Shared::try_new(Lender {
            id: current.id,
            returned: AtomicU32::new(0),
        })?),
        false => None,
    };
    own.lender.replace(lender.clone());

    let tid = table::free_number();
    let thread = request.has(general::CLONE_THREAD);
    let process = if thread {
        current.process.clone()
    } else {
        let parent = if request.has(general::CLONE_PARENT) {
            current.process.parent()
        } else {
            current.process.pid
        };
        current.process.fork(tid, parent, request.exit_signal)?
    };
    let fs_base = request.has(general::CLONE_SETTLS).then_some(request.thread_area);
    if fs_base.is_some_and(|base| base >= arch::layout::USER_END) {
        return Err(Errno::EPERM);
    }
    let cgroup = current.memcg.cgroup();
    let shown = own.ipc_namespace.get();
    let task = Task::try_new_child(tid, process, cgroup, enter, own, current.blocked.get(), fs_base)?;
    task.ipc_namespace.set(shown);
    scheduler::inherit(&current, &task);
    task.add_work(work::RSEQ); // it has not run on any CPU yet
    if thread {
        task.process.add_live();
    }
    if let Err(error) = table::insert(&task) {
        if thread {
            task.process.end_live();
        }
        return Err(error.into());
    }
    if request.has(general::CLONE_PARENT_SETTID) {
        _ = plain::write_user(request.parent_tid, &tid);
    }
    scheduler::enqueue_new(tasks::alive(task));
    if let Some(lender) = lender {
        wait_for_return(&current, &lender);
    }
    Ok(tid)
}

/// The parent's part of vfork(2): until its memory is its own again, or it must end.
fn wait_for_return(current: &Current, lender: &Lender) {
    loop {
        current.prepare_to_wait();
        if lender.returned.load(Ordering::Acquire) != 0 || current.must_end() {
            current.cancel_sleep();
            return;
        }
        super::schedule();
    }
}

/// What a new task does first: enters its program.
fn enter() {
    let current = Current::get();
    let own = current.own();
    let word = own.set_child_tid.replace(0);
    if word != 0 {
        _ = plain::write_user(word, &current.tid);
    }
    let Some(mut frame) = own.first_frame.take() else {
        unreachable!("a child has a first frame");
    };
    arch::user::enter_with_work(&mut frame)
}
