//! What each user has in queues: the account behind `RLIMIT_MSGQUEUE`.
//!
//! Linux sums the bytes of all queues of a user, whichever process and namespace made them, and compares the sum with
//! the limit of the process that creates the next one. A queue counts from its creation until its last close, unlinked
//! or not.
//!
//! **Lock order.** The table's lock has rank 31: under a namespace's directory, above queues. The allocator's locks may
//! be taken under it.

use crate::Error;
use alloc::vec::Vec;
use cpu::SpinLock;

/// The bytes of all users. One a machine.
pub struct Users {
    /// Users with bytes, by rising uid.
    bytes: SpinLock<Vec<(u32, u64)>>,
}

impl Users {
    /// Nobody has anything.
    pub const fn new() -> Users {
        Users {
            bytes: SpinLock::new(31, Vec::new()),
        }
    }

    /// Bytes that `uid` has in queues.
    pub fn bytes(&self, uid: u32) -> u64 {
        let table = self.bytes.lock();
        table
            .binary_search_by_key(&uid, |user| user.0)
            .map_or(0, |at| table[at].1)
    }

    /// Charges a queue of `bytes` to `uid`. [`Error::UserLimit`] when the user's sum would pass `limit`.
    pub fn charge(&'static self, uid: u32, bytes: u64, limit: u64) -> Result<Charge, Error> {
        let mut table = self.bytes.lock();
        let found = table.binary_search_by_key(&uid, |user| user.0);
        let before = found.map_or(0, |at| table[at].1);
        let sum = before.checked_add(bytes).ok_or(Error::UserLimit)?;
        if sum > limit {
            return Err(Error::UserLimit);
        }
        match found {
            Ok(at) => table[at].1 = sum,
            Err(at) => {
                table.try_reserve(1)?;
                table.insert(at, (uid, sum));
            }
        }
        Ok(Charge {
            users: self,
            uid,
            bytes,
        })
    }
}

impl Default for Users {
    fn default() -> Self {
        Users::new()
    }
}

/// Bytes charged to a user, given back on drop.
pub struct Charge {
    users: &'static Users,
    uid: u32,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut table = self.users.bytes.lock();
        let at = table
            .binary_search_by_key(&self.uid, |user| user.0)
            .expect("a user with a charge is in the table");
        table[at].1 -= self.bytes;
        if table[at].1 == 0 {
            table.remove(at);
        }
        if table.is_empty() {
            // Nothing stays behind in the allocator when nobody has a queue.
            *table = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_limit_exact_to_the_byte() {
        cpu::host::single(|| {
            let users: &'static Users = Box::leak(Box::new(Users::new()));
            assert_eq!(users.charge(1000, 97, 96).err(), Some(Error::UserLimit));
            assert_eq!(users.bytes(1000), 0);
            let first = users.charge(1000, 97, 97).unwrap();
            assert_eq!(users.charge(1000, 1, 97).err(), Some(Error::UserLimit));
            let other = users.charge(999, 50, 97).unwrap();
            let second = users.charge(1000, 1, 98).unwrap();
            assert_eq!((users.bytes(999), users.bytes(1000)), (50, 98));
            drop(first);
            assert_eq!(users.bytes(1000), 1);
            drop((second, other));
            assert_eq!((users.bytes(999), users.bytes(1000)), (0, 0));
        });
    }

    #[test]
    fn does_a_sum_beyond_64_bits_wrap() {
        cpu::host::single(|| {
            let users: &'static Users = Box::leak(Box::new(Users::new()));
            let _all = users.charge(1, u64::MAX, u64::MAX).unwrap();
            assert_eq!(users.charge(1, 1, u64::MAX).err(), Some(Error::UserLimit));
        });
    }
}
