//! The queues of one IPC namespace, and what can be done with them.
//!
//! **Order of checks**, Linux's. What concerns arguments alone (`EFAULT`, lengths, types, flags) is the kernel's to check
//! first. Then here: the id (`EINVAL`), the permission (`EACCES`, `EPERM`), the limit of privilege (`EPERM`), and the
//! queue's state (`EAGAIN`, `ENOMSG`, `E2BIG`).
//!
//! **Lock order.** 30: the ids; 35: a slot.

use super::ids::{Ids, index_of};
use super::limits::{Limit, Limits, MAX_QUEUES};
use super::outcome::{Change, Ended, Info, NotSent, QueueKey, Received, Receiving, Refused, Sending, Status, Wake};
use super::ownership::Ownership;
use super::queue::Queue;
use super::slots::{BLOCK_SIZE, Slots, Standing};
use super::totals::Totals;
use super::{Actor, CREATE, EXCLUSIVE, PRIVATE, Selector};
use crate::message::MAX_INLINE;
use crate::{Blank, Caller, Error, Ipc, Message, TaskId, waiters};
use core::num::NonZeroU64;
use core::ops::ControlFlow;
use cpu::SpinLock;
use cpu::lock::SpinGuard;
use memcg::TaskMemcg;
use slab::{AllocError, Gfp, Object, Spare};

/// The System V queues of one IPC namespace. Dropping it ends them all; nobody sleeps at one then, since whoever sleeps
/// has the namespace.
pub struct Namespace {
    /// Immutable.
    ipc: &'static Ipc,
    limits: Limits,
    ids: SpinLock<Ids>,
    slots: Slots,
    totals: Totals,
}

/// The right to a place in a queue's line, and the duty to give it back with [`Namespace::end_wait`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place in a line is given back with end_wait"]
pub struct Ticket {
    queue: QueueKey,
    place: waiters::Ticket,
}

/// Whom the operation on `queue` has served.
#[inline(always)]
fn wake(queue: &Queue) -> Wake {
    Wake(match queue.has_served() {
        true => Some(key_of(queue)),
        false => None,
    })
}

fn key_of(queue: &Queue) -> QueueKey {
    QueueKey {
        serial: NonZeroU64::new(queue.serial).expect("serial numbers begin at 1"),
        index: index_of(queue.id),
    }
}

impl Namespace {
    /// A namespace without queues, with Linux's default limits.
    ///
    /// # Errors
    /// No memory for its tables or counters.
    pub fn try_new(ipc: &'static Ipc) -> Result<Namespace, Error> {
        Ok(Namespace {
            ipc,
            limits: Limits::new(),
            ids: SpinLock::new(30, Ids::new()),
            slots: Slots::try_new()?,
            totals: Totals::try_new(ipc.counting)?,
        })
    }

    /// The settings of `/proc/sys/kernel/msg*`.
    #[inline(always)]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The slot that an id leads to, locked, with the queue of that id in it. [`Error::Invalid`].
    #[inline(always)]
    fn lock(&self, id: i32) -> Result<SpinGuard<'_, Standing>, Error> {
        if id >= 0
            && let Some(slot) = self.slots.lock(index_of(id))
            && let Some(queue) = &slot.queue
            && queue.id == id
        {
            return Ok(slot);
        }
        Err(Error::Invalid)
    }

    /// Finds or makes a queue (msgget(2)): its id. `flags` holds permission bits, [`CREATE`] and [`EXCLUSIVE`]; a new
    /// queue's memory is charged to `memcg`, the running task's.
    ///
    /// # Errors
    /// [`Error::Exists`], then [`Error::Access`] for a queue that is there; [`Error::NoEntry`] where none is and none is
    /// to be made; on making no memory, then [`Error::NoSpace`].
    pub fn get(&self, caller: &Caller, memcg: &TaskMemcg, key: i32, flags: u32, now: u64) -> Result<i32, Refused> {
        let mut made = None;
        loop {
            let mut ids = self.ids.lock();
            if key != PRIVATE {
                if let Some(index) = ids.find(key) {
                    if flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
                        return Err(Error::Exists.into());
                    }
                    return Ok(self.check_found(index, caller, flags)?);
                }
                if flags & CREATE == 0 {
                    return Err(Error::NoEntry.into());
                }
            }
            // Memory is taken with the lock given up; then one looks again.
            let Some((queue, node)) = made.take() else {
                drop(ids);
                made = Some(self.make(caller, memcg, key, flags, now)?);
                continue;
            };
            return Ok(self.place(&mut ids, queue, node)?);
        }
    }

    fn check_found(&self, index: u32, caller: &Caller, flags: u32) -> Result<i32, Error> {
        let slot = self.slots.lock(index).ok_or(Error::NoEntry)?;
        let queue = slot.queue.as_ref().ok_or(Error::NoEntry)?;
        queue.ownership().check(caller, flags)?;
        Ok(queue.id)
    }

    #[allow(clippy::type_complexity, reason = "a queue, and the memory for its key")]
    fn make(
        &self,
        caller: &Caller,
        memcg: &TaskMemcg,
        key: i32,
        flags: u32,
        now: u64,
    ) -> Result<(Object<Queue>, Option<Spare<i32, u32>>), Refused> {
        let slab = self.ipc.slab;
        let ownership = Ownership {
            uid: caller.uid,
            gid: caller.gid,
            cuid: caller.uid,
            cgid: caller.gid,
            mode: (flags & 0o777) as u16,
        };
        let queue = Queue::new(key, ownership, self.limits.get(Limit::MsgMnb).into(), now);
        let queue = Object::try_new(slab, Gfp::ACCOUNT, memcg, queue, 0)?;
        let node = match key {
            PRIVATE => None,
            _ => Some(Spare::try_new(slab, Gfp::ACCOUNT, memcg)?),
        };
        Ok((queue, node))
    }

    fn place(&self, ids: &mut Ids, mut queue: Object<Queue>, node: Option<Spare<i32, u32>>) -> Result<i32, Error> {
        if ids.count() >= self.limits.get(Limit::MsgMni) {
            return Err(Error::NoSpace);
        }
        let wanted = self.limits.take_next_id();
        let id = ids.choose(wanted)?;
        self.slots.make(id.index)?;
        ids.take(id, wanted.is_some(), node.map(|node| (queue.key, node)));
        queue.id = id.number();
        queue.sequence = id.sequence;
        queue.serial = id.serial;
        let mut slot = self.slots.lock(id.index).expect("its block was made");
        debug_assert!(slot.queue.is_none(), "index {} is free", id.index);
        slot.queue = Some(queue);
        Ok(id.number())
    }

    /// Memory for a message of `length` bytes that the running task sends: from the cache, or new and charged to it.
    ///
    /// # Errors
    /// No memory, or the task's cgroup is at its limit.
    #[inline(always)]
    pub fn alloc(&self, memcg: &TaskMemcg, length: usize) -> Result<Blank, AllocError> {
        match self.ipc.messages.take_any(memcg, length) {
            Some(blank) => Ok(blank),
            None => Blank::alloc(self.ipc.slab, memcg, length),
        }
    }

    /// Gives up the memory of a message that the running task has received, or could not fill: to the cache, or back to
    /// whom it is charged. Long messages are not kept.
    #[inline(always)]
    pub fn free(&self, memcg: &TaskMemcg, blank: Blank) {
        if blank.len() <= MAX_INLINE {
            drop(self.ipc.messages.replace(memcg, blank));
        } else {
            drop(blank);
        }
    }

    /// Sends, if that is possible now. `kind` is the type, above 0.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Access`], [`Error::WouldBlock`]; the message comes back.
    #[inline(always)]
    pub fn send(
        &self,
        caller: &Caller,
        actor: &Actor,
        id: i32,
        kind: i64,
        mut message: Message,
    ) -> Result<Wake, NotSent> {
        debug_assert!(kind > 0, "type {kind}");
        message.set_kind(kind);
        let mut slot = match self.lock(id) {
            Ok(slot) => slot,
            Err(reason) => return Err(NotSent { reason, message }),
        };
        let queue = slot.queue.as_mut().expect("lock has found it");
        if let Err(reason) = queue.check_send(caller, message.len()) {
            return Err(NotSent { reason, message });
        }
        queue.send(message, actor.pid, actor.now, &self.totals);
        Ok(wake(queue))
    }

    /// Sends, or puts the task in line with the message. See [`super`] for how to wait.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Access`], [`Error::NoMemory`]; the message comes back.
    pub fn send_or_wait(
        &self,
        caller: &Caller,
        actor: &Actor,
        id: i32,
        kind: i64,
        mut message: Message,
    ) -> Result<Sending, NotSent> {
        message.set_kind(kind);
        let mut slot = match self.lock(id) {
            Ok(slot) => slot,
            Err(reason) => return Err(NotSent { reason, message }),
        };
        let queue = slot.queue.as_mut().expect("lock has found it");
        match queue.check_send(caller, message.len()) {
            Ok(()) => {
                queue.send(message, actor.pid, actor.now, &self.totals);
                Ok(Sending::Done(wake(queue)))
            }
            Err(Error::WouldBlock) => match queue.wait_to_send(message, actor) {
                Ok(place) => Ok(Sending::Waiting(Ticket {
                    queue: key_of(queue),
                    place,
                })),
                Err((reason, message)) => Err(NotSent { reason, message }),
            },
            Err(reason) => Err(NotSent { reason, message }),
        }
    }

    /// Receives what the selector chooses, if it is there. `room` is the longest message to be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Access`], [`Error::NoMessage`], [`Error::TooBig`].
    #[inline(always)]
    pub fn receive(
        &self,
        caller: &Caller,
        actor: &Actor,
        id: i32,
        selector: Selector,
        room: usize,
    ) -> Result<Received, Error> {
        let mut slot = self.lock(id)?;
        let queue = slot.queue.as_mut().expect("lock has found it");
        let message = queue.receive(caller, actor, selector, room, &self.totals)?;
        let wake = wake(queue);
        Ok(Received { message, wake })
    }

    /// Receives, or puts the task in line. See [`super`] for how to wait.
    ///
    /// # Errors
    /// As [`receive`](Namespace::receive), and [`Error::NoMemory`] instead of [`Error::NoMessage`].
    pub fn receive_or_wait(
        &self,
        caller: &Caller,
        actor: &Actor,
        id: i32,
        selector: Selector,
        room: usize,
    ) -> Result<Receiving, Error> {
        let mut slot = self.lock(id)?;
        let queue = slot.queue.as_mut().expect("lock has found it");
        match queue.receive(caller, actor, selector, room, &self.totals) {
            Ok(message) => {
                let wake = wake(queue);
                Ok(Receiving::Done(Received { message, wake }))
            }
            Err(Error::NoMessage) => {
                let place = queue.wait_to_receive(actor, selector, room)?;
                Ok(Receiving::Waiting(Ticket {
                    queue: key_of(queue),
                    place,
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Copies the message before which there are `index` into `into` (`MSG_COPY`), which stays in the queue: its length
    /// and type.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Access`], [`Error::NoMessage`]; [`Error::TooBig`] when it is longer than `room`,
    /// [`Error::Invalid`] when it is longer than `into`.
    pub fn copy(
        &self,
        caller: &Caller,
        id: i32,
        index: i64,
        room: usize,
        into: &mut Message,
    ) -> Result<(usize, i64), Error> {
        let slot = self.lock(id)?;
        let queue = slot.queue.as_ref().expect("lock has found it");
        queue.copy(caller, index, room, into)
    }

    /// Runs `f` on the queue that somebody has slept at, removed or not. `None` when it has gone for good.
    fn with_slept_at<R>(&self, key: QueueKey, f: impl FnOnce(&mut Queue) -> R) -> Option<R> {
        let mut slot = self.slots.lock(key.index)?;
        let Standing { queue, removed } = &mut *slot;
        if let Some(queue) = queue
            && queue.serial == key.serial.get()
        {
            return Some(f(queue));
        }
        let mut entries = removed.iter_mut();
        let mut entry = entries.find(|entry| entry.serial == key.serial.get())?;
        Some(f(entry.header_mut()))
    }

    /// Whether a waiter has been served and should come for what it got.
    pub fn served(&self, ticket: &Ticket) -> bool {
        let served = self.with_slept_at(ticket.queue, |queue| queue.served(&ticket.place));
        served.expect("a queue stays for those who sleep at it")
    }

    /// Ends a wait, served or not.
    pub fn end_wait(&self, ticket: Ticket) -> Ended {
        let Ticket { queue: key, place } = ticket;
        let end = |queue: &mut Queue| {
            let ended = queue.end_wait(place);
            (ended, queue.is_removed() && queue.is_left_alone())
        };
        let (ended, last) = self
            .with_slept_at(key, end)
            .expect("a queue stays for those who sleep at it");
        if last {
            let mut slot = self.slots.lock(key.index).expect("a queue was there");
            let gone = slot.removed.take_where(|queue| match queue.serial == key.serial.get() {
                true => ControlFlow::Break(true),
                false => ControlFlow::Continue(()),
            });
            drop(slot);
            drop(gone);
        }
        ended
    }

    /// The next task to wake, and where to ask for the one after it.
    pub fn next_to_wake(&self, wake: Wake) -> Option<(TaskId, Wake)> {
        let next = |queue: &mut Queue| queue.pop_served();
        // A queue that has gone for good has nobody to be woken: all have come.
        let task = self.with_slept_at(wake.0?, next)??;
        Some((task, wake))
    }

    /// Removes a queue (`IPC_RMID`): its messages are gone, and all who sleep at it are to be woken.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::NotPermitted`].
    pub fn remove(&self, caller: &Caller, id: i32) -> Result<Wake, Error> {
        let mut ids = self.ids.lock();
        let mut slot = self.lock(id)?;
        let mut queue = slot.queue.take().expect("lock has found it");
        if let Err(error) = queue.ownership().check_control(caller) {
            slot.queue = Some(queue);
            return Err(error);
        }
        let messages = queue.remove(&self.totals);
        let wake = wake(&queue);
        let unused = ids.give_back(index_of(id), queue.key);
        let gone = match queue.is_left_alone() {
            true => Some(queue),
            false => {
                slot.removed.push(queue);
                None
            }
        };
        drop(slot);
        drop(ids);
        drop((messages, unused, gone));
        Ok(wake)
    }

    /// Changes owner, mode and limit (`IPC_SET`).
    ///
    /// # Errors
    /// [`Error::Invalid`] for the id; [`Error::NotPermitted`] for a stranger, and for more bytes than `msgmnb` without
    /// `CAP_SYS_RESOURCE`; [`Error::Invalid`] for an owner that is nobody.
    pub fn change(&self, caller: &Caller, id: i32, change: &Change, now: u64) -> Result<Wake, Error> {
        let mut slot = self.lock(id)?;
        let queue = slot.queue.as_mut().expect("lock has found it");
        queue.ownership().check_control(caller)?;
        if change.max_bytes > self.limits.get(Limit::MsgMnb).into() && !caller.cap_sys_resource {
            return Err(Error::NotPermitted);
        }
        if change.uid == u32::MAX || change.gid == u32::MAX {
            return Err(Error::Invalid);
        }
        queue.change(change, now);
        Ok(wake(queue))
    }

    /// What a queue is like (`IPC_STAT`).
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Access`].
    pub fn status(&self, caller: &Caller, id: i32) -> Result<Status, Error> {
        let slot = self.lock(id)?;
        let queue = slot.queue.as_ref().expect("lock has found it");
        queue.ownership().check(caller, Ownership::READ)?;
        Ok(queue.status())
    }

    /// What the queue at an index is like: for a caller that may receive from it (`MSG_STAT`), or for anybody
    /// (`MSG_STAT_ANY`, `/proc/sysvipc/msg`). Of the index the low 15 bits count.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is none, [`Error::Access`].
    pub fn status_at(&self, caller: Option<&Caller>, index: u32) -> Result<Status, Error> {
        let slot = self.slots.lock(index & (MAX_QUEUES - 1)).ok_or(Error::Invalid)?;
        let queue = slot.queue.as_ref().ok_or(Error::Invalid)?;
        if let Some(caller) = caller {
            queue.ownership().check(caller, Ownership::READ)?;
        }
        Ok(queue.status())
    }

    /// Numbers of tasks that wait to receive and to send.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn waiting(&self, id: i32) -> Result<(usize, usize), Error> {
        let slot = self.lock(id)?;
        Ok(slot.queue.as_ref().expect("lock has found it").waiting())
    }

    /// What there is altogether (`MSG_INFO`). The totals are summed with no lock held.
    pub fn info(&self) -> Info {
        let (queues, highest) = {
            let ids = self.ids.lock();
            (ids.count(), ids.highest())
        };
        let (messages, bytes) = self.totals.sum();
        Info {
            queues,
            highest_index: highest.unwrap_or(0),
            messages: messages.max(0) as u64,
            bytes: bytes.max(0) as u64,
        }
    }

    /// Removes all queues: at the end of a run. `wake` is told of tasks that slept at one.
    pub fn remove_all(&self, mut wake: impl FnMut(TaskId)) {
        let root = Caller::new(0, 0, true, u64::MAX);
        loop {
            let Info {
                queues, highest_index, ..
            } = self.info();
            if queues == 0 {
                return;
            }
            let Ok(status) = self.status_at(None, highest_index) else {
                continue;
            };
            let mut served = self.remove(&root, status.id).unwrap_or_default();
            while let Some((task, more)) = self.next_to_wake(served) {
                wake(task);
                served = more;
            }
        }
    }

    /// Memory that slots take, kept as long as the namespace lives: size of a block in bytes, and number of blocks.
    pub fn slot_blocks(&self) -> (usize, usize) {
        (BLOCK_SIZE, self.slots.blocks())
    }
}
