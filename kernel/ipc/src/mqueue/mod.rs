//! POSIX message queues (mq_overview(7)).
//!
//! * [`Namespace`]: names, limits, opening and unlinking; [`Open`] is an open description's hold on a queue.
//! * [`Queue`]: sending, receiving, waiting ([`Waiter`], [`Ticket`]), notification ([`Registration`]).
//! * [`Attributes`], [`Limits`]: what a queue is made for, and what bounds it.
//!
//! The kernel owns descriptors, flags, timeouts, signals, and the copying; this owns the rest.
//!
//! **Lock order.** 30: a namespace's directory; 31: the users' bytes; 35: a queue.

mod attributes;
mod levels;
mod namespace;
mod notify;
mod outcome;
mod queue;

pub use crate::waiters::{Ticket, Waiter};
pub use attributes::{Attributes, Claim, HARD_MSG_MAX, HARD_MSGSIZE_MAX, Limit, Limits, MIN_MSGSIZE_MAX, PRIO_MAX};
pub use namespace::{Create, MAX_NAME, Namespace, NamespaceRef, Open, QueueRef};
pub use notify::{COOKIE_LEN, Ending, How, Registered, Registration};
pub use outcome::{Ended, NotSent, Received, Receiving, Sending, Sent, Status};
pub use queue::Queue;
