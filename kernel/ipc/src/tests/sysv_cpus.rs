//! System V queues on several CPUs whose tasks block: see [`super::cpus`] for how a task sleeps here.

use super::cpus::{Beds, CPUS, Dice, FOREVER};
use super::*;
use crate::sysv::{Actor, Change, Ended, Limit, Namespace, Receiving, Refused, Selector, Sending, Ticket, Wake};
use core::time::Duration;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};

const MESSAGES: usize = if cfg!(miri) { 12 } else { 3_000 };

struct Player<'a> {
    task: Task,
    namespace: &'a Namespace,
    beds: &'a Beds,
    dice: Dice,
    /// Whether waits sometimes end by a signal.
    hasty: bool,
}

impl Player<'_> {
    fn actor(&self) -> Actor {
        Actor {
            task: self.task.id,
            pid: self.task.id as u32,
            now: 0,
        }
    }

    fn wake(&self, mut wake: Wake) {
        while let Some((task, more)) = self.namespace.next_to_wake(wake) {
            self.beds.wake(task);
            wake = more;
        }
    }

    /// Sleeps as the kernel would, until served or interrupted.
    fn wait(&mut self, ticket: &Ticket) {
        let hurry = self.hasty && self.dice.roll(4) == 0;
        let time = match hurry {
            true => Duration::from_micros(self.dice.roll(30)),
            false => FOREVER,
        };
        while !self.namespace.served(ticket) {
            if !self.beds.sleep(self.task.id, time) {
                let served = self.namespace.served(ticket);
                assert!(hurry || served, "task {} was never served", self.task.id);
                return;
            }
        }
    }

    fn message(&self, data: &[u8]) -> Message {
        let blank = self.namespace.alloc(&self.task.memcg, data.len()).expect("memory");
        blank.fill(&mut &data[..]).expect("a whole source")
    }

    /// Sends, waiting as long as it takes; `Err` when the queue is gone.
    fn send(&mut self, id: i32, kind: i64, data: &[u8]) -> Result<(), Error> {
        let mut message = self.message(data);
        loop {
            let sending = self.namespace.send_or_wait(&ROOT, &self.actor(), id, kind, message);
            let ticket = match sending {
                Ok(Sending::Done(wake)) => {
                    self.wake(wake);
                    return Ok(());
                }
                Ok(Sending::Waiting(ticket)) => ticket,
                Err(not_sent) => return Err(not_sent.reason),
            };
            self.wait(&ticket);
            match self.namespace.end_wait(ticket) {
                Ended::Sent => return Ok(()),
                Ended::GivenUp(Some(back)) | Ended::Again(Some(back)) => message = back,
                Ended::Removed(Some(_)) => return Err(Error::Removed),
                ended => panic!("{ended:?}"),
            }
        }
    }

    /// Receives, waiting as long as it takes; `Err` when the queue is gone.
    fn receive(&mut self, id: i32, selector: Selector) -> Result<(Vec<u8>, i64), Error> {
        let message = loop {
            let receiving = self
                .namespace
                .receive_or_wait(&ROOT, &self.actor(), id, selector, usize::MAX);
            let ticket = match receiving? {
                Receiving::Done(received) => {
                    self.wake(received.wake);
                    break received.message;
                }
                Receiving::Waiting(ticket) => ticket,
            };
            self.wait(&ticket);
            match self.namespace.end_wait(ticket) {
                Ended::Received(message) => break message,
                Ended::GivenUp(None) | Ended::Again(None) => {}
                Ended::Removed(None) => return Err(Error::Removed),
                ended => panic!("{ended:?}"),
            }
        };
        let result = (content(&message), message.kind());
        self.namespace.free(&self.task.memcg, message.into_blank());
        Ok(result)
    }
}

fn new_queue(namespace: &Namespace, task: &Task) -> i32 {
    match namespace.get(&ROOT, &task.memcg, 0, 0o600, 0) {
        Ok(id) => id,
        Err(Refused::Error(error)) => panic!("{error:?}"),
        Err(Refused::Memory(error)) => panic!("{error:?}"),
    }
}

/// All CPUs are done: each gives back what it holds back, and once more, for what others freed of its pages.
fn settle(world: &'static World, barrier: &Barrier) {
    for _ in 0..3 {
        barrier.wait();
        world.settle_this_cpu();
    }
}

/// Half of the CPUs send to one small queue, half receive, each its own type; every message arrives once and whole, and
/// in its sender's order. Meanwhile `changes` times the queue's limit is changed.
fn do_all_messages_arrive_once(model: &'static str, hasty: bool, changes: usize) {
    let seen: Vec<_> = (0..CPUS / 2 * MESSAGES).map(|_| AtomicU8::new(0)).collect();
    let (beds, barrier) = (Beds::new(), Barrier::new(CPUS));
    cpu::host::scenario(
        CPUS,
        || {
            let world = World::of(model, false);
            let namespace: &'static Namespace = Box::leak(Box::new(Namespace::try_new(world.ipc).expect("memory")));
            namespace.limits().set(Limit::MsgMnb, 200).expect("a limit");
            let task = world.task(99);
            (world, namespace, new_queue(namespace, &task))
        },
        |cpu, &(world, namespace, id)| {
            let mut player = Player {
                task: world.task(cpu as u64 + 1),
                namespace,
                beds: &beds,
                dice: Dice(cpu as u64 * 77 + 1),
                hasty,
            };
            let pair = cpu / 2;
            barrier.wait();
            if cpu % 2 == 0 {
                for number in pair * MESSAGES..(pair + 1) * MESSAGES {
                    // To each receiver in turn.
                    let kind = (number % (CPUS / 2)) as i64 + 1;
                    player
                        .send(id, kind, &data(number as u64, 8 + number % 50))
                        .expect("a queue");
                    if changes != 0 && number % (MESSAGES / changes) == 0 {
                        let change = Change {
                            uid: 0,
                            gid: 0,
                            mode: 0o600,
                            max_bytes: 60 + player.dice.roll(200),
                        };
                        player.wake(namespace.change(&ROOT, id, &change, 0).expect("a change"));
                    }
                }
            } else {
                let mut last = HashMap::new();
                for _ in 0..MESSAGES {
                    let selector = Selector::Is(pair as i64 + 1);
                    let (bytes, kind) = player.receive(id, selector).expect("a queue");
                    assert_eq!(kind, pair as i64 + 1);
                    let number = (u64::from_le_bytes(bytes[..8].try_into().unwrap()) >> 16) as usize;
                    assert_eq!(bytes, data(number as u64, 8 + number % 50));
                    let before = seen[number].fetch_add(1, Ordering::Relaxed);
                    assert_eq!(before, 0, "message {number} came twice");
                    // One receiver of a type: nothing can overtake.
                    let before = last.insert(number / MESSAGES, number);
                    assert!(before < Some(number), "message {number} after {before:?}");
                }
            }
            barrier.wait();
            if cpu == 0 {
                let info = namespace.info();
                assert_eq!((info.queues, info.messages, info.bytes), (1, 0, 0));
                assert_eq!(namespace.waiting(id), Ok((0, 0)));
                namespace.remove_all(|task| panic!("{task} sleeps"));
            }
            drop(player);
            settle(world, &barrier);
        },
        |(world, namespace, _)| {
            let all_came = seen.iter().all(|count| count.load(Ordering::Relaxed) == 1);
            assert!(all_came, "a message is lost");
            assert_eq!(namespace.info().queues, 0);
            world.assert_clean();
        },
    );
}

#[test]
fn is_every_message_delivered_once_when_all_are_patient() {
    do_all_messages_arrive_once("scoped", false, 0);
}

#[test]
fn is_every_message_delivered_once_when_waits_are_interrupted_and_limits_change() {
    do_all_messages_arrive_once("scoped", true, 10);
}

#[test]
fn are_all_cgroups_free_of_charge_afterwards_under_every_model() {
    for model in MODELS {
        do_all_messages_arrive_once(model, true, 3);
    }
}

/// One CPU removes the queue and makes another, over and over; the others send and receive whatever is there.
#[test]
fn does_everybody_learn_of_a_removal_and_nothing_stays_behind() {
    let rounds = if cfg!(miri) { 3 } else { 400 };
    let (beds, barrier) = (Beds::new(), Barrier::new(CPUS));
    let (current, over) = (AtomicI32::new(-1), AtomicBool::new(false));
    let (sent, received, told, busy) = (
        AtomicU64::new(0),
        AtomicU64::new(0),
        AtomicU64::new(0),
        AtomicUsize::new(0),
    );
    cpu::host::scenario(
        CPUS,
        || {
            let world = World::of("scoped", false);
            let namespace: &'static Namespace = Box::leak(Box::new(Namespace::try_new(world.ipc).expect("memory")));
            namespace.limits().set(Limit::MsgMnb, 100).expect("a limit");
            (world, namespace)
        },
        |cpu, &(world, namespace)| {
            let mut player = Player {
                task: world.task(cpu as u64 + 1),
                namespace,
                beds: &beds,
                dice: Dice(cpu as u64 * 77 + 1),
                hasty: false,
            };
            if cpu == 0 {
                current.store(new_queue(namespace, &player.task), Ordering::Release);
            }
            barrier.wait();
            if cpu == 0 {
                for _ in 0..rounds {
                    let before = busy.load(Ordering::Relaxed);
                    while busy.load(Ordering::Relaxed) < before + 20 {
                        std::thread::yield_now();
                    }
                    let id = current.load(Ordering::Relaxed);
                    let next = new_queue(namespace, &player.task);
                    assert_ne!(next, id);
                    current.store(next, Ordering::Release);
                    player.wake(namespace.remove(&ROOT, id).expect("it is there"));
                    assert_eq!(namespace.remove(&ROOT, id), Err(Error::Invalid));
                }
                over.store(true, Ordering::Release);
                player.wake(
                    namespace
                        .remove(&ROOT, current.load(Ordering::Relaxed))
                        .expect("it is there"),
                );
            } else {
                while !over.load(Ordering::Acquire) {
                    let id = current.load(Ordering::Acquire);
                    let result = match cpu % 2 {
                        0 => player.send(id, 1, &data(1, 30)).map(|()| &sent),
                        _ => player.receive(id, Selector::Any).map(|_| &received),
                    };
                    match result {
                        Ok(count) => count.fetch_add(1, Ordering::Relaxed),
                        Err(Error::Removed) => told.fetch_add(1, Ordering::Relaxed),
                        Err(Error::Invalid) => 0,
                        Err(error) => panic!("{error:?}"),
                    };
                    busy.fetch_add(1, Ordering::Relaxed);
                }
            }
            drop(player);
            settle(world, &barrier);
        },
        |(world, namespace)| {
            let info = namespace.info();
            assert_eq!((info.queues, info.messages, info.bytes), (0, 0, 0));
            let (sent, received) = (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed));
            assert!(received > 0 && sent >= received, "{sent} sent, {received} received");
            assert!(
                told.load(Ordering::Relaxed) > 0 || cfg!(miri),
                "nobody slept through a removal"
            );
            world.assert_clean();
        },
    );
}
