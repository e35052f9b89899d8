//! Who waits at a queue: a line of receivers, one of senders, and one of those whose wait is over.
//!
//! The first two lines are ordered by the tasks' scheduling priority, then by arrival. A waiter is served by whoever makes
//! that possible: a sender puts its message into the receiver's place, a receiver takes the message from the sender's
//! place. A served waiter leaves the line at once, so that the next event finds the next waiter; its place stays until
//! the task comes for it with its [`Ticket`].
//!
//! An event that serves one waiter names its task at once ([`Waiters::serve`]). One that may serve many, of which nobody
//! can say how many, puts them into the third line ([`Waiters::serve_at`]), from which their tasks are taken one by one
//! to be woken ([`Waiters::pop_served`]): outside of the queue's lock, and without memory for a list of them.
//!
//! Places are slots of one vector, linked by index: no pointer to a task is kept, only its identity, and a task that
//! has gone cannot be touched. The vector grows only when a task begins to wait, and then the failure is that task's.
//!
//! **Lock order.** All of it is guarded by the queue's lock.

use crate::{Error, TaskId};
use alloc::vec::Vec;

/// No slot.
const NONE: u32 = u32::MAX;
/// Slots kept when nobody waits, so that the next wait allocates nothing.
const KEPT: usize = 16;

/// A task that is willing to wait.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// The task, as outcomes name it when it is to be woken.
    pub task: TaskId,
    /// Its scheduling priority as Linux counts it inside: lower is more urgent.
    pub priority: i32,
}

/// The right to one place in a line, and the duty to give it back with `end_wait`.
///
/// Bound to its queue by the kernel, which keeps both in one sleeping system call.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place in a line is given back with end_wait"]
pub struct Ticket {
    slot: u32,
    /// The slot's count of uses: a ticket that was used twice would show.
    serial: u32,
}

/// A waiter in a line, as long as the lines are not changed but by serving others.
#[derive(Clone, Copy)]
pub(crate) struct At(u32);

struct Slot<P> {
    /// What the waiter's place holds; `None` while nobody has it.
    place: Option<P>,
    task: TaskId,
    priority: i32,
    serial: u32,
    /// The line that it is in.
    line: Option<Side>,
    previous: u32,
    /// The next in line, or the next free slot.
    next: u32,
}

#[derive(Clone, Copy)]
struct Line {
    head: u32,
    tail: u32,
}

/// Which line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Receivers,
    Senders,
    /// Their wait is over, and nobody has been told to wake them yet.
    Served,
}

/// The lines of a queue; `P` is what a place can hold.
pub(crate) struct Waiters<P> {
    lines: [Line; 3],
    slots: Vec<Slot<P>>,
    /// First free slot.
    free: u32,
    /// Slots in use.
    used: u32,
}

impl<P> Waiters<P> {
    pub(crate) const fn new() -> Waiters<P> {
        const EMPTY: Line = Line { head: NONE, tail: NONE };
        Waiters {
            lines: [EMPTY; 3],
            slots: Vec::new(),
            free: NONE,
            used: 0,
        }
    }

    /// Whether nobody is in that line.
    #[inline(always)]
    pub(crate) fn is_empty(&self, side: Side) -> bool {
        self.lines[side as usize].head == NONE
    }

    /// Whether no place is in use: neither in a line nor left by one who was served and has not come yet.
    pub(crate) fn is_unused(&self) -> bool {
        self.used == 0
    }

    /// Number of tasks in a line.
    pub(crate) fn len(&self, side: Side) -> usize {
        core::iter::successors(self.first(side), |&at| self.after(at)).count()
    }

    /// The first of a line.
    pub(crate) fn first(&self, side: Side) -> Option<At> {
        Some(self.lines[side as usize].head).filter(|&at| at != NONE).map(At)
    }

    /// The next in the same line.
    pub(crate) fn after(&self, at: At) -> Option<At> {
        Some(self.slots[at.0 as usize].next).filter(|&at| at != NONE).map(At)
    }

    /// What the place of one in line holds.
    pub(crate) fn place(&self, at: At) -> &P {
        let place = &self.slots[at.0 as usize].place;
        place.as_ref().expect("one in line has a place")
    }

    /// What the place of one in line holds, to be changed.
    pub(crate) fn place_mut(&mut self, at: At) -> &mut P {
        let place = &mut self.slots[at.0 as usize].place;
        place.as_mut().expect("one in line has a place")
    }

    /// Makes sure that the next [`join`](Waiters::join) finds a slot.
    pub(crate) fn reserve(&mut self) -> Result<(), Error> {
        if self.free == NONE {
            self.slots.try_reserve(1)?;
        }
        Ok(())
    }

    /// Puts a waiter in its place in the line. A slot is [reserved](Waiters::reserve).
    pub(crate) fn join(&mut self, side: Side, waiter: Waiter, place: P) -> Ticket {
        let at = self.take_slot();
        let slot = &mut self.slots[at as usize];
        slot.place = Some(place);
        slot.task = waiter.task;
        slot.priority = waiter.priority;
        let serial = slot.serial;
        self.insert(side, at);
        Ticket { slot: at, serial }
    }

    /// Takes the first out of the line. Gives its task and its place, which the caller fills with what was done.
    pub(crate) fn serve(&mut self, side: Side) -> Option<(TaskId, &mut P)> {
        let at = self.first(side)?;
        self.remove(at.0);
        Some((self.slots[at.0 as usize].task, self.place_mut(at)))
    }

    /// Takes one out of its line and puts it into that of the served. Its place is filled with what was done.
    pub(crate) fn serve_at(&mut self, at: At) {
        self.remove(at.0);
        self.insert(Side::Served, at.0);
    }

    /// As [`serve_at`](Waiters::serve_at) for a whole line.
    pub(crate) fn serve_all(&mut self, side: Side) {
        while let Some(at) = self.first(side) {
            self.serve_at(at);
        }
    }

    /// The next that was served and is to be woken.
    pub(crate) fn pop_served(&mut self) -> Option<TaskId> {
        self.serve(Side::Served).map(|(task, _)| task)
    }

    /// Whether the waiter has been served.
    pub(crate) fn served(&self, ticket: &Ticket) -> bool {
        matches!(self.slot(ticket).line, None | Some(Side::Served))
    }

    /// Gives a place back, leaving the line if it is still in one. Gives what the place held, and whether the waiter had
    /// been served.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> (P, bool) {
        let served = self.served(&ticket);
        if self.slot(&ticket).line.is_some() {
            self.remove(ticket.slot);
        }
        let slot = &mut self.slots[ticket.slot as usize];
        let place = slot.place.take().expect("a ticket's place is in use");
        slot.serial = slot.serial.wrapping_add(1);
        slot.next = self.free;
        self.free = ticket.slot;
        self.used -= 1;
        if self.used == 0 && self.slots.capacity() > KEPT {
            self.slots = Vec::new();
            self.free = NONE;
        }
        (place, served)
    }

    fn slot(&self, ticket: &Ticket) -> &Slot<P> {
        let slot = &self.slots[ticket.slot as usize];
        assert_eq!(slot.serial, ticket.serial, "a ticket of another wait or another queue");
        slot
    }

    fn take_slot(&mut self) -> u32 {
        self.used += 1;
        if self.free != NONE {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            return at;
        }
        assert!(
            self.slots.len() < self.slots.capacity(),
            "a slot is reserved before joining"
        );
        self.slots.push(Slot {
            place: None,
            task: 0,
            priority: 0,
            serial: 0,
            line: None,
            previous: NONE,
            next: NONE,
        });
        (self.slots.len() - 1) as u32
    }

    /// Puts a slot that is in no line where it belongs in this one.
    fn insert(&mut self, side: Side, at: u32) {
        // From the tail: tasks of one priority, the usual case, are appended at once. The served are in order of service.
        let priority = self.slots[at as usize].priority;
        let mut before = self.lines[side as usize].tail;
        while side != Side::Served && before != NONE && self.slots[before as usize].priority > priority {
            before = self.slots[before as usize].previous;
        }
        let after = match before {
            NONE => self.lines[side as usize].head,
            _ => self.slots[before as usize].next,
        };
        let slot = &mut self.slots[at as usize];
        slot.line = Some(side);
        slot.previous = before;
        slot.next = after;
        self.link(side, before, at);
        self.link_back(side, after, at);
    }

    /// Takes a slot out of its line.
    fn remove(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let (previous, next) = (slot.previous, slot.next);
        let side = slot.line.take().expect("it is in a line");
        self.link(side, previous, next);
        self.link_back(side, next, previous);
    }

    /// What follows `before` (the line's head, if that is none) is `at`.
    fn link(&mut self, side: Side, before: u32, at: u32) {
        match before {
            NONE => self.lines[side as usize].head = at,
            _ => self.slots[before as usize].next = at,
        }
    }

    /// What precedes `after` (the line's tail, if that is none) is `at`.
    fn link_back(&mut self, side: Side, after: u32, at: u32) {
        match after {
            NONE => self.lines[side as usize].tail = at,
            _ => self.slots[after as usize].previous = at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a place can hold.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Place {
        Receiving,
        Sent,
    }
    type Waiters = super::Waiters<Place>;

    fn join(waiters: &mut Waiters, task: TaskId, priority: i32) -> Ticket {
        waiters.reserve().unwrap();
        waiters.join(Side::Receivers, Waiter { task, priority }, Place::Receiving)
    }

    fn serve(waiters: &mut Waiters) -> Option<TaskId> {
        waiters.serve(Side::Receivers).map(|(task, place)| {
            *place = Place::Sent;
            task
        })
    }

    #[test]
    fn is_the_line_ordered_by_priority_then_arrival() {
        let mut waiters = Waiters::new();
        let order = [(1, 120), (2, 100), (3, 120), (4, 139), (5, 100), (6, 119)];
        let tickets: Vec<_> = order
            .iter()
            .map(|&(task, priority)| join(&mut waiters, task, priority))
            .collect();
        assert_eq!(waiters.len(Side::Receivers), 6);
        let served: Vec<_> = core::iter::from_fn(|| serve(&mut waiters)).collect();
        assert_eq!(served, [2, 5, 6, 1, 3, 4]);
        assert!(waiters.is_empty(Side::Receivers));
        for ticket in tickets {
            assert!(waiters.served(&ticket));
            assert_eq!(waiters.leave(ticket), (Place::Sent, true));
        }
    }

    #[test]
    fn can_anybody_leave_from_anywhere_in_the_line() {
        for leaver in 0..3 {
            let mut waiters = Waiters::new();
            let mut tickets: Vec<_> = (1..=3).map(|task| Some(join(&mut waiters, task, 120))).collect();
            let ticket = tickets[leaver].take().unwrap();
            assert_eq!(waiters.leave(ticket), (Place::Receiving, false));
            let left: Vec<_> = core::iter::from_fn(|| serve(&mut waiters)).collect();
            let expected: Vec<_> = (1..=3).filter(|&task| task != leaver as u64 + 1).collect();
            assert_eq!(left, expected);
            for ticket in tickets.into_iter().flatten() {
                assert_eq!(waiters.leave(ticket), (Place::Sent, true));
            }
        }
    }

    #[test]
    fn are_slots_used_again_and_given_back_after_a_rush() {
        let mut waiters = Waiters::new();
        for _ in 0..100 {
            let ticket = join(&mut waiters, 1, 120);
            _ = waiters.leave(ticket);
        }
        assert_eq!(waiters.slots.len(), 1);
        let rush: Vec<_> = (0..100).map(|task| join(&mut waiters, task, 120)).collect();
        for ticket in rush {
            _ = waiters.leave(ticket);
        }
        assert_eq!(waiters.slots.capacity(), 0);
    }

    #[test]
    #[should_panic(expected = "another wait")]
    fn is_a_stale_ticket_noticed() {
        let mut waiters = Waiters::new();
        let ticket = join(&mut waiters, 1, 120);
        let stale = Ticket {
            slot: ticket.slot,
            serial: ticket.serial,
        };
        _ = waiters.leave(ticket);
        let _second = join(&mut waiters, 2, 120);
        waiters.served(&stale);
    }

    #[test]
    fn are_many_served_in_order_and_woken_one_by_one() {
        let mut waiters = Waiters::new();
        let mut tickets: Vec<_> = (1..=4).map(|task| Some(join(&mut waiters, task, 120))).collect();
        let second = waiters.first(Side::Receivers).and_then(|at| waiters.after(at)).unwrap();
        *waiters.place_mut(second) = Place::Sent;
        waiters.serve_at(second);
        waiters.serve_all(Side::Receivers);
        assert!(waiters.is_empty(Side::Receivers));
        assert_eq!(waiters.len(Side::Served), 4);
        // One that is up by itself need not be woken.
        let first = tickets[0].take().unwrap();
        assert!(waiters.served(&first));
        assert_eq!(waiters.leave(first), (Place::Receiving, true));
        let woken: Vec<_> = core::iter::from_fn(|| waiters.pop_served()).collect();
        assert_eq!(woken, [2, 3, 4]);
        for (place, ticket) in [Place::Sent, Place::Receiving, Place::Receiving]
            .into_iter()
            .zip(tickets.into_iter().flatten())
        {
            assert_eq!(waiters.leave(ticket), (place, true));
        }
        assert!(waiters.is_unused());
    }
}
