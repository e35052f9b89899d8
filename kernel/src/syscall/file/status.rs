//! System calls on what is known of a file: status, permissions, owners, times.

use super::{place_at, with_file};
use crate::fs::file::{Object, Status, Timespec};
use crate::fs::filesystems;
use crate::fs::mount::{Mount, Place};
use crate::fs::node::{Attributes, Kind, Node, TYPE_MASK, access as check_access};
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use crate::task::clock;
use crate::task::credentials::Credentials;
use crate::user_struct;
use linux_raw_sys::general;

/// A device number as `st_dev` has it (`new_encode_dev`).
fn encoded((major, minor): (u32, u32)) -> u64 {
    u64::from((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

fn stat_of(status: &Status) -> general::stat {
    let [access, modification, change] = status.times.map(Timespec::from_nanoseconds);
    general::stat {
        st_dev: encoded(status.device),
        st_ino: status.ino,
        st_nlink: status.links.into(),
        st_mode: status.mode,
        st_uid: status.uid,
        st_gid: status.gid,
        __pad0: 0,
        st_rdev: encoded(status.special),
        st_size: status.size as i64,
        st_blksize: if status.mode & general::S_IFMT == general::S_IFCHR {
            1024
        } else {
            4096
        },
        st_blocks: status.blocks as i64,
        st_atime: access.seconds as u64,
        st_atime_nsec: access.nanoseconds as u64,
        st_mtime: modification.seconds as u64,
        st_mtime_nsec: modification.nanoseconds as u64,
        st_ctime: change.seconds as u64,
        st_ctime_nsec: change.nanoseconds as u64,
        __unused: [0; 3],
    }
}

pub(in crate::syscall) fn fstat(descriptor: i32, to: UserPtr<general::stat>) -> Result<()> {
    let status = with_file(descriptor, |file| Ok(file.status()))?;
    to.write(&stat_of(&status))
}

pub(in crate::syscall) fn stat(path: UserPtr<u8>, to: UserPtr<general::stat>) -> Result<()> {
    newfstatat(general::AT_FDCWD, path, to, 0)
}

pub(in crate::syscall) fn lstat(path: UserPtr<u8>, to: UserPtr<general::stat>) -> Result<()> {
    newfstatat(general::AT_FDCWD, path, to, general::AT_SYMLINK_NOFOLLOW)
}

/// The status that a stat call with these arguments asks for.
fn status_at(directory: i32, path: UserPtr<u8>, flags: u32) -> Result<Status> {
    // A descriptor need not be of the tree.
    if flags & general::AT_EMPTY_PATH != 0 && directory != general::AT_FDCWD && (path.is_null() || path.read()? == 0) {
        return with_file(directory, |file| Ok(file.status()));
    }
    Ok(place_at(directory, path, flags)?.1.node.status())
}

pub(in crate::syscall) fn newfstatat(
    directory: i32,
    path: UserPtr<u8>,
    to: UserPtr<general::stat>,
    flags: u32,
) -> Result<()> {
    const KNOWN: u32 = general::AT_SYMLINK_NOFOLLOW | general::AT_NO_AUTOMOUNT | general::AT_EMPTY_PATH;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    to.write(&stat_of(&status_at(directory, path, flags)?))
}

user_struct! {
    /// `struct statx`, its reserved words last.
    pub(in crate::syscall) struct Statx {
        mask: u32,
        block_size: u32,
        attributes: u64,
        links: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        spare: u16,
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        times: [[u64; 2]; 4],
        special: [u32; 2],
        device: [u32; 2],
        reserved: [u64; 14],
    }
}
const _: () = assert!(size_of::<Statx>() == 256);

pub(in crate::syscall) fn statx(
    directory: i32,
    path: UserPtr<u8>,
    flags: u32,
    mask: u32,
    to: UserPtr<Statx>,
) -> Result<()> {
    const SYNC: u32 = general::AT_STATX_FORCE_SYNC | general::AT_STATX_DONT_SYNC;
    const KNOWN: u32 = general::AT_SYMLINK_NOFOLLOW | general::AT_NO_AUTOMOUNT | general::AT_EMPTY_PATH | SYNC;
    if flags & !KNOWN != 0 || flags & SYNC == SYNC || mask & general::STATX__RESERVED != 0 {
        return Err(Errno::EINVAL);
    }
    let status = status_at(directory, path, flags)?;
    let time = |nanoseconds: u64| {
        let Timespec { seconds, nanoseconds } = Timespec::from_nanoseconds(nanoseconds);
        [seconds as u64, nanoseconds as u64]
    };
    let [access, modification, change] = status.times.map(time);
    to.write(&Statx {
        mask: general::STATX_BASIC_STATS,
        block_size: 4096,
        attributes: 0,
        links: status.links,
        uid: status.uid,
        gid: status.gid,
        mode: status.mode as u16,
        spare: 0,
        ino: status.ino,
        size: status.size,
        blocks: status.blocks,
        attributes_mask: 0,
        times: [access, [0, 0], change, modification],
        special: [status.special.0, status.special.1],
        device: [status.device.0, status.device.1],
        reserved: [0; 14],
    })
}

pub(in crate::syscall) fn access(path: UserPtr<u8>, mode: u32) -> Result<()> {
    faccessat2(general::AT_FDCWD, path, mode, 0)
}

pub(in crate::syscall) fn faccessat(directory: i32, path: UserPtr<u8>, mode: u32) -> Result<()> {
    faccessat2(directory, path, mode, 0)
}

pub(in crate::syscall) fn faccessat2(directory: i32, path: UserPtr<u8>, mode: u32, flags: u32) -> Result<()> {
    const KNOWN: u32 = general::AT_EACCESS | general::AT_SYMLINK_NOFOLLOW | general::AT_EMPTY_PATH;
    if mode & !7 != 0 || flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let (mut walker, place) = place_at(directory, path, flags)?;
    if flags & general::AT_EACCESS == 0 {
        let credentials = &mut walker.credentials;
        (credentials.euid, credentials.egid) = (credentials.uid, credentials.gid);
    }
    check_access(&place.node.attributes(), mode, &walker.credentials)?;
    let special = matches!(place.node.kind, Kind::Device(_) | Kind::Special(_) | Kind::Pipe(_));
    if mode & 2 != 0 && !special {
        place.mount.check_writable()?;
    }
    Ok(())
}

/// The place of an open file. EBADF where `path_too` is false and it is no more than a place.
fn place_of(descriptor: i32, path_too: bool) -> Result<Place> {
    with_file(descriptor, |file| match &file.place {
        _ if file.is_path() && !path_too => Err(Errno::EBADF),
        Some(place) => Ok(place.clone()),
        None => Err(Errno::EPERM),
    })
}

fn owner_or_privileged(attributes: &Attributes, credentials: &Credentials) -> Result<()> {
    if credentials.euid == attributes.uid || credentials.privileged() {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

fn change_mode(place: &Place, mode: u32, credentials: &Credentials) -> Result<()> {
    place.mount.check_writable()?;
    let node = &place.node;
    if let Kind::Dynamic(dynamic) = &node.kind
        && let Some(result) = dynamic.change_mode(mode)
    {
        return result;
    }
    let now = node.attributes();
    if node.is_link() {
        return Err(Errno::EOPNOTSUPP);
    }
    owner_or_privileged(&now, credentials)?;
    let mut mode = mode & 0o7777;
    if !credentials.in_group(now.gid) && !credentials.privileged() {
        mode &= !general::S_ISGID;
    }
    node.change(|attributes| attributes.mode = attributes.mode & TYPE_MASK | mode);
    Ok(())
}

pub(in crate::syscall) fn chmod(path: UserPtr<u8>, mode: u32) -> Result<()> {
    fchmodat2(general::AT_FDCWD, path, mode, 0)
}

pub(in crate::syscall) fn fchmodat(directory: i32, path: UserPtr<u8>, mode: u32) -> Result<()> {
    fchmodat2(directory, path, mode, 0)
}

pub(in crate::syscall) fn fchmodat2(directory: i32, path: UserPtr<u8>, mode: u32, flags: u32) -> Result<()> {
    if flags & !(general::AT_SYMLINK_NOFOLLOW | general::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let (walker, place) = place_at(directory, path, flags)?;
    change_mode(&place, mode, &walker.credentials)
}

pub(in crate::syscall) fn fchmod(descriptor: i32, mode: u32) -> Result<()> {
    let credentials = Current::get().process.credentials();
    if let Some(result) = with_queue(descriptor, |node| node.change_mode(mode))? {
        return result;
    }
    change_mode(&place_of(descriptor, false)?, mode, &credentials)
}

/// Runs `f` on the queue of a descriptor; `None` for any other file.
fn with_queue<R>(descriptor: i32, f: impl FnOnce(&crate::fs::mqueue::QueueFile) -> R) -> Result<Option<R>> {
    with_file(descriptor, |file| match &file.object {
        Object::Queue(queue) => Ok(Some(f(queue))),
        _ => Ok(None),
    })
}

/// An id of chown(2): -1 leaves it as it is.
fn wanted(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

fn change_owner(place: &Place, uid: u32, gid: u32, credentials: &Credentials) -> Result<()> {
    place.mount.check_writable()?;
    let (uid, gid) = (wanted(uid), wanted(gid));
    let node = &place.node;
    if let Kind::Dynamic(dynamic) = &node.kind
        && let Some(result) = dynamic.change_owner(uid, gid)
    {
        return result;
    }
    let now = node.attributes();
    let is_owner = credentials.euid == now.uid;
    let may_uid = uid.is_none_or(|uid| is_owner && uid == now.uid);
    let may_gid = gid.is_none_or(|gid| is_owner && (gid == now.gid || credentials.in_group(gid)));
    if !(may_uid && may_gid || credentials.privileged()) {
        return Err(Errno::EPERM);
    }
    node.change(|attributes| {
        attributes.uid = uid.unwrap_or(attributes.uid);
        attributes.gid = gid.unwrap_or(attributes.gid);
        if attributes.mode & TYPE_MASK != general::S_IFDIR {
            attributes.mode &= !general::S_ISUID;
            if attributes.mode & general::S_IXGRP != 0 {
                attributes.mode &= !general::S_ISGID;
            }
        }
    });
    Ok(())
}

pub(in crate::syscall) fn chown(path: UserPtr<u8>, uid: u32, gid: u32) -> Result<()> {
    fchownat(general::AT_FDCWD, path, uid, gid, 0)
}

pub(in crate::syscall) fn lchown(path: UserPtr<u8>, uid: u32, gid: u32) -> Result<()> {
    fchownat(general::AT_FDCWD, path, uid, gid, general::AT_SYMLINK_NOFOLLOW)
}

pub(in crate::syscall) fn fchownat(directory: i32, path: UserPtr<u8>, uid: u32, gid: u32, flags: u32) -> Result<()> {
    if flags & !(general::AT_SYMLINK_NOFOLLOW | general::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let (walker, place) = place_at(directory, path, flags)?;
    change_owner(&place, uid, gid, &walker.credentials)
}

pub(in crate::syscall) fn fchown(descriptor: i32, uid: u32, gid: u32) -> Result<()> {
    let credentials = Current::get().process.credentials();
    if let Some(result) = with_queue(descriptor, |node| node.change_owner(wanted(uid), wanted(gid)))? {
        return result;
    }
    change_owner(&place_of(descriptor, false)?, uid, gid, &credentials)
}

/// The times that utimensat(2) is to set: `None` for one that stays.
fn times_of(times: UserPtr<[Timespec; 2]>) -> Result<([Option<u64>; 2], bool)> {
    let now = clock::realtime();
    let Some(times) = times.optional() else {
        return Ok(([Some(now); 2], true));
    };
    let given = times.read()?;
    let is = |time: &Timespec, what: u32| time.nanoseconds == i64::from(what);
    let both_now = given.iter().all(|time| is(time, general::UTIME_NOW));
    let mut wanted = [None; 2];
    for (wanted, time) in wanted.iter_mut().zip(&given) {
        *wanted = if is(time, general::UTIME_OMIT) {
            None
        } else if is(time, general::UTIME_NOW) {
            Some(now)
        } else if (0..1_000_000_000).contains(&time.nanoseconds) {
            // Times before 1970 are kept as 1970.
            Some((*time).to_nanoseconds().unwrap_or(0))
        } else {
            return Err(Errno::EINVAL);
        };
    }
    Ok((wanted, both_now))
}

fn change_times(node: &Shared<Node>, mount: &Mount, times: [Option<u64>; 2], now: bool) -> Result<()> {
    mount.check_writable()?;
    let credentials = Current::get().process.credentials();
    let attributes = node.attributes();
    if owner_or_privileged(&attributes, &credentials).is_err() {
        if !now {
            return Err(Errno::EPERM);
        }
        check_access(&attributes, 2, &credentials)?;
    }
    node.change(|attributes| {
        for (time, wanted) in attributes.times.iter_mut().zip(times) {
            *time = wanted.unwrap_or(*time);
        }
    });
    Ok(())
}

pub(in crate::syscall) fn utimensat(
    directory: i32,
    path: UserPtr<u8>,
    times: UserPtr<[Timespec; 2]>,
    flags: u32,
) -> Result<()> {
    let (times, now) = times_of(times)?;
    if times == [None; 2] {
        return Ok(());
    }
    let place = if path.is_null() && directory != general::AT_FDCWD {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        place_of(directory, false)?
    } else {
        if flags & !(general::AT_SYMLINK_NOFOLLOW | general::AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL);
        }
        place_at(directory, path, flags)?.1
    };
    change_times(&place.node, &place.mount, times, now)
}

user_struct! {
    /// `struct statfs` (x86-64).
    pub(in crate::syscall) struct FileSystemStatus {
        kind: i64,
        block_size: i64,
        blocks: u64,
        free: u64,
        available: u64,
        files: u64,
        free_files: u64,
        id: [i32; 2],
        name_length: i64,
        fragment_size: i64,
        flags: i64,
        spare: [i64; 4],
    }
}

fn write_usage(mount: &Mount, to: UserPtr<FileSystemStatus>) -> Result<()> {
    /// The flags are valid (`ST_VALID`).
    const VALID: u32 = 0x20;
    /// `ST_NOATIME` and `ST_RELATIME`
    const TIMES: [u32; 2] = [0x400, 0x1000];
    let usage = filesystems::usage(mount);
    // ST_RDONLY, ST_NOSUID, ST_NODEV and ST_NOEXEC have the numbers of MS_*.
    let flags = usage.flags & 0xf | VALID | TIMES[usize::from(usage.flags & general::MS_NOATIME == 0)];
    to.write(&FileSystemStatus {
        kind: usage.magic.into(),
        block_size: 4096,
        blocks: usage.pages,
        free: usage.free,
        available: usage.free,
        files: usage.pages,
        free_files: usage.free,
        id: [mount.fs.device as i32, 0],
        name_length: 255,
        fragment_size: 4096,
        flags: flags.into(),
        spare: [0; 4],
    })
}

pub(in crate::syscall) fn statfs(path: UserPtr<u8>, to: UserPtr<FileSystemStatus>) -> Result<()> {
    let (_, place) = place_at(general::AT_FDCWD, path, 0)?;
    write_usage(&place.mount, to)
}

pub(in crate::syscall) fn fstatfs(descriptor: i32, to: UserPtr<FileSystemStatus>) -> Result<()> {
    let place = with_file(descriptor, |file| file.place.clone().ok_or(Errno::ENOSYS))?;
    write_usage(&place.mount, to)
}
