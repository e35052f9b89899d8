//! Notification of a message's arrival (mq_notify(3)): who is registered, and when that ends.
//!
//! One process at a time may be registered. The registration is used up by the first message that arrives at an empty
//! queue and finds no receiver waiting; it also ends when its process takes it back, or closes any descriptor of the
//! queue. However it ends, it is handed to the kernel, which raises the signal, sends the cookie, and drops what the
//! registration holds on to: outside the queue's lock.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use slab::Object;

/// Bytes of the cookie of [`How::Thread`] (Linux: `NOTIFY_COOKIE_LEN`).
pub const COOKIE_LEN: usize = 32;

/// How a registered process wants to hear of a message.
pub enum How {
    /// `SIGEV_NONE`: not at all, but nobody else can register.
    None,
    /// `SIGEV_SIGNAL`: by this signal with `si_code` `SI_MESGQ`. Number 0 is none, as on Linux.
    Signal {
        /// The signal's number.
        number: u32,
        /// `si_value`.
        value: u64,
    },
    /// `SIGEV_THREAD`: by the cookie sent over a socket, its last byte replaced by [`Ending::cookie`].
    Thread {
        /// The socket, or a place in it: the kernel's own type. Held as long as the registration.
        socket: Box<dyn Any + Send + Sync>,
        /// What is sent.
        cookie: [u8; COOKIE_LEN],
    },
}

impl How {
    /// Linux's number (`sigev_notify`), as the status text shows it.
    pub const fn number(&self) -> i32 {
        match self {
            How::Signal { .. } => 0,
            How::None => 1,
            How::Thread { .. } => 2,
        }
    }
}

impl fmt::Debug for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::None => f.write_str("None"),
            How::Signal { number, .. } => write!(f, "Signal({number})"),
            How::Thread { .. } => f.write_str("Thread"),
        }
    }
}

/// A registration as the queue keeps it and gives it back: one word.
pub type Registered = Object<Registration>;

/// A process's registration.
#[derive(Debug)]
pub struct Registration {
    /// The process: an identity of the kernel's that is not used again while the registration lives.
    pub process: u64,
    /// Which program the process ran, if the kernel counts that: a signal meant for one program is not for the next.
    pub program: u64,
    /// How it wants to hear.
    pub how: How,
}

/// How a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A message arrived.
    Fired,
    /// Its process took it back or closed a descriptor of the queue.
    Removed,
}

impl Ending {
    /// The last byte of the cookie that says so (Linux: `NOTIFY_WOKENUP`, `NOTIFY_REMOVED`).
    pub const fn cookie(self) -> u8 {
        match self {
            Ending::Fired => 1,
            Ending::Removed => 2,
        }
    }
}
