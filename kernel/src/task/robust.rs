//! The locks that a thread still holds when it ends (`struct robust_list_head`, get_robust_list(2)).
//!
//! The C library keeps a list of them in the thread's memory. Each is marked `FUTEX_OWNER_DIED`, and one waiter is woken,
//! so that the lock can be had by others. The list is a program's claim: it is followed a bounded number of steps, and as
//! far as its memory goes.

use super::exit::wake_futex;
use crate::arch::usercopy::compare_exchange_user;
use crate::mm::plain::read_user;
use crate::mm::tasks::Current;
use linux_raw_sys::general;

/// Entries looked at (`ROBUST_LIST_LIMIT`).
const LIMIT: usize = 2048;
/// The bits of a lock's word: its owner's number, 'has waiters', 'the owner has ended'.
const OWNER: u32 = general::FUTEX_TID_MASK;
const WAITERS: u32 = general::FUTEX_WAITERS;
const DIED: u32 = general::FUTEX_OWNER_DIED;

/// Lets go of what is in the running thread's list.
pub(super) fn leave_locks(current: &Current) {
    let (head, _) = current.own().robust_list.replace((0, 0));
    if head == 0 {
        return;
    }
    // First entry, distance from an entry to its lock's word, the entry that was being changed.
    let Ok([first, offset, changing]) = read_user::<[u64; 3]>(head) else {
        return;
    };
    // Bit 0 of an address says that the lock lends priority.
    let word = |entry: u64| (entry & !1).wrapping_add(offset);
    let mut entry = first;
    for _ in 0..LIMIT {
        if entry & !1 == head {
            break;
        }
        let next = read_user::<u64>(entry & !1);
        if entry & !1 != changing & !1 && !leave(current, word(entry), false) {
            return;
        }
        let Ok(next) = next else { return };
        entry = next;
    }
    if changing & !1 != 0 {
        leave(current, word(changing), true);
    }
}

/// Lets go of one lock; false where its memory is not there. A lock that was being taken or freed may be free already:
/// then a waiter is woken all the same, to look again.
fn leave(current: &Current, word: u64, changing: bool) -> bool {
    if !word.is_multiple_of(4) {
        return false;
    }
    loop {
        let Ok(value) = read_user::<u32>(word) else {
            return false;
        };
        if changing && value & OWNER == 0 {
            wake_futex(current, word);
            return true;
        }
        if value & OWNER != current.tid {
            return true;
        }
        match compare_exchange_user(word, value, value & WAITERS | DIED) {
            Err(_) => return false,
            Ok(false) => continue,
            Ok(true) => {}
        }
        if value & WAITERS != 0 {
            wake_futex(current, word);
        }
        return true;
    }
}
