//! Child processes: read without blocking the reader, ended with their owner, and never waited for longer than is right.
//!
//! An interrupt (Ctrl-C) is a flag that every waiting loop looks at: each ends its child and returns an error, so that
//! destructors run and temporary files go.

use crate::failure::{Failed, INTERRUPTED};
use anyhow::{Context, Result, anyhow, ensure};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

static INTERRUPT: AtomicBool = AtomicBool::new(false);

/// Ends every boot under way and prevents new ones: for a signal handler.
pub fn interrupt() {
    INTERRUPT.store(true, Ordering::SeqCst);
}

/// Whether [`interrupt`] was called.
pub fn interrupted() -> bool {
    INTERRUPT.load(Ordering::SeqCst)
}

/// The failure of an interrupted run.
pub fn interrupted_error() -> anyhow::Error {
    Failed {
        line: "interrupted".into(),
        detail: Vec::new(),
        status: INTERRUPTED,
    }
    .into()
}

/// A process under way; dropping it kills it.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where the process has ended and was waited for, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A thread that reads to the end of `from` and sends what it reads. It ends with the pipe, or when nobody listens.
pub(crate) fn pieces(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(64);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        loop {
            match from.read(&mut buffer) {
                Ok(read) if read > 0 => {
                    if sender.send(buffer[..read].to_vec()).is_err() {
                        break;
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    });
    receiver
}

/// Takes what is left to read after the process has ended.
pub(crate) fn drain(from: &Receiver<Vec<u8>>, mut take: impl FnMut(&[u8])) {
    let until = Instant::now() + Duration::from_millis(500);
    while let Ok(piece) = from.recv_timeout(until.saturating_duration_since(Instant::now())) {
        take(&piece);
    }
}

/// Why QEMU cannot be started, with the remedy.
pub fn spawn_error(qemu: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = qemu.display();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            anyhow!(
                "{shown}: not found: install QEMU by ./setup.sh (Debian's package qemu-system-x86), or give --qemu PATH"
            )
        }
        _ => anyhow!("{shown}: cannot be run ({error}): give another by --qemu PATH"),
    }
}

/// Runs a short command for what it prints, with a limit of ten seconds. Errors: it cannot run, hangs, or fails.
pub fn ask(command: &mut Command) -> Result<String> {
    ask_within(command, Duration::from_secs(10))
}

/// The same with another limit.
pub fn ask_within(command: &mut Command, limit: Duration) -> Result<String> {
    let name = Path::new(command.get_program()).display().to_string();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running(command.spawn().map_err(|e| spawn_error(Path::new(&name), &e))?);
    let stdout = pieces(running.0.stdout.take().context("its output")?);
    let stderr = pieces(running.0.stderr.take().context("its messages")?);
    let started = Instant::now();
    let (mut output, mut complaints) = (Vec::new(), Vec::new());
    let status = loop {
        if let Some(status) = running.0.try_wait().with_context(|| format!("waiting for {name}"))? {
            break status;
        }
        if interrupted() {
            return Err(interrupted_error());
        }
        ensure!(
            started.elapsed() < limit,
            "{name}: gave no answer within {} seconds",
            limit.as_secs()
        );
        match stdout.recv_timeout(Duration::from_millis(1)) {
            Ok(piece) => output.extend(piece),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_micros(200)),
        }
    };
    drain(&stdout, |piece| output.extend_from_slice(piece));
    drain(&stderr, |piece| complaints.extend_from_slice(piece));
    ensure!(
        status.success(),
        "{name}: failed ({status}): {}",
        String::from_utf8_lossy(&complaints).trim()
    );
    Ok(String::from_utf8_lossy(&output).into_owned())
}
