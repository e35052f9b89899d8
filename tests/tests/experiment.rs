//! The experiment itself: that it repeats, that each accounting model does the work that its design says, and that a
//! message costs no more than it may.

use std::sync::OnceLock;
use tests::guest::{Built, built, in_full};
use tests::{End, Program, Setting, guest, verdict};
use tollgate::console::Measured;
use tollgate::experiment::{self, Plan, Row, RowEvents};
use tollgate::latency::PerCall;
use tollgate::model::{Cgroup, Model, RowKey};
use tollgate::progress::Progress;
use tollgate::table;

/// Enough that what happens once weighs less than one instruction a call.
const ROUNDS: u64 = 20_000;

fn plan(built: &Built) -> Plan {
    Plan {
        machine: built.machine.clone(),
        models: Model::ALL.to_vec(),
        rounds: ROUNDS,
    }
}

fn run() -> Result<Vec<Row>, String> {
    let run = || {
        let built = built()?;
        let folder = tempfile::tempdir()?;
        experiment::run(&plan(built), &built.guest, folder.path(), &Progress::Silent)
    };
    run().map_err(|error| in_full(&error))
}

/// The rows of the whole experiment, run once for all tests.
fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Result<Vec<Row>, String>> = OnceLock::new();
    ROWS.get_or_init(run).as_ref().unwrap_or_else(|error| panic!("{error}"))
}

fn row(model: Model, msgcache: bool) -> &'static Row {
    rows()
        .iter()
        .find(|row| row.key == RowKey { model, msgcache })
        .expect("every model has both rows")
}

fn events(model: Model, msgcache: bool) -> RowEvents {
    row(model, msgcache).events
}

/// Whether two counts a call are the same but for what happens now and then (a stock that runs empty, a first use).
fn same(a: PerCall, b: PerCall) -> bool {
    let near = |x: f64, y: f64| (x - y).abs() < 0.1;
    near(a.locked, b.locked)
        && near(a.irq_flag, b.irq_flag)
        && near(a.preempt, b.preempt)
        && near(a.shared_lines, b.shared_lines)
        && near(a.charges, b.charges)
        && near(a.references, b.references)
}

#[test]
fn does_a_second_run_print_the_same_bytes() {
    let built = built().unwrap_or_else(|error| panic!("{error}"));
    let second = run().unwrap_or_else(|error| panic!("{error}"));
    let (first, second) = (
        table::render(&plan(built), rows()),
        table::render(&plan(built), &second),
    );
    assert_eq!(first, second);
}

/// What goes into the guest must not depend on where the sources lie: its size alone would move the timer's phase.
#[test]
fn is_nothing_of_the_sources_folder_in_the_guest() {
    let built = built().unwrap_or_else(|error| panic!("{error}"));
    let program = std::fs::read(built.guest.program("mqtest").unwrap()).unwrap();
    let root = tollgate::build::root().unwrap();
    let folder = root.to_str().unwrap().as_bytes();
    assert!(!program.windows(folder.len()).any(|bytes| bytes == folder));
}

#[test]
fn has_the_table_a_row_for_each_model_with_and_without_the_cache() {
    let built = built().unwrap_or_else(|error| panic!("{error}"));
    let text = table::render(&plan(built), rows());
    for name in ["off", "page", "object", "task-stock", "local-lock", "scoped"] {
        for name in [name.to_owned(), format!("{name} + cache")] {
            assert!(
                text.lines().any(|line| line.starts_with(&format!("| {name} "))),
                "{name} is missing in\n{text}"
            );
        }
    }
}

#[test]
fn do_minimum_and_average_agree_to_a_few_instructions() {
    for row in rows() {
        for (call, stat) in [
            ("RX", row.measured.rx),
            ("TX", row.measured.tx),
            ("getppid", row.measured.getppid),
        ] {
            let apart = stat.avg - stat.min;
            assert!(
                (0.0..=4.0).contains(&apart),
                "{} {call}: minimum {}, average {}",
                row.key.name(),
                stat.min,
                stat.avg
            );
        }
    }
}

#[test]
fn does_getppid_cost_the_same_under_every_model() {
    let first = row(Model::Off, false).measured.getppid.min;
    assert!(rows().iter().all(|row| row.measured.getppid.min == first));
}

/// A receive frees a message. Neither model does anything about that, so all that is left of them is their being chosen.
#[test]
fn does_choosing_a_model_cost_each_the_same() {
    let receive = |model| row(model, false).measured.rx.min;
    assert_eq!(receive(Model::Off), receive(Model::Page));
}

#[test]
fn does_no_accounting_mask_no_interrupts() {
    let off = events(Model::Off, false);
    assert_eq!((off.rx.irq_flag.round(), off.tx.irq_flag.round()), (0.0, 0.0));
}

/// Charges and references of one receive and of one send, without what happens now and then.
fn bill(model: Model) -> [(f64, f64); 2] {
    let RowEvents { rx, tx, .. } = events(model, false);
    [rx, tx].map(|call| (call.charges.round(), call.references.round()))
}

/// Pages are charged when a slab is made: an allocation only holds the cgroup's copy of the cache meanwhile, and a free
/// does what it does without accounting.
#[test]
fn does_the_page_model_charge_no_objects() {
    assert_eq!(bill(Model::Off), [(0.0, 0.0), (0.0, 0.0)]);
    assert_eq!(bill(Model::Page), [(0.0, 0.0), (0.0, 2.0)]);
    let (off, page) = (events(Model::Off, false), events(Model::Page, false));
    assert!(same(off.rx, page.rx), "{:?} {:?}", off.rx, page.rx);
}

/// Each object is charged and uncharged; the lookup takes a reference and drops it, the object's owner is another.
#[test]
fn do_the_object_models_charge_each_object_and_hold_its_owner() {
    for model in [Model::Object, Model::TaskStock, Model::LocalLock] {
        assert_eq!(bill(model), [(1.0, 1.0), (1.0, 3.0)], "{model}");
    }
}

/// The lookup's reference is gone, the owner's is not.
#[test]
fn does_the_scope_spare_the_lookups_reference() {
    assert_eq!(bill(Model::Scoped), [(1.0, 1.0), (1.0, 1.0)]);
}

/// Caches beyond those that every model has: the cgroup's copies, or those of the vectors that say whose an object is.
#[test]
fn has_the_page_model_copies_of_caches_where_the_later_ones_have_vectors() {
    let caches = |model| {
        let counts = &row(model, false).counts;
        let found = counts.iter().find(|(name, _)| name.ends_with("slab_caches"));
        *found.unwrap_or_else(|| panic!("no slab_caches in {counts:?}")).1
    };
    assert!(caches(Model::Page) > caches(Model::Off));
    assert!(caches(Model::Object) > caches(Model::Off));
    for model in [Model::TaskStock, Model::LocalLock, Model::Scoped] {
        assert_eq!(caches(model), caches(Model::Object), "{model}");
    }
}

/// What the thread's patch is for: with the cache, a message in the steady state is not charged at all.
#[test]
fn does_the_cache_charge_nothing_in_the_steady_state() {
    for model in Model::ALL {
        let RowEvents { rx, tx, .. } = events(model, true);
        assert!(
            tx.charges + rx.charges + tx.references + rx.references < 0.1,
            "{model}: {tx:?} {rx:?}"
        );
    }
}

/// Stock and statistics each in a section with interrupts masked, on both sides.
#[test]
fn does_no_model_mask_interrupts_more_than_the_object_model() {
    let object = events(Model::Object, false);
    for other in [
        Model::Off,
        Model::Page,
        Model::TaskStock,
        Model::LocalLock,
        Model::Scoped,
    ] {
        let other_events = events(other, false);
        // But for what happens once.
        assert!(object.rx.irq_flag + 0.1 >= other_events.rx.irq_flag, "RX, {other}");
        assert!(object.tx.irq_flag + 0.1 >= other_events.tx.irq_flag, "TX, {other}");
    }
    assert!(object.rx.irq_flag >= 2.0 && object.tx.irq_flag >= 2.0);
}

/// The task's own stock needs preemption off and no more.
#[test]
fn does_the_task_stock_mask_none_and_disable_preemption_instead() {
    let (task_stock, local_lock) = (events(Model::TaskStock, false), events(Model::LocalLock, false));
    assert_eq!(
        (task_stock.rx.irq_flag.round(), task_stock.tx.irq_flag.round()),
        (0.0, 0.0)
    );
    assert!(task_stock.rx.preempt > local_lock.rx.preempt);
    assert!(task_stock.tx.preempt > local_lock.tx.preempt);
}

#[test]
fn does_the_local_lock_mask_interrupts_again() {
    let (local_lock, off) = (events(Model::LocalLock, false), events(Model::Off, false));
    assert!(local_lock.rx.irq_flag >= off.rx.irq_flag + 2.0);
    assert!(local_lock.tx.irq_flag >= off.tx.irq_flag + 2.0);
}

/// The pointer in the task spares the lookup's reader section; the stock stays as it was.
#[test]
fn does_the_scope_spare_the_lookups_section_and_nothing_else() {
    let (scoped, local_lock) = (events(Model::Scoped, false), events(Model::LocalLock, false));
    assert!(
        scoped.tx.preempt < local_lock.tx.preempt,
        "{:?} {:?}",
        scoped.tx,
        local_lock.tx
    );
    assert!((scoped.tx.irq_flag - local_lock.tx.irq_flag).abs() < 0.1);
    assert!(
        same(scoped.rx, local_lock.rx),
        "a free is the same: {:?} {:?}",
        scoped.rx,
        local_lock.rx
    );
}

/// With the cache every message after the first is the one before: nothing is allocated, so nothing is charged.
#[test]
fn does_the_message_cache_leave_nothing_to_charge() {
    let off = row(Model::Off, true);
    for model in Model::ALL {
        let cached = row(model, true);
        assert!(
            same(cached.events.rx, off.events.rx),
            "{model} RX: {:?} {:?}",
            cached.events.rx,
            off.events.rx
        );
        assert!(
            same(cached.events.tx, off.events.tx),
            "{model} TX: {:?} {:?}",
            cached.events.tx,
            off.events.tx
        );
        assert_eq!(cached.measured.rx.min, off.measured.rx.min, "{model} RX");
        assert_eq!(cached.measured.tx.min, off.measured.tx.min, "{model} TX");
    }
}

/// mqtest in a boot of its own.
fn mqtest(setting: Setting, arguments: &[&str]) -> guest::Run {
    let run = || {
        let program = built()?.guest.program(experiment::PROGRAM)?;
        guest::run(&program, arguments, setting)
    };
    run().unwrap_or_else(|error| panic!("{}", in_full(&error)))
}

fn measured(setting: Setting) -> Measured {
    Measured::parse(&mqtest(setting, &["2000"]).text()).unwrap()
}

#[test]
fn is_the_root_cgroup_not_charged() {
    let user = measured(Setting::DEFAULT);
    let root = measured(Setting {
        cgroup: Cgroup::Root,
        ..Setting::DEFAULT
    });
    let off = measured(Setting {
        model: Model::Off,
        ..Setting::DEFAULT
    });
    assert!(root.tx.min < user.tx.min && root.rx.min < user.rx.min);
    assert!(
        off.tx.min <= root.tx.min && off.rx.min <= root.rx.min,
        "and asking whether costs something"
    );
}

#[test]
fn do_mqtests_lines_say_what_its_record_says() {
    let run = mqtest(Setting::DEFAULT, &["--ns", "500"]);
    assert_eq!(run.end, End::Code(0));
    let text = run.text();
    let record = Measured::parse(&text).unwrap();
    let line = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(
        line("RX: "),
        format!("{}/{}/{}", record.rx.min, record.rx.avg, record.rx.max)
    );
    assert_eq!(
        line("TX: "),
        format!("{}/{}/{}", record.tx.min, record.tx.avg, record.tx.max)
    );
    assert_eq!(line("Average time per getppid: "), format!("{}ns", record.getppid.avg));
    assert!(line("Accumulated time for 500 getppid, ").ends_with("ns"));
    // The kernel says how fast its counter is, and under instruction counting that is 1 GHz.
    assert!(text.contains("\"unit\":\"ns\",\"tsc_khz\":1000000,"), "{text}");
}

#[test]
fn does_mqtest_refuse_arguments_that_it_does_not_know() {
    for argument in ["0", "-1", "many", "--us", "4294967296"] {
        let run = mqtest(Setting::DEFAULT, &[argument]);
        assert_eq!(run.end, End::Code(2), "{argument}: {}", run.text());
        assert!(run.text().contains("usage: mqtest"), "{argument}: {}", run.text());
    }
}

/// The most instructions that a call may cost, the counter's own two readings included.
const MESSAGE: f64 = 400.0;
const GETPPID: f64 = 60.0;

#[test]
fn does_a_message_cost_at_most_400_instructions() {
    let Measured { rx, tx, getppid, .. } = row(Model::Scoped, true).measured;
    assert!(rx.min <= MESSAGE, "mq_receive {}", rx.min);
    assert!(tx.min <= MESSAGE, "mq_send {}", tx.min);
    assert!(getppid.min <= GETPPID, "getppid {}", getppid.min);
}

/// `mq_cost` measures through the C library's functions what mqtest measures by the bare call.
#[test]
fn does_the_c_library_not_change_that() {
    let program = Program::new("mq_cost").options(&["-O2"]).arguments(&["20000"]);
    let run = verdict::run(
        &program,
        Setting {
            msgcache: true,
            ..Setting::DEFAULT
        },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let text = run.text();
    assert_eq!(run.end, End::Code(0), "{text}");
    let minimum = |name: &str| -> f64 {
        let rest = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{text}"));
        rest.split('/')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert!(minimum("mq_receive: ") <= MESSAGE, "{text}");
    assert!(minimum("mq_send: ") <= MESSAGE, "{text}");
    assert!(minimum("getppid: ") <= GETPPID, "{text}");
}

#[test]
fn is_the_first_user_instruction_within_20_million() {
    for row in rows() {
        let tsc = row
            .first_user_tsc
            .unwrap_or_else(|| panic!("{}: the kernel did not say", row.key.name()));
        assert!(tsc < 20_000_000, "{}: {tsc}", row.key.name());
    }
}
