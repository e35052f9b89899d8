//! Who may use a System V queue (sysvipc(7)).

use crate::{Caller, Error};

/// Mode, owner and creator of a queue (`struct ipc_perm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// Owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// Creator. Immutable.
    pub cuid: u32,
    /// The creator's group. Immutable.
    pub cgid: u32,
    /// Permission bits, 0 to 0o777.
    pub mode: u16,
}

impl Ownership {
    /// Receiving, for all classes.
    pub const READ: u32 = 0o444;
    /// Sending, for all classes.
    pub const WRITE: u32 = 0o222;

    /// Whether the caller may have the rights that `wanted` has for any class: by the bits of the one class it belongs to
    /// (owner or creator, one of their groups, others), or by capability. [`Error::Access`].
    #[inline(always)]
    pub fn check(&self, caller: &Caller, wanted: u32) -> Result<(), Error> {
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 7;
        let class = if caller.uid == self.cuid || caller.uid == self.uid {
            6
        } else {
            self.class_of_others(caller.gid, caller.groups)
        };
        if wanted & !(u32::from(self.mode) >> class) == 0 || caller.cap_ipc_owner {
            Ok(())
        } else {
            Err(Error::Access)
        }
    }

    /// The class of one who is neither owner nor creator, as a shift: by value, so that an owner's ids stay in registers.
    #[cold]
    #[inline(never)]
    fn class_of_others(&self, gid: u32, groups: &[u32]) -> u32 {
        let of_caller = |group: u32| gid == group || groups.contains(&group);
        if of_caller(self.cgid) || of_caller(self.gid) {
            3
        } else {
            0
        }
    }

    /// Whether the caller may change or remove the queue: its owner, its creator, or by capability.
    /// [`Error::NotPermitted`].
    pub fn check_control(&self, caller: &Caller) -> Result<(), Error> {
        if caller.uid == self.cuid || caller.uid == self.uid || caller.cap_sys_admin {
            Ok(())
        } else {
            Err(Error::NotPermitted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: Ownership = Ownership {
        uid: 1,
        gid: 10,
        cuid: 2,
        cgid: 20,
        mode: 0o246,
    };

    #[test]
    fn does_each_class_have_its_own_bits_and_no_others() {
        let granted = |caller: Caller| {
            [Ownership::READ, Ownership::WRITE, 0o666, 0, 0o100].map(|wanted| QUEUE.check(&caller, wanted).is_ok())
        };
        let user = |uid, gid| Caller::new(uid, gid, false, 0);
        assert_eq!(granted(user(1, 10)), [false, true, false, true, false], "the owner");
        assert_eq!(granted(user(2, 10)), [false, true, false, true, false], "the creator");
        assert_eq!(
            granted(user(3, 10)),
            [true, false, false, true, false],
            "the owner's group"
        );
        assert_eq!(granted(user(3, 20)), [true, false, false, true, false], "the creator's");
        let supplementary = Caller {
            groups: &[5, 20],
            ..user(3, 3)
        };
        assert_eq!(granted(supplementary), [true, false, false, true, false]);
        assert_eq!(granted(user(3, 3)), [true, true, true, true, false], "others");
        assert_eq!(granted(Caller::new(3, 3, true, 0)), [true; 5], "by capability");
    }

    #[test]
    fn who_may_change_and_remove() {
        for (uid, capable, expected) in [
            (1, false, Ok(())),
            (2, false, Ok(())),
            (3, false, Err(Error::NotPermitted)),
            (3, true, Ok(())),
        ] {
            assert_eq!(QUEUE.check_control(&Caller::new(uid, 10, capable, 0)), expected);
        }
    }
}
