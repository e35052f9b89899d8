//! The bytes of a file in memory.
//!
//! Pages come when they are written; where there is none the file has the bytes of the boot loader's archive, as far as
//! they go, and zeros behind them. So a file of the archive costs nothing until it is changed.
//!
//! User memory is never touched under the lock: a copy holds its page by a reference. Writes of several tasks to one
//! place mix at the borders of pages, as on Linux without a lock on the inode's range.
//!
//! **Lock order.** Rank 24; the allocators under it.

use super::file::UserBuffer;
use super::node::FileSystem;
use crate::arch::usercopy;
use crate::mm::page::{PAGE, Page};
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use alloc::vec::Vec;
use cpu::SpinLock;

/// The largest file (`MAX_LFS_FILESIZE`).
pub const MAX_SIZE: u64 = i64::MAX as u64;

struct State {
    size: u64,
    /// Of the boot loader's archive. No longer than the file.
    archive: &'static [u8],
    /// By page number; there may be fewer than the file has.
    pages: Vec<Option<Shared<Page>>>,
    /// Those that are there.
    present: u64,
}

/// See the module.
pub struct Content(SpinLock<State>);

impl State {
    fn archive_from(&self, at: u64) -> &'static [u8] {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.archive.get(at..).unwrap_or_default()
    }

    /// The page of this number, made if it is not there.
    fn page(&mut self, number: usize, fs: &FileSystem) -> Result<Shared<Page>> {
        if let Some(Some(page)) = self.pages.get(number) {
            return Ok(page.clone());
        }
        if number >= self.pages.len() {
            let more = number + 1 - self.pages.len();
            self.pages.try_reserve(more).map_err(|_| Errno::ENOSPC)?;
            self.pages.resize_with(number + 1, || None);
        }
        fs.charge_page()?;
        let archive = self.archive_from((number * PAGE) as u64);
        match Page::try_new(&archive[..archive.len().min(PAGE)]) {
            Ok(page) => {
                self.pages[number] = Some(page.clone());
                self.present += 1;
                Ok(page)
            }
            Err(_) => {
                fs.uncharge_pages(1);
                Err(Errno::ENOMEM)
            }
        }
    }
}

/// What stands at a place of a file.
enum Piece {
    Page(Shared<Page>),
    Archive(&'static [u8]),
    Zeros,
}

/// The part of a buffer that lies in one page of the file and in one of the program: it is copied whole or not at all.
fn step(buffer: UserBuffer, done: usize, at: u64, left: usize) -> usize {
    let address = buffer.address + done as u64;
    let in_file = PAGE - at as usize % PAGE;
    let in_user = PAGE - address as usize % PAGE;
    left.min(in_file).min(in_user)
}

impl Content {
    /// With the bytes of the archive, or none.
    pub fn new(archive: &'static [u8]) -> Content {
        Content(SpinLock::new(
            24,
            State {
                size: archive.len() as u64,
                archive,
                pages: Vec::new(),
                present: 0,
            },
        ))
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.0.lock().size
    }

    /// Units of 512 bytes that it takes.
    pub fn blocks(&self) -> u64 {
        let state = self.0.lock();
        (state.present + state.archive.len().div_ceil(PAGE) as u64) * (PAGE / 512) as u64
    }

    /// All bytes, if nothing has been written since boot.
    pub fn unchanged(&self) -> Option<&'static [u8]> {
        let state = self.0.lock();
        let whole = state.present == 0 && state.size == state.archive.len() as u64;
        whole.then_some(state.archive)
    }

    fn piece(&self, at: u64) -> (Piece, u64) {
        let state = self.0.lock();
        let piece = match state.pages.get((at / PAGE as u64) as usize) {
            Some(Some(page)) => Piece::Page(page.clone()),
            _ => match state.archive_from(at) {
                [] => Piece::Zeros,
                bytes => Piece::Archive(bytes),
            },
        };
        (piece, state.size)
    }

    /// read(2) at a place.
    pub fn read(&self, buffer: UserBuffer, at: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.length {
            let here = at.saturating_add(done as u64);
            let (piece, size) = self.piece(here);
            let Some(rest) = size.checked_sub(here).filter(|&rest| rest > 0) else {
                break;
            };
            let left = (buffer.length - done).min(usize::try_from(rest).unwrap_or(usize::MAX));
            let mut length = step(buffer, done, here, left);
            let to = buffer.address + done as u64;
            let copied = match piece {
                Piece::Page(page) => page.copy_to_user(here as usize % PAGE, length, to),
                Piece::Archive(bytes) => {
                    length = length.min(bytes.len());
                    usercopy::copy_to_user(to, &bytes[..length])
                }
                Piece::Zeros => usercopy::clear_user(to, length),
            };
            match copied {
                Ok(()) => done += length,
                Err(_) if done > 0 => break,
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(done)
    }

    /// write(2) at a place (`None`: the end): where it began, and the number of bytes. EFBIG beyond the largest file,
    /// ENOSPC.
    pub fn write(&self, fs: &FileSystem, buffer: UserBuffer, at: Option<u64>) -> Result<(u64, usize)> {
        let start = {
            // What is appended has its place from the first moment: nobody else appends there.
            let mut state = self.0.lock();
            let start = at.unwrap_or(state.size);
            let end = start.checked_add(buffer.length as u64).filter(|&end| end <= MAX_SIZE);
            let end = end.ok_or(Errno::EFBIG)?;
            if at.is_none() {
                state.size = end;
            }
            start
        };
        let mut done = 0;
        let mut why = None;
        while done < buffer.length {
            let here = start + done as u64;
            let length = step(buffer, done, here, buffer.length - done);
            let page = usize::try_from(here / PAGE as u64).map_err(|_| Errno::EFBIG);
            let page = page.and_then(|number| self.0.lock().page(number, fs));
            let copied = page.and_then(|page| {
                page.copy_from_user(here as usize % PAGE, length, buffer.address + done as u64)
                    .map_err(Errno::from)
            });
            if let Err(errno) = copied {
                why = Some(errno);
                break;
            }
            done += length;
            let mut state = self.0.lock();
            state.size = state.size.max(here + length as u64);
        }
        if at.is_none() && done < buffer.length {
            let mut state = self.0.lock();
            if state.size == start + buffer.length as u64 {
                state.size = start + done as u64;
            }
        }
        match why {
            Some(errno) if done == 0 => Err(errno),
            _ => Ok((start, done)),
        }
    }

    /// ftruncate(2).
    pub fn resize(&self, fs: &FileSystem, size: u64) {
        let mut state = self.0.lock();
        let mut gone = Vec::new();
        if size < state.size {
            // A page that is cut keeps its beginning; one that is still the archive's keeps that by the shorter slice.
            let keep = usize::try_from(size).unwrap_or(usize::MAX);
            state.archive = &state.archive[..state.archive.len().min(keep)];
            let whole = size.div_ceil(PAGE as u64).min(state.pages.len() as u64) as usize;
            if !size.is_multiple_of(PAGE as u64)
                && let Some(Some(page)) = state.pages.get((size / PAGE as u64) as usize)
            {
                page.clear_from((size % PAGE as u64) as usize);
            }
            gone = if whole == 0 {
                core::mem::take(&mut state.pages)
            } else {
                // Freed under the lock where there is no memory to carry them out by.
                let mut out = Vec::new();
                if out.try_reserve_exact(state.pages.len() - whole).is_ok() {
                    out.extend(state.pages.drain(whole..));
                } else {
                    let freed = state.pages[whole..].iter().flatten().count() as u64;
                    state.pages.truncate(whole);
                    state.present -= freed;
                    fs.uncharge_pages(freed);
                }
                out
            };
            let freed = gone.iter().flatten().count() as u64;
            state.present -= freed;
            fs.uncharge_pages(freed);
        }
        state.size = size;
        drop(state);
        drop(gone);
    }

    /// fallocate(2): makes the pages of a range, and the file longer unless `keep_size`.
    pub fn allocate(&self, fs: &FileSystem, from: u64, to: u64, keep_size: bool) -> Result<()> {
        for number in from / PAGE as u64..to.div_ceil(PAGE as u64) {
            let number = usize::try_from(number).map_err(|_| Errno::EFBIG)?;
            self.0.lock().page(number, fs)?;
        }
        let mut state = self.0.lock();
        if !keep_size {
            state.size = state.size.max(to);
        }
        Ok(())
    }

    /// Frees all pages; how many there were.
    pub fn take_pages(&mut self) -> u64 {
        let state = self.0.get_mut();
        state.pages = Vec::new();
        core::mem::take(&mut state.present)
    }
}
