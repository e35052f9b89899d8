//! One boot: a QEMU process with a time limit, what it printed, and how it ended.
//!
//! The first serial line (the program's output) is QEMU's standard output, read by a thread and passed on as it comes;
//! the second (log and control lines) is a file in the run's temporary folder, read at the end. The guest ends QEMU
//! through isa-debug-exit: status 33 in order, 35 after a kernel failure. Any other status is QEMU's own trouble, and
//! what it wrote to standard error says which.
//!
//! No boot outlives its caller: QEMU is killed at the time limit, on an interrupt ([`crate::process::interrupt`]), when the caller's
//! `cancel` is set, and when the running machine is dropped. QEMU is in the caller's process group, so a Ctrl-C at the
//! terminal reaches it as well.

use crate::console::Control;
use crate::failure::{Failed, KERNEL_FAILED, TIMED_OUT, Usage};
use crate::process::{Running, drain, interrupted, interrupted_error, pieces, spawn_error};
use crate::trace::Recorder;
use anyhow::{Context, Result, anyhow};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// QEMU's status when the guest writes 0x10 to isa-debug-exit: ended in order.
const ORDERED: i32 = 0x10 << 1 | 1;
/// And 0x11: the kernel failed.
const FAILED: i32 = 0x11 << 1 | 1;
/// How much of the program's output is kept for the caller; more is passed on and counted, not kept.
const KEPT: usize = 4 << 20;
/// A log longer than this is a kernel gone wild: the boot ends before it fills the disk.
const LOG_LIMIT: u64 = 64 << 20;
/// How many last lines of console and log a failure shows.
const TAIL: usize = 12;
/// How many characters of each of them.
const WIDTH: usize = 500;
/// The most CPUs of QEMU's q35 without an interrupt controller in the host's kernel.
const MOST_CPUS: u32 = 255;
/// The smallest memory (MiB) that is worth a boot.
pub const SMALLEST_MEMORY: u32 = 32;

/// How QEMU executes the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// Software emulation counting instructions: one instruction is one tick of the TSC; repeatable.
    Icount,
    /// Software emulation at full speed, the host's clock.
    Tcg,
    /// Hardware virtualisation, the host's clock.
    Kvm,
}

impl Accel {
    /// The option's value.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Icount => "tcg-icount",
            Accel::Tcg => "tcg",
            Accel::Kvm => "kvm",
        }
    }

    fn arguments(self, cpus: u32) -> &'static [&'static str] {
        match self {
            Accel::Icount => &["-accel", "tcg", "-icount", "shift=0,sleep=off"],
            Accel::Tcg if cpus > 1 => &["-accel", "tcg,thread=multi"],
            Accel::Tcg => &["-accel", "tcg"],
            Accel::Kvm => &["-accel", "kvm"],
        }
    }
}

/// The machine to boot.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The qemu-system-x86_64 to run.
    pub qemu: PathBuf,
    /// How it executes.
    pub accel: Accel,
    /// Virtual CPUs, at least 1.
    pub cpus: u32,
    /// Memory in MiB, at least [`SMALLEST_MEMORY`].
    pub mem: u32,
    /// Wall-clock limit of one boot.
    pub timeout: Duration,
}

impl Machine {
    /// Refuses what cannot be booted. Errors: [`Usage`].
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Usage(why).into());
        if self.cpus == 0 {
            return refuse("--cpus 0: a machine has at least one CPU".into());
        }
        if self.cpus > MOST_CPUS {
            return refuse(format!(
                "--cpus {}: QEMU's q35 machine has at most {MOST_CPUS}",
                self.cpus
            ));
        }
        if self.mem < SMALLEST_MEMORY {
            return refuse(format!(
                "--mem {}: the guest needs at least {SMALLEST_MEMORY} MiB",
                self.mem
            ));
        }
        if let Some(host) = host_memory()
            && u64::from(self.mem) > host
        {
            return refuse(format!("--mem {}: this host has {host} MiB: ask for less", self.mem));
        }
        if self.timeout.is_zero() {
            return refuse("--timeout 0: the limit must be at least one second".into());
        }
        Ok(())
    }
}

/// The host's memory in MiB, where the system says it.
fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text
        .lines()
        .find_map(|l| l.strip_prefix("MemTotal:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kib / 1024)
}

/// What one boot starts with.
#[derive(Debug)]
pub struct Load<'a> {
    /// The kernel's ELF file.
    pub kernel: &'a Path,
    /// The initial file system, as [`crate::initramfs`] makes it.
    pub initramfs: &'a [u8],
    /// The kernel's command line.
    pub cmdline: &'a str,
}

/// How a boot ended that QEMU itself carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The guest ended the machine in order.
    Ordered,
    /// The kernel reported its own failure.
    KernelFailed,
    /// The machine reset: a fault while handling a fault, before or beyond the kernel's own report.
    Reset,
    /// The time limit passed.
    TimedOut,
    /// The kernel's log grew beyond all reason.
    LogFlood,
}

/// What came of a boot.
#[derive(Debug, Clone)]
pub struct Boot {
    /// How it ended.
    pub ending: Ending,
    /// What the program printed, byte for byte (the first 4 MiB of it).
    pub output: Vec<u8>,
    /// What the kernel said on the second line.
    pub control: Control,
    /// The limit that was set.
    pub timeout: Duration,
}

impl Boot {
    /// The boot, if it ended in order, said how its program ended, and left nothing behind; else the [`Failed`] that
    /// names what happened, with the last lines of console and log.
    pub fn in_order(self) -> Result<Boot> {
        let (line, status) = match self.ending {
            Ending::Ordered if !self.control.leaks.is_empty() => (self.leaked(), KERNEL_FAILED),
            Ending::Ordered if self.control.end.is_some() => return Ok(self),
            Ending::Ordered => (
                "the kernel ended without saying how its program ended".into(),
                KERNEL_FAILED,
            ),
            Ending::KernelFailed => match &self.control.panic {
                Some(reason) => (format!("kernel panic: {reason}"), KERNEL_FAILED),
                None if !self.control.leaks.is_empty() => (self.leaked(), KERNEL_FAILED),
                None => (
                    format!(
                        "the kernel failed: {}",
                        self.control.log.last().map_or("it gave no reason", |l| l.trim())
                    ),
                    KERNEL_FAILED,
                ),
            },
            Ending::Reset if self.output.is_empty() && self.control.log.is_empty() && self.control.boot.is_none() => (
                "the machine reset itself (a triple fault) before its first word, or this is no QEMU: another by --qemu PATH"
                    .into(),
                KERNEL_FAILED,
            ),
            Ending::Reset => ("the machine reset itself (a triple fault)".into(), KERNEL_FAILED),
            Ending::LogFlood => (
                format!("the kernel's log passed {} MiB", LOG_LIMIT >> 20),
                KERNEL_FAILED,
            ),
            Ending::TimedOut => {
                let seconds = self.timeout.as_secs();
                (
                    format!("no end within the time limit of {seconds} s: raise --timeout if it was only slow"),
                    TIMED_OUT,
                )
            }
        };
        Err(Failed {
            line,
            detail: self.tail(),
            status,
        }
        .into())
    }

    fn leaked(&self) -> String {
        format!("the kernel leaked: {}", self.control.leaks.join(", "))
    }

    /// The last lines of the program's output and of the kernel's log, and a panic's trace.
    pub fn tail(&self) -> Vec<String> {
        fn last(what: &str, lines: Vec<&str>, found: &mut Vec<String>) {
            let from = lines.len().saturating_sub(TAIL);
            found.extend(
                lines[from..]
                    .iter()
                    .map(|l| format!("{what}| {}", printable(l.trim_end()))),
            );
        }
        let mut found = Vec::new();
        let output = String::from_utf8_lossy(&self.output);
        last("console", output.lines().collect(), &mut found);
        last("log", self.control.log.iter().map(String::as_str).collect(), &mut found);
        found.extend(self.control.panic.iter().map(|p| format!("panic| {p}")));
        found.extend(self.control.trace.iter().map(|t| format!("panic| {t}")));
        if found.is_empty() {
            found.push("console| (nothing was printed)".into());
        }
        found
    }
}

/// A line that cannot steer or flood the terminal: control characters are written as escapes, and a program that prints
/// megabytes without an end of line is cut.
fn printable(line: &str) -> String {
    let end = if line.chars().nth(WIDTH).is_some() { "…" } else { "" };
    line.chars()
        .take(WIDTH)
        .flat_map(|c| {
            let escaped = c.is_control() && c != '\t';
            let written: Box<dyn Iterator<Item = char>> = if escaped {
                Box::new(c.escape_default())
            } else {
                Box::new(std::iter::once(c))
            };
            written
        })
        .chain(end.chars())
        .collect()
}

/// How this QEMU is told to translate one instruction at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneByOne {
    /// `-singlestep`, up to 8.0.
    Singlestep,
    /// `-accel tcg,one-insn-per-tb=on`, since 8.1.
    Property,
}

impl OneByOne {
    /// By the line that QEMU's `--version` prints.
    pub fn of(version_line: &str) -> OneByOne {
        let number = version_line.split_whitespace().skip_while(|w| *w != "version").nth(1);
        let mut parts = number.unwrap_or("").split('.').map(|p| p.parse::<u32>().unwrap_or(0));
        match (parts.next(), parts.next()) {
            (Some(major), Some(minor)) if (1..8).contains(&major) || (major, minor) == (8, 0) => OneByOne::Singlestep,
            _ => OneByOne::Property,
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            OneByOne::Singlestep => &["-accel", "tcg", "-singlestep"],
            OneByOne::Property => &["-accel", "tcg,one-insn-per-tb=on"],
        }
    }
}

/// Boots once, counting instructions, and has each of them recorded; gives the recorder back.
///
/// Errors: as [`boot`].
pub fn boot_traced(
    machine: &Machine,
    load: &Load<'_>,
    dir: &Path,
    one: OneByOne,
    recorder: Recorder,
) -> Result<(Boot, Recorder)> {
    let mut trace = Some((one, recorder));
    let boot = boot_with(machine, load, dir, None, &AtomicBool::new(false), &mut trace)?;
    let (_, recorder) = trace.context("the recorder")?;
    Ok((boot, recorder))
}

/// Boots once. `dir` holds the boot's files (its names are unique within the process); `tee` gets the program's output
/// as it comes; `cancel` ends the boot early.
///
/// Errors: QEMU cannot be started, fails by itself, or the run was interrupted. A guest that fails is no error here:
/// see [`Boot::in_order`].
pub fn boot(
    machine: &Machine,
    load: &Load<'_>,
    dir: &Path,
    tee: Option<&mut dyn Write>,
    cancel: &AtomicBool,
) -> Result<Boot> {
    boot_with(machine, load, dir, tee, cancel, &mut None)
}

fn boot_with(
    machine: &Machine,
    load: &Load<'_>,
    dir: &Path,
    tee: Option<&mut dyn Write>,
    cancel: &AtomicBool,
    trace: &mut Option<(OneByOne, Recorder)>,
) -> Result<Boot> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    machine.check()?;
    if interrupted() {
        return Err(interrupted_error());
    }
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let initrd = dir.join(format!("initramfs-{serial}"));
    let log = dir.join(format!("log-{serial}"));
    std::fs::write(&initrd, load.initramfs).with_context(|| format!("writing {}", initrd.display()))?;
    File::create(&log).with_context(|| format!("writing {}", log.display()))?;

    let mut command = Command::new(&machine.qemu);
    command
        .args(["-M", "q35", "-bios", "qboot.rom", "-cpu", "max"])
        .args(["-m", &machine.mem.to_string(), "-smp", &machine.cpus.to_string()])
        .args(match trace {
            // The log goes to standard error, which the recorder reads.
            Some((one, _)) => [one.arguments(), &["-icount", "shift=0,sleep=off", "-d", "exec,nochain"]].concat(),
            None => machine.accel.arguments(machine.cpus).to_vec(),
        })
        // Nothing of the host may leak in: neither its randomness, nor its time, nor its devices.
        .args(["-seed", "0", "-rtc", "base=2024-01-01T00:00:00,clock=vm"])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-nic",
            "none",
        ])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"])
        .args(["-serial", "stdio", "-serial"])
        .arg(format!("file:{}", log.display()))
        .arg("-kernel")
        .arg(load.kernel)
        .arg("-initrd")
        .arg(&initrd)
        .args(["-append", load.cmdline])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let mut running = Running(command.spawn().map_err(|e| spawn_error(&machine.qemu, &e))?);
    let console = pieces(running.0.stdout.take().context("QEMU's standard output")?);
    let stderr = running.0.stderr.take().context("QEMU's standard error")?;
    let (complaints, recording) = match trace.take() {
        None => (pieces(stderr), None),
        Some((one, recorder)) => {
            let (complaints, recording) = record(stderr, recorder);
            (complaints, Some((one, recording)))
        }
    };

    let mut output = Output {
        kept: Vec::new(),
        tee,
        passed_on: Ok(()),
    };
    let ended = wait(&mut running, machine, &log, started, cancel, &console, &mut output);
    drop(running);
    // The pipes close with QEMU; only what a wrapper script left behind could hold them open, and is not waited for.
    drain(&console, |piece| output.take(piece));
    let mut said = Vec::new();
    drain(&complaints, |piece| said.extend_from_slice(piece));

    if let Some((one, recording)) = recording {
        let recorder = recording
            .join()
            .map_err(|_| anyhow!("reading QEMU's execution log failed"))?;
        *trace = Some((one, recorder));
    }

    let text = std::fs::read(&log).with_context(|| format!("reading the kernel's log {}", log.display()))?;
    let control = Control::parse(&String::from_utf8_lossy(&text));
    // The folder goes at the end of the run; a run of many boots need not keep them all.
    let _ = std::fs::remove_file(&initrd);
    let _ = std::fs::remove_file(&log);

    let said = String::from_utf8_lossy(&said);
    let ending = match ended? {
        Ended::Killed(ending) => ending,
        Ended::By(status) if status.code() == Some(ORDERED) => Ending::Ordered,
        Ended::By(status) if status.code() == Some(FAILED) => Ending::KernelFailed,
        // A Ctrl-C reaches QEMU as well, and QEMU may be quicker than our own handler.
        Ended::By(_) if interrupted() || said.contains("terminating on signal") => return Err(interrupted_error()),
        Ended::By(status) if status.success() => Ending::Reset,
        Ended::By(status) => return Err(own_failure(machine, status, &said)),
    };
    output.passed_on.context("passing on the program's output")?;
    Ok(Boot {
        ending,
        output: output.kept,
        control,
        timeout: machine.timeout,
    })
}

/// Reads QEMU's standard error with an execution log in it: the log's lines to the recorder, the others to the caller.
fn record(stderr: ChildStderr, mut recorder: Recorder) -> (Receiver<Vec<u8>>, JoinHandle<Recorder>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut from = BufReader::with_capacity(1 << 16, stderr);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            match std::str::from_utf8(&line) {
                Ok(text) if text.starts_with("Trace ") => recorder.line(text),
                _ => drop(sender.send(line.clone())),
            }
            line.clear();
        }
        recorder
    });
    (receiver, reading)
}

enum Ended {
    By(ExitStatus),
    Killed(Ending),
}

/// The program's output: its first part kept, all of it passed on.
struct Output<'a> {
    kept: Vec<u8>,
    tee: Option<&'a mut dyn Write>,
    passed_on: std::io::Result<()>,
}

impl Output<'_> {
    /// A receiver that fails (a closed pipe) gets no more; the reading goes on.
    fn take(&mut self, piece: &[u8]) {
        self.kept
            .extend_from_slice(&piece[..piece.len().min(KEPT.saturating_sub(self.kept.len()))]);
        if let Some(to) = self.tee.as_mut() {
            let written = to.write_all(piece).and_then(|()| to.flush());
            if written.is_err() {
                self.passed_on = written;
                self.tee = None;
            }
        }
    }
}

/// Waits for QEMU's end, within the time limit and the log's, taking the output as it comes.
fn wait(
    running: &mut Running,
    machine: &Machine,
    log: &Path,
    started: Instant,
    cancel: &AtomicBool,
    console: &Receiver<Vec<u8>>,
    output: &mut Output<'_>,
) -> Result<Ended> {
    let pause = Duration::from_millis(5);
    loop {
        if let Some(status) = running.0.try_wait().context("waiting for QEMU")? {
            return Ok(Ended::By(status));
        }
        if interrupted() || cancel.load(Ordering::Relaxed) {
            return Err(interrupted_error());
        }
        if started.elapsed() >= machine.timeout {
            return Ok(Ended::Killed(Ending::TimedOut));
        }
        if std::fs::metadata(log).is_ok_and(|m| m.len() > LOG_LIMIT) {
            return Ok(Ended::Killed(Ending::LogFlood));
        }
        match console.recv_timeout(pause) {
            Ok(piece) => output.take(&piece),
            Err(RecvTimeoutError::Timeout) => {}
            // The console is closed: QEMU is about to end.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_micros(500)),
        }
    }
}

/// QEMU ended by itself, and not as a guest ends it.
fn own_failure(machine: &Machine, status: ExitStatus, complaints: &str) -> anyhow::Error {
    let shown = machine.qemu.display();
    let how = match status.code() {
        Some(code) => format!("exit status {code}"),
        None => format!("killed, {status}"),
    };
    let said: Vec<&str> = complaints.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let said = if said.is_empty() {
        "it said nothing".to_owned()
    } else {
        said.join("; ")
    };
    let remedy = if said.contains("qboot.rom") {
        "install the firmware by ./setup.sh"
    } else if said.contains("memory") {
        "ask for less by --mem"
    } else if machine.accel == Accel::Kvm {
        "use --accel tcg-icount"
    } else {
        "try that QEMU by hand, or give another by --qemu PATH"
    };
    anyhow!("{shown}: QEMU itself failed ({how}): {said}: {remedy}")
}
