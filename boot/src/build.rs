//! Builds the kernel and its programs with a cargo of its own, for x86_64-unknown-none.
//!
//! Their target folders lie beside the host's (`guest` for the measured kernel, `guest-events` for the instrumented
//! one), so that no build undoes another. What the caller's environment would change in the guest's code (compiler
//! flags, wrappers, profiles, a target folder) is not passed on: the same sources must give the same instructions.
//!
//! The target comes from rustup. Where that cannot be had, Debian's rustc-web, cargo-web and rust-web-src build the
//! standard library's core with the kernel; see [`Toolchain`].

use crate::failure::Failed;
use crate::process::{ask, ask_within, interrupted, interrupted_error};
use crate::progress::Progress;
use anyhow::{Context, Result, anyhow, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The guest's target.
pub const TARGET: &str = "x86_64-unknown-none";
/// The cargo profile of kernel and programs.
const PROFILE: &str = "kernel";

/// Which compiler builds the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toolchain {
    /// The one that builds the host's side too, with the target installed by rustup.
    Rustup,
    /// Debian's packages below this folder (`/usr`): core is built from source, ld.lld links.
    Debian(PathBuf),
}

/// Where Debian's packages put the compiler.
const DEBIAN: &str = "/usr";

impl Toolchain {
    /// Finds one that can build the guest: the rustup target first. `None`: neither is there.
    pub fn find() -> Option<Toolchain> {
        let probe =
            ask(Command::new(rustc())
                .current_dir(root().ok()?)
                .args(["--print", "target-libdir", "--target", TARGET]));
        if let Ok(libdir) = probe
            && std::fs::read_dir(libdir.trim()).is_ok_and(|mut entries| {
                entries.any(|e| e.is_ok_and(|e| e.file_name().to_string_lossy().starts_with("libcore-")))
            })
        {
            return Some(Toolchain::Rustup);
        }
        Toolchain::debian(Path::new(DEBIAN))
    }

    /// Debian's toolchain below `prefix`, if it is whole.
    pub fn debian(prefix: &Path) -> Option<Toolchain> {
        let whole = [
            "bin/rustc",
            "bin/cargo",
            "bin/ld.lld",
            "lib/rustlib/src/rust/library/core/Cargo.toml",
        ];
        whole
            .iter()
            .all(|p| prefix.join(p).exists())
            .then(|| Toolchain::Debian(prefix.to_owned()))
    }

    /// A cargo command that builds one package of the guest.
    fn cargo(&self) -> Command {
        let mut command = match self {
            Toolchain::Rustup => cargo(),
            Toolchain::Debian(prefix) => Command::new(prefix.join("bin/cargo")),
        };
        clean(&mut command);
        command.args(["build", "--profile", PROFILE, "--target", TARGET]);
        if let Toolchain::Debian(prefix) = self {
            command
                .env_remove("RUSTUP_TOOLCHAIN")
                .env_remove("CARGO")
                .env("RUSTC", prefix.join("bin/rustc"))
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_X86_64_UNKNOWN_NONE_LINKER", prefix.join("bin/ld.lld"))
                .args([
                    "-Zbuild-std=core,alloc,compiler_builtins",
                    "-Zbuild-std-features=compiler-builtins-mem",
                ]);
        }
        command
    }

    /// The compiler's version line.
    pub fn version(&self) -> Result<String> {
        let compiler = match self {
            Toolchain::Rustup => rustc(),
            Toolchain::Debian(prefix) => prefix.join("bin/rustc"),
        };
        Ok(ask(Command::new(compiler).current_dir(root()?).arg("--version"))?
            .trim()
            .to_owned())
    }
}

/// The cargo that runs us, or the one in PATH.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Keeps from a build what would change it.
fn clean(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if key.to_str().is_some_and(leaks) {
            command.env_remove(key);
        }
    }
}

/// Builds the program that writes disk images (see [`crate::image`]). Gives its path. Minutes, the first time.
#[cfg(feature = "image")]
pub fn image_tool(progress: &Progress) -> Result<PathBuf> {
    let dir = target_dir()?.join("image");
    progress.doing("building the boot loader (minutes, the first time)");
    let mut command = cargo();
    clean(&mut command);
    command
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(root()?.join("boot/image/Cargo.toml"))
        .arg("--target-dir")
        .arg(&dir)
        .env("RUSTC_BOOTSTRAP", "1");
    run("the boot loader", command, progress)?;
    progress.step();
    Ok(dir.join("release/image"))
}

/// Far above what the bench takes, built and run on a busy host.
const BENCH_LIMIT: Duration = Duration::from_secs(1800);

/// Builds and runs the native bench of the counters, `rounds` times: what it prints. Minutes, where the host is busy.
pub fn bench(rounds: usize, progress: &Progress) -> Result<String> {
    progress.doing("the mechanism alone, natively");
    let mut command = cargo();
    clean(&mut command);
    command
        .current_dir(root()?)
        .args(["bench", "--quiet", "-p", "ipc", "--bench", "contention", "--target-dir"])
        .arg(target_dir()?)
        .args(["--", "--rounds", &rounds.to_string()]);
    let said = ask_within(&mut command, BENCH_LIMIT).context("the native bench")?;
    progress.step();
    Ok(said)
}

/// The rustc that cargo uses, or the one in PATH.
pub(crate) fn rustc() -> PathBuf {
    std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from)
}

/// Whether a variable of the caller's would change the guest's build. Where cargo keeps and fetches things, how it
/// prints and how many jobs it runs do not.
fn leaks(key: &str) -> bool {
    const HARMLESS: [&str; 9] = [
        "CARGO_HOME",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
        "CARGO_BUILD_JOBS",
        "CARGO_HTTPS_",
        "CARGO_LOG",
    ];
    const RUST: [&str; 6] = [
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_BOOTSTRAP",
        "CLIPPY_ARGS",
    ];
    RUST.contains(&key) || key.starts_with("CARGO_") && !HARMLESS.iter().any(|h| key.starts_with(h))
}

/// What was built.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The measured kernel.
    pub kernel: PathBuf,
    /// The instrumented kernel, if it was asked for.
    pub kernel_events: Option<PathBuf>,
    /// The folder of the ring-3 programs.
    programs: PathBuf,
}

impl Guest {
    /// Builds kernel and programs, and the instrumented kernel if `events`.
    ///
    /// Errors: a compiler's error ([`Failed`], its messages as detail), no workspace, no cargo.
    pub fn build(toolchain: &Toolchain, events: bool, progress: &Progress) -> Result<Guest> {
        let plain = target_dir()?.join("guest");
        let build = |what: &str, package: &str, features: &[&str], dir: &Path| {
            progress.doing(&format!("building {what}"));
            let mut command = toolchain.cargo();
            command.args(["-p", package, "--target-dir"]).arg(dir);
            if !features.is_empty() {
                command.args(["--features", &features.join(",")]);
            }
            let done = run(what, command, progress);
            progress.step();
            done
        };
        build("the kernel", "kernel", &[], &plain)?;
        build("the programs", "userland", &[], &plain)?;
        let products = |dir: &Path| dir.join(TARGET).join(PROFILE);
        let kernel_events = if events {
            let dir = target_dir()?.join("guest-events");
            build("the instrumented kernel", "kernel", &["events"], &dir)?;
            Some(products(&dir).join("tollgate-kernel"))
        } else {
            None
        };
        let guest = Guest {
            kernel: products(&plain).join("tollgate-kernel"),
            kernel_events,
            programs: products(&plain),
        };
        for made in [Some(&guest.kernel), guest.kernel_events.as_ref()]
            .into_iter()
            .flatten()
        {
            ensure!(made.is_file(), "{}: the build made no such file", made.display());
        }
        Ok(guest)
    }

    /// How many steps [`Guest::build`] reports.
    pub fn steps(events: bool) -> u64 {
        if events { 3 } else { 2 }
    }

    /// Builds the kernel with its own checks on (lock order, arithmetic, all assertions): for tests, not for figures. It
    /// has the path of a guest's kernel.
    pub fn build_checked(toolchain: &Toolchain, progress: &Progress) -> Result<PathBuf> {
        let dir = target_dir()?.join("guest-checked");
        progress.doing("building the kernel with checks");
        let mut command = toolchain.cargo();
        command.args(["-p", "kernel", "--target-dir"]).arg(&dir);
        for check in ["DEBUG_ASSERTIONS", "OVERFLOW_CHECKS"] {
            command.env(format!("CARGO_PROFILE_KERNEL_{check}"), "true");
        }
        run("the kernel with checks", command, progress)?;
        progress.step();
        let kernel = dir.join(TARGET).join(PROFILE).join("tollgate-kernel");
        ensure!(kernel.is_file(), "{}: the build made no such file", kernel.display());
        Ok(kernel)
    }

    /// A program's file. Errors: userland has none of that name.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.programs.join(name);
        ensure!(path.is_file(), "{}: userland built no such program", path.display());
        Ok(path)
    }
}

/// Runs a build; its messages are shown only if it fails.
fn run(what: &str, mut command: Command, progress: &Progress) -> Result<()> {
    if interrupted() {
        return Err(interrupted_error());
    }
    let cargo = Path::new(command.get_program()).display().to_string();
    command
        .current_dir(root()?)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| {
        anyhow!("{cargo}: cannot be run ({e}): install Rust with rustup (https://rustup.rs), then ./setup.sh")
    })?;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).into_owned();
            progress.detail(&format!("building {what}: {}", line.trim()));
            said.push(line);
        }
    }
    let status = child.wait().with_context(|| format!("waiting for {cargo}"))?;
    if interrupted() {
        return Err(interrupted_error());
    }
    if status.success() {
        return Ok(());
    }
    let line = format!("building {what} failed ({status}): the compiler's messages are above");
    Err(Failed {
        line,
        detail: said,
        status: 1,
    }
    .into())
}

/// The workspace's root: the one this crate was built in if it is still there, else the nearest above the current
/// folder.
pub fn root() -> Result<PathBuf> {
    let is_root = |dir: &Path| dir.join("kernel/Cargo.toml").is_file() && dir.join("userland/Cargo.toml").is_file();
    if let Some(root) = Path::new(env!("CARGO_MANIFEST_DIR")).parent()
        && is_root(root)
    {
        return Ok(root.to_owned());
    }
    let here = std::env::current_dir().context("the current folder")?;
    here.ancestors()
        .find(|dir| is_root(dir))
        .map(Path::to_owned)
        .context("Tollgate's sources are not here: run this command inside the repository")
}

/// The host's target folder: the one this executable lies in, else the one cargo was told, else `target` in the root.
pub fn target_dir() -> Result<PathBuf> {
    if let Ok(exe) = std::env::current_exe()
        && let Some(dir) = exe.ancestors().skip(1).find(|d| d.join("CACHEDIR.TAG").is_file())
    {
        return Ok(dir.to_owned());
    }
    let root = root()?;
    Ok(match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root.join(dir),
        _ => root.join("target"),
    })
}

/// The commit of the sources, where git knows it; `+` after it if files differ from it.
pub fn commit() -> Option<String> {
    let root = root().ok()?;
    let git = |args: &[&str]| ask(Command::new("git").current_dir(&root).args(args)).ok();
    let commit = git(&["rev-parse", "HEAD"])?.trim().to_owned();
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?
        .trim()
        .is_empty();
    Some(if clean { commit } else { commit + "+" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaks_is_known() {
        for bad in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_KERNEL_LTO",
            "CARGO_MANIFEST_DIR",
            "CARGO_PKG_NAME",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_INCREMENTAL",
            "CARGO_BUILD_RUSTFLAGS",
        ] {
            assert!(leaks(bad), "{bad}");
        }
        for good in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_TERM_COLOR",
            "CARGO_BUILD_JOBS",
            "PATH",
            "RUSTUP_TOOLCHAIN",
            "CARGO_REGISTRIES_CRATES_IO_PROTOCOL",
        ] {
            assert!(!leaks(good), "{good}");
        }
    }

    #[test]
    fn folders_are_found() {
        assert!(root().unwrap().join("boot/Cargo.toml").is_file());
        assert!(std::env::current_exe().unwrap().starts_with(target_dir().unwrap()));
    }

    #[test]
    fn debian_needs_all_four() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Toolchain::debian(dir.path()), None);
        for file in [
            "bin/rustc",
            "bin/cargo",
            "bin/ld.lld",
            "lib/rustlib/src/rust/library/core/Cargo.toml",
        ] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert!(matches!(Toolchain::debian(dir.path()), Some(Toolchain::Debian(_))));
    }
}
