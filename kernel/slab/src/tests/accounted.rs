//! Accounted allocation under each model.

use super::*;
use crate::{AllocError, host};
use memcg::Cgroup;
use std::cell::RefCell;
use std::rc::Rc;

/// An allocator, a cgroup below the root and a task in it.
fn machine(model: &str) -> (&'static Slab, &'static Cgroup, TaskMemcg) {
    let slab = slab(model);
    let cgroup = slab.accounting().create(slab.accounting().root()).unwrap();
    (slab, cgroup, TaskMemcg::new(cgroup))
}

/// Gives back all that is held back anywhere.
fn drain(slab: &'static Slab, task: &TaskMemcg) {
    settle(slab);
    task.exit(slab.accounting());
    slab.accounting().drain_this_cpu();
}

#[test]
fn does_every_model_charge_and_uncharge() {
    for model in MODELS {
        cpu::host::single(|| {
            let (slab, cgroup, task) = machine(model);
            // Under `page` the first objects are the root's, and the copies come with the worker.
            for size in [64, 304, 4096] {
                Block::new(slab, size, Gfp::ACCOUNT, &task, 1).unwrap().free();
            }
            assert_eq!(slab.has_pending_copies(), model == "page", "{model}");
            assert_eq!(slab.make_pending_copies(), if model == "page" { 3 } else { 0 });
            settle(slab);
            let before = slab.active_objects();
            let blocks: Vec<_> = (0..600)
                .map(|n| Block::new(slab, [64, 304, 4096][n % 3], Gfp::ACCOUNT, &task, n as u8).unwrap())
                .collect();
            let charged = cgroup.memory().usage();
            match model {
                "off" => assert_eq!(charged, 0),
                // At least the bytes of the objects, at most as much again and a batch of pages.
                _ => assert!(
                    (226..=226 + 226 / 2 + 64).contains(&charged),
                    "{model}: {charged} pages"
                ),
            }
            free_all(blocks);
            drain(slab, &task);
            assert_eq!(cgroup.memory().usage(), 0, "{model}: pages are still charged");
            assert_eq!(slab.active_objects(), before, "{model}: objects are left");
        });
    }
}

#[test]
fn are_large_allocations_charged_by_the_page() {
    for model in MODELS {
        cpu::host::single(|| {
            let (slab, cgroup, task) = machine(model);
            settle(slab);
            let (before, frames) = (slab.active_objects(), host::used_frames());
            let pages = if cfg!(miri) { 4 } else { 256 };
            let block = Block::new(slab, pages * crate::PAGE_SIZE, Gfp::ACCOUNT | Gfp::ZERO, &task, 9).unwrap();
            let charged = cgroup.memory().usage();
            let least = if model == "off" { 0 } else { pages as i64 };
            assert!(charged >= least, "{model}: {charged} pages");
            block.free();
            drain(slab, &task);
            assert_eq!(cgroup.memory().usage(), 0, "{model}: pages are still charged");
            assert_eq!(
                (slab.active_objects(), host::used_frames()),
                (before, frames),
                "{model}"
            );
        });
    }
}

#[test]
fn is_the_root_cgroup_free_of_charge() {
    for model in MODELS {
        cpu::host::single(|| {
            let (slab, ..) = machine(model);
            let task = root_task(slab);
            let blocks: Vec<_> = (0..100)
                .map(|n| Block::new(slab, 304, Gfp::ACCOUNT, &task, n).unwrap())
                .collect();
            assert_eq!(slab.accounting().root().memory().usage(), 0);
            assert!(!slab.has_pending_copies(), "{model}: the root needs no copies");
            free_all(blocks);
            drain(slab, &task);
        });
    }
}

#[test]
fn does_a_limit_come_back_as_the_cgroup_that_refused() {
    for model in &MODELS[1..] {
        cpu::host::single(|| {
            let (slab, cgroup, task) = machine(model);
            let below = TaskMemcg::new(slab.accounting().create(cgroup).unwrap());
            Block::new(slab, 1024, Gfp::ACCOUNT, &below, 1).unwrap().free();
            slab.make_pending_copies();
            settle(slab);
            let before = slab.active_objects();
            cgroup.memory().set_max(100);
            let mut blocks = Vec::new();
            let refused = loop {
                match Block::new(slab, 1024, Gfp::ACCOUNT, &below, 5) {
                    Ok(block) => blocks.push(block),
                    Err(AllocError::OverLimit(refused)) => break refused,
                    Err(AllocError::NoMemory) => panic!("memory ran out first"),
                }
            };
            assert!(core::ptr::eq(refused, cgroup), "{model}: the parent is at its limit");
            assert!(
                (300..=400).contains(&blocks.len()),
                "{model}: {} KiB in 400",
                blocks.len()
            );
            assert!(cgroup.memory().usage() <= 100);
            // And large ones, with all of the charge unwound.
            assert!(matches!(
                Block::new(slab, 1 << 20, Gfp::ACCOUNT, &below, 5),
                Err(AllocError::OverLimit(_))
            ));
            free_all(blocks);
            drain(slab, &below);
            drain(slab, &task);
            assert_eq!(cgroup.memory().usage(), 0, "{model}: pages are still charged");
            assert_eq!(slab.active_objects(), before, "{model}: objects are left");
        });
    }
}

#[test]
fn is_a_failure_at_any_step_unwound() {
    for model in MODELS {
        cpu::host::single(|| {
            let (slab, cgroup, task) = machine(model);
            Block::new(slab, 304, Gfp::ACCOUNT, &task, 1).unwrap().free();
            slab.make_pending_copies();
            Block::new(slab, 304, Gfp::ACCOUNT, &task, 1).unwrap().free();
            drain(slab, &task);
            let (before, frames) = (slab.active_objects(), host::used_frames());
            for pages in 0..12 {
                let blocks: Vec<_> = host::with_pages_left(pages, || {
                    (0..100)
                        .filter_map(|n| Block::new(slab, [304, 100, 10_000][n % 3], Gfp::ACCOUNT, &task, 2).ok())
                        .collect()
                });
                assert!(blocks.len() < 100);
                // Under `page` these ask for copies, which must cope too.
                if slab.has_pending_copies() {
                    host::with_pages_left(pages / 4, || slab.make_pending_copies());
                }
                free_all(blocks);
                drain(slab, &task);
                assert_eq!(cgroup.memory().usage(), 0, "{model}, {pages} pages");
                if model != "page" {
                    assert_eq!(
                        (slab.active_objects(), host::used_frames()),
                        (before, frames),
                        "{model}"
                    );
                }
            }
        });
    }
}

#[test]
fn does_the_root_cache_serve_until_the_copy_is_made() {
    cpu::host::single(|| {
        let (slab, cgroup, task) = machine("page");
        let early = Block::new(slab, 304, Gfp::ACCOUNT, &task, 1).unwrap();
        let again = Block::new(slab, 304, Gfp::ACCOUNT, &task, 2).unwrap();
        assert_eq!(cgroup.memory().usage(), 0, "uncharged");
        assert_eq!(slab.make_pending_copies(), 1, "asked for twice, made once");
        assert!(!slab.has_pending_copies());
        let late = Block::new(slab, 304, Gfp::ACCOUNT, &task, 3).unwrap();
        assert!(cgroup.memory().usage() > 0);
        let copies: Vec<_> = slab.caches().filter(|cache| cache.cgroup.is_some()).collect();
        assert_eq!(copies.len(), 1);
        assert_eq!(
            (copies[0].name, copies[0].cgroup, copies[0].active_objects),
            ("kmalloc-512", Some(cgroup.id()), 1)
        );
        free_all(std::vec![late, early, again]);
        drain(slab, &task);
        assert_eq!(cgroup.memory().usage(), 0);
    });
}

#[test]
fn do_many_cgroups_have_their_copies() {
    cpu::host::single(|| {
        let slab = slab("page");
        let root = slab.accounting().root();
        let tasks: Vec<_> = (0..70)
            .map(|_| TaskMemcg::new(slab.accounting().create(root).unwrap()))
            .collect();
        let each = |task: &TaskMemcg| Block::new(slab, 8, Gfp::ACCOUNT, task, 1).unwrap().free();
        // More than the queue holds: what did not fit is asked for again.
        tasks.iter().for_each(each);
        let first = slab.make_pending_copies();
        assert!((1..70).contains(&first), "{first} fit the queue");
        while slab.copies_of("kmalloc-8") < 70 {
            tasks.iter().for_each(each);
            assert!(slab.make_pending_copies() > 0);
        }
        tasks.iter().for_each(each);
        assert!(!slab.has_pending_copies());
        settle(slab);
    });
}

impl Slab {
    fn copies_of(&self, name: &str) -> usize {
        self.caches()
            .filter(|cache| cache.name == name && cache.cgroup.is_some())
            .count()
    }
}

#[test]
fn may_interrupts_allocate_and_free_accounted_objects_at_any_point() {
    for model in MODELS {
        cpu::host::single(|| {
            let (slab, cgroup, task) = machine(model);
            Block::new(slab, 304, Gfp::ACCOUNT, &task, 1).unwrap().free();
            slab.make_pending_copies();
            settle(slab);
            let before = slab.active_objects();
            // What the task leaves for interrupts to free, and what interrupts left.
            let passed = Rc::new(RefCell::new(Vec::<Block>::new()));
            let taken = Rc::new(RefCell::new(Vec::<Block>::new()));
            let (to_free, kept) = (passed.clone(), taken.clone());
            let root = slab.accounting().root();
            let mut points = 0;
            cpu::host::on_point(move |_| {
                // At every third, so that an exchange gets through between them.
                points += 1;
                if points % 3 != 0 {
                    return;
                }
                // An interrupt is nobody's: it is not charged whichever task it hits.
                let nobody = TaskMemcg::new(root);
                if let Ok(mut to_free) = to_free.try_borrow_mut() {
                    to_free.drain(..).for_each(Block::free);
                }
                let mut kept = kept.borrow_mut();
                if kept.len() < 20 {
                    kept.push(Block::new(slab, 304, Gfp::ACCOUNT, &nobody, 4).unwrap());
                } else {
                    free_all(core::mem::take(&mut *kept));
                }
            });
            for n in 0..300 {
                let block = Block::new(slab, 304, Gfp::ACCOUNT, &task, n as u8).unwrap();
                if n % 2 == 0 {
                    passed.borrow_mut().push(block);
                } else {
                    block.free();
                }
            }
            cpu::host::no_points();
            free_all(passed.take());
            free_all(taken.take());
            drain(slab, &task);
            assert_eq!(cgroup.memory().usage(), 0, "{model}: pages are still charged");
            assert_eq!(slab.active_objects(), before, "{model}: objects are left");
        });
    }
}

#[test]
fn is_an_unknown_model_refused() {
    cpu::host::single(|| {
        assert_eq!(
            Slab::by_name("colour").map(Slab::model),
            Err(crate::BootError::UnknownModel)
        );
        for model in MODELS {
            assert_eq!(slab(model).model(), model);
        }
    });
}
