//! System calls that wait for several files: poll(2), epoll(7).

use super::{install, shared_file};
use crate::fs::epoll::{ALWAYS, Epoll, wait_for};
use crate::fs::file::{File, Object, Timespec};
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use crate::task::{clock, signal};
use alloc::vec::Vec;
use linux_raw_sys::general::{self, pollfd};

/// Nanoseconds since boot that are `milliseconds` away; `None` for a negative number.
fn deadline_in(milliseconds: i32) -> Option<u64> {
    let milliseconds = u64::try_from(milliseconds).ok()?;
    Some(clock::monotonic() + milliseconds * 1_000_000)
}

/// The moment that a relative timeout means. EFAULT, EINVAL.
pub(super) fn deadline_of(timeout: UserPtr<Timespec>) -> Result<Option<u64>> {
    let Some(timeout) = timeout.optional() else {
        return Ok(None);
    };
    Ok(Some(
        clock::monotonic().saturating_add(timeout.read()?.to_nanoseconds()?),
    ))
}

/// What is left until `deadline`.
pub(super) fn time_left(deadline: u64) -> Timespec {
    Timespec::from_nanoseconds(deadline.saturating_sub(clock::monotonic()))
}

/// Runs `f` with the signals of `mask` blocked, and nothing else. EINVAL for a mask of another size, EFAULT.
pub(super) fn with_mask<R>(mask: UserPtr<u64>, size: usize, f: impl FnOnce() -> Result<R>) -> Result<R> {
    let Some(mask) = mask.optional() else { return f() };
    if size != size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let mask = mask.read()?;
    let current = Current::get();
    let before = current.blocked.get();
    current.blocked.set(mask & !signal::UNBLOCKABLE);
    let result = f();
    match result {
        // The handler runs with the mask of the call; the old one comes back after it.
        Err(Errno::EINTR) => {
            current.own().saved_mask.set(Some(before));
            current.add_work(crate::task::work::SIGNAL);
        }
        _ => current.blocked.set(before),
    }
    result
}

pub(in crate::syscall) fn poll(files: UserPtr<pollfd>, count: usize, milliseconds: i32) -> Result<usize> {
    poll_until(files, count, deadline_in(milliseconds))
}

pub(in crate::syscall) fn ppoll(
    files: UserPtr<pollfd>,
    count: usize,
    timeout: UserPtr<Timespec>,
    mask: UserPtr<u64>,
    mask_size: usize,
) -> Result<usize> {
    let deadline = deadline_of(timeout)?;
    let result = with_mask(mask, mask_size, || poll_until(files, count, deadline));
    if let Some(deadline) = deadline {
        // As on Linux, a timeout that cannot be written is no error.
        _ = timeout.write(&time_left(deadline));
    }
    result
}

/// A file that is asked for events.
pub(super) struct Asked {
    file: Option<Shared<File>>,
    /// The descriptor counts, open or not.
    counts: bool,
    events: u32,
    /// What came of it.
    pub(super) ready: u32,
}

impl Asked {
    /// Of a descriptor; one below zero is passed over.
    pub(super) fn new(descriptor: i32, events: u32) -> Asked {
        Asked {
            file: shared_file(descriptor).ok(),
            counts: descriptor >= 0,
            events: events | ALWAYS,
            ready: 0,
        }
    }

    /// Whether the descriptor is open.
    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Reports these events and no others.
    pub(super) fn only(&mut self, events: u32) {
        self.events = events;
    }

    fn look(&mut self) -> bool {
        self.ready = match &self.file {
            _ if !self.counts => 0,
            Some(file) => file.poll() & self.events,
            None => general::POLLNVAL,
        };
        self.ready != 0
    }
}

/// Waits until one of the files has something; how many have.
pub(super) fn wait_for_asked(asked: &mut [Asked], deadline: Option<u64>) -> Result<usize> {
    let mut files = Vec::new();
    files.try_reserve_exact(asked.len())?;
    files.extend(asked.iter().filter_map(|asked| asked.file.clone()));
    let found = wait_for(files.iter(), deadline, || {
        let ready = asked.iter_mut().filter_map(|asked| asked.look().then_some(())).count();
        (ready > 0).then_some(ready)
    })?;
    Ok(found.unwrap_or(0))
}

fn poll_until(files: UserPtr<pollfd>, count: usize, deadline: Option<u64>) -> Result<usize> {
    if count as u64 > Current::get().process.limit(general::RLIMIT_NOFILE) {
        return Err(Errno::EINVAL);
    }
    let mut asked = Vec::new();
    asked.try_reserve_exact(count)?;
    for index in 0..count {
        let one = files.at(index).read()?;
        asked.push(Asked::new(one.fd, u32::from(one.events as u16)));
    }
    let ready = wait_for_asked(&mut asked, deadline)?;
    for (index, asked) in asked.iter().enumerate() {
        let mut one = files.at(index).read()?;
        one.revents = asked.ready as i16;
        files.at(index).write(&one)?;
    }
    Ok(ready)
}

/// Bytes of a `struct epoll_event`, which is packed.
const EVENT: usize = 12;
/// The most events of one epoll_wait(2) (`EP_MAX_EVENTS`).
const MAX_EVENTS: usize = i32::MAX as usize / EVENT;

pub(in crate::syscall) fn epoll_create(size: i32) -> Result<i32> {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    epoll_create1(0)
}

pub(in crate::syscall) fn epoll_create1(flags: u32) -> Result<i32> {
    if flags & !general::EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let file = File::try_new(Object::Epoll(Epoll::new()), general::O_RDWR)?;
    install(&Current::get(), file, 0, flags & general::EPOLL_CLOEXEC != 0)
}

pub(in crate::syscall) fn epoll_ctl(set: i32, operation: u32, descriptor: i32, event: UserPtr<u8>) -> Result<()> {
    let (events, data) = if operation == general::EPOLL_CTL_DEL {
        (0, 0)
    } else {
        let address = event.address();
        (
            UserPtr::<u32>::new(address).read()?,
            UserPtr::<u64>::new(address.wrapping_add(4)).read()?,
        )
    };
    let (set, file) = (shared_file(set)?, shared_file(descriptor)?);
    let Object::Epoll(epoll) = &set.object else {
        return Err(Errno::EINVAL);
    };
    if set.same_object(&file) {
        return Err(Errno::EINVAL);
    }
    match operation {
        general::EPOLL_CTL_ADD => epoll.add(descriptor, &file, events, data),
        general::EPOLL_CTL_MOD => epoll.modify(descriptor, &file, events, data),
        general::EPOLL_CTL_DEL => epoll.remove(descriptor, &file),
        _ => Err(Errno::EINVAL),
    }
}

fn epoll_wait_until(set: i32, to: u64, most: i32, deadline: Option<u64>) -> Result<usize> {
    let most = usize::try_from(most)
        .ok()
        .filter(|&most| (1..=MAX_EVENTS).contains(&most))
        .ok_or(Errno::EINVAL)?;
    let set = shared_file(set)?;
    let Object::Epoll(epoll) = &set.object else {
        return Err(Errno::EINVAL);
    };
    let ready = epoll.wait(most, deadline)?;
    for (index, ready) in ready.iter().enumerate() {
        let mut event = [0; EVENT];
        event[..4].copy_from_slice(&ready.events.to_le_bytes());
        event[4..].copy_from_slice(&ready.data.to_le_bytes());
        UserPtr::new(to).at(index).write(&event)?;
    }
    Ok(ready.len())
}

pub(in crate::syscall) fn epoll_wait(set: i32, to: u64, most: i32, milliseconds: i32) -> Result<usize> {
    epoll_wait_until(set, to, most, deadline_in(milliseconds))
}

pub(in crate::syscall) fn epoll_pwait(
    set: i32,
    to: u64,
    most: i32,
    milliseconds: i32,
    mask: UserPtr<u64>,
    mask_size: usize,
) -> Result<usize> {
    with_mask(mask, mask_size, || {
        epoll_wait_until(set, to, most, deadline_in(milliseconds))
    })
}

pub(in crate::syscall) fn epoll_pwait2(
    set: i32,
    to: u64,
    most: i32,
    timeout: UserPtr<Timespec>,
    mask: UserPtr<u64>,
    mask_size: usize,
) -> Result<usize> {
    let deadline = deadline_of(timeout)?;
    with_mask(mask, mask_size, || epoll_wait_until(set, to, most, deadline))
}
