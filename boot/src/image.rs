//! A disk image that a BIOS machine boots: the kernel, its RAM disk, and the boot loader of the crate `bootloader`.
//!
//! That crate builds parts of itself with unstable features of the compiler. So it is the only dependency of a package of
//! its own, `boot/image`, which is outside the workspace and built with RUSTC_BOOTSTRAP=1, and only when an image is
//! made. It needs the sources of the standard library and LLVM's tools, as rustup's components.
//!
//! The kernel goes into the image without its line tables: they are four fifths of the file, a BIOS reads an old disk by
//! the word, and nothing in the guest asks for them (names for backtraces are in the RAM disk).

use crate::build::{self, Guest};
use crate::experiment::{self, PROGRAM};
use crate::process::ask;
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Steps that [`write`] reports.
pub const STEPS: u64 = 2;

/// What making an image needs beyond the compiler.
pub struct Components {
    objcopy: PathBuf,
}

impl Components {
    /// Looks for them. Errors: one that names what is missing and the command that installs it.
    pub fn find() -> Result<Components> {
        let sysroot = ask(Command::new(build::rustc())
            .current_dir(build::root()?)
            .args(["--print", "sysroot"]))?;
        Components::below(&Path::new(sysroot.trim()).join("lib/rustlib"))
    }

    fn below(rustlib: &Path) -> Result<Components> {
        let sources = rustlib.join("src/rust/library/core/Cargo.toml").is_file();
        let objcopy = std::fs::read_dir(rustlib)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin/llvm-objcopy"))
            .find(|path| path.is_file());
        match objcopy {
            Some(objcopy) if sources => Ok(Components { objcopy }),
            objcopy => {
                let missing = match (sources, objcopy) {
                    (true, _) => "llvm-tools",
                    (false, Some(_)) => "rust-src",
                    (false, None) => "rust-src llvm-tools",
                };
                bail!("the boot loader's build lacks {missing}: rustup component add {missing}")
            }
        }
    }
}

/// Writes the image to `out`. Its first program is the measuring one, with its default number of rounds.
///
/// Errors: the build fails, `out` cannot be written.
pub fn write(components: &Components, guest: &Guest, out: &Path, dir: &Path, progress: &Progress) -> Result<()> {
    let tool = build::image_tool(progress)?;
    progress.doing("writing the image");
    let path = format!("/bin/{PROGRAM}");
    let program = std::fs::read(guest.program(PROGRAM)?)?;
    let fs = experiment::file_system(&guest.kernel, std::slice::from_ref(&path), &[(path.clone(), &program)])?;
    let (kernel, ramdisk) = (dir.join("kernel"), dir.join("ramdisk"));
    std::fs::write(&ramdisk, fs).context("writing the RAM disk")?;
    ask(Command::new(&components.objcopy)
        .arg("--strip-debug")
        .args([&guest.kernel, &kernel]))
    .context("taking the line tables out of the kernel")?;
    let written = Command::new(&tool)
        .args([&kernel, &ramdisk])
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str]) -> Result<Components> {
        let rustlib = tempfile::tempdir().unwrap();
        for file in files {
            let path = rustlib.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        Components::below(rustlib.path())
    }

    #[test]
    fn is_a_missing_component_named_with_its_remedy() {
        let sources = "src/rust/library/core/Cargo.toml";
        let tools = "x86_64-unknown-linux-gnu/bin/llvm-objcopy";
        assert!(found(&[sources, tools]).is_ok());
        for (there, missing) in [
            (&[][..], "rust-src llvm-tools"),
            (&[sources], "llvm-tools"),
            (&[tools], "rust-src"),
        ] {
            let error = found(there).err().map(|error| crate::failure::one_line(&error));
            let wanted = format!("the boot loader's build lacks {missing}: rustup component add {missing}");
            assert_eq!(error, Some(wanted));
        }
    }
}
