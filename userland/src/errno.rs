//! Error numbers, as the kernel returns them (errno(3)).

use core::fmt;

/// An error number. Displayed by its name where the programs here can meet it, else as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub u16);

impl Errno {
    /// No such file or directory.
    pub const ENOENT: Errno = Errno(2);
    /// Interrupted by a signal handler.
    pub const EINTR: Errno = Errno(4);

    fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "EPERM",
            2 => "ENOENT",
            4 => "EINTR",
            9 => "EBADF",
            11 => "EAGAIN",
            12 => "ENOMEM",
            13 => "EACCES",
            14 => "EFAULT",
            17 => "EEXIST",
            22 => "EINVAL",
            24 => "EMFILE",
            28 => "ENOSPC",
            38 => "ENOSYS",
            90 => "EMSGSIZE",
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "errno {}", self.0),
        }
    }
}
