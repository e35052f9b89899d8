//! What a program finds above its first stack pointer: arguments, environment, auxiliary vector.
//!
//! The layout is Linux's on x86-64 (System V ABI, "Initial Stack and Register State"), from low addresses to high:
//! argument count; pointers to the arguments, 0; pointers to the environment, 0; pairs of the auxiliary vector, ended by
//! AT_NULL; sixteen random bytes and the platform's name; the strings; the program's path; eight zero bytes.

use super::elf::{HEADER_SIZE, Program};
use crate::arch::layout::PAGE_SIZE as PAGE;
use crate::arch::{features, tsc, usercopy};
use crate::fs::device;
use crate::mm::address_space::STACK_TOP;
use crate::syscall::errno::{Errno, Result};
use crate::task::credentials::Credentials;
use alloc::vec::Vec;
use linux_raw_sys::auxvec;

/// The longest string (`MAX_ARG_STRLEN`).
const MAX_STRING: usize = 32 * PAGE as usize;
/// All strings together, whatever the stack's limit (three quarters of Linux's default stack).
const MAX_STRINGS: u64 = 6 << 20;
/// The key of this kernel's own entry: the time-stamp counter's frequency in kHz.
pub const AT_TOLLGATE_TSC_KHZ: u64 = 0x544b_4854;
const PLATFORM: &[u8] = b"x86_64\0";

/// A list of strings, each with its zero.
#[derive(Default)]
pub struct Strings {
    bytes: Vec<u8>,
    count: usize,
}

impl Strings {
    /// Adds a string. E2BIG for one that is too long, ENOMEM.
    pub fn push(&mut self, string: &[u8]) -> Result<()> {
        if string.len() >= MAX_STRING || (self.bytes.len() + string.len()) as u64 >= MAX_STRINGS {
            return Err(Errno::E2BIG);
        }
        self.bytes.try_reserve(string.len() + 1)?;
        self.bytes.extend_from_slice(string);
        self.bytes.push(0);
        self.count += 1;
        Ok(())
    }

    /// Adds a string of the running program. EFAULT besides.
    pub fn push_from_user(&mut self, address: u64) -> Result<()> {
        let start = self.bytes.len();
        let mut part = [0; 256];
        for at in (address..).step_by(part.len()) {
            let found = usercopy::strncpy_from_user(&mut part, at)?;
            let length = found.map_or(part.len(), |length| length + 1);
            if self.bytes.len() - start + length > MAX_STRING || (self.bytes.len() + length) as u64 > MAX_STRINGS {
                return Err(Errno::E2BIG);
            }
            self.bytes.try_reserve(length)?;
            self.bytes.extend_from_slice(&part[..length]);
            if found.is_some() {
                break;
            }
        }
        self.count += 1;
        Ok(())
    }

    /// All but the first one.
    pub fn rest(&self) -> impl Iterator<Item = &[u8]> {
        let strings = self.bytes.strip_suffix(b"\0").unwrap_or(&self.bytes);
        strings.split(|&byte| byte == 0).take(self.count).skip(1)
    }

    /// The first one.
    pub fn first(&self) -> Option<&[u8]> {
        (self.count > 0).then(|| self.bytes.split(|&byte| byte == 0).next().unwrap_or_default())
    }

    /// All of them, each with its zero.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where each begins, if the first is at `address`.
    fn addresses(&self, address: u64) -> impl Iterator<Item = u64> + '_ {
        let starts = core::iter::once(0).chain(
            self.bytes
                .iter()
                .enumerate()
                .filter(|(_, b)| **b == 0)
                .map(|(i, _)| i + 1),
        );
        starts.take(self.count).map(move |start| address + start as u64)
    }
}

/// The bytes at the top of a new stack.
pub struct Image {
    bytes: Vec<u8>,
    /// The first stack pointer: address of the first byte.
    pub pointer: u64,
}

impl Image {
    /// Lays everything out. E2BIG where the strings take more than a quarter of the stack's limit, ENOMEM.
    pub fn new(
        path: &[u8],
        arguments: &Strings,
        environment: &Strings,
        program: &Program,
        credentials: &Credentials,
        stack_limit: u64,
    ) -> Result<Image> {
        let path_at = STACK_TOP - 8 - (path.len() as u64 + 1);
        let environment_at = path_at - environment.bytes.len() as u64;
        let arguments_at = environment_at - arguments.bytes.len() as u64;
        let pointers = (arguments.count + environment.count) as u64 * 8;
        if STACK_TOP - arguments_at + pointers > MAX_STRINGS.min(stack_limit / 4).max(32 * PAGE) {
            return Err(Errno::E2BIG);
        }
        let platform_at = (arguments_at & !15) - PLATFORM.len() as u64;
        let random_at = platform_at - 16;
        let mut random = [0; 16];
        device::fill_random(&mut random);
        let vector = [
            (auxvec::AT_HWCAP.into(), features::cpuid_edx().into()),
            (auxvec::AT_PAGESZ.into(), PAGE),
            (auxvec::AT_CLKTCK.into(), crate::syscall::CLOCK_TICKS),
            (auxvec::AT_PHDR.into(), program.headers.0),
            (auxvec::AT_PHENT.into(), HEADER_SIZE),
            (auxvec::AT_PHNUM.into(), program.headers.1 as u64),
            (auxvec::AT_BASE.into(), 0),
            (auxvec::AT_FLAGS.into(), 0),
            (auxvec::AT_ENTRY.into(), program.entry),
            (auxvec::AT_UID.into(), credentials.uid.into()),
            (auxvec::AT_EUID.into(), credentials.euid.into()),
            (auxvec::AT_GID.into(), credentials.gid.into()),
            (auxvec::AT_EGID.into(), credentials.egid.into()),
            (auxvec::AT_SECURE.into(), 0),
            (auxvec::AT_RANDOM.into(), random_at),
            (auxvec::AT_HWCAP2.into(), 0),
            (auxvec::AT_EXECFN.into(), path_at),
            (auxvec::AT_PLATFORM.into(), platform_at),
            (auxvec::AT_MINSIGSTKSZ.into(), signal_frame_size()),
            (AT_TOLLGATE_TSC_KHZ, tsc::khz()),
            (auxvec::AT_NULL.into(), 0),
        ];
        let words = 1 + arguments.count + 1 + environment.count + 1 + 2 * vector.len();
        let pointer = (random_at - 8 * words as u64) & !15;

        let mut bytes = Vec::new();
        bytes.try_reserve_exact((STACK_TOP - pointer) as usize)?;
        let mut put = |at: u64, part: &[u8]| {
            // The gaps are alignment.
            bytes.resize((at - pointer) as usize, 0);
            bytes.extend_from_slice(part);
        };
        let head = core::iter::once(arguments.count as u64)
            .chain(arguments.addresses(arguments_at))
            .chain([0])
            .chain(environment.addresses(environment_at))
            .chain([0])
            .chain(vector.into_iter().flat_map(|(key, value)| [key, value]));
        for (index, word) in head.enumerate() {
            put(pointer + 8 * index as u64, &word.to_le_bytes());
        }
        put(random_at, &random);
        put(platform_at, PLATFORM);
        put(arguments_at, &arguments.bytes);
        put(environment_at, &environment.bytes);
        put(path_at, path);
        put(STACK_TOP - 9, &[0; 9]);
        Ok(Image { bytes, pointer })
    }

    /// Copies it to the running program's stack.
    pub fn write(&self) -> core::result::Result<(), usercopy::Fault> {
        usercopy::copy_to_user(self.pointer, &self.bytes)
    }
}

/// Bytes of a signal's frame on the stack: the FPU state, and what Linux puts around it.
fn signal_frame_size() -> u64 {
    const AROUND: u64 = 8 + 304 + 128 + 64 + 64;
    (features::get().fpu_area as u64 + 4 + AROUND).next_multiple_of(16)
}
