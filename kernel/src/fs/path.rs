//! Names: from a path to a place (path_resolution(7)).
//!
//! One walk serves all calls. It gives the directory of the last name, that name, and what it stands for, if anything;
//! the call decides what that means. The walk is a loop: a link's target is put in front of the rest of the path.

use super::mount::Place;
use super::node::{Node, Target, access};
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::credentials::Credentials;
use alloc::vec::Vec;
use arrayvec::ArrayVec;

/// Links followed on one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// The longest name of one file (`NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// A name.
pub type Name = ArrayVec<u8, NAME_MAX>;

/// Where a process's paths begin (Linux: fs_struct).
#[derive(Clone)]
pub struct Directories {
    /// `/`
    pub root: Place,
    /// The working directory.
    pub working: Place,
}

/// Who walks, and from where.
pub struct Walker {
    /// See [`Directories`].
    pub root: Place,
    /// Where a relative path begins.
    pub base: Place,
    /// By whose rights.
    pub credentials: Credentials,
}

/// What the last name of a path is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// A name.
    Name,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// There is none: the path is `/`.
    Root,
}

/// Where a walk has ended.
pub struct Found {
    /// The directory that the last name is in.
    pub parent: Place,
    /// The last name.
    pub name: Name,
    /// What kind of name it is.
    pub last: Last,
    /// What it stands for: `None` if there is no such name.
    pub place: Option<Place>,
    /// Whether slashes follow it.
    pub slash: bool,
}

impl Found {
    /// What was found. ENOENT; ENOTDIR where slashes follow what is no directory.
    pub fn existing(&self) -> Result<&Place> {
        let place = self.place.as_ref().ok_or(Errno::ENOENT)?;
        if self.slash && !place.node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        Ok(place)
    }
}

impl Walker {
    /// The running program's, from its working directory.
    pub fn of(current: &Current) -> Result<Walker> {
        let Directories { root, working } = current.process.directories().ok_or(Errno::ENOENT)?;
        Ok(Walker {
            root,
            base: working,
            credentials: current.process.credentials(),
        })
    }

    /// Walks `path`, which is not empty. `follow`: whether a link at its end is followed.
    ///
    /// ENOENT, ENOTDIR, EACCES, ELOOP, ENAMETOOLONG for what is wrong before the last name.
    pub fn walk(&self, path: &[u8], follow: bool) -> Result<Found> {
        let mut rest = super::text::copied(path)?;
        let mut at = self.base.clone();
        let mut from = 0;
        let mut links = 0;
        if rest.is_empty() {
            return Err(Errno::ENOENT);
        }
        loop {
            if from == 0 && rest.first() == Some(&b'/') {
                at = self.root.clone();
            }
            while rest.get(from) == Some(&b'/') {
                from += 1;
            }
            if from == rest.len() {
                let place = Some(at.clone());
                return Ok(Found {
                    parent: at,
                    name: Name::new(),
                    last: Last::Root,
                    place,
                    slash: false,
                });
            }
            let end = rest[from..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(rest.len(), |n| from + n);
            let next = rest[end..]
                .iter()
                .position(|&byte| byte != b'/')
                .map_or(rest.len(), |n| end + n);
            let (slash, more) = (end < rest.len(), next < rest.len());
            if !at.node.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            access(&at.node.attributes(), 1, &self.credentials)?;
            let Ok(name) = Name::try_from(&rest[from..end]) else {
                return Err(Errno::ENAMETOOLONG);
            };
            let (last, place) = match &*name {
                b"." => (Last::Dot, Some(at.clone())),
                b".." => (Last::DotDot, Some(at.parent(&self.root))),
                name => {
                    let node = Node::lookup(&at.node, name)?;
                    (Last::Name, node.map(|node| at.with(node).covered()))
                }
            };
            if let Some(link) = place.as_ref().filter(|place| place.node.is_link())
                && (more || slash || follow)
            {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::ELOOP);
                }
                match link.node.target()? {
                    Target::Path(target) if target.is_empty() => return Err(Errno::ENOENT),
                    Target::Path(target) => {
                        rest = joined(&target, &rest[end..])?;
                        from = 0;
                    }
                    Target::Place(place, _) if more => {
                        at = place;
                        from = next;
                    }
                    Target::Place(place, _) => {
                        return Ok(Found {
                            parent: at,
                            name,
                            last,
                            place: Some(place),
                            slash,
                        });
                    }
                }
                continue;
            }
            if more {
                at = place.ok_or(Errno::ENOENT)?;
                from = next;
                continue;
            }
            return Ok(Found {
                parent: at,
                name,
                last,
                place,
                slash,
            });
        }
    }

    /// What `path` stands for.
    pub fn find(&self, path: &[u8], follow: bool) -> Result<Place> {
        Ok(self.walk(path, follow)?.existing()?.clone())
    }

    /// Checks that names may be added to and taken from a directory. EACCES, EROFS; ENOENT for one that has been deleted.
    pub fn may_change(&self, directory: &Place) -> Result<()> {
        directory.mount.check_writable()?;
        access(&directory.node.attributes(), 3, &self.credentials)
    }
}

fn joined(target: &[u8], rest: &[u8]) -> Result<Vec<u8>> {
    let mut path = Vec::new();
    path.try_reserve_exact(target.len() + rest.len())?;
    path.extend_from_slice(target);
    path.extend_from_slice(rest);
    Ok(path)
}
