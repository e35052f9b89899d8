//! Files and directories that stand in a table: what /proc and /sys are made of.
//!
//! A row says a name, permissions, and what is there: text that a function writes, a setting, a link, a directory of
//! further rows. A table may be about a task (its `subject`); then the rows' functions get its number.
//!
//! Nodes are made at each look; a node's number is its row's place in the kernel's image and its subject, so that the
//! same file has the same number in the same kernel.

use super::node::{Attributes, DIRECTORY, Dynamic, Each, FileSystem, Kind, LINK, Listed, Node, REGULAR, Target};
use super::text::Text;
use crate::mm::shared::{Shared, try_box};
use crate::syscall::errno::{Errno, Result};
use crate::task::{Pid, table as tasks};

/// One row.
pub struct Item {
    /// The name.
    pub name: &'static str,
    /// Permission bits.
    pub permissions: u32,
    /// What is there.
    pub what: What,
}

/// What is there.
pub enum What {
    /// Text.
    Text(fn(&mut Text, Pid) -> Result<()>),
    /// A setting: shown, and set from what is written.
    Setting(fn(&mut Text), fn(&[u8]) -> Result<()>),
    /// A link.
    Link(fn(Pid) -> Result<Target>),
    /// A directory.
    Directory(&'static [Item]),
    /// Something of its own: made for a subject.
    Own(fn(&Shared<FileSystem>, Pid) -> Result<Kind>, u32),
}

/// A row of text.
pub const fn text(name: &'static str, write: fn(&mut Text, Pid) -> Result<()>) -> Item {
    Item {
        name,
        permissions: 0o444,
        what: What::Text(write),
    }
}

/// A row that is a directory.
pub const fn directory(name: &'static str, items: &'static [Item]) -> Item {
    Item {
        name,
        permissions: 0o555,
        what: What::Directory(items),
    }
}

/// A row that is a setting.
pub const fn setting(name: &'static str, show: fn(&mut Text), set: fn(&[u8]) -> Result<()>) -> Item {
    Item {
        name,
        permissions: 0o644,
        what: What::Setting(show, set),
    }
}

/// A row that is a link.
pub const fn link(name: &'static str, target: fn(Pid) -> Result<Target>) -> Item {
    Item {
        name,
        permissions: 0o777,
        what: What::Link(target),
    }
}

impl Item {
    fn kind(&self) -> u32 {
        match self.what {
            What::Text(_) | What::Setting(..) => REGULAR,
            What::Link(_) => LINK,
            What::Directory(_) => DIRECTORY,
            What::Own(_, kind) => kind,
        }
    }

    fn ino(&self, subject: Pid) -> u64 {
        u64::from(subject) << 32 | (self as *const Item as u64 >> 3) & 0xffff_ffff
    }
}

/// One row, about a subject; as a directory, the table that it holds.
struct Row {
    item: &'static Item,
    subject: Pid,
}

/// The node of a row; `parent` is its directory.
pub fn node(
    fs: &Shared<FileSystem>,
    item: &'static Item,
    subject: Pid,
    parent: Option<&Shared<Node>>,
) -> Result<Shared<Node>> {
    let kind = match item.what {
        What::Own(make, _) => make(fs, subject)?,
        _ => Kind::Dynamic(try_box(Row { item, subject })?),
    };
    let mut attributes = Attributes::new(item.kind() | item.permissions, 0, 0);
    if subject != 0
        && let Some(task) = tasks::find(subject)
    {
        let credentials = task.process.credentials();
        (attributes.uid, attributes.gid) = (credentials.euid, credentials.egid);
    }
    let node = Node::numbered(fs, item.ino(subject), kind, attributes)?;
    if item.kind() == DIRECTORY {
        node.set_parent(parent);
    }
    Ok(node)
}

/// The node of a name in a table.
pub fn lookup(items: &'static [Item], subject: Pid, this: &Shared<Node>, name: &[u8]) -> Result<Option<Shared<Node>>> {
    match items.iter().find(|item| item.name.as_bytes() == name) {
        Some(item) => Ok(Some(node(&this.fs, item, subject, Some(this))?)),
        None => Ok(None),
    }
}

/// Lists a table's names from position `from` on; false if `each` wanted no more.
pub fn list(items: &'static [Item], subject: Pid, from: u64, each: &mut Each) -> bool {
    for (at, item) in items.iter().enumerate().skip(from.saturating_sub(2) as usize) {
        let listed = Listed {
            next: at as u64 + 3,
            ino: item.ino(subject),
            kind: item.kind(),
            name: item.name.as_bytes(),
        };
        if !each(listed) {
            return false;
        }
    }
    true
}

impl Dynamic for Row {
    fn lookup(&self, this: &Shared<Node>, name: &[u8]) -> Result<Option<Shared<Node>>> {
        match self.item.what {
            What::Directory(items) => lookup(items, self.subject, this, name),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn list(&self, _this: &Node, from: u64, each: &mut Each) -> Result<()> {
        match self.item.what {
            What::Directory(items) => {
                list(items, self.subject, from, each);
                Ok(())
            }
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn read(&self, text: &mut Text) -> Result<()> {
        match self.item.what {
            What::Text(write) => write(text, self.subject),
            What::Setting(show, _) => {
                show(text);
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        match self.item.what {
            What::Setting(_, set) => set(bytes),
            _ => Err(Errno::EIO),
        }
    }

    fn target(&self) -> Result<Target> {
        match self.item.what {
            What::Link(target) => target(self.subject),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The number that a program writes into a setting: decimal, with white space around. EINVAL.
pub fn number(bytes: &[u8]) -> Result<i64> {
    core::str::from_utf8(bytes.trim_ascii())
        .ok()
        .and_then(|text| text.trim_end_matches('\0').parse().ok())
        .ok_or(Errno::EINVAL)
}
