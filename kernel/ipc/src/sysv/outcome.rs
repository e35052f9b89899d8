//! What the operations on System V queues tell the kernel: what happened, whom to wake, what comes back.

use super::{Ownership, Ticket};
use crate::{Error, Message};
use core::num::NonZeroU64;
use slab::AllocError;

/// Whom an operation has served, to be woken by the kernel with no lock held: where to ask for them, one by one, by
/// [`Namespace::next_to_wake`](super::Namespace::next_to_wake).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "who was served sleeps until woken"]
pub struct Wake(pub(super) Option<QueueKey>);

impl Wake {
    /// Whether nobody was served.
    #[inline(always)]
    pub fn is_nobody(&self) -> bool {
        self.0.is_none()
    }
}

/// A queue, whether it has been removed or not. Unlike an id it never leads to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueKey {
    pub(super) serial: NonZeroU64,
    pub(super) index: u32,
}

/// A message was not sent, and comes back.
#[derive(Debug)]
pub struct NotSent {
    /// Why.
    pub reason: Error,
    /// The message.
    pub message: Message,
}

/// What became of a send that may wait.
#[derive(Debug)]
pub enum Sending {
    /// Sent at once.
    Done(Wake),
    /// The task is in line with its message.
    Waiting(Ticket),
}

/// A message was received.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub message: Message,
    /// Senders whose messages fit now.
    pub wake: Wake,
}

/// What became of a receive that may wait.
#[derive(Debug)]
pub enum Receiving {
    /// Received at once.
    Done(Received),
    /// The task is in line.
    Waiting(Ticket),
}

/// How a wait ended.
#[derive(Debug)]
pub enum Ended {
    /// A receiver was served with this message.
    Received(Message),
    /// A sender was served: its message is in the queue, or with a receiver.
    Sent,
    /// A receiver was offered a message that is longer than its room (`E2BIG`).
    TooBig,
    /// The queue's permissions or limits have changed: the task is to try again. A sender's message comes back.
    Again(Option<Message>),
    /// The queue was removed (`EIDRM`). A sender's message comes back.
    Removed(Option<Message>),
    /// Not served: the task gave up. A sender's message comes back.
    GivenUp(Option<Message>),
}

/// Why there is no queue.
#[derive(Clone, Copy, Debug)]
pub enum Refused {
    /// The request was refused.
    Error(Error),
    /// There is no memory for it.
    Memory(AllocError),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Error(error)
    }
}

impl From<AllocError> for Refused {
    fn from(error: AllocError) -> Refused {
        Refused::Memory(error)
    }
}

/// What `IPC_SET` changes.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The new owner; `u32::MAX` is nobody (`EINVAL`).
    pub uid: u32,
    /// The owner's group; likewise.
    pub gid: u32,
    /// Permission bits; those above 0o777 are not looked at.
    pub mode: u32,
    /// Bytes that the queue may hold, and messages.
    pub max_bytes: u64,
}

/// What `IPC_STAT` tells (`struct msqid_ds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its id.
    pub id: i32,
    /// The key that it was made with.
    pub key: i32,
    /// Its sequence number, a part of the id.
    pub sequence: u16,
    /// Mode and owners.
    pub ownership: Ownership,
    /// Times of the last send, the last receive, and the making or the last change, in nanoseconds as the kernel counts
    /// them; 0 for none.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
    /// See `sent`.
    pub changed: u64,
    /// Bytes in the queue.
    pub bytes: u64,
    /// Messages in the queue.
    pub messages: u64,
    /// Bytes that it may hold, and messages.
    pub max_bytes: u64,
    /// Process of the last sender; 0 for none.
    pub sender: u32,
    /// Process of the last receiver; 0 for none.
    pub receiver: u32,
}

/// What `MSG_INFO` tells of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Queues.
    pub queues: u32,
    /// The highest index in use, 0 when there is none.
    pub highest_index: u32,
    /// Messages in all queues: exact when all is quiet, never negative.
    pub messages: u64,
    /// Bytes in all queues; likewise.
    pub bytes: u64,
}
