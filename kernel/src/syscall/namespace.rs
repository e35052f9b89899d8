//! System calls that change what a task can reach: unshare(2), setns(2). Of namespaces there are those for IPC.

use super::errno::{Errno, Result};
use crate::fs::files::lookup;
use crate::mm::tasks::Current;
use crate::task::ipc_namespace;
use linux_raw_sys::general;

/// What threads of a process share here whatever they ask for, and one thread has for itself anyway.
const OF_PROCESS: u32 = general::CLONE_FS | general::CLONE_SYSVSEM;
/// What can only be kept apart where there is one thread, which has it for itself anyway.
const OF_THREADS: u32 = general::CLONE_THREAD | general::CLONE_SIGHAND | general::CLONE_VM;

pub(super) fn unshare(flags: u32) -> Result<()> {
    const KNOWN: u32 = OF_PROCESS | OF_THREADS | general::CLONE_FILES | general::CLONE_NEWIPC;
    let current = Current::get();
    let alone = current.process.live() == 1;
    if flags & !KNOWN != 0 || flags & (OF_THREADS | general::CLONE_FS) != 0 && !alone {
        return Err(Errno::EINVAL);
    }
    if flags & general::CLONE_NEWIPC != 0 && !current.process.credentials().privileged() {
        return Err(Errno::EPERM);
    }
    if flags & general::CLONE_FILES != 0 {
        current.own().files.unshare()?;
    }
    if flags & general::CLONE_NEWIPC != 0 {
        ipc_namespace::unshare(&current)?;
    }
    Ok(())
}

pub(super) fn setns(descriptor: i32, kinds: u32) -> Result<()> {
    let current = Current::get();
    let file = lookup(&current.own().files, descriptor)?;
    let place = file.place.as_ref().ok_or(Errno::EINVAL)?;
    if kinds & !general::CLONE_NEWIPC != 0 {
        return Err(Errno::EINVAL);
    }
    ipc_namespace::set(&current, &place.node)
}
