//! System calls on memory.

use super::errno::{Errno, Result};
use crate::arch::layout::{PAGE_SIZE as PAGE, USER_END};
use crate::arch::paging::Protection;
use crate::fs::file::Object;
use crate::fs::files::lookup;
use crate::mm::address_space::{Placement, Request, SpaceLimits, page_up, whole_pages};
use crate::mm::areas::{Backing, Purpose};
use crate::mm::fault::Access;
use crate::mm::page_object::PageObject;
use crate::mm::tasks::Current;
use linux_raw_sys::general;

/// `PROT_*` that a mapping may have.
const RIGHTS: u32 = general::PROT_READ | general::PROT_WRITE | general::PROT_EXEC;

fn protection(bits: u32) -> Protection {
    Protection::from_bits_truncate(bits as u8)
}

pub(super) fn mmap(address: u64, length: u64, rights: u32, flags: u32, descriptor: i32, offset: u64) -> Result<i64> {
    if !offset.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let current = Current::get();
    let anonymous = flags & general::MAP_ANONYMOUS != 0;
    let source = if anonymous {
        None
    } else {
        Some(lookup(&current.own().files, descriptor)?)
    };
    if length == 0 {
        return Err(Errno::EINVAL);
    }
    if anonymous && flags & general::MAP_HUGETLB != 0 {
        // There are no huge pages to be had.
        return Err(Errno::ENOMEM);
    }
    let kind = flags & general::MAP_TYPE;
    let backing = match source.as_deref() {
        None if kind != general::MAP_PRIVATE && kind != general::MAP_SHARED => return Err(Errno::EINVAL),
        None if kind == general::MAP_SHARED => shared_memory(length)?,
        None => Backing::Anonymous,
        Some(file) => {
            match kind {
                general::MAP_PRIVATE => {}
                general::MAP_SHARED | general::MAP_SHARED_VALIDATE => {
                    if rights & general::PROT_WRITE != 0 && !file.writable() {
                        return Err(Errno::EACCES);
                    }
                }
                _ => return Err(Errno::EINVAL),
            }
            if !file.readable() {
                return Err(Errno::EACCES);
            }
            match &file.object {
                Object::Zero if kind != general::MAP_PRIVATE => shared_memory(length)?,
                Object::Zero => Backing::Anonymous,
                Object::Regular(_) => {
                    let from = usize::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
                    let bytes = file.archive_bytes().ok_or(Errno::ENODEV)?;
                    Backing::Bytes {
                        data: bytes.get(from..).unwrap_or_default(),
                        base: 0,
                    }
                }
                _ => return Err(Errno::ENODEV),
            }
        }
    };
    let request = Request {
        address,
        length,
        protection: protection(rights & RIGHTS),
        placement: if flags & general::MAP_FIXED_NOREPLACE != 0 {
            Placement::FixedIfFree
        } else if flags & general::MAP_FIXED != 0 {
            Placement::Fixed
        } else {
            Placement::Anywhere
        },
        backing,
        purpose: if flags & general::MAP_GROWSDOWN != 0 {
            Purpose::Stack
        } else {
            Purpose::Mapping
        },
        unreserved: flags & general::MAP_NORESERVE != 0,
    };
    let space = current.space();
    let start = space.map(&request, &SpaceLimits::of(&current))?;
    if flags & (general::MAP_POPULATE | general::MAP_LOCKED) != 0 && flags & general::MAP_NONBLOCK == 0 {
        let access = if rights & general::PROT_WRITE != 0 {
            Access::Write
        } else {
            Access::Read
        };
        for page in (start..start + length).step_by(PAGE as usize) {
            // As far as memory goes: the mapping stands in any case.
            if space.fault(page, access, || SpaceLimits::of(&current)).is_err() {
                break;
            }
        }
    }
    Ok(start as i64)
}

/// Memory that children of fork(2) will share.
fn shared_memory(length: u64) -> Result<Backing> {
    let pages = page_up(length).ok_or(Errno::ENOMEM)? / PAGE;
    Ok(Backing::Object {
        object: PageObject::try_new(pages)?,
        base: 0,
    })
}

pub(super) fn munmap(address: u64, length: u64) -> Result<()> {
    Current::get().space().unmap(address, length)
}

pub(super) fn mprotect(address: u64, length: u64, wide_rights: u64) -> Result<()> {
    const GROWS: u32 = general::PROT_GROWSDOWN | general::PROT_GROWSUP;
    let rights = wide_rights as u32;
    let plain = rights & !GROWS;
    if rights & GROWS == GROWS || !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    if length == 0 {
        return Ok(());
    }
    let end = page_up(length)
        .and_then(|length| address.checked_add(length))
        .ok_or(Errno::ENOMEM)?;
    if wide_rights >> 32 != 0 || plain & !(RIGHTS | general::PROT_SEM) != 0 || rights & general::PROT_GROWSUP != 0 {
        return Err(Errno::EINVAL);
    }
    if address >= USER_END {
        return Err(Errno::ENOMEM);
    }
    Current::get().space().protect(address..end, protection(plain & RIGHTS))
}

pub(super) fn mremap(address: u64, old_length: u64, length: u64, flags: u64, to: u64) -> Result<i64> {
    const MAYMOVE: u64 = general::MREMAP_MAYMOVE as u64;
    const FIXED: u64 = general::MREMAP_FIXED as u64;
    let (fixed, may_move) = (flags & FIXED != 0, flags & MAYMOVE != 0);
    // Of old length 0 a second mapping of shared pages would be made; there are none.
    if flags & !(MAYMOVE | FIXED) != 0 || fixed && !may_move || length == 0 || old_length == 0 {
        return Err(Errno::EINVAL);
    }
    let length = page_up(length)
        .filter(|&length| length <= USER_END)
        .ok_or(Errno::EINVAL)?;
    let old = whole_pages(address, old_length).ok_or(if address.is_multiple_of(PAGE) {
        Errno::EFAULT
    } else {
        Errno::EINVAL
    })?;
    let to = if fixed {
        let new = whole_pages(to, length).ok_or(Errno::EINVAL)?;
        if new.start < old.end && old.start < new.end {
            return Err(Errno::EINVAL);
        }
        Some(to)
    } else {
        None
    };
    let current = Current::get();
    let start = current
        .space()
        .remap(old, length, may_move, to, &SpaceLimits::of(&current))?;
    Ok(start as i64)
}

pub(super) fn brk(to: u64) -> i64 {
    let current = Current::get();
    current.space().set_break(to, &SpaceLimits::of(&current)) as i64
}

pub(super) fn madvise(address: u64, length: u64, advice: u32) -> Result<()> {
    match advice {
        general::MADV_NORMAL
        | general::MADV_RANDOM
        | general::MADV_SEQUENTIAL
        | general::MADV_WILLNEED
        | general::MADV_DONTNEED
        | general::MADV_FREE
        | general::MADV_DONTFORK
        | general::MADV_DOFORK
        | general::MADV_HUGEPAGE
        | general::MADV_NOHUGEPAGE
        | general::MADV_DONTDUMP
        | general::MADV_DODUMP
        | general::MADV_COLD
        | general::MADV_PAGEOUT => {}
        _ => return Err(Errno::EINVAL),
    }
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let length = page_up(length).ok_or(Errno::EINVAL)?;
    address.checked_add(length).ok_or(Errno::EINVAL)?;
    if length == 0 {
        return Ok(());
    }
    let range = whole_pages(address, length).ok_or(Errno::ENOMEM)?;
    let space = Current::get().space();
    match advice {
        // What may be freed is freed at once: a legal reading of MADV_FREE.
        general::MADV_DONTNEED | general::MADV_FREE => space.discard(range),
        _ if space.is_mapped(range) => Ok(()),
        _ => Err(Errno::ENOMEM),
    }
}
