//! Counters: alone, interrupted at every point, and on several CPUs; and the adds that went wrong, at theirs.

use crate::counter::{Counting, PercpuCounter};
use crate::races::{CASES, Racy};
use core::cmp::Ordering;
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::vec::Vec;

const MAX: i64 = i32::MAX as i64;
const VARIANTS: [Counting; 7] = [
    Counting::Atomic,
    Counting::Batch(1),
    Counting::Batch(1024),
    Counting::BatchMasked(1024),
    Counting::Batch(i32::MAX),
    Counting::Local,
    Counting::LocalMasked,
];

fn counter(counting: Counting) -> &'static PercpuCounter {
    Box::leak(Box::new(PercpuCounter::try_new(counting, 0).expect("space")))
}

/// Runs `add`, with `interrupt` at its `at`-th point. Gives the point's name; `None` when there are not so many.
fn interrupted(at: usize, add: impl FnOnce(), interrupt: impl Fn() + 'static) -> Option<&'static str> {
    let (seen, hit) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let (seen_there, hit_there) = (seen.clone(), hit.clone());
    cpu::host::on_point(move |name| {
        if seen_there.replace(seen_there.get() + 1) == at {
            hit_there.set(Some(name));
            interrupt();
        }
    });
    add();
    cpu::host::no_points();
    hit.get()
}

#[test]
fn are_names_read_as_they_are_written() {
    for text in [
        "atomic",
        "batch=1",
        "batch=1024",
        "batch-irq=2147483647",
        "local",
        "local-irq",
    ] {
        assert_eq!(std::format!("{}", Counting::parse(text).expect(text)), text);
    }
    for text in [
        "",
        "atom",
        "batch",
        "batch=",
        "batch=0",
        "batch=-1",
        "batch=+1",
        "batch=2147483648",
        "local=1",
    ] {
        assert_eq!(Counting::parse(text), None, "{text}");
    }
}

#[test]
fn do_all_variants_count_the_same() {
    cpu::host::single(|| {
        for counting in VARIANTS {
            let counter = PercpuCounter::try_new(counting, -5).expect("space");
            let mut right = -5i64;
            // Around each limit of a part, either way, and beyond 32 bits.
            for amount in [
                0,
                1,
                -1,
                1022,
                1,
                1,
                -1024,
                MAX - 1,
                1,
                -MAX,
                -MAX,
                1 << 40,
                -(1 << 41),
                7,
            ] {
                counter.add(amount);
                right += amount;
                assert_eq!(counter.sum(), right, "{counting} after {amount}");
                let off = (counter.read() - right).abs();
                assert!(off <= counter.error(), "{counting}: {off} off after {amount}");
            }
            counter.set(12);
            assert_eq!(counter.sum(), 12, "{counting}");
            assert!((counter.read() - 12).abs() <= counter.error());
            counter.add(3);
            assert_eq!(counter.sum(), 15, "{counting}");
        }
    });
}

#[test]
fn is_a_comparison_right_where_a_read_is_not() {
    cpu::host::single(|| {
        for counting in VARIANTS {
            let counter = PercpuCounter::try_new(counting, 0).expect("space");
            counter.add(1000);
            for (other, order) in [
                (999, Ordering::Greater),
                (1000, Ordering::Equal),
                (1001, Ordering::Less),
                (1 << 50, Ordering::Less),
                (-1 << 50, Ordering::Greater),
                (i64::MAX, Ordering::Less),
                (i64::MIN, Ordering::Greater),
            ] {
                assert_eq!(counter.compare(other), order, "{counting} against {other}");
            }
        }
    });
}

#[test]
fn is_the_error_of_a_read_reached_and_not_passed() {
    cpu::host::scenario(
        4,
        || PercpuCounter::try_new(Counting::Batch(100), 0).expect("space"),
        |_, counter| (0..99).for_each(|_| counter.add(1)),
        |counter| {
            assert_eq!((counter.read(), counter.sum()), (0, 4 * 99));
            assert_eq!(counter.error(), cpu::possible() as i64 * 99);
        },
    );
}

/// Every variant, every point of its add, every pair of amounts near a limit: no add is ever lost, doubled or wrapped.
#[test]
fn does_an_interrupt_at_any_point_do_no_harm() {
    cpu::host::single(|| {
        for counting in VARIANTS {
            let limit = match counting {
                Counting::Batch(batch) | Counting::BatchMasked(batch) => i64::from(batch),
                _ => MAX,
            };
            let near = [0, 1, -1, limit - 1, 1 - limit, limit, -limit, -2 * (limit - 1), -1000];
            let mut points = BTreeSet::new();
            for part in [0, limit - 1, 1 - limit] {
                for amount in near {
                    for interrupt in near {
                        for at in 0.. {
                            let counter = counter(counting);
                            counter.add(part);
                            let hit = interrupted(at, || counter.add(amount), move || counter.add(interrupt));
                            let Some(point) = hit else {
                                assert_eq!(counter.sum(), part + amount);
                                break;
                            };
                            points.insert(point);
                            assert_eq!(
                                counter.sum(),
                                part + amount + interrupt,
                                "{counting}: part {part}, {amount} interrupted by {interrupt} at {point}"
                            );
                            let off = counter.sum().abs_diff(counter.read());
                            assert!(off < limit.unsigned_abs().max(1), "{counting}: a part of {off}");
                        }
                    }
                }
            }
            let expected: &[&str] = match counting {
                Counting::Batch(_) | Counting::Local => &["word: exchange", "word: read"],
                _ => &[],
            };
            assert!(points.iter().eq(expected), "{counting}: points {points:?}");
        }
    });
}

/// The unsafe adds: at which point, of all that they have, an interrupt does harm, and how much.
#[test]
fn what_do_the_unsafe_adds_lose_and_where() {
    cpu::host::single(|| {
        let mut found = Vec::new();
        for case in &CASES {
            for at in 0.. {
                let racy: &'static Racy = Box::leak(Box::new(Racy::try_new(case.part).expect("space")));
                let hit = interrupted(
                    at,
                    || (case.add)(racy, case.amount),
                    move || (case.add)(racy, case.interrupt),
                );
                let Some(point) = hit else { break };
                found.push((case.name, point, racy.sum() - case.right()));
            }
        }
        assert_eq!(
            found,
            [
                ("underflow", "word: read", 1 << 32),
                ("underflow", "race_decided_to_fold", 1 << 32),
                ("overflow", "word: read", -(1 << 32)),
                ("overflow", "race_decided_to_add", -(1 << 32)),
                ("lost", "word: read", 1000),
                ("lost", "race_folded", 1000),
                ("unfolded", "race_about_to_add", -(1 << 32)),
            ]
        );
    });
}

/// The same states and interrupts, with the safe add.
#[test]
fn does_the_safe_add_survive_the_same() {
    cpu::host::single(|| {
        for counting in [Counting::Local, Counting::LocalMasked, Counting::Atomic] {
            for case in &CASES {
                for at in 0.. {
                    let safe: &'static PercpuCounter = Box::leak(Box::new(case.safe(counting).expect("space")));
                    let hit = interrupted(at, || safe.add(case.amount), move || safe.add(case.interrupt));
                    if hit.is_none() {
                        break;
                    }
                    assert_eq!(safe.sum(), case.right(), "{counting}, {} at {hit:?}", case.name);
                }
            }
        }
    });
}

#[test]
fn do_cpus_that_add_at_once_lose_nothing() {
    for counting in VARIANTS {
        cpu::host::scenario(
            4,
            || PercpuCounter::try_new(counting, 0).expect("space"),
            |id, counter| {
                // What comes in on one CPU goes out on another: parts of both signs, and folds of both.
                let amount = if id % 2 == 0 { 700 } else { -699 };
                for _ in 0..2000 {
                    counter.add(amount);
                    let sum = counter.sum();
                    assert!((-2 * 2000 * 699..=2 * 2000 * 700).contains(&sum), "{counting}: {sum}");
                }
            },
            |counter| assert_eq!(counter.sum(), 2 * 2000, "{counting}"),
        );
    }
}

#[test]
fn does_a_counter_give_its_space_back() {
    cpu::host::single(|| {
        let before = crate::used_bytes();
        let counter = PercpuCounter::try_new(Counting::Local, 0).expect("space");
        assert!(crate::used_bytes() > before);
        drop(counter);
        assert_eq!(crate::used_bytes(), before);
    });
}

/// No space is an error, and what was made before is given back by whoever made it.
#[test]
fn does_a_full_area_refuse_a_counter() {
    cpu::host::single(|| {
        let kept = RefCell::new(Vec::new());
        while let Ok(slot) = crate::PerCpu::try_new(|_| [0u8; 4096]) {
            kept.borrow_mut().push(slot);
        }
        let mut small = Vec::new();
        while let Ok(counter) = PercpuCounter::try_new(Counting::Local, 0) {
            small.push(counter);
        }
        assert!(small.pop().is_some(), "there was room for some");
        assert!(PercpuCounter::try_new(Counting::Local, 0).is_ok());
    });
}
