//! The kernel without the host tool: booted by plain QEMU, or from a disk image, it runs the measuring program and
//! prints all there is on the first serial port.

use std::ffi::OsStr;
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

/// A RAM disk with the measuring program and nothing else.
fn mqtest_alone() -> anyhow::Result<Vec<u8>> {
    let mut fs = Initramfs::new();
    fs.file("bin/mqtest", 0o755, &std::fs::read(built()?.guest.program("mqtest")?)?)?;
    fs.finish()
}

#[test]
fn does_the_kernel_measure_and_tell_without_being_told_what() {
    let boot = || {
        let built = built()?;
        let load = Load {
            kernel: &built.guest.kernel,
            initramfs: &mqtest_alone()?,
            cmdline: "",
        };
        let folder = tempfile::tempdir()?;
        qemu::boot(&built.machine, &load, folder.path(), None, &AtomicBool::new(false))
    };
    let boot = boot().unwrap_or_else(|error| panic!("{}", in_full(&error)));
    assert!(matches!(boot.ending, Ending::Ordered));
    assert_told(&String::from_utf8_lossy(&boot.output));
}

/// A plain QEMU, without the port that ends it: what the first serial port tells until the kernel halts. Given up, and
/// shown as it is, after a generous time.
fn console_of(arguments: &[&OsStr]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let serial = folder.path().join("serial");
    let mut qemu = Command::new(&built().unwrap().machine.qemu)
        .args(["-display", "none", "-serial"])
        .arg(format!("file:{}", serial.display()))
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    let console = loop {
        let text = String::from_utf8_lossy(&std::fs::read(&serial).unwrap_or_default()).into_owned();
        if text.contains("tollgate: halted") || Instant::now() > end || qemu.try_wait().unwrap().is_some() {
            break text;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let _ = qemu.kill();
    qemu.wait().unwrap();
    console
}

#[test]
fn does_plain_qemu_do() {
    let built = built().unwrap_or_else(|error| panic!("{}", in_full(&error)));
    let folder = tempfile::tempdir().unwrap();
    let ramdisk = folder.path().join("ramdisk");
    std::fs::write(&ramdisk, mqtest_alone().unwrap()).unwrap();
    for machine in ["q35", "pc"] {
        let kernel = built.guest.kernel.as_os_str();
        let arguments = ["-M", machine, "-kernel"].map(OsStr::new);
        let console = console_of(&[&arguments[..], &[kernel, OsStr::new("-initrd"), ramdisk.as_os_str()]].concat());
        assert_told(&console);
        assert!(console.contains("tollgate: halted"), "{machine}: no end in\n{console}");
    }
}

#[test]
#[ignore = "builds the boot loader: minutes"]
fn does_a_disk_image_boot_under_seabios() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("tollgate.img");
    let made = Command::new("cargo")
        .args(["run", "--quiet", "--features", "image", "-p", "tollgate", "--", "image"])
        .arg(&image)
        .current_dir(build::root().unwrap())
        .status();
    assert!(made.unwrap().success());
    let drive = format!("format=raw,file={}", image.display());
    for (machine, cpu) in [("q35", "max"), ("q35", "qemu64"), ("pc", "qemu64")] {
        let console = console_of(&["-M", machine, "-cpu", cpu, "-drive", &drive].map(OsStr::new));
        assert_told(&console);
        assert!(
            console.contains("tollgate: halted"),
            "{machine}, {cpu}: no end in\n{console}"
        );
    }
}
