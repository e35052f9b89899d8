//! The settings of `/proc/sys/kernel/msg*` (sysvipc(7), proc(5)).

use crate::Error;
use cpu::atomic::{AtomicU32, Ordering};

/// The most queues that a namespace can have (Linux: `IPCMNI`): an index has 15 bits.
pub const MAX_QUEUES: u32 = 1 << 15;

/// One of the settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// `msgmax`: the longest message, in bytes.
    MsgMax,
    /// `msgmnb`: bytes that a new queue may hold.
    MsgMnb,
    /// `msgmni`: queues in the namespace, 0 to [`MAX_QUEUES`].
    MsgMni,
    /// `msg_next_id`: the id that the next new queue gets if it is free; -1, what reads as `u32::MAX`, for any.
    NextId,
}

/// `msg_next_id` when nothing is asked for.
const ANY: u32 = u32::MAX;

impl Limit {
    /// The name of its file.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::MsgMax => "msgmax",
            Limit::MsgMnb => "msgmnb",
            Limit::MsgMni => "msgmni",
            Limit::NextId => "msg_next_id",
        }
    }

    /// Largest value.
    const fn max(self) -> u32 {
        match self {
            Limit::MsgMni => MAX_QUEUES,
            _ => i32::MAX as u32,
        }
    }
}

/// The settings of one namespace. Each is read and written by itself.
pub struct Limits([AtomicU32; 4]);

/// A value out of range: `EINVAL`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoLimit;

impl From<NoLimit> for Error {
    fn from(_: NoLimit) -> Error {
        Error::Invalid
    }
}

impl Limits {
    /// Linux's defaults.
    pub(super) const fn new() -> Limits {
        Limits([
            AtomicU32::new(8192),
            AtomicU32::new(16384),
            AtomicU32::new(32000),
            AtomicU32::new(ANY),
        ])
    }

    /// The value in force; of `msg_next_id` as a number of 32 bits with a sign.
    #[inline(always)]
    pub fn get(&self, limit: Limit) -> u32 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }

    /// Sets a value.
    pub fn set(&self, limit: Limit, value: i64) -> Result<(), NoLimit> {
        match u32::try_from(value) {
            Ok(value) if value <= limit.max() => {
                self.0[limit as usize].store(value, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(NoLimit),
        }
    }

    /// The id asked for, once.
    pub(super) fn take_next_id(&self) -> Option<i32> {
        match self.0[Limit::NextId as usize].swap(ANY, Ordering::Relaxed) {
            ANY => None,
            id => Some(id as i32),
        }
    }
}
