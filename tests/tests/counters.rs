//! Per-CPU counters in the machine: the show of the races, and System V messages under every variant.

use std::sync::atomic::AtomicBool;
use tests::Program;
use tests::guest::built;
use tollgate::console::ProgramEnd;
use tollgate::counters::Counters;
use tollgate::model::{Cgroup, Model, cmdline};
use tollgate::qemu::{self, Boot, Load};
use tollgate::{experiment, races};

/// Boots once with `words` on the kernel's command line.
fn boot(words: &str, argv: &[String], files: &[(String, &[u8])]) -> Boot {
    let built = built().unwrap_or_else(|error| panic!("{error}"));
    let fs = experiment::file_system(&built.guest.kernel, argv, files).unwrap();
    let load = Load {
        kernel: &built.guest.kernel,
        initramfs: &fs,
        cmdline: words,
    };
    let folder = tempfile::tempdir().unwrap();
    qemu::boot(&built.machine, &load, folder.path(), None, &AtomicBool::new(false)).unwrap()
}

#[test]
fn do_unsafe_adds_go_wrong_and_safe_ones_never() {
    let boot = boot(races::CMDLINE, &["races".into()], &[]);
    let shown = races::parse(&boot.control.races).unwrap();
    assert!(races::as_expected(&shown), "{}", races::render(&shown));
    let off: Vec<_> = shown
        .iter()
        .map(|race| (race.case.as_str(), race.got - race.right))
        .collect();
    assert_eq!(
        off,
        [
            ("underflow", 1 << 32),
            ("overflow", -(1 << 32)),
            ("lost", 1000),
            ("unfolded", -(1 << 32))
        ]
    );
}

#[test]
fn are_the_totals_true_under_every_variant() {
    let image = std::fs::read(Program::new("msg_control").compile().unwrap()).unwrap();
    for counters in [Counters::Batch(1), Counters::Batch(100)]
        .into_iter()
        .chain(Counters::ROWS)
    {
        let name = "/bin/msg_control".to_owned();
        let words = format!("{} counters={counters}", cmdline(Model::Scoped, false, Cgroup::User));
        let boot = boot(&words, std::slice::from_ref(&name), &[(name.clone(), &image)]);
        let boot = boot.in_order().unwrap_or_else(|error| panic!("{counters}: {error:#}"));
        let text = String::from_utf8_lossy(&boot.output);
        assert_eq!(boot.control.end, Some(ProgramEnd::Code(0)), "{counters}: {text}");
        assert_eq!(boot.control.boot.unwrap()["counters"], counters.to_string());
    }
}
