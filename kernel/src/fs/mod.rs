//! Files: descriptors, open files, and the tree in which they are found.
//!
//! **Purpose.** What a program reaches by a descriptor or a path.
//!
//! **How it works.**
//! * [`descriptor`]: a program's table from numbers to open files. [`files`]: how its tasks have it. [`file`]: an open file.
//! * [`node`]: what a name stands for. [`directory`], [`content`]: directories and files in memory.
//! * [`mount`]: mounts, and places in the tree. [`path`]: from a path to a place. [`open`], [`tree`]: what is done there.
//! * [`filesystems`]: what can be mounted: memory, the devices of [`device`] and [`console`], [`mqueue`], and what is made
//!   up of text: [`procfs`], [`sysfs`], both from [`table`]s. The root is filled from the boot loader's archive, [`initramfs`].
//! * [`pipe`], [`event`]: files without a name. [`wait`], [`epoll`]: waiting for files to become ready.
//!   [`notification`]: being told that a queue has a message.
//!
//! **Lock order.** Mounts (7), changes of the tree (8), a directory (9); roots (16), the console's input and positions (17,
//! 18); then, each alone, sets of epoll (22), pipes and counters (23), contents (24), parents (25), attributes (26), lines
//! of waiters (27).

pub mod console;
pub mod content;
pub mod descriptor;
pub mod device;
pub mod directory;
pub mod epoll;
pub mod event;
pub mod file;
pub mod files;
pub mod filesystems;
pub mod initramfs;
pub mod mount;
pub mod mqueue;
pub mod node;
pub mod notification;
pub mod open;
pub mod path;
pub mod pipe;
pub mod procfs;
pub mod sysfs;
pub mod table;
pub mod text;
pub mod tree;
pub mod wait;

use crate::arch::once::BootCell;
use initramfs::{Initramfs, Malformed};

static ARCHIVE: BootCell<Initramfs> = BootCell::new();

/// Reads the archive that the boot loader brought. Once, at boot.
pub fn start(archive: &'static [u8]) -> Result<(), Malformed> {
    ARCHIVE.set(Initramfs::parse(archive)?);
    Ok(())
}

/// The boot loader's archive.
pub fn archive() -> &'static Initramfs {
    ARCHIVE.get().expect("the archive is read at boot")
}
