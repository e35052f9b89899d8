//! `msg`: the scaling table of System V messages.

use crate::temporary_folder;
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use tollgate::build::{self, Guest};
use tollgate::failure::Usage;
use tollgate::progress::Progress;
use tollgate::qemu::{Accel, Machine};
use tollgate::{latency, messages, preflight, scaling, stress};

/// Show what per-CPU counters gain System V messages, by the number of pairs that pass them
///
/// Four parts: messages a second in the machine, whose virtual CPUs run at the same time, by the clock; the mechanism alone on
/// threads of this host; a model over what that measured, up to 160 CPUs; and the cost of a message beside other queues, in
/// instructions. All but the last depend on this host and on what else it does.
#[derive(Debug, Args)]
pub struct Msg {
    /// How QEMU executes for the first part: tcg or kvm
    #[arg(long, value_name = "HOW", default_value = "tcg")]
    accel: String,

    /// Virtual CPUs of the first part
    #[arg(long, value_name = "N", default_value_t = 2)]
    cpus: u32,

    /// Numbers of pairs, separated by commas
    #[arg(long, value_name = "LIST", default_value = "1,2,4,8")]
    pairs: String,

    /// Runs of each; those of the variants take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,

    /// Milliseconds that the pairs of a run pass messages
    #[arg(long, value_name = "N", default_value_t = 500)]
    milliseconds: u64,

    /// Pairs of threads instead of processes
    #[arg(long)]
    threads: bool,

    /// The qemu-system-x86_64 to use [default: the one in PATH]
    #[arg(long, value_name = "PATH", env = "TOLLGATE_QEMU")]
    qemu: Option<PathBuf>,
}

/// Runs all four parts and prints them.
pub fn run(options: &Msg) -> Result<i32> {
    let accel = match options.accel.as_str() {
        "tcg" => Accel::Tcg,
        "kvm" => Accel::Kvm,
        other => return Err(Usage(format!("unknown --accel '{other}': tcg or kvm")).into()),
    };
    let number = |text: &str| {
        let number = text.trim().parse().ok().filter(|pairs| (1..=256).contains(pairs));
        number.ok_or_else(|| Usage(format!("--pairs {}: numbers from 1 to 256", options.pairs)))
    };
    let pairs = options.pairs.split(',').map(number).collect::<Result<Vec<u32>, _>>()?;
    if options.runs == 0 || !(1..=60_000).contains(&options.milliseconds) {
        return Err(Usage("--runs: at least 1; --milliseconds: from 1 to 60000".into()).into());
    }
    let ready = preflight::check(options.qemu.as_deref())?;
    let machine = Machine {
        qemu: ready.qemu.clone(),
        accel,
        cpus: options.cpus,
        mem: 256,
        timeout: Duration::from_secs(120),
    };
    machine.check()?;
    let boots = pairs.len() * options.runs * scaling::VARIANTS.len() + messages::OTHERS.len();
    let progress = Progress::new(Guest::steps(false) + boots as u64 + 1);
    let guest = Guest::build(&ready.toolchain, false, &progress)?;
    let dir = temporary_folder()?;
    let plan = stress::Plan {
        pairs,
        runs: options.runs,
        milliseconds: options.milliseconds,
        threads: options.threads,
    };
    let runs = plan.run(&machine, &guest, dir.path(), &progress)?;
    let native = scaling::Native::parse(&build::bench(options.runs, &progress)?)?;
    let counting = Machine {
        accel: Accel::Icount,
        cpus: 1,
        ..machine
    };
    let flat = messages::flat_line(&counting, &guest, dir.path(), &progress)?;
    drop(progress);
    let own = flat
        .first()
        .map_or(0.0, |cost| (cost.send + cost.receive) / latency::CLOCK_GHZ);
    let model = native.model(own).map_or(String::new(), |model| model.render());
    let host = std::thread::available_parallelism().map_or(1, usize::from);
    let text = format!(
        "Pairs of a sender and a receiver, {} ms, 4-byte messages, {} virtual CPUs on {host} of the host's ({}):\n{}\n\
         The mechanism alone on threads of this host, each with a queue of its own:\n{}\n{model}\n{}",
        options.milliseconds,
        options.cpus,
        options.accel,
        scaling::gains(&runs, "pairs"),
        scaling::gains(&native.pairs, "CPUs"),
        messages::render_flat_line(&flat)
    );
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}
