//! What /proc/PID tells of a process.
//!
//! A process's memory and descriptors are its own tasks' to look at: of another process they are not shown.

use super::decimal;
use crate::arch::layout::PAGE_SIZE;
use crate::fs::file::{File, Object};
use crate::fs::filesystems;
use crate::fs::node::{Attributes, DIRECTORY, Dynamic, Each, FileSystem, Kind, LINK, Listed, Node, Target};
use crate::fs::path::Walker;
use crate::fs::table::{self, Item, What, directory, link, text};
use crate::fs::text::{Text, copied};
use crate::mm::shared::{Shared, try_box};
use crate::mm::tasks::Current;
use crate::put;
use crate::syscall::CLOCK_TICKS;
use crate::syscall::errno::{Errno, Result};
use crate::task::clock::SECOND;
use crate::task::cputime;
use crate::task::process::Process;
use crate::task::{Pid, Task, credentials, ipc_namespace, table as tasks};
use alloc::vec::Vec;
use cpu::atomic::Ordering;

pub static PROCESS: Item = directory("", &ITEMS);

static ITEMS: [Item; 22] = [
    text("stat", stat),
    text("statm", statm),
    text("status", status),
    text("cmdline", cmdline),
    text("comm", |out, pid| {
        out.bytes(&of(pid)?.process.name());
        out.bytes(b"\n");
        Ok(())
    }),
    text("maps", maps),
    text("limits", limits),
    text("mounts", |out, _| {
        let walker = Walker::of(&Current::get())?;
        filesystems::mounts_text(&walker.root, out)
    }),
    text("cgroup", |out, pid| {
        let root = of(pid)?.memcg.cgroup().is_root();
        put!(out, "0::{}\n", if root { "/" } else { "/u" });
        Ok(())
    }),
    text("oom_score", |out, _| number(out, 0)),
    text("oom_score_adj", |out, _| number(out, 0)),
    text("oom_adj", |out, _| number(out, 0)),
    text("wchan", |out, _| {
        put!(out, "0");
        Ok(())
    }),
    text("loginuid", |out, _| number(out, u32::MAX.into())),
    text("sessionid", |out, _| number(out, u32::MAX.into())),
    link("exe", exe),
    link("cwd", |pid| place_of(pid, false)),
    link("root", |pid| place_of(pid, true)),
    Item {
        name: "fd",
        permissions: 0o500,
        what: What::Own(descriptors, DIRECTORY),
    },
    Item {
        name: "task",
        permissions: 0o555,
        what: What::Own(threads, DIRECTORY),
    },
    directory("ns", &NAMESPACES),
    text("uid_map", |out, _| {
        put!(out, "{:>10} {:>10} {:>10}\n", 0, 0, u32::MAX);
        Ok(())
    }),
];

macro_rules! namespace {
    ($name:literal $number:literal) => {
        link($name, |_| {
            Ok(Target::Path(copied(concat!($name, ":[", $number, "]").as_bytes())?))
        })
    };
}

/// The first namespaces of a Linux machine have these numbers.
static NAMESPACES: [Item; 7] = [
    namespace!("cgroup" 4026531835),
    link("ipc", |pid| ipc_namespace::link(&*of(pid)?)),
    namespace!("mnt" 4026531841),
    namespace!("net" 4026531840),
    namespace!("pid" 4026531836),
    namespace!("user" 4026531837),
    namespace!("uts" 4026531838),
];

fn number(out: &mut Text, value: i64) -> Result<()> {
    put!(out, "{value}\n");
    Ok(())
}

fn of(pid: Pid) -> Result<Shared<Task>> {
    tasks::find(pid).ok_or(Errno::ESRCH)
}

/// Whether `pid` is the running process.
fn is_self(process: &Process) -> bool {
    Current::get().process.pid == process.pid
}

/// Pages that the process has mapped, if it is the running one.
fn pages(process: &Process) -> u64 {
    let current = Current::get();
    let space = current.own().space.borrow();
    space
        .as_ref()
        .filter(|_| is_self(process))
        .map_or(0, |space| space.pages())
}

fn state(task: &Task) -> char {
    use crate::task::task::State;
    match task.state() {
        State::Runnable | State::New => 'R',
        State::Sleeping => 'S',
        State::Waiting => 'D',
        State::Ended => 'Z',
    }
}

fn stat(out: &mut Text, pid: Pid) -> Result<()> {
    let task = of(pid)?;
    let process = &task.process;
    put!(out, "{} (", process.pid);
    out.bytes(&process.name());
    put!(out, ") {} {} ", state(&task), process.parent());
    // Group, session, terminal, its group, flags; faults; times; priority, nice; threads; the timer that is gone.
    let own = cputime::of_process(process).usage();
    let children = process.children_usage();
    put!(out, "{} {} 0 -1 0 ", process.group(), process.session());
    put!(out, "{} {} 0 0 ", own.faults, children.faults);
    for nanoseconds in [own.user, own.system, children.user, children.system] {
        put!(out, "{} ", nanoseconds / (SECOND / CLOCK_TICKS));
    }
    let nice = process.nice.load(Ordering::Relaxed) as i32;
    put!(out, "{} {nice} {} 0 ", 20 + nice, process.live());
    let bytes = pages(process) * PAGE_SIZE;
    put!(
        out,
        "{} {bytes} 0 {} ",
        process.started / (SECOND / CLOCK_TICKS),
        u64::MAX
    );
    // Addresses, signals, and what Linux shows as zero.
    put!(out, "0 0 0 0 0 {} ", task.pending_signals() & 0x7fff_ffff);
    put!(out, "0 0 0 0 0 0 17 {} 0 0 0 0 0 0 0 0 0 0 0 0 0\n", task.cpu_number());
    Ok(())
}

fn statm(out: &mut Text, pid: Pid) -> Result<()> {
    put!(out, "{0} {0} 0 0 0 {0} 0\n", pages(&of(pid)?.process));
    Ok(())
}

fn status(out: &mut Text, pid: Pid) -> Result<()> {
    let task = of(pid)?;
    let process = &task.process;
    put!(out, "Name:\t");
    out.bytes(&process.name());
    let state = state(&task);
    let word = match state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "disk sleep",
        _ => "zombie",
    };
    let who = process.credentials();
    put!(
        out,
        "\nUmask:\t{:04o}\nState:\t{state} ({word})\n",
        process.umask.load(Ordering::Relaxed)
    );
    put!(out, "Tgid:\t{}\nNgid:\t0\nPid:\t{}\n", process.pid, process.pid);
    put!(out, "PPid:\t{}\nTracerPid:\t0\n", process.parent());
    put!(out, "Uid:\t{}\t{}\t{}\t{}\n", who.uid, who.euid, who.suid, who.euid);
    put!(out, "Gid:\t{}\t{}\t{}\t{}\n", who.gid, who.egid, who.sgid, who.egid);
    let kib = pages(process) * PAGE_SIZE / 1024;
    put!(
        out,
        "FDSize:\t64\nGroups:\t \nVmPeak:\t{kib:>8} kB\nVmSize:\t{kib:>8} kB\nVmRSS:\t{kib:>8} kB\n"
    );
    put!(
        out,
        "Threads:\t1\nSigPnd:\t{0:016x}\nShdPnd:\t{0:016x}\n",
        task.pending_signals()
    );
    let capabilities: u64 = if who.privileged() { (1 << 41) - 1 } else { 0 };
    put!(
        out,
        "CapInh:\t{:016x}\nCapPrm:\t{capabilities:016x}\nCapEff:\t{capabilities:016x}\n",
        0
    );
    put!(out, "Seccomp:\t0\nCpus_allowed_list:\t0-{}\n", cpu::possible() - 1);
    Ok(())
}

/// The arguments as they were at the start of the program.
fn cmdline(out: &mut Text, pid: Pid) -> Result<()> {
    if let Some(arguments) = of(pid)?.process.arguments() {
        out.bytes(&arguments);
    }
    Ok(())
}

fn maps(out: &mut Text, pid: Pid) -> Result<()> {
    use crate::arch::paging::Protection;
    let task = of(pid)?;
    if !is_self(&task.process) {
        return Ok(());
    }
    let current = Current::get();
    let areas = current.space().areas()?;
    for area in areas {
        let letter = |right, letter| if area.protection.contains(right) { letter } else { '-' };
        put!(
            out,
            "{:08x}-{:08x} {}{}{}p 00000000 00:00 0 ",
            area.start,
            area.end,
            letter(Protection::READ, 'r'),
            letter(Protection::WRITE, 'w'),
            letter(Protection::EXEC, 'x')
        );
        put!(out, "{}\n", area.purpose_name());
    }
    Ok(())
}

fn limits(out: &mut Text, pid: Pid) -> Result<()> {
    const NAMES: [(&str, &str); credentials::LIMITS] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let task = of(pid)?;
    put!(
        out,
        "{:<25} {:<20} {:<20} {:<10}\n",
        "Limit",
        "Soft Limit",
        "Hard Limit",
        "Units"
    );
    for (resource, (name, unit)) in NAMES.into_iter().enumerate() {
        let Some(limit) = task.process.with_limits(|limits| limits.get(resource)) else {
            continue;
        };
        put!(out, "{name:<25}");
        for value in [limit.rlim_cur, limit.rlim_max] {
            match value {
                credentials::INFINITY => put!(out, " {:<20}", "unlimited"),
                value => put!(out, " {value:<20}"),
            }
        }
        put!(out, " {unit:<10}\n");
    }
    Ok(())
}

fn exe(pid: Pid) -> Result<Target> {
    let path = of(pid)?.process.executable().ok_or(Errno::ENOENT)?;
    Ok(Target::Path(copied(&path)?))
}

fn place_of(pid: Pid, root: bool) -> Result<Target> {
    let directories = of(pid)?.process.directories().ok_or(Errno::ENOENT)?;
    let walker = Walker::of(&Current::get())?;
    let place = if root { directories.root } else { directories.working };
    let path = match place.path(&walker.root, None)? {
        Some(path) => path,
        None => copied(b"(unreachable)")?,
    };
    Ok(Target::Place(place, path))
}

/// /proc/PID/fd
struct Descriptors {
    pid: Pid,
}

/// /proc/PID/fd/N
struct Descriptor {
    file: Shared<File>,
}

fn descriptors(_: &Shared<FileSystem>, pid: Pid) -> Result<Kind> {
    Ok(Kind::Dynamic(try_box(Descriptors { pid })?))
}

impl Descriptors {
    /// The open file of a descriptor, of the running process alone.
    fn file(&self, descriptor: u32) -> Result<Option<Shared<File>>> {
        if !is_self(&of(self.pid)?.process) {
            return Err(Errno::EACCES);
        }
        let current = Current::get();
        let files = current.own().files.borrow();
        Ok(files.get(descriptor as i32).ok().cloned())
    }

    fn ino(&self, descriptor: u32) -> u64 {
        u64::from(self.pid) << 32 | 1 << 31 | u64::from(descriptor)
    }
}

impl Dynamic for Descriptors {
    fn lookup(&self, this: &Shared<Node>, name: &[u8]) -> Result<Option<Shared<Node>>> {
        let descriptor = match name {
            b"0" => Some(0),
            name => super::number_of(name),
        };
        let Some(descriptor) = descriptor else { return Ok(None) };
        let Some(file) = self.file(descriptor)? else {
            return Ok(None);
        };
        let rights = (u32::from(file.readable()) * 0o500) | (u32::from(file.writable()) * 0o300);
        let kind = Kind::Dynamic(try_box(Descriptor { file })?);
        let attributes = Attributes::new(LINK | rights, 0, 0);
        Ok(Some(Node::numbered(&this.fs, self.ino(descriptor), kind, attributes)?))
    }

    fn list(&self, _this: &Node, from: u64, each: &mut Each) -> Result<()> {
        let mut descriptor = from.saturating_sub(2) as u32;
        let end = {
            let current = Current::get();
            let end = current.own().files.borrow().end();
            end as u32
        };
        while descriptor < end {
            if self.file(descriptor)?.is_some() {
                let name = decimal(descriptor)?;
                let listed = Listed {
                    next: u64::from(descriptor) + 3,
                    ino: self.ino(descriptor),
                    kind: LINK,
                    name: &name,
                };
                if !each(listed) {
                    return Ok(());
                }
            }
            descriptor += 1;
        }
        Ok(())
    }
}

impl Dynamic for Descriptor {
    fn target(&self) -> Result<Target> {
        let mut path = Text::default();
        match (&self.file.place, &self.file.object) {
            (Some(place), Object::Pipe(_)) => put!(path, "pipe:[{}]", place.node.ino),
            (Some(place), Object::Socket(_)) => put!(path, "socket:[{}]", place.node.ino),
            (Some(place), _) => {
                let walker = Walker::of(&Current::get())?;
                let found: Option<Vec<u8>> = if place.node.is_directory() {
                    place.path(&walker.root, None)?
                } else if let Some(parent) = &self.file.parent {
                    parent.path(&walker.root, Some(&place.node))?
                } else {
                    None
                };
                match found {
                    Some(found) => path.bytes(&found),
                    None => put!(path, "/ (deleted)"),
                }
            }
            (None, Object::Event(_)) => put!(path, "anon_inode:[eventfd]"),
            (None, Object::Epoll(_)) => put!(path, "anon_inode:[eventpoll]"),
            (None, _) => put!(path, "anon_inode:[file]"),
        }
        let path = path.finish()?;
        match &self.file.place {
            Some(place) => Ok(Target::Place(place.clone(), path)),
            None => Ok(Target::Path(path)),
        }
    }
}

/// /proc/PID/task: the process's first task.
struct Threads {
    pid: Pid,
}

fn threads(_: &Shared<FileSystem>, pid: Pid) -> Result<Kind> {
    Ok(Kind::Dynamic(try_box(Threads { pid })?))
}

impl Threads {
    fn has(&self, tid: Pid) -> bool {
        let (Some(task), Some(this)) = (tasks::find(tid), tasks::find(self.pid)) else {
            return false;
        };
        task.process.pid == this.process.pid
    }
}

impl Dynamic for Threads {
    fn lookup(&self, this: &Shared<Node>, name: &[u8]) -> Result<Option<Shared<Node>>> {
        match super::number_of(name).filter(|&tid| self.has(tid)) {
            Some(tid) => Ok(Some(table::node(&this.fs, &PROCESS, tid, Some(this))?)),
            None => Ok(None),
        }
    }

    fn list(&self, _this: &Node, from: u64, each: &mut Each) -> Result<()> {
        let mut last = from.saturating_sub(3) as Pid;
        while let Some(task) = tasks::next(last) {
            last = task.tid;
            if self.has(task.tid) {
                let name = decimal(task.tid)?;
                let listed = Listed {
                    next: u64::from(task.tid) + 3,
                    ino: u64::from(task.tid) << 32,
                    kind: DIRECTORY,
                    name: &name,
                };
                if !each(listed) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
