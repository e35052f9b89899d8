//! Interprocess communication: message queues.
//!
//! **Purpose.** What the kernel's message-queue calls decide, without the kernel: names, limits, permissions, order,
//! waiting lines, notification, and the memory of messages. POSIX queues are in [`mqueue`], System V queues in [`sysv`].
//!
//! **How it works.** The mechanism decides, the kernel acts. Nothing here sleeps, touches user memory, prints or wakes
//! anybody: an operation returns what happened, whom to wake ([`TaskId`]) and what else to do, and hands back what it
//! could not use. What a user can make fail, fails with an [`Error`] that is one of Linux's numbers, or, where memory is
//! charged to a cgroup, with [`slab::AllocError`], which names the cgroup; every growth can fail.
//! * [`message`]: a message, and memory for one. [`cache`]: the memory of a received one, kept for the next.
//! * [`permission`]: mode and owners. [`users`]: the bytes of each user.
//! * [`Ipc`]: what all queues of a machine share.
//!
//! **Lock order.** 30: a namespace's directory ([`mqueue::Namespace`]) or ids ([`sysv::Namespace`]); 31: the users' bytes;
//! 35: a queue. The allocator
//! may be called with any of them held; users' memory is read and written with none.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cache;
mod error;
pub mod message;
pub mod mqueue;
pub mod permission;
pub mod sysv;
#[cfg(test)]
mod tests;
pub mod users;
mod waiters;

pub use cache::MessageCache;
pub use error::Error;
pub use message::{Blank, Message};
pub use permission::{Access, Caller, Owner};

use cache::CacheCounts;
use memcg::TaskMemcg;
use percpu::Counting;
use slab::Slab;
use users::Users;

/// A task, as the kernel identifies it: never 0, and never used again. The kernel finds the task to wake by it, or finds
/// that it has gone.
pub type TaskId = u64;

/// What all queues of a machine share. Lives forever.
pub struct Ipc {
    /// Where memory comes from.
    slab: &'static Slab,
    /// In the root cgroup: pays nothing. For what is not charged.
    nobody: TaskMemcg,
    /// What each user has in queues.
    users: Users,
    /// The message cache of System V queues. Per CPU.
    messages: MessageCache,
    /// Whether new POSIX queues get a message cache.
    cache: bool,
    /// How a namespace counts what is in its System V queues.
    counting: Counting,
    counts: CacheCounts,
}

impl Ipc {
    /// Message queues over an allocator; with the message cache or without; with totals that count by `counting`. Once at
    /// boot.
    ///
    /// # Errors
    /// No memory, or no per-CPU space.
    pub fn try_new(slab: &'static Slab, cache: bool, counting: Counting) -> Result<&'static Ipc, Error> {
        let mut one = alloc::vec::Vec::new();
        one.try_reserve_exact(1)?;
        one.push(Ipc {
            slab,
            nobody: TaskMemcg::new(slab.accounting().root()),
            users: Users::new(),
            messages: MessageCache::try_new()?,
            cache,
            counting,
            counts: CacheCounts::try_new()?,
        });
        Ok(&one.leak()[0])
    }

    /// What each user has in queues.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// The message cache of System V queues: drained by the kernel for a cgroup that is at its limit or removed.
    pub fn messages(&self) -> &MessageCache {
        &self.messages
    }

    /// Whether POSIX queues have a message cache.
    pub fn has_cache(&self) -> bool {
        self.cache
    }

    /// How often the message caches served.
    pub fn cache_counts(&self) -> &CacheCounts {
        &self.counts
    }
}
