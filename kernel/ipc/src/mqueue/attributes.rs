//! A queue's attributes and the limits that bound them.
//!
//! The rules are those of mq_overview(7) and mq_open(3): an ordinary caller is held to the namespace's `msg_max` and
//! `msgsize_max`, one with `CAP_SYS_RESOURCE` to the hard ceilings; a queue created without attributes gets the
//! defaults, capped by the maxima. What a queue costs its user of `RLIMIT_MSGQUEUE` is in getrlimit(2).

use crate::Error;
use cpu::atomic::{AtomicU32, Ordering};

/// Message priorities are below this (POSIX: `MQ_PRIO_MAX`).
pub const PRIO_MAX: u32 = 32768;
/// The most messages that any queue may be made for (Linux: `HARD_MSGMAX`).
pub const HARD_MSG_MAX: u32 = 65536;
/// The largest message size that any queue may be made for, in bytes (Linux: `HARD_MSGSIZEMAX`).
pub const HARD_MSGSIZE_MAX: u32 = 16 * 1024 * 1024;
/// The least value of `msgsize_max` and `msgsize_default`, in bytes (Linux: `MIN_MSGSIZEMAX`).
pub const MIN_MSGSIZE_MAX: u32 = 128;
/// What the bill of `RLIMIT_MSGQUEUE` counts for a message besides its bytes: Linux's message header.
const HEADER_BYTES: u64 = 48;
/// What the bill counts for a priority in use: Linux's tree node.
const NODE_BYTES: u64 = 48;

/// What a queue is made for. Immutable once the queue exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The most messages that it holds (`mq_maxmsg`), 1 to [`HARD_MSG_MAX`].
    pub max_messages: u32,
    /// The longest message, in bytes (`mq_msgsize`), 1 to [`HARD_MSGSIZE_MAX`].
    pub message_size: u32,
}

/// The attributes as the caller of `mq_open` claims them; any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `mq_maxmsg`.
    pub max_messages: i64,
    /// `mq_msgsize`, in bytes.
    pub message_size: i64,
}

impl Attributes {
    /// What such a queue counts against its user's `RLIMIT_MSGQUEUE`, in bytes.
    pub fn bill(&self) -> u64 {
        let messages = u64::from(self.max_messages);
        let priorities = u64::from(self.max_messages.min(PRIO_MAX));
        messages * u64::from(self.message_size) + messages * HEADER_BYTES + priorities * NODE_BYTES
    }
}

/// Which of the namespace's settings in `/proc/sys/fs/mqueue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `queues_max`: queues that may exist before callers without `CAP_SYS_RESOURCE` are refused.
    QueuesMax,
    /// `msg_max`: bound of `mq_maxmsg` for ordinary callers.
    MsgMax,
    /// `msgsize_max`: bound of `mq_msgsize` for ordinary callers, in bytes.
    MsgsizeMax,
    /// `msg_default`: `mq_maxmsg` of a queue created without attributes.
    MsgDefault,
    /// `msgsize_default`: `mq_msgsize` of a queue created without attributes, in bytes.
    MsgsizeDefault,
}

impl Limit {
    /// All, in the order of their file names.
    pub const ALL: [Limit; 5] = [
        Limit::MsgDefault,
        Limit::MsgMax,
        Limit::MsgsizeDefault,
        Limit::MsgsizeMax,
        Limit::QueuesMax,
    ];

    /// Its file name in `/proc/sys/fs/mqueue`.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::QueuesMax => "queues_max",
            Limit::MsgMax => "msg_max",
            Limit::MsgsizeMax => "msgsize_max",
            Limit::MsgDefault => "msg_default",
            Limit::MsgsizeDefault => "msgsize_default",
        }
    }

    /// The values that may be written.
    const fn range(self) -> (i64, i64) {
        match self {
            // Linux keeps an unsigned number and checks nothing but that it fits an int.
            Limit::QueuesMax => (i32::MIN as i64, i32::MAX as i64),
            Limit::MsgMax | Limit::MsgDefault => (1, HARD_MSG_MAX as i64),
            Limit::MsgsizeMax | Limit::MsgsizeDefault => (MIN_MSGSIZE_MAX as i64, HARD_MSGSIZE_MAX as i64),
        }
    }
}

/// The settings of one namespace.
#[derive(Debug)]
pub struct Limits([AtomicU32; 5]);

impl Limits {
    /// Linux's defaults: 256 queues, 10 messages, 8192 bytes.
    pub const fn new() -> Limits {
        // In the order of the enum's variants.
        Limits([
            AtomicU32::new(256),
            AtomicU32::new(10),
            AtomicU32::new(8192),
            AtomicU32::new(10),
            AtomicU32::new(8192),
        ])
    }

    /// Reads a setting.
    pub fn get(&self, limit: Limit) -> u32 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }

    /// Writes a setting. [`Error::Invalid`] outside of its range; then nothing changes. Queues that exist keep what they
    /// have.
    pub fn set(&self, limit: Limit, value: i64) -> Result<(), Error> {
        let (least, most) = limit.range();
        if !(least..=most).contains(&value) {
            return Err(Error::Invalid);
        }
        self.0[limit as usize].store(value as u32, Ordering::Relaxed);
        Ok(())
    }

    /// The attributes of a queue that a caller creates: its claim within the limits, or the defaults.
    ///
    /// `privileged`: the caller has `CAP_SYS_RESOURCE`.
    pub fn settle(&self, claim: Option<Claim>, privileged: bool) -> Result<Attributes, Error> {
        let (msg_max, msgsize_max) = (self.get(Limit::MsgMax), self.get(Limit::MsgsizeMax));
        let (most, longest) = if privileged {
            (HARD_MSG_MAX, HARD_MSGSIZE_MAX)
        } else {
            (msg_max, msgsize_max)
        };
        let Some(claim) = claim else {
            return Ok(Attributes {
                max_messages: self.get(Limit::MsgDefault).min(msg_max),
                message_size: self.get(Limit::MsgsizeDefault).min(msgsize_max),
            });
        };
        if !(1..=i64::from(most)).contains(&claim.max_messages)
            || !(1..=i64::from(longest)).contains(&claim.message_size)
        {
            return Err(Error::Invalid);
        }
        Ok(Attributes {
            max_messages: claim.max_messages as u32,
            message_size: claim.message_size as u32,
        })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(max_messages: i64, message_size: i64) -> Option<Claim> {
        Some(Claim {
            max_messages,
            message_size,
        })
    }

    #[test]
    fn is_an_ordinary_caller_held_to_the_maxima() {
        let limits = Limits::new();
        assert!(limits.settle(claim(10, 8192), false).is_ok());
        for (messages, size) in [
            (11, 64),
            (1, 8193),
            (0, 64),
            (-1, 64),
            (1, 0),
            (1, -5),
            (i64::MAX, 1),
            (1, i64::MIN),
        ] {
            assert_eq!(
                limits.settle(claim(messages, size), false),
                Err(Error::Invalid),
                "{messages} {size}"
            );
        }
    }

    #[test]
    fn is_a_privileged_caller_held_to_the_ceilings_only() {
        let limits = Limits::new();
        assert!(limits.settle(claim(65536, 16 << 20), true).is_ok());
        for (messages, size) in [(65537, 1), (1, (16 << 20) + 1), (0, 1), (1, 0)] {
            assert_eq!(
                limits.settle(claim(messages, size), true),
                Err(Error::Invalid),
                "{messages} {size}"
            );
        }
    }

    #[test]
    fn are_the_defaults_capped_by_the_maxima() {
        let limits = Limits::new();
        limits.set(Limit::MsgDefault, 40).unwrap();
        limits.set(Limit::MsgsizeDefault, 9000).unwrap();
        let capped = Attributes {
            max_messages: 10,
            message_size: 8192,
        };
        assert_eq!(limits.settle(None, false), Ok(capped));
        assert_eq!(
            limits.settle(None, true),
            Ok(capped),
            "a capability does not lift the defaults"
        );
        limits.set(Limit::MsgMax, 50).unwrap();
        limits.set(Limit::MsgsizeMax, 16384).unwrap();
        let whole = Attributes {
            max_messages: 40,
            message_size: 9000,
        };
        assert_eq!(limits.settle(None, false), Ok(whole));
    }

    #[test]
    fn does_a_refused_write_of_a_setting_change_nothing() {
        let limits = Limits::new();
        let bad = [
            (Limit::MsgMax, 0),
            (Limit::MsgMax, 65537),
            (Limit::MsgDefault, 0),
            (Limit::MsgsizeMax, 127),
            (Limit::MsgsizeMax, (16 << 20) + 1),
            (Limit::MsgsizeDefault, 127),
            (Limit::QueuesMax, 1 << 31),
        ];
        for (limit, value) in bad {
            let before = limits.get(limit);
            assert_eq!(limits.set(limit, value), Err(Error::Invalid), "{limit:?} {value}");
            assert_eq!(limits.get(limit), before);
        }
        for (limit, value) in [
            (Limit::MsgMax, 65536),
            (Limit::MsgsizeMax, 128),
            (Limit::MsgsizeMax, 16 << 20),
        ] {
            limits.set(limit, value).unwrap();
            assert_eq!(i64::from(limits.get(limit)), value);
        }
    }

    #[test]
    fn what_does_a_queue_cost_its_user() {
        let bill = |max_messages, message_size| {
            Attributes {
                max_messages,
                message_size,
            }
            .bill()
        };
        assert_eq!(bill(10, 8192), 10 * 8192 + 96 * 10);
        assert_eq!(bill(1, 1), 97);
        // Nodes are counted for as many priorities as there are, not more.
        assert_eq!(bill(65536, 1), 65536 + 48 * 65536 + 48 * 32768);
        assert_eq!(819_200 / bill(10, 8192), 9, "default queues in the default limit");
    }
}
