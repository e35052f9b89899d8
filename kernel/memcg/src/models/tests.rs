//! What each model charges, to whom, and what it does for it.

use super::*;
use crate::accounting::Accounting;
use crate::statistics::Item;
use crate::{Cgroup, Model, OwnerSlot, PAGE_SIZE, TaskMemcg};
use cpu::event::{self, Event};
use proptest::prelude::*;
use std::vec::Vec;

/// Size of the objects in most tests: a 256-byte message with its header is served by the 512-byte class.
const SIZE: usize = 512;

/// A stand-in for the slab allocator: objects are their owner slots. `'static` as slab memory is.
struct Objects {
    live: Vec<(&'static OwnerSlot, usize)>,
}

fn slot() -> &'static OwnerSlot {
    Box::leak(Box::new(OwnerSlot::none()))
}

impl Objects {
    fn new() -> Self {
        Objects { live: Vec::new() }
    }
    fn alloc<M: Model>(&mut self, accounting: &Accounting, task: &TaskMemcg, size: usize) -> bool {
        let Ok(charge) = M::pre_alloc(accounting, task, size) else {
            return false;
        };
        let slot = slot();
        M::post_alloc(accounting, charge, size, || Some(slot));
        self.live.push((slot, size));
        true
    }
    fn free<M: Model>(&mut self, accounting: &Accounting, index: usize) {
        let (slot, size) = self.live.swap_remove(index);
        M::free(accounting, size, || Some(slot));
        assert!(slot.load().is_none(), "a freed object has an owner");
    }
}

/// A machine of one CPU with a cgroup below the root and a task in it.
fn with_cgroup<M: Model>(f: impl FnOnce(&'static Accounting, &'static Cgroup, TaskMemcg)) {
    cpu::host::single(|| {
        let accounting = Accounting::try_new::<M>().unwrap();
        let cgroup = accounting.create(accounting.root()).unwrap();
        f(accounting, cgroup, TaskMemcg::new(cgroup));
    });
}

fn assert_nothing_charged(accounting: &Accounting, cgroup: &'static Cgroup) {
    accounting.drain_this_cpu();
    for level in cgroup.and_ancestors() {
        assert_eq!(level.memory().usage(), 0, "pages of {level:?}");
        for item in [Item::SlabUnreclaimable, Item::Kernel] {
            assert_eq!(accounting.statistic(level, item), 0, "{item:?} of {level:?}");
        }
    }
}

fn charges_and_gives_back<M: Model>() {
    with_cgroup::<M>(|accounting, cgroup, task| {
        let mut objects = Objects::new();
        for _ in 0..100 {
            assert!(objects.alloc::<M>(accounting, &task, SIZE));
        }
        let bytes = (100 * full_size(SIZE)) as i64;
        accounting.drain_this_cpu();
        assert_eq!(accounting.statistic(cgroup, Item::SlabUnreclaimable), bytes);
        assert_eq!(accounting.statistic(accounting.root(), Item::SlabUnreclaimable), bytes);
        let pages = (bytes as u64).div_ceil(PAGE_SIZE as u64) as i64;
        assert!(
            (pages..=pages + 1).contains(&cgroup.memory().usage()),
            "{cgroup:?} for {pages} pages of objects"
        );
        assert_eq!(accounting.root().memory().usage(), cgroup.memory().usage());
        while !objects.live.is_empty() {
            objects.free::<M>(accounting, 0);
        }
        task.exit(accounting);
        assert_nothing_charged(accounting, cgroup);
        assert_eq!(
            cgroup.objcg().get().references(),
            1,
            "only the cgroup's own reference is left"
        );
    });
}

#[test]
fn do_the_object_models_charge_each_object_and_give_it_back() {
    charges_and_gives_back::<Object>();
    charges_and_gives_back::<TaskStock>();
    charges_and_gives_back::<LocalLock>();
    charges_and_gives_back::<Scoped>();
}

#[test]
fn do_off_and_page_charge_no_object() {
    fn check<M: Model>() {
        with_cgroup::<M>(|accounting, cgroup, task| {
            let mut objects = Objects::new();
            assert!(objects.alloc::<M>(accounting, &task, SIZE));
            assert!(objects.live[0].0.load().is_none());
            assert_nothing_charged(accounting, cgroup);
        });
    }
    check::<Off>();
    check::<Page>();
}

#[test]
fn does_page_name_the_callers_copy_and_charge_slab_pages() {
    with_cgroup::<Page>(|accounting, cgroup, task| {
        assert_eq!(Page::pre_alloc(accounting, &task, SIZE).unwrap(), Some(cgroup.id()));
        let root = TaskMemcg::new(accounting.root());
        assert_eq!(Page::pre_alloc(accounting, &root, SIZE).unwrap(), None);
        accounting.charge_slab_pages(cgroup, 2).unwrap();
        assert_eq!(
            accounting.statistic(cgroup, Item::SlabUnreclaimable),
            2 * PAGE_SIZE as i64
        );
        assert_eq!(
            cgroup.memory().usage(),
            Page::BATCH as i64,
            "a batch is charged, the rest is in the stock"
        );
        accounting.uncharge_slab_pages(cgroup, 2);
        assert_nothing_charged(accounting, cgroup);
    });
}

#[test]
fn is_nothing_charged_in_the_root_cgroup() {
    fn check<M: Model>() {
        with_cgroup::<M>(|accounting, cgroup, _| {
            let task = TaskMemcg::new(accounting.root());
            let mut objects = Objects::new();
            assert!(objects.alloc::<M>(accounting, &task, SIZE));
            assert!(objects.live[0].0.load().is_none());
            assert_nothing_charged(accounting, cgroup);
        });
    }
    check::<Object>();
    check::<TaskStock>();
    check::<LocalLock>();
    check::<Scoped>();
}

/// Events of one allocation and free, once everything is warm.
fn steady_state<M: Model>() -> event::Counts {
    let mut counts = [0; event::KINDS];
    with_cgroup::<M>(|accounting, _, task| {
        let slot = slot();
        for _ in 0..3 {
            event::clear();
            let charge = M::pre_alloc(accounting, &task, SIZE).unwrap();
            M::post_alloc(accounting, charge, SIZE, || Some(slot));
            M::free(accounting, SIZE, || Some(slot));
            counts = event::counts();
        }
        task.exit(accounting);
    });
    counts
}

#[test]
fn does_each_model_do_what_its_row_says() {
    let count = |counts: event::Counts, event: Event| counts[event as usize];
    let [off, page] = [steady_state::<Off>(), steady_state::<Page>()];
    let [object, task_stock] = [steady_state::<Object>(), steady_state::<TaskStock>()];
    let [local_lock, scoped] = [steady_state::<LocalLock>(), steady_state::<Scoped>()];
    assert_eq!(off, [0; event::KINDS], "off does nothing");
    assert_eq!(
        page,
        [0; event::KINDS],
        "page charges pages, not objects; its reference is the slab allocator's"
    );

    // Charge and statistics on allocation, the same on free: four sections of two changes each.
    assert_eq!(count(object, Event::IrqFlag), 8);
    assert_eq!(count(task_stock, Event::IrqFlag), 0, "task context masks nothing");
    assert_eq!(count(local_lock, Event::IrqFlag), 8);
    assert_eq!(count(scoped, Event::IrqFlag), 8);

    // One charge and one uncharge of bytes; pages are not touched.
    for counts in [object, task_stock, local_lock, scoped] {
        assert_eq!(count(counts, Event::Charge), 2);
        assert_eq!(count(counts, Event::Locked), 0, "the steady state stays on its CPU");
        assert_eq!(count(counts, Event::SharedLine), 0);
    }
    // Look-up get and put, slot get and put; scoped does without the look-up's.
    for counts in [object, task_stock, local_lock] {
        assert_eq!(count(counts, Event::Reference), 4);
    }
    assert_eq!(count(scoped, Event::Reference), 2);
    // Preemption-off sections: what scoped saves, and what task-stock uses instead of masking.
    assert!(count(scoped, Event::Preempt) < count(local_lock, Event::Preempt));
    assert!(count(task_stock, Event::Preempt) > count(local_lock, Event::Preempt));
}

fn refuses_at_the_limit<M: Model>() {
    with_cgroup::<M>(|accounting, parent, _| {
        let cgroup = accounting.create(parent).unwrap();
        let task = TaskMemcg::new(cgroup);
        parent.memory().set_max(3);
        let mut objects = Objects::new();
        while objects.alloc::<M>(accounting, &task, SIZE) {
            assert!(objects.live.len() < 100, "the limit is not kept");
        }
        assert_eq!(
            objects.live.len(),
            3 * PAGE_SIZE / full_size(SIZE),
            "bytes of three pages"
        );
        assert!(parent.memory().usage() <= 3);
        assert!(parent.memory().failed() > 0);
        assert_eq!(
            cgroup.memory().failed(),
            0,
            "the level that refused is counted, not the one below"
        );
        match M::pre_alloc(accounting, &task, SIZE) {
            Err(over) => assert!(core::ptr::eq(over.0, parent)),
            Ok(_) => panic!("charged above the limit"),
        }
        objects.free::<M>(accounting, 0);
        assert!(
            objects.alloc::<M>(accounting, &task, SIZE),
            "what was given back can be charged again"
        );
        while !objects.live.is_empty() {
            objects.free::<M>(accounting, 0);
        }
        task.exit(accounting);
        assert_nothing_charged(accounting, cgroup);
    });
}

#[test]
fn is_the_limit_of_an_ancestor_kept_and_named() {
    refuses_at_the_limit::<Object>();
    refuses_at_the_limit::<TaskStock>();
    refuses_at_the_limit::<LocalLock>();
    refuses_at_the_limit::<Scoped>();
}

#[test]
fn does_the_parent_pay_for_what_a_removed_cgroup_left() {
    fn check<M: Model>() {
        with_cgroup::<M>(|accounting, parent, _| {
            let cgroup = accounting.create(parent).unwrap();
            let task = TaskMemcg::new(cgroup);
            let mut objects = Objects::new();
            for _ in 0..20 {
                objects.alloc::<M>(accounting, &task, SIZE);
            }
            task.set_cgroup(parent);
            task.exit(accounting);
            accounting.offline(cgroup, || ());
            accounting.drain_this_cpu();
            let usage = parent.memory().usage();
            assert!(usage > 0);
            // A task that is still in the removed cgroup charges the parent.
            let late = TaskMemcg::new(cgroup);
            objects.alloc::<M>(accounting, &late, SIZE);
            assert!(core::ptr::eq(
                objects.live.last().unwrap().0.load().unwrap().cgroup(),
                parent
            ));
            late.exit(accounting);
            while !objects.live.is_empty() {
                objects.free::<M>(accounting, 0);
            }
            accounting.drain_this_cpu();
            // The removed cgroup's own counter keeps what was charged there (as on Linux, where it dies with it); the
            // parent, which pays, is relieved of all.
            assert_eq!(parent.memory().usage() + accounting.root().memory().usage(), 0);
        });
    }
    check::<Object>();
    check::<TaskStock>();
    check::<LocalLock>();
    check::<Scoped>();
}

#[test]
fn does_a_task_that_moves_charge_its_new_cgroup() {
    fn check<M: Model>() {
        with_cgroup::<M>(|accounting, first, task| {
            let second = accounting.create(accounting.root()).unwrap();
            let mut objects = Objects::new();
            objects.alloc::<M>(accounting, &task, SIZE);
            task.set_cgroup(second);
            objects.alloc::<M>(accounting, &task, SIZE);
            let owners: Vec<_> = objects
                .live
                .iter()
                .map(|(slot, _)| slot.load().unwrap().cgroup().id())
                .collect();
            assert_eq!(owners, [first.id(), second.id()]);
            objects.free::<M>(accounting, 0);
            objects.free::<M>(accounting, 0);
            task.exit(accounting);
            assert_nothing_charged(accounting, first);
            assert_nothing_charged(accounting, second);
        });
    }
    check::<Object>();
    check::<TaskStock>();
    check::<LocalLock>();
    check::<Scoped>();
}

#[test]
fn is_an_object_without_a_slot_uncharged() {
    fn check<M: Model>() {
        with_cgroup::<M>(|accounting, cgroup, task| {
            let charge = M::pre_alloc(accounting, &task, SIZE).unwrap();
            M::post_alloc(accounting, charge, SIZE, || None);
            let charge = M::pre_alloc(accounting, &task, SIZE).unwrap();
            M::cancel(accounting, charge, SIZE);
            task.exit(accounting);
            assert_nothing_charged(accounting, cgroup);
        });
    }
    check::<Object>();
    check::<TaskStock>();
    check::<LocalLock>();
    check::<Scoped>();
}

/// An interrupt at every point of a task's allocation and free, which frees and allocates itself.
fn survives_interrupts<M: Model>() {
    with_cgroup::<M>(|accounting, cgroup, task| {
        let mut objects = Objects::new();
        let inner = Box::leak(Box::new(core::cell::RefCell::new(Objects::new())));
        for _ in 0..64 {
            inner.get_mut().alloc::<M>(accounting, &task, SIZE);
        }
        let shared: &'static core::cell::RefCell<Objects> = inner;
        cpu::host::on_point(move |_| {
            let mut inner = shared.borrow_mut();
            if !inner.live.is_empty() {
                inner.free::<M>(accounting, 0);
            }
        });
        for _ in 0..10 {
            objects.alloc::<M>(accounting, &task, SIZE);
        }
        while !objects.live.is_empty() {
            objects.free::<M>(accounting, 0);
        }
        cpu::host::no_points();
        while !shared.borrow().live.is_empty() {
            shared.borrow_mut().free::<M>(accounting, 0);
        }
        task.exit(accounting);
        assert_nothing_charged(accounting, cgroup);
    });
}

#[test]
fn do_frees_in_interrupts_keep_the_books_right() {
    survives_interrupts::<Object>();
    survives_interrupts::<TaskStock>();
    survives_interrupts::<LocalLock>();
    survives_interrupts::<Scoped>();
}

#[test]
fn do_four_cpus_keep_the_books_right() {
    fn check<M: Model>() {
        cpu::host::scenario(
            4,
            || {
                let accounting = Accounting::try_new::<M>().unwrap();
                let parent = accounting.create(accounting.root()).unwrap();
                let cgroups = [
                    parent,
                    accounting.create(parent).unwrap(),
                    accounting.create(parent).unwrap(),
                ];
                let exchange = std::sync::Mutex::new(Objects::new());
                (accounting, cgroups, exchange)
            },
            |id, (accounting, cgroups, exchange)| {
                let task = TaskMemcg::new(cgroups[id % 3]);
                for round in 0..500 {
                    // What one CPU charges another frees.
                    let mut mine = Objects::new();
                    mine.alloc::<M>(accounting, &task, SIZE + round);
                    exchange.lock().unwrap().live.append(&mut mine.live);
                    if round % 2 == 1 {
                        let mut taken = Objects::new();
                        taken.live.extend(exchange.lock().unwrap().live.pop());
                        taken.live.extend(exchange.lock().unwrap().live.pop());
                        while !taken.live.is_empty() {
                            taken.free::<M>(accounting, 0);
                        }
                    }
                }
                task.exit(accounting);
                accounting.drain_this_cpu();
            },
            |(accounting, cgroups, exchange)| {
                let mut rest = exchange.into_inner().unwrap();
                while !rest.live.is_empty() {
                    rest.free::<M>(accounting, 0);
                }
                for cgroup in cgroups {
                    assert_nothing_charged(accounting, cgroup);
                    assert_eq!(cgroup.objcg().get().references(), 1);
                }
            },
        );
    }
    check::<Object>();
    check::<TaskStock>();
    check::<LocalLock>();
    check::<Scoped>();
}

/// What a random history does.
#[derive(Debug, Clone)]
enum Step {
    Alloc { task: usize, size: usize },
    Free { which: usize },
    Move { task: usize, to: usize },
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3usize, 8..9000usize).prop_map(|(task, size)| Step::Alloc { task, size }),
        3 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => (0..3usize, 0..4usize).prop_map(|(task, to)| Step::Move { task, to }),
        1 => Just(Step::Drain),
    ]
}

/// Runs a history against a plain ledger: bytes by cgroup.
fn follows_the_ledger<M: Model>(history: &[Step]) {
    cpu::host::single(|| {
        let accounting = Accounting::try_new::<M>().unwrap();
        let a = accounting.create(accounting.root()).unwrap();
        let b = accounting.create(a).unwrap();
        let c = accounting.create(a).unwrap();
        let cgroups = [accounting.root(), a, b, c];
        let tasks = [TaskMemcg::new(a), TaskMemcg::new(b), TaskMemcg::new(c)];
        let mut place = [1, 2, 3];
        let mut owners: Vec<usize> = Vec::new();
        let mut objects = Objects::new();
        let mut ledger = [0i64; 4];
        for step in history {
            match *step {
                Step::Alloc { task, size } => {
                    assert!(objects.alloc::<M>(accounting, &tasks[task], size));
                    owners.push(place[task]);
                    if place[task] != 0 {
                        ledger[place[task]] += full_size(size) as i64;
                    }
                }
                Step::Free { which } if !owners.is_empty() => {
                    let which = which % owners.len();
                    let size = objects.live[which].1;
                    objects.free::<M>(accounting, which);
                    let owner = owners.swap_remove(which);
                    if owner != 0 {
                        ledger[owner] -= full_size(size) as i64;
                    }
                }
                Step::Free { .. } => {}
                Step::Move { task, to } => {
                    tasks[task].set_cgroup(cgroups[to]);
                    place[task] = to;
                }
                Step::Drain => accounting.drain_this_cpu(),
            }
            // Whatever the stocks hold, usage covers what is charged, and a parent covers its children.
            let pages = |bytes: i64| (bytes + PAGE_SIZE as i64 - 1) / PAGE_SIZE as i64;
            assert!(c.memory().usage() >= pages(ledger[3]) && b.memory().usage() >= pages(ledger[2]));
            assert!(a.memory().usage() >= b.memory().usage() + c.memory().usage());
        }
        accounting.drain_this_cpu();
        for (cgroup, bytes) in cgroups.iter().zip(ledger).skip(1) {
            assert_eq!(cgroup.statistics().local(Item::SlabUnreclaimable), bytes);
        }
        while !objects.live.is_empty() {
            objects.free::<M>(accounting, 0);
        }
        tasks.iter().for_each(|task| task.exit(accounting));
        cgroups
            .iter()
            .for_each(|cgroup| assert_nothing_charged(accounting, cgroup));
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn do_random_histories_follow_a_plain_ledger(history in proptest::collection::vec(step(), 1..200)) {
        follows_the_ledger::<Object>(&history);
        follows_the_ledger::<TaskStock>(&history);
        follows_the_ledger::<LocalLock>(&history);
        follows_the_ledger::<Scoped>(&history);
    }
}
