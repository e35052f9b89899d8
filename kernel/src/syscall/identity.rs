//! System calls that change who a process acts for: user and group ids (credentials(7)).

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::task::credentials::Credentials;
use alloc::vec::Vec;

/// 'Leave it as it is'.
const KEEP: u32 = u32::MAX;

/// Changes the running process's ids by `f`, which may refuse.
fn change(f: impl FnOnce(&mut Credentials) -> Result<()>) -> Result<()> {
    let process = &Current::get().process;
    let mut new = process.credentials();
    f(&mut new)?;
    process.set_credentials(new);
    Ok(())
}

/// Whether an unprivileged process may take `id`, having `own`.
fn allowed(privileged: bool, id: u32, own: [u32; 3]) -> Result<()> {
    if privileged || id == KEEP || own.contains(&id) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

fn replace(old: &mut u32, new: u32) {
    if new != KEEP {
        *old = new;
    }
}

pub(super) fn setuid(id: u32) -> Result<()> {
    if id == KEEP {
        return Err(Errno::EINVAL);
    }
    change(|ids| {
        if ids.privileged() {
            (ids.uid, ids.suid) = (id, id);
        } else {
            allowed(false, id, [ids.uid, ids.uid, ids.suid])?;
        }
        ids.euid = id;
        Ok(())
    })
}

pub(super) fn setgid(id: u32) -> Result<()> {
    if id == KEEP {
        return Err(Errno::EINVAL);
    }
    change(|ids| {
        if ids.privileged() {
            (ids.gid, ids.sgid) = (id, id);
        } else {
            allowed(false, id, [ids.gid, ids.gid, ids.sgid])?;
        }
        ids.egid = id;
        Ok(())
    })
}

pub(super) fn setreuid(real: u32, effective: u32) -> Result<()> {
    change(|ids| {
        let before = ids.uid;
        allowed(ids.privileged(), real, [ids.uid, ids.euid, ids.uid])?;
        allowed(ids.privileged(), effective, [ids.uid, ids.euid, ids.suid])?;
        replace(&mut ids.uid, real);
        replace(&mut ids.euid, effective);
        if real != KEEP || effective != KEEP && effective != before {
            ids.suid = ids.euid;
        }
        Ok(())
    })
}

pub(super) fn setregid(real: u32, effective: u32) -> Result<()> {
    change(|ids| {
        let before = ids.gid;
        allowed(ids.privileged(), real, [ids.gid, ids.egid, ids.gid])?;
        allowed(ids.privileged(), effective, [ids.gid, ids.egid, ids.sgid])?;
        replace(&mut ids.gid, real);
        replace(&mut ids.egid, effective);
        if real != KEEP || effective != KEEP && effective != before {
            ids.sgid = ids.egid;
        }
        Ok(())
    })
}

pub(super) fn setresuid(real: u32, effective: u32, saved: u32) -> Result<()> {
    change(|ids| {
        let own = [ids.uid, ids.euid, ids.suid];
        for id in [real, effective, saved] {
            allowed(ids.privileged(), id, own)?;
        }
        replace(&mut ids.uid, real);
        replace(&mut ids.euid, effective);
        replace(&mut ids.suid, saved);
        Ok(())
    })
}

pub(super) fn setresgid(real: u32, effective: u32, saved: u32) -> Result<()> {
    change(|ids| {
        let own = [ids.gid, ids.egid, ids.sgid];
        for id in [real, effective, saved] {
            allowed(ids.privileged(), id, own)?;
        }
        replace(&mut ids.gid, real);
        replace(&mut ids.egid, effective);
        replace(&mut ids.sgid, saved);
        Ok(())
    })
}

pub(super) fn getresuid(real: UserPtr<u32>, effective: UserPtr<u32>, saved: UserPtr<u32>) -> Result<()> {
    let ids = Current::get().process.credentials();
    real.write(&ids.uid)?;
    effective.write(&ids.euid)?;
    saved.write(&ids.suid)
}

pub(super) fn getresgid(real: UserPtr<u32>, effective: UserPtr<u32>, saved: UserPtr<u32>) -> Result<()> {
    let ids = Current::get().process.credentials();
    real.write(&ids.gid)?;
    effective.write(&ids.egid)?;
    saved.write(&ids.sgid)
}

/// The supplementary groups, ascending as Linux keeps them; for a size of 0 their number alone.
pub(super) fn getgroups(size: i32, list: UserPtr<u32>) -> Result<i32> {
    let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
    let Some(groups) = Current::get().process.groups() else {
        return Ok(0);
    };
    if size != 0 {
        if groups.len() > size {
            return Err(Errno::EINVAL);
        }
        for (at, group) in groups.iter().enumerate() {
            list.at(at).write(group)?;
        }
    }
    Ok(groups.len() as i32)
}

pub(super) fn setgroups(size: u32, list: UserPtr<u32>) -> Result<()> {
    /// `NGROUPS_MAX`
    const MOST: u32 = 65536;
    let current = Current::get();
    if !current.process.credentials().privileged() {
        return Err(Errno::EPERM);
    }
    if size > MOST {
        return Err(Errno::EINVAL);
    }
    let mut groups = Vec::new();
    groups.try_reserve_exact(size as usize)?;
    for at in 0..size as usize {
        groups.push(list.at(at).read()?);
    }
    if groups.contains(&KEEP) {
        return Err(Errno::EINVAL);
    }
    groups.sort_unstable();
    current.process.set_groups(Some(Shared::try_new(groups)?));
    Ok(())
}
