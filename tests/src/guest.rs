//! One kernel for all tests of a process, built once, and a boot of it with one program.

use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tollgate::build::Guest;
use tollgate::console::{Control, ProgramEnd};
use tollgate::model::{Cgroup, Model, cmdline};
use tollgate::preflight;
use tollgate::progress::Progress;
use tollgate::qemu::{self, Accel, Load, Machine};
use tollgate::{experiment, failure};

/// Wall-clock limit of one boot: far above what any takes, so that only a hang meets it.
const LIMIT: Duration = Duration::from_secs(180);

/// The kernel's command line of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The accounting model.
    pub model: Model,
    /// Whether the message cache is on.
    pub msgcache: bool,
    /// The cgroup that the program runs in.
    pub cgroup: Cgroup,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Whether they run at the same time, each in a thread of the host's: then no two runs are alike. Without, instructions
    /// are counted and the CPUs take turns.
    pub parallel: bool,
    /// Whether the kernel has its own checks on: lock order, arithmetic, all assertions.
    pub checked: bool,
}

impl Setting {
    /// The kernel's own defaults.
    pub const DEFAULT: Setting = Setting {
        model: Model::Scoped,
        msgcache: false,
        cgroup: Cgroup::User,
        cpus: 1,
        parallel: false,
        checked: false,
    };
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What came of running a program.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it printed.
    pub output: Vec<u8>,
    /// How it ended.
    pub end: End,
    /// What the kernel said; of another kernel than Tollgate, nothing.
    pub control: Control,
}

impl Run {
    /// The output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

/// What every test of this process boots.
pub struct Built {
    /// Kernel and programs.
    pub guest: Guest,
    /// The machine that is made of QEMU.
    pub machine: Machine,
}

/// Builds kernel and programs at the first call. Errors: what is missing on this machine, or the compiler's messages.
pub fn built() -> Result<&'static Built> {
    static BUILT: OnceLock<std::result::Result<Built, String>> = OnceLock::new();
    let build = || -> Result<Built> {
        let ready = preflight::check(None)?;
        let guest = Guest::build(&ready.toolchain, true, &Progress::Silent)?;
        let machine = Machine {
            qemu: ready.qemu,
            accel: Accel::Icount,
            cpus: 1,
            mem: 256,
            timeout: LIMIT,
        };
        Ok(Built { guest, machine })
    };
    BUILT
        .get_or_init(|| build().map_err(|e| in_full(&e)))
        .as_ref()
        .map_err(|e| anyhow!("{e}"))
}

/// Builds the kernel with its own checks on at the first call. Errors: as for [`built`].
pub fn checked() -> Result<&'static Path> {
    static CHECKED: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let build = || Guest::build_checked(&preflight::check(None)?.toolchain, &Progress::Silent);
    CHECKED
        .get_or_init(|| build().map_err(|e| in_full(&e)))
        .as_deref()
        .map_err(|e| anyhow!("{e}"))
}

/// An error with the lines that it would show before its own.
pub fn in_full(error: &anyhow::Error) -> String {
    let mut text = failure::detail(error).join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text + &failure::one_line(error)
}

/// Runs an executable to its end: on Tollgate, or by `TOLLGATE_TESTS_RUNNER`.
///
/// Errors: anything but an orderly end of the kernel, leaks included.
pub fn run(executable: &Path, arguments: &[&str], setting: Setting) -> Result<Run> {
    match std::env::var("TOLLGATE_TESTS_RUNNER") {
        Ok(runner) if !runner.trim().is_empty() => run_by(&runner, executable, arguments),
        _ => boot(executable, arguments, setting),
    }
}

/// Whether the programs run on Tollgate: what only Tollgate has cannot be asked of another kernel.
pub fn on_tollgate() -> bool {
    std::env::var("TOLLGATE_TESTS_RUNNER").map_or(true, |runner| runner.trim().is_empty())
}

fn boot(executable: &Path, arguments: &[&str], setting: Setting) -> Result<Run> {
    let built = built()?;
    let name = executable
        .file_name()
        .and_then(|n| n.to_str())
        .context("the program's name")?;
    let image = std::fs::read(executable).with_context(|| executable.display().to_string())?;
    let in_guest = format!("/bin/{name}");
    let mut argv = vec![in_guest.clone()];
    argv.extend(arguments.iter().map(|&a| a.to_owned()));
    let kernel = if setting.checked {
        checked()?
    } else {
        &built.guest.kernel
    };
    let files = experiment::file_system(kernel, &argv, &[(in_guest, &image)])?;
    let cmdline = cmdline(setting.model, setting.msgcache, setting.cgroup);
    let load = Load {
        kernel,
        initramfs: &files,
        cmdline: &cmdline,
    };
    let folder = tempfile::tempdir()?;
    let machine = Machine {
        accel: if setting.parallel { Accel::Tcg } else { Accel::Icount },
        cpus: setting.cpus,
        ..built.machine.clone()
    };
    let boot = qemu::boot(&machine, &load, folder.path(), None, &AtomicBool::new(false))?.in_order()?;
    let end = match boot.control.end {
        Some(ProgramEnd::Code(code)) => End::Code(code),
        Some(ProgramEnd::Signal(signal)) => End::Signal(signal),
        None => return Err(anyhow!("the kernel did not say how the program ended")),
    };
    Ok(Run {
        output: boot.output,
        end,
        control: boot.control,
    })
}

fn run_by(runner: &str, executable: &Path, arguments: &[&str]) -> Result<Run> {
    let mut words = runner.split_whitespace().map(PathBuf::from);
    let mut command = Command::new(words.next().context("TOLLGATE_TESTS_RUNNER is empty")?);
    let output = command
        .args(words)
        .arg(executable)
        .args(arguments)
        .output()
        .with_context(|| runner.to_owned())?;
    let end = match (
        output.status.code(),
        std::os::unix::process::ExitStatusExt::signal(&output.status),
    ) {
        (_, Some(signal)) => End::Signal(signal),
        // A shell between says so of a program that a signal ended.
        (Some(code), None) if code > 128 && code < 128 + 65 => End::Signal(code - 128),
        (code, None) => End::Code(code.context("the runner's status")?),
    };
    Ok(Run {
        output: output.stdout,
        end,
        control: Control::default(),
    })
}
