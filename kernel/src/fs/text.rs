//! Text that the kernel makes for a file: grows as it is written, and says so when memory ends.

use crate::syscall::errno::{Errno, Result};
use alloc::vec::Vec;
use core::fmt;

/// See the module.
#[derive(Default)]
pub struct Text {
    bytes: Vec<u8>,
    failed: bool,
}

impl Text {
    /// Adds formatted text; what does not fit is told at the [end](Text::finish).
    pub fn put(&mut self, text: fmt::Arguments) {
        _ = fmt::Write::write_fmt(self, text);
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.bytes.try_reserve(bytes.len()).is_ok() {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.failed = true;
        }
    }

    /// All of it. ENOMEM.
    pub fn finish(self) -> Result<Vec<u8>> {
        if self.failed {
            Err(Errno::ENOMEM)
        } else {
            Ok(self.bytes)
        }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// Adds a line or part of one to a [`Text`].
#[macro_export]
macro_rules! put {
    ($text:expr, $($argument:tt)*) => { $text.put(format_args!($($argument)*)) };
}

/// A copy of bytes. ENOMEM.
pub fn copied(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}
