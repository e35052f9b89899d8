//! Who may do what: mode, user and group, as for a file (path_resolution(7), capabilities(7)).

use crate::Error;

/// On whose behalf an operation runs. Ids are the file-system ones (credentials(7)).
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
    /// `CAP_SYS_RESOURCE`: beyond `queues_max`, `msg_max` and `msgsize_max`.
    pub cap_sys_resource: bool,
    /// `CAP_DAC_OVERRIDE`: modes do not bind.
    pub cap_dac_override: bool,
    /// `CAP_DAC_READ_SEARCH`: modes do not bind for reading alone.
    pub cap_dac_read_search: bool,
    /// `CAP_FOWNER`: as if the owner of everything.
    pub cap_fowner: bool,
    /// `CAP_CHOWN`: may change owners.
    pub cap_chown: bool,
    /// `CAP_IPC_OWNER`: modes of System V queues do not bind.
    pub cap_ipc_owner: bool,
    /// `CAP_SYS_ADMIN`: as if the owner of every System V queue.
    pub cap_sys_admin: bool,
    /// `RLIMIT_MSGQUEUE`, bytes; `u64::MAX` for none.
    pub rlimit_msgqueue: u64,
}

impl Caller<'_> {
    /// A caller with all capabilities, or with none.
    pub const fn new(uid: u32, gid: u32, capable: bool, rlimit_msgqueue: u64) -> Caller<'static> {
        Caller {
            uid,
            gid,
            groups: &[],
            cap_sys_resource: capable,
            cap_dac_override: capable,
            cap_dac_read_search: capable,
            cap_fowner: capable,
            cap_chown: capable,
            cap_ipc_owner: capable,
            cap_sys_admin: capable,
            rlimit_msgqueue,
        }
    }

    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

bitflags::bitflags! {
    /// What a descriptor is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u8 {
        /// Receiving.
        const READ = 4;
        /// Sending.
        const WRITE = 2;
    }
}

impl Access {
    /// From the two low bits of `open`'s flags. `None` for 3, which only an existing file refuses: see
    /// [`Namespace::open`](crate::mqueue::Namespace::open).
    pub const fn from_flags(flags: u32) -> Option<Access> {
        match flags & 3 {
            0 => Some(Access::READ),
            1 => Some(Access::WRITE),
            2 => Some(Access::all()),
            _ => None,
        }
    }
}

/// Mode and owners of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits, 0 to 0o7777.
    pub mode: u16,
}

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;

impl Owner {
    /// Whether the caller may have `access`: by the bits of the one class it belongs to, or by capability.
    pub fn check(&self, caller: &Caller, access: Access) -> Result<(), Error> {
        let class = if caller.uid == self.uid {
            6
        } else if caller.in_group(self.gid) {
            3
        } else {
            0
        };
        let granted = (self.mode >> class) as u8;
        if access.bits() & !granted == 0 || caller.cap_dac_override {
            return Ok(());
        }
        if access == Access::READ && caller.cap_dac_read_search {
            return Ok(());
        }
        Err(Error::Access)
    }

    /// Whether the caller may take the name out of the sticky root directory, which belongs to user 0 and which
    /// everybody may write: the queue's owner, the directory's owner, or `CAP_FOWNER`.
    pub fn check_unlink(&self, caller: &Caller) -> Result<(), Error> {
        if caller.uid == self.uid || caller.uid == 0 || caller.cap_fowner {
            return Ok(());
        }
        Err(Error::NotPermitted)
    }

    /// Changes the permission bits (chmod(2)): the owner or `CAP_FOWNER`.
    pub fn change_mode(&mut self, caller: &Caller, mode: u16) -> Result<(), Error> {
        if caller.uid != self.uid && !caller.cap_fowner {
            return Err(Error::NotPermitted);
        }
        self.mode = mode & 0o7777;
        if !caller.in_group(self.gid) && !caller.cap_fowner {
            self.mode &= !SET_GID;
        }
        Ok(())
    }

    /// Changes the owners (chown(2)); `None` leaves one as it is. `CAP_CHOWN`, or the owner for a group of its own.
    pub fn change_owner(&mut self, caller: &Caller, uid: Option<u32>, gid: Option<u32>) -> Result<(), Error> {
        let (new_uid, new_gid) = (uid.unwrap_or(self.uid), gid.unwrap_or(self.gid));
        let is_owner = caller.uid == self.uid;
        let may_uid = uid.is_none() || is_owner && new_uid == self.uid;
        let may_gid = gid.is_none() || is_owner && (new_gid == self.gid || caller.in_group(new_gid));
        if !(may_uid && may_gid || caller.cap_chown) {
            return Err(Error::NotPermitted);
        }
        self.uid = new_uid;
        self.gid = new_gid;
        self.mode &= !SET_UID;
        if self.mode & GROUP_EXECUTE != 0 {
            self.mode &= !SET_GID;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, gid: u32) -> Caller<'static> {
        Caller::new(uid, gid, false, 0)
    }
    const QUEUE: Owner = Owner {
        uid: 1,
        gid: 10,
        mode: 0o246,
    };

    #[test]
    fn does_each_class_have_its_own_bits_and_no_others() {
        let granted = |caller: Caller| {
            let all = [Access::READ, Access::WRITE, Access::all()];
            all.map(|access| QUEUE.check(&caller, access).is_ok())
        };
        assert_eq!(
            granted(user(1, 10)),
            [false, true, false],
            "the owner, though in the group"
        );
        assert_eq!(
            granted(user(2, 10)),
            [true, false, false],
            "the group, though others may more"
        );
        assert_eq!(
            granted(Caller {
                groups: &[7, 10],
                ..user(2, 2)
            }),
            [true, false, false],
            "a supplementary group"
        );
        assert_eq!(granted(user(2, 2)), [true, true, true], "others");
        assert_eq!(
            granted(Caller {
                cap_dac_read_search: true,
                ..user(1, 1)
            }),
            [true, true, false]
        );
        assert_eq!(
            granted(Caller {
                cap_dac_override: true,
                ..user(1, 1)
            }),
            [true, true, true]
        );
    }

    #[test]
    fn who_may_unlink_in_the_sticky_directory() {
        assert!(QUEUE.check_unlink(&user(1, 1)).is_ok());
        assert!(QUEUE.check_unlink(&user(0, 0)).is_ok(), "the directory's owner");
        assert!(
            QUEUE
                .check_unlink(&Caller {
                    cap_fowner: true,
                    ..user(2, 2)
                })
                .is_ok()
        );
        assert_eq!(QUEUE.check_unlink(&user(2, 10)), Err(Error::NotPermitted));
    }

    #[test]
    fn who_may_change_mode_and_owners() {
        let mut owner = QUEUE;
        assert_eq!(owner.change_mode(&user(2, 10), 0o777), Err(Error::NotPermitted));
        owner.change_mode(&user(1, 1), 0o12755).unwrap();
        assert_eq!(owner.mode, 0o755, "set-group-id by one outside of the group is dropped");
        assert_eq!(owner.change_owner(&user(1, 1), Some(2), None), Err(Error::NotPermitted));
        assert_eq!(owner.change_owner(&user(1, 1), None, Some(5)), Err(Error::NotPermitted));
        owner
            .change_owner(
                &Caller {
                    groups: &[5],
                    ..user(1, 1)
                },
                Some(1),
                Some(5),
            )
            .unwrap();
        owner.mode = 0o6755;
        owner
            .change_owner(
                &Caller {
                    cap_chown: true,
                    ..user(9, 9)
                },
                Some(3),
                None,
            )
            .unwrap();
        assert_eq!(
            owner,
            Owner {
                uid: 3,
                gid: 5,
                mode: 0o755
            }
        );
    }

    #[test]
    fn what_do_the_flags_of_open_ask_for() {
        assert_eq!(Access::from_flags(0), Some(Access::READ));
        assert_eq!(Access::from_flags(0o4001), Some(Access::WRITE));
        assert_eq!(Access::from_flags(0o302), Some(Access::all()));
        assert_eq!(Access::from_flags(3), None);
    }
}
