//! Random calls: does the kernel, with its own checks on, survive some of each kind of machine? (`tollgate fuzz` makes many
//! more.)

use std::path::Path;
use tests::guest::{built, checked, in_full, on_tollgate};
use tollgate::fuzz::{Find, Guests};

/// Boots until the calls of a seed are made, and says so.
fn survives(seed: u64, calls: u64, threads: u64, cpus: u32) {
    if !on_tollgate() {
        return;
    }
    let find = Find::new(seed, calls, threads, cpus).expect("a find");
    let tried = || -> anyhow::Result<String> {
        let built = built()?;
        let program = std::fs::read(built.guest.program(tollgate::fuzz::PROGRAM)?)?;
        let dir = tempfile::tempdir()?;
        let kernel: &Path = checked()?;
        let guests = Guests {
            machine: &built.machine,
            kernel,
            program: &program,
            dir: dir.path(),
        };
        guests.summary(&find)
    };
    let summary = tried().unwrap_or_else(|error| panic!("{find}: {}", in_full(&error)));
    let made = summary
        .split(&[' ', '='][..])
        .skip_while(|word| *word != "calls")
        .nth(1)
        .and_then(|count| count.parse::<u64>().ok());
    assert!(made.is_some_and(|made| made > calls / 20), "{summary}");
}

#[test]
fn does_one_cpu_survive() {
    survives(1, 8_000, 1, 1);
}

#[test]
fn do_threads_on_one_cpu_survive() {
    survives(2, 8_000, 4, 1);
}

#[test]
fn do_two_cpus_survive() {
    survives(3, 8_000, 2, 2);
}

#[test]
fn do_four_cpus_survive() {
    survives(4, 8_000, 4, 4);
}
