//! The message cache: the memory of a received message, kept for the next one.
//!
//! **Purpose.** The regression thread's remedy: a task that sends and receives on one queue allocates and frees memory
//! of the same size over and over, and pays for the accounting each time. The cache keeps the memory, still charged.
//!
//! **How it works.** Each queue has, on each CPU, one slot: a blank, and the task that freed it. Freeing puts the blank
//! into the slot if the slot is empty. Allocating takes it if the slot's task is the caller and the length is the same.
//! That hit rule is the thread's. Three faults of the thread's patch are not:
//! * only a whole [`Blank`] can get in: one whose allocation failed half-way is no blank, and one whose copy from the
//!   user failed has its full length;
//! * a task is known by an identity that is never used again, not by an address;
//! * memory serves only tasks of the cgroup that pays for it. A task that has moved, or that received what another
//!   cgroup's task had sent, neither takes such memory nor puts it in.
//!
//! System V queues ([`crate::sysv`]) have one cache for all of them, and two rules that the thread's experiment does not need:
//! whoever's cgroup pays may take a blank, so that it also serves a pair of sender and receiver; and the youngest blank
//! stays. It is always there; the switch is for the POSIX queues, which the experiment is about.
//!
//! What it holds back is bounded: one message a queue and CPU, and one more a CPU. It is given back when the queue dies, and when the
//! kernel [drains](MessageCache::drain_this_cpu) it: because the owner's cgroup is at its limit, or was removed.
//!
//! **Lock order.** None: a slot is its own CPU's, reached with preemption off. Interrupt handlers do not use it.

use crate::TaskId;
use crate::message::{Blank, Label};
use core::cell::Cell;
use cpu::Pinned;
use memcg::TaskMemcg;
use percpu::{NoSpace, PerCpu, PerCpuI64};

/// One CPU's slot.
struct Slot {
    /// The task that freed the blank.
    task: Cell<TaskId>,
    /// The blank's length and payer; [`Label::NONE`] when there is no blank.
    label: Cell<Label>,
    blank: Cell<Option<Blank>>,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            task: Cell::new(0),
            label: Cell::new(Label::NONE),
            blank: Cell::new(None),
        }
    }
    #[inline(always)]
    fn take(&self) -> Option<Blank> {
        self.label.set(Label::NONE);
        self.blank.take()
    }
}

/// The cache of one queue.
pub struct MessageCache {
    /// `None`: off.
    slots: Option<PerCpu<Slot>>,
}

/// How often caches served, over all queues of a machine. Exact when all is quiet.
pub struct CacheCounts {
    hits: PerCpuI64,
    misses: PerCpuI64,
}

impl CacheCounts {
    pub(crate) fn try_new() -> Result<CacheCounts, NoSpace> {
        Ok(CacheCounts {
            hits: PerCpuI64::try_new()?,
            misses: PerCpuI64::try_new()?,
        })
    }
    /// Allocations that a cache served.
    pub fn hits(&self) -> u64 {
        self.hits.sum() as u64
    }
    /// Allocations that a cache was asked for and did not serve.
    pub fn misses(&self) -> u64 {
        self.misses.sum() as u64
    }
}

impl MessageCache {
    /// A cache that keeps nothing.
    pub const fn off() -> MessageCache {
        MessageCache { slots: None }
    }

    /// A cache. `Err` when the per-CPU areas are full.
    pub fn try_new() -> Result<MessageCache, NoSpace> {
        Ok(MessageCache {
            slots: Some(PerCpu::try_new(|_| Slot::new())?),
        })
    }

    /// Whether it is on.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.slots.is_some()
    }

    /// A blank for a message of `length` bytes of the running task, if this CPU's slot has the right one.
    #[inline(always)]
    pub fn take(&self, task: TaskId, memcg: &TaskMemcg, length: usize, counts: &CacheCounts) -> Option<Blank> {
        let slots = self.slots.as_ref()?;
        let label = Label::new(length, memcg);
        let taken = cpu::without_preemption(|pinned| {
            let slot = slots.get(pinned);
            if slot.label.get() == label && slot.task.get() == task {
                slot.take()
            } else {
                None
            }
        });
        match taken {
            Some(_) => counts.hits.add(1),
            None => counts.misses.add(1),
        }
        taken
    }

    /// Keeps a blank that the running task has no more use for. Gives it back where it is not kept: the slot is taken,
    /// or somebody else pays for the blank.
    #[inline(always)]
    pub fn put(&self, task: TaskId, memcg: &TaskMemcg, blank: Blank) -> Option<Blank> {
        let Some(slots) = &self.slots else { return Some(blank) };
        let label = blank.label();
        if label != Label::new(blank.len(), memcg) {
            return Some(blank);
        }
        cpu::without_preemption(|pinned| {
            let slot = slots.get(pinned);
            if slot.label.get() != Label::NONE {
                return Some(blank);
            }
            slot.task.set(task);
            slot.label.set(label);
            // The old value is None, as the label says.
            slot.blank.replace(Some(blank))
        })
    }

    /// As [`take`](MessageCache::take), whichever task freed the blank: that it is the caller's cgroup that pays is enough.
    /// Not counted.
    #[inline(always)]
    pub(crate) fn take_any(&self, memcg: &TaskMemcg, length: usize) -> Option<Blank> {
        let slots = self.slots.as_ref()?;
        let label = Label::new(length, memcg);
        cpu::without_preemption(|pinned| {
            let slot = slots.get(pinned);
            if slot.label.get() == label { slot.take() } else { None }
        })
    }

    /// As [`put`](MessageCache::put), but what is in the slot makes room: gives that back, or a blank for which somebody
    /// else pays. A length that nobody asks for any more does not keep the slot.
    #[inline(always)]
    pub(crate) fn replace(&self, memcg: &TaskMemcg, blank: Blank) -> Option<Blank> {
        let Some(slots) = &self.slots else { return Some(blank) };
        let label = blank.label();
        if label != Label::new(blank.len(), memcg) {
            return Some(blank);
        }
        cpu::without_preemption(|pinned| {
            let slot = slots.get(pinned);
            slot.label.set(label);
            slot.blank.replace(Some(blank))
        })
    }

    /// Gives back what this CPU's slot holds, if `owner` holds of the number of the cgroup that pays for it
    /// ([`memcg::KmemId::index`]). Gives the bytes of message data given back.
    ///
    /// For a cgroup at its limit or removed. Other CPUs do it for themselves when asked.
    pub fn drain_this_cpu(&self, pinned: &Pinned, owner: impl FnOnce(usize) -> bool) -> usize {
        let Some(slots) = &self.slots else { return 0 };
        let slot = slots.get(pinned);
        if slot.label.get() == Label::NONE || !owner(slot.label.get().owner()) {
            return 0;
        }
        slot.take().map_or(0, |blank| blank.len())
    }
}
