//! futex(2), as far as one task goes: waits end by their timeout or a signal, wakes find nobody.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::task::{self, clock};
use linux_raw_sys::general;

pub(super) fn futex(
    word: UserPtr<u32>,
    operation: u32,
    value: u32,
    timeout: u64,
    _second: u64,
    set: u32,
) -> Result<usize> {
    let command = operation & general::FUTEX_CMD_MASK as u32;
    let realtime = operation & general::FUTEX_CLOCK_REALTIME != 0;
    if !word.address().is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    match command {
        general::FUTEX_WAIT | general::FUTEX_WAIT_BITSET => {
            let bitset = command == general::FUTEX_WAIT_BITSET;
            if (bitset && set == 0) || (realtime && !bitset) {
                return Err(if bitset { Errno::EINVAL } else { Errno::ENOSYS });
            }
            let deadline = match UserPtr::<Timespec>::new(timeout).optional() {
                None => None,
                Some(timeout) => {
                    let time = timeout.read()?.to_nanoseconds()?;
                    Some(match (bitset, realtime) {
                        (false, _) => clock::monotonic().saturating_add(time),
                        (true, false) => time,
                        (true, true) => clock::monotonic_of(time),
                    })
                }
            };
            wait(word, value, deadline)
        }
        general::FUTEX_WAKE | general::FUTEX_WAKE_BITSET => {
            if command == general::FUTEX_WAKE_BITSET && set == 0 {
                return Err(Errno::EINVAL);
            }
            Ok(0)
        }
        _ => Err(Errno::ENOSYS),
    }
}

fn wait(word: UserPtr<u32>, value: u32, deadline: Option<u64>) -> Result<usize> {
    let current = Current::get();
    if word.read()? != value {
        return Err(Errno::EAGAIN);
    }
    loop {
        current.prepare_to_sleep();
        if current.signal_pending() {
            current.cancel_sleep();
            return Err(Errno::EINTR);
        }
        if task::schedule_until(deadline) {
            return Err(Errno::ETIMEDOUT);
        }
    }
}
