//! System calls on files: descriptors, contents, names, waiting.

mod descriptors;
mod io;
mod mounts;
mod names;
mod poll;
mod select;
mod status;

pub(super) use descriptors::*;
pub(super) use io::*;
pub(super) use mounts::*;
pub(super) use names::*;
pub(super) use poll::*;
pub(super) use select::*;
pub(super) use status::*;

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::fs::file::File;
use crate::fs::files::lookup;
use crate::fs::mount::Place;
use crate::fs::path::Walker;
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use linux_raw_sys::general;

/// Runs `f` on the file of a descriptor.
#[inline(always)]
fn with_file<R>(descriptor: i32, f: impl FnOnce(&File) -> Result<R>) -> Result<R> {
    let current = Current::get();
    let file = lookup(&current.own().files, descriptor)?;
    f(&file)
}

/// The open file of a descriptor, for what outlives the table's borrow: a call that sleeps or closes.
pub(in crate::syscall) fn shared_file(descriptor: i32) -> Result<Shared<File>> {
    let current = Current::get();
    let files = current.own().files.borrow();
    Ok(files.get(descriptor)?.clone())
}

/// Opens `file` at the lowest free descriptor from `lowest` on.
pub(in crate::syscall) fn install(
    current: &Current,
    file: Shared<File>,
    lowest: usize,
    close_on_exec: bool,
) -> Result<i32> {
    let limit = current.process.limit(general::RLIMIT_NOFILE);
    let mut files = current.own().files.borrow_mut();
    files.insert(file, lowest, limit, close_on_exec)
}

/// The walker for a path that begins, if it is relative, at directory descriptor `directory`. EBADF, ENOTDIR.
fn walker_at(directory: i32, path: &[u8]) -> Result<Walker> {
    let current = Current::get();
    let mut walker = Walker::of(&current)?;
    if path.first() != Some(&b'/') && directory != general::AT_FDCWD {
        let place = with_file(directory, |file| file.place.clone().ok_or(Errno::ENOTDIR))?;
        if !path.is_empty() && !place.node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        walker.base = place;
    }
    Ok(walker)
}

/// What a path argument of the *at() calls stands for: also the descriptor itself where `AT_EMPTY_PATH` is in `flags`.
fn place_at(directory: i32, path: UserPtr<u8>, flags: u32) -> Result<(Walker, Place)> {
    let empty_allowed = flags & general::AT_EMPTY_PATH != 0;
    let path = if empty_allowed && path.is_null() {
        alloc::vec::Vec::new()
    } else {
        path.read_path(empty_allowed)?
    };
    let walker = walker_at(directory, &path)?;
    if path.is_empty() {
        let place = walker.base.clone();
        return Ok((walker, place));
    }
    let place = walker.find(&path, flags & general::AT_SYMLINK_NOFOLLOW == 0)?;
    Ok((walker, place))
}
