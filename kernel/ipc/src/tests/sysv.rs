//! System V queues: random histories against a model that is too simple to be wrong. Queues are lists, and the next
//! message and the next waiter are found by looking at all of them.

use super::*;
use crate::sysv::{
    Actor, CREATE, Change, EXCLUSIVE, Ended, Limit, MAX_QUEUES, Namespace, Ownership, Received, Receiving, Refused,
    Selector, Sending, Ticket, Wake,
};
use core::cell::Cell;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Histories a model of accounting, and operations a history: a million and more.
const HISTORIES: u32 = if cfg!(miri) { 1 } else { 300 };
const OPERATIONS: usize = if cfg!(miri) { 40 } else { 600 };
const TASKS: usize = 6;
/// Bytes that a new queue may hold.
const MAX_BYTES: u64 = 300;

/// A namespace of the test's own.
fn namespace(world: &'static World) -> Namespace {
    let namespace = Namespace::try_new(world.ipc).expect("memory");
    namespace
        .limits()
        .set(Limit::MsgMnb, MAX_BYTES as i64)
        .expect("a limit");
    namespace
}

fn message(namespace: &Namespace, task: &Task, data: &[u8]) -> Message {
    let blank = namespace.alloc(&task.memcg, data.len()).expect("memory");
    blank.fill(&mut &data[..]).expect("a whole source")
}

fn actor(task: &Task) -> Actor {
    Actor {
        task: task.id,
        pid: task.id as u32 + 100,
        now: 0,
    }
}

/// All tasks that an operation has served, in order.
fn woken(namespace: &Namespace, wake: Wake) -> Vec<TaskId> {
    let next = |wake: &Wake| namespace.next_to_wake(*wake);
    core::iter::successors(next(&wake), |(_, more)| next(more))
        .map(|(task, _)| task)
        .collect()
}

/// A message: its type, and what its bytes are made from.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Note {
    kind: i64,
    seed: u64,
    length: usize,
}

/// How a wait has ended, or will.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Got {
    Message(Note),
    Sent,
    TooBig,
    Again,
    Removed,
}

enum State {
    Free,
    Waiting {
        ticket: Ticket,
        /// Where.
        id: i32,
        /// What it came with.
        note: Option<Note>,
        got: Option<Got>,
    },
}

/// A queue as the model sees it.
struct List {
    id: i32,
    key: i32,
    mode: u16,
    max_bytes: u64,
    notes: Vec<Note>,
    receivers: Vec<(usize, Selector, usize)>,
    senders: Vec<(usize, Note, bool)>,
    sender: u32,
    receiver: u32,
}

impl List {
    fn bytes(&self) -> u64 {
        self.notes.iter().map(|note| note.length as u64).sum()
    }
    fn fits(&self, note: Note) -> bool {
        self.bytes() + note.length as u64 <= self.max_bytes && (self.notes.len() as u64) < self.max_bytes
    }
    fn allows(&self, task: usize, right: u16) -> bool {
        self.mode >> if owns(task) { 6 } else { 0 } & right != 0
    }
    /// Where the message is that the selector chooses.
    fn find(&self, selector: Selector) -> Option<usize> {
        let oldest = |wanted: &dyn Fn(i64) -> bool| self.notes.iter().position(|note| wanted(note.kind));
        match selector {
            Selector::Any => oldest(&|_| true),
            Selector::Is(kind) => oldest(&|other| other == kind),
            Selector::Except(kind) => oldest(&|other| other != kind),
            Selector::UpTo(highest) => {
                let lowest = self.notes.iter().map(|note| note.kind).min()?;
                oldest(&|kind| kind == lowest && kind <= highest)
            }
        }
    }
    /// A message arrives. Who is served, in order.
    fn arrive(&mut self, task: usize, note: Note) -> Vec<(usize, Got)> {
        self.sender = task as u32 + 101;
        let wants = |selector| match selector {
            Selector::Any => true,
            Selector::Is(kind) => note.kind == kind,
            Selector::Except(kind) => note.kind != kind,
            Selector::UpTo(highest) => note.kind <= highest,
        };
        let mut served = Vec::new();
        let mut at = 0;
        while at < self.receivers.len() {
            let (task, selector, room) = self.receivers[at];
            if !wants(selector) {
                at += 1;
            } else if note.length > room {
                self.receivers.remove(at);
                served.push((task, Got::TooBig));
            } else {
                self.receivers.remove(at);
                self.receiver = task as u32 + 101;
                served.push((task, Got::Message(note)));
                return served;
            }
        }
        self.notes.push(note);
        served
    }
    /// There is room: senders are let in.
    fn let_in(&mut self) -> Vec<(usize, Got)> {
        let mut served = Vec::new();
        let mut at = 0;
        while at < self.senders.len() {
            let (task, note, recheck) = self.senders[at];
            if !self.fits(note) {
                at += 1;
                continue;
            }
            self.senders.remove(at);
            if recheck {
                served.push((task, Got::Again));
            } else {
                served.push((task, Got::Sent));
                served.extend(self.arrive(task, note));
            }
        }
        served
    }
}

/// How often what happened: a history that never gets anywhere proves nothing.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    queued: u64,
    handed_over: u64,
    let_in: u64,
    too_big: u64,
    removed: u64,
    again: u64,
    given_up: u64,
    refused: u64,
    chosen: u64,
    copied: u64,
}

struct Run<'a> {
    seen: &'a Cell<Seen>,
    world: &'static World,
    namespace: Namespace,
    tasks: Vec<Task>,
    states: Vec<State>,
    lists: Vec<List>,
    seed: u64,
}

fn user(task: usize) -> Caller<'static> {
    let id = if owns(task) { 1 } else { 2 };
    Caller::new(id, id, false, 0)
}

/// Tasks are of user 1, the owner of all queues, and 2, by turns.
fn owns(task: usize) -> bool {
    task.is_multiple_of(2)
}

impl<'a> Run<'a> {
    fn new(world: &'static World, seen: &'a Cell<Seen>) -> Self {
        Run {
            seen,
            world,
            namespace: namespace(world),
            tasks: (0..TASKS).map(|task| world.task(task as u64 + 1)).collect(),
            states: (0..TASKS).map(|_| State::Free).collect(),
            lists: Vec::new(),
            seed: 0,
        }
    }

    fn note(&self, what: impl FnOnce(&mut Seen)) {
        let mut counts = self.seen.get();
        what(&mut counts);
        self.seen.set(counts);
    }

    fn step(&mut self, mut number: u64) {
        let mut digit = |below: u64| {
            let digit = number % below;
            number /= below;
            digit as usize
        };
        let what = digit(48);
        let free = |at: &usize| matches!(self.states[*at], State::Free);
        let first = digit(TASKS as u64);
        let task = (first..first + TASKS).map(|at| at % TASKS).find(free);
        let list = match self.lists.len() {
            0 => None,
            all => Some(digit(8) % all),
        };
        match (what, task, list) {
            (0..15, Some(task), Some(list)) => {
                self.seed += 1;
                let note = Note {
                    kind: match digit(10) {
                        9 => i64::MAX,
                        kind => 1 + kind as i64 % 5,
                    },
                    seed: self.seed,
                    length: match digit(8) {
                        0 => 0,
                        1 => 200 + digit(100),
                        2 => 4040 + digit(20),
                        _ => digit(80),
                    },
                };
                self.send(task, list, note, digit(2) == 0);
            }
            (15..30, Some(task), Some(list)) => {
                let kind = match digit(10) {
                    0..4 => 0,
                    4..7 => 1 + digit(5) as i64,
                    7 => i64::MIN,
                    _ => -1 - digit(5) as i64,
                };
                let selector = Selector::new(kind, digit(3) == 0);
                let room = match digit(4) {
                    0 => digit(80),
                    _ => usize::MAX,
                };
                self.receive(task, list, selector, room, digit(2) == 0);
            }
            (30..40, ..) => self.end_wait(first),
            (40 | 41, Some(task), _) => self.get(task, digit(4) as i32, digit(4) != 0, digit(4) == 0),
            (42, Some(task), Some(list)) => self.remove(task, list),
            (43 | 44, Some(task), Some(list)) => {
                let mode = [0o666, 0o600, 0o644, 0o422, 0o222, 0o666][digit(6)];
                self.change(task, list, mode, [50, 100, 300, 5000][digit(4)]);
            }
            (45, Some(task), Some(list)) => self.copy(task, list, digit(6) as i64 - 1, digit(2) == 0),
            (46, Some(task), _) => {
                let root = self.world.slab.accounting().root();
                let cgroup = self.world.cgroups.get(digit(3)).copied().unwrap_or(root);
                self.tasks[task].memcg.set_cgroup(cgroup);
            }
            (_, _, Some(list)) => self.look(list),
            _ => {}
        }
    }

    /// Notes what the model says the tasks have got, and compares with who is to be woken.
    fn served(&mut self, served: Vec<(usize, Got)>, wake: Wake) {
        let tasks: Vec<_> = served.iter().map(|&(task, _)| self.tasks[task].id).collect();
        assert_eq!(woken(&self.namespace, wake), tasks);
        for (task, what) in served {
            let State::Waiting { got, .. } = &mut self.states[task] else {
                panic!("a task that does not wait was served")
            };
            assert_eq!(got.replace(what), None, "served twice");
            self.note(|seen| match what {
                Got::Message(_) => seen.handed_over += 1,
                Got::Sent => seen.let_in += 1,
                Got::TooBig => seen.too_big += 1,
                Got::Again => seen.again += 1,
                Got::Removed => seen.removed += 1,
            });
        }
    }

    fn get(&mut self, task: usize, key: i32, create: bool, exclusive: bool) {
        let flags = if create { CREATE } else { 0 } | if exclusive { EXCLUSIVE } else { 0 } | 0o200;
        let found = self.lists.iter().position(|list| key != 0 && list.key == key);
        let result = self.namespace.get(&user(0), &self.tasks[task].memcg, key, flags, 0);
        let result = result.map_err(|refused| match refused {
            Refused::Error(error) => error,
            Refused::Memory(error) => panic!("{error:?}"),
        });
        match found {
            Some(_) if create && exclusive => assert_eq!(result, Err(Error::Exists)),
            Some(list) if !self.lists[list].allows(0, 0o2) => assert_eq!(result, Err(Error::Access)),
            Some(list) => assert_eq!(result, Ok(self.lists[list].id)),
            None if !create && key != 0 => assert_eq!(result, Err(Error::NoEntry)),
            None => {
                let id = result.expect("a queue");
                assert!(self.lists.iter().all(|list| list.id != id), "{id} is in use");
                self.lists.push(List {
                    id,
                    key,
                    mode: 0o200,
                    max_bytes: MAX_BYTES,
                    notes: Vec::new(),
                    receivers: Vec::new(),
                    senders: Vec::new(),
                    sender: 0,
                    receiver: 0,
                });
                self.change(task, self.lists.len() - 1, 0o666, MAX_BYTES);
            }
        }
    }

    fn send(&mut self, task: usize, list: usize, note: Note, wait: bool) {
        let message = message(&self.namespace, &self.tasks[task], &data(note.seed, note.length));
        let (at, who, actor) = (&mut self.lists[list], user(task), actor(&self.tasks[task]));
        let (allowed, fits) = (at.allows(task, 0o2), at.fits(note));
        let result = match wait {
            true => self.namespace.send_or_wait(&who, &actor, at.id, note.kind, message),
            false => self
                .namespace
                .send(&who, &actor, at.id, note.kind, message)
                .map(Sending::Done),
        };
        match result {
            Ok(Sending::Done(wake)) => {
                assert!(allowed && fits);
                let served = at.arrive(task, note);
                self.served(served, wake);
                self.note(|seen| seen.queued += 1);
            }
            Ok(Sending::Waiting(ticket)) => {
                assert!(allowed && !fits && wait);
                at.senders.push((task, note, false));
                self.states[task] = State::Waiting {
                    ticket,
                    id: at.id,
                    note: Some(note),
                    got: None,
                };
            }
            Err(not_sent) => {
                let expected = if allowed { Error::WouldBlock } else { Error::Access };
                assert_eq!(not_sent.reason, expected);
                assert!(!allowed || !fits && !wait);
                check(&not_sent.message, note);
                self.namespace
                    .free(&self.tasks[task].memcg, not_sent.message.into_blank());
                self.note(|seen| seen.refused += 1);
            }
        }
    }

    fn receive(&mut self, task: usize, list: usize, selector: Selector, room: usize, wait: bool) {
        let (at, who, actor) = (&mut self.lists[list], user(task), actor(&self.tasks[task]));
        let result = match wait {
            true => self.namespace.receive_or_wait(&who, &actor, at.id, selector, room),
            false => self
                .namespace
                .receive(&who, &actor, at.id, selector, room)
                .map(Receiving::Done),
        };
        if !at.allows(task, 0o4) {
            assert_eq!(result.err(), Some(Error::Access));
            return;
        }
        match (result, at.find(selector)) {
            (Ok(Receiving::Done(Received { message, wake })), Some(found)) => {
                let note = at.notes.remove(found);
                assert!(note.length <= room);
                check(&message, note);
                self.namespace.free(&self.tasks[task].memcg, message.into_blank());
                at.receiver = actor.pid;
                let served = at.let_in();
                self.served(served, wake);
                self.note(|seen| seen.chosen += u64::from(found > 0));
            }
            (Ok(Receiving::Waiting(ticket)), None) => {
                assert!(wait);
                at.receivers.push((task, selector, room));
                self.states[task] = State::Waiting {
                    ticket,
                    id: at.id,
                    note: None,
                    got: None,
                };
            }
            (Err(Error::TooBig), Some(found)) => assert!(at.notes[found].length > room),
            (Err(Error::NoMessage), None) => assert!(!wait),
            (result, found) => panic!("{result:?} where the model finds {found:?}"),
        }
    }

    fn copy(&mut self, task: usize, list: usize, index: i64, small: bool) {
        let list = &self.lists[list];
        let room = if small { 40 } else { 5000 };
        let mut into = message(&self.namespace, &self.tasks[task], &vec![0xee; room]);
        let result = self.namespace.copy(&user(task), list.id, index, room, &mut into);
        let note = usize::try_from(index).ok().and_then(|index| list.notes.get(index));
        match (list.allows(task, 0o4), note) {
            (false, _) => assert_eq!(result, Err(Error::Access)),
            (true, None) => assert_eq!(result, Err(Error::NoMessage)),
            (true, Some(note)) if note.length > room => assert_eq!(result, Err(Error::TooBig)),
            (true, Some(note)) => {
                assert_eq!(result, Ok((note.length, note.kind)));
                let mut expected = data(note.seed, note.length);
                expected.resize(room, 0xee);
                assert_eq!(content(&into), expected);
                self.note(|seen| seen.copied += 1);
            }
        }
    }

    fn change(&mut self, task: usize, list: usize, mode: u16, max_bytes: u64) {
        let at = &mut self.lists[list];
        let change = Change {
            uid: 1,
            gid: 1,
            mode: mode.into(),
            max_bytes,
        };
        let result = self.namespace.change(&user(task), at.id, &change, 0);
        if !owns(task) || max_bytes > MAX_BYTES {
            assert_eq!(result, Err(Error::NotPermitted));
            // Somebody may.
            let wake = self.namespace.change(&ROOT, at.id, &change, 0).expect("a change");
            return self.changed(list, mode, max_bytes, wake);
        }
        self.changed(list, mode, max_bytes, result.expect("a change"));
    }

    fn changed(&mut self, list: usize, mode: u16, max_bytes: u64, wake: Wake) {
        let at = &mut self.lists[list];
        (at.mode, at.max_bytes) = (mode, max_bytes);
        let mut served: Vec<_> = at.receivers.drain(..).map(|(task, ..)| (task, Got::Again)).collect();
        let (fitting, mut others): (Vec<_>, Vec<_>) = core::mem::take(&mut at.senders)
            .into_iter()
            .partition(|&(_, note, _)| at.fits(note));
        others.iter_mut().for_each(|(_, _, recheck)| *recheck = true);
        at.senders = others;
        served.extend(fitting.into_iter().map(|(task, ..)| (task, Got::Again)));
        self.served(served, wake);
    }

    fn remove(&mut self, task: usize, list: usize) {
        let result = self.namespace.remove(&user(task), self.lists[list].id);
        let Ok(wake) = result else {
            assert_eq!((result, owns(task)), (Err(Error::NotPermitted), false));
            return;
        };
        assert!(owns(task));
        let list = self.lists.remove(list);
        let receivers = list.receivers.iter().map(|&(task, ..)| task);
        let senders = list.senders.iter().map(|&(task, ..)| task);
        let served = receivers.chain(senders).map(|task| (task, Got::Removed)).collect();
        self.served(served, wake);
        assert_eq!(self.namespace.status(&ROOT, list.id), Err(Error::Invalid));
    }

    fn end_wait(&mut self, task: usize) {
        let State::Waiting { ticket, id, note, got } = core::mem::replace(&mut self.states[task], State::Free) else {
            return;
        };
        assert_eq!(self.namespace.served(&ticket), got.is_some());
        // One that is to try again may find that there is no queue any more.
        let got = got.map(|got| match got {
            Got::Again if self.lists.iter().all(|list| list.id != id) => Got::Removed,
            got => got,
        });
        match (self.namespace.end_wait(ticket), got) {
            (Ended::Received(message), Some(Got::Message(note))) => {
                check(&message, note);
                self.namespace.free(&self.tasks[task].memcg, message.into_blank());
            }
            (Ended::Sent, Some(Got::Sent)) | (Ended::TooBig, Some(Got::TooBig)) => {}
            (Ended::Again(back), Some(Got::Again)) | (Ended::Removed(back), Some(Got::Removed)) => {
                assert_eq!(back.is_some(), note.is_some());
                back.iter().zip(note).for_each(|(message, note)| check(message, note));
            }
            (Ended::GivenUp(back), None) => {
                assert_eq!(back.is_some(), note.is_some());
                back.iter().zip(note).for_each(|(message, note)| check(message, note));
                for list in &mut self.lists {
                    list.receivers.retain(|&(other, ..)| other != task);
                    list.senders.retain(|&(other, ..)| other != task);
                }
                self.note(|seen| seen.given_up += 1);
            }
            (ended, got) => panic!("{ended:?} where the model has {got:?}"),
        }
    }

    fn look(&self, list: usize) {
        let list = &self.lists[list];
        let status = self.namespace.status(&ROOT, list.id).expect("it is there");
        let ownership = Ownership {
            uid: 1,
            gid: 1,
            cuid: 1,
            cgid: 1,
            mode: list.mode,
        };
        assert_eq!(
            (status.id, status.key, status.ownership),
            (list.id, list.key, ownership)
        );
        assert_eq!((status.messages, status.bytes), (list.notes.len() as u64, list.bytes()));
        assert_eq!((status.sender, status.receiver), (list.sender, list.receiver));
        assert_eq!(status.max_bytes, list.max_bytes);
        assert_eq!(self.namespace.status_at(None, list.id as u32), Ok(status));
        assert_eq!(
            self.namespace.waiting(list.id),
            Ok((list.receivers.len(), list.senders.len()))
        );
        let info = self.namespace.info();
        assert_eq!(info.queues as usize, self.lists.len());
        assert_eq!(
            info.messages as usize,
            self.lists.iter().map(|list| list.notes.len()).sum()
        );
        assert_eq!(info.bytes, self.lists.iter().map(List::bytes).sum());
        let highest = self.lists.iter().map(|list| list.id as u32 % MAX_QUEUES).max();
        assert_eq!(Some(info.highest_index), highest);
    }

    fn finish(mut self) {
        (0..TASKS).for_each(|task| self.end_wait(task));
        (0..self.lists.len()).for_each(|list| self.look(list));
        let Run {
            namespace,
            tasks,
            lists,
            world,
            ..
        } = self;
        // Half of them are removed by hand, the others end with the namespace.
        if lists.len() % 2 == 0 {
            namespace.remove_all(|task| panic!("{task} sleeps"));
            let info = namespace.info();
            assert_eq!((info.queues, info.messages, info.bytes), (0, 0, 0));
        }
        drop((namespace, tasks));
        world.assert_clean();
    }
}

#[track_caller]
fn check(message: &Message, note: Note) {
    assert_eq!(message.kind(), note.kind);
    assert_eq!(
        content(message),
        data(note.seed, note.length),
        "another message's bytes"
    );
}

#[test]
fn does_any_history_go_as_the_simple_model_says() {
    cpu::host::single(|| {
        for model in MODELS {
            let world = World::of(model, false);
            let config = Config {
                cases: HISTORIES,
                failure_persistence: None,
                ..Config::default()
            };
            let seen = Cell::new(Seen::default());
            let history = prop::collection::vec(any::<u64>(), OPERATIONS);
            let result = TestRunner::new_with_rng(config, property::rng(model)).run(&history, |numbers| {
                let mut run = Run::new(world, &seen);
                numbers.into_iter().for_each(|number| run.step(number));
                run.finish();
                Ok(())
            });
            if let Err(error) = result {
                panic!("{model}: {error}");
            }
            let Seen {
                queued,
                handed_over,
                let_in,
                too_big,
                removed,
                again,
                given_up,
                refused,
                chosen,
                copied,
            } = seen.get();
            let all = [
                queued,
                handed_over,
                let_in,
                too_big,
                removed,
                again,
                given_up,
                refused,
                chosen,
                copied,
            ];
            assert!(
                all.iter().all(|&count| count > 100) || cfg!(miri),
                "{model}: {:?}",
                seen.get()
            );
        }
    });
}

#[test]
fn is_a_queue_without_memory_refused_and_the_next_one_made() {
    once(|world| {
        let (namespace, task) = (namespace(world), world.task(1));
        world.settle_this_cpu();
        let get = || namespace.get(&ROOT, &task.memcg, 5, CREATE | 0o600, 0);
        assert!(matches!(slab::host::with_pages_left(0, get), Err(Refused::Memory(_))));
        assert_eq!(namespace.info().queues, 0);
        let id = get().expect("memory");
        assert_eq!(get().ok(), Some(id));
        assert!(namespace.remove(&ROOT, id).is_ok());
    });
}

#[test]
fn is_a_sleeper_told_of_the_removal_when_its_queues_id_is_another_ones() {
    once(|world| {
        let (namespace, task) = (namespace(world), world.task(1));
        let id = namespace.get(&ROOT, &task.memcg, 0, 0o600, 0).expect("a queue");
        let receiving = namespace.receive_or_wait(&ROOT, &actor(&task), id, Selector::Any, 10);
        let Ok(Receiving::Waiting(ticket)) = receiving else {
            panic!("{receiving:?}")
        };
        assert_eq!(woken(&namespace, namespace.remove(&ROOT, id).unwrap()), [1]);
        namespace.limits().set(Limit::NextId, id.into()).unwrap();
        let again = namespace.get(&ROOT, &task.memcg, 0, 0o600, 0).expect("a queue");
        assert_eq!(again, id);
        assert_eq!(namespace.limits().get(Limit::NextId) as i32, -1, "it is asked for once");
        let sent = namespace.send(&ROOT, &actor(&task), id, 1, message(&namespace, &task, b"new"));
        assert_eq!(sent.expect("room"), Wake::default());
        assert!(namespace.served(&ticket));
        assert!(matches!(namespace.end_wait(ticket), Ended::Removed(None)));
        namespace.remove_all(|task| panic!("{task} sleeps"));
    });
}
