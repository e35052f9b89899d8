//! Boots of msgstress under each variant of the counters, by turns: what the host does to one run it does to its neighbours.

use crate::build::Guest;
use crate::experiment;
use crate::model::{Cgroup, Model, cmdline};
use crate::progress::Progress;
use crate::qemu::{self, Load, Machine};
use crate::scaling::{self, Runs};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The program: pairs of tasks that pass messages.
pub const PROGRAM: &str = "msgstress";

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of pairs.
    pub pairs: Vec<u32>,
    /// Runs of each number and variant.
    pub runs: usize,
    /// How long a run passes messages.
    pub milliseconds: u64,
    /// Threads instead of processes.
    pub threads: bool,
}

impl Plan {
    /// Runs it all. Errors: a boot that fails, or whose machine has fewer CPUs than it was to have.
    pub fn run(&self, machine: &Machine, guest: &Guest, dir: &Path, progress: &Progress) -> Result<Vec<Runs>> {
        let program = std::fs::read(guest.program(PROGRAM)?).context("reading msgstress")?;
        let mut all = Vec::new();
        for &pairs in &self.pairs {
            let mut argv = vec![format!("/bin/{PROGRAM}"), "--pairs".into(), pairs.to_string()];
            argv.extend(["--milliseconds".into(), self.milliseconds.to_string()]);
            argv.extend(self.threads.then(|| "--threads".to_owned()));
            let fs = experiment::file_system(&guest.kernel, &argv, &[(argv[0].clone(), &program)])?;
            let mut runs = scaling::VARIANTS.map(|counters| Runs {
                pairs,
                counters,
                rates: Vec::new(),
            });
            for _ in 0..self.runs {
                for run in &mut runs {
                    progress.doing(&format!("{pairs} pairs, counters={}", run.counters));
                    let words = cmdline(Model::Scoped, false, Cgroup::User);
                    let words = format!("{words} counters={} cpus=all", run.counters);
                    let load = Load {
                        kernel: &guest.kernel,
                        initramfs: &fs,
                        cmdline: &words,
                    };
                    let boot = qemu::boot(machine, &load, dir, None, &AtomicBool::new(false));
                    let boot = boot.and_then(experiment::succeeded)?;
                    run.rates.push(scaling::rate(&String::from_utf8_lossy(&boot.output))?);
                    progress.step();
                }
            }
            all.extend(runs);
        }
        Ok(all)
    }
}
