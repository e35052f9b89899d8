//! Tasks on several CPUs that block. A task sleeps by parking its thread; to wake a task is to unpark it, remembered if
//! it does not sleep yet: as the kernel does it.

use super::*;
use crate::mqueue::{Ended, Receiving, Sending, Waiter};
use std::sync::Barrier;
use std::sync::Condvar;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

pub(super) const CPUS: usize = 8;
const MESSAGES: usize = if cfg!(miri) { 20 } else { 4_000 };
/// Longer than any honest wait.
pub(super) const FOREVER: Duration = Duration::from_secs(60);

/// Where the tasks sleep: a remembered wake-up each. Task `n` + 1 runs on CPU `n`.
pub(super) struct Beds(Vec<(Mutex<bool>, Condvar)>);

impl Beds {
    pub(super) fn new() -> Beds {
        Beds((0..CPUS).map(|_| Default::default()).collect())
    }
    pub(super) fn wake(&self, task: TaskId) {
        let (woken, bell) = &self.0[task as usize - 1];
        *woken.lock().unwrap() = true;
        bell.notify_one();
    }
    /// Sleeps until woken or out of time; tells whether woken.
    pub(super) fn sleep(&self, task: TaskId, time: Duration) -> bool {
        let (woken, bell) = &self.0[task as usize - 1];
        let (mut woken, _) = bell
            .wait_timeout_while(woken.lock().unwrap(), time, |woken| !*woken)
            .unwrap();
        core::mem::take(&mut *woken)
    }
}

/// A small generator of numbers, for each CPU its own.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

struct Actor<'a> {
    task: Task,
    beds: &'a Beds,
    dice: Dice,
    /// Whether waits sometimes end by timeout.
    hasty: bool,
}

impl Actor<'_> {
    fn waiter(&mut self) -> Waiter {
        Waiter {
            task: self.task.id,
            priority: self.dice.roll(2) as i32,
        }
    }

    /// Sleeps as the kernel would, until served or out of time.
    fn wait(&mut self, served: impl Fn() -> bool) {
        let hurry = self.hasty && self.dice.roll(4) == 0;
        let time = if hurry {
            Duration::from_micros(self.dice.roll(30))
        } else {
            FOREVER
        };
        while !served() {
            if !self.beds.sleep(self.task.id, time) {
                assert!(
                    hurry || served(),
                    "task {} was served and not woken, or never served",
                    self.task.id
                );
                return;
            }
        }
    }

    /// Sends, waiting as long as it takes.
    fn send(&mut self, queue: &Queue, data: &[u8], priority: u32) {
        let mut message = self.task.message(queue, data);
        loop {
            let waiter = self.waiter();
            match queue.send_or_wait(message, priority, waiter).expect("memory") {
                Sending::Done(Sent::HandedOver { wake }) => return self.beds.wake(wake),
                Sending::Done(Sent::Queued { .. }) => return,
                Sending::Waiting(ticket) => {
                    self.wait(|| queue.served(&ticket));
                    match queue.end_wait(ticket) {
                        Ended::Sent => return,
                        Ended::GivenUp(Some(back)) => message = back,
                        ended => panic!("{ended:?}"),
                    }
                }
            }
        }
    }

    /// Receives, waiting as long as it takes.
    fn receive(&mut self, queue: &Queue) -> (Vec<u8>, i64) {
        loop {
            let waiter = self.waiter();
            match queue.receive_or_wait(waiter).expect("memory") {
                Receiving::Done(received) => {
                    received.wake.into_iter().for_each(|task| self.beds.wake(task));
                    return self.task.consume(queue, received.message);
                }
                Receiving::Waiting(ticket) => {
                    self.wait(|| queue.served(&ticket));
                    match queue.end_wait(ticket) {
                        Ended::Received(message) => return self.task.consume(queue, message),
                        Ended::GivenUp(None) => {}
                        ended => panic!("{ended:?}"),
                    }
                }
            }
        }
    }
}

/// Half of the CPUs send, half receive, on one queue; every message arrives once, whole, and in its sender's order.
fn do_all_messages_arrive_once(model: &'static str, cache: bool, capacity: i64, hasty: bool, priorities: u64) {
    let seen: Vec<_> = (0..CPUS / 2 * MESSAGES).map(|_| AtomicU8::new(0)).collect();
    let (beds, barrier, first) = (Beds::new(), Barrier::new(CPUS), AtomicUsize::new(0));
    cpu::host::scenario(
        CPUS,
        || {
            let world = World::of(model, cache);
            (world, world.open("q", capacity, 64))
        },
        |id, (world, queue)| {
            let mut actor = Actor {
                task: world.task(id as u64 + 1),
                beds: &beds,
                dice: Dice(id as u64 * 77 + 1),
                hasty,
            };
            barrier.wait();
            if id % 2 == 0 {
                for number in id / 2 * MESSAGES..(id / 2 + 1) * MESSAGES {
                    let priority = actor.dice.roll(priorities) as u32;
                    actor.send(queue, &data(number as u64, 8 + number % 50), priority);
                }
            } else {
                // The last of each sender and priority that came here.
                let mut last = HashMap::new();
                for _ in 0..MESSAGES {
                    let (bytes, priority) = actor.receive(queue);
                    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    let number = (word >> 16) as usize;
                    assert_eq!(bytes, data(number as u64, 8 + number % 50));
                    assert_eq!(
                        seen[number].fetch_add(1, Ordering::Relaxed),
                        0,
                        "message {number} came twice"
                    );
                    // A message may overtake others only by priority.
                    if !hasty {
                        let before = last.insert((number / MESSAGES, priority), number);
                        assert!(before < Some(number), "message {number} after {before:?}");
                    }
                }
            }
            drop(actor);
            // All are done: each CPU gives back what it holds back, and once more, for what others freed of its pages.
            for _ in 0..3 {
                barrier.wait();
                if first.fetch_add(1, Ordering::Relaxed) == 0 {
                    assert_eq!((queue.len(), queue.waiting()), (0, (0, 0)));
                    world.unlink("q");
                }
                cpu::without_preemption(|pinned| queue.cache().drain_this_cpu(pinned, |_| true));
                world.settle_this_cpu();
            }
        },
        |(world, queue)| {
            drop(queue);
            assert!(
                seen.iter().all(|count| count.load(Ordering::Relaxed) == 1),
                "a message is lost"
            );
            world.assert_clean();
        },
    );
}

#[test]
fn is_every_message_delivered_once_when_all_are_patient() {
    do_all_messages_arrive_once("scoped", true, 1, false, 1);
    do_all_messages_arrive_once("scoped", false, 10, false, 5);
}

#[test]
fn is_every_message_delivered_once_when_waits_time_out() {
    do_all_messages_arrive_once("scoped", true, 2, true, 3);
    do_all_messages_arrive_once("scoped", true, 1, true, 1);
}

#[test]
fn are_all_cgroups_free_of_charge_afterwards_under_every_model() {
    for model in MODELS {
        do_all_messages_arrive_once(model, true, 3, true, 2);
    }
}

#[test]
fn do_cpus_that_open_and_unlink_one_name_agree() {
    let (winners, opens, barrier) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(CPUS));
    let rounds = if cfg!(miri) { 3 } else { 300 };
    cpu::host::scenario(
        CPUS,
        || World::of("scoped", true),
        |id, world| {
            for round in 0..rounds {
                let exclusive = round % 2 == 0;
                let how = Some(Create {
                    exclusive,
                    ..create(None).expect("how")
                });
                barrier.wait();
                match world.namespace.open(&ROOT, b"q", Some(Access::all()), how) {
                    Ok(queue) => {
                        winners.fetch_add(1, Ordering::Relaxed);
                        opens.fetch_add(queue.number() as usize, Ordering::Relaxed);
                    }
                    Err(error) => assert_eq!(error, Error::Exists),
                }
                barrier.wait();
                if id == 0 {
                    let number = world.namespace.find(b"q").unwrap().number() as usize;
                    let won = winners.swap(0, Ordering::Relaxed);
                    assert_eq!(won, if exclusive { 1 } else { CPUS });
                    assert_eq!(opens.swap(0, Ordering::Relaxed), won * number, "all in one queue");
                }
                barrier.wait();
                // One of them finds the name.
                winners.fetch_add(
                    usize::from(world.namespace.unlink(&ROOT, b"q").is_ok()),
                    Ordering::Relaxed,
                );
                barrier.wait();
                if id == 0 {
                    assert_eq!(winners.swap(0, Ordering::Relaxed), 1);
                }
            }
            for _ in 0..2 {
                barrier.wait();
                world.settle_this_cpu();
            }
        },
        World::assert_clean,
    );
}
