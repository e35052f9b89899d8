//! Nodes of the tree: what a name stands for (Linux: inodes).
//!
//! A node has attributes and is of one [`Kind`]. Files, directories and links in memory are kinds of their own; what a
//! file system makes up when it is asked ([`Dynamic`]: processes, settings, queues) is one kind for all of them.
//!
//! A directory knows its parent. A tree in memory therefore refers to itself in circles; whoever takes a tree away
//! [dismantles](dismantle) it, without recursion: its depth is the program's choice.
//!
//! **Lock order.** A directory's entries (9); then a parent's cell (25), attributes (26) and contents (24), each alone.

use super::content::Content;
use super::device::Device;
use super::directory::Directory;
use super::file::{Object, Status};
use super::mount::Place;
use super::pipe::Pipe;
use super::text::Text;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use crate::task::clock;
use crate::task::credentials::Credentials;
use crate::task::ipc_namespace::IpcNamespace;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general;

/// The bits of a mode that say what kind of file it is (`S_IFMT`).
pub const TYPE_MASK: u32 = general::S_IFMT;
/// A directory.
pub const DIRECTORY: u32 = general::S_IFDIR;
/// A symbolic link.
pub const LINK: u32 = general::S_IFLNK;
/// A regular file.
pub const REGULAR: u32 = general::S_IFREG;

/// A mounted file system (Linux: super_block), or one of the kernel's own without a mount.
pub struct FileSystem {
    /// What it is called in mount(2) and /proc/mounts.
    pub name: &'static str,
    /// `f_type` of statfs(2).
    pub magic: u32,
    /// Minor number of its device; the major one is 0.
    pub device: u32,
    next_ino: AtomicU64,
    /// Pages of its files.
    pub pages: AtomicU64,
    /// The most pages.
    pub page_limit: u64,
}

impl FileSystem {
    /// A file system without nodes.
    pub fn try_new(name: &'static str, magic: u32) -> Result<Shared<FileSystem>> {
        static DEVICES: AtomicU32 = AtomicU32::new(2);
        Ok(Shared::try_new(FileSystem {
            name,
            magic,
            device: DEVICES.fetch_add(1, Ordering::Relaxed),
            next_ino: AtomicU64::new(1),
            pages: AtomicU64::new(0),
            // As Linux's tmpfs without the option `size`: half of all memory.
            page_limit: crate::mm::frames::count().total as u64 / 2,
        })?)
    }

    /// An inode number that no node has had.
    pub fn new_ino(&self) -> u64 {
        self.next_ino.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a page from the limit. ENOSPC.
    pub fn charge_page(&self) -> Result<()> {
        if self.pages.fetch_add(1, Ordering::Relaxed) >= self.page_limit {
            self.pages.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Gives pages back.
    pub fn uncharge_pages(&self, pages: u64) {
        self.pages.fetch_sub(pages, Ordering::Relaxed);
    }
}

/// What a node is.
pub enum Kind {
    /// A file in memory.
    Regular(Content),
    /// A directory in memory.
    Directory(Directory),
    /// A symbolic link: its target.
    Link(Vec<u8>),
    /// A device.
    Device(Device),
    /// A pipe: a named one, or the node of one without a name.
    Pipe(Shared<Pipe>),
    /// A device that nobody serves, or a socket: type and number. It can be made and looked at, not opened.
    Special((u32, u32)),
    /// Made up by its file system.
    Dynamic(Box<dyn Dynamic>),
}

/// What chown, chmod and utimensat change.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; 0 for what has been deleted.
    pub links: u32,
    /// Nanoseconds since 1970 of access, modification and change.
    pub times: [u64; 3],
}

impl Attributes {
    /// Of something new.
    pub fn new(mode: u32, uid: u32, gid: u32) -> Attributes {
        Attributes {
            mode,
            uid,
            gid,
            links: if mode & TYPE_MASK == DIRECTORY { 2 } else { 1 },
            times: [clock::realtime(); 3],
        }
    }
}

/// See the module.
pub struct Node {
    /// Unique in its file system. Immutable.
    pub ino: u64,
    /// Where it belongs. Immutable.
    pub fs: Shared<FileSystem>,
    /// Immutable, as far as the kind itself does not change.
    pub kind: Kind,
    attributes: SpinLock<Attributes>,
    /// A directory's; `None` for a root.
    parent: SpinLock<Option<Shared<Node>>>,
    /// Mounts that lie on it.
    pub covered: AtomicU32,
}

/// One name of a directory, as it is listed.
pub struct Listed<'a> {
    /// Where to go on listing behind it: 3 or more (0 to 2 are for `.` and `..`).
    pub next: u64,
    /// Its node's number.
    pub ino: u64,
    /// Its node's type, as in a mode.
    pub kind: u32,
    /// The name.
    pub name: &'a [u8],
}

/// What is done with each name; false ends the list.
pub type Each<'a> = dyn FnMut(Listed) -> bool + 'a;

/// Where a link leads.
pub enum Target {
    /// To this path.
    Path(Vec<u8>),
    /// Straight to this place; shown as that path.
    Place(Place, Vec<u8>),
}

/// What a file system makes up. What a node cannot do is refused as Linux's procfs refuses it.
pub trait Dynamic: Send + Sync {
    /// The IPC namespace that it leads to.
    fn ipc_namespace(&self) -> Option<&Shared<IpcNamespace>> {
        None
    }
    /// The node of a name in this directory, which is `this`.
    fn lookup(&self, _this: &Shared<Node>, _name: &[u8]) -> Result<Option<Shared<Node>>> {
        Err(Errno::ENOTDIR)
    }
    /// Lists this directory from position `from` on: 2, or the `next` of a name that was listed.
    fn list(&self, _this: &Node, _from: u64, _each: &mut Each) -> Result<()> {
        Err(Errno::ENOTDIR)
    }
    /// The contents.
    fn read(&self, _text: &mut Text) -> Result<()> {
        Err(Errno::EINVAL)
    }
    /// Takes what is written at once.
    fn write(&self, _bytes: &[u8]) -> Result<()> {
        Err(Errno::EIO)
    }
    /// Where this link leads.
    fn target(&self) -> Result<Target> {
        Err(Errno::EINVAL)
    }
    /// What opening gives, where that is not a file of text.
    fn open(&self, _flags: u32) -> Result<Option<Object>> {
        Ok(None)
    }
    /// Makes a regular file (or, by `mode`, a directory) in this directory.
    fn create(&self, _this: &Shared<Node>, _name: &[u8], _mode: u32) -> Result<Shared<Node>> {
        Err(Errno::EPERM)
    }
    /// Takes a name (`directory`: of a directory) out of this directory.
    fn remove(&self, _name: &[u8], _directory: bool) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Corrects what stat(2) tells.
    fn status(&self, _status: &mut Status) {}
    /// Changes the permission bits; `None` where the node's own attributes are meant.
    fn change_mode(&self, _mode: u32) -> Option<Result<()>> {
        None
    }
    /// Changes the owners; as above.
    fn change_owner(&self, _uid: Option<u32>, _gid: Option<u32>) -> Option<Result<()>> {
        None
    }
}

impl Node {
    /// A new node with a new number.
    pub fn try_new(fs: &Shared<FileSystem>, kind: Kind, attributes: Attributes) -> Result<Shared<Node>> {
        Node::numbered(fs, fs.new_ino(), kind, attributes)
    }

    /// A new node whose number its file system chose.
    pub fn numbered(fs: &Shared<FileSystem>, ino: u64, kind: Kind, attributes: Attributes) -> Result<Shared<Node>> {
        Ok(Shared::try_new(Node {
            ino,
            fs: fs.clone(),
            kind,
            attributes: SpinLock::new(26, attributes),
            parent: SpinLock::new(25, None),
            covered: AtomicU32::new(0),
        })?)
    }

    /// Whether both are the same file: also for nodes that are made anew at each look.
    pub fn same(&self, other: &Node) -> bool {
        self.ino == other.ino && self.fs.same_object(&other.fs)
    }

    /// A copy of its attributes.
    pub fn attributes(&self) -> Attributes {
        *self.attributes.lock()
    }

    /// Changes its attributes, and notes the time of the change.
    pub fn change(&self, f: impl FnOnce(&mut Attributes)) {
        let now = clock::realtime();
        let mut attributes = self.attributes.lock();
        attributes.times[2] = now;
        f(&mut attributes);
    }

    /// Notes that its contents have been changed.
    pub fn modified(&self) {
        let now = clock::realtime();
        let mut attributes = self.attributes.lock();
        (attributes.times[1], attributes.times[2]) = (now, now);
    }

    /// Type and permissions.
    pub fn mode(&self) -> u32 {
        self.attributes.lock().mode
    }

    /// Its type, as in a mode.
    pub fn type_bits(&self) -> u32 {
        self.mode() & TYPE_MASK
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.type_bits() == DIRECTORY
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.type_bits() == LINK
    }

    /// A directory's parent; `None` for a root.
    pub fn parent(&self) -> Option<Shared<Node>> {
        self.parent.lock().clone()
    }

    /// Sets a directory's parent.
    pub fn set_parent(&self, parent: Option<&Shared<Node>>) {
        let old = core::mem::replace(&mut *self.parent.lock(), parent.cloned());
        drop(old);
    }

    /// The node of a name in this directory. ENOTDIR.
    pub fn lookup(this: &Shared<Node>, name: &[u8]) -> Result<Option<Shared<Node>>> {
        match &this.kind {
            Kind::Directory(directory) => Ok(directory.get(name)),
            Kind::Dynamic(dynamic) => dynamic.lookup(this, name),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Lists this directory from position `from` on, without `.` and `..`.
    pub fn list(&self, from: u64, each: &mut Each) -> Result<()> {
        match &self.kind {
            Kind::Directory(directory) => {
                directory.list(from, each);
                Ok(())
            }
            Kind::Dynamic(dynamic) => dynamic.list(self, from, each),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Where this link leads. EINVAL for what is none.
    pub fn target(&self) -> Result<Target> {
        match &self.kind {
            Kind::Link(target) => Ok(Target::Path(super::text::copied(target)?)),
            Kind::Dynamic(dynamic) => dynamic.target(),
            _ => Err(Errno::EINVAL),
        }
    }

    /// As stat(2) tells.
    pub fn status(&self) -> Status {
        let attributes = self.attributes();
        let mut status = Status {
            device: (0, self.fs.device),
            ino: self.ino,
            mode: attributes.mode,
            links: attributes.links,
            uid: attributes.uid,
            gid: attributes.gid,
            special: (0, 0),
            size: 0,
            blocks: 0,
            times: attributes.times,
        };
        match &self.kind {
            Kind::Regular(content) => (status.size, status.blocks) = (content.size(), content.blocks()),
            Kind::Directory(directory) => status.size = directory.size(),
            Kind::Link(target) => status.size = target.len() as u64,
            Kind::Device(device) => status.special = device.number(),
            Kind::Special(number) => status.special = *number,
            Kind::Pipe(_) => {}
            Kind::Dynamic(dynamic) => dynamic.status(&mut status),
        }
        status
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Kind::Regular(content) = &mut self.kind {
            self.fs.uncharge_pages(content.take_pages());
        }
        // A chain of deleted directories may be as long as the program likes: link by link, not by recursion.
        let mut next = self.parent.get_mut().take();
        while let Some(node) = next {
            next = if node.count() == 1 {
                node.parent.lock().take()
            } else {
                None
            };
            drop(node);
        }
    }
}

/// Takes a tree in memory apart: its circles are broken, and what nobody else has is freed.
pub fn dismantle(root: &Shared<Node>) {
    let mut at = root.clone();
    loop {
        let Kind::Directory(directory) = &at.kind else { return };
        match directory.pop() {
            Some(child) if matches!(child.kind, Kind::Directory(_)) => at = child,
            Some(child) => drop(child),
            None if at.same(root) => return,
            None => {
                // Back up; the child lets go of its parent, which the root still holds by its entries or by `at`.
                let Some(parent) = at.parent() else { return };
                at.set_parent(None);
                at = parent;
            }
        }
    }
}

/// Checks the permissions `wanted` (4 read, 2 write, 1 execute) on a file. EACCES.
pub fn access(attributes: &Attributes, wanted: u32, credentials: &Credentials) -> Result<()> {
    let Attributes { mode, uid, gid, .. } = *attributes;
    if credentials.privileged() {
        // The superuser may do all but execute what nobody may.
        let executable = mode & 0o111 != 0 || mode & TYPE_MASK == DIRECTORY;
        return if wanted & 1 != 0 && !executable {
            Err(Errno::EACCES)
        } else {
            Ok(())
        };
    }
    let class = if credentials.euid == uid {
        mode >> 6
    } else if credentials.in_group(gid) {
        mode >> 3
    } else {
        mode
    };
    if wanted & !class & 7 != 0 {
        Err(Errno::EACCES)
    } else {
        Ok(())
    }
}
