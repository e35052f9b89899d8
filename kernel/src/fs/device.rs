//! The small devices, and random numbers.
//!
//! **Random numbers are not secret here.** The generator (xoshiro256**, by Blackman and Vigna) starts from a fixed seed,
//! so that the same run gives the same bytes: this kernel is an instrument, not a safe.

use super::file::{Object, UserBuffer};
use crate::arch::layout::PAGE_SIZE;
use crate::arch::usercopy;
use crate::syscall::errno::{Errno, Result};
use cpu::SpinLock;

/// The most bytes of one read or write (`MAX_RW_COUNT`).
pub const MAX_TRANSFER: usize = 0x7fff_f000;
/// Bytes made at a time.
const CHUNK: usize = 256;

/// The generator's state: the first digits of pi, as good as any.
static RANDOM: SpinLock<[u64; 4]> = SpinLock::new(
    19,
    [
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ],
);

/// A device that the kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// The terminal: /dev/console, and by other numbers /dev/tty and /dev/ttyS0.
    Console(u32, u32),
    /// /dev/null
    Null,
    /// /dev/zero
    Zero,
    /// /dev/full
    Full,
    /// /dev/random and /dev/urandom
    Random(u32),
    /// /dev/kmsg
    Kmsg,
}

impl Device {
    /// The device of a number, as mknod(2) gives it.
    pub fn by_number(number: (u32, u32)) -> Option<Device> {
        Some(match number {
            (1, 3) => Device::Null,
            (1, 5) => Device::Zero,
            (1, 7) => Device::Full,
            (1, minor @ (8 | 9)) => Device::Random(minor),
            (1, 11) => Device::Kmsg,
            (major @ 5, minor @ (0 | 1)) | (major @ 4, minor @ 64) => Device::Console(major, minor),
            _ => return None,
        })
    }

    /// Its major and minor number.
    pub fn number(self) -> (u32, u32) {
        match self {
            Device::Console(major, minor) => (major, minor),
            Device::Null => (1, 3),
            Device::Zero => (1, 5),
            Device::Full => (1, 7),
            Device::Random(minor) => (1, minor),
            Device::Kmsg => (1, 11),
        }
    }

    /// What opening it gives.
    pub fn open(self) -> Object {
        match self {
            Device::Console(..) => Object::Console,
            Device::Null => Object::Null,
            Device::Zero => Object::Zero,
            Device::Full => Object::Full,
            Device::Random(_) => Object::Random,
            Device::Kmsg => Object::Kmsg,
        }
    }
}

/// The most bytes of one line to /dev/kmsg.
const LOG_LINE: usize = 1024;

/// write(2) to /dev/kmsg: a line of the log. EINVAL for one that is too long.
pub fn log_line(buffer: UserBuffer) -> Result<usize> {
    let mut line = [0; LOG_LINE];
    let bytes = line.get_mut(..buffer.length).ok_or(Errno::EINVAL)?;
    usercopy::copy_from_user(bytes, buffer.address)?;
    log::info!("kmsg: {}", crate::task::table::printable(bytes.trim_ascii_end()));
    Ok(buffer.length)
}

/// Fills a slice with random bytes.
pub fn fill_random(bytes: &mut [u8]) {
    let mut state = RANDOM.lock();
    for chunk in bytes.chunks_mut(8) {
        let number = next(&mut state).to_le_bytes();
        chunk.copy_from_slice(&number[..chunk.len()]);
    }
}

fn next(state: &mut [u64; 4]) -> u64 {
    let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
    let shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = state[3].rotate_left(45);
    result
}

/// Bytes from `address` to the end of its page.
fn to_page_end(address: u64) -> usize {
    (PAGE_SIZE - address % PAGE_SIZE) as usize
}

/// Random bytes to the program.
pub fn random(buffer: UserBuffer) -> Result<usize> {
    let mut done = 0;
    while done < buffer.length {
        let mut chunk = [0; CHUNK];
        let at = buffer.address + done as u64;
        // Never over the end of a page: what a program gets is all that there is room for.
        let part = &mut chunk[..CHUNK.min(buffer.length - done).min(to_page_end(at))];
        fill_random(part);
        match usercopy::copy_to_user(at, part) {
            Ok(()) => done += part.len(),
            Err(_) if done > 0 => break,
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(done)
}

/// Zeros to the program.
pub fn zeros(buffer: UserBuffer) -> Result<usize> {
    if usercopy::clear_user(buffer.address, buffer.length).is_ok() {
        return Ok(buffer.length);
    }
    let mut done = 0;
    while done < buffer.length {
        let at = buffer.address + done as u64;
        let part = to_page_end(at).min(buffer.length - done);
        match usercopy::clear_user(at, part) {
            Ok(()) => done += part,
            Err(_) if done > 0 => break,
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(done)
}

/// The part of `data` from `at` on that fits, to the program.
pub fn copy_out(data: &[u8], buffer: UserBuffer, at: u64) -> Result<usize> {
    let rest = usize::try_from(at)
        .ok()
        .and_then(|at| data.get(at..))
        .unwrap_or_default();
    let part = &rest[..rest.len().min(buffer.length)];
    if part.is_empty() || usercopy::copy_to_user(buffer.address, part).is_ok() {
        return Ok(part.len());
    }
    let mut done = 0;
    while done < part.len() {
        let at = buffer.address + done as u64;
        let next = &part[done..part.len().min(done + to_page_end(at))];
        match usercopy::copy_to_user(at, next) {
            Ok(()) => done += next.len(),
            Err(_) if done > 0 => break,
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(done)
}

impl UserBuffer {
    /// As a call gives it. EFAULT where it is not in the user's half, whatever its length.
    pub fn checked(address: u64, length: usize) -> Result<UserBuffer> {
        let end = crate::arch::layout::USER_END;
        if address > end || length as u64 > end - address {
            return Err(Errno::EFAULT);
        }
        Ok(UserBuffer {
            address,
            length: length.min(MAX_TRANSFER),
        })
    }
}
