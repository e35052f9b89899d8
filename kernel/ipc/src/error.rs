//! Errors, one for each Linux errno that this crate can decide on.

use core::fmt;
use slab::AllocError;

/// Why an operation was refused. The discriminant is Linux's errno number on x86-64.
///
/// What only the kernel can find out (`EBADF`, `EFAULT`, `EINTR`, `ETIMEDOUT`) is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// `EPERM`: a stranger unlinks in the sticky directory, removes a queue, or changes mode, owner or limit.
    NotPermitted = 1,
    /// `ENOENT`: no such name, or an empty one.
    NoEntry = 2,
    /// `E2BIG`: a message longer than the receiver's room.
    TooBig = 7,
    /// `EAGAIN`: full or empty.
    WouldBlock = 11,
    /// `ENOMEM`: no memory for a queue, a name, a level or a waiter.
    NoMemory = 12,
    /// `EACCES`: the queue's mode forbids it, or the name holds a slash or is a dot name.
    Access = 13,
    /// `EBUSY`: somebody is registered for notification already.
    Busy = 16,
    /// `EEXIST`: the name exists and was to be created exclusively.
    Exists = 17,
    /// `EINVAL`: an attribute, a priority or an access mode out of range.
    Invalid = 22,
    /// `EMFILE`: the user's bytes in queues would pass `RLIMIT_MSGQUEUE`.
    UserLimit = 24,
    /// `ENOSPC`: as many queues as `queues_max` or `msgmni` allows.
    NoSpace = 28,
    /// `ENOMSG`: no message of the wanted type.
    NoMessage = 42,
    /// `EIDRM`: the queue was removed.
    Removed = 43,
    /// `ENAMETOOLONG`: a name of more than 255 bytes.
    NameTooLong = 36,
    /// `EMSGSIZE`: a message longer, or a buffer shorter, than the queue's message size.
    MessageSize = 90,
}

impl Error {
    /// Linux's number, positive.
    #[inline(always)]
    pub const fn errno(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NotPermitted => "operation not permitted",
            Error::NoEntry => "no such queue",
            Error::TooBig => "the message is longer than the room for it",
            Error::NoMessage => "no message of the wanted type",
            Error::Removed => "the queue was removed",
            Error::WouldBlock => "the queue is full or empty",
            Error::NoMemory => "out of memory",
            Error::Access => "permission denied",
            Error::Busy => "a process is registered already",
            Error::Exists => "the queue exists",
            Error::Invalid => "invalid argument",
            Error::UserLimit => "the user's limit of bytes in queues is reached",
            Error::NoSpace => "the namespace's limit of queues is reached",
            Error::NameTooLong => "the name is too long",
            Error::MessageSize => "the length does not fit the queue's message size",
        })
    }
}

/// Only where the allocation is not accounted: a refused charge must reach the kernel as [`AllocError`].
impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        Error::NoMemory
    }
}

impl From<percpu::NoSpace> for Error {
    fn from(_: percpu::NoSpace) -> Self {
        Error::NoMemory
    }
}

impl From<alloc::collections::TryReserveError> for Error {
    fn from(_: alloc::collections::TryReserveError) -> Self {
        Error::NoMemory
    }
}
