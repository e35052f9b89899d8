//! Who a process acts for: user and group ids, capabilities(7), resource limits.

use crate::mm::tasks::Current;
use linux_raw_sys::general::{self, rlimit64};

/// User and group ids of a process. Copied out of the process under its lock; small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Real user id.
    pub uid: u32,
    /// Effective user id: what permission checks look at.
    pub euid: u32,
    /// Saved user id.
    pub suid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub egid: u32,
    /// Saved group id.
    pub sgid: u32,
}

impl Credentials {
    /// The superuser's.
    pub const ROOT: Credentials = Credentials {
        uid: 0,
        euid: 0,
        suid: 0,
        gid: 0,
        egid: 0,
        sgid: 0,
    };

    /// Whether the running process, whose ids these are, belongs to a group. Supplementary groups are not copied.
    pub fn in_group(&self, gid: u32) -> bool {
        let groups = Current::get().process.groups();
        self.egid == gid || groups.is_some_and(|groups| groups.binary_search(&gid).is_ok())
    }

    /// The effective ids as one number, the group's above.
    pub(super) const fn effective(&self) -> u64 {
        (self.egid as u64) << 32 | self.euid as u64
    }

    /// Whether the process may pass checks as capabilities(7) describe for effective user id 0.
    pub fn privileged(&self) -> bool {
        self.euid == 0
    }
}

/// Number of resource limits (`RLIM_NLIMITS`).
pub const LIMITS: usize = general::RLIM_NLIMITS as usize;
/// No limit (`RLIM64_INFINITY`).
pub const INFINITY: u64 = u64::MAX;

/// The resource limits of a process, by number (getrlimit(2)).
#[derive(Clone, Copy)]
pub struct Limits([rlimit64; LIMITS]);

impl Limits {
    /// What Linux gives its first process.
    pub const fn initial() -> Limits {
        const fn both(rlim_cur: u64, rlim_max: u64) -> rlimit64 {
            rlimit64 { rlim_cur, rlim_max }
        }
        let mut limits = [both(INFINITY, INFINITY); LIMITS];
        limits[general::RLIMIT_STACK as usize] = both(8 << 20, INFINITY);
        limits[general::RLIMIT_CORE as usize] = both(0, INFINITY);
        limits[general::RLIMIT_NPROC as usize] = both(4096, 4096);
        limits[general::RLIMIT_NOFILE as usize] = both(1024, 4096);
        limits[general::RLIMIT_MEMLOCK as usize] = both(8 << 20, 8 << 20);
        limits[general::RLIMIT_SIGPENDING as usize] = both(4096, 4096);
        limits[general::RLIMIT_MSGQUEUE as usize] = both(819200, 819200);
        limits[general::RLIMIT_NICE as usize] = both(0, 0);
        limits[general::RLIMIT_RTPRIO as usize] = both(0, 0);
        Limits(limits)
    }

    /// Limit `resource`, by its number; `None` for a number that is none.
    pub fn get(&self, resource: usize) -> Option<rlimit64> {
        self.0.get(resource).copied()
    }

    /// The limit in force for `resource`, one of `RLIMIT_*`.
    pub fn current(&self, resource: u32) -> u64 {
        self.0[resource as usize].rlim_cur
    }

    /// Replaces limit `resource`, which exists.
    pub fn set(&mut self, resource: usize, limit: rlimit64) {
        self.0[resource] = limit;
    }
}
