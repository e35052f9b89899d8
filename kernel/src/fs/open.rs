//! open(2): from a path and flags to an open file.

use super::content::Content;
use super::file::{File, Object};
use super::mount::Place;
use super::node::{Kind, REGULAR, access};
use super::path::{Last, Walker};
use super::pipe::End;
use super::tree;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use linux_raw_sys::general::{
    self, O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_TRUNC,
    O_WRONLY,
};

/// Opens `path`; `mode` is a new file's permission bits, the umask taken off. The checks are Linux's and in its order.
pub fn open(walker: &Walker, path: &[u8], flags: u32, mode: u32) -> Result<Shared<File>> {
    let flags = if flags & O_PATH != 0 {
        flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW | general::O_CLOEXEC)
    } else {
        // Every file may be large, and F_GETFL says so.
        flags | general::O_LARGEFILE
    };
    let tmpfile = flags & general::__O_TMPFILE != 0;
    if tmpfile {
        if flags & general::O_TMPFILE != general::O_TMPFILE || flags & O_ACCMODE == O_RDONLY || flags & O_CREAT != 0 {
            return Err(Errno::EINVAL);
        }
        let directory = walker.find(path, true)?;
        if !directory.node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        let node = tree::nameless(walker, &directory, mode & 0o7777)?;
        return opened(directory.with(node), None, flags, false);
    }
    let creates = flags & O_CREAT != 0;
    if creates && flags & O_DIRECTORY != 0 {
        return Err(Errno::EINVAL);
    }
    let exclusive = creates && flags & O_EXCL != 0;
    let found = walker.walk(path, flags & O_NOFOLLOW == 0 && !exclusive)?;
    if creates {
        if found.last != Last::Name {
            return Err(if exclusive { Errno::EEXIST } else { Errno::EISDIR });
        }
        if found.slash {
            return Err(Errno::EISDIR);
        }
        if found.place.is_none() {
            let made = tree::create(walker, &found, REGULAR | mode & 0o7777, || {
                Ok(Kind::Regular(Content::new(&[])))
            });
            match made {
                Ok(node) => {
                    let place = found.parent.with(node);
                    // What it may do with a file of its own is not asked.
                    return opened(place, Some(found.parent), flags, true);
                }
                // Somebody was quicker: it is there now.
                Err(Errno::EEXIST) if !exclusive => return open(walker, path, flags & !O_CREAT, mode),
                Err(errno) => return Err(errno),
            }
        }
        if exclusive {
            return Err(Errno::EEXIST);
        }
    }
    let place = found.existing()?.clone();
    if creates && place.node.is_directory() {
        return Err(Errno::EISDIR);
    }
    if flags & O_DIRECTORY != 0 && !place.node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    if flags & O_PATH == 0 {
        may_open(walker, &place, flags)?;
    }
    opened(place, Some(found.parent), flags, false)
}

fn may_open(walker: &Walker, place: &Place, flags: u32) -> Result<()> {
    let node = &place.node;
    if node.is_link() {
        return Err(Errno::ELOOP);
    }
    let wanted = match flags & O_ACCMODE {
        O_RDONLY => 4,
        O_WRONLY => 2,
        _ => 6,
    } | if flags & O_TRUNC != 0 { 2 } else { 0 };
    if node.is_directory() && wanted & 2 != 0 {
        return Err(Errno::EISDIR);
    }
    let attributes = node.attributes();
    let device = matches!(node.kind, Kind::Device(_) | Kind::Special(_));
    if device && place.mount.flags() & general::MS_NODEV != 0 {
        return Err(Errno::EACCES);
    }
    if wanted & 2 != 0 && !device && !matches!(node.kind, Kind::Pipe(_)) {
        place.mount.check_writable()?;
    }
    access(&attributes, wanted, &walker.credentials)?;
    let owner = walker.credentials.euid == attributes.uid || walker.credentials.privileged();
    if flags & O_NOATIME != 0 && !owner {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// The open file of a place; `parent` is where its name is.
fn opened(place: Place, parent: Option<Place>, flags: u32, new: bool) -> Result<Shared<File>> {
    let reads = flags & O_ACCMODE != O_WRONLY;
    let writes = flags & O_ACCMODE != O_RDONLY;
    let node = &place.node;
    let object = if flags & O_PATH != 0 {
        Object::Path
    } else {
        match &node.kind {
            Kind::Regular(content) => {
                if flags & O_TRUNC != 0 && !new {
                    content.resize(&node.fs, 0);
                    node.modified();
                }
                Object::Regular(node.clone())
            }
            Kind::Directory(_) => Object::Directory(node.clone()),
            Kind::Device(device) => device.open(),
            Kind::Pipe(pipe) => Object::Pipe(End::open(pipe, reads, writes, flags & O_NONBLOCK != 0)?),
            Kind::Special(_) => return Err(Errno::ENXIO),
            Kind::Dynamic(dynamic) => match dynamic.open(flags)? {
                Some(object) => object,
                None if node.is_directory() => Object::Directory(node.clone()),
                None => Object::Text(node.clone()),
            },
            Kind::Link(_) => return Err(Errno::ELOOP),
        }
    };
    Ok(File::try_new_at(object, flags, place, parent)?)
}
