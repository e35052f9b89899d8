//! The first task: starts the program that the initramfs names, waits for its end, says how it ended and what is left.
//!
//! `.tollgate/init` in the initramfs holds strings, each with its zero: the number of arguments in decimal, the arguments,
//! the environment.
//! Without it the program is /bin/mqtest. The program's standard input, output and error are the terminal.

use super::exit::{self, Exit};
use super::process::Process;
use super::signal::{Info, Signal};
use super::table::printable;
use super::task::existing;
use super::{accounts, clock, family, schedule, schedule_until, signal, spawn, system, table};
use crate::arch;
use crate::control;
use crate::exec::{self, Strings};
use crate::fs;
use crate::fs::path::Walker;
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use linux_raw_sys::general;

/// What to run, when the initramfs says nothing.
const PROGRAM: &[u8] = b"/bin/mqtest";
/// Where the initramfs says it.
const INIT: &[u8] = b".tollgate/init";
/// The status of a program that could not be started, as a shell gives it.
const CANNOT_RUN: u8 = 126;

/// Init itself, while the program runs.
pub fn run() {
    let init = Current::get();
    let options = &system().options;
    control!(
        "boot accounting={} msgcache={} cgroup={} cpus={} counters={} tsc_khz={}",
        options.accounting,
        if options.msgcache { "on" } else { "off" },
        if options.user_cgroup { "user" } else { "root" },
        cpu::online().count(),
        options.counters,
        arch::tsc::khz()
    );
    if options.races {
        arch::qemu::exit(crate::races::show());
    }
    let before = accounts::Snapshot::take();
    let tasks = existing();
    if let Err(errno) = fs::filesystems::mount_all() {
        panic!("the root file system cannot be made: {errno:?}");
    }
    let Ok(program) = spawn(b"program", init.tid, system().cgroup, start_program) else {
        panic!("too little memory to start the first program");
    };
    match wait_for(&init, &program) {
        Exit::Code(code) => control!("exit code={code}"),
        Exit::Signal(signal) => control!("exit signal={}", signal.number()),
    }
    drop(program);
    end_the_rest(&init, tasks);
    fs::filesystems::unmount_all();
    arch::qemu::exit(accounts::report(before));
}

/// Sleeps until a process has ended and nothing runs on its stack any more.
fn wait_for(init: &Current, process: &Shared<Process>) -> Exit {
    loop {
        init.prepare_to_wait();
        match process.exit() {
            Some(exit) if process.is_gone() => {
                init.cancel_sleep();
                return exit;
            }
            // It is on its way out: a moment.
            Some(_) => _ = schedule_until(Some(clock::monotonic() + 1_000_000)),
            None => schedule(),
        }
    }
}

/// Ends what the program has left running, and waits until no more tasks exist than there were before it.
fn end_the_rest(init: &Current, tasks: u64) {
    while existing() != tasks {
        let mut last = family::INIT;
        while let Some(process) = table::next_process(last) {
            last = process.pid;
            if process.is_program() {
                _ = signal::send_to_process(&process, Info::kernel(Signal::SIGKILL));
            }
        }
        init.prepare_to_wait();
        schedule_until(Some(clock::monotonic() + 1_000_000));
    }
}

/// The first task of the program: becomes it.
fn start_program() {
    match prepare() {
        Ok(frame) => arch::user::enter(&frame),
        Err(errno) => {
            let name = Current::get().process.name();
            log::error!("{}: cannot be started ({errno:?})", printable(&name));
            exit::exit_group(Exit::Code(CANNOT_RUN));
        }
    }
}

fn prepare() -> Result<arch::TrapFrame> {
    let current = Current::get();
    current
        .process
        .set_directories(Some(fs::filesystems::first_directories()?));
    let console = fs::open::open(&Walker::of(&current)?, b"/dev/console", general::O_RDWR, 0)?;
    for _ in 0..3 {
        let limit = current.process.limit(general::RLIMIT_NOFILE);
        let mut files = current.own().files.borrow_mut();
        files.insert(console.clone(), 0, limit, false)?;
    }
    drop(console);
    let (arguments, environment) = command()?;
    let path = arguments.first().ok_or(Errno::ENOENT)?;
    current.process.set_name(path);
    exec::exec(path, &arguments, &environment)
}

/// The program's arguments and environment.
fn command() -> Result<(Strings, Strings)> {
    let (mut arguments, mut environment) = (Strings::default(), Strings::default());
    let Some(text) = fs::archive().file(INIT) else {
        arguments.push(PROGRAM)?;
        return Ok((arguments, environment));
    };
    // Each string has its zero, so nothing follows the last one.
    let mut strings = text.strip_suffix(b"\0").unwrap_or(text).split(|&byte| byte == 0);
    let count = strings
        .next()
        .and_then(|count| core::str::from_utf8(count).ok()?.parse().ok());
    let count: usize = count.ok_or(Errno::EINVAL)?;
    for string in strings.by_ref().take(count) {
        arguments.push(string)?;
    }
    for string in strings {
        environment.push(string)?;
    }
    Ok((arguments, environment))
}
