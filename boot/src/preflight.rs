//! What a run needs of the machine, looked for before anything is built: every missing thing is named at once, with the
//! command that mends it.

use crate::build::{TARGET, Toolchain};
use crate::process::ask;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The emulator's usual name.
const QEMU: &str = "qemu-system-x86_64";
/// The firmware: boots a kernel in 75 thousand instructions, and comes with QEMU.
const FIRMWARE: &str = "qboot.rom";

/// What was found.
#[derive(Debug, Clone)]
pub struct Ready {
    /// QEMU's executable.
    pub qemu: PathBuf,
    /// Its version line.
    pub qemu_version: String,
    /// What builds the guest.
    pub toolchain: Toolchain,
}

/// Looks for everything a run needs. `qemu` is what the user named, if anything.
///
/// Errors: one that lists all that is missing and names the remedy, or that QEMU is there and broken.
pub fn check(qemu: Option<&Path>) -> Result<Ready> {
    let mut missing = Vec::new();
    let path = qemu.map_or_else(|| PathBuf::from(QEMU), Path::to_owned);
    let mut version = String::new();
    if qemu.is_none() && !in_path(QEMU) {
        missing.push(format!("{QEMU} (Debian's package qemu-system-x86)"));
    } else {
        let text = ask(Command::new(&path).arg("--version"))
            .context("QEMU cannot tell its version: install it anew (./setup.sh), or give another by --qemu PATH")?;
        version = text.lines().next().unwrap_or_default().trim().to_owned();
        if !has_firmware(&path) {
            missing.push(format!("{FIRMWARE} (Debian's package qemu-system-data)"));
        }
    }
    let toolchain = Toolchain::find();
    if toolchain.is_none() {
        missing.push(format!("the Rust target {TARGET} (rustup target add {TARGET})"));
    }
    match toolchain {
        Some(toolchain) if missing.is_empty() => Ok(Ready {
            qemu: path,
            qemu_version: version,
            toolchain,
        }),
        _ => bail!("missing {}: run ./setup.sh, which installs it", missing.join(" and ")),
    }
}

fn in_path(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|paths| std::env::split_paths(&paths).any(|dir| dir.join(name).is_file()))
}

/// Whether one of the folders QEMU searches holds the firmware. A QEMU that does not list them is believed: it will
/// say itself what it lacks.
fn has_firmware(qemu: &Path) -> bool {
    match ask(Command::new(qemu).args(["-L", "help"])) {
        Ok(folders) if !folders.trim().is_empty() => folders
            .lines()
            .any(|dir| Path::new(dir.trim()).join(FIRMWARE).is_file()),
        _ => true,
    }
}
