//! mount(2) and umount2(2).

use super::place_at;
use crate::fs::filesystems;
use crate::fs::mount::{self, Mount};
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use linux_raw_sys::general;

/// The longest name of a kind of file system.
const NAME: usize = 4096;

pub(in crate::syscall) fn mount(
    source: UserPtr<u8>,
    target: UserPtr<u8>,
    kind: UserPtr<u8>,
    flags: u64,
    _options: u64,
) -> Result<()> {
    /// What old programs put into the upper half.
    const OLD_MAGIC: u32 = 0xc0ed_0000;
    const OTHERS: u32 = general::MS_BIND
        | general::MS_MOVE
        | general::MS_SHARED
        | general::MS_PRIVATE
        | general::MS_SLAVE
        | general::MS_UNBINDABLE;
    let mut flags = flags as u32;
    if flags & 0xffff_0000 == OLD_MAGIC {
        flags &= 0xffff;
    }
    let string = |string: UserPtr<u8>| match string.optional() {
        Some(string) => string.read_string(NAME, Errno::EINVAL),
        None => Ok(alloc::vec::Vec::new()),
    };
    let (kind, source) = (string(kind)?, string(source)?);
    let (_, at) = place_at(general::AT_FDCWD, target, 0)?;
    if !Current::get().process.credentials().privileged() {
        return Err(Errno::EPERM);
    }
    if flags & general::MS_REMOUNT != 0 {
        if !at.node.same(&at.mount.root) {
            return Err(Errno::EINVAL);
        }
        at.mount.set_flags(flags);
        return Ok(());
    }
    if flags & OTHERS != 0 {
        return Err(Errno::EINVAL);
    }
    let (fs, root) = filesystems::make(&kind)?;
    if !at.node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    let source = if source.is_empty() { &b"none"[..] } else { &source };
    mount::add(&Mount::try_new(fs, root, Some(at), source, flags)?)
}

pub(in crate::syscall) fn umount2(target: UserPtr<u8>, flags: u32) -> Result<()> {
    const KNOWN: u32 = general::MNT_FORCE | general::MNT_DETACH | general::MNT_EXPIRE | general::UMOUNT_NOFOLLOW;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let nofollow = if flags & general::UMOUNT_NOFOLLOW != 0 {
        general::AT_SYMLINK_NOFOLLOW
    } else {
        0
    };
    let (walker, place) = place_at(general::AT_FDCWD, target, nofollow)?;
    let privileged = walker.credentials.privileged();
    // The walker must not keep the mount busy, nor is the working directory's own hold to be counted twice.
    drop(walker);
    if !privileged {
        return Err(Errno::EPERM);
    }
    if flags & general::MNT_EXPIRE != 0 {
        return Err(if flags == general::MNT_EXPIRE {
            Errno::EAGAIN
        } else {
            Errno::EINVAL
        });
    }
    mount::remove(place, flags & general::MNT_DETACH != 0)
}
