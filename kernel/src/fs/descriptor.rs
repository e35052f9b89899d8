//! A program's table of open files.
//!
//! [`Descriptors`] is the table itself; how tasks have it, alone or together, is in [`super::files`].

use super::file::File;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use alloc::vec::Vec;

/// The most descriptors of a program (`fs.nr_open`).
pub const MAX: u64 = 1 << 20;

/// An open descriptor: the file and the descriptor's own flag. Dropping it closes it.
pub struct Slot {
    file: Shared<File>,
    close_on_exec: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.file.descriptor_closed();
    }
}

/// The table. The default is an empty one.
#[derive(Default)]
pub struct Descriptors {
    slots: Vec<Option<Slot>>,
    /// Every descriptor below is in use.
    first_free: usize,
}

impl Descriptors {
    /// A table without files.
    pub const fn new() -> Descriptors {
        Descriptors {
            slots: Vec::new(),
            first_free: 0,
        }
    }

    /// A copy for a child: its own table of the same open files.
    pub fn try_clone(&self) -> Result<Descriptors> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(self.slots.len())?;
        slots.extend(self.slots.iter().map(|slot| {
            slot.as_ref().map(|slot| Slot {
                file: slot.file.clone(),
                close_on_exec: slot.close_on_exec,
            })
        }));
        Ok(Descriptors {
            slots,
            first_free: self.first_free,
        })
    }

    /// The file of a descriptor. EBADF if it is not open.
    #[inline(always)]
    pub fn get(&self, descriptor: i32) -> Result<&Shared<File>> {
        match self.slots.get(descriptor as u32 as usize) {
            Some(Some(slot)) => Ok(&slot.file),
            _ => Err(Errno::EBADF),
        }
    }

    /// Opens `file` at the lowest free descriptor from `lowest` on. EMFILE where that is not below `limit`
    /// (`RLIMIT_NOFILE`), EINVAL where `lowest` is not.
    pub fn insert(&mut self, file: Shared<File>, lowest: usize, limit: u64, close_on_exec: bool) -> Result<i32> {
        let limit = limit.min(MAX) as usize;
        let from = lowest.max(self.first_free);
        let at = (from..self.slots.len())
            .find(|&at| self.slots[at].is_none())
            .unwrap_or(from.max(self.slots.len()));
        if at >= limit {
            return Err(Errno::EMFILE);
        }
        self.set(at, file, close_on_exec)?;
        if lowest <= self.first_free {
            self.first_free = at + 1;
        }
        Ok(at as i32)
    }

    /// Opens `file` at `at`, in place of what is there, which is given back to be closed.
    pub fn replace(&mut self, at: usize, file: Shared<File>, close_on_exec: bool) -> Result<Option<Slot>> {
        let before = self.slots.get_mut(at).and_then(Option::take);
        // Room first: where it lacks there was nothing at `at`.
        self.set(at, file, close_on_exec)?;
        Ok(before)
    }

    /// Whether a descriptor below `limit` is free. EMFILE.
    pub fn check_free(&self, limit: u64) -> Result<()> {
        let free = (self.first_free..self.slots.len()).find(|&at| self.slots[at].is_none());
        if free.unwrap_or(self.slots.len().max(self.first_free)) as u64 >= limit.min(MAX) {
            return Err(Errno::EMFILE);
        }
        Ok(())
    }

    fn set(&mut self, at: usize, file: Shared<File>, close_on_exec: bool) -> Result<()> {
        if at >= self.slots.len() {
            let more = at + 1 - self.slots.len();
            self.slots.try_reserve(more)?;
            self.slots.resize_with(at + 1, || None);
        }
        self.slots[at] = Some(Slot { file, close_on_exec });
        Ok(())
    }

    /// Takes a descriptor out, which is closed when dropped.
    pub fn remove(&mut self, descriptor: i32) -> Result<Slot> {
        let at = descriptor as u32 as usize;
        let slot = self.slots.get_mut(at).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.first_free = self.first_free.min(at);
        Ok(slot)
    }

    /// No descriptor from this one on is in use.
    pub fn end(&self) -> usize {
        self.slots.len()
    }

    /// The close-on-exec flag.
    pub fn close_on_exec(&mut self, descriptor: i32) -> Result<&mut bool> {
        match self.slots.get_mut(descriptor as u32 as usize) {
            Some(Some(slot)) => Ok(&mut slot.close_on_exec),
            _ => Err(Errno::EBADF),
        }
    }

    /// Takes out one descriptor that is to be closed by execve(2).
    pub fn remove_for_exec(&mut self) -> Option<Slot> {
        let at = self
            .slots
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|slot| slot.close_on_exec))?;
        self.remove(at as i32).ok()
    }
}
