//! IPC namespaces (ipc_namespaces(7)).

use crate::arch::once::BootCell;
use ipc::{Ipc, sysv};

/// The System V queues of the one namespace there is.
static MESSAGES: BootCell<sysv::Namespace> = BootCell::new();

/// Makes the first namespace. Once, at boot.
pub fn start(ipc: &'static Ipc) -> Result<(), ipc::Error> {
    MESSAGES.set(sysv::Namespace::try_new(ipc)?);
    Ok(())
}

/// The System V queues of the running task's namespace.
#[inline(always)]
pub fn messages() -> &'static sysv::Namespace {
    MESSAGES.get().expect("the namespace is made at boot")
}
