//! The host side against a QEMU that is a shell script: every way a boot can end, without a kernel.
//!
//! The script finds the second serial line's file among its arguments as QEMU does, then does what the case says.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tollgate::console::ProgramEnd;
use tollgate::experiment::succeeded;
use tollgate::failure::{detail, one_line, status};
use tollgate::qemu::{Accel, Boot, Load, Machine, boot};

/// Makes the script. `body` sees the log's path in $log and all arguments in $all.
fn fake(dir: &Path, body: &str) -> PathBuf {
    let path = dir.join("qemu");
    let script = format!(
        "#!/bin/sh\nall=\"$*\"\nlog=/dev/null\nfor a in \"$@\"; do case $a in file:*) log=${{a#file:}};; esac; done\n{body}\n"
    );
    // Written by a process of its own: while this one holds it open, a sibling thread's child would inherit that, and
    // the kernel refuses to execute a file that is open for writing.
    let written = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\"", path.to_str().unwrap()])
        .stdin({
            let source = dir.join("source");
            std::fs::write(&source, script).unwrap();
            std::fs::File::open(source).unwrap()
        })
        .status()
        .unwrap();
    assert!(written.success());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    path
}

fn machine(qemu: PathBuf) -> Machine {
    Machine {
        qemu,
        accel: Accel::Icount,
        cpus: 1,
        mem: 64,
        timeout: Duration::from_secs(20),
    }
}

fn run_on(machine: &Machine, dir: &Path) -> anyhow::Result<Boot> {
    let load = Load {
        kernel: Path::new("/kernel"),
        initramfs: b"cpio",
        cmdline: "accounting=off log=com2",
    };
    boot(machine, &load, dir, None, &AtomicBool::new(false))
}

fn run(body: &str) -> anyhow::Result<Boot> {
    let dir = tempfile::tempdir().unwrap();
    run_on(&machine(fake(dir.path(), body)), dir.path())
}

const EXIT_0: &str = "echo 'tollgate: exit code=0' >>\"$log\"; exit 33";

#[test]
fn in_order() {
    let boot = run(&format!(
        "printf 'a\\r\\nb\\001'; echo 'tollgate: first-user-instruction tsc=5' >>\"$log\"; {EXIT_0}"
    ))
    .unwrap();
    let boot = succeeded(boot).unwrap();
    assert_eq!(boot.output, b"a\r\nb\x01");
    assert_eq!(boot.control.first_user_tsc, Some(5));
    assert_eq!(boot.control.end, Some(ProgramEnd::Code(0)));
}

#[test]
fn the_machine_is_as_described() {
    let boot = run(&format!("echo \"$all\"; {EXIT_0}")).unwrap();
    let arguments = String::from_utf8(boot.output).unwrap();
    for part in [
        "-M q35 -bios qboot.rom -cpu max -m 64 -smp 1 -accel tcg -icount shift=0,sleep=off",
        "-seed 0 -rtc base=2024-01-01T00:00:00,clock=vm",
        "-device isa-debug-exit,iobase=0xf4,iosize=0x04",
        "-kernel /kernel -initrd ",
        "-append accounting=off log=com2",
    ] {
        assert!(arguments.contains(part), "{part} in {arguments}");
    }
}

#[test]
fn output_is_passed_on_as_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let qemu = fake(dir.path(), &format!("printf one; sleep 0.3; printf two; {EXIT_0}"));
    struct Pieces(Vec<(Instant, Vec<u8>)>);
    impl std::io::Write for Pieces {
        fn write(&mut self, b: &[u8]) -> std::io::Result<usize> {
            self.0.push((Instant::now(), b.to_vec()));
            Ok(b.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut pieces = Pieces(Vec::new());
    let load = Load {
        kernel: Path::new("/k"),
        initramfs: b"",
        cmdline: "",
    };
    boot(
        &machine(qemu),
        &load,
        dir.path(),
        Some(&mut pieces),
        &AtomicBool::new(false),
    )
    .unwrap();
    assert_eq!(
        pieces.0.iter().map(|p| p.1.as_slice()).collect::<Vec<_>>(),
        [b"one".as_slice(), b"two"]
    );
    assert!(pieces.0[1].0 - pieces.0[0].0 > Duration::from_millis(100));
}

#[test]
fn a_programs_failure_is_told_with_its_console() {
    let error = succeeded(run("printf 'oh\\033[2J\\n'; echo 'tollgate: exit code=7' >>\"$log\"; exit 33").unwrap())
        .unwrap_err();
    assert_eq!(one_line(&error), "its program exited with 7");
    assert_eq!(detail(&error), ["console| oh\\u{1b}[2J"]);
    let error = succeeded(run("echo 'tollgate: exit signal=11' >>\"$log\"; exit 33").unwrap()).unwrap_err();
    assert_eq!(one_line(&error), "its program was killed by SIGSEGV");
}

#[test]
fn time_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = machine(fake(
        dir.path(),
        "echo last words; echo booting >>\"$log\"; exec sleep 1000",
    ));
    machine.timeout = Duration::from_millis(300);
    let started = Instant::now();
    let error = run_on(&machine, dir.path()).unwrap().in_order().unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(one_line(&error).contains("time limit"), "{error}");
    assert_eq!(status(&error), 124);
    assert_eq!(detail(&error), ["console| last words", "log| booting"]);
}

/// A wrapper script's child holds the pipes open after the kill: it must not be waited for.
#[test]
fn time_limit_with_a_wrapper() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = machine(fake(dir.path(), "sleep 8 & wait"));
    machine.timeout = Duration::from_millis(200);
    let started = Instant::now();
    let error = run_on(&machine, dir.path()).unwrap().in_order().unwrap_err();
    assert_eq!(status(&error), 124);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let machine = machine(fake(dir.path(), "exec sleep 1000"));
    let load = Load {
        kernel: Path::new("/k"),
        initramfs: b"",
        cmdline: "",
    };
    let started = Instant::now();
    let error = boot(&machine, &load, dir.path(), None, &AtomicBool::new(true)).unwrap_err();
    assert_eq!(status(&error), 130);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_signal_to_qemu_is_no_triple_fault() {
    let error = run("echo 'qemu-system-x86_64: terminating on signal 2' >&2; exit 0").unwrap_err();
    assert_eq!((one_line(&error).as_str(), status(&error)), ("interrupted", 130));
}

#[test]
fn panic() {
    let body = "printf 'tollgate: panic no frames left\\ntollgate: | rip=1234\\ntollgate: | 0: mm::alloc\\n' >>\"$log\"; exit 35";
    let error = run(body).unwrap().in_order().unwrap_err();
    assert_eq!(one_line(&error), "kernel panic: no frames left");
    assert_eq!(status(&error), 125);
    assert_eq!(
        detail(&error),
        ["panic| no frames left", "panic| rip=1234", "panic| 0: mm::alloc"]
    );
}

#[test]
fn failure_without_panic_shows_the_log() {
    let error = run("echo 'unknown option foo=bar' >>\"$log\"; exit 35")
        .unwrap()
        .in_order()
        .unwrap_err();
    assert_eq!(one_line(&error), "the kernel failed: unknown option foo=bar");
}

#[test]
fn leaks() {
    for code in [33, 35] {
        let body = format!("printf 'tollgate: exit code=0\\ntollgate: leak msg 3 objects\\n' >>\"$log\"; exit {code}");
        let error = run(&body).unwrap().in_order().unwrap_err();
        assert_eq!(
            (one_line(&error).as_str(), status(&error)),
            ("the kernel leaked: msg 3 objects", 125)
        );
    }
}

#[test]
fn triple_fault_and_silence() {
    let error = run("exit 0").unwrap().in_order().unwrap_err();
    assert!(one_line(&error).contains("triple fault"));
    assert_eq!(detail(&error), ["console| (nothing was printed)"]);
    let error = run("exit 33").unwrap().in_order().unwrap_err();
    assert!(one_line(&error).contains("without saying how"));
}

#[test]
fn qemu_itself_fails() {
    let line = |body: &str| one_line(&run(body).unwrap_err());
    let said = line("echo \"qemu: could not load PC BIOS 'qboot.rom'\" >&2; exit 1");
    assert!(
        said.contains("QEMU itself failed (exit status 1): qemu: could not load PC BIOS")
            && said.ends_with("./setup.sh"),
        "{said}"
    );
    let said = line("printf 'qemu: cannot set up guest memory\\nCannot allocate memory\\n' >&2; exit 1");
    assert!(
        said.contains("memory; Cannot allocate memory: ask for less by --mem"),
        "{said}"
    );
    assert!(line("exit 1").contains("it said nothing"));
    assert!(line("kill -ABRT $$").contains("killed, signal: 6"));
    assert!(!line("printf 'a\\nb\\n' >&2; exit 2").contains('\n'));
}

#[test]
fn qemu_is_missing_or_no_program() {
    let dir = tempfile::tempdir().unwrap();
    let error = run_on(&machine("/nonexistent/qemu".into()), dir.path()).unwrap_err();
    assert!(
        one_line(&error).contains("./setup.sh") && one_line(&error).contains("qemu-system-x86"),
        "{error}"
    );
    let error = run_on(&machine(dir.path().to_owned()), dir.path()).unwrap_err();
    assert!(one_line(&error).contains("cannot be run"), "{error}");
}

#[test]
fn impossible_machines_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refuse = |change: &dyn Fn(&mut Machine)| {
        let mut machine = machine("/nonexistent/qemu".into());
        change(&mut machine);
        let error = run_on(&machine, dir.path()).unwrap_err();
        assert_eq!(status(&error), 2);
        one_line(&error)
    };
    assert!(refuse(&|m| m.cpus = 0).contains("--cpus 0"));
    assert!(refuse(&|m| m.cpus = 256).contains("at most 255"));
    assert!(refuse(&|m| m.mem = 31).contains("at least 32 MiB"));
    assert!(refuse(&|m| m.mem = u32::MAX).contains("ask for less"));
    assert!(refuse(&|m| m.timeout = Duration::ZERO).contains("--timeout"));
}

/// The command itself: one line, the right status, nothing on standard output.
fn command(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .env_remove("TOLLGATE_QEMU")
        .output()
        .unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn command_line_mistakes_are_one_line() {
    for (arguments, part) in [
        (
            vec!["--models", "page,pag"],
            "unknown accounting model 'pag': the known ones are off, page, object",
        ),
        (vec!["--cpus", "0"], "--cpus 0"),
        (vec!["--rounds", "0"], "--rounds 0"),
        (vec!["--mem", "8"], "--mem 8"),
        (vec!["--accel", "xen"], "unknown --accel 'xen'"),
        (vec!["--timeout", "0"], "--timeout 0"),
        (vec!["exec", "--accounting", "x", "p"], "unknown accounting model 'x'"),
        (vec!["exec", "--msgcache", "x", "p"], "unknown --msgcache"),
        (vec!["exec", "--cgroup", "x", "p"], "unknown cgroup"),
    ] {
        let (status, said) = command(&arguments);
        assert_eq!(status, 2, "{said}");
        assert!(
            said.starts_with("tollgate: ") && said.contains(part) && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn programs_that_cannot_run_are_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    let own = env!("CARGO_BIN_EXE_tollgate");
    for (program, part) in [
        (text.to_str().unwrap(), "not an ELF file"),
        ("/nonexistent", "cannot read"),
        (own, "dynamic ELF"),
    ] {
        let (status, said) = command(&["exec", program]);
        assert_eq!(status, 1, "{said}");
        assert!(
            said.contains(program) && said.contains(part) && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn a_broken_qemu_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let qemu = fake(dir.path(), "echo 'libfoo.so: cannot open' >&2; exit 127");
    let (status, said) = command(&["--qemu", qemu.to_str().unwrap()]);
    assert_eq!(status, 1);
    assert!(
        said.contains("libfoo.so: cannot open") && said.lines().count() == 1,
        "{said}"
    );
    let (status, said) = command(&["--qemu", "/nonexistent/qemu"]);
    assert_eq!(status, 1);
    assert!(said.contains("./setup.sh") && said.lines().count() == 1, "{said}");
}

/// A machine without QEMU and without the target: both are named, and the command that mends it.
#[test]
fn preflight_names_everything_missing() {
    let dir = tempfile::tempdir().unwrap();
    // A rustc that knows no target but answers, and a PATH with nothing else in it.
    let rustc = fake(dir.path(), "echo /nonexistent");
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .env("PATH", dir.path())
        .env("RUSTC", rustc)
        .env_remove("TOLLGATE_QEMU")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("qemu-system-x86_64") && said.contains("./setup.sh") && said.lines().count() == 1,
        "{said}"
    );
    // Where Debian's toolchain is installed, it is found beside PATH.
    assert!(
        said.contains("x86_64-unknown-none") || Path::new("/usr/lib/rustlib/src/rust").exists(),
        "{said}"
    );
}
