//! Files: descriptors, open files, and what can be opened.
//!
//! **Purpose.** What a program reaches by a descriptor or a path.
//!
//! **How it works.**
//! * [`descriptor`]: a program's table from numbers to open files. [`files`]: how its tasks have it.
//! * [`file`]: an open file: the object, its status flags, its position.
//! * [`path`]: names: the initramfs as a read-only tree, with /dev and the links of /proc/self on top.
//! * [`initramfs`]: the archive. [`console`], [`device`]: the terminal, and the small devices.
//! * [`mqueue`]: a message queue as a file.
//!
//! **Lock order.** Positions (rank 18) and the console's input are taken alone.

pub mod console;
pub mod descriptor;
pub mod device;
pub mod file;
pub mod files;
pub mod initramfs;
pub mod mqueue;
pub mod path;

use crate::arch::once::BootCell;
use initramfs::{Initramfs, Malformed};

static ROOT: BootCell<Initramfs> = BootCell::new();

/// Reads the archive that the boot loader brought. Once, at boot.
pub fn start(archive: &'static [u8]) -> Result<(), Malformed> {
    ROOT.set(Initramfs::parse(archive)?);
    Ok(())
}

/// The root file system.
pub fn root() -> &'static Initramfs {
    ROOT.get().expect("the root file system is read at boot")
}
