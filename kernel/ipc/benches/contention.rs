//! What the totals' counters cost with real atomics and real caches: the mechanism on threads of the host.
//!
//! One line each, as `key=value` words:
//! * `update`: a counter added to by so many CPUs at once, nanoseconds of the clock an addition;
//! * `pairs`: each CPU sends to a System V queue of its own and receives from it, messages a second.
//!
//! Runs of the variants take turns, `--rounds` times (7); each line is one run. No figure says anything where the host has
//! fewer CPUs than `cpus=` or other work.

use ipc::sysv::{Actor, Namespace, PRIVATE, Selector};
use ipc::{Caller, Ipc};
use memcg::TaskMemcg;
use percpu::{Counting, PercpuCounter};
use slab::Slab;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const UPDATES: u64 = 2_000_000;
const MESSAGES: u64 = 200_000;
const VARIANTS: [Counting; 3] = [Counting::Atomic, Counting::Batch(1024), Counting::Local];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments
        .iter()
        .skip_while(|word| *word != "--rounds")
        .nth(1)
        .map_or(Ok(7), |number| number.parse::<usize>())
        .expect("--rounds N");
    let host = std::thread::available_parallelism().map_or(1, usize::from);
    let counts: Vec<usize> = [1, 2, 4, 8, 16]
        .into_iter()
        .filter(|&cpus| cpus <= host.max(2))
        .collect();
    for _ in 0..rounds {
        for &cpus in &counts {
            for counting in VARIANTS {
                let ns = update(counting, cpus);
                println!("update counters={counting} cpus={cpus} ns={ns:.3}");
            }
            for counting in VARIANTS {
                let rate = pairs(counting, cpus);
                println!("pairs counters={counting} cpus={cpus} per_second={rate:.0}");
            }
        }
    }
}

/// Nanoseconds from the moment that all CPUs are there to the last one's end.
fn timed<T: Sync>(
    cpus: usize,
    before: impl FnOnce() -> T,
    work: impl Fn(usize, &T) + Sync,
    after: impl FnOnce(T),
) -> f64 {
    let (start, longest) = (Barrier::new(cpus), AtomicU64::new(0));
    cpu::host::scenario(
        cpus,
        before,
        |id, shared| {
            start.wait();
            let from = Instant::now();
            work(id, shared);
            longest.fetch_max(from.elapsed().as_nanos() as u64, Ordering::Relaxed);
        },
        after,
    );
    longest.load(Ordering::Relaxed) as f64
}

fn update(counting: Counting, cpus: usize) -> f64 {
    let ns = timed(
        cpus,
        || PercpuCounter::try_new(counting, 0).expect("space"),
        |_, counter| (0..UPDATES).for_each(|_| counter.add(1)),
        |counter| assert_eq!(counter.sum(), cpus as i64 * UPDATES as i64),
    );
    ns / (cpus as f64 * UPDATES as f64)
}

fn pairs(counting: Counting, cpus: usize) -> f64 {
    let caller = Caller::new(0, 0, true, u64::MAX);
    let ns = timed(
        cpus,
        || {
            let slab = Slab::by_name("off").expect("an allocator");
            let ipc = Ipc::try_new(slab, false, counting).expect("queues");
            let namespace = Namespace::try_new(ipc).expect("memory");
            let memcg = TaskMemcg::new(slab.accounting().root());
            let queues: Vec<i32> = (0..cpus)
                .map(|_| {
                    namespace
                        .get(&caller, &memcg, PRIVATE, 0o600, 0)
                        .unwrap_or_else(|_| panic!("a queue"))
                })
                .collect();
            (namespace, queues, slab)
        },
        |id, (namespace, queues, slab)| {
            let memcg = TaskMemcg::new(slab.accounting().root());
            let actor = Actor {
                task: id as u64 + 1,
                pid: id as u32 + 1,
                now: 0,
            };
            for _ in 0..MESSAGES {
                let blank = namespace.alloc(&memcg, 4).unwrap_or_else(|_| panic!("memory"));
                let message = blank.fill(&mut &b"data"[..]).unwrap_or_else(|_| panic!("a source"));
                if namespace.send(&caller, &actor, queues[id], 1, message).is_err() {
                    panic!("an empty queue has room");
                }
                let received = namespace.receive(&caller, &actor, queues[id], Selector::Any, 64);
                drop(received.expect("it was sent"));
            }
        },
        |(namespace, _, _)| assert_eq!(namespace.info().messages, 0),
    );
    cpus as f64 * MESSAGES as f64 * 1e9 / ns
}
