//! What the operations of a queue tell the kernel: what happened, whom to wake, what comes back.

use super::notify::Registered;
use crate::message::Message;
use crate::waiters::Ticket;
use crate::{Error, TaskId};
use core::fmt;

/// A message was sent.
#[derive(Debug)]
pub enum Sent {
    /// It is in the queue.
    Queued {
        /// This registration has fired: tell the process, then drop it.
        notify: Option<Registered>,
        /// Somebody polls, and the queue has become readable: wake the pollers.
        wake_pollers: bool,
    },
    /// It went to a waiting receiver: wake the task.
    HandedOver {
        /// The receiver.
        wake: TaskId,
    },
}

/// A message was not sent, and comes back.
#[derive(Debug)]
pub struct NotSent {
    /// [`Error::WouldBlock`] or [`Error::NoMemory`].
    pub reason: Error,
    /// The message.
    pub message: Message,
}

/// What became of a send that may wait.
#[derive(Debug)]
pub enum Sending {
    /// Sent at once.
    Done(Sent),
    /// The task is in line with its message.
    Waiting(Ticket),
}

/// A message was received.
#[derive(Debug)]
pub struct Received {
    /// The message. After copying it out, [`Queue::free`](super::Queue::free) it.
    pub message: Message,
    /// A waiting sender's message took the free place: wake the task.
    pub wake: Option<TaskId>,
    /// Somebody polls, and the queue has become writable: wake the pollers.
    pub wake_pollers: bool,
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
    /// A sender was served: its message is in the queue.
    Sent,
    /// Not served: the task gave up. A sender's message comes back.
    GivenUp(Option<Message>),
}

/// What `read` on a queue's descriptor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Bytes of data in the queue.
    pub bytes: u64,
    /// `sigev_notify` of the registration, 0 without one.
    pub notify: i32,
    /// Signal of the registration, 0 without one.
    pub signal: u32,
    /// The registered process.
    pub process: Option<u64>,
}

impl Status {
    /// The text that Linux gives; `pid` is the registered process's number in the reader's eyes, 0 for none.
    pub fn write(&self, pid: i32, out: &mut impl fmt::Write) -> fmt::Result {
        writeln!(
            out,
            "QSIZE:{:<10} NOTIFY:{:<5} SIGNO:{:<5} NOTIFY_PID:{pid:<6}",
            self.bytes, self.notify, self.signal
        )
    }
}
