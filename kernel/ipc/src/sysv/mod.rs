//! System V message queues (sysvipc(7), msgget(2), msgop(2), msgctl(2)).
//!
//! * [`Namespace`]: the queues of an IPC namespace by id and by key, and all operations on them. [`Limits`]: the settings
//!   of `/proc/sys/kernel/msg*`.
//! * [`Selector`]: which message a receiver wants. [`Ownership`]: who may do what.
//! * [`Sending`], [`Receiving`], [`Wake`], [`Ended`]: what an operation tells the kernel.
//!
//! The kernel copies from and to its programs, sleeps and wakes; this owns the rest.
//!
//! **How a queue is found.** An id is an index and a sequence number. The index leads, over two tables that only grow, to
//! a slot that never moves: reading the tables takes no lock and writes nothing. The slot has the lock of whatever queue
//! stands in it, and the queue knows its whole id: one that has gone, or given its place to another, is noticed under
//! that lock. So a send or a receive takes exactly one lock, which is its queue's; slots have a cache line each; and
//! queues do not meet but in the allocator and the totals, which are per CPU.
//!
//! *Look-up against removal.* A sender reads the tables (T) and locks the slot (L); a remover locks the slot, takes the
//! queue out (X), unlocks, and frees the queue. If L comes before X, the remover waits for the send, and takes the message
//! with the queue. If X comes before L, the sender finds the slot empty, or a queue with another id: `EINVAL`. Between T
//! and L nothing can be freed that the sender uses, because slots live as long as the namespace.
//!
//! **How tasks sleep.** As at a POSIX queue ([`crate::mqueue::Queue`]): `send_or_wait` or `receive_or_wait` gives a
//! [`Ticket`]; the kernel sleeps until [`Namespace::served`], and calls [`Namespace::end_wait`] once, whatever the reason.
//! Who makes it possible does the sleeper's work: a sender hands its message to the first receiver in line that wants it
//! and has room for it; a receiver lets in the waiting senders' messages that fit now. A queue that is removed while
//! tasks sleep, or have been served and have not come yet, stays with its slot until the last of them has come.
//!
//! **Lock order.** 30: a namespace's ids; 35: a slot. Tasks are woken, and messages and queues freed, with neither.

mod ids;
mod limits;
mod namespace;
mod outcome;
mod ownership;
mod queue;
mod selector;
mod slots;
mod totals;

pub use limits::{Limit, Limits, MAX_QUEUES, NoLimit};
pub use namespace::{Namespace, Ticket};
pub use outcome::{Change, Ended, Info, NotSent, Received, Receiving, Refused, Sending, Status, Wake};
pub use ownership::Ownership;
pub use selector::Selector;

/// Who acts, and when: what a queue remembers of its last sender and receiver.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// The task, as outcomes name it when it is to be woken.
    pub task: crate::TaskId,
    /// Its process's number.
    pub pid: u32,
    /// Nanoseconds as the kernel counts them.
    pub now: u64,
}

/// `IPC_PRIVATE`: the key that finds nothing.
pub const PRIVATE: i32 = 0;
/// `IPC_CREAT`: a queue is made if there is none with the key.
pub const CREATE: u32 = 0o1000;
/// `IPC_EXCL`: the queue must be new.
pub const EXCLUSIVE: u32 = 0o2000;
