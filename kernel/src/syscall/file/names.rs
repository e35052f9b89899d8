//! System calls on names: opening, making, moving and deleting files, and the working directory.

use super::{install, place_at, walker_at, with_file};
use crate::fs::content::Content;
use crate::fs::device::{Device, copy_out};
use crate::fs::directory::Directory;
use crate::fs::file::UserBuffer;
use crate::fs::mount::Place;
use crate::fs::node::{DIRECTORY, Kind, LINK, REGULAR, TYPE_MASK, Target, access};
use crate::fs::path::{Directories, Found, Walker};
use crate::fs::pipe::Pipe;
use crate::fs::{open as opening, text, tree};
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::user::UserPtr;
use crate::user_struct;
use alloc::vec::Vec;
use cpu::atomic::Ordering;
use linux_raw_sys::general;

pub(in crate::syscall) fn open(path: UserPtr<u8>, flags: u32, mode: u32) -> Result<i32> {
    openat(general::AT_FDCWD, path, flags, mode)
}

pub(in crate::syscall) fn creat(path: UserPtr<u8>, mode: u32) -> Result<i32> {
    let flags = general::O_CREAT | general::O_WRONLY | general::O_TRUNC;
    openat(general::AT_FDCWD, path, flags, mode)
}

pub(in crate::syscall) fn openat(directory: i32, path: UserPtr<u8>, flags: u32, mode: u32) -> Result<i32> {
    let path = path.read_path(false)?;
    let current = Current::get();
    let limit = current.process.limit(general::RLIMIT_NOFILE);
    current.own().files.borrow().check_free(limit)?;
    let walker = walker_at(directory, &path)?;
    let file = opening::open(&walker, &path, flags, masked(&current, mode))?;
    install(&current, file, 0, flags & general::O_CLOEXEC != 0)
}

user_struct! {
    /// `struct open_how`
    pub(in crate::syscall) struct How {
        flags: u64,
        mode: u64,
        resolve: u64,
    }
}

pub(in crate::syscall) fn openat2(directory: i32, path: UserPtr<u8>, how: UserPtr<How>, size: usize) -> Result<i32> {
    const MODE: u32 = general::O_CREAT | general::__O_TMPFILE;
    if size < size_of::<How>() {
        return Err(Errno::EINVAL);
    }
    let how = how.read()?;
    let (Ok(flags), Ok(mode)) = (u32::try_from(how.flags), u32::try_from(how.mode)) else {
        return Err(Errno::EINVAL);
    };
    if size > size_of::<How>() || mode & !0o7777 != 0 || mode != 0 && flags & MODE == 0 || how.resolve != 0 {
        return Err(Errno::EINVAL);
    }
    openat(directory, path, flags, mode)
}

/// Permission bits without those of the umask.
fn masked(current: &Current, mode: u32) -> u32 {
    mode & 0o7777 & !current.process.umask.load(Ordering::Relaxed)
}

pub(in crate::syscall) fn umask(mask: u32) -> u32 {
    let current = Current::get();
    current.process.umask.swap(mask & 0o777, Ordering::Relaxed)
}

/// A path and where its last name is.
fn named(directory: i32, path: UserPtr<u8>) -> Result<(Walker, Found)> {
    let path = path.read_path(false)?;
    let walker = walker_at(directory, &path)?;
    let found = walker.walk(&path, false)?;
    Ok((walker, found))
}

pub(in crate::syscall) fn mkdir(path: UserPtr<u8>, mode: u32) -> Result<()> {
    mkdirat(general::AT_FDCWD, path, mode)
}

pub(in crate::syscall) fn mkdirat(directory: i32, path: UserPtr<u8>, mode: u32) -> Result<()> {
    let (walker, found) = named(directory, path)?;
    let mode = DIRECTORY | masked(&Current::get(), mode) & 0o1777;
    tree::create(&walker, &found, mode, || Ok(Kind::Directory(Directory::new())))?;
    Ok(())
}

pub(in crate::syscall) fn mknod(path: UserPtr<u8>, mode: u32, device: u32) -> Result<()> {
    mknodat(general::AT_FDCWD, path, mode, device)
}

pub(in crate::syscall) fn mknodat(directory: i32, path: UserPtr<u8>, mode: u32, device: u32) -> Result<()> {
    let current = Current::get();
    let kind = match mode & TYPE_MASK {
        0 => REGULAR,
        DIRECTORY => return Err(Errno::EPERM),
        kind @ (REGULAR | general::S_IFCHR | general::S_IFBLK | general::S_IFIFO | general::S_IFSOCK) => kind,
        _ => return Err(Errno::EINVAL),
    };
    let (walker, found) = named(directory, path)?;
    let number = ((device >> 8) & 0xfff, device & 0xff | (device >> 12) & 0xfff00);
    if matches!(kind, general::S_IFCHR | general::S_IFBLK) && !walker.credentials.privileged() {
        return Err(if found.place.is_some() {
            Errno::EEXIST
        } else {
            Errno::EPERM
        });
    }
    tree::create(&walker, &found, kind | masked(&current, mode), || {
        Ok(match kind {
            REGULAR => Kind::Regular(Content::new(&[])),
            general::S_IFIFO => Kind::Pipe(Pipe::try_new()?),
            general::S_IFCHR => Device::by_number(number).map_or(Kind::Special(number), Kind::Device),
            general::S_IFBLK => Kind::Special(number),
            _ => Kind::Special((0, 0)),
        })
    })?;
    Ok(())
}

pub(in crate::syscall) fn symlink(target: UserPtr<u8>, path: UserPtr<u8>) -> Result<()> {
    symlinkat(target, general::AT_FDCWD, path)
}

pub(in crate::syscall) fn symlinkat(target: UserPtr<u8>, directory: i32, path: UserPtr<u8>) -> Result<()> {
    let target = target.read_path(false)?;
    let (walker, found) = named(directory, path)?;
    tree::create(&walker, &found, LINK | 0o777, || Ok(Kind::Link(text::copied(&target)?)))?;
    Ok(())
}

pub(in crate::syscall) fn link(old: UserPtr<u8>, new: UserPtr<u8>) -> Result<()> {
    linkat(general::AT_FDCWD, old, general::AT_FDCWD, new, 0)
}

pub(in crate::syscall) fn linkat(
    old_directory: i32,
    old: UserPtr<u8>,
    new_directory: i32,
    new: UserPtr<u8>,
    flags: u32,
) -> Result<()> {
    if flags & !(general::AT_SYMLINK_FOLLOW | general::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let follow = flags & general::AT_SYMLINK_FOLLOW != 0;
    let stat_flags = flags & general::AT_EMPTY_PATH | if follow { 0 } else { general::AT_SYMLINK_NOFOLLOW };
    let (_, place) = place_at(old_directory, old, stat_flags)?;
    let (walker, found) = named(new_directory, new)?;
    tree::link(&walker, &place, &found)
}

pub(in crate::syscall) fn unlink(path: UserPtr<u8>) -> Result<()> {
    unlinkat(general::AT_FDCWD, path, 0)
}

pub(in crate::syscall) fn rmdir(path: UserPtr<u8>) -> Result<()> {
    unlinkat(general::AT_FDCWD, path, general::AT_REMOVEDIR)
}

pub(in crate::syscall) fn unlinkat(directory: i32, path: UserPtr<u8>, flags: u32) -> Result<()> {
    if flags & !general::AT_REMOVEDIR != 0 {
        return Err(Errno::EINVAL);
    }
    let (walker, found) = named(directory, path)?;
    tree::remove(&walker, &found, flags & general::AT_REMOVEDIR != 0)
}

pub(in crate::syscall) fn rename(old: UserPtr<u8>, new: UserPtr<u8>) -> Result<()> {
    renameat2(general::AT_FDCWD, old, general::AT_FDCWD, new, 0)
}

pub(in crate::syscall) fn renameat(
    old_directory: i32,
    old: UserPtr<u8>,
    new_directory: i32,
    new: UserPtr<u8>,
) -> Result<()> {
    renameat2(old_directory, old, new_directory, new, 0)
}

pub(in crate::syscall) fn renameat2(
    old_directory: i32,
    old: UserPtr<u8>,
    new_directory: i32,
    new: UserPtr<u8>,
    flags: u32,
) -> Result<()> {
    const BOTH: u32 = general::RENAME_NOREPLACE | general::RENAME_EXCHANGE;
    if flags & !BOTH != 0 || flags & BOTH == BOTH {
        return Err(Errno::EINVAL);
    }
    let (walker, from) = named(old_directory, old)?;
    let (_, to) = named(new_directory, new)?;
    tree::rename(&walker, &from, &to, flags)
}

pub(in crate::syscall) fn readlink(path: UserPtr<u8>, to: u64, length: i32) -> Result<usize> {
    readlinkat(general::AT_FDCWD, path, to, length)
}

pub(in crate::syscall) fn readlinkat(directory: i32, path: UserPtr<u8>, to: u64, length: i32) -> Result<usize> {
    if length <= 0 {
        return Err(Errno::EINVAL);
    }
    // An empty path is the link that a descriptor stands for, and no link at all is no entry.
    let path = path.read_path(true)?;
    if path.is_empty() && directory == general::AT_FDCWD {
        return Err(Errno::ENOENT);
    }
    let walker = walker_at(directory, &path)?;
    let place = if path.is_empty() {
        walker.base.clone()
    } else {
        walker.find(&path, false)?
    };
    if path.is_empty() && !place.node.is_link() {
        return Err(Errno::ENOENT);
    }
    let (Target::Path(target) | Target::Place(_, target)) = place.node.target()?;
    copy_out(&target, UserBuffer::checked(to, length as usize)?, 0)
}

pub(in crate::syscall) fn getcwd(to: u64, length: usize) -> Result<usize> {
    let Directories { root, working } = Current::get().process.directories().ok_or(Errno::ENOENT)?;
    if working.node.attributes().links == 0 {
        return Err(Errno::ENOENT);
    }
    let mut path: Vec<u8> = match working.path(&root, None)? {
        Some(path) => path,
        None => text::copied(b"(unreachable)/")?,
    };
    path.try_reserve(1)?;
    path.push(0);
    if path.len() > length {
        return Err(Errno::ERANGE);
    }
    crate::arch::usercopy::copy_to_user(to, &path)?;
    Ok(path.len())
}

/// Makes a directory the working directory, or the root. ENOTDIR, EACCES.
fn enter(walker: &Walker, place: Place, root: bool) -> Result<()> {
    if !place.node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    access(&place.node.attributes(), 1, &walker.credentials)?;
    let current = Current::get();
    let mut directories = current.process.directories().ok_or(Errno::ENOENT)?;
    if root {
        if !walker.credentials.privileged() {
            return Err(Errno::EPERM);
        }
        directories.root = place;
    } else {
        directories.working = place;
    }
    current.process.set_directories(Some(directories));
    Ok(())
}

pub(in crate::syscall) fn chdir(path: UserPtr<u8>) -> Result<()> {
    let (walker, place) = place_at(general::AT_FDCWD, path, 0)?;
    enter(&walker, place, false)
}

pub(in crate::syscall) fn fchdir(descriptor: i32) -> Result<()> {
    let place = with_file(descriptor, |file| file.place.clone().ok_or(Errno::ENOTDIR))?;
    enter(&Walker::of(&Current::get())?, place, false)
}

pub(in crate::syscall) fn chroot(path: UserPtr<u8>) -> Result<()> {
    let (walker, place) = place_at(general::AT_FDCWD, path, 0)?;
    enter(&walker, place, true)
}
