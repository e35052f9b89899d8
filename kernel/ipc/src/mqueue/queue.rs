//! A POSIX message queue.
//!
//! **Purpose.** Messages between tasks, the most urgent first, with a bound; and who waits for what.
//!
//! **How it works.** A send takes a filled message; a receive gives one. Each is one of three things: done on the queue,
//! done with a waiting task (a message for a waiting receiver bypasses the queue; a waiting sender's message takes the
//! place that a receive made), or not possible now. Then the caller gets its message back, or, with the `_or_wait` form,
//! a place in a line.
//!
//! A kernel blocks like this, and no wake-up is lost:
//! 1. `send_or_wait` or `receive_or_wait` gives [`Ticket`];
//! 2. mark the task as about to sleep; if [`Queue::served`], go to 4;
//! 3. sleep until woken, interrupted or out of time, and if nothing of that is true, go to 2;
//! 4. [`Queue::end_wait`], once, whatever the reason: it says whether the task had been served. One that had been served
//!    is not interrupted and not out of time.
//!
//! Whoever serves a waiter gets its [`TaskId`] to wake. By then the waiter may already be up by itself, and even gone.
//!
//! **Order of checks.** `EINVAL` for a priority and `EMSGSIZE` are the kernel's to check before it copies (Linux: first
//! of all, and right after the descriptor). Then here: full or empty (`EAGAIN`), then memory (`ENOMEM`).
//!
//! **Lock order.** The queue's lock, rank 35. The allocator may be called under it, for the node of a priority level or a
//! place in a line; messages are allocated, filled, copied out and freed outside.

use super::attributes::Attributes;
use super::levels::{Levels, Node};
use super::notify::{How, Registered, Registration};
use super::outcome::{Ended, NotSent, Received, Receiving, Sending, Sent, Status};
use crate::message::{Blank, Message};
use crate::permission::{Caller, Owner};
use crate::users::Charge;
use crate::waiters::{Side, Ticket, Waiter, Waiters};
use crate::{Error, Ipc, MessageCache, TaskId};
use core::fmt;
use cpu::SpinLock;
use cpu::atomic::{AtomicU64, AtomicUsize, Ordering};
use memcg::TaskMemcg;
use slab::{AllocError, Gfp, Object};

/// A POSIX message queue.
pub struct Queue {
    /// Immutable.
    ipc: &'static Ipc,
    /// Immutable.
    attributes: Attributes,
    /// Its number in its namespace (`st_ino`). Immutable.
    number: u64,
    /// Per CPU.
    cache: MessageCache,
    /// Open descriptions and other holds. Written under the directory's lock.
    holds: AtomicUsize,
    /// Given back when the queue dies. Immutable.
    _charge: Charge,
    state: SpinLock<State>,
    /// Time of the last change, in nanoseconds as the kernel counts them.
    touched: AtomicU64,
}

/// Guarded by the queue's lock.
struct State {
    levels: Levels,
    /// Messages in the levels.
    count: u32,
    /// Bytes of data in them.
    bytes: u64,
    waiters: Waiters<Place>,
    registration: Option<Registered>,
    /// Tasks that poll the queue.
    pollers: u32,
    owner: Owner,
    /// Whether a name leads to it.
    linked: bool,
}

/// What a waiter's place holds.
enum Place {
    /// A receiver waits.
    Receiving,
    /// A sender waits with its message and with the node that the message may need.
    Sending(Message, Option<Node>),
    /// A receiver was served: its message.
    Delivered(Message),
    /// A sender was served: its message is in the queue.
    Sent,
}

impl Queue {
    /// A queue without messages. Made by [`Namespace::open`](super::Namespace::open).
    pub(super) fn new(ipc: &'static Ipc, attributes: Attributes, number: u64, owner: Owner, charge: Charge) -> Queue {
        // A queue works without a cache: where the per-CPU areas are full it has none.
        let cache = match ipc.cache {
            true => MessageCache::try_new().unwrap_or(MessageCache::off()),
            false => MessageCache::off(),
        };
        Queue {
            ipc,
            attributes,
            number,
            cache,
            holds: AtomicUsize::new(0),
            _charge: charge,
            state: SpinLock::new(
                35,
                State {
                    levels: Levels::new(),
                    count: 0,
                    bytes: 0,
                    waiters: Waiters::new(),
                    registration: None,
                    pollers: 0,
                    owner,
                    linked: true,
                },
            ),
            touched: AtomicU64::new(0),
        }
    }

    /// What it was made for.
    #[inline(always)]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Its number: unique among the queues of its namespace, for ever.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its message cache.
    pub fn cache(&self) -> &MessageCache {
        &self.cache
    }

    /// Memory for a message of `length` bytes that the running task sends: from the cache, or new and charged to it.
    ///
    /// # Errors
    /// No memory, or the task's cgroup is at its limit.
    #[inline]
    pub fn alloc(&self, task: TaskId, memcg: &TaskMemcg, length: usize) -> Result<Blank, AllocError> {
        match self.cache.take(task, memcg, length, &self.ipc.counts) {
            Some(blank) => Ok(blank),
            None => Blank::alloc(self.ipc.slab, memcg, length),
        }
    }

    /// Gives up the memory of a message that the running task has received, or could not send or fill: to the cache, or
    /// back to whom it is charged.
    #[inline]
    pub fn free(&self, task: TaskId, memcg: &TaskMemcg, blank: Blank) {
        drop(self.cache.put(task, memcg, blank));
    }

    /// Sends, if that is possible now.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when the queue is full, [`Error::NoMemory`]; the message comes back.
    ///
    /// # Panics
    /// In debug builds, when the priority or the length is not the queue's.
    #[inline(always)]
    pub fn send(&self, mut message: Message, priority: u32) -> Result<Sent, NotSent> {
        self.stamp(&mut message, priority);
        let mut state = self.state.lock();
        if state.count == self.attributes.max_messages {
            return Err(NotSent {
                reason: Error::WouldBlock,
                message,
            });
        }
        state.send(message, priority, self.ipc)
    }

    /// Sends, or puts `waiter` in line with the message. See the module for how to wait.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; the message comes back.
    pub fn send_or_wait(&self, mut message: Message, priority: u32, waiter: Waiter) -> Result<Sending, NotSent> {
        self.stamp(&mut message, priority);
        let mut state = self.state.lock();
        if state.count < self.attributes.max_messages {
            return state.send(message, priority, self.ipc).map(Sending::Done);
        }
        // The waiter brings the node that its message may need: who serves it cannot fail.
        let State { levels, waiters, .. } = &mut *state;
        let node = match waiters.reserve().and_then(|()| Ok(levels.node(self.ipc)?)) {
            Ok(node) => node,
            Err(reason) => return Err(NotSent { reason, message }),
        };
        let place = Place::Sending(message, Some(node));
        Ok(Sending::Waiting(waiters.join(Side::Senders, waiter, place)))
    }

    #[inline(always)]
    fn stamp(&self, message: &mut Message, priority: u32) {
        debug_assert!(priority < super::PRIO_MAX, "priority {priority}");
        debug_assert!(message.len() <= self.attributes.message_size as usize, "{message:?}");
        message.set_kind(i64::from(priority));
    }

    /// Receives, if that is possible now.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when the queue is empty.
    #[inline]
    pub fn receive(&self) -> Result<Received, Error> {
        self.state.lock().receive().ok_or(Error::WouldBlock)
    }

    /// Receives, or puts `waiter` in line. See the module for how to wait.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn receive_or_wait(&self, waiter: Waiter) -> Result<Receiving, Error> {
        let mut state = self.state.lock();
        if let Some(received) = state.receive() {
            return Ok(Receiving::Done(received));
        }
        state.waiters.reserve()?;
        let ticket = state.waiters.join(Side::Receivers, waiter, Place::Receiving);
        Ok(Receiving::Waiting(ticket))
    }

    /// Whether a waiter has been served and should come for what it got.
    pub fn served(&self, ticket: &Ticket) -> bool {
        self.state.lock().waiters.served(ticket)
    }

    /// Ends a wait, served or not.
    pub fn end_wait(&self, ticket: Ticket) -> Ended {
        let mut state = self.state.lock();
        match state.waiters.leave(ticket).0 {
            Place::Delivered(message) => Ended::Received(message),
            Place::Sent => Ended::Sent,
            Place::Receiving => Ended::GivenUp(None),
            Place::Sending(message, node) => {
                if let Some(node) = node {
                    state.levels.keep(node);
                }
                Ended::GivenUp(Some(message))
            }
        }
    }

    /// Registers a process for notification.
    ///
    /// # Errors
    /// [`Error::Busy`] when one is registered, be it the same; [`Error::NoMemory`]. What the registration holds is let go.
    pub fn register(&self, registration: Registration) -> Result<(), Error> {
        let registered = Object::try_new(self.ipc.slab, Gfp::empty(), &self.ipc.nobody, registration, 0)?;
        let refused = {
            let mut state = self.state.lock();
            match state.registration {
                None => state.registration.replace(registered),
                Some(_) => Some(registered),
            }
        };
        // Not under the lock: what a registration holds is the kernel's to drop.
        match refused {
            None => Ok(()),
            Some(_) => Err(Error::Busy),
        }
    }

    /// Ends `process`'s registration, if it has one: it took it back, or closed a descriptor of the queue (any of them,
    /// and a dup too). What it gives is to be told that it was [removed](super::Ending::Removed), and dropped.
    pub fn unregister(&self, process: u64) -> Option<Registered> {
        let mut state = self.state.lock();
        match &state.registration {
            Some(registration) if registration.process == process => state.registration.take(),
            _ => None,
        }
    }

    /// Messages in the queue now (`mq_curmsgs`).
    pub fn len(&self) -> u32 {
        self.state.lock().count
    }

    /// Whether it has no message now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a receive and a send would be possible now.
    pub fn ready(&self) -> (bool, bool) {
        let count = self.state.lock().count;
        (count > 0, count < self.attributes.max_messages)
    }

    /// A task begins to poll. Sends and receives say from now on when pollers are to be woken; ask [`Queue::ready`]
    /// afterwards.
    pub fn add_poller(&self) {
        self.state.lock().pollers += 1;
    }

    /// A task ends to poll.
    pub fn remove_poller(&self) {
        self.state.lock().pollers -= 1;
    }

    /// Numbers of tasks that wait to receive and to send.
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.waiters.len(Side::Receivers), state.waiters.len(Side::Senders))
    }

    /// What the status text tells.
    pub fn status(&self) -> Status {
        let state = self.state.lock();
        let registration = state.registration.as_ref();
        Status {
            bytes: state.bytes,
            notify: registration.map_or(0, |registration| registration.how.number()),
            signal: match registration.map(|registration| &registration.how) {
                Some(How::Signal { number, .. }) => *number,
                _ => 0,
            },
            process: registration.map(|registration| registration.process),
        }
    }

    /// Mode and owners.
    pub fn owner(&self) -> Owner {
        self.state.lock().owner
    }

    /// Changes the permission bits (fchmod(2)).
    pub fn change_mode(&self, caller: &Caller, mode: u16) -> Result<(), Error> {
        self.state.lock().owner.change_mode(caller, mode)
    }

    /// Changes the owners (fchown(2)).
    pub fn change_owner(&self, caller: &Caller, uid: Option<u32>, gid: Option<u32>) -> Result<(), Error> {
        self.state.lock().owner.change_owner(caller, uid, gid)
    }

    /// Whether a name leads to it (`st_nlink` is 1, otherwise 0).
    pub fn is_linked(&self) -> bool {
        self.state.lock().linked
    }

    pub(super) fn unlink(&self) {
        self.state.lock().linked = false;
    }

    /// Holds on the queue. The directory's lock is held.
    pub(super) fn holds(&self) -> usize {
        self.holds.load(Ordering::Relaxed)
    }

    pub(super) fn set_holds(&self, holds: usize) {
        self.holds.store(holds, Ordering::Relaxed);
    }

    /// Notes the time of a change, in nanoseconds as the kernel counts them.
    #[inline(always)]
    pub fn touch(&self, now: u64) {
        self.touched.store(now, Ordering::Relaxed);
    }

    /// Time of the last change, as noted; 0 for none.
    pub fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }
}

impl State {
    /// Sends when the queue is not full.
    #[inline(always)]
    fn send(&mut self, message: Message, priority: u32, ipc: &Ipc) -> Result<Sent, NotSent> {
        if !self.waiters.is_empty(Side::Receivers) {
            return Ok(self.hand_over(message));
        }
        let length = message.len() as u64;
        if let Err(message) = self.levels.push(message, priority, ipc) {
            return Err(NotSent {
                reason: Error::NoMemory,
                message,
            });
        }
        self.count += 1;
        self.bytes += length;
        let notify = if self.count == 1 {
            self.registration.take()
        } else {
            None
        };
        Ok(Sent::Queued {
            notify,
            wake_pollers: self.pollers != 0,
        })
    }

    /// Slow path of a send: a receiver waits, so the queue is empty, and the message bypasses it.
    #[inline(never)]
    fn hand_over(&mut self, message: Message) -> Sent {
        let (wake, place) = self.waiters.serve(Side::Receivers).expect("a receiver waits");
        *place = Place::Delivered(message);
        Sent::HandedOver { wake }
    }

    #[inline(always)]
    fn receive(&mut self) -> Option<Received> {
        let message = self.levels.pop()?;
        self.count -= 1;
        self.bytes -= message.len() as u64;
        if !self.waiters.is_empty(Side::Senders) {
            return Some(self.let_in(message));
        }
        Some(Received {
            message,
            wake: None,
            wake_pollers: self.pollers != 0,
        })
    }

    /// Slow path of a receive: a sender waits, and its message takes the free place. The queue stays full, so pollers
    /// learn nothing new; and it was not empty, so nobody is notified, even if this is its only message.
    #[inline(never)]
    fn let_in(&mut self, message: Message) -> Received {
        let (wake, place) = self.waiters.serve(Side::Senders).expect("a sender waits");
        let Place::Sending(next, node) = core::mem::replace(place, Place::Sent) else {
            unreachable!("who waits in the senders' line has a message");
        };
        self.count += 1;
        self.bytes += next.len() as u64;
        let priority = next.kind() as u32;
        self.levels.push_with(next, priority, node);
        Received {
            message,
            wake: Some(wake),
            wake_pollers: false,
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        debug_assert_eq!(state.levels.is_empty(), state.count == 0);
        debug_assert!(
            state.waiters.is_empty(Side::Receivers) && state.waiters.is_empty(Side::Senders),
            "a queue dies with tasks in line"
        );
        // Messages, the cache's blanks and the user's bytes go with the fields.
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Queue({}, {:?}, {} messages)",
            self.number,
            self.attributes,
            self.len()
        )
    }
}
