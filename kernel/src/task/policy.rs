//! How a task competes for a CPU (sched(7)).
//!
//! A level decides: real-time tasks have their priority, 1 to 99, all others are at level 0. Who is at a higher level runs
//! first, always. At one level tasks take turns, in slices whose length the nice value sets; only `SCHED_FIFO` keeps the
//! CPU until it sleeps, yields or somebody of a higher level comes.

use crate::syscall::errno::{Errno, Result};
use linux_raw_sys::general;

/// Levels: 0, and one for each real-time priority.
pub const LEVELS: usize = 100;
/// Ticks that a task of nice value 0 keeps the CPU while others of its level want it.
const SLICE: u32 = 10;
/// Ticks of a `SCHED_RR` slice (Linux: 100 ms).
const RR_SLICE: u32 = 100;

/// A policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Policy {
    /// `SCHED_OTHER`
    Normal = general::SCHED_NORMAL,
    /// `SCHED_FIFO`
    Fifo = general::SCHED_FIFO,
    /// `SCHED_RR`
    RoundRobin = general::SCHED_RR,
    /// `SCHED_BATCH`: as Normal, but a wake-up takes the CPU from nobody.
    Batch = general::SCHED_BATCH,
    /// `SCHED_IDLE`: as Batch, with the shortest slice.
    Idle = general::SCHED_IDLE,
}

/// A policy with its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduling {
    /// The policy.
    pub policy: Policy,
    /// 1 to 99 for the real-time ones, else 0.
    pub priority: u8,
    /// Whether children begin with the default (`SCHED_RESET_ON_FORK`).
    pub reset_on_fork: bool,
}

impl Policy {
    /// By its number. EINVAL.
    pub fn new(number: u32) -> Result<Policy> {
        [
            Policy::Normal,
            Policy::Fifo,
            Policy::RoundRobin,
            Policy::Batch,
            Policy::Idle,
        ]
        .into_iter()
        .find(|&policy| policy as u32 == number)
        .ok_or(Errno::EINVAL)
    }

    /// Whether it is a real-time policy.
    pub fn is_realtime(self) -> bool {
        matches!(self, Policy::Fifo | Policy::RoundRobin)
    }

    /// The priorities that go with it.
    pub fn priorities(self) -> core::ops::RangeInclusive<i32> {
        if self.is_realtime() { 1..=99 } else { 0..=0 }
    }
}

impl Scheduling {
    /// What tasks begin with.
    pub const DEFAULT: Scheduling = Scheduling {
        policy: Policy::Normal,
        priority: 0,
        reset_on_fork: false,
    };

    /// Ticks of its turn; `None` for ever.
    pub fn slice(self, nice: i32) -> Option<u32> {
        match self.policy {
            Policy::Fifo => None,
            Policy::RoundRobin => Some(RR_SLICE),
            Policy::Idle => Some(1),
            // 50 ticks at -20, 10 at 0, 1 at 19.
            Policy::Normal | Policy::Batch if nice <= 0 => Some(SLICE + 2 * nice.unsigned_abs()),
            Policy::Normal | Policy::Batch => Some(SLICE.saturating_sub(nice.unsigned_abs() / 2).max(1)),
        }
    }

    /// As one word, for a task's field.
    pub fn pack(self) -> Packed {
        Packed(self.policy as u32 | u32::from(self.priority) << 8 | u32::from(self.reset_on_fork) << 16)
    }
}

/// A [`Scheduling`] in one word, with the questions that the scheduler asks at each switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed(pub u32);

impl Packed {
    /// All of it.
    pub fn unpack(self) -> Scheduling {
        Scheduling {
            policy: Policy::new(self.0 & 0xff).unwrap_or(Policy::Normal),
            priority: (self.0 >> 8) as u8,
            reset_on_fork: self.0 >> 16 != 0,
        }
    }

    /// The task's level, below [`LEVELS`].
    #[inline(always)]
    pub fn level(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    /// Whether a wake-up may take the CPU from a task of the same level.
    #[inline(always)]
    pub fn preempts_equals(self) -> bool {
        self.0 & 0xffff == Policy::Normal as u32
    }

    /// As [`Scheduling::slice`].
    #[inline(always)]
    pub fn slice(self, nice: i32) -> Option<u32> {
        if self.preempts_equals() && nice == 0 {
            Some(SLICE)
        } else {
            self.unpack().slice(nice)
        }
    }
}
