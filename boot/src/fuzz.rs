//! The fuzzer: the program `fuzz` in the guest, and what is made of a kernel that it brings down.
//!
//! The kernel is the one with its own checks on. Under instruction counting a run is a function of its seed, also with
//! several CPUs, which take turns. So a failure can be made smaller by leaving things out and looking whether it stays:
//! first workers, by halves; then calls of the worker that is left, by ever smaller pieces. What remains is kept as a file
//! that [`Find::read`] reads.

use crate::build::Guest;
use crate::experiment;
use crate::failure::{self, Usage};
use crate::model::{Cgroup, Model, cmdline};
use crate::process::interrupted;
use crate::progress::Progress;
use crate::qemu::{self, Load, Machine};
use anyhow::{Context, Result, ensure};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The program's name.
pub const PROGRAM: &str = "fuzz";
/// Calls of one thread of a worker: the program's own constant.
const EACH: u64 = 250;
/// Boots that are spent on making a failure smaller.
const MOST_BOOTS: usize = 150;

/// What is made, or left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find {
    /// The seed.
    pub seed: u64,
    /// Threads of a worker, 1 to 8.
    pub threads: u64,
    /// Virtual CPUs.
    pub cpus: u32,
    /// The workers.
    pub workers: Range<u64>,
    /// The places of the calls that are made in each of them.
    pub calls: Vec<Range<u64>>,
}

impl Find {
    /// About `calls` calls. Errors: [`Usage`].
    pub fn new(seed: u64, calls: u64, threads: u64, cpus: u32) -> Result<Find> {
        if !(1..=8).contains(&threads) {
            return Err(Usage(format!("--threads {threads}: from 1 to 8")).into());
        }
        if calls == 0 {
            return Err(Usage("--calls 0: nothing to do".into()).into());
        }
        Ok(Find {
            seed,
            threads,
            cpus,
            workers: 0..calls.div_ceil(threads * EACH),
            calls: std::iter::once(0..threads * EACH).collect(),
        })
    }

    /// The program's arguments.
    fn arguments(&self, show: bool) -> Vec<String> {
        let mut arguments = vec![
            format!("/bin/{PROGRAM}"),
            self.seed.to_string(),
            "0".into(),
            self.threads.to_string(),
            self.workers.start.to_string(),
            (self.workers.end - self.workers.start).to_string(),
            ranges(&self.calls),
        ];
        if show {
            arguments.push("show".into());
        }
        arguments
    }

    /// Reads what [`fmt::Display`] wrote, from the first line of a file. Errors: the file, or its line.
    pub fn read(path: &Path) -> Result<Find> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let line = text.lines().next().unwrap_or_default();
        Find::parse(line).with_context(|| {
            format!(
                "{}: the first line is not 'fuzz seed=N threads=N cpus=N workers=A..B calls=RANGES'",
                path.display()
            )
        })
    }

    fn parse(line: &str) -> Option<Find> {
        let mut words = line.strip_prefix("fuzz ")?.split(' ');
        let mut value = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
        let seed = value("seed")?.parse().ok()?;
        let threads = value("threads")?.parse().ok()?;
        let cpus = value("cpus")?.parse().ok()?;
        let (first, end) = value("workers")?.split_once("..")?;
        let calls = value("calls")?
            .split(',')
            .map(|range| {
                let (first, last) = range.split_once('-')?;
                Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
            })
            .collect::<Option<_>>()?;
        Some(Find {
            seed,
            threads,
            cpus,
            workers: first.parse().ok()?..end.parse().ok()?,
            calls,
        })
    }
}

impl fmt::Display for Find {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fuzz seed={} threads={} cpus={} workers={}..{} calls={}",
            self.seed,
            self.threads,
            self.cpus,
            self.workers.start,
            self.workers.end,
            ranges(&self.calls)
        )
    }
}

/// `0-9,14-14`: first and last.
fn ranges(of: &[Range<u64>]) -> String {
    let part = |range: &Range<u64>| format!("{}-{}", range.start, range.end - 1);
    of.iter().map(part).collect::<Vec<_>>().join(",")
}

/// A try at what a [`Find`] says: nothing where the kernel survived, else how it failed.
pub trait Bench {
    /// Makes the calls. Errors: only what keeps them from being made.
    fn attempt(&self, find: &Find) -> Result<Option<String>>;
}

/// A machine to try in.
pub struct Guests<'a> {
    /// What to boot; the CPUs are the find's.
    pub machine: &'a Machine,
    /// The kernel.
    pub kernel: &'a Path,
    /// The program's executable.
    pub program: &'a [u8],
    /// A folder for the boot's files.
    pub dir: &'a Path,
}

impl Guests<'_> {
    /// One boot: the program's output, or the failure.
    fn boot(&self, find: &Find, show: bool) -> Result<qemu::Boot> {
        let path = format!("/bin/{PROGRAM}");
        let fs = experiment::file_system(self.kernel, &find.arguments(show), &[(path, self.program)])?;
        let machine = Machine {
            cpus: find.cpus,
            ..self.machine.clone()
        };
        let load = Load {
            kernel: self.kernel,
            initramfs: &fs,
            cmdline: &cmdline(Model::Scoped, true, Cgroup::User),
        };
        qemu::boot(&machine, &load, self.dir, None, &AtomicBool::new(false))
    }

    /// What the program says at its end: calls made.
    pub fn summary(&self, find: &Find) -> Result<String> {
        let boot = self.boot(find, false)?.in_order()?;
        let text = String::from_utf8_lossy(&boot.output).into_owned();
        let line = text.lines().rev().find(|line| line.contains("fuzz done"));
        let line = line.context("the program did not come to its end")?;
        Ok(line[line.find("fuzz done").unwrap_or(0)..].to_owned())
    }

    /// The calls of a find, one a line, as far as they came.
    pub fn shown(&self, find: &Find) -> Result<String> {
        let boot = self.boot(find, true)?;
        Ok(String::from_utf8_lossy(&boot.output).into_owned())
    }
}

impl Bench for Guests<'_> {
    fn attempt(&self, find: &Find) -> Result<Option<String>> {
        match self.summary(find) {
            Ok(_) => Ok(None),
            Err(error) if interrupted() => Err(error),
            Err(error) => Ok(Some(failure::one_line(&error))),
        }
    }
}

/// Makes a find that fails smaller, as long as it fails and boots are left.
pub fn minimise(bench: &dyn Bench, mut find: Find, progress: &Progress) -> Result<Find> {
    let mut boots = 0;
    let mut fails = |find: &Find| -> Result<bool> {
        boots += 1;
        if boots > MOST_BOOTS {
            return Ok(false);
        }
        progress.doing(&format!("making it smaller: boot {boots}"));
        Ok(bench.attempt(find)?.is_some())
    };
    while find.workers.end - find.workers.start > 1 {
        let middle = find.workers.start.midpoint(find.workers.end);
        let halves = [find.workers.start..middle, middle..find.workers.end];
        let mut smaller = None;
        for workers in halves {
            let half = Find {
                workers,
                ..find.clone()
            };
            if fails(&half)? {
                smaller = Some(half);
                break;
            }
        }
        match smaller {
            Some(half) => find = half,
            None => break, // it takes workers of both halves
        }
    }
    let mut piece = find.calls.iter().map(|range| range.end - range.start).sum::<u64>() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < find.threads * EACH {
            let calls = without(&find.calls, at..at + piece);
            if calls != find.calls && !calls.is_empty() {
                let smaller = Find { calls, ..find.clone() };
                if fails(&smaller)? {
                    find = smaller;
                }
            }
            at += piece;
        }
        piece /= 2;
    }
    Ok(find)
}

/// Ranges without what lies in `hole`.
fn without(of: &[Range<u64>], hole: Range<u64>) -> Vec<Range<u64>> {
    of.iter()
        .flat_map(|range| {
            [
                range.start..range.end.min(hole.start),
                range.start.max(hole.end)..range.end,
            ]
        })
        .filter(|range| range.start < range.end)
        .collect()
}

/// Writes a find with its failure and its calls into `dir`. Gives the file.
pub fn keep(dir: &Path, find: &Find, failure: &str, calls: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let path = dir.join(format!("fuzz-{}-{}.txt", find.seed, find.cpus));
    let text = format!("{find}\n# {failure}\n{}", printable(calls));
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The lines of calls; what calls themselves printed is left out.
fn printable(calls: &str) -> String {
    let call = |line: &&str| line.contains('(') && line.contains('/') && line.is_ascii();
    calls.lines().filter(call).map(|line| format!("# {line}\n")).collect()
}

/// Builds what fuzzing needs: kernel and program.
pub fn build(toolchain: &crate::build::Toolchain, progress: &Progress) -> Result<(PathBuf, Vec<u8>)> {
    let kernel = Guest::build_checked(toolchain, progress)?;
    let guest = Guest::build(toolchain, false, progress)?;
    let program = std::fs::read(guest.program(PROGRAM)?)?;
    ensure!(!program.is_empty(), "the program {PROGRAM} is empty");
    Ok((kernel, program))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when it makes all of these calls in this worker.
    struct Culprits(u64, Vec<u64>);

    impl Bench for Culprits {
        fn attempt(&self, find: &Find) -> Result<Option<String>> {
            let made = |call: &u64| find.calls.iter().any(|range| range.contains(call));
            let fails = find.workers.contains(&self.0) && self.1.iter().all(made);
            Ok(fails.then(|| "down".into()))
        }
    }

    #[test]
    fn is_a_failure_made_as_small_as_it_can_be() {
        let find = Find::new(7, 100_000, 2, 4).unwrap();
        let small = minimise(&Culprits(33, vec![3, 260, 261]), find, &Progress::Silent).unwrap();
        assert_eq!(small.workers, 33..34);
        let calls: u64 = small.calls.iter().map(|range| range.end - range.start).sum();
        assert_eq!((calls, ranges(&small.calls).as_str()), (3, "3-3,260-261"));
    }

    #[test]
    fn does_a_find_come_back_from_its_file() {
        let mut find = Find::new(9, 4000, 4, 2).unwrap();
        find.calls = without(&find.calls, 5..900);
        let dir = tempfile::tempdir().unwrap();
        let path = keep(
            dir.path(),
            &find,
            "kernel panic: lost",
            "0/3 close(0x1)\n\u{7f}rubbish\n",
        )
        .unwrap();
        assert_eq!(Find::read(&path).unwrap(), find);
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .ends_with("# kernel panic: lost\n# 0/3 close(0x1)\n")
        );
        std::fs::write(&path, "fuzz seed=x\n").unwrap();
        assert!(Find::read(&path).is_err());
    }

    #[test]
    fn what_is_refused() {
        assert!(Find::new(1, 0, 1, 1).is_err());
        assert!(Find::new(1, 10, 9, 1).is_err());
    }
}
