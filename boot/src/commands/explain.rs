//! `explain`: where the instructions of one call go.

use crate::{MachineOptions, temporary_folder};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use tollgate::build::Guest;
use tollgate::explain::{self, CALLS};
use tollgate::failure::Usage;
use tollgate::model::{Model, RowKey};
use tollgate::preflight;
use tollgate::progress::Progress;
use tollgate::qemu::{Accel, OneByOne};

/// Say where the instructions of one call go, phase by phase
///
/// Boots the measured kernel under QEMU's execution log, takes one steady-state call and folds its instructions into
/// phases by the source they were compiled from. The sum is the experiment's minimum, to the instruction.
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    machine: MachineOptions,

    /// The call: mq_send, mq_receive or getppid
    #[arg(value_name = "CALL")]
    call: String,

    /// Accounting models, separated by commas
    #[arg(
        long,
        alias = "model",
        value_name = "LIST",
        default_value = "off,page,object,task-stock,local-lock,scoped"
    )]
    models: String,

    /// One more model to set beside them
    #[arg(long, value_name = "MODEL")]
    against: Option<String>,

    /// With the message cache as well
    #[arg(long)]
    cache: bool,

    /// Write the stacks to FILE, in the format of flame graphs
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,

    /// Draw the phases to FILE, as SVG: one bar a model
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs the command.
pub fn run(options: &Explain) -> Result<i32> {
    let (mut machine, auto) = options.machine.machine(300)?;
    if auto || machine.accel != Accel::Icount || machine.cpus != 1 {
        return Err(Usage("explain counts instructions: only --accel tcg-icount and one CPU make them".into()).into());
    }
    let Some(index) = CALLS.iter().position(|c| *c == options.call) else {
        let known = CALLS.join(", ");
        return Err(Usage(format!("unknown call '{}': the known ones are {known}", options.call)).into());
    };
    let mut models = Model::parse_list(&options.models)?;
    if let Some(against) = &options.against {
        let against = Model::parse(against)?;
        models.retain(|m| *m != against);
        models.push(against);
    }
    let mut keys = RowKey::rows(&models);
    keys.retain(|key| options.cache || !key.msgcache);
    for path in [&options.folded, &options.svg].into_iter().flatten() {
        // Before the work, not after it.
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.with_context(|| format!("{}: cannot write it", path.display()))?;
    }
    let ready = preflight::check(options.machine.qemu.as_deref())?;
    machine.qemu.clone_from(&ready.qemu);
    let one = OneByOne::of(&ready.qemu_version);

    let progress = Progress::new(Guest::steps(false) + keys.len() as u64);
    let guest = Guest::build(&ready.toolchain, false, &progress)?;
    let dir = temporary_folder()?;
    let mut columns = Vec::new();
    for key in keys {
        progress.doing(&format!("following {}", key.name()));
        let profiles = explain::run(&machine, one, &guest, key, dir.path())
            .with_context(|| format!("following {}", key.name()))?;
        columns.extend(profiles.into_iter().nth(index).map(|p| (key.name(), p)));
        progress.step();
    }
    drop(progress);
    print!("{}", explain::render(&options.call, &columns));
    if let Some(path) = &options.folded {
        let text: String = columns.iter().map(|(name, profile)| profile.folded(name)).collect();
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(path) = &options.svg {
        std::fs::write(path, explain::svg(&options.call, &columns))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(0)
}
