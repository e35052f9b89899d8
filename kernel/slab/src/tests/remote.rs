//! Several CPUs: objects freed elsewhere than they were taken.

use super::*;
use crate::host;
use std::sync::{Barrier, Mutex};

const CPUS: usize = 4;

fn ring(model: &'static str, gfp: Gfp, sizes: &'static [usize]) {
    struct Shared {
        slab: &'static Slab,
        cgroup: &'static memcg::Cgroup,
        /// What each CPU is handed by its neighbour.
        inbox: [Mutex<Vec<Block>>; CPUS],
        before: usize,
        all_here: Barrier,
    }
    cpu::host::scenario(
        CPUS,
        || {
            let slab = slab(model);
            let cgroup = slab.accounting().create(slab.accounting().root()).unwrap();
            settle(slab);
            Shared {
                slab,
                cgroup,
                inbox: [const { Mutex::new(Vec::new()) }; CPUS],
                before: slab.active_objects(),
                all_here: Barrier::new(CPUS),
            }
        },
        |id, shared| {
            let task = TaskMemcg::new(shared.cgroup);
            let rounds = if cfg!(miri) { 12 } else { 4000 };
            for round in 0..rounds {
                let size = sizes[round % sizes.len()];
                let block = Block::new(shared.slab, size, gfp, &task, (round + id) as u8).unwrap();
                shared.inbox[(id + 1) % CPUS].lock().unwrap().push(block);
                if round % 3 == 0 {
                    let got = core::mem::take(&mut *shared.inbox[id].lock().unwrap());
                    free_all(got);
                }
                if round % 500 == 499 {
                    shared.slab.flush_this_cpu();
                    shared.slab.make_pending_copies();
                }
            }
            task.exit(shared.slab.accounting());
            shared.all_here.wait();
            free_all(core::mem::take(&mut *shared.inbox[id].lock().unwrap()));
            shared.all_here.wait();
            if id == 0 && gfp.is_empty() {
                // Exact although all CPUs still have pages.
                assert_eq!(shared.slab.active_objects(), shared.before);
            }
            for _ in 0..3 {
                shared.all_here.wait();
                settle(shared.slab);
                shared.slab.accounting().drain_this_cpu();
            }
        },
        |shared| {
            settle(shared.slab);
            if model != "page" {
                assert_eq!(shared.slab.active_objects(), shared.before);
            }
            assert_eq!(shared.cgroup.memory().usage(), 0, "{model}: pages are still charged");
        },
    );
}

#[test]
fn may_other_cpus_free_what_a_cpu_takes() {
    ring("off", Gfp::empty(), &[64]);
}

#[test]
fn may_other_cpus_free_objects_of_few_a_page() {
    ring("off", Gfp::empty(), &[4096, 1024]);
}

#[test]
fn are_charges_right_when_other_cpus_free() {
    for model in MODELS {
        ring(model, Gfp::ACCOUNT, &[304, 64, 9000]);
    }
}

#[test]
fn do_pages_come_back_from_all_cpus() {
    let frames = Mutex::new(0);
    cpu::host::scenario(
        CPUS,
        || {
            let slab = slab("off");
            settle(slab);
            *frames.lock().unwrap() = host::used_frames();
            slab
        },
        |id, slab| {
            let task = root_task(slab);
            let blocks = (0..100).map(|n| Block::new(slab, 512, Gfp::empty(), &task, (n * id) as u8).unwrap());
            free_all(blocks.collect());
            slab.flush_this_cpu();
        },
        |slab| {
            slab.shrink();
            assert_eq!(host::used_frames(), *frames.lock().unwrap());
        },
    );
}
