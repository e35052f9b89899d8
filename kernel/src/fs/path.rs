//! Names: from a path to what it stands for.
//!
//! The tree is the initramfs, read-only. On top of it lie the devices of /dev and the links of /proc/self; they exist
//! whether or not the archive has such directories. Links are followed, forty at most, as on Linux.

use super::file::{File, Object, Status};
use super::initramfs::{DIRECTORY, Entry, LINK, TYPE_MASK};
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::credentials::Credentials;
use alloc::vec::Vec;
use linux_raw_sys::general;

/// Links followed on one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// The longest name of one file (`NAME_MAX`).
const NAME_MAX: usize = 255;

/// What a path stands for.
#[derive(Debug)]
pub enum Found {
    /// A file or directory of the initramfs.
    Entry(Entry),
    /// A device.
    Device(Device),
    /// A link that was not followed: its target.
    Link(Vec<u8>, Status),
}

/// The devices of /dev.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// /dev/console and /dev/tty
    Console,
    /// /dev/null
    Null,
    /// /dev/zero
    Zero,
    /// /dev/full
    Full,
    /// /dev/random and /dev/urandom
    Random,
}

const DEVICES: [(&[u8], Device); 8] = [
    (b"dev/console", Device::Console),
    (b"dev/tty", Device::Console),
    (b"dev/ttyS0", Device::Console),
    (b"dev/null", Device::Null),
    (b"dev/zero", Device::Zero),
    (b"dev/full", Device::Full),
    (b"dev/random", Device::Random),
    (b"dev/urandom", Device::Random),
];

/// Links that the kernel itself makes, but for /proc/self/exe, whose target is the program's.
const LINKS: [(&[u8], &[u8]); 3] = [
    (b"dev/stdin", b"/proc/self/fd/0"),
    (b"dev/stdout", b"/proc/self/fd/1"),
    (b"dev/stderr", b"/proc/self/fd/2"),
];
const SELF_EXE: &[u8] = b"proc/self/exe";
/// Directories that exist on top of the archive.
const DIRECTORIES: [&[u8]; 3] = [b"dev", b"proc", b"proc/self"];

/// What a path is resolved for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// A link at the end is followed.
    Follow,
    /// A link at the end is what is wanted.
    Keep,
}

/// Finds what `path` stands for, from the root (the working directory of every program).
///
/// ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES (a directory that may not be searched) as path_resolution(7) has them.
pub fn resolve(path: &[u8], last: Last, credentials: &Credentials) -> Result<Found> {
    let mut rest = copied_exactly(path)?;
    let mut at = Vec::new();
    let mut links = 0;
    'again: loop {
        let mut from = 0;
        at.clear();
        while from < rest.len() {
            let end = rest[from..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(rest.len(), |length| from + length);
            let name = &rest[from..end];
            let more = rest[end..].iter().any(|&byte| byte != b'/');
            let slash = end < rest.len();
            from = end + 1;
            if name.is_empty() || name == b"." {
                continue;
            }
            if name.len() > NAME_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
            if name == b".." {
                let up = at.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                at.truncate(up);
                continue;
            }
            search_allowed(&at, credentials)?;
            let parent = at.len();
            at.try_reserve(name.len() + 1)?;
            if parent > 0 {
                at.push(b'/');
            }
            at.extend_from_slice(name);
            match look(&at)? {
                Found::Link(target, status) => {
                    if !more && !slash && last == Last::Keep {
                        return Ok(Found::Link(target, status));
                    }
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::ELOOP);
                    }
                    at.truncate(parent);
                    rest = joined(&at, &target, slash.then(|| &rest[from..]))?;
                    continue 'again;
                }
                Found::Entry(entry) if entry.mode & TYPE_MASK == DIRECTORY => {}
                _ if more || slash => return Err(Errno::ENOTDIR),
                _ => {}
            }
        }
        return look(&at);
    }
}

/// The path that goes on at `target`, which is relative to `at` unless it begins with a slash; and then, behind a slash,
/// with `rest`.
fn joined(at: &[u8], target: &[u8], rest: Option<&[u8]>) -> Result<Vec<u8>> {
    let base = if target.first() == Some(&b'/') { &b""[..] } else { at };
    let mut path = Vec::new();
    path.try_reserve_exact(base.len() + target.len() + rest.map_or(0, <[u8]>::len) + 2)?;
    path.extend_from_slice(base);
    for part in [Some(target), rest].into_iter().flatten() {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    Ok(path)
}

/// Whether the directory at `path` may be searched.
fn search_allowed(path: &[u8], credentials: &Credentials) -> Result<()> {
    match look(path)? {
        Found::Entry(entry) => access(&Status::of_entry(&entry), 1, credentials),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Checks the permissions `wanted` (4 read, 2 write, 1 execute) on a file. EACCES.
pub fn access(status: &Status, wanted: u32, credentials: &Credentials) -> Result<()> {
    if credentials.privileged() {
        // The superuser may do all but execute what nobody may.
        let directory = status.mode & TYPE_MASK == DIRECTORY;
        let executable = status.mode & 0o111 != 0 || directory;
        return if wanted & 1 != 0 && !executable {
            Err(Errno::EACCES)
        } else {
            Ok(())
        };
    }
    let class = if credentials.euid == status.uid {
        status.mode >> 6
    } else if credentials.egid == status.gid {
        status.mode >> 3
    } else {
        status.mode
    };
    if wanted & !class & 7 != 0 {
        Err(Errno::EACCES)
    } else {
        Ok(())
    }
}

/// What is at `path`, which is clean: no leading slash, no `.` or `..`, no links on the way.
fn look(path: &[u8]) -> Result<Found> {
    if let Some((_, device)) = DEVICES.iter().find(|(name, _)| *name == path) {
        return Ok(Found::Device(*device));
    }
    if path == SELF_EXE {
        let executable = Current::get().process.executable().ok_or(Errno::ENOENT)?;
        return Ok(Found::Link(copied_exactly(&executable)?, link_status(0)));
    }
    if let Some((_, target)) = LINKS.iter().find(|(name, _)| *name == path) {
        return Ok(Found::Link(copied_exactly(target)?, link_status(target.len())));
    }
    match super::root().get(path) {
        Some(entry) if entry.mode & TYPE_MASK == LINK => {
            Ok(Found::Link(copied_exactly(entry.data)?, Status::of_entry(&entry)))
        }
        Some(entry) => Ok(Found::Entry(entry)),
        None if DIRECTORIES.contains(&path) => Ok(Found::Entry(Entry {
            path: b"",
            data: b"",
            mode: DIRECTORY | 0o755,
            uid: 0,
            gid: 0,
            mtime: 0,
            ino: 1,
        })),
        None => Err(Errno::ENOENT),
    }
}

fn copied_exactly(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

fn link_status(size: usize) -> Status {
    Status {
        mode: LINK | 0o777,
        size: size as u64,
        special: (0, 0),
        ..Status::device(0, 0, 0, 7)
    }
}

impl Found {
    /// As stat(2) tells.
    pub fn status(&self) -> Status {
        match self {
            Found::Entry(entry) => Status::of_entry(entry),
            Found::Device(device) => match device {
                Device::Console => Status::device(5, 1, 0o620, 3),
                Device::Null => Status::device(1, 3, 0o666, 4),
                Device::Zero => Status::device(1, 5, 0o666, 5),
                Device::Full => Status::device(1, 7, 0o666, 6),
                Device::Random => Status::device(1, 9, 0o666, 8),
            },
            Found::Link(_, status) => *status,
        }
    }
}

/// open(2) with these flags. The file system is read-only: EROFS for what would write or make a file in it.
pub fn open(path: &[u8], flags: u32, credentials: &Credentials) -> Result<Shared<File>> {
    let last = if flags & (general::O_NOFOLLOW | general::O_EXCL) != 0 {
        Last::Keep
    } else {
        Last::Follow
    };
    let found = match resolve(path, last, credentials) {
        Err(Errno::ENOENT) if flags & general::O_CREAT != 0 => return Err(Errno::EROFS),
        found => found?,
    };
    if flags & general::O_CREAT != 0 && flags & general::O_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    let writes = flags & general::O_ACCMODE != general::O_RDONLY;
    let object = match &found {
        Found::Link(..) => return Err(Errno::ELOOP),
        Found::Device(device) => match device {
            Device::Console => Object::Console,
            Device::Null => Object::Null,
            Device::Zero => Object::Zero,
            Device::Full => Object::Full,
            Device::Random => Object::Random,
        },
        Found::Entry(entry) if entry.mode & TYPE_MASK == DIRECTORY => {
            if writes || flags & general::O_CREAT != 0 {
                return Err(Errno::EISDIR);
            }
            Object::Directory(*entry)
        }
        Found::Entry(entry) => Object::Regular(*entry),
    };
    if flags & general::O_DIRECTORY != 0 && !matches!(object, Object::Directory(_)) {
        return Err(Errno::ENOTDIR);
    }
    let wanted = match flags & general::O_ACCMODE {
        general::O_RDONLY => 4,
        general::O_WRONLY => 2,
        _ => 6,
    };
    access(&found.status(), wanted, credentials)?;
    if (writes || flags & general::O_TRUNC != 0) && matches!(object, Object::Regular(_)) {
        return Err(Errno::EROFS);
    }
    Ok(File::try_new(object, flags)?)
}
