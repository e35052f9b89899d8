//! Any sequence of operations, against a plain list of what is in use.

use super::*;
use crate::host;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    /// Take objects of this size.
    Take {
        size: usize,
        count: u8,
        accounted: bool,
    },
    /// Free one, chosen by this number.
    Free(usize),
    /// Free all of one size, chosen by this number.
    FreeLike(usize),
    /// Take until the page source refuses, with this many pages.
    TakeWithPages {
        size: usize,
        pages: usize,
    },
    Flush,
    Shrink,
    /// What the kernel's worker does.
    Copies,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![0..=200usize, 200..=8192usize, 8000..=40_000usize];
    prop_oneof![
        6 => (size.clone(), 1..60u8, any::<bool>()).prop_map(|(size, count, accounted)| Step::Take { size, count, accounted }),
        8 => any::<usize>().prop_map(Step::Free),
        3 => any::<usize>().prop_map(Step::FreeLike),
        1 => (size, 0..4usize).prop_map(|(size, pages)| Step::TakeWithPages { size, pages }),
        1 => Just(Step::Flush),
        1 => Just(Step::Shrink),
        1 => Just(Step::Copies),
    ]
}

fn check(slab: &'static Slab, steps: Vec<Step>) {
    let cgroup = slab.accounting().create(slab.accounting().root()).unwrap();
    let task = TaskMemcg::new(cgroup);
    settle(slab);
    let mut blocks: Vec<Block> = Vec::new();
    let mut pattern = 0u8;
    for step in steps {
        match step {
            Step::Take { size, count, accounted } => {
                let gfp = if accounted { Gfp::ACCOUNT } else { Gfp::empty() };
                for _ in 0..count {
                    pattern = pattern.wrapping_add(1);
                    blocks.push(Block::new(slab, size, gfp, &task, pattern).unwrap());
                }
            }
            Step::Free(n) if !blocks.is_empty() => blocks.swap_remove(n % blocks.len()).free(),
            Step::FreeLike(n) if !blocks.is_empty() => {
                let size = blocks[n % blocks.len()].size;
                let (same, others) = blocks.into_iter().partition(|block| block.size == size);
                free_all(same);
                blocks = others;
            }
            Step::Free(_) | Step::FreeLike(_) => {}
            Step::TakeWithPages { size, pages } => host::with_pages_left(pages, || {
                while let Ok(block) = Block::new(slab, size, Gfp::ACCOUNT, &task, 77) {
                    blocks.push(block);
                    if blocks.len() > 3000 {
                        break;
                    }
                }
            }),
            Step::Flush => slab.flush_this_cpu(),
            Step::Shrink => slab.shrink(),
            Step::Copies => _ = slab.make_pending_copies(),
        }
    }
    // In no two hands.
    let mut spans: Vec<_> = blocks.iter().map(|b| (b.pointer.addr().get(), b.size.max(1))).collect();
    spans.sort_unstable();
    assert!(
        spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0),
        "objects overlap"
    );
    // Exact counts, class by class: vectors of owners are the allocator's own, and only models with owners have them.
    if slab.model() == "off" {
        for info in slab.caches().filter(|info| info.name.starts_with("kmalloc-")) {
            let of_class = |block: &&Block| Slab::size_class(block.size) == Some(info.object_size);
            assert_eq!(
                info.active_objects,
                blocks.iter().filter(of_class).count(),
                "{}",
                info.name
            );
        }
    }
    free_all(blocks);
    drain(slab, &task);
    for info in slab
        .caches()
        .filter(|info| info.name.starts_with("kmalloc-") && slab.model() != "page")
    {
        assert_eq!((info.active_objects, info.total_slabs), (0, 0), "{}", info.name);
    }
    assert_eq!(cgroup.memory().usage(), 0, "pages are still charged");
}

fn drain(slab: &'static Slab, task: &TaskMemcg) {
    settle(slab);
    task.exit(slab.accounting());
    slab.accounting().drain_this_cpu();
}

/// Runs the property on one allocator of this model.
fn run(model: &'static str) {
    let cases = if cfg!(miri) { 2 } else { 48 };
    let steps = if cfg!(miri) { 1..10 } else { 1..80 };
    cpu::host::single(|| {
        let slab = slab(model);
        let config = ProptestConfig {
            cases,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        proptest!(config, |(steps in prop::collection::vec(step(), steps.clone()))| check(slab, steps));
    });
}

#[test]
fn is_any_sequence_right_without_accounting() {
    run("off");
}

#[test]
fn is_any_sequence_right_with_copies() {
    run("page");
}

#[test]
fn is_any_sequence_right_with_owners() {
    run("object");
}

#[test]
fn is_any_sequence_right_with_owners_apart() {
    run("scoped");
}
