//! The C programs of programs/, compiled when they are first needed and when they have changed.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// A C program and how it is compiled and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// Its source file in programs/, without `.c`.
    pub source: &'static str,
    /// Options for gcc besides [`OPTIONS`]; a second `-O` overrides the first.
    pub options: &'static [&'static str],
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// Virtual CPUs of the machine that it is asked on.
    pub cpus: u32,
}

/// What every program is compiled with: static, so that it needs no file but itself.
pub const OPTIONS: [&str; 5] = ["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"];

/// How a program is linked unless an option of its own begins so.
const STATIC: &str = "-static";

impl Program {
    /// A program without options or arguments of its own.
    pub const fn new(source: &'static str) -> Program {
        Program {
            source,
            options: &[],
            arguments: &[],
            cpus: 1,
        }
    }

    /// The same with options for gcc.
    pub const fn options(self, options: &'static [&'static str]) -> Program {
        Program { options, ..self }
    }

    /// The same with arguments.
    pub const fn arguments(self, arguments: &'static [&'static str]) -> Program {
        Program { arguments, ..self }
    }

    /// The same on a machine with several CPUs.
    pub const fn cpus(self, cpus: u32) -> Program {
        Program { cpus, ..self }
    }

    /// The name of the executable, different for different options.
    fn name(&self) -> String {
        let mut name = self.source.to_owned();
        for option in self.options {
            name.extend(option.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
        }
        name
    }

    /// Compiles the program unless that was done since its sources changed. Returns the executable.
    ///
    /// Errors: no gcc, or its messages.
    pub fn compile(&self) -> Result<PathBuf> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let source = sources.join(self.source).with_extension("c");
        let folder = tollgate::build::target_dir()?.join("tmp/programs");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let executable = folder.join(self.name());
        let newest = newest(&sources)?;
        if modified(&executable).is_ok_and(|made| made > newest) {
            return Ok(executable);
        }
        // Another process may be compiling the same: each into a folder of its own, and the last one to finish stays.
        let scratch = tempfile::tempdir_in(&folder)?;
        let made = scratch.path().join(self.source);
        let linked = self.options.iter().any(|option| option.starts_with(STATIC));
        let linking = (!linked).then_some(STATIC);
        let output = Command::new("gcc")
            .args(OPTIONS)
            .args(linking)
            .args(self.options)
            .arg("-o")
            .args([&made, &source])
            .output()
            .context("gcc: cannot be run: the booted tests compile C programs: install gcc and libc6-dev")?;
        ensure!(
            output.status.success(),
            "{}:\n{}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        fs::rename(&made, &executable)?;
        Ok(executable)
    }
}

fn modified(path: &Path) -> Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}

/// When any file of the folder was last changed: a header counts for every program.
fn newest(folder: &Path) -> Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        newest = newest.max(modified(&entry?.path())?);
    }
    Ok(newest)
}
