//! select(2) and pselect6(2): poll(2) by sets of bits.

use super::poll::{Asked, deadline_of, time_left, wait_for_asked, with_mask};
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use crate::task::clock;
use crate::user_struct;
use alloc::vec::Vec;
use linux_raw_sys::general;

/// The events that put a descriptor into each of the three sets, and those that are asked for.
const SETS: [(u32, u32); 3] = [
    (
        general::POLLIN | general::POLLRDNORM | general::POLLHUP | general::POLLERR,
        general::POLLIN | general::POLLRDNORM,
    ),
    (
        general::POLLOUT | general::POLLWRNORM | general::POLLERR,
        general::POLLOUT | general::POLLWRNORM,
    ),
    (general::POLLPRI, general::POLLPRI),
];

fn select_until(count: i32, sets: [UserPtr<u64>; 3], deadline: Option<u64>) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    // Beyond the limit there is nothing open.
    let limit = Current::get().process.limit(general::RLIMIT_NOFILE);
    let count = count.min(usize::try_from(limit).unwrap_or(usize::MAX));
    let words = count.div_ceil(64);
    let mut bits = [Vec::new(), Vec::new(), Vec::new()];
    for (bits, set) in bits.iter_mut().zip(sets) {
        bits.try_reserve_exact(words)?;
        for word in 0..words {
            bits.push(if set.is_null() { 0u64 } else { set.at(word).read()? });
        }
    }
    let has = |bits: &Vec<u64>, descriptor: usize| bits[descriptor / 64] >> (descriptor % 64) & 1 != 0;
    let mut asked = Vec::new();
    let mut numbers = Vec::new();
    for descriptor in 0..count {
        let mut events = 0;
        let mut wanted = false;
        for (bits, (_, asks)) in bits.iter().zip(SETS) {
            if has(bits, descriptor) {
                events |= asks;
                wanted = true;
            }
        }
        if !wanted {
            continue;
        }
        let one = Asked::new(descriptor as i32, events);
        if !one.is_open() {
            return Err(Errno::EBADF);
        }
        asked.try_reserve(1)?;
        numbers.try_reserve(1)?;
        asked.push(one);
        numbers.push(descriptor);
    }
    // What is always reported (POLLERR, POLLHUP) is in one of the sets, or must not end the wait.
    for (asked, &descriptor) in asked.iter_mut().zip(&numbers) {
        let shown = bits.iter().zip(SETS).filter(|(bits, _)| has(bits, descriptor));
        asked.only(shown.map(|(_, (shows, _))| shows).fold(0, |all, more| all | more));
    }
    wait_for_asked(&mut asked, deadline)?;
    let mut total = 0;
    for (set, (bits, (shows, _))) in sets.into_iter().zip(bits.iter().zip(SETS)) {
        if set.is_null() {
            continue;
        }
        let mut out = Vec::new();
        out.try_reserve_exact(words)?;
        out.resize(words, 0u64);
        for (asked, &descriptor) in asked.iter().zip(&numbers) {
            if has(bits, descriptor) && asked.ready & shows != 0 {
                out[descriptor / 64] |= 1 << (descriptor % 64);
                total += 1;
            }
        }
        for (word, value) in out.iter().enumerate() {
            set.at(word).write(value)?;
        }
    }
    Ok(total)
}

user_struct! {
    /// `struct timeval`
    pub(in crate::syscall) struct Timeval {
        seconds: i64,
        microseconds: i64,
    }
}

pub(in crate::syscall) fn select(
    count: i32,
    read: UserPtr<u64>,
    write: UserPtr<u64>,
    except: UserPtr<u64>,
    timeout: UserPtr<Timeval>,
) -> Result<usize> {
    let deadline = match timeout.optional() {
        None => None,
        Some(timeout) => {
            let Timeval { seconds, microseconds } = timeout.read()?;
            // Microseconds beyond a second are carried over, as on Linux.
            let (Ok(seconds), Ok(microseconds)) = (u64::try_from(seconds), u64::try_from(microseconds)) else {
                return Err(Errno::EINVAL);
            };
            let nanoseconds = seconds
                .saturating_mul(clock::SECOND)
                .saturating_add(microseconds.saturating_mul(1000));
            Some(clock::monotonic().saturating_add(nanoseconds))
        }
    };
    let result = select_until(count, [read, write, except], deadline);
    if let Some(deadline) = deadline {
        let Timespec { seconds, nanoseconds } = time_left(deadline);
        _ = timeout.write(&Timeval {
            seconds,
            microseconds: nanoseconds / 1000,
        });
    }
    result
}

user_struct! {
    /// The last argument of pselect6(2).
    pub(in crate::syscall) struct MaskArgument {
        mask: u64,
        size: usize,
    }
}

pub(in crate::syscall) fn pselect6(
    count: i32,
    read: UserPtr<u64>,
    write: UserPtr<u64>,
    except: UserPtr<u64>,
    timeout: UserPtr<Timespec>,
    mask: UserPtr<MaskArgument>,
) -> Result<usize> {
    let (mask, size) = match mask.optional() {
        None => (UserPtr::new(0), 0),
        Some(argument) => {
            let MaskArgument { mask, size } = argument.read()?;
            (UserPtr::new(mask), size)
        }
    };
    let deadline = deadline_of(timeout)?;
    let result = with_mask(mask, size, || select_until(count, [read, write, except], deadline));
    if let Some(deadline) = deadline {
        _ = timeout.write(&time_left(deadline));
    }
    result
}
