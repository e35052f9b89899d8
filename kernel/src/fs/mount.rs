//! Mounts, and places in the tree.
//!
//! A [`Place`] is a node as seen through a mount: what a path leads to, what a directory descriptor and a process's
//! working directory are. A mount lies on a place of another mount; the first lies on nothing and is the root.
//!
//! Everything that refers to a mount holds it, so whether it is busy is its count. When the last reference goes, the tree
//! of nodes is dismantled.
//!
//! **Lock order.** The list of mounts (7), then a directory's entries (9).

use super::node::{FileSystem, Node, dismantle};
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use alloc::vec::Vec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general;

/// The most mounts (Linux: `fs.mount-max`).
const MAX: usize = 1024;
/// Flags of mount(2) that a mount keeps.
const KEPT: u32 =
    general::MS_RDONLY | general::MS_NOSUID | general::MS_NODEV | general::MS_NOEXEC | general::MS_NOATIME;

/// A mounted file system.
pub struct Mount {
    /// Unique. Immutable.
    pub id: u32,
    /// What is mounted. Immutable.
    pub fs: Shared<FileSystem>,
    /// Its root. Immutable.
    pub root: Shared<Node>,
    /// What it lies on; `None` for the root and for what is not in the tree. Immutable.
    pub at: Option<Place>,
    /// The first argument of mount(2), for /proc/mounts. Immutable.
    pub source: Vec<u8>,
    /// `MS_*` as kept.
    flags: AtomicU32,
}

/// A node as seen through a mount.
#[derive(Clone)]
pub struct Place {
    /// The mount.
    pub mount: Shared<Mount>,
    /// The node.
    pub node: Shared<Node>,
}

static MOUNTS: SpinLock<Vec<Shared<Mount>>> = SpinLock::new(7, Vec::new());

impl Mount {
    /// A mount that is not in the list yet.
    pub fn try_new(
        fs: Shared<FileSystem>,
        root: Shared<Node>,
        at: Option<Place>,
        source: &[u8],
        flags: u32,
    ) -> Result<Shared<Mount>> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Ok(Shared::try_new(Mount {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            fs,
            root,
            at,
            source: super::text::copied(source)?,
            flags: AtomicU32::new(flags & KEPT),
        })?)
    }

    /// `MS_*` as kept.
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Changes them (`MS_REMOUNT`).
    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags & KEPT, Ordering::Relaxed);
    }

    /// EROFS where nothing may be changed.
    pub fn check_writable(&self) -> Result<()> {
        if self.flags() & general::MS_RDONLY != 0 {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        dismantle(&self.root);
    }
}

impl Place {
    /// The root of a mount.
    pub fn root_of(mount: Shared<Mount>) -> Place {
        let node = mount.root.clone();
        Place { mount, node }
    }

    /// Whether both are the same.
    pub fn same(&self, other: &Place) -> bool {
        self.mount.same_object(&other.mount) && self.node.same(&other.node)
    }

    /// The same mount, another node.
    pub fn with(&self, node: Shared<Node>) -> Place {
        Place {
            mount: self.mount.clone(),
            node,
        }
    }

    /// The root of what is mounted here, and on that, and so on; this place where nothing is.
    pub fn covered(self) -> Place {
        let mut place = self;
        while place.node.covered.load(Ordering::Relaxed) > 0 {
            let found = MOUNTS
                .lock()
                .iter()
                .rev()
                .find(|mount| mount.at.as_ref().is_some_and(|at| at.same(&place)))
                .cloned();
            match found {
                Some(mount) => place = Place::root_of(mount),
                None => break,
            }
        }
        place
    }

    /// `..` of a directory, for a process whose root is `root`. Not above it.
    pub fn parent(&self, root: &Place) -> Place {
        let mut place = self.clone();
        loop {
            if place.same(root) {
                return place;
            }
            if !place.node.same(&place.mount.root) {
                let parent = place.node.parent();
                return match parent {
                    Some(parent) => place.with(parent).covered(),
                    None => place,
                };
            }
            match &place.mount.at {
                Some(at) => place = at.clone(),
                None => return place,
            }
        }
    }

    /// The path from `root`: of a directory, or of `name`d file in the directory that this place is.
    ///
    /// `None` where the directory has been deleted, or cannot be reached from the root.
    pub fn path(&self, root: &Place, file: Option<&Node>) -> Result<Option<Vec<u8>>> {
        let mut reversed: Vec<u8> = Vec::new();
        let mut place = self.clone();
        if let Some(file) = file
            && !add_name(&mut reversed, &place.node, file)?
        {
            return Ok(None);
        }
        while !place.same(root) {
            if place.node.same(&place.mount.root) {
                match &place.mount.at {
                    Some(at) => place = at.clone(),
                    None => return Ok(None),
                }
                continue;
            }
            let Some(parent) = place.node.parent() else {
                return Ok(None);
            };
            if !add_name(&mut reversed, &parent, &place.node)? {
                return Ok(None);
            }
            place = place.with(parent);
        }
        if reversed.is_empty() {
            reversed.try_reserve(1)?;
            reversed.push(b'/');
        }
        reversed.reverse();
        Ok(Some(reversed))
    }
}

/// Adds the name of `child` in `parent` and a slash, backwards. False if it has none.
fn add_name(reversed: &mut Vec<u8>, parent: &Node, child: &Node) -> Result<bool> {
    let mut found = Ok(false);
    parent.list(2, &mut |listed| {
        if listed.ino != child.ino {
            return true;
        }
        found = reversed
            .try_reserve(listed.name.len() + 1)
            .map(|()| {
                reversed.extend(listed.name.iter().rev());
                reversed.push(b'/');
                true
            })
            .map_err(Errno::from);
        false
    })?;
    found
}

/// Adds a mount to the tree. EBUSY when the same lies on top already is allowed by Linux, and here; ENOSPC, ENOMEM.
pub fn add(mount: &Shared<Mount>) -> Result<()> {
    let mut mounts = MOUNTS.lock();
    if mounts.len() >= MAX {
        return Err(Errno::ENOSPC);
    }
    mounts.try_reserve(1)?;
    mounts.push(mount.clone());
    if let Some(at) = &mount.at {
        at.node.covered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Takes a mount out of the tree, given as the place that is its root; with all below it if `detach`. EINVAL where no
/// mount begins, EBUSY.
pub fn remove(place: Place, detach: bool) -> Result<()> {
    if !place.node.same(&place.mount.root) || place.mount.at.is_none() {
        return Err(Errno::EINVAL);
    }
    let Place { mount, node } = place;
    drop(node);
    let mut gone = Vec::new();
    let mut mounts = MOUNTS.lock();
    // The list has one, and the caller another.
    if !detach && mount.count() > 2 {
        return Err(Errno::EBUSY);
    }
    gone.try_reserve(mounts.len())?;
    gone.push(mount);
    let mut next = 0;
    // Mounts come after what they lie on, so one pass over the growing list finds all.
    while next < gone.len() {
        let below = gone[next].id;
        for other in mounts.iter() {
            if other.at.as_ref().is_some_and(|at| at.mount.id == below) {
                gone.push(other.clone());
            }
        }
        next += 1;
    }
    mounts.retain(|mount| !gone.iter().any(|gone| gone.id == mount.id));
    drop(mounts);
    for mount in &gone {
        if let Some(at) = &mount.at {
            at.node.covered.fetch_sub(1, Ordering::Relaxed);
        }
    }
    // From the top down: none is freed from inside another's end.
    while gone.pop().is_some() {}
    Ok(())
}

/// Takes all mounts away, at the end of the run.
pub fn remove_all() {
    loop {
        let last = MOUNTS.lock().pop();
        match last {
            Some(mount) => {
                if let Some(at) = &mount.at {
                    at.node.covered.fetch_sub(1, Ordering::Relaxed);
                }
            }
            None => break,
        }
    }
    *MOUNTS.lock() = Vec::new();
}

/// All mounts, in order.
pub fn all() -> Result<Vec<Shared<Mount>>> {
    let mut copy = Vec::new();
    loop {
        let needed = MOUNTS.lock().len();
        copy.try_reserve(needed)?;
        let mounts = MOUNTS.lock();
        if mounts.len() <= copy.capacity() {
            copy.extend(mounts.iter().cloned());
            return Ok(copy);
        }
    }
}
