//! Arguments of system calls. An address that a program gives is a claim: nothing here believes it.

use super::errno::{Errno, Result};
use crate::arch::usercopy::{self, Fault};
use crate::mm::plain::{self, Plain};
use alloc::vec::Vec;
use core::marker::PhantomData;

impl From<Fault> for Errno {
    #[inline(always)]
    fn from(_: Fault) -> Errno {
        Errno::EFAULT
    }
}

/// The address of a `T` (or of several) in the program, by its claim. Zero is 'none'.
pub struct UserPtr<T> {
    address: u64,
    _of: PhantomData<T>,
}

impl<T> Clone for UserPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for UserPtr<T> {}

impl<T> UserPtr<T> {
    /// The claim that a `T` is at `address`.
    #[inline(always)]
    pub const fn new(address: u64) -> Self {
        UserPtr {
            address,
            _of: PhantomData,
        }
    }
    /// As a number.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.address
    }
    /// Whether the program gave no address.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.address == 0
    }
    /// `None` for the null address.
    #[inline(always)]
    pub fn optional(self) -> Option<Self> {
        (self.address != 0).then_some(self)
    }
}

impl<T: Plain> UserPtr<T> {
    /// Reads the value. EFAULT where it is not readable.
    #[inline]
    pub fn read(self) -> Result<T> {
        Ok(plain::read_user(self.address)?)
    }
    /// Writes the value. EFAULT where it is not writable.
    #[inline]
    pub fn write(self, value: &T) -> Result<()> {
        Ok(plain::write_user(self.address, value)?)
    }
    /// The claim for element `index` of an array.
    pub fn at(self, index: usize) -> Self {
        UserPtr::new(
            self.address
                .wrapping_add((index as u64).wrapping_mul(size_of::<T>() as u64)),
        )
    }
}

impl UserPtr<u8> {
    /// Reads a string of fewer than `limit` bytes, its zero not among them.
    ///
    /// `too_long` where no zero comes within `limit` bytes; EFAULT where memory ends before.
    pub fn read_string(self, limit: usize, too_long: Errno) -> Result<Vec<u8>> {
        let mut string = Vec::new();
        string.try_reserve_exact(limit)?;
        string.resize(limit, 0);
        let length = usercopy::strncpy_from_user(&mut string, self.address)?.ok_or(too_long)?;
        string.truncate(length);
        Ok(string)
    }

    /// Reads a path. ENAMETOOLONG from PATH_MAX bytes on, ENOENT for the empty one where `empty` is not allowed.
    pub fn read_path(self, empty_allowed: bool) -> Result<Vec<u8>> {
        let path = self.read_string(4096, Errno::ENAMETOOLONG)?;
        if path.is_empty() && !empty_allowed {
            return Err(Errno::ENOENT);
        }
        Ok(path)
    }
}

/// What a register can hold as an argument.
pub trait Argument {
    /// The argument in a register; what is above its width is not looked at, as on Linux.
    fn from_register(value: u64) -> Self;
}

macro_rules! arguments {
    ($($type:ty)*) => {
        $(impl Argument for $type {
            #[inline(always)]
            fn from_register(value: u64) -> Self {
                value as $type
            }
        })*
    };
}
arguments!(i32 u32 i64 u64 usize);

impl<T> Argument for UserPtr<T> {
    #[inline(always)]
    fn from_register(value: u64) -> Self {
        UserPtr::new(value)
    }
}

/// What a call's body may return.
pub trait Return {
    /// As rax.
    fn to_register(self) -> i64;
}

macro_rules! returns {
    ($($type:ty)*) => {
        $(impl Return for Result<$type> {
            #[inline(always)]
            fn to_register(self) -> i64 {
                match self {
                    Ok(value) => value as i64,
                    Err(errno) => errno.to_return(),
                }
            }
        }
        impl Return for $type {
            #[inline(always)]
            fn to_register(self) -> i64 {
                self as i64
            }
        })*
    };
}
returns!(i32 u32 i64 usize);

impl Return for Result<()> {
    #[inline(always)]
    fn to_register(self) -> i64 {
        match self {
            Ok(()) => 0,
            Err(errno) => errno.to_return(),
        }
    }
}

impl Return for Result<core::convert::Infallible> {
    fn to_register(self) -> i64 {
        match self {
            Ok(never) => match never {},
            Err(errno) => errno.to_return(),
        }
    }
}
