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
use crate::task::deliver::AlternateStack;
use crate::task::exit::{self, Exit, exit_group};
use crate::task::signal::Signal;
use crate::task::table::printable;
use crate::task::timers;
use alloc::vec::Vec;
use cpu::atomic::Ordering;
use linux_raw_sys::general;

/// Bytes of the stack that exist from the start: more comes by growing.
const FIRST_STACK: u64 = 32 * PAGE;
const _: () = assert!(FIRST_STACK < GUARD_GAP);

/// The most interpreters of interpreters (Linux: `bprm_execve`).
const MAX_SCRIPTS: usize = 5;
/// The most bytes of a script's first line (`BINPRM_BUF_SIZE`).
const FIRST_LINE: usize = 256;

/// Makes the running task run the program at `path`, or the interpreter that its first line names: the frame with which it
/// enters ring 3.
///
/// Errors as execve(2): of the path; EACCES (no regular file, or not executable), ENOEXEC, EINVAL (segments that cannot
/// be), ENOENT (a dynamic program: there is no interpreter), E2BIG, ENOMEM, ELOOP. The log says more than the number.
pub fn exec(path: &[u8], arguments: &Strings, environment: &Strings) -> Result<TrapFrame> {
    let bytes = open(path)?;
    let Some(line) = bytes.strip_prefix(b"#!") else {
        return run(path, path, bytes, arguments, environment);
    };
    let (mut script, mut line) = (path, line);
    let mut before: Option<Strings> = None;
    for _ in 0..MAX_SCRIPTS {
        let (interpreter, argument) = interpreter(line)?;
        let mut list = Strings::default();
        list.push(interpreter)?;
        if let Some(argument) = argument {
            list.push(argument)?;
        }
        list.push(script)?;
        before
            .as_ref()
            .unwrap_or(arguments)
            .rest()
            .try_for_each(|string| list.push(string))?;
        let bytes = open(interpreter).inspect_err(|errno| {
            log::error!(
                "{}: its interpreter {}: {errno:?}",
                printable(path),
                printable(interpreter)
            );
        })?;
        match bytes.strip_prefix(b"#!") {
            None => return run(path, interpreter, bytes, &list, environment),
            Some(next) => line = next,
        }
        script = interpreter;
        before = Some(list);
    }
    Err(Errno::ELOOP)
}

/// The interpreter and its argument, by a script's first line. ENOEXEC.
fn interpreter(line: &'static [u8]) -> Result<(&'static [u8], Option<&'static [u8]>)> {
    let line = &line[..line.len().min(FIRST_LINE - 2)];
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let line = line.trim_ascii();
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    if interpreter.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    let argument = argument.trim_ascii();
    Ok((interpreter, (!argument.is_empty()).then_some(argument)))
}

/// The bytes of an executable file. EACCES.
fn open(path: &[u8]) -> Result<&'static [u8]> {
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
    content.unchanged().ok_or(Errno::ENOEXEC)
}

/// Makes the running task run a program, the file at `path`, which is called `name`.
fn run(
    name: &[u8],
    path: &[u8],
    bytes: &'static [u8],
    arguments: &Strings,
    environment: &Strings,
) -> Result<TrapFrame> {
    let current = Current::get();
    let credentials = current.process.credentials();
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
    exit::leave_threads(&current)?;
    current.own().files.unshare()?;
    space.enter(&current);
    let old = current.own().space.replace(Some(space));
    drop(old);
    exit::return_memory(&current);
    timers::remove(current.process.pid, |which| matches!(which, timers::Which::Posix(_)));
    current.process.signals.reset_handlers();
    current.process.set_name(name);
    current.process.executed.fetch_add(1, Ordering::Relaxed);
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
    current.own().alternate_stack.set(AlternateStack::NONE);
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
