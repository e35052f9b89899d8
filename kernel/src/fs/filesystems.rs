//! The file systems that can be mounted, and the tree that a program finds.

use super::content::Content;
use super::device::Device;
use super::directory::Directory;
use super::initramfs::Entry;
use super::mount::{self, Mount, Place};
use super::node::{Attributes, DIRECTORY, FileSystem, Kind, LINK, Node, REGULAR, TYPE_MASK};
use super::path::{Directories, Last, Walker};
use super::{mqueue, procfs, sysfs, text};
use crate::arch::once::BootCell;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use crate::task::clock::SECOND;
use crate::task::credentials::Credentials;
use cpu::SpinLock;
use linux_raw_sys::general;

/// A kind of file system.
pub struct Type {
    /// As mount(2) and /proc/filesystems call it.
    pub name: &'static str,
    magic: u32,
    root: fn(&Shared<FileSystem>) -> Result<Shared<Node>>,
}

/// All of them.
pub static TYPES: [Type; 6] = [
    Type {
        name: "sysfs",
        magic: general::SYSFS_MAGIC,
        root: sysfs::root,
    },
    Type {
        name: "tmpfs",
        magic: general::TMPFS_MAGIC,
        root: tmpfs,
    },
    Type {
        name: "ramfs",
        magic: general::RAMFS_MAGIC,
        root: tmpfs,
    },
    Type {
        name: "proc",
        magic: general::PROC_SUPER_MAGIC,
        root: procfs::root,
    },
    Type {
        name: "devtmpfs",
        magic: general::TMPFS_MAGIC,
        root: devtmpfs,
    },
    Type {
        name: "mqueue",
        magic: 0x1980_0202,
        root: mqueue::root,
    },
];

/// A new instance of the type of this name. ENODEV.
pub fn make(name: &[u8]) -> Result<(Shared<FileSystem>, Shared<Node>)> {
    let kind = TYPES
        .iter()
        .find(|kind| kind.name.as_bytes() == name)
        .ok_or(Errno::ENODEV)?;
    let fs = FileSystem::try_new(kind.name, kind.magic)?;
    let root = (kind.root)(&fs)?;
    Ok((fs, root))
}

/// Permissions of the root of a tmpfs: everybody's, sticky.
fn tmpfs(fs: &Shared<FileSystem>) -> Result<Shared<Node>> {
    directory(fs, 0o1777)
}

fn directory(fs: &Shared<FileSystem>, permissions: u32) -> Result<Shared<Node>> {
    let attributes = Attributes::new(DIRECTORY | permissions, 0, 0);
    Node::try_new(fs, Kind::Directory(Directory::new()), attributes)
}

/// Puts a new node into a directory in memory.
fn put(parent: &Shared<Node>, name: &[u8], kind: Kind, attributes: Attributes) -> Result<Shared<Node>> {
    let Kind::Directory(entries) = &parent.kind else {
        return Err(Errno::ENOTDIR);
    };
    let below = matches!(kind, Kind::Directory(_));
    let node = Node::try_new(&parent.fs, kind, attributes)?;
    if below {
        node.set_parent(Some(parent));
        parent.change(|attributes| attributes.links += 1);
    }
    drop(entries.insert(name, &node)?);
    Ok(node)
}

/// The devices of /dev, with their permissions.
const DEVICES: [(&str, Device, u32); 9] = [
    ("console", Device::Console(5, 1), 0o600),
    ("tty", Device::Console(5, 0), 0o666),
    ("ttyS0", Device::Console(4, 64), 0o660),
    ("null", Device::Null, 0o666),
    ("zero", Device::Zero, 0o666),
    ("full", Device::Full, 0o666),
    ("random", Device::Random(8), 0o666),
    ("urandom", Device::Random(9), 0o666),
    ("kmsg", Device::Kmsg, 0o644),
];
const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

fn devtmpfs(fs: &Shared<FileSystem>) -> Result<Shared<Node>> {
    let root = directory(fs, 0o755)?;
    for (name, device, permissions) in DEVICES {
        let attributes = Attributes::new(general::S_IFCHR | permissions, 0, 0);
        put(&root, name.as_bytes(), Kind::Device(device), attributes)?;
    }
    for (name, target) in LINKS {
        let kind = Kind::Link(text::copied(target.as_bytes())?);
        put(&root, name.as_bytes(), kind, Attributes::new(LINK | 0o777, 0, 0))?;
    }
    Ok(root)
}

/// Where the file systems of a program's tree lie. Directories that are missing are made.
const TREE: [(&str, &str, u32); 6] = [
    ("proc", "/proc", 0o555),
    ("sysfs", "/sys", 0o555),
    ("devtmpfs", "/dev", 0o755),
    ("mqueue", "/dev/mqueue", 0o1777),
    ("tmpfs", "/dev/shm", 0o1777),
    ("tmpfs", "/tmp", 0o1777),
];

/// What the kernel's own nodes without a name belong to: pipes.
static NAMELESS: BootCell<SpinLock<Option<Shared<Mount>>>> = BootCell::new();
/// The root of every new program.
static ROOT: BootCell<SpinLock<Option<Place>>> = BootCell::new();

/// Makes the tree: the archive's files, and the file systems that every program expects. Once, before the first program.
pub fn mount_all() -> Result<()> {
    let fs = FileSystem::try_new("rootfs", general::TMPFS_MAGIC)?;
    let node = directory(&fs, 0o755)?;
    let root = Place::root_of(Mount::try_new(fs, node, None, b"rootfs", 0)?);
    mount::add(&root.mount)?;
    for entry in super::archive().iter() {
        unpack(&root, entry)?;
    }
    let walker = Walker {
        root: root.clone(),
        base: root.clone(),
        credentials: Credentials::ROOT,
    };
    for (kind, path, permissions) in TREE {
        let found = walker.walk(path.as_bytes(), true)?;
        if found.place.is_none() {
            make_directory(&found.parent.node, &found.name, permissions)?;
        }
        let at = walker.find(path.as_bytes(), true)?;
        let (fs, node) = make(kind.as_bytes())?;
        mount::add(&Mount::try_new(fs, node, Some(at), kind.as_bytes(), 0)?)?;
    }
    ROOT.set(SpinLock::new(16, Some(root)));
    let fs = FileSystem::try_new("pipefs", 0x5049_5045)?;
    let node = directory(&fs, 0o755)?;
    NAMELESS.set(SpinLock::new(16, Some(Mount::try_new(fs, node, None, b"pipefs", 0)?)));
    Ok(())
}

/// Takes all of it away, when no program is left.
pub fn unmount_all() {
    let nameless = NAMELESS.get().and_then(|cell| cell.lock().take());
    let root = ROOT.get().and_then(|cell| cell.lock().take());
    drop((nameless, root));
    mount::remove_all();
}

/// Where the first program's paths begin.
pub fn first_directories() -> Result<Directories> {
    let root = ROOT.get().and_then(|cell| cell.lock().clone()).ok_or(Errno::ENOENT)?;
    Ok(Directories {
        working: root.clone(),
        root,
    })
}

/// A place for a node without a name.
pub fn nameless(kind: Kind, mode: u32, credentials: &Credentials) -> Result<Place> {
    let mount = NAMELESS
        .get()
        .and_then(|cell| cell.lock().clone())
        .ok_or(Errno::ENOENT)?;
    let attributes = Attributes::new(mode, credentials.euid, credentials.egid);
    let node = Node::try_new(&mount.fs, kind, attributes)?;
    Ok(Place { mount, node })
}

/// A place for a node without a name, with this inode number, that everybody may look at.
pub fn nameless_numbered(kind: Kind, mode: u32, ino: u64) -> Result<Place> {
    let mount = NAMELESS
        .get()
        .and_then(|cell| cell.lock().clone())
        .ok_or(Errno::ENOENT)?;
    let node = Node::numbered(&mount.fs, ino, kind, Attributes::new(mode, 0, 0))?;
    Ok(Place { mount, node })
}

fn make_directory(parent: &Shared<Node>, name: &[u8], permissions: u32) -> Result<Shared<Node>> {
    let attributes = Attributes::new(DIRECTORY | permissions, 0, 0);
    put(parent, name, Kind::Directory(Directory::new()), attributes)
}

/// Makes one entry of the archive, and the directories that it is in.
fn unpack(root: &Place, entry: &Entry) -> Result<()> {
    let walker = Walker {
        root: root.clone(),
        base: root.clone(),
        credentials: Credentials::ROOT,
    };
    let mut attributes = Attributes::new(entry.mode, entry.uid, entry.gid);
    attributes.times = [u64::from(entry.mtime) * SECOND; 3];
    if entry.path.is_empty() {
        root.node.change(|own| {
            (own.mode, own.uid, own.gid) = (entry.mode, entry.uid, entry.gid);
        });
        return Ok(());
    }
    // Directories that only appear inside longer names exist too.
    let mut end = 0;
    while let Some(slash) = entry.path[end..].iter().position(|&byte| byte == b'/') {
        let found = walker.walk(&entry.path[..end + slash], true)?;
        if found.place.is_none() && found.last == Last::Name {
            make_directory(&found.parent.node, &found.name, 0o755)?;
        }
        end += slash + 1;
    }
    let found = walker.walk(entry.path, false)?;
    if found.last != Last::Name || found.place.is_some() {
        return Ok(());
    }
    let kind = match entry.mode & TYPE_MASK {
        DIRECTORY => Kind::Directory(Directory::new()),
        LINK => Kind::Link(text::copied(entry.data)?),
        REGULAR => Kind::Regular(Content::new(entry.data)),
        // The archive's device numbers are not kept: /dev has the devices.
        _ => return Ok(()),
    };
    put(&found.parent.node, &found.name, kind, attributes)?;
    Ok(())
}

/// The lines of /proc/mounts for those that `root` can see.
pub fn mounts_text(root: &Place, out: &mut text::Text) -> Result<()> {
    for mount in mount::all()? {
        let at = match &mount.at {
            Some(at) => at.path(root, None)?,
            None => Some(text::copied(b"/")?),
        };
        let Some(at) = at else { continue };
        let flags = mount.flags();
        let shown = |flag: u32, name| if flags & flag != 0 { name } else { "" };
        escape(&mount.source, out);
        out.bytes(b" ");
        escape(&at, out);
        crate::put!(
            out,
            " {} {}{}{}{}{} 0 0\n",
            mount.fs.name,
            if flags & general::MS_RDONLY != 0 { "ro" } else { "rw" },
            shown(general::MS_NOSUID, ",nosuid"),
            shown(general::MS_NODEV, ",nodev"),
            shown(general::MS_NOEXEC, ",noexec"),
            if flags & general::MS_NOATIME != 0 {
                ",noatime"
            } else {
                ",relatime"
            },
        );
    }
    Ok(())
}

/// Spaces and the like in octal, as getmntent(3) reads them.
fn escape(bytes: &[u8], out: &mut text::Text) {
    for &byte in bytes {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => crate::put!(out, "\\{byte:03o}"),
            _ => out.bytes(&[byte]),
        }
    }
}

/// What statfs(2) tells of a mount.
pub struct Usage {
    /// `f_type`
    pub magic: u32,
    /// Pages that it may have; 0 for what is made up.
    pub pages: u64,
    /// Pages that are left of them.
    pub free: u64,
    /// `MS_*`
    pub flags: u32,
}

/// See [`Usage`].
pub fn usage(mount: &Mount) -> Usage {
    let used = mount.fs.pages.load(cpu::atomic::Ordering::Relaxed);
    let has_pages = mount.fs.magic == general::TMPFS_MAGIC;
    let pages = if has_pages { mount.fs.page_limit } else { 0 };
    Usage {
        magic: mount.fs.magic,
        pages,
        free: pages.saturating_sub(used),
        flags: mount.flags(),
    }
}
