//! `verify`: do the figures repeat, and are they those of a recorded run?

use crate::{MachineOptions, temporary_folder};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use tollgate::baseline::{Baseline, Versions};
use tollgate::build::Guest;
use tollgate::experiment::{self, Plan};
use tollgate::failure::Usage;
use tollgate::figures::{self, Figures};
use tollgate::model::Model;
use tollgate::preflight;
use tollgate::progress::Progress;
use tollgate::qemu::Accel;

/// Check that the experiment's figures repeat, or that they are those of a recorded run
///
/// Runs the experiment twice and compares every figure: exit status 1 if one differs. With --baseline it runs once and
/// compares with FILE: exit status 1 if an instruction count has changed by more than 3 %, where FILE was recorded with
/// the same rustc and QEMU; under other versions changes are reported only.
#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    machine: MachineOptions,

    /// Compare with the run recorded in FILE
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Record this run in the baseline FILE
    ///
    /// Says what has changed, and writes FILE whatever that is.
    #[arg(long, requires = "baseline")]
    update: bool,

    /// Rounds of the measuring program in each boot
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rounds: u64,

    /// Accounting models to run, separated by commas
    #[arg(
        long,
        value_name = "LIST",
        default_value = "off,page,object,task-stock,local-lock,scoped"
    )]
    models: String,
}

/// `verify`: the experiment twice, or once beside a recorded run.
pub fn run(verify: &Verify) -> Result<i32> {
    let (machine, auto) = verify.machine.machine(300)?;
    if auto || machine.accel != Accel::Icount {
        return Err(Usage("verify compares counts: only --accel tcg-icount makes them".into()).into());
    }
    if verify.rounds == 0 || verify.rounds > u32::MAX.into() {
        return Err(Usage(format!("--rounds {}: from 1 to {}", verify.rounds, u32::MAX)).into());
    }
    let mut plan = Plan {
        machine,
        models: Model::parse_list(&verify.models)?,
        rounds: verify.rounds,
    };
    let ready = preflight::check(verify.machine.qemu.as_deref())?;
    plan.machine.qemu.clone_from(&ready.qemu);
    let this_run = |figures| -> Result<Baseline> { Ok(Baseline::new(Versions::of(&ready)?, &plan, figures)) };
    // What cannot be compared or written is said before a minute of work, not after it.
    let recorded = match &verify.baseline {
        Some(path) if !verify.update || path.exists() => Some(Baseline::read(path)?),
        _ => None,
    };
    if let Some(path) = verify.baseline.as_ref().filter(|_| verify.update) {
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.with_context(|| format!("--baseline {}: cannot write it", path.display()))?;
    } else if let Some(recorded) = &recorded {
        recorded.check(&this_run(Figures::default())?)?;
    }

    let times = if verify.baseline.is_some() { 1 } else { 2 };
    let progress = Progress::new(Guest::steps(true) + times * experiment::steps(&plan));
    let guest = Guest::build(&ready.toolchain, true, &progress)?;
    let dir = temporary_folder()?;
    let run = || experiment::run(&plan, &guest, dir.path(), &progress).map(|rows| Figures::of(&rows));
    let first = run()?;
    let Some(path) = &verify.baseline else {
        let differences = figures::compare(&first, &run()?);
        drop(progress);
        for difference in &differences {
            println!("differs: {}", difference.line());
        }
        match differences.len() {
            0 => println!("two runs, the same {} figures", first.0.len()),
            some => println!("{some} of {} figures differ between two runs", first.0.len()),
        }
        return Ok(i32::from(!differences.is_empty()));
    };
    drop(progress);
    let now = this_run(first)?;
    // An update replaces a record of other settings as well: then there is nothing to compare.
    let verdict = recorded.filter(|r| r.check(&now).is_ok()).map(|r| r.compare(&now));
    if let Some(verdict) = &verdict {
        print!("{}", verdict.text());
    }
    if verify.update {
        std::fs::write(path, now.text()?).with_context(|| format!("writing {}", path.display()))?;
        println!("{}: recorded", path.display());
        return Ok(0);
    }
    Ok(i32::from(verdict.is_some_and(|v| !v.passes())))
}
