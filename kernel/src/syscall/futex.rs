//! futex(2), and the lists of locks that a thread leaves behind when it ends.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::arch::usercopy;
use crate::fs::file::Timespec;
use crate::mm::tasks::Current;
use crate::task::deliver::Restart;
use crate::task::futex::{self, Key, Wait};
use crate::task::{clock, signal};
use linux_raw_sys::general;

pub(super) fn futex(
    word: UserPtr<u32>,
    operation: u32,
    value: u32,
    timeout: u64,
    second: u64,
    third: u32,
) -> Result<usize> {
    let command = operation & general::FUTEX_CMD_MASK as u32;
    let private = operation & general::FUTEX_PRIVATE_FLAG != 0;
    let realtime = operation & general::FUTEX_CLOCK_REALTIME != 0;
    if realtime && command != general::FUTEX_WAIT_BITSET {
        return Err(Errno::ENOSYS);
    }
    let current = Current::get();
    let key = |address| Key::of(&current, address, private);
    match command {
        general::FUTEX_WAIT | general::FUTEX_WAIT_BITSET => {
            let bitset = command == general::FUTEX_WAIT_BITSET;
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
            if bitset && third == 0 {
                return Err(Errno::EINVAL);
            }
            wait(Wait {
                word: word.address(),
                value,
                set: if bitset { third } else { futex::ANY },
                private,
                deadline,
            })
            .map(|()| 0)
        }
        general::FUTEX_WAKE => Ok(futex::wake(key(word.address())?, value.max(1), futex::ANY) as usize),
        general::FUTEX_WAKE_BITSET => {
            if third == 0 {
                return Err(Errno::EINVAL);
            }
            Ok(futex::wake(key(word.address())?, value.max(1), third) as usize)
        }
        general::FUTEX_REQUEUE | general::FUTEX_CMP_REQUEUE => {
            let moved = timeout as u32;
            if (value as i32) < 0 || (moved as i32) < 0 {
                return Err(Errno::EINVAL);
            }
            let (from, to) = (key(word.address())?, key(second)?);
            let compares = command == general::FUTEX_CMP_REQUEUE;
            if compares && word.read()? != third {
                return Err(Errno::EAGAIN);
            }
            let (woken, moved) = futex::requeue(from, to, value, moved);
            // As Linux counts: those that were moved too, where the word was compared.
            Ok((woken + if compares { moved } else { 0 }) as usize)
        }
        general::FUTEX_WAKE_OP => {
            let (first, other) = (key(word.address())?, key(second)?);
            let holds = change(second, third)?;
            let mut woken = futex::wake(first, value.max(1), futex::ANY);
            if holds {
                woken += futex::wake(other, (timeout as u32).max(1), futex::ANY);
            }
            Ok(woken as usize)
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// Waits; a signal begins the call again, or goes on with what is left of the time.
pub(super) fn wait(wanted: Wait) -> Result<()> {
    let current = Current::get();
    if futex::wait(&current, &wanted)? {
        return Ok(());
    }
    if wanted.deadline.is_none() {
        return Err(signal::interrupted(&current, Errno::ERESTARTSYS));
    }
    current.own().restart.set(Restart::Futex(wanted));
    Err(signal::interrupted(&current, Errno::ERESTART_RESTARTBLOCK))
}

/// FUTEX_WAKE_OP's change of the second word, and whether what it held before compares as asked.
fn change(address: u64, code: u32) -> Result<bool> {
    let signed = |field: u32| ((field << 20) as i32) >> 20;
    let (operation, comparison) = (code >> 28 & 7, code >> 24 & 15);
    let mut argument = signed(code >> 12 & 0xfff);
    let against = signed(code & 0xfff);
    if code >> 31 != 0 {
        argument = 1i32.wrapping_shl(argument as u32);
    }
    let new = |old: u32| {
        Ok(match operation {
            general::FUTEX_OP_SET => argument as u32,
            general::FUTEX_OP_ADD => old.wrapping_add(argument as u32),
            general::FUTEX_OP_OR => old | argument as u32,
            general::FUTEX_OP_ANDN => old & !(argument as u32),
            general::FUTEX_OP_XOR => old ^ argument as u32,
            _ => return Err(Errno::ENOSYS),
        })
    };
    let old = loop {
        let old = UserPtr::<u32>::new(address).read()?;
        if usercopy::compare_exchange_user(address, old, new(old)?)? {
            break old as i32;
        }
    };
    Ok(match comparison {
        general::FUTEX_OP_CMP_EQ => old == against,
        general::FUTEX_OP_CMP_NE => old != against,
        general::FUTEX_OP_CMP_LT => old < against,
        general::FUTEX_OP_CMP_LE => old <= against,
        general::FUTEX_OP_CMP_GT => old > against,
        general::FUTEX_OP_CMP_GE => old >= against,
        _ => return Err(Errno::ENOSYS),
    })
}
