//! Error numbers of Linux on x86-64 (errno(3)).

use core::fmt;
use linux_raw_sys::errno as numbers;

/// Why a call failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(u16);

/// What a system call's body returns.
pub type Result<T> = core::result::Result<T, Errno>;

macro_rules! errors {
    ($($name:ident)*) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "`, errno(3).")]
            #[allow(dead_code, reason = "the set is Linux's")]
            pub const $name: Errno = Errno(numbers::$name as u16);)*
        }

        impl fmt::Debug for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Errno::$name => f.write_str(stringify!($name)),)*
                    Errno(number) => write!(f, "error {number}"),
                }
            }
        }
    };
}
errors! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV
    ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE ERANGE EDEADLK
    ENAMETOOLONG ENOSYS ENOTEMPTY ELOOP EOVERFLOW EMSGSIZE EOPNOTSUPP ETIMEDOUT ENOTSOCK
    EAFNOSUPPORT ENODATA ENOMSG EIDRM
    EPROTONOSUPPORT ESOCKTNOSUPPORT
}

/// What an interrupted call returns: seen to before ring 3, never shown to a program (Linux: include/linux/errno.h).
impl Errno {
    /// Begun again, or EINTR where a handler without `SA_RESTART` has run.
    pub const ERESTARTSYS: Errno = Errno(512);
    /// Begun again always.
    pub const ERESTARTNOINTR: Errno = Errno(513);
    /// Begun again, or EINTR where any handler has run.
    pub const ERESTARTNOHAND: Errno = Errno(514);
    /// Gone on with by restart_syscall(2), or EINTR where any handler has run.
    pub const ERESTART_RESTARTBLOCK: Errno = Errno(516);

    /// The error that a result in rax is.
    pub fn of_return(value: i64) -> Option<Errno> {
        (-4095..0).contains(&value).then_some(Errno(-value as u16))
    }
}

impl Errno {
    /// The error with this number, as another part of the kernel gives it.
    pub const fn from_number(number: u16) -> Errno {
        Errno(number)
    }

    /// As a call's result in rax: the number, negated.
    #[inline(always)]
    pub const fn to_return(self) -> i64 {
        -(self.0 as i64)
    }
}

impl From<crate::mm::shared::OutOfMemory> for Errno {
    fn from(_: crate::mm::shared::OutOfMemory) -> Errno {
        Errno::ENOMEM
    }
}

impl From<alloc::collections::TryReserveError> for Errno {
    fn from(_: alloc::collections::TryReserveError) -> Errno {
        Errno::ENOMEM
    }
}
