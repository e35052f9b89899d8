//! The kernel's log, and the control lines that the host reads.
//!
//! With `log=com2` on the command line both go to COM2 and COM1 belongs to programs, byte by byte. Without, everything
//! goes to COM1 with carriage returns, for a person at a terminal.
//!
//! A control line begins with `tollgate: ` and stands on a line of its own ([`control!`](crate::control)).
//!
//! Lock order: [`LINE`] (rank 100), then the port's (105). [`failure`] takes none.

use crate::arch::{serial, tsc};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use cpu::IrqLock;
use log::{LevelFilter, Log, Metadata, Record};

/// Keeps lines whole.
static LINE: IrqLock<()> = IrqLock::new(100, ());
/// Whether the log has COM2 to itself.
static ON_COM2: AtomicBool = AtomicBool::new(false);
static LOGGER: Logger = Logger;

/// Opens the ports and makes `log`'s macros work. `com2`: whether the log has a port of its own.
pub fn init(com2: bool) {
    serial::CONSOLE.init();
    // Without a second port the log would be lost: then it shares the first.
    ON_COM2.store(com2 && serial::LOG.init(), Ordering::Relaxed);
    // Only a second call could fail.
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Whether the console belongs to programs alone: then their bytes go out as they are.
pub fn console_is_raw() -> bool {
    ON_COM2.load(Ordering::Relaxed)
}

/// Sends a program's output to the console: as it is, or with carriage returns where the log shares the port.
pub fn console(bytes: &[u8]) {
    if console_is_raw() {
        serial::CONSOLE.write(bytes);
    } else {
        with_returns(bytes, &mut |part| serial::CONSOLE.write(part));
    }
}

/// Writes a control line for the host: `tollgate: ` and what follows, without a newline.
#[macro_export]
macro_rules! control {
    ($($argument:tt)*) => {
        $crate::log::line(format_args!("tollgate: {}", format_args!($($argument)*)))
    };
}

/// Writes one line to the log.
pub fn line(text: fmt::Arguments) {
    let _whole = LINE.lock();
    let mut send: &mut dyn FnMut(&[u8]) = if console_is_raw() {
        &mut |bytes| serial::LOG.write(bytes)
    } else {
        &mut |bytes| with_returns(bytes, &mut |part| serial::CONSOLE.write(part))
    };
    // A formatting implementation that fails has its line cut short; the port itself cannot fail.
    let _ = Sender(&mut send).write_fmt(format_args!("{text}\n"));
}

/// Writes to the log without any lock, for the report of a failure.
pub fn failure(text: fmt::Arguments) {
    let com2 = console_is_raw();
    let port = if com2 { &serial::LOG } else { &serial::CONSOLE };
    if let Some(mut send) = port.regardless() {
        let mut send = |bytes: &[u8]| match com2 {
            true => send(bytes),
            false => with_returns(bytes, &mut send),
        };
        let _ = Sender(&mut send).write_fmt(format_args!("{text}\n"));
    }
}

/// Sends `bytes` with a carriage return before each newline.
fn with_returns(bytes: &[u8], send: &mut dyn FnMut(&[u8])) {
    for part in bytes.split_inclusive(|&byte| byte == b'\n') {
        match part.strip_suffix(b"\n") {
            Some(line) => {
                send(line);
                send(b"\r\n");
            }
            None => send(part),
        }
    }
}

/// Formats into a function.
struct Sender<'a, F: FnMut(&[u8]) + ?Sized>(&'a mut F);

impl<F: FnMut(&[u8]) + ?Sized> Write for Sender<'_, F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        (self.0)(text.as_bytes());
        Ok(())
    }
}

struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            let us = tsc::now_ns() / 1000;
            line(format_args!(
                "[{:5}.{:06}] {:5} {}",
                us / 1_000_000,
                us % 1_000_000,
                record.level(),
                record.args()
            ));
        }
    }

    fn flush(&self) {}
}
