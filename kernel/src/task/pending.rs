//! Signals that have been sent and not acted on: what they carry, and the line in which they wait.
//!
//! A set of bits says which; a queue holds what they carry. A standard signal that waits already is not queued again; of a
//! real-time signal each one is (signal(7)). Where memory lacks for a standard signal its bit is set all the same.
//!
//! **Lock order.** A queue's lock has rank 17; the heap below it.

use super::signal::Signal;
use crate::user_struct;
use alloc::vec::Vec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general;

user_struct! {
    /// The part of `siginfo_t` that says something; the rest of its 128 bytes is zero.
    pub struct Info {
        /// The signal's number.
        signo: i32,
        errno: i32,
        /// Where it comes from (`SI_*` and others).
        code: i32,
        gap: i32,
        /// What else there is, by code.
        fields: [u64; 4],
    }
}

/// Bytes of `siginfo_t`.
pub const INFO_SIZE: usize = 128;

impl Info {
    pub const SI_USER: i32 = general::SI_USER as i32;
    pub const SI_KERNEL: i32 = general::SI_KERNEL as i32;
    pub const SI_TKILL: i32 = general::SI_TKILL;
    pub const SI_TIMER: i32 = general::SI_TIMER;
    pub const SI_MESGQ: i32 = general::SI_MESGQ;
    pub const CLD_EXITED: i32 = general::CLD_EXITED as i32;
    pub const CLD_KILLED: i32 = general::CLD_KILLED as i32;
    pub const CLD_STOPPED: i32 = general::CLD_STOPPED as i32;
    pub const CLD_CONTINUED: i32 = general::CLD_CONTINUED as i32;

    fn new(signal: Signal, code: i32, fields: [u64; 4]) -> Info {
        Info {
            signo: signal.number().into(),
            errno: 0,
            code,
            gap: 0,
            fields,
        }
    }

    /// Sent by process `pid` of user `uid`, by kill(2) or tkill(2).
    pub fn sent(signal: Signal, code: i32, pid: u32, uid: u32) -> Info {
        Info::new(signal, code, [u64::from(uid) << 32 | u64::from(pid), 0, 0, 0])
    }

    /// Of the kernel's own making.
    pub fn kernel(signal: Signal) -> Info {
        Info::new(signal, Info::SI_KERNEL, [0; 4])
    }

    /// Of a fault at `address`.
    pub fn fault(signal: Signal, code: i32, address: u64) -> Info {
        Info::new(signal, code, [address, 0, 0, 0])
    }

    /// Of a child.
    pub fn child(signal: Signal, code: i32, pid: u32, uid: u32, status: i32) -> Info {
        let who = u64::from(uid) << 32 | u64::from(pid);
        Info::new(signal, code, [who, u64::from(status as u32), 0, 0])
    }

    /// Of a timer: its number, how often it ran out besides, the value that it was made with.
    pub fn timer(signal: Signal, timer: i32, overruns: i32, value: u64) -> Info {
        let which = u64::from(overruns as u32) << 32 | u64::from(timer as u32);
        Info::new(signal, Info::SI_TIMER, [which, value, 0, 0])
    }

    /// Of a message that process `pid` of user `uid` has sent to a queue: the value of the registration.
    pub fn message(signal: Signal, pid: u32, uid: u32, value: u64) -> Info {
        let who = u64::from(uid) << 32 | u64::from(pid);
        Info::new(signal, Info::SI_MESGQ, [who, value, 0, 0])
    }

    /// Whether a program may not say so of a signal to another process: what the kernel says, and tkill(2).
    pub fn is_of_the_kernel(&self) -> bool {
        self.code >= 0 || self.code == Info::SI_TKILL
    }

    /// Makes it one of `signal`.
    pub fn set_signal(&mut self, signal: Option<Signal>) {
        self.signo = signal.map_or(0, |signal| signal.number().into());
    }

    /// The signal. Numbers that programs gave were checked.
    pub fn signal(&self) -> Signal {
        Signal::new(self.signo as u32).unwrap_or(Signal::SIGKILL)
    }
}

/// Signals that wait.
pub struct Pending {
    /// Written under the queue's lock.
    bits: AtomicU64,
    queue: SpinLock<Vec<Info>>,
}

/// There is no room for one more real-time signal.
#[derive(Debug)]
pub struct Full;

impl Pending {
    /// None.
    pub const fn new() -> Pending {
        Pending {
            bits: AtomicU64::new(0),
            queue: SpinLock::new(17, Vec::new()),
        }
    }

    /// Which wait, a bit each.
    #[inline]
    pub fn bits(&self) -> u64 {
        self.bits.load(Ordering::Acquire)
    }

    /// Under the queue's lock.
    fn set(&self, bits: u64) {
        self.bits.store(bits, Ordering::Release);
    }

    /// Adds a signal; of real-time signals at most `limit`.
    pub fn add(&self, info: Info, limit: u64) -> Result<(), Full> {
        let signal = info.signal();
        let mut queue = self.queue.lock();
        if signal.is_realtime() {
            if queue.len() as u64 >= limit || queue.try_reserve(1).is_err() {
                return Err(Full);
            }
            queue.push(info);
        } else if self.bits() & signal.bit() == 0 && queue.try_reserve(1).is_ok() {
            queue.push(info);
        }
        self.set(self.bits() | signal.bit());
        Ok(())
    }

    /// Adds a signal that carries nothing.
    pub fn add_bit(&self, signal: Signal) {
        let _queue = self.queue.lock();
        self.set(self.bits() | signal.bit());
    }

    /// Takes the first of `signal`, if one waits.
    pub fn take(&self, signal: Signal) -> Option<Info> {
        let mut queue = self.queue.lock();
        if self.bits() & signal.bit() == 0 {
            return None;
        }
        let is = |info: &Info| info.signo == i32::from(signal.number());
        let info = match queue.iter().position(is) {
            Some(at) => queue.remove(at),
            None => Info::sent(signal, Info::SI_USER, 0, 0),
        };
        if !queue.iter().any(is) {
            self.set(self.bits() & !signal.bit());
        }
        Some(info)
    }

    /// Forgets the signals of a set.
    pub fn forget(&self, set: u64) {
        if self.bits() & set != 0 {
            let mut queue = self.queue.lock();
            queue.retain(|info| info.signal().bit() & set == 0);
            self.set(self.bits() & !set);
        }
    }
}
