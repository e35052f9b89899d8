//! A disk image that a BIOS machine boots: the kernel, its RAM disk, and the boot loader of the crate `bootloader`.
//!
//! That crate builds parts of itself with unstable features of the compiler. So it is the only dependency of a package of
//! its own, `boot/image`, which is outside the workspace and built with RUSTC_BOOTSTRAP=1, and only when an image is
//! made. It needs the sources of the standard library and LLVM's tools, as rustup's components.

use crate::build::{self, Guest};
use crate::experiment::{self, PROGRAM};
use crate::process::ask;
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// Steps that [`write`] reports.
pub const STEPS: u64 = 2;

/// Writes the image to `out`. Its first program is the measuring one, with its default number of rounds.
///
/// Errors: a component of rustup's is missing, the build fails, `out` cannot be written.
pub fn write(guest: &Guest, out: &Path, dir: &Path, progress: &Progress) -> Result<()> {
    components()?;
    let tool = build::image_tool(progress)?;
    progress.doing("writing the image");
    let path = format!("/bin/{PROGRAM}");
    let program = std::fs::read(guest.program(PROGRAM)?)?;
    let fs = experiment::file_system(&guest.kernel, std::slice::from_ref(&path), &[(path.clone(), &program)])?;
    let ramdisk = dir.join("ramdisk");
    std::fs::write(&ramdisk, fs).context("writing the RAM disk")?;
    let written = Command::new(&tool)
        .arg(&guest.kernel)
        .arg(&ramdisk)
        .arg(out)
        .output()
        .with_context(|| tool.display().to_string())?;
    let complaint = String::from_utf8_lossy(&written.stderr);
    ensure!(
        written.status.success(),
        "{}: cannot be written: {}",
        out.display(),
        complaint.lines().next().unwrap_or_default()
    );
    progress.step();
    Ok(())
}

/// What the boot loader's build needs beyond the compiler.
fn components() -> Result<()> {
    let sysroot = ask(Command::new("rustc")
        .current_dir(build::root()?)
        .args(["--print", "sysroot"]))?;
    let rustlib = Path::new(sysroot.trim()).join("lib/rustlib");
    let mut missing = Vec::new();
    if !rustlib.join("src/rust/library/core/Cargo.toml").is_file() {
        missing.push("rust-src");
    }
    let objcopy = |entry: std::fs::DirEntry| entry.path().join("bin/llvm-objcopy").is_file();
    if !std::fs::read_dir(&rustlib).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(objcopy))) {
        missing.push("llvm-tools");
    }
    if !missing.is_empty() {
        let missing = missing.join(" ");
        bail!("the boot loader's build lacks {missing}: rustup component add {missing}");
    }
    Ok(())
}
