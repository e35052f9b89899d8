//! Random histories against a model that is too simple to be wrong: queues are lists, the next message and the next
//! waiter are found by looking at all of them.

use super::history::{List, MESSAGE_SIZE, NAMES, Note, Op, TASKS, op};
use super::*;
use crate::mqueue::{Ended, How, NotSent, Receiving, Registration, Sending, Ticket, Waiter};
use core::cell::Cell;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Histories a world, and operations a history.
const HISTORIES: u32 = if cfg!(miri) { 1 } else { 280 };
const OPERATIONS: usize = if cfg!(miri) { 40 } else { 600 };

/// What a task does.
enum State {
    Free,
    /// Waits at an open description; what the model says it has got.
    Waiting {
        open: usize,
        ticket: Ticket,
        got: Option<Got>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Got {
    Message(Note),
    Sent,
}

/// How often what happened: a history that never gets anywhere proves nothing.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    queued: u64,
    handed_over: u64,
    let_in: u64,
    full: u64,
    no_memory: u64,
    given_up: u64,
    notified: u64,
}

struct Run<'a> {
    seen: &'a Cell<Seen>,
    world: &'static World,
    tasks: Vec<Task>,
    states: Vec<State>,
    opens: Vec<Option<(Handle, usize)>>,
    lists: Vec<List>,
    seed: u64,
}

impl<'a> Run<'a> {
    fn new(world: &'static World, seen: &'a Cell<Seen>) -> Self {
        Run {
            seen,
            world,
            tasks: (0..TASKS).map(|task| world.task(task as u64 + 1)).collect(),
            states: (0..TASKS).map(|_| State::Free).collect(),
            opens: (0..8).map(|_| None).collect(),
            lists: Vec::new(),
            seed: 0,
        }
    }

    fn note(seen: &Cell<Seen>, what: impl FnOnce(&mut Seen)) {
        let mut counts = seen.get();
        what(&mut counts);
        seen.set(counts);
    }

    /// The list with this name.
    fn named(&self, name: usize) -> Option<usize> {
        self.lists.iter().position(|list| list.name == Some(name))
    }

    /// The first open description from `open` on, around.
    fn some_open(&self, open: usize) -> Option<usize> {
        let all = self.opens.len();
        (open..open + all)
            .map(|at| at % all)
            .find(|&at| self.opens[at].is_some())
    }

    /// The first free task from `task` on, around.
    fn some_task(&self, task: usize) -> Option<usize> {
        let free = |at: &usize| matches!(self.states[*at], State::Free);
        (task..task + TASKS).map(|at| at % TASKS).find(free)
    }

    fn busy(&self, open: usize) -> bool {
        let waits_at = |state: &State| matches!(state, State::Waiting { open: at, .. } if *at == open);
        self.states.iter().any(waits_at)
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Open {
                name,
                create,
                exclusive,
                max,
            } => self.open(name, create, exclusive, max),
            Op::Close { open } => {
                // A task that waits holds the description: the close comes with the end of its call.
                if !self.busy(open)
                    && let Some((handle, list)) = self.opens[open].take()
                {
                    drop(handle);
                    self.lists[list].opens -= 1;
                }
            }
            Op::Unlink { name } => {
                let expected = self.named(name).ok_or(Error::NoEntry);
                let result = self.world.namespace.unlink(&ROOT, NAMES[name].as_bytes());
                assert_eq!(result, expected.map(|list| self.lists[list].name = None));
            }
            Op::Send {
                task,
                open,
                priority,
                length,
                wait,
                memory,
            } => {
                if let (Some(task), Some(open)) = (self.some_task(task), self.some_open(open)) {
                    self.seed += 1;
                    let note = Note {
                        priority,
                        seed: self.seed,
                        length,
                    };
                    self.send(task, open, note, wait, memory);
                }
            }
            Op::Receive { task, open, wait } => {
                if let (Some(task), Some(open)) = (self.some_task(task), self.some_open(open)) {
                    self.receive(task, open, wait);
                }
            }
            Op::EndWait { task } => self.end_wait(task),
            Op::Register { open, process } => {
                if let Some((queue, list)) = &self.opens[open] {
                    let registration = Registration {
                        process,
                        program: 0,
                        how: How::None,
                    };
                    let registered = &mut self.lists[*list].registered;
                    let expected = if registered.is_none() { Ok(()) } else { Err(Error::Busy) };
                    assert_eq!(queue.register(registration), expected);
                    registered.get_or_insert(process);
                }
            }
            Op::Unregister { open, process } => {
                if let Some((queue, list)) = &self.opens[open] {
                    let ended = queue.unregister(process).map(|registration| registration.process);
                    assert_eq!(ended, self.lists[*list].registered.take_if(|owner| *owner == process));
                }
            }
            Op::Move { task, cgroup } => {
                let root = self.world.slab.accounting().root();
                self.tasks[task]
                    .memcg
                    .set_cgroup(self.world.cgroups.get(cgroup).unwrap_or(&root));
            }
            Op::Drain { cgroup } => {
                self.world.namespace.drain_caches_this_cpu(|owner| owner == cgroup);
            }
            Op::Look { open } => self.look(open),
        }
    }

    fn open(&mut self, name: usize, create: bool, exclusive: bool, max: i64) {
        let Some(slot) = self.opens.iter().position(Option::is_none) else {
            return;
        };
        let how = create.then_some(Create {
            exclusive,
            mode: 0o600,
            attributes: Some(Claim {
                max_messages: max,
                message_size: MESSAGE_SIZE as i64,
            }),
        });
        let result = self
            .world
            .namespace
            .open(&ROOT, NAMES[name].as_bytes(), Some(Access::all()), how);
        let list = match (self.named(name), create) {
            (Some(_), true) if exclusive => Err(Error::Exists),
            (Some(list), _) => Ok(list),
            (None, false) => Err(Error::NoEntry),
            (None, true) => {
                self.lists.push(List {
                    name: Some(name),
                    max: max as usize,
                    ..List::default()
                });
                Ok(self.lists.len() - 1)
            }
        };
        match (result, list) {
            (Ok(handle), Ok(list)) => {
                assert_eq!(handle.attributes().max_messages as usize, self.lists[list].max);
                self.lists[list].opens += 1;
                self.opens[slot] = Some((handle, list));
            }
            (result, list) => assert_eq!(result.err(), list.err()),
        }
    }

    fn send(&mut self, task: usize, open: usize, note: Note, wait: bool, memory: bool) {
        let Run {
            seen,
            world,
            tasks,
            states,
            opens,
            lists,
            ..
        } = self;
        let (queue, list) = opens[open].as_ref().expect("it is open");
        let (list, sender) = (&mut lists[*list], &tasks[task]);
        let message = sender.message(queue, &data(note.seed, note.length));
        let waiter = Waiter {
            task: sender.id,
            priority: (task % 2) as i32,
        };
        let full = list.notes.len() == list.max;
        let call = || match wait {
            true => queue.send_or_wait(message, note.priority, waiter),
            false => queue.send(message, note.priority).map(Sending::Done),
        };
        let result = match memory {
            true => call(),
            false => {
                // No free object is at hand, and no page is to be had.
                world.slab.flush_this_cpu();
                world.slab.shrink();
                slab::host::with_pages_left(0, call)
            }
        };
        match result {
            Ok(Sending::Waiting(ticket)) => {
                assert!(full && wait);
                list.senders.push((task, note));
                states[task] = State::Waiting {
                    open,
                    ticket,
                    got: None,
                };
            }
            Ok(Sending::Done(Sent::HandedOver { wake })) => {
                let served = List::next(&mut list.receivers, |&task| task).expect("a receiver waits");
                assert_eq!(wake, tasks[served].id);
                assert!(list.notes.is_empty());
                give(states, served, Got::Message(note));
                Run::note(seen, |seen| seen.handed_over += 1);
            }
            Ok(Sending::Done(Sent::Queued { notify, wake_pollers })) => {
                assert!(!full && list.receivers.is_empty() && !wake_pollers);
                list.notes.push(note);
                let expected = if list.notes.len() == 1 {
                    list.registered.take()
                } else {
                    None
                };
                assert_eq!(notify.map(|registration| registration.process), expected);
                Run::note(seen, |seen| {
                    seen.queued += 1;
                    seen.notified += u64::from(expected.is_some());
                });
            }
            Err(NotSent { reason, message }) => {
                let expected = if full && !wait {
                    Error::WouldBlock
                } else {
                    Error::NoMemory
                };
                assert_eq!(reason, expected);
                Run::note(seen, |seen| match reason {
                    Error::NoMemory => seen.no_memory += 1,
                    _ => seen.full += 1,
                });
                assert!(reason == Error::WouldBlock || !memory, "memory was there");
                assert_eq!(sender.consume(queue, message).0, data(note.seed, note.length));
            }
        }
    }

    fn receive(&mut self, task: usize, open: usize, wait: bool) {
        let Run {
            seen,
            tasks,
            states,
            opens,
            lists,
            ..
        } = self;
        let (queue, list) = opens[open].as_ref().expect("it is open");
        let (list, receiver) = (&mut lists[*list], &tasks[task]);
        let waiter = Waiter {
            task: receiver.id,
            priority: (task % 2) as i32,
        };
        let result = match wait {
            true => queue.receive_or_wait(waiter),
            false => queue.receive().map(Receiving::Done),
        };
        match result {
            Ok(Receiving::Waiting(ticket)) => {
                assert!(wait && list.notes.is_empty());
                list.receivers.push(task);
                states[task] = State::Waiting {
                    open,
                    ticket,
                    got: None,
                };
            }
            Ok(Receiving::Done(received)) => {
                check(receiver, queue, received.message, list.take());
                let served = List::next(&mut list.senders, |&(task, _)| task);
                assert_eq!(received.wake, served.map(|(task, _)| tasks[task].id));
                if let Some((served, note)) = served {
                    list.notes.push(note);
                    give(states, served, Got::Sent);
                    Run::note(seen, |seen| seen.let_in += 1);
                }
            }
            Err(error) => {
                assert_eq!(error, Error::WouldBlock);
                assert!(!wait && list.notes.is_empty());
            }
        }
    }

    fn end_wait(&mut self, task: usize) {
        let State::Waiting { open, ticket, got } = core::mem::replace(&mut self.states[task], State::Free) else {
            return;
        };
        let (queue, list) = self.opens[open].as_ref().expect("it is open");
        let list = &mut self.lists[*list];
        assert_eq!(queue.served(&ticket), got.is_some());
        match (queue.end_wait(ticket), got) {
            (Ended::Received(message), Some(Got::Message(note))) => check(&self.tasks[task], queue, message, note),
            (Ended::Sent, Some(Got::Sent)) => {}
            (Ended::GivenUp(None), None) => {
                Run::note(self.seen, |seen| seen.given_up += 1);
                let before = list.receivers.len();
                list.receivers.retain(|&other| other != task);
                assert_eq!(list.receivers.len(), before - 1);
            }
            (Ended::GivenUp(Some(message)), None) => {
                Run::note(self.seen, |seen| seen.given_up += 1);
                let at = list
                    .senders
                    .iter()
                    .position(|&(other, _)| other == task)
                    .expect("it waits");
                let (_, note) = list.senders.remove(at);
                check(&self.tasks[task], queue, message, note);
            }
            (ended, got) => panic!("{ended:?} where the model has {got:?}"),
        }
    }

    fn look(&self, open: usize) {
        let Some((queue, list)) = &self.opens[open] else { return };
        let list = &self.lists[*list];
        assert_eq!(queue.len() as usize, list.notes.len());
        assert_eq!(queue.is_linked(), list.name.is_some());
        assert_eq!(queue.waiting(), (list.receivers.len(), list.senders.len()));
        let status = queue.status();
        assert_eq!(
            status.bytes as usize,
            list.notes.iter().map(|note| note.length).sum::<usize>()
        );
        assert_eq!(status.process, list.registered);
        let live = self.lists.iter().filter(|list| list.name.is_some() || list.opens > 0);
        assert_eq!(self.world.namespace.len(), live.count());
    }

    fn finish(mut self) {
        (0..TASKS).for_each(|task| self.end_wait(task));
        (0..self.opens.len()).for_each(|open| self.look(open));
        self.opens.clear();
        for list in 0..self.lists.len() {
            if let Some(name) = self.lists[list].name {
                self.world.unlink(NAMES[name]);
            }
        }
        drop(self.tasks);
        self.world.assert_clean();
    }
}

fn give(states: &mut [State], task: usize, what: Got) {
    let State::Waiting { got, .. } = &mut states[task] else {
        panic!("a task that does not wait was served")
    };
    assert_eq!(got.replace(what), None, "served twice");
}

#[track_caller]
fn check(task: &Task, queue: &Queue, message: Message, note: Note) {
    let (bytes, kind) = task.consume(queue, message);
    assert_eq!(kind, i64::from(note.priority));
    assert_eq!(bytes, data(note.seed, note.length), "another message's bytes");
}

#[test]
fn does_any_history_go_as_the_simple_model_says() {
    cpu::host::single(|| {
        for (model, cache) in MODELS
            .into_iter()
            .zip([true, false].into_iter().cycle())
            .chain([("scoped", true)])
        {
            let world = World::of(model, cache);
            let config = Config {
                cases: HISTORIES,
                failure_persistence: None,
                ..Config::default()
            };
            let seen = Cell::new(Seen::default());
            let history = prop::collection::vec(any::<u64>(), OPERATIONS);
            let result = TestRunner::new_with_rng(config, rng(model)).run(&history, |ops| {
                let mut run = Run::new(world, &seen);
                ops.into_iter().for_each(|number| run.step(op(number)));
                run.finish();
                Ok(())
            });
            if let Err(error) = result {
                panic!("{model}: {error}");
            }
            // Whether memory is wanting is up to what earlier tests left on partial lists: not judged.
            let seen = seen.get();
            let common = [
                seen.queued,
                seen.handed_over,
                seen.let_in,
                seen.full,
                seen.given_up,
                seen.notified,
            ];
            assert!(
                common.iter().all(|&count| count > 100) || cfg!(miri),
                "{model}: {seen:?}"
            );
        }
    });
}

/// The same histories every time, others for each model.
pub(super) fn rng(model: &str) -> proptest::test_runner::TestRng {
    let mut seed = [7; 32];
    seed[..model.len()].copy_from_slice(model.as_bytes());
    proptest::test_runner::TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed)
}
