//! Per-CPU counters in the machine: the show of the races, and System V messages under every variant.

use std::sync::atomic::AtomicBool;
use tests::Program;
use tests::guest::built;
use tollgate::console::ProgramEnd;
use tollgate::counters::Counters;
use tollgate::model::{Cgroup, Model, cmdline};
use tollgate::progress::Progress;
use tollgate::qemu::{self, Boot, Load};
use tollgate::{experiment, messages, races, scaling};

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

fn table() -> Vec<messages::Row> {
    let built = built().unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    messages::run(&built.machine, &built.guest, folder.path(), &Progress::Silent).unwrap()
}

#[test]
fn does_each_variant_do_its_work_and_no_other() {
    let rows = table();
    assert_eq!(
        messages::render(&rows, "instructions"),
        messages::render(&table(), "instructions")
    );
    let of = |counters| rows.iter().find(|row| row.counters == counters).unwrap();
    let near = |a: f64, b: f64| (a - b).abs() < 0.1;
    for call in [0, 1] {
        let [atomic, local, masked] =
            [Counters::Atomic, Counters::Local, Counters::LocalMasked].map(|counters| of(counters).events[call]);
        // Two totals, and each locked addition is to the one line that they share.
        assert!(near(atomic.locked, local.locked + 2.0), "{atomic:?} {local:?}");
        assert!(
            near(atomic.shared_lines, local.shared_lines + 1.0),
            "{atomic:?} {local:?}"
        );
        assert!(near(masked.irq_flag, local.irq_flag + 4.0), "{masked:?} {local:?}");
        assert!(near(masked.locked, local.locked));
        // A batch folds: now and then, and more often the longer messages are.
        let batch = of(Counters::Batch(1024)).events[call];
        assert!(
            batch.locked >= local.locked && batch.locked < local.locked + 0.5,
            "{batch:?}"
        );
    }
    // The batch is a load more than a constant, and nothing else is dearer than itself.
    for size in [0, 1] {
        let (local, atomic) = (of(Counters::Local).costs[size], of(Counters::Atomic).costs[size]);
        assert!(local.send - atomic.send <= 32.0, "two additions: {local:?} {atomic:?}");
    }
}

#[test]
fn is_a_message_as_cheap_beside_other_queues() {
    let built = built().unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let costs = messages::flat_line(&built.machine, &built.guest, folder.path(), &Progress::Silent).unwrap();
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

/// Fixed work: what is sent is received, by processes and by threads, on one CPU and with the longest messages.
#[test]
fn does_msgstress_pass_what_it_was_asked_for() {
    let built = built().unwrap_or_else(|error| panic!("{error}"));
    let image = std::fs::read(built.guest.program("msgstress").unwrap()).unwrap();
    for words in [
        "--pairs 5 --messages 400",
        "--pairs 3 --messages 300 --size 1024 --threads",
    ] {
        let mut argv = vec!["/bin/msgstress".to_owned()];
        argv.extend(words.split(' ').map(str::to_owned));
        let boot = boot(
            &cmdline(Model::Scoped, false, Cgroup::User),
            &argv,
            &[(argv[0].clone(), &image)],
        );
        let boot = boot.in_order().unwrap_or_else(|error| panic!("{words}: {error:#}"));
        let text = String::from_utf8_lossy(&boot.output);
        assert_eq!(boot.control.end, Some(ProgramEnd::Code(0)), "{words}: {text}");
        let messages = if words.contains("threads") { 900 } else { 2000 };
        assert!(text.contains(&format!("\"messages\":{messages},")), "{words}: {text}");
        assert!(scaling::rate(&text).unwrap() > 1000.0, "{text}");
    }
}
