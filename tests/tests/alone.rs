//! The kernel without the host tool: booted by plain QEMU, or from a disk image, it runs the measuring program and
//! prints all there is on the first serial port.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tests::guest::{built, in_full};
use tollgate::build;
use tollgate::initramfs::Initramfs;
use tollgate::qemu::{self, Ending, Load};

/// What must be on the first serial port, in this order.
const LINES: [&str; 6] = [
    "tollgate: boot accounting=scoped ",
    "RX: ",
    "TX: ",
    "Average time per getppid: ",
    "mqtest: {",
    "tollgate: exit code=0",
];

fn assert_told(console: &str) {
    let mut lines = console.lines();
    for wanted in LINES {
        assert!(
            lines.any(|line| line.contains(wanted)),
            "no (or no later) '{wanted}' in\n{console}"
        );
    }
}

#[test]
fn does_the_kernel_measure_and_tell_without_being_told_what() {
    let boot = || {
        let built = built()?;
        let mut fs = Initramfs::new();
        fs.file("bin/mqtest", 0o755, &std::fs::read(built.guest.program("mqtest")?)?)?;
        let load = Load {
            kernel: &built.guest.kernel,
            initramfs: &fs.finish()?,
            cmdline: "",
        };
        let folder = tempfile::tempdir()?;
        qemu::boot(&built.machine, &load, folder.path(), None, &AtomicBool::new(false))
    };
    let boot = boot().unwrap_or_else(|error| panic!("{}", in_full(&error)));
    assert!(matches!(boot.ending, Ending::Ordered));
    assert_told(&String::from_utf8_lossy(&boot.output));
}

/// Waits until the file has what `done` wants, or a generous limit has passed.
fn wait_for(file: &Path, done: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        let text = String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned();
        if done(&text) || Instant::now() > end {
            return text;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "builds the boot loader: minutes"]
fn does_a_disk_image_boot_under_seabios() {
    let folder = tempfile::tempdir().unwrap();
    let (image, serial) = (folder.path().join("tollgate.img"), folder.path().join("serial"));
    let made = Command::new("cargo")
        .args(["run", "--quiet", "--features", "image", "-p", "tollgate", "--", "image"])
        .arg(&image)
        .current_dir(build::root().unwrap())
        .status();
    assert!(made.unwrap().success());
    let mut qemu = Command::new(&built().unwrap().machine.qemu)
        .args(["-M", "q35", "-cpu", "max", "-display", "none", "-drive"])
        .arg(format!("format=raw,file={}", image.display()))
        .arg("-serial")
        .arg(format!("file:{}", serial.display()))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let console = wait_for(&serial, |text| text.contains("tollgate: halted"));
    qemu.kill().unwrap();
    qemu.wait().unwrap();
    assert_told(&console);
}
