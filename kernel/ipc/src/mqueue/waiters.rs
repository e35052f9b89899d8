//! Who waits at a queue: one line of receivers, one of senders.
//!
//! A line is ordered by the tasks' scheduling priority, then by arrival. The waiter at its head is served by whoever
//! makes that possible: a sender puts its message into the receiver's place, a receiver takes the message from the
//! sender's place. A served waiter leaves the line at once, so that the next event finds the next waiter; its place
//! stays until the task comes for it with its [`Ticket`].
//!
//! Places are slots of one vector, linked by index: no pointer to a task is kept, only its identity, and a task that
//! has gone cannot be touched. The vector grows only when a task begins to wait, and then the failure is that task's.
//!
//! **Lock order.** All of it is guarded by the queue's lock.

use super::levels::Node;
use crate::message::Message;
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

/// What a place holds.
pub(super) enum Place {
    /// Nobody has it.
    Free,
    /// A receiver waits.
    Receiving,
    /// A sender waits with its message and with the node that the message may need.
    Sending(Message, Option<Node>),
    /// A receiver was served: its message.
    Delivered(Message),
    /// A sender was served: its message is in the queue.
    Sent,
}

struct Slot {
    place: Place,
    task: TaskId,
    priority: i32,
    serial: u32,
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
pub(super) enum Side {
    Receivers,
    Senders,
}

/// Both lines of a queue.
pub(super) struct Waiters {
    lines: [Line; 2],
    slots: Vec<Slot>,
    /// First free slot.
    free: u32,
    /// Slots in use.
    used: u32,
}

impl Waiters {
    pub(super) const fn new() -> Waiters {
        const EMPTY: Line = Line { head: NONE, tail: NONE };
        Waiters {
            lines: [EMPTY; 2],
            slots: Vec::new(),
            free: NONE,
            used: 0,
        }
    }

    /// Whether nobody is in that line.
    #[inline(always)]
    pub(super) fn is_empty(&self, side: Side) -> bool {
        self.lines[side as usize].head == NONE
    }

    /// Number of tasks in a line.
    pub(super) fn len(&self, side: Side) -> usize {
        let first = self.lines[side as usize].head;
        let follow = |&at: &u32| Some(self.slots[at as usize].next).filter(|&next| next != NONE);
        core::iter::successors(Some(first).filter(|&at| at != NONE), follow).count()
    }

    /// Makes sure that the next [`join`](Waiters::join) finds a slot.
    pub(super) fn reserve(&mut self) -> Result<(), Error> {
        if self.free == NONE {
            self.slots.try_reserve(1)?;
        }
        Ok(())
    }

    /// Puts a waiter in its place in the line. A slot is [reserved](Waiters::reserve).
    pub(super) fn join(&mut self, side: Side, waiter: Waiter, place: Place) -> Ticket {
        let at = self.take_slot();
        // From the tail: tasks of one priority, the usual case, are appended at once.
        let mut before = self.lines[side as usize].tail;
        while before != NONE && self.slots[before as usize].priority > waiter.priority {
            before = self.slots[before as usize].previous;
        }
        let after = match before {
            NONE => self.lines[side as usize].head,
            _ => self.slots[before as usize].next,
        };
        let slot = &mut self.slots[at as usize];
        slot.place = place;
        slot.task = waiter.task;
        slot.priority = waiter.priority;
        slot.previous = before;
        slot.next = after;
        let serial = slot.serial;
        self.link(side, before, at);
        self.link_back(side, after, at);
        Ticket { slot: at, serial }
    }

    /// Takes the first out of the line. Gives its task and its place, which the caller fills with what was done.
    pub(super) fn serve(&mut self, side: Side) -> Option<(TaskId, &mut Place)> {
        let at = self.lines[side as usize].head;
        if at == NONE {
            return None;
        }
        self.unlink(side, at);
        let slot = &mut self.slots[at as usize];
        Some((slot.task, &mut slot.place))
    }

    /// Whether the waiter has been served.
    pub(super) fn served(&self, ticket: &Ticket) -> bool {
        matches!(self.slot(ticket).place, Place::Delivered(_) | Place::Sent)
    }

    /// Gives a place back, leaving the line if it is still in one. Gives what the place held.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Place {
        let side = match self.slot(&ticket).place {
            Place::Receiving => Some(Side::Receivers),
            Place::Sending(..) => Some(Side::Senders),
            _ => None,
        };
        if let Some(side) = side {
            self.unlink(side, ticket.slot);
        }
        let slot = &mut self.slots[ticket.slot as usize];
        let place = core::mem::replace(&mut slot.place, Place::Free);
        slot.serial = slot.serial.wrapping_add(1);
        slot.next = self.free;
        self.free = ticket.slot;
        self.used -= 1;
        if self.used == 0 && self.slots.capacity() > KEPT {
            self.slots = Vec::new();
            self.free = NONE;
        }
        place
    }

    fn slot(&self, ticket: &Ticket) -> &Slot {
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
            place: Place::Free,
            task: 0,
            priority: 0,
            serial: 0,
            previous: NONE,
            next: NONE,
        });
        (self.slots.len() - 1) as u32
    }

    fn unlink(&mut self, side: Side, at: u32) {
        let Slot { previous, next, .. } = self.slots[at as usize];
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
            assert!(matches!(waiters.leave(ticket), Place::Sent));
        }
    }

    #[test]
    fn can_anybody_leave_from_anywhere_in_the_line() {
        for leaver in 0..3 {
            let mut waiters = Waiters::new();
            let mut tickets: Vec<_> = (1..=3).map(|task| Some(join(&mut waiters, task, 120))).collect();
            assert!(matches!(
                waiters.leave(tickets[leaver].take().unwrap()),
                Place::Receiving
            ));
            let left: Vec<_> = core::iter::from_fn(|| serve(&mut waiters)).collect();
            let expected: Vec<_> = (1..=3).filter(|&task| task != leaver as u64 + 1).collect();
            assert_eq!(left, expected);
            for ticket in tickets.into_iter().flatten() {
                assert!(matches!(waiters.leave(ticket), Place::Sent));
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
}
