//! Futexes: tasks that wait for a word of memory (futex(2)).
//!
//! A word is known by its address in one address space, or, where others may share it, by its place in physical memory
//! ([`Key`]). A waiter joins the line before it reads the word, so a wake-up that follows a change finds it; who wakes it
//! takes it out of the line and marks it first.
//!
//! **Lock order.** The line's lock has rank 19; waking happens after it.

use super::{schedule_until, wake_by_id};
use crate::mm::address_space::AddressSpace;
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use alloc::vec::Vec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a word is known by: the address space (its address) and the address, or 0 and the place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(u64, u64);

/// Matches every waiter.
pub const ANY: u32 = u32::MAX;

/// A wait, as restart_syscall(2) takes it up again.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The word's address.
    pub word: u64,
    /// What it must hold.
    pub value: u32,
    /// The set of the wait: a wake-up that has no bit of it passes by.
    pub set: u32,
    /// Whether only this address space has the word.
    pub private: bool,
    /// Nanoseconds since boot.
    pub deadline: Option<u64>,
}

struct Waiter {
    /// Rising in order of arrival.
    ticket: u64,
    key: Key,
    set: u32,
    task: ipc::TaskId,
    /// 1 once it has been woken.
    woken: Shared<AtomicU32>,
}

/// The line, in order of arrival. Its memory is kept while there are waiters.
static WAITERS: SpinLock<Vec<Waiter>> = SpinLock::new(19, Vec::new());
/// The next waiter's ticket. Changed under the line's lock.
static TICKET: AtomicU64 = AtomicU64::new(0);

impl Key {
    /// The key of the word at `address`. EINVAL, EFAULT.
    pub fn of(current: &Current, address: u64, private: bool) -> Result<Key> {
        if !address.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        let space = current.space();
        let own = core::ptr::from_ref::<AddressSpace>(&space).addr() as u64;
        if private {
            return Ok(Key(own, address));
        }
        // The word is there before its place is asked for; what is private is known by its address.
        crate::mm::plain::read_user::<u32>(address)?;
        Ok(match space.shared_place(address) {
            Some(place) => Key(0, place),
            None => Key(own, address),
        })
    }
}

/// Waits until a wake-up. EAGAIN where the word does not hold the value, ETIMEDOUT, EFAULT; `Ok(false)` where a signal
/// came first.
pub fn wait(current: &Current, wait: &Wait) -> Result<bool> {
    let key = Key::of(current, wait.word, wait.private)?;
    let woken = Shared::try_new(AtomicU32::new(0))?;
    // The line is joined first and the word read afterwards: whoever changes it later finds the waiter.
    {
        let mut waiters = WAITERS.lock();
        waiters.try_reserve(1)?;
        waiters.push(Waiter {
            ticket: TICKET.fetch_add(1, Ordering::Relaxed),
            key,
            set: wait.set,
            task: current.id,
            woken: woken.clone(),
        });
    }
    let result = match crate::mm::plain::read_user::<u32>(wait.word) {
        Err(_) => Err(Errno::EFAULT),
        Ok(value) if value != wait.value => Err(Errno::EAGAIN),
        Ok(_) => sleep(current, &woken, wait.deadline),
    };
    if leave(&woken) {
        return result;
    }
    // A wake-up was meant for this waiter: it counts, whatever came at the same time.
    Ok(true)
}

fn sleep(current: &Current, woken: &AtomicU32, deadline: Option<u64>) -> Result<bool> {
    loop {
        current.prepare_to_sleep();
        if woken.load(Ordering::Acquire) != 0 {
            current.cancel_sleep();
            return Ok(true);
        }
        if current.signal_pending() {
            current.cancel_sleep();
            return Ok(false);
        }
        if schedule_until(deadline) {
            return Err(Errno::ETIMEDOUT);
        }
    }
}

/// Takes a waiter out of the line; false if somebody has done so already to wake it.
fn leave(woken: &Shared<AtomicU32>) -> bool {
    let mut waiters = WAITERS.lock();
    let at = waiters
        .iter()
        .position(|waiter| core::ptr::eq(&*waiter.woken, &**woken));
    let left = at.map(|at| waiters.remove(at));
    give_back(&mut waiters);
    drop(waiters);
    left.is_some()
}

/// Nobody waits: the line's memory goes.
fn give_back(waiters: &mut Vec<Waiter>) {
    if waiters.is_empty() {
        *waiters = Vec::new();
    }
}

/// Takes the first waiter for `key` with a bit of `set` and a ticket below `end` out of the line.
fn first(key: Key, set: u32, end: u64) -> Option<Waiter> {
    let mut waiters = WAITERS.lock();
    let at = waiters
        .iter()
        .position(|waiter| waiter.key == key && waiter.set & set != 0 && waiter.ticket < end)?;
    let waiter = waiters.remove(at);
    give_back(&mut waiters);
    Some(waiter)
}

/// Wakes at most `count` waiters for `key` with a bit of `set`, in the order in which they came: how many.
pub fn wake(key: Key, count: u32, set: u32) -> u32 {
    let mut woken = 0;
    // Who is woken may run at once, and wait again before this is done: that is another wait.
    let end = TICKET.load(Ordering::Acquire);
    while woken < count {
        let Some(waiter) = first(key, set, end) else { break };
        waiter.woken.store(1, Ordering::Release);
        wake_by_id(waiter.task);
        woken += 1;
    }
    woken
}

/// Wakes `count` waiters for `from`, and makes at most `moved` of the others wait for `to`: how many were woken, moved.
pub fn requeue(from: Key, to: Key, count: u32, moved: u32) -> (u32, u32) {
    let woken = wake(from, count, ANY);
    let mut waiters = WAITERS.lock();
    let mut done = 0;
    // Behind those that wait for `to` already.
    let mut at = 0;
    let end = waiters.len();
    for _ in 0..end {
        if done < moved && waiters[at].key == from {
            let mut waiter = waiters.remove(at);
            waiter.key = to;
            waiters.push(waiter);
            done += 1;
        } else {
            at += 1;
        }
    }
    (woken, done)
}
