//! Starting a program: from a file's bytes and two lists of strings to the first instruction.
//!
//! * [`elf`]: what the file says, checked.
//! * [`stack`]: what the program finds above its first stack pointer.
//!
//! Nothing of the old program is touched until everything that can be refused has been.

mod elf;
mod stack;

pub use stack::Strings;

use crate::arch::TrapFrame;
use crate::arch::layout::PAGE_SIZE as PAGE;
use crate::arch::paging::Protection;
use crate::fs::node::{self, Kind};
use crate::fs::path::Walker;
use crate::mm::address_space::{AddressSpace, Placement, Request, STACK_TOP, SpaceLimits};
use crate::mm::areas::{Backing, GUARD_GAP, Purpose};
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::exit::{Exit, exit_group};
use crate::task::signal::Signal;
use crate::task::table::printable;
use alloc::vec::Vec;
use linux_raw_sys::general;

/// Bytes of the stack that exist from the start: more comes by growing.
const FIRST_STACK: u64 = 32 * PAGE;
const _: () = assert!(FIRST_STACK < GUARD_GAP);

/// Makes the running task run the program at `path`: the frame with which it enters ring 3.
///
/// Errors as execve(2): of the path; EACCES (no regular file, or not executable), ENOEXEC, EINVAL (segments that cannot
/// be), ENOENT (a dynamic program: there is no interpreter), E2BIG, ENOMEM. The log says more than the number.
pub fn exec(path: &[u8], arguments: &Strings, environment: &Strings) -> Result<TrapFrame> {
    let current = Current::get();
    let credentials = current.process.credentials();
    let place = Walker::of(&current)?.find(path, true)?;
    let Kind::Regular(content) = &place.node.kind else {
        return Err(Errno::EACCES);
    };
    node::access(&place.node.attributes(), 1, &credentials)?;
    if place.mount.flags() & general::MS_NOEXEC != 0 {
        return Err(Errno::EACCES);
    }
    // Segments are mapped from the boot loader's archive: what has been written since is not there.
    let bytes = content.unchanged().ok_or(Errno::ENOEXEC)?;
    let program = elf::Program::parse(bytes).map_err(|refused| {
        log::error!("{}: {refused}", printable(path));
        refused.errno()
    })?;
    let limits = SpaceLimits::of(&current);
    let space = AddressSpace::try_new()?;
    program.map(&space, &limits)?;
    space.map(
        &Request {
            address: STACK_TOP - FIRST_STACK,
            length: FIRST_STACK,
            protection: Protection::READ | Protection::WRITE,
            placement: Placement::FixedIfFree,
            backing: Backing::Anonymous,
            purpose: Purpose::Stack,
            unreserved: false,
        },
        &limits,
    )?;
    let image = stack::Image::new(path, arguments, environment, &program, &credentials, limits.stack)?;
    let executable = Shared::try_new(absolute(path)?)?;
    let shown = Shared::try_new(crate::fs::text::copied(arguments.bytes())?)?;

    // From here on there is no way back to the old program.
    space.enter(&current);
    let old = current.own().space.replace(Some(space));
    drop(old);
    current.process.signals.reset_handlers();
    current.process.set_name(path);
    current.process.set_executable(executable);
    current.process.set_arguments(shown);
    let files = &current.own().files;
    loop {
        let closed = files.borrow_mut().remove_for_exec();
        if closed.is_none() {
            break;
        }
    }
    current.own().clear_child_tid.set(0);
    current.own().robust_list.set((0, 0));
    current.own().rseq.set(None);
    if image.write().is_err() {
        // Memory ran out under the new stack.
        exit_group(Exit::Signal(Signal::SIGKILL));
    }
    crate::arch::user::reset();
    Ok(TrapFrame::new_user(program.entry, image.pointer))
}

fn absolute(path: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    whole.try_reserve_exact(path.len() + 1)?;
    if path.first() != Some(&b'/') {
        whole.push(b'/');
    }
    whole.extend_from_slice(path);
    Ok(whole)
}
