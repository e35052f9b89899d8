//! The buffers of a call, one behind the other, as one stretch of bytes.

use crate::arch::usercopy;
use crate::fs::file::UserBuffer;
use crate::syscall::errno::Result;
use alloc::vec::Vec;

/// See the module.
#[derive(Default)]
pub struct Buffers {
    list: Vec<UserBuffer>,
    length: usize,
}

impl Buffers {
    /// One buffer.
    pub fn one(buffer: UserBuffer) -> Result<Buffers> {
        let mut buffers = Buffers::default();
        buffers.push(buffer)?;
        Ok(buffers)
    }

    /// Adds a buffer at the end.
    pub fn push(&mut self, buffer: UserBuffer) -> Result<()> {
        self.list.try_reserve(1)?;
        self.list.push(buffer);
        self.length += buffer.length;
        Ok(())
    }

    /// Bytes in all of them.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Runs `f` on the addresses and ranges that `length` bytes from `at` on consist of.
    fn each(
        &self,
        mut at: usize,
        length: usize,
        mut f: impl FnMut(u64, core::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        for buffer in &self.list {
            if at >= buffer.length {
                at -= buffer.length;
                continue;
            }
            let count = (buffer.length - at).min(length - done);
            f(buffer.address + at as u64, done..done + count)?;
            done += count;
            at = 0;
            if done == length {
                break;
            }
        }
        Ok(())
    }

    /// Puts bytes at `at`. EFAULT.
    pub fn write_at(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.each(at, bytes.len(), |address, range| {
            Ok(usercopy::copy_to_user(address, &bytes[range])?)
        })
    }
}
