//! The `tollgate` command: its options, and what happens in which order. The work is the library's.
#![forbid(unsafe_code)]

mod commands;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use commands::explain::{self, Explain};
use commands::msg::{self, Msg};
use commands::verify::{self, Verify};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tollgate::build::Guest;
use tollgate::console::{ProgramEnd, signal_name};
use tollgate::counters::Counters;
use tollgate::experiment::{self, Plan};
use tollgate::failure::{self, KERNEL_FAILED, Usage};
use tollgate::fuzz::{self, Find};
use tollgate::model::{Cgroup, Model, RowKey, cmdline};
use tollgate::preflight::{self, Ready};
use tollgate::process;
use tollgate::program::{Program, read_file};
use tollgate::progress::Progress;
use tollgate::qemu::{self, Accel, Load, Machine};
use tollgate::{json, messages, races, table};

/// What one message costs under each design of kernel memory accounting.
///
/// Builds the Tollgate kernel and its programs, boots the kernel under QEMU once for each accounting model, with and
/// without the message cache, and prints the table of the regression thread: minimum, average and maximum of mq_receive
/// (RX) and mq_send (TX), and getppid as the control. By default QEMU counts instructions: two runs of one commit print
/// the same bytes.
///
/// Exit status: 0; 1 for an error; 2 for a mistake on this command line; 124 if a boot passed its time limit; 125 if the
/// kernel failed; 130 on an interrupt.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    machine: MachineOptions,

    /// Also write the results to FILE, as JSON
    ///
    /// Every figure of the tables with its unit, the events, the modelled times, the published figures, and the
    /// versions the run was made with.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Rounds of the measuring program in each boot
    ///
    /// One round is one mq_send, one mq_receive and one getppid. The instrumented kernel runs at most 10000.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rounds: u64,

    /// Accounting models to run, separated by commas
    ///
    /// Known: off, page, object, task-stock, local-lock, scoped. Variations refer to 'page', or to the first row where
    /// 'page' is not among them.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "off,page,object,task-stock,local-lock,scoped"
    )]
    models: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(Explain),
    Verify(Verify),
    Exec(Exec),
    Fuzz(Fuzz),
    Races(Races),
    Msg(Msg),
    Image(Image),
}

/// Show what unsafe per-CPU counters lose to an interrupt, and that the safe ones do not
///
/// Boots the kernel once. Each unsafe add runs with an interrupt before the instruction where it is weak; each safe add with
/// one before each of its instructions in turn. Exit status 0 if every unsafe add was wrong and every safe one right.
#[derive(Debug, Args)]
struct Races {
    #[command(flatten)]
    machine: MachineOptions,
}

/// Make random calls until the kernel falls, or does not
///
/// Runs the program `fuzz` on a kernel with its own checks on. Where the kernel fails, hangs or leaks, prints the seed and
/// makes the failure as small as it can, and keeps it as a file. Exit status: 0 where the kernel survived, 125 where not.
#[derive(Debug, Args)]
struct Fuzz {
    #[command(flatten)]
    machine: MachineOptions,

    /// Where the random numbers begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// About how many calls
    #[arg(long, value_name = "M", default_value_t = 500_000)]
    calls: u64,

    /// Threads that make calls at the same time, 1 to 8 [default: one a CPU, at most 8]
    #[arg(long, value_name = "N")]
    threads: Option<u64>,

    /// Make the calls that a file says, as an earlier failure was kept
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// Where failures are kept [default: the folder fuzz in cargo's target folder]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Write a disk image that a BIOS machine boots (needs `cargo run --features image`)
///
/// The image holds the kernel, a boot loader, and mqtest as the first program, which prints its lines on the first serial
/// port (115200 baud). Try it with: qemu-system-x86_64 -M q35 -cpu max -drive format=raw,file=OUT -serial stdio
///
/// Building the boot loader takes minutes the first time, and rustup's components rust-src and llvm-tools.
#[derive(Debug, Args)]
struct Image {
    /// The file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,
}

/// Run one static x86-64 Linux program in the guest
///
/// The program becomes the guest's first process, as /bin/NAME. What it prints goes to standard output, byte for byte;
/// its standard input is empty. Exit status: the program's; 128 + N if signal N killed it; 124 if the time limit passed;
/// 125 if the kernel failed.
#[derive(Debug, Args)]
struct Exec {
    #[command(flatten)]
    machine: MachineOptions,

    /// Cgroup the program runs in: user (/u, charged) or root (not charged)
    #[arg(long, value_name = "user|root", default_value = "user")]
    cgroup: String,

    /// Accounting model of the kernel: off, page, object, task-stock, local-lock or scoped
    #[arg(long, value_name = "MODEL", default_value = "scoped")]
    accounting: String,

    /// Message cache of the kernel: on or off
    #[arg(long, value_name = "on|off", default_value = "off")]
    msgcache: String,

    /// Counters of the messages and bytes in System V queues: atomic, batch=N, batch-irq=N, local or local-irq
    #[arg(long, value_name = "VARIANT", default_value = "local")]
    counters: String,

    /// Put a file of the host into the guest, at GUEST or at /NAME; can be given again
    #[arg(long, value_name = "HOST[:GUEST]")]
    file: Vec<String>,

    /// Show the kernel's log on standard error when the program has ended
    #[arg(long)]
    log: bool,

    /// The program, a static ELF file (gcc -static), and its arguments: all that follows is the program's
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

/// The machine that QEMU makes.
#[derive(Debug, Args)]
struct MachineOptions {
    /// How QEMU executes: tcg-icount, tcg, kvm or auto
    ///
    /// tcg-icount: software, one instruction is one tick of the clock; repeatable, figures in instructions.
    /// tcg: software at full speed, figures in nanoseconds of the host's clock.
    /// kvm: the processor itself, figures in nanoseconds.
    /// auto: kvm if a trial boot succeeds, else tcg-icount (said on standard error).
    #[arg(long, value_name = "HOW", default_value = "tcg-icount")]
    accel: String,

    /// Virtual CPUs
    ///
    /// With more than one, tcg-icount's clock counts the instructions of all of them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    cpus: u32,

    /// Fail where one of the virtual CPUs does not run, instead of going on with the others
    #[arg(long)]
    all_cpus: bool,

    /// Memory of the guest in MiB, at least 32
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    mem: u32,

    /// Wall-clock limit of one boot in seconds [default: 300; 60 for exec]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// The qemu-system-x86_64 to use [default: the one in PATH]
    #[arg(long, value_name = "PATH", env = "TOLLGATE_QEMU")]
    qemu: Option<PathBuf>,
}

/// An execution to use as asked, or to be found out.
enum Wanted {
    This(Accel),
    Auto,
}

impl MachineOptions {
    fn wanted(&self) -> Result<Wanted> {
        Ok(match self.accel.as_str() {
            "tcg-icount" => Wanted::This(Accel::Icount),
            "tcg" => Wanted::This(Accel::Tcg),
            "kvm" => Wanted::This(Accel::Kvm),
            "auto" => Wanted::Auto,
            other => {
                return Err(Usage(format!("unknown --accel '{other}': tcg-icount, tcg, kvm or auto")).into());
            }
        })
    }

    /// The machine, checked, as far as it is known before QEMU is found and `auto` decided.
    fn machine(&self, default_timeout: u64) -> Result<(Machine, bool)> {
        let (accel, auto) = match self.wanted()? {
            Wanted::This(accel) => (accel, false),
            Wanted::Auto => (Accel::Icount, true),
        };
        let machine = Machine {
            qemu: self.qemu.clone().unwrap_or_default(),
            accel,
            cpus: self.cpus,
            mem: self.mem,
            timeout: Duration::from_secs(self.timeout.unwrap_or(default_timeout)),
        };
        machine.check()?;
        Ok((machine, auto))
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Without the handler a Ctrl-C would leave the temporary folder behind; with it every boot ends and cleans up.
    let handled = ctrlc::set_handler(process::interrupt).context("installing the interrupt handler");
    let done = handled.and_then(|()| match &cli.command {
        Some(Command::Exec(exec)) => run_exec(exec),
        Some(Command::Explain(options)) => explain::run(options),
        Some(Command::Verify(verify)) => verify::run(verify),
        Some(Command::Races(races)) => show_races(races),
        Some(Command::Msg(options)) => msg::run(options),
        Some(Command::Fuzz(fuzz)) => run_fuzz(fuzz),
        Some(Command::Image(image)) => write_image(image),
        None => run_experiment(&cli),
    });
    match done {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            // A reader that went away (`tollgate | head`) wanted no more; there is nothing to report.
            if error.chain().any(|c| {
                c.downcast_ref::<std::io::Error>()
                    .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            }) {
                return ExitCode::from(1);
            }
            let mut stderr = std::io::stderr().lock();
            for line in failure::detail(&error) {
                let _ = writeln!(stderr, "{line}");
            }
            let _ = writeln!(stderr, "tollgate: {}", failure::one_line(&error));
            ExitCode::from(u8::try_from(failure::status(&error)).unwrap_or(1))
        }
    }
}

/// The run's temporary folder, removed when it is dropped.
fn temporary_folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("tollgate-")
        .tempdir()
        .context("making a temporary folder")
}

/// The default command: the whole experiment, its tables on standard output.
fn run_experiment(cli: &Cli) -> Result<i32> {
    let (machine, auto) = cli.machine.machine(300)?;
    let models = Model::parse_list(&cli.models)?;
    if cli.rounds == 0 || cli.rounds > u32::MAX.into() {
        return Err(Usage(format!("--rounds {}: from 1 to {}", cli.rounds, u32::MAX)).into());
    }
    if let Some(path) = &cli.json {
        // Before a minute of work, not after it.
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.with_context(|| format!("--json {}: cannot write it", path.display()))?;
    }
    let ready = preflight::check(cli.machine.qemu.as_deref())?;
    let mut plan = Plan {
        machine,
        models,
        rounds: cli.rounds,
    };
    plan.machine.qemu.clone_from(&ready.qemu);

    let progress = Progress::new(Guest::steps(true) + experiment::steps(&plan) + messages::steps());
    let guest = Guest::build(&ready.toolchain, true, &progress)?;
    let dir = temporary_folder()?;
    if auto {
        plan.machine.accel = choose(&plan.machine, &guest, dir.path(), &progress)?;
    }
    let rows = experiment::run(&plan, &guest, dir.path(), &progress)?;
    let message_rows = messages::run(&plan.machine, &guest, dir.path(), &progress)?;
    drop(progress);

    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(table::render(&plan, &rows).as_bytes())
        .and_then(|()| writeln!(stdout, "\n{}", messages::render(&message_rows, plan.unit())))
        .and_then(|()| stdout.flush())
        .context("printing the tables")?;
    if let Some(path) = &cli.json {
        write_json(path, &plan, &ready, &rows)?;
    }
    Ok(0)
}

fn write_json(path: &Path, plan: &Plan, ready: &Ready, rows: &[experiment::Row]) -> Result<()> {
    let mut text = serde_json::to_string_pretty(&json::document(json::meta(plan, ready)?, plan, rows))?;
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// `--accel auto`: KVM if the measuring program runs in a trial boot. /dev/kvm may be there and not work.
fn choose(machine: &Machine, guest: &Guest, dir: &Path, progress: &Progress) -> Result<Accel> {
    progress.doing("trying KVM");
    let trial = Machine {
        accel: Accel::Kvm,
        timeout: Duration::from_secs(10).min(machine.timeout),
        ..machine.clone()
    };
    let argv = [format!("/bin/{}", experiment::PROGRAM), "1".into()];
    let program = std::fs::read(guest.program(experiment::PROGRAM)?)?;
    let fs = experiment::file_system(&guest.kernel, &argv, &[(argv[0].clone(), &program)])?;
    let cmdline = RowKey {
        model: Model::Scoped,
        msgcache: false,
    }
    .cmdline(Cgroup::User);
    let load = Load {
        kernel: &guest.kernel,
        initramfs: &fs,
        cmdline: &cmdline,
    };
    let tried = qemu::boot(&trial, &load, dir, None, &AtomicBool::new(false)).and_then(experiment::succeeded);
    match tried {
        Ok(_) => {
            eprintln!("tollgate: --accel auto: KVM works and is used");
            Ok(Accel::Kvm)
        }
        Err(error) if process::interrupted() => Err(error),
        Err(error) => {
            eprintln!(
                "tollgate: --accel auto: falling back to tcg-icount: {}",
                failure::one_line(&error)
            );
            Ok(Accel::Icount)
        }
    }
}

/// `exec`: one program, its output and its exit status.
fn run_exec(exec: &Exec) -> Result<i32> {
    let (mut machine, auto) = exec.machine.machine(60)?;
    let accounting = Model::parse(&exec.accounting)?;
    let cgroup = Cgroup::parse(&exec.cgroup)?;
    let msgcache = match exec.msgcache.as_str() {
        "on" => true,
        "off" => false,
        other => return Err(Usage(format!("unknown --msgcache '{other}': on or off")).into()),
    };
    let counters = Counters::parse(&exec.counters)?;
    let (path, arguments) = exec.command.split_first().context("no program")?;
    let program = Program::load(Path::new(path))?;
    let files = exec
        .file
        .iter()
        .map(|spec| extra_file(spec))
        .collect::<Result<Vec<_>>>()?;
    let ready = preflight::check(exec.machine.qemu.as_deref())?;
    machine.qemu.clone_from(&ready.qemu);

    let progress = Progress::quiet_unless_terminal(Guest::steps(false));
    let guest = Guest::build(&ready.toolchain, false, &progress)?;
    let dir = temporary_folder()?;
    if auto {
        machine.accel = choose(&machine, &guest, dir.path(), &progress)?;
    }
    drop(progress);

    let guest_path = format!("/bin/{}", program.name);
    let mut argv = vec![guest_path.clone()];
    argv.extend(arguments.iter().cloned());
    let mut all: Vec<(String, &[u8])> = vec![(guest_path, &program.image)];
    all.extend(files.iter().map(|(path, contents)| (path.clone(), contents.as_slice())));
    let fs = experiment::file_system(&guest.kernel, &argv, &all)?;
    let mut cmdline = cmdline(accounting, msgcache, cgroup);
    cmdline.push_str(&format!(" counters={counters}"));
    if exec.machine.all_cpus {
        cmdline.push_str(" cpus=all");
    }
    let load = Load {
        kernel: &guest.kernel,
        initramfs: &fs,
        cmdline: &cmdline,
    };
    let mut stdout = std::io::stdout().lock();
    let boot = qemu::boot(&machine, &load, dir.path(), Some(&mut stdout), &AtomicBool::new(false))?;
    drop(stdout);
    let boot = boot.in_order().with_context(|| path.clone())?;
    if let Some(ran) = boot.control.cpus()
        && ran < machine.cpus
    {
        eprintln!("tollgate: {ran} of {} CPUs ran: --log tells why", machine.cpus);
    }
    if exec.log {
        for line in &boot.control.log {
            eprintln!("{line}");
        }
    }
    Ok(match boot.control.end {
        Some(ProgramEnd::Code(code)) => code,
        Some(ProgramEnd::Signal(signal)) => {
            eprintln!("tollgate: {}: killed by {}", path, signal_name(signal));
            128 + signal
        }
        None => KERNEL_FAILED,
    })
}

/// `races`: one boot that shows them.
fn show_races(options: &Races) -> Result<i32> {
    let (mut machine, auto) = options.machine.machine(60)?;
    let ready = preflight::check(options.machine.qemu.as_deref())?;
    machine.qemu.clone_from(&ready.qemu);
    let progress = Progress::new(Guest::steps(false));
    let guest = Guest::build(&ready.toolchain, false, &progress)?;
    let dir = temporary_folder()?;
    if auto {
        machine.accel = choose(&machine, &guest, dir.path(), &progress)?;
    }
    let fs = experiment::file_system(&guest.kernel, &["races".into()], &[])?;
    let load = Load {
        kernel: &guest.kernel,
        initramfs: &fs,
        cmdline: races::CMDLINE,
    };
    let boot = qemu::boot(&machine, &load, dir.path(), None, &AtomicBool::new(false))?;
    drop(progress);
    let shown = match races::parse(&boot.control.races) {
        Ok(shown) => shown,
        // The kernel's own failure says more.
        Err(error) => return boot.in_order().and(Err(error)),
    };
    std::io::stdout().lock().write_all(races::render(&shown).as_bytes())?;
    Ok(i32::from(!races::as_expected(&shown)))
}

/// `fuzz`: one seed, or one kept failure.
fn run_fuzz(fuzz: &Fuzz) -> Result<i32> {
    let (mut machine, _) = fuzz.machine.machine(600)?;
    let find = match &fuzz.replay {
        Some(file) => Find::read(file)?,
        None => {
            let threads = fuzz.threads.unwrap_or(machine.cpus.min(8).into());
            Find::new(fuzz.seed, fuzz.calls, threads, machine.cpus)?
        }
    };
    let ready = preflight::check(fuzz.machine.qemu.as_deref())?;
    machine.qemu.clone_from(&ready.qemu);
    let progress = Progress::new(Guest::steps(false) + 1);
    let (kernel, program) = fuzz::build(&ready.toolchain, &progress)?;
    let dir = temporary_folder()?;
    let guests = fuzz::Guests {
        machine: &machine,
        kernel: &kernel,
        program: &program,
        dir: dir.path(),
    };
    progress.doing(&format!("{find}"));
    let error = match guests.summary(&find) {
        Ok(summary) => {
            drop(progress);
            println!("{find}\n{summary}: the kernel survived");
            return Ok(0);
        }
        Err(error) if process::interrupted() => return Err(error),
        Err(error) => error,
    };
    for line in failure::detail(&error) {
        eprintln!("{line}");
    }
    let failure = failure::one_line(&error);
    eprintln!("tollgate: {find}: {failure}");
    if machine.accel != Accel::Icount {
        eprintln!("tollgate: not made smaller: without --accel tcg-icount no two runs are alike");
        return Ok(KERNEL_FAILED);
    }
    let small = fuzz::minimise(&guests, find, &progress)?;
    let calls = guests.shown(&small)?;
    drop(progress);
    let folder = match &fuzz.keep {
        Some(folder) => folder.clone(),
        None => tollgate::build::target_dir()?.join("fuzz"),
    };
    let file = fuzz::keep(&folder, &small, &failure, &calls)?;
    eprintln!("tollgate: kept in {}: --replay {0} makes it again", file.display());
    Ok(KERNEL_FAILED)
}

/// `image`: a disk image.
#[cfg(feature = "image")]
fn write_image(image: &Image) -> Result<i32> {
    // Before minutes of work, not after them.
    let components = tollgate::image::Components::find()?;
    let file = std::fs::File::options().append(true).create(true).open(&image.out);
    file.with_context(|| format!("{}: cannot be written", image.out.display()))?;
    let ready = preflight::check(None)?;
    let progress = Progress::new(Guest::steps(false) + tollgate::image::STEPS);
    let guest = Guest::build(&ready.toolchain, false, &progress)?;
    let dir = temporary_folder()?;
    tollgate::image::write(&components, &guest, &image.out, dir.path(), &progress)?;
    drop(progress);
    println!(
        "{}: boots on a BIOS machine; the first serial port tells",
        image.out.display()
    );
    Ok(0)
}

/// `image`, in a build without the feature.
#[cfg(not(feature = "image"))]
fn write_image(image: &Image) -> Result<i32> {
    let out = image.out.display();
    Err(Usage(format!(
        "this build cannot write images: cargo run --features image -- image {out}"
    ))
    .into())
}

/// `HOST[:GUEST]`: the guest's path and the contents.
fn extra_file(spec: &str) -> Result<(String, Vec<u8>)> {
    let (host, guest) = match spec.rsplit_once(':') {
        Some((host, guest)) => (Path::new(host), guest.to_owned()),
        None => {
            let host = Path::new(spec);
            let name = host
                .file_name()
                .and_then(|n| n.to_str())
                .ok_or_else(|| Usage(format!("--file {spec}: no file name")))?;
            (host, format!("/{name}"))
        }
    };
    let contents = read_file(host).context("--file")?;
    Ok((guest, contents))
}
