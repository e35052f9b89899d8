//! Changes of the tree: names that come, go and move.
//!
//! The checks are Linux's and in Linux's order. Every change is made under one lock, so that what was checked still
//! holds when it is done; look-ups do not take it.
//!
//! **Lock order.** The lock of changes (8), then one directory's entries (9) at a time.

use super::directory::Directory;
use super::mount::Place;
use super::node::{Attributes, DIRECTORY, Kind, Node, REGULAR, TYPE_MASK};
use super::path::{Found, Last, Walker};
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use cpu::SpinLock;
use cpu::atomic::Ordering;
use linux_raw_sys::general;

static CHANGES: SpinLock<()> = SpinLock::new(8, ());

/// The set-group-id and sticky bits.
const SET_GID: u32 = general::S_ISGID;
const STICKY: u32 = general::S_ISVTX;

/// Makes a node for a name that [`Walker::walk`] has not found. `kind` is made only if everything else allows it; what
/// it is, is said by `mode` (type and permissions, the umask taken off).
///
/// EEXIST, ENOENT (a slash behind the name of what is no directory), EROFS, EACCES, ENOSPC, ENOMEM.
pub fn create(walker: &Walker, found: &Found, mode: u32, kind: impl FnOnce() -> Result<Kind>) -> Result<Shared<Node>> {
    if found.last != Last::Name || found.place.is_some() {
        return Err(Errno::EEXIST);
    }
    let directory = mode & TYPE_MASK == DIRECTORY;
    if found.slash && !directory {
        return Err(Errno::ENOENT);
    }
    let parent = &found.parent;
    walker.may_change(parent)?;
    let entries = match &parent.node.kind {
        Kind::Directory(entries) => entries,
        Kind::Dynamic(dynamic) => return dynamic.create(&parent.node, &found.name, mode),
        _ => return Err(Errno::ENOTDIR),
    };
    let node = Node::try_new(&parent.node.fs, kind()?, inherited(&parent.node, mode, walker))?;
    if directory {
        node.set_parent(Some(&parent.node));
    }
    let changes = CHANGES.lock();
    if parent.node.attributes().links == 0 {
        return Err(Errno::ENOENT);
    }
    if entries.get(&found.name).is_some() {
        return Err(Errno::EEXIST);
    }
    entries.insert(&found.name, &node)?;
    note(&parent.node, i32::from(directory));
    drop(changes);
    Ok(node)
}

/// A new node's attributes: the group comes from the directory where its set-group-id bit is set.
pub fn inherited(parent: &Node, mode: u32, walker: &Walker) -> Attributes {
    let above = parent.attributes();
    let mut attributes = Attributes::new(mode, walker.credentials.euid, walker.credentials.egid);
    if above.mode & SET_GID != 0 {
        attributes.gid = above.gid;
        if mode & TYPE_MASK == DIRECTORY {
            attributes.mode |= SET_GID;
        }
    }
    attributes
}

/// Notes a change of a directory's names, with so many directories more in it.
fn note(directory: &Node, subdirectories: i32) {
    directory.modified();
    directory.change(|attributes| attributes.links = attributes.links.saturating_add_signed(subdirectories));
}

/// Whether the caller may take `node` out of `parent`: EROFS, EACCES, EPERM (a stranger in a sticky directory).
fn may_remove(walker: &Walker, parent: &Place, node: &Node) -> Result<()> {
    walker.may_change(parent)?;
    let above = parent.node.attributes();
    let euid = walker.credentials.euid;
    let stranger = euid != node.attributes().uid && euid != above.uid && !walker.credentials.privileged();
    if above.mode & STICKY != 0 && stranger {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// unlink(2) and rmdir(2).
pub fn remove(walker: &Walker, found: &Found, directory: bool) -> Result<()> {
    match (found.last, directory) {
        (Last::Name, _) => {}
        (_, false) => return Err(Errno::EISDIR),
        (Last::Dot, true) => return Err(Errno::EINVAL),
        (Last::DotDot, true) => return Err(Errno::ENOTEMPTY),
        (Last::Root, true) => return Err(Errno::EBUSY),
    }
    found.parent.mount.check_writable()?;
    let place = found.place.as_ref().ok_or(Errno::ENOENT)?;
    let parent = &found.parent.node;
    if found.slash && !directory {
        return Err(if place.node.is_directory() {
            Errno::EISDIR
        } else {
            Errno::ENOTDIR
        });
    }
    may_remove(walker, &found.parent, &place.node)?;
    match (place.node.is_directory(), directory) {
        (true, false) => return Err(Errno::EISDIR),
        (false, true) => return Err(Errno::ENOTDIR),
        _ => {}
    }
    let entries = match &parent.kind {
        Kind::Directory(entries) => entries,
        Kind::Dynamic(dynamic) => return dynamic.remove(&found.name, directory),
        _ => return Err(Errno::ENOTDIR),
    };
    let changes = CHANGES.lock();
    let node = entries.get(&found.name).ok_or(Errno::ENOENT)?;
    check_removable(&node)?;
    let removed = entries.remove(&found.name);
    note(parent, -i32::from(directory));
    forget(&node);
    drop(changes);
    drop(removed);
    Ok(())
}

/// EBUSY where something is mounted, ENOTEMPTY.
fn check_removable(node: &Node) -> Result<()> {
    if node.covered.load(Ordering::Relaxed) > 0 {
        return Err(Errno::EBUSY);
    }
    match &node.kind {
        Kind::Directory(entries) if !entries.is_empty() => Err(Errno::ENOTEMPTY),
        _ => Ok(()),
    }
}

/// Takes a name off a node's count; all of a directory's.
fn forget(node: &Node) {
    let directory = matches!(node.kind, Kind::Directory(_));
    node.change(|attributes| {
        attributes.links = if directory {
            0
        } else {
            attributes.links.saturating_sub(1)
        }
    });
}

/// link(2): another name, that `found` has not, for `node`.
pub fn link(walker: &Walker, old: &Place, found: &Found) -> Result<()> {
    if found.last != Last::Name || found.place.is_some() {
        return Err(Errno::EEXIST);
    }
    if found.slash {
        return Err(Errno::ENOENT);
    }
    if !old.mount.same_object(&found.parent.mount) {
        return Err(Errno::EXDEV);
    }
    walker.may_change(&found.parent)?;
    let Kind::Directory(entries) = &found.parent.node.kind else {
        return Err(Errno::EPERM);
    };
    if old.node.is_directory() {
        return Err(Errno::EPERM);
    }
    let _changes = CHANGES.lock();
    if found.parent.node.attributes().links == 0 || old.node.attributes().links == 0 {
        return Err(Errno::ENOENT);
    }
    if entries.get(&found.name).is_some() {
        return Err(Errno::EEXIST);
    }
    entries.insert(&found.name, &old.node)?;
    old.node.change(|attributes| attributes.links += 1);
    note(&found.parent.node, 0);
    Ok(())
}

/// renameat2(2) but for its flags' form.
pub fn rename(walker: &Walker, from: &Found, to: &Found, flags: u32) -> Result<()> {
    if !from.parent.mount.same_object(&to.parent.mount) {
        return Err(Errno::EXDEV);
    }
    if from.last != Last::Name {
        return Err(Errno::EBUSY);
    }
    if to.last != Last::Name {
        return Err(if flags & general::RENAME_NOREPLACE != 0 {
            Errno::EEXIST
        } else {
            Errno::EBUSY
        });
    }
    from.parent.mount.check_writable()?;
    let old = from.place.as_ref().ok_or(Errno::ENOENT)?;
    if flags & general::RENAME_NOREPLACE != 0 && to.place.is_some() {
        return Err(Errno::EEXIST);
    }
    let exchange = flags & general::RENAME_EXCHANGE != 0;
    if exchange && to.place.is_none() {
        return Err(Errno::ENOENT);
    }
    let directory = old.node.is_directory();
    let other_directory = to.place.as_ref().is_some_and(|place| place.node.is_directory());
    if !directory && (from.slash || !exchange && to.slash) || exchange && to.slash && !other_directory {
        return Err(Errno::ENOTDIR);
    }
    // A directory cannot move into itself, nor onto one that it is in.
    if is_above(&old.node, &to.parent.node) {
        return Err(Errno::EINVAL);
    }
    if to
        .place
        .as_ref()
        .is_some_and(|place| is_above(&place.node, &from.parent.node))
    {
        return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
    }
    may_remove(walker, &from.parent, &old.node)?;
    match &to.place {
        Some(target) => may_remove(walker, &to.parent, &target.node)?,
        None => walker.may_change(&to.parent)?,
    }
    if let Some(target) = to.place.as_ref().filter(|_| !exchange) {
        if target.node.same(&old.node) {
            return Ok(());
        }
        match (directory, target.node.is_directory()) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ => {}
        }
    }
    let (Kind::Directory(source), Kind::Directory(goal)) = (&from.parent.node.kind, &to.parent.node.kind) else {
        return Err(Errno::EPERM);
    };
    let changes = CHANGES.lock();
    let gone = if exchange {
        swap(from, to, source, goal)?;
        None
    } else {
        replace(from, to, source, goal)?
    };
    drop(changes);
    drop(gone);
    Ok(())
}

/// Whether `node` is `below` or one of the directories that it is in.
fn is_above(node: &Node, below: &Shared<Node>) -> bool {
    let mut at = Some(below.clone());
    while let Some(directory) = at {
        if directory.same(node) {
            return true;
        }
        at = directory.parent();
    }
    false
}

fn replace(from: &Found, to: &Found, source: &Directory, goal: &Directory) -> Result<Option<Shared<Node>>> {
    let node = source.get(&from.name).ok_or(Errno::ENOENT)?;
    let directory = node.is_directory();
    if node.covered.load(Ordering::Relaxed) > 0 {
        return Err(Errno::EBUSY);
    }
    if to.parent.node.attributes().links == 0 {
        return Err(Errno::ENOENT);
    }
    let replaced = goal.get(&to.name);
    if let Some(replaced) = &replaced {
        check_removable(replaced)?;
    }
    let same_parent = from.parent.node.same(&to.parent.node);
    let gone = if same_parent {
        source.rename(&from.name, &to.name)?
    } else {
        let gone = goal.insert(&to.name, &node)?;
        source.remove(&from.name);
        gone
    };
    let replaced_directory = gone.as_ref().is_some_and(|gone| gone.is_directory());
    note(&from.parent.node, -i32::from(directory));
    note(&to.parent.node, i32::from(directory) - i32::from(replaced_directory));
    if let Some(gone) = &gone {
        forget(gone);
    }
    if directory && !same_parent {
        node.set_parent(Some(&to.parent.node));
    }
    node.change(|_| {});
    Ok(gone)
}

/// `RENAME_EXCHANGE`
fn swap(from: &Found, to: &Found, source: &Directory, goal: &Directory) -> Result<()> {
    let one = source.get(&from.name).ok_or(Errno::ENOENT)?;
    let other = goal.get(&to.name).ok_or(Errno::ENOENT)?;
    if one.covered.load(Ordering::Relaxed) + other.covered.load(Ordering::Relaxed) > 0 {
        return Err(Errno::EBUSY);
    }
    // Both names exist, so nothing but the copies of names is allocated, first.
    goal.insert(&to.name, &one)?;
    if let Err(errno) = source.insert(&from.name, &other) {
        goal.insert(&to.name, &other)?;
        return Err(errno);
    }
    let difference = i32::from(other.is_directory()) - i32::from(one.is_directory());
    note(&from.parent.node, difference);
    note(&to.parent.node, -difference);
    if !from.parent.node.same(&to.parent.node) {
        for (node, parent) in [(&one, &to.parent), (&other, &from.parent)] {
            if node.is_directory() {
                node.set_parent(Some(&parent.node));
            }
        }
    }
    Ok(())
}

/// A new regular file without a name (`O_TMPFILE`), in the file system of a directory.
pub fn nameless(walker: &Walker, directory: &Place, mode: u32) -> Result<Shared<Node>> {
    walker.may_change(directory)?;
    if !matches!(directory.node.kind, Kind::Directory(_)) {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut attributes = inherited(&directory.node, REGULAR | mode, walker);
    attributes.links = 0;
    let content = super::content::Content::new(&[]);
    Node::try_new(&directory.node.fs, Kind::Regular(content), attributes)
}
