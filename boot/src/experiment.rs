//! The experiment: which machines are booted, with what in them, and what is kept of each.
//!
//! One boot a row in the measured kernel, and one in the instrumented kernel with fewer rounds for the events. Boots
//! that count instructions do not see each other, so several run at a time; boots by the clock run one after another.

use crate::build::Guest;
use crate::console::{Events, Measured, ProgramEnd, signal_name};
use crate::failure::{Failed, KERNEL_FAILED};
use crate::initramfs::Initramfs;
use crate::kallsyms;
use crate::latency::PerCall;
use crate::model::{Cgroup, Model, RowKey};
use crate::progress::Progress;
use crate::qemu::{self, Accel, Boot, Load, Machine};
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The measuring program.
pub const PROGRAM: &str = "mqtest";
/// Rounds in the instrumented kernel: events repeat, so ten thousand tell what a hundred thousand do, and what happens
/// once (a first use, a refill) disappears in the average.
pub const EVENT_ROUNDS: u64 = 10_000;
/// The environment of every first program.
pub const ENVIRONMENT: [(&str, &str); 3] = [("PATH", "/bin:/usr/bin"), ("HOME", "/"), ("TERM", "dumb")];

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The machine of every boot.
    pub machine: Machine,
    /// The models, in the table's order.
    pub models: Vec<Model>,
    /// Rounds in the measured kernel.
    pub rounds: u64,
}

impl Plan {
    /// What a figure of the table counts.
    pub fn unit(&self) -> &'static str {
        match (self.machine.accel, self.machine.cpus) {
            (Accel::Icount, 1) => "instructions",
            (Accel::Icount, _) => "ticks",
            _ => "ns",
        }
    }
}

/// Counted events per call of the three calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RowEvents {
    /// `mq_receive`.
    pub rx: PerCall,
    /// `mq_send`.
    pub tx: PerCall,
    /// `getppid`.
    pub getppid: PerCall,
}

/// What came of one row.
#[derive(Debug, Clone)]
pub struct Row {
    /// Which row.
    pub key: RowKey,
    /// mqtest's figures, in the plan's unit.
    pub measured: Measured,
    /// Events per call.
    pub events: RowEvents,
    /// Clock at the first user instruction of the measured boot.
    pub first_user_tsc: Option<u64>,
    /// Accounting's own counters at the end of the instrumented boot.
    pub counts: BTreeMap<String, u64>,
}

/// The two halves of a row while it is being made.
#[derive(Debug)]
enum Half {
    Measured(Measured, Option<u64>),
    Events(RowEvents, BTreeMap<String, u64>),
}

/// Runs the whole plan. Errors: the first boot that fails, under its row's name; the others are ended.
pub fn run(plan: &Plan, guest: &Guest, dir: &Path, progress: &Progress) -> Result<Vec<Row>> {
    let events_kernel = guest
        .kernel_events
        .as_deref()
        .context("the instrumented kernel was not built")?;
    let keys = RowKey::rows(&plan.models);
    let program = std::fs::read(guest.program(PROGRAM)?).context("reading mqtest")?;
    let measured_fs = measuring_fs(&guest.kernel, &program, plan.rounds, plan.unit())?;
    let events_fs = measuring_fs(events_kernel, &program, plan.rounds.min(EVENT_ROUNDS), plan.unit())?;

    // The long boots first, so that the short ones fill the gaps at the end.
    let jobs: Vec<(RowKey, bool)> = [false, true]
        .iter()
        .flat_map(|&events| keys.iter().map(move |&key| (key, events)))
        .collect();
    let next = AtomicUsize::new(0);
    let cancel = AtomicBool::new(false);
    let results: Mutex<BTreeMap<(RowKey, bool), Half>> = Mutex::default();
    let failure: Mutex<Option<anyhow::Error>> = Mutex::default();

    std::thread::scope(|scope| {
        for _ in 0..at_a_time(plan) {
            scope.spawn(|| {
                while !cancel.load(Ordering::Relaxed) {
                    let Some(&(key, events)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let (kernel, fs, kind) = if events {
                        (events_kernel, &events_fs, " (instrumented)")
                    } else {
                        (guest.kernel.as_path(), &measured_fs, "")
                    };
                    progress.doing(&format!("booting {}{kind}", key.name()));
                    let half = half(plan, key, events, kernel, fs, dir, &cancel)
                        .with_context(|| format!("booting {}{kind}", key.name()));
                    progress.step();
                    match half {
                        Ok(half) => {
                            results
                                .lock()
                                .unwrap_or_else(|e| e.into_inner())
                                .insert((key, events), half);
                        }
                        Err(error) => {
                            // The first failure is the cause; the boots it cancels fail too.
                            failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                            cancel.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(error);
    }
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    keys.iter()
        .map(
            |&key| match (results.remove(&(key, false)), results.remove(&(key, true))) {
                (Some(Half::Measured(measured, first_user_tsc)), Some(Half::Events(events, counts))) => Ok(Row {
                    key,
                    measured,
                    events,
                    first_user_tsc,
                    counts,
                }),
                _ => Err(anyhow!("row {} is incomplete", key.name())),
            },
        )
        .collect()
}

/// Boots a plan runs in parallel.
fn at_a_time(plan: &Plan) -> usize {
    match plan.machine.accel {
        Accel::Icount => std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8),
        Accel::Tcg | Accel::Kvm => 1,
    }
}

/// How many boots [`run`] reports.
pub fn steps(plan: &Plan) -> u64 {
    plan.models.len() as u64 * 4
}

/// The file system of a measuring boot.
fn measuring_fs(kernel: &Path, program: &[u8], rounds: u64, unit: &str) -> Result<Vec<u8>> {
    let guest_path = format!("/bin/{PROGRAM}");
    let mut argv = vec![guest_path.clone()];
    if unit == "ns" {
        argv.push("--ns".into());
    }
    argv.push(rounds.to_string());
    file_system(kernel, &argv, &[(guest_path, program)])
}

/// A file system with the kernel's symbols, the files given (all executable) and the first program's arguments.
pub fn file_system(kernel: &Path, argv: &[String], files: &[(String, &[u8])]) -> Result<Vec<u8>> {
    let image = std::fs::read(kernel).with_context(|| format!("reading {}", kernel.display()))?;
    let mut fs = Initramfs::new();
    fs.init(argv, &ENVIRONMENT)?;
    fs.file(".tollgate/kallsyms", 0o400, kallsyms::from_elf(&image)?.as_bytes())?;
    for (path, contents) in files {
        fs.file(path, 0o755, contents)?;
    }
    fs.finish()
}

fn half(
    plan: &Plan,
    key: RowKey,
    events: bool,
    kernel: &Path,
    fs: &[u8],
    dir: &Path,
    cancel: &AtomicBool,
) -> Result<Half> {
    let cmdline = key.cmdline(Cgroup::User);
    let load = Load {
        kernel,
        initramfs: fs,
        cmdline: &cmdline,
    };
    let boot = succeeded(qemu::boot(&plan.machine, &load, dir, None, cancel)?)?;
    if events {
        return Ok(Half::Events(row_events(&boot.control.events)?, boot.control.counts));
    }
    let measured = Measured::parse(&String::from_utf8_lossy(&boot.output))?;
    ensure!(
        measured.rounds == plan.rounds,
        "mqtest made {} rounds, not {}",
        measured.rounds,
        plan.rounds
    );
    Ok(Half::Measured(measured, boot.control.first_user_tsc))
}

/// The boot, if all was in order and its program exited with 0.
pub fn succeeded(boot: Boot) -> Result<Boot> {
    let boot = boot.in_order()?;
    let how = match boot.control.end {
        Some(ProgramEnd::Code(0)) => return Ok(boot),
        Some(ProgramEnd::Code(code)) => format!("its program exited with {code}"),
        Some(ProgramEnd::Signal(signal)) => format!("its program was killed by {}", signal_name(signal)),
        None => "its program's end is unknown".into(),
    };
    Err(Failed {
        line: how,
        detail: boot.tail(),
        status: KERNEL_FAILED,
    }
    .into())
}

/// Events per call out of the kernel's totals, by the names of the system calls below the library's functions.
fn row_events(events: &BTreeMap<String, Events>) -> Result<RowEvents> {
    let call = |name: &str| {
        events
            .get(name)
            .and_then(PerCall::of)
            .with_context(|| format!("the instrumented kernel counted no {name}"))
    };
    Ok(RowEvents {
        rx: call("mq_timedreceive")?,
        tx: call("mq_timedsend")?,
        getppid: call("getppid")?,
    })
}
