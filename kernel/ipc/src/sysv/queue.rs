//! One queue: its messages, its waiters, and what it remembers. Everything here is guarded by its slot's lock.

use super::outcome::{Change, Ended, Status};
use super::totals::Totals;
use super::{Actor, Ownership, Selector};
use crate::message::{Message, Messages};
use crate::waiters::{self, At, Side, Waiter, Waiters};
use crate::{Caller, Error, TaskId};
use core::ops::ControlFlow;

/// A System V message queue.
pub(super) struct Queue {
    /// Index and sequence number. Immutable once it stands in its slot, as the next three.
    pub(super) id: i32,
    pub(super) key: i32,
    pub(super) sequence: u16,
    /// Never used again, unlike an id.
    pub(super) serial: u64,
    ownership: Ownership,
    /// Bytes that it may hold, and messages.
    max_bytes: u64,
    messages: Messages,
    count: u64,
    bytes: u64,
    sent: u64,
    received: u64,
    changed: u64,
    sender: u32,
    receiver: u32,
    /// Whether it is there only for those who have slept at it.
    removed: bool,
    waiters: Waiters<Place>,
}

/// What a waiter's place holds.
enum Place {
    /// A receiver waits, or waited until something changed.
    Receiving {
        selector: Selector,
        /// The longest message that it takes.
        room: usize,
        pid: u32,
    },
    /// A sender waits with its message, or waited until something changed.
    Sending {
        message: Message,
        pid: u32,
        /// The queue's permissions have changed since it came: it must ask again.
        recheck: bool,
    },
    /// A receiver was served: its message.
    Delivered(Message),
    /// A receiver was offered what it has no room for.
    TooBig,
    /// A sender was served.
    Sent,
}

/// What the tasks at a queue have to do with when it is removed.
pub(super) struct Remains {
    /// To be dropped outside of the lock.
    _messages: Messages,
}

impl Queue {
    pub(super) fn new(key: i32, ownership: Ownership, max_bytes: u64, now: u64) -> Queue {
        Queue {
            id: -1,
            key,
            sequence: 0,
            serial: 0,
            ownership,
            max_bytes,
            messages: Messages::new(),
            count: 0,
            bytes: 0,
            sent: 0,
            received: 0,
            changed: now,
            sender: 0,
            receiver: 0,
            removed: false,
            waiters: Waiters::new(),
        }
    }

    pub(super) fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Whether a message of `length` bytes has its place now. Messages count as a byte each besides: a queue for few
    /// bytes does not hold empty messages without end.
    #[inline(always)]
    fn fits(&self, length: usize) -> bool {
        self.bytes + length as u64 <= self.max_bytes && self.count < self.max_bytes
    }

    /// Whether `caller` may send, and the message fits.
    ///
    /// # Errors
    /// [`Error::Access`], [`Error::WouldBlock`].
    #[inline(always)]
    pub(super) fn check_send(&self, caller: &Caller, length: usize) -> Result<(), Error> {
        self.ownership.check(caller, Ownership::WRITE)?;
        match self.fits(length) {
            true => Ok(()),
            false => Err(Error::WouldBlock),
        }
    }

    /// Sends a message that fits.
    #[inline(always)]
    pub(super) fn send(&mut self, message: Message, pid: u32, now: u64, totals: &Totals) {
        self.sender = pid;
        self.sent = now;
        let message = match self.waiters.is_empty(Side::Receivers) {
            true => Some(message),
            false => self.offer(message, now),
        };
        if let Some(message) = message {
            self.count += 1;
            self.bytes += message.len() as u64;
            totals.add(message.len());
            self.messages.push(message);
        }
    }

    /// Gives the message to the first waiting receiver that wants it. Those that want it and have no room for it are
    /// told so on the way. Back comes a message that nobody wants.
    #[inline(never)]
    fn offer(&mut self, message: Message, now: u64) -> Option<Message> {
        let mut next = self.waiters.first(Side::Receivers);
        while let Some(at) = next {
            next = self.waiters.after(at);
            let place = self.waiters.place_mut(at);
            let Place::Receiving { selector, room, pid } = *place else {
                unreachable!("who waits in the receivers' line receives");
            };
            if !selector.wants(message.kind()) {
                continue;
            }
            if message.len() > room {
                *place = Place::TooBig;
                self.waiters.serve_at(at);
                continue;
            }
            *place = Place::Delivered(message);
            self.waiters.serve_at(at);
            self.receiver = pid;
            self.received = now;
            return None;
        }
        Some(message)
    }

    /// Receives what the selector chooses, if there is room for it.
    ///
    /// # Errors
    /// [`Error::Access`], [`Error::NoMessage`], [`Error::TooBig`].
    #[inline(always)]
    pub(super) fn receive(
        &mut self,
        caller: &Caller,
        actor: &Actor,
        selector: Selector,
        room: usize,
        totals: &Totals,
    ) -> Result<Message, Error> {
        self.ownership.check(caller, Ownership::READ)?;
        let message = match selector {
            Selector::Any => match self.messages.front() {
                Some((length, _)) if length > room => return Err(Error::TooBig),
                Some(_) => self.messages.pop(),
                None => None,
            },
            _ => self.choose(selector, room)?,
        };
        let message = message.ok_or(Error::NoMessage)?;
        self.count -= 1;
        self.bytes -= message.len() as u64;
        self.received = actor.now;
        self.receiver = actor.pid;
        totals.sub(1, message.len() as u64);
        if !self.waiters.is_empty(Side::Senders) {
            self.let_in(actor.now, totals);
        }
        Ok(message)
    }

    #[inline(never)]
    fn choose(&mut self, selector: Selector, room: usize) -> Result<Option<Message>, Error> {
        let selector = match selector {
            Selector::UpTo(highest) => match self.messages.kinds().min().filter(|&lowest| lowest <= highest) {
                Some(lowest) => Selector::Is(lowest),
                None => return Ok(None),
            },
            other => other,
        };
        let mut too_big = false;
        let chosen = self.messages.take_where(|length, kind| {
            if !selector.wants(kind) {
                return ControlFlow::Continue(());
            }
            too_big = length > room;
            ControlFlow::Break(!too_big)
        });
        match too_big {
            true => Err(Error::TooBig),
            false => Ok(chosen),
        }
    }

    /// Lets in the waiting senders' messages that fit now, in order.
    #[inline(never)]
    fn let_in(&mut self, now: u64, totals: &Totals) {
        let mut next = self.waiters.first(Side::Senders);
        while let Some(at) = next
            && self.fits(0)
        {
            next = self.waiters.after(at);
            if !self.fits(self.sending(at).0) {
                continue;
            }
            if self.sending(at).1 {
                self.waiters.serve_at(at);
                continue;
            }
            let place = core::mem::replace(self.waiters.place_mut(at), Place::Sent);
            self.waiters.serve_at(at);
            if let Place::Sending { message, pid, .. } = place {
                self.send(message, pid, now, totals);
            }
        }
    }

    /// Length of a waiting sender's message, and whether it must ask again.
    fn sending(&self, at: At) -> (usize, bool) {
        match self.waiters.place(at) {
            Place::Sending { message, recheck, .. } => (message.len(), *recheck),
            _ => unreachable!("who waits in the senders' line has a message"),
        }
    }

    /// Puts a sender in line. [`Error::NoMemory`]; then the message comes back.
    pub(super) fn wait_to_send(
        &mut self,
        message: Message,
        actor: &Actor,
    ) -> Result<waiters::Ticket, (Error, Message)> {
        if let Err(reason) = self.waiters.reserve() {
            return Err((reason, message));
        }
        let place = Place::Sending {
            message,
            pid: actor.pid,
            recheck: false,
        };
        Ok(self.waiters.join(Side::Senders, waiter(actor), place))
    }

    /// Puts a receiver in line.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn wait_to_receive(
        &mut self,
        actor: &Actor,
        selector: Selector,
        room: usize,
    ) -> Result<waiters::Ticket, Error> {
        self.waiters.reserve()?;
        let place = Place::Receiving {
            selector,
            room,
            pid: actor.pid,
        };
        Ok(self.waiters.join(Side::Receivers, waiter(actor), place))
    }

    /// Whether a waiter has been served.
    pub(super) fn served(&self, ticket: &waiters::Ticket) -> bool {
        self.waiters.served(ticket)
    }

    /// Ends a wait.
    pub(super) fn end_wait(&mut self, ticket: waiters::Ticket) -> Ended {
        let (place, served) = self.waiters.leave(ticket);
        let undone = |message| match (self.removed, served) {
            (true, _) => Ended::Removed(message),
            (false, true) => Ended::Again(message),
            (false, false) => Ended::GivenUp(message),
        };
        match place {
            Place::Delivered(message) => Ended::Received(message),
            Place::TooBig => Ended::TooBig,
            Place::Sent => Ended::Sent,
            Place::Receiving { .. } => undone(None),
            Place::Sending { message, .. } => undone(Some(message)),
        }
    }

    /// Whether somebody was served and is to be woken.
    #[inline(always)]
    pub(super) fn has_served(&self) -> bool {
        !self.waiters.is_empty(Side::Served)
    }

    /// The next that was served and is to be woken.
    pub(super) fn pop_served(&mut self) -> Option<TaskId> {
        self.waiters.pop_served()
    }

    /// Copies the message before which there are `index` into `into`: its length and type.
    ///
    /// # Errors
    /// [`Error::Access`]; [`Error::NoMessage`]; [`Error::TooBig`] when it is longer than `room`, then
    /// [`Error::Invalid`] when it is longer than `into`.
    pub(super) fn copy(
        &self,
        caller: &Caller,
        index: i64,
        room: usize,
        into: &mut Message,
    ) -> Result<(usize, i64), Error> {
        self.ownership.check(caller, Ownership::READ)?;
        let index = usize::try_from(index).map_err(|_| Error::NoMessage)?;
        let message = self.messages.nth(index).ok_or(Error::NoMessage)?;
        if message.len() > room {
            return Err(Error::TooBig);
        }
        if message.len() > into.len() {
            return Err(Error::Invalid);
        }
        message.copy_into(into);
        Ok((message.len(), message.kind()))
    }

    /// Changes owner, mode and limit. Receivers are told to try again, because they may have lost the right; senders
    /// whose messages fit now, likewise, and the other senders when their time comes.
    pub(super) fn change(&mut self, change: &Change, now: u64) {
        self.ownership.uid = change.uid;
        self.ownership.gid = change.gid;
        self.ownership.mode = (change.mode & 0o777) as u16;
        self.max_bytes = change.max_bytes;
        self.changed = now;
        self.waiters.serve_all(Side::Receivers);
        let mut next = self.waiters.first(Side::Senders);
        while let Some(at) = next {
            next = self.waiters.after(at);
            let fits = self.fits(self.sending(at).0);
            if let Place::Sending { recheck, .. } = self.waiters.place_mut(at) {
                *recheck = true;
            }
            if fits {
                self.waiters.serve_at(at);
            }
        }
    }

    /// Removes it: all who wait are served with that. What it held is to be dropped outside of the lock.
    pub(super) fn remove(&mut self, totals: &Totals) -> Remains {
        self.removed = true;
        totals.sub(self.count, self.bytes);
        (self.count, self.bytes) = (0, 0);
        self.waiters.serve_all(Side::Receivers);
        self.waiters.serve_all(Side::Senders);
        Remains {
            _messages: core::mem::replace(&mut self.messages, Messages::new()),
        }
    }

    /// Whether nobody has slept at it who has not come back.
    pub(super) fn is_left_alone(&self) -> bool {
        self.waiters.is_unused()
    }

    /// Whether it is there only for those who have slept at it.
    pub(super) fn is_removed(&self) -> bool {
        self.removed
    }

    /// Numbers of tasks that wait to receive and to send.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.waiters.len(Side::Receivers), self.waiters.len(Side::Senders))
    }

    pub(super) fn status(&self) -> Status {
        Status {
            id: self.id,
            key: self.key,
            sequence: self.sequence,
            ownership: self.ownership,
            sent: self.sent,
            received: self.received,
            changed: self.changed,
            bytes: self.bytes,
            messages: self.count,
            max_bytes: self.max_bytes,
            sender: self.sender,
            receiver: self.receiver,
        }
    }
}

/// How a task stands in line: scheduling priorities do not count here.
fn waiter(actor: &Actor) -> Waiter {
    Waiter {
        task: actor.task,
        priority: 0,
    }
}
