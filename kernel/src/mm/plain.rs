//! Values that are nothing but their bytes, and their way across the border to user memory.

use crate::arch::usercopy::{self, Fault};
use core::mem::MaybeUninit;
use linux_raw_sys::general;

/// A type that may be copied to a program byte by byte, and made of any bytes that a program gives.
///
/// # Safety
/// Every pattern of bits is a value, and no byte is padding (padding would carry the kernel's old stack to the program).
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        // SAFETY: numbers, and structures of numbers of which each begins where the one before ends (sizes asserted).
        $(unsafe impl Plain for $type {})*
    };
}
plain!(
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    general::__kernel_timespec,
    general::rlimit64,
    general::pollfd,
    general::termios,
    general::winsize,
    general::stat,
    general::rusage,
);
// SAFETY: an array has no padding between its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

const _: () = {
    assert!(size_of::<general::__kernel_timespec>() == 16);
    assert!(size_of::<general::rlimit64>() == 16);
    assert!(size_of::<general::pollfd>() == 4 + 2 + 2);
    assert!(size_of::<general::termios>() == 4 * 4 + 1 + 19);
    assert!(size_of::<general::winsize>() == 4 * 2);
    assert!(size_of::<general::stat>() == 3 * 8 + 4 * 4 + 13 * 8);
    assert!(size_of::<general::rusage>() == 4 * 8 + 14 * 8);
};

/// Declares a structure of numbers that crosses the border, and proves that it has no padding.
#[macro_export]
macro_rules! user_struct {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        $vis struct $name { $($(#[$field_doc])* pub $field: $type,)* }
        const _: () = {
            assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
            const fn plain<T: $crate::mm::plain::Plain>() {}
            $(plain::<$type>();)*
        };
        $crate::mm::plain::declare!($name);
    };
}

/// The second half of [`user_struct`], which has checked the structure.
macro_rules! declare {
    ($name:ident) => {
        #[allow(
            unsafe_code,
            reason = "the macro is mm's, and user_struct checks what the trait asks for"
        )]
        // SAFETY: user_struct asserted that all fields are plain and that their sizes add up: no padding.
        unsafe impl $crate::mm::plain::Plain for $name {}
    };
}
pub(crate) use declare;

/// The bytes of a value.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a Plain value is size_of::<T>() initialised bytes.
    unsafe { core::slice::from_raw_parts((value as *const T).cast(), size_of::<T>()) }
}

/// Reads a value from the running program's memory.
#[inline]
pub fn read_user<T: Plain>(address: u64) -> Result<T, Fault> {
    if size_of::<T>() == size_of::<u64>() {
        let word = usercopy::load_user(address)?;
        // SAFETY: of the same size, and every pattern of bits is a T.
        return Ok(unsafe { core::mem::transmute_copy(&word) });
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: zeroed bytes are initialised, and the slice ends before the value is used.
    let bytes = unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    usercopy::copy_from_user(bytes, address)?;
    // SAFETY: every pattern of bits is a T.
    Ok(unsafe { value.assume_init() })
}

/// Writes a value to the running program's memory.
#[inline]
pub fn write_user<T: Plain>(address: u64, value: &T) -> Result<(), Fault> {
    if let Ok(word) = bytes_of(value).try_into() {
        return usercopy::store_user(address, u64::from_ne_bytes(word));
    }
    usercopy::copy_to_user(address, bytes_of(value))
}

/// The running program's memory from an address on, as what a message is filled from.
pub struct UserSource {
    address: u64,
}

impl UserSource {
    /// From `address` on, by the program's claim.
    #[inline(always)]
    pub fn new(address: u64) -> UserSource {
        UserSource { address }
    }
}

// SAFETY: Ok only after a copy of into.len() bytes.
unsafe impl slab::Source for UserSource {
    #[inline(always)]
    fn read(&mut self, into: &mut [MaybeUninit<u8>]) -> Result<(), slab::Fault> {
        usercopy::copy_from_user_uninit(into, self.address).map_err(|Fault| slab::Fault)?;
        self.address += into.len() as u64;
        Ok(())
    }
}

/// The running program's memory from an address on, as where a message goes.
pub struct UserSink {
    address: u64,
}

impl UserSink {
    /// From `address` on, by the program's claim.
    #[inline(always)]
    pub fn new(address: u64) -> UserSink {
        UserSink { address }
    }
}

impl slab::Sink for UserSink {
    #[inline(always)]
    fn write(&mut self, from: &[u8]) -> Result<(), slab::Fault> {
        usercopy::copy_to_user(self.address, from).map_err(|Fault| slab::Fault)?;
        self.address += from.len() as u64;
        Ok(())
    }
}
