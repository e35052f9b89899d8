//! Formatted text to the standard output and the standard error.
//!
//! A `println!` gathers its text in a buffer on the stack and writes it in as few calls as it fits in: on Tollgate a
//! write goes to the serial line, and a call for each fragment of a format string would be most of the output's cost.

use core::fmt::{self, Write};

use crate::errno::Errno;
use crate::syscall::{Descriptor, write};

/// Standard output.
pub const OUT: Descriptor = Descriptor(1);
/// Standard error.
pub const ERR: Descriptor = Descriptor(2);

/// Prints a line to the standard output. Panics where that fails: a result that nobody can read is no result.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => {
        if let Err(error) = $crate::print::line($crate::print::OUT, format_args!($($text)*)) {
            panic!("standard output: {error}");
        }
    };
}

/// Prints a line to the standard error. Where that fails there is nobody left to tell.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => {{
        let _ = $crate::print::line($crate::print::ERR, format_args!($($text)*));
    }};
}

/// Writes `text` and a line's end to `to`.
pub fn line(to: Descriptor, text: fmt::Arguments<'_>) -> Result<(), Errno> {
    let mut out = Buffered {
        to,
        bytes: [0; 512],
        used: 0,
        failed: None,
    };
    // The formatter's own error carries nothing: `failed` has the reason.
    let _ = out.write_fmt(text).and_then(|()| out.write_char('\n'));
    out.flush();
    out.failed.map_or(Ok(()), Err)
}

struct Buffered {
    to: Descriptor,
    bytes: [u8; 512],
    used: usize,
    failed: Option<Errno>,
}

impl Buffered {
    fn flush(&mut self) {
        let mut rest = &self.bytes[..self.used];
        while self.failed.is_none() && !rest.is_empty() {
            match write(self.to, rest) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::EINTR) => {}
                Err(error) => self.failed = Some(error),
            }
        }
        self.used = 0;
    }
}

impl Write for Buffered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.as_bytes().chunks(self.bytes.len()) {
            if part.len() > self.bytes.len() - self.used {
                self.flush();
            }
            self.bytes[self.used..][..part.len()].copy_from_slice(part);
            self.used += part.len();
        }
        if self.failed.is_some() { Err(fmt::Error) } else { Ok(()) }
    }
}
