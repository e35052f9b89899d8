//! POSIX message queues: mq_overview(7).
//!
//! The crate ipc decides; here are the descriptor, the copies, the waiting and the waking. The order of checks is
//! Linux's: the timeout, the priority, the descriptor, the length, the memory and the copy, then the queue.
//!
//! A failed copy to the program has consumed the message, as on Linux.

use super::errno::{Errno, Result};
use super::file::{install, shared_file};
use super::socket::netlink_of;
use super::timer::Event;
use super::user::UserPtr;
use crate::fs::file::{File, Object, Timespec};
use crate::fs::files::{self, lookup};
use crate::fs::mqueue::{QueueFile, acting, somebody_polls, wake_pollers};
use crate::fs::notification;
use crate::mm::plain::{UserSink, UserSource};
use crate::mm::tasks::Current;
use crate::net::netlink::{Cookie, Place};
use crate::task::ipc_namespace::queues;
use crate::task::{self, clock, signal};
use crate::user_struct;
use cpu::atomic::Ordering;
use ipc::mqueue::{
    Claim, Create, Ended, Ending, How, NamespaceRef, PRIO_MAX, Queue, Receiving, Sending, Sent, Ticket, Waiter,
};
use ipc::{Access, Message};
use linux_raw_sys::general;

/// Makes the machine's queues. Once, at boot.
pub fn start(system: &task::System) -> core::result::Result<(), ipc::Error> {
    let ipc = ipc::Ipc::try_new(system.slab, system.options.msgcache, system.options.counters)?;
    task::ipc_namespace::start(ipc)
}

impl From<ipc::Error> for Errno {
    fn from(error: ipc::Error) -> Errno {
        Errno::from_number(error.errno() as u16)
    }
}

impl From<slab::AllocError> for Errno {
    fn from(_: slab::AllocError) -> Errno {
        Errno::ENOMEM
    }
}

user_struct! {
    /// `struct mq_attr`
    pub(super) struct Attributes {
        flags: i64,
        max_messages: i64,
        message_size: i64,
        current_messages: i64,
        reserved: [i64; 4],
    }
}

pub(super) fn mq_open(name: UserPtr<u8>, flags: u32, mode: u32, attributes: UserPtr<Attributes>) -> Result<i32> {
    let claim = attributes
        .optional()
        .map(UserPtr::read)
        .transpose()?
        .map(|claimed| Claim {
            max_messages: claimed.max_messages,
            message_size: claimed.message_size,
        });
    let name = name.read_path(false)?;
    let current = Current::get();
    // A descriptor must be free before anything is made.
    let limit = current.process.limit(general::RLIMIT_NOFILE);
    current.own().files.borrow().check_free(limit)?;
    let create = (flags & general::O_CREAT != 0).then(|| Create {
        exclusive: flags & general::O_EXCL != 0,
        mode: (mode & 0o7777 & !current.process.umask.load(Ordering::Relaxed)) as u16,
        attributes: claim,
    });
    let open = queues().open(&acting(&current).caller(), &name, Access::from_flags(flags), create)?;
    open.touch(clock::realtime());
    let file = File::try_new(Object::Queue(QueueFile::new(open)), flags)?;
    install(&current, file, 0, true)
}

pub(super) fn mq_unlink(name: UserPtr<u8>) -> Result<()> {
    let name = name.read_path(false)?;
    Ok(queues().unlink(&acting(&Current::get()).caller(), &name)?)
}

/// The queue of a file; EBADF for any other file.
#[inline(always)]
fn queue_of(file: &File) -> Result<&Queue> {
    match &file.object {
        Object::Queue(queue) => Ok(queue.queue()),
        _ => Err(Errno::EBADF),
    }
}

/// The absolute time (CLOCK_REALTIME) that a call gives: EFAULT, EINVAL even where it will not be needed.
#[inline(always)]
fn deadline(timeout: UserPtr<Timespec>) -> Result<Option<u64>> {
    if timeout.is_null() {
        return Ok(None);
    }
    read_deadline(timeout).map(Some)
}

#[cold]
fn read_deadline(timeout: UserPtr<Timespec>) -> Result<u64> {
    Ok(clock::monotonic_of(timeout.read()?.to_nanoseconds()?))
}

pub(super) fn mq_timedsend(
    descriptor: i32,
    from: u64,
    length: usize,
    priority: u32,
    timeout: UserPtr<Timespec>,
) -> Result<()> {
    let deadline = deadline(timeout)?;
    if priority >= PRIO_MAX {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    let result = send(&current, descriptor, from, length, priority, deadline);
    current.own().files.release();
    result
}

#[inline(always)]
fn send(
    current: &Current,
    descriptor: i32,
    from: u64,
    length: usize,
    priority: u32,
    deadline: Option<u64>,
) -> Result<()> {
    let file = files::lookup_held(&current.own().files, descriptor)?;
    let file: &File = &file;
    let queue = queue_of(file)?;
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    if length > queue.attributes().message_size as usize {
        return Err(Errno::EMSGSIZE);
    }
    let blank = queue.alloc(current.id, &current.memcg, length)?;
    let message = match blank.fill(&mut UserSource::new(from)) {
        Ok(message) => message,
        Err((blank, slab::Fault)) => {
            queue.free(current.id, &current.memcg, blank);
            return Err(Errno::EFAULT);
        }
    };
    match queue.send(message, priority) {
        Ok(sent) => {
            after_send(queue, sent);
            Ok(())
        }
        Err(refused) if refused.reason == ipc::Error::WouldBlock && !file.nonblocking() => {
            send_when_possible(queue, refused.message, priority, deadline)
        }
        Err(refused) => {
            queue.free(current.id, &current.memcg, refused.message.into_blank());
            Err(refused.reason.into())
        }
    }
}

/// What a send leaves to be done.
#[inline(always)]
fn after_send(queue: &Queue, sent: Sent) {
    queue.touch(clock::coarse());
    match sent {
        Sent::Queued {
            notify: None,
            wake_pollers: false,
        } => {}
        Sent::Queued {
            notify,
            wake_pollers: polled,
        } => {
            if let Some(registered) = notify {
                notification::tell(&registered, Ending::Fired);
            }
            if polled {
                wake_pollers();
            }
        }
        Sent::HandedOver { wake } => task::wake_by_id(wake),
    }
}

/// How the running task stands in a line.
fn waiter(current: &Current) -> Waiter {
    /// A task without real-time priority and of nice value 0, as Linux counts inside: lower is served first.
    const ORDINARY: i32 = 120;
    let scheduling = current.scheduling().unpack();
    Waiter {
        task: current.id,
        priority: match scheduling.policy.is_realtime() {
            true => 99 - i32::from(scheduling.priority),
            false => ORDINARY + current.process.nice.load(Ordering::Relaxed) as i32,
        },
    }
}

/// Why a wait ended without being served.
fn wait(current: &Current, queue: &Queue, ticket: &Ticket, deadline: Option<u64>) -> Errno {
    loop {
        current.prepare_to_sleep();
        if queue.served(ticket) {
            current.cancel_sleep();
            // Not looked at: who was served is not late.
            return Errno::ETIMEDOUT;
        }
        if current.signal_pending() {
            current.cancel_sleep();
            return signal::interrupted(current, Errno::ERESTARTSYS);
        }
        if task::schedule_until(deadline) {
            return Errno::ETIMEDOUT;
        }
    }
}

#[cold]
#[inline(never)]
fn send_when_possible(queue: &Queue, message: Message, priority: u32, deadline: Option<u64>) -> Result<()> {
    // Asked for here: an argument by reference would cost the fast path, which has it in a register.
    let current = &Current::get();
    let ticket = match queue.send_or_wait(message, priority, waiter(current)) {
        Ok(Sending::Done(sent)) => {
            after_send(queue, sent);
            return Ok(());
        }
        Ok(Sending::Waiting(ticket)) => ticket,
        Err(refused) => {
            queue.free(current.id, &current.memcg, refused.message.into_blank());
            return Err(refused.reason.into());
        }
    };
    let reason = wait(current, queue, &ticket, deadline);
    match queue.end_wait(ticket) {
        Ended::GivenUp(message) => {
            if let Some(message) = message {
                queue.free(current.id, &current.memcg, message.into_blank());
            }
            Err(reason)
        }
        Ended::Sent | Ended::Received(_) => {
            queue.touch(clock::coarse());
            Ok(())
        }
    }
}

pub(super) fn mq_timedreceive(
    descriptor: i32,
    to: u64,
    length: usize,
    priority: UserPtr<u32>,
    timeout: UserPtr<Timespec>,
) -> Result<usize> {
    let deadline = deadline(timeout)?;
    let current = Current::get();
    let result = receive(&current, descriptor, to, length, priority, deadline);
    current.own().files.release();
    result
}

#[inline(always)]
fn receive(
    current: &Current,
    descriptor: i32,
    to: u64,
    length: usize,
    priority: UserPtr<u32>,
    deadline: Option<u64>,
) -> Result<usize> {
    let file = files::lookup_held(&current.own().files, descriptor)?;
    let file: &File = &file;
    let queue = queue_of(file)?;
    if !file.readable() {
        return Err(Errno::EBADF);
    }
    if length < queue.attributes().message_size as usize {
        return Err(Errno::EMSGSIZE);
    }
    let message = match queue.receive() {
        Ok(received) => {
            if let Some(wake) = received.wake {
                task::wake_by_id(wake);
            }
            received.message
        }
        Err(ipc::Error::WouldBlock) if !file.nonblocking() => receive_when_possible(queue, deadline)?,
        Err(refused) => return Err(refused.into()),
    };
    queue.touch(clock::coarse());
    if somebody_polls() {
        wake_pollers();
    }
    let length = message.len();
    // The priority goes first, and where it cannot go nothing follows.
    let copied = (priority.is_null() || priority.write(&(message.kind() as u32)).is_ok())
        && message.copy_out(&mut UserSink::new(to), length).is_ok();
    queue.free(current.id, &current.memcg, message.into_blank());
    if copied { Ok(length) } else { Err(Errno::EFAULT) }
}

#[cold]
#[inline(never)]
fn receive_when_possible(queue: &Queue, deadline: Option<u64>) -> Result<Message> {
    let current = &Current::get(); // as in send_when_possible
    let ticket = match queue.receive_or_wait(waiter(current))? {
        Receiving::Done(received) => {
            if let Some(wake) = received.wake {
                task::wake_by_id(wake);
            }
            return Ok(received.message);
        }
        Receiving::Waiting(ticket) => ticket,
    };
    let reason = wait(current, queue, &ticket, deadline);
    match queue.end_wait(ticket) {
        Ended::Received(message) => Ok(message),
        Ended::GivenUp(_) | Ended::Sent => Err(reason),
    }
}

/// How a `struct sigevent` wants to hear. EINVAL, EFAULT (the cookie), EBADF, ENOTSOCK, ENOMEM; may wait for the socket.
fn how_of(event: &Event) -> Result<How> {
    match event.notify {
        general::SIGEV_NONE => Ok(How::None),
        general::SIGEV_SIGNAL => match event.signal {
            number @ 0.. if number as u32 <= signal::COUNT => Ok(How::Signal {
                number: number as u32,
                value: event.value,
            }),
            _ => Err(Errno::EINVAL),
        },
        general::SIGEV_THREAD => {
            let cookie: Cookie = UserPtr::new(event.value).read()?;
            let socket = netlink_of(event.signal)?;
            notification::by_cookie(Place::take(&socket)?, cookie)
        }
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn mq_notify(descriptor: i32, event: UserPtr<Event>) -> Result<()> {
    let event = event.optional().map(UserPtr::read).transpose()?;
    let how = event.as_ref().map(how_of).transpose()?;
    let file = shared_file(descriptor)?;
    let queue = queue_of(&file)?;
    match how {
        None => notification::withdraw(queue),
        Some(how) => queue.register(notification::registration(&Current::get(), how))?,
    }
    queue.touch(clock::realtime());
    Ok(())
}

pub(super) fn mq_getsetattr(descriptor: i32, new: UserPtr<Attributes>, old: UserPtr<Attributes>) -> Result<()> {
    let new = new.optional().map(UserPtr::read).transpose()?;
    if new.is_some_and(|new| new.flags & !i64::from(general::O_NONBLOCK) != 0) {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    let file = lookup(&current.own().files, descriptor)?;
    let file: &File = &file;
    let queue = queue_of(file)?;
    let attributes = queue.attributes();
    let before = Attributes {
        flags: i64::from(file.flags() & general::O_NONBLOCK),
        max_messages: attributes.max_messages.into(),
        message_size: attributes.message_size.into(),
        current_messages: queue.len().into(),
        reserved: [0; 4],
    };
    if let Some(new) = new {
        file.set_nonblocking(new.flags != 0);
        queue.touch(clock::realtime());
    }
    match old.optional() {
        Some(old) => old.write(&before),
        None => Ok(()),
    }
}
