//! System V message queues: sysvipc(7).
//!
//! The crate ipc decides; here are the copies, the waiting and the waking. The order of checks is Linux's: what the
//! arguments are by themselves, the memory and the copy of a message, then the queue.
//!
//! A failed copy to the program has consumed the message, as on Linux. An interrupted call is never begun again where a
//! handler has run.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::mm::plain::{UserSink, UserSource};
use crate::mm::tasks::Current;
use crate::task::ipc_namespace::{self, Acting, caller_without_groups};
use crate::task::{self, clock, signal};
use crate::user_struct;
use ipc::sysv::{
    Actor, Change, Ended, Limit, Namespace, NotSent, Received, Receiving, Refused, Selector, Sending, Status, Ticket,
    Wake,
};
use ipc::{Blank, Caller, Message};

const IPC_NOWAIT: u32 = 0o4000;
const MSG_NOERROR: u32 = 0o10000;
const MSG_EXCEPT: u32 = 0o20000;
const MSG_COPY: u32 = 0o40000;

const IPC_RMID: i32 = 0;
const IPC_SET: i32 = 1;
const IPC_STAT: i32 = 2;
const IPC_INFO: i32 = 3;
const MSG_STAT: i32 = 11;
const MSG_INFO: i32 = 12;
const MSG_STAT_ANY: i32 = 13;

/// Bytes of a message's type, before its text (`struct msgbuf`).
const TYPE: u64 = 8;

user_struct! {
    /// `struct msqid64_ds`, with `struct ipc64_perm` first.
    pub(super) struct QueueStatus {
        key: i32,
        uid: u32,
        gid: u32,
        cuid: u32,
        cgid: u32,
        mode: u32,
        sequence: u16,
        unused_0: [u16; 3],
        unused_1: [u64; 2],
        send_time: i64,
        receive_time: i64,
        change_time: i64,
        bytes: u64,
        messages: u64,
        max_bytes: u64,
        sender: u32,
        receiver: u32,
        unused_2: [u64; 2],
    }
}
const _: () = assert!(size_of::<QueueStatus>() == 120);

user_struct! {
    /// `struct msginfo`
    struct SystemInfo {
        pool: i32,
        map: i32,
        max: i32,
        mnb: i32,
        mni: i32,
        segment_size: i32,
        tql: i32,
        segments: u16,
        unused: u16,
    }
}

impl From<Refused> for Errno {
    fn from(refused: Refused) -> Errno {
        match refused {
            Refused::Error(error) => error.into(),
            Refused::Memory(error) => error.into(),
        }
    }
}

/// On whose behalf the running task acts.
#[inline(always)]
fn acting(current: &Current) -> Acting {
    Acting::new(current, 0)
}

/// Who acts.
#[inline(always)]
fn actor(current: &Current) -> Actor {
    Actor {
        task: current.id,
        pid: current.process.pid,
        now: clock::coarse(),
    }
}

/// Wakes whom an operation has served.
#[inline(always)]
fn wake(queues: &Namespace, served: Wake) {
    if !served.is_nobody() {
        wake_all(queues, served);
    }
}

#[inline(never)]
fn wake_all(queues: &Namespace, mut served: Wake) {
    while let Some((task, more)) = queues.next_to_wake(served) {
        task::wake_in_turn(task);
        served = more;
    }
}

pub(super) fn msgget(key: i32, flags: u32) -> Result<i32> {
    let current = Current::get();
    ipc_namespace::with(&current, |namespace| {
        let queues = &namespace.messages;
        Ok(queues.get(&acting(&current).caller(), &current.memcg, key, flags, clock::coarse())?)
    })
}

/// A message of `length` bytes that the running task pays for, filled from the program's memory.
#[inline(always)]
fn load(current: &Current, queues: &Namespace, from: u64, length: usize) -> Result<Message> {
    let blank = queues.alloc(&current.memcg, length)?;
    blank
        .fill(&mut UserSource::new(from))
        .map_err(|(blank, slab::Fault)| give_back(current, queues, blank))
}

#[cold]
fn give_back(current: &Current, queues: &Namespace, blank: Blank) -> Errno {
    queues.free(&current.memcg, blank);
    Errno::EFAULT
}

pub(super) fn msgsnd(id: i32, buffer: u64, length: usize, flags: u32) -> Result<()> {
    let kind = UserPtr::<i64>::new(buffer).read()?;
    let current = Current::get();
    ipc_namespace::with(&current, |namespace| {
        send(&current, &namespace.messages, id, kind, buffer, length, flags)
    })
}

#[inline(always)]
fn send(
    current: &Current,
    queues: &Namespace,
    id: i32,
    kind: i64,
    buffer: u64,
    length: usize,
    flags: u32,
) -> Result<()> {
    if length > queues.limits().get(Limit::MsgMax) as usize || id < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let message = load(current, queues, buffer.wrapping_add(TYPE), length)?;
    let sent = match current.process.has_groups() {
        false => queues.send(&caller_without_groups(current), &actor(current), id, kind, message),
        true => send_in_groups(current, queues, id, kind, message),
    };
    match sent {
        Ok(served) => {
            wake(queues, served);
            Ok(())
        }
        Err(refused) if refused.reason == ipc::Error::WouldBlock && flags & IPC_NOWAIT == 0 => {
            send_when_possible(current, queues, id, kind, refused.message)
        }
        Err(refused) => {
            queues.free(&current.memcg, refused.message.into_blank());
            Err(refused.reason.into())
        }
    }
}

#[cold]
#[inline(never)]
fn send_when_possible(current: &Current, queues: &Namespace, id: i32, kind: i64, mut message: Message) -> Result<()> {
    // Who has found the queue is told of its removal from then on, however often it must try again.
    let mut found = false;
    loop {
        let sending = queues.send_or_wait(&acting(current).caller(), &actor(current), id, kind, message);
        let ticket = match sending {
            Ok(Sending::Done(served)) => {
                wake(queues, served);
                return Ok(());
            }
            Ok(Sending::Waiting(ticket)) => ticket,
            Err(refused) if found && refused.reason == ipc::Error::Invalid => return Err(ipc::Error::Removed.into()),
            Err(refused) => return Err(refused.reason.into()),
        };
        let interrupted = wait(current, queues, &ticket);
        match queues.end_wait(ticket) {
            Ended::Sent | Ended::Received(_) => return Ok(()),
            Ended::Again(Some(back)) => (message, found) = (back, true),
            Ended::Removed(_) => return Err(ipc::Error::Removed.into()),
            Ended::GivenUp(_) | Ended::Again(None) | Ended::TooBig => return Err(interrupted),
        }
    }
}

/// For a task with supplementary groups, which are looked up: apart, so that the others do not pay for it.
#[cold]
#[inline(never)]
fn send_in_groups(
    current: &Current,
    queues: &Namespace,
    id: i32,
    kind: i64,
    message: Message,
) -> core::result::Result<Wake, NotSent> {
    queues.send(&acting(current).caller(), &actor(current), id, kind, message)
}

/// As [`send_in_groups`].
#[cold]
#[inline(never)]
fn receive_in_groups(
    current: &Current,
    queues: &Namespace,
    id: i32,
    selector: Selector,
    takes: usize,
) -> core::result::Result<Received, ipc::Error> {
    queues.receive(&acting(current).caller(), &actor(current), id, selector, takes)
}

/// Sleeps until served or interrupted: what an interrupted call returns.
fn wait(current: &Current, queues: &Namespace, ticket: &Ticket) -> Errno {
    loop {
        current.prepare_to_sleep();
        if queues.served(ticket) {
            current.cancel_sleep();
            return Errno::EINTR; // not looked at: who was served is not interrupted
        }
        if current.signal_pending() {
            current.cancel_sleep();
            return signal::interrupted(current, Errno::ERESTARTNOHAND);
        }
        task::schedule();
    }
}

pub(super) fn msgrcv(id: i32, buffer: u64, room: usize, kind: i64, flags: u32) -> Result<usize> {
    if id < 0 || room > isize::MAX as usize {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    ipc_namespace::with(&current, |namespace| {
        receive(&current, &namespace.messages, id, buffer, room, kind, flags)
    })
}

#[inline(always)]
fn receive(
    current: &Current,
    queues: &Namespace,
    id: i32,
    buffer: u64,
    room: usize,
    kind: i64,
    flags: u32,
) -> Result<usize> {
    if flags & MSG_COPY != 0 {
        return copy(current, queues, id, buffer, room, kind, flags);
    }
    let selector = Selector::new(kind, flags & MSG_EXCEPT != 0);
    // With MSG_NOERROR what is too long is cut.
    let takes = if flags & MSG_NOERROR != 0 { usize::MAX } else { room };
    let received = match current.process.has_groups() {
        false => queues.receive(&caller_without_groups(current), &actor(current), id, selector, takes),
        true => receive_in_groups(current, queues, id, selector, takes),
    };
    let message = match received {
        Ok(received) => {
            wake(queues, received.wake);
            received.message
        }
        Err(ipc::Error::NoMessage) if flags & IPC_NOWAIT == 0 => {
            receive_when_possible(current, queues, id, selector, takes)?
        }
        Err(refused) => return Err(refused.into()),
    };
    let result = hand_out(&message, message.len().min(room), message.kind(), buffer);
    queues.free(&current.memcg, message.into_blank());
    result
}

/// Copies a type, and `length` bytes of a message, to the program.
#[inline(always)]
fn hand_out(message: &Message, length: usize, kind: i64, buffer: u64) -> Result<usize> {
    UserPtr::<i64>::new(buffer).write(&kind)?;
    let mut to = UserSink::new(buffer.wrapping_add(TYPE));
    message.copy_out(&mut to, length).map_err(|_| Errno::EFAULT)?;
    Ok(length)
}

#[cold]
#[inline(never)]
fn receive_when_possible(
    current: &Current,
    queues: &Namespace,
    id: i32,
    selector: Selector,
    takes: usize,
) -> Result<Message> {
    let mut found = false;
    loop {
        let receiving = queues.receive_or_wait(&acting(current).caller(), &actor(current), id, selector, takes);
        let ticket = match receiving {
            Ok(Receiving::Done(Received { message, wake: served })) => {
                wake(queues, served);
                return Ok(message);
            }
            Ok(Receiving::Waiting(ticket)) => ticket,
            Err(ipc::Error::Invalid) if found => return Err(ipc::Error::Removed.into()),
            Err(refused) => return Err(refused.into()),
        };
        let interrupted = wait(current, queues, &ticket);
        match queues.end_wait(ticket) {
            Ended::Received(message) => return Ok(message),
            Ended::TooBig => return Err(Errno::E2BIG),
            Ended::Again(_) => found = true,
            Ended::Removed(_) => return Err(ipc::Error::Removed.into()),
            Ended::GivenUp(_) | Ended::Sent => return Err(interrupted),
        }
    }
}

/// msgrcv(2) with `MSG_COPY`: what is copied into is made, and filled from the buffer, before the queue is looked for.
#[cold]
fn copy(
    current: &Current,
    queues: &Namespace,
    id: i32,
    buffer: u64,
    room: usize,
    index: i64,
    flags: u32,
) -> Result<usize> {
    if flags & MSG_EXCEPT != 0 || flags & IPC_NOWAIT == 0 {
        return Err(Errno::EINVAL);
    }
    let most = room.min(queues.limits().get(Limit::MsgMax) as usize);
    let mut into = load(current, queues, buffer, most)?;
    let takes = if flags & MSG_NOERROR != 0 { usize::MAX } else { room };
    let (length, kind) = queues.copy(&acting(current).caller(), id, index, takes, &mut into)?;
    hand_out(&into, length, kind, buffer)
}

pub(super) fn msgctl(id: i32, command: i32, buffer: UserPtr<QueueStatus>) -> Result<i32> {
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    ipc_namespace::with(&current, |namespace| {
        control(&namespace.messages, &acting(&current).caller(), id, command, buffer)
    })
}

fn control(queues: &Namespace, caller: &Caller, id: i32, command: i32, buffer: UserPtr<QueueStatus>) -> Result<i32> {
    match command {
        IPC_INFO | MSG_INFO => {
            let (info, highest_index) = info(queues, command == MSG_INFO);
            UserPtr::new(buffer.address()).write(&info)?;
            Ok(highest_index as i32)
        }
        IPC_STAT => {
            buffer.write(&told(&queues.status(caller, id)?))?;
            Ok(0)
        }
        MSG_STAT | MSG_STAT_ANY => {
            let status = queues.status_at((command == MSG_STAT).then_some(caller), id as u32)?;
            buffer.write(&told(&status))?;
            Ok(status.id)
        }
        IPC_SET => {
            let wanted = buffer.read()?;
            let change = Change {
                uid: wanted.uid,
                gid: wanted.gid,
                mode: wanted.mode,
                max_bytes: wanted.max_bytes,
            };
            wake(queues, queues.change(caller, id, &change, clock::coarse())?);
            Ok(0)
        }
        IPC_RMID => {
            wake(queues, queues.remove(caller, id)?);
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

fn told(status: &Status) -> QueueStatus {
    let seconds = |time: u64| (time / clock::SECOND) as i64;
    QueueStatus {
        key: status.key,
        uid: status.ownership.uid,
        gid: status.ownership.gid,
        cuid: status.ownership.cuid,
        cgid: status.ownership.cgid,
        mode: status.ownership.mode.into(),
        sequence: status.sequence,
        unused_0: [0; 3],
        unused_1: [0; 2],
        send_time: seconds(status.sent),
        receive_time: seconds(status.received),
        change_time: seconds(status.changed),
        bytes: status.bytes,
        messages: status.messages,
        max_bytes: status.max_bytes,
        sender: status.sender,
        receiver: status.receiver,
        unused_2: [0; 2],
    }
}

/// What IPC_INFO tells, or MSG_INFO, and the highest index in use.
fn info(queues: &Namespace, now: bool) -> (SystemInfo, u32) {
    /// What IPC_INFO tells of a kernel that has no such limits any more (msgctl(2)).
    const POOL: i32 = 16384 * 32000 / 1024;
    const DEFAULT_MNB: i32 = 16384;
    let limit = |limit| queues.limits().get(limit) as i32;
    let clamped = |total: u64| i32::try_from(total).unwrap_or(i32::MAX);
    let info = queues.info();
    let (pool, map, tql) = match now {
        true => (info.queues as i32, clamped(info.messages), clamped(info.bytes)),
        false => (POOL, DEFAULT_MNB, DEFAULT_MNB),
    };
    let told = SystemInfo {
        pool,
        map,
        max: limit(Limit::MsgMax),
        mnb: limit(Limit::MsgMnb),
        mni: limit(Limit::MsgMni),
        segment_size: 16,
        tql,
        segments: 0xffff,
        unused: 0,
    };
    (told, info.highest_index)
}
