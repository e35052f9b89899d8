//! Copies from and to the running program's memory.
//!
//! **Purpose.** A program's pointer is a claim. The copies here check that it lies in the user's half, open SMAP for the
//! length of the copy, and end with [`Fault`] where memory is not there.
//!
//! **How it works.** The instructions that touch user memory are listed in the section `.exception_table`, each with the
//! address at which to go on after a fault. A page fault at one of them is first offered to the address space, which may
//! map the page; if it does not, execution goes on behind the copy, where the count register tells that it is not done.
//! `stac` and `clac` are three-byte no-ops in the image, listed in `.smap_sites`, and patched in at boot where the
//! processor has SMAP.
//!
//! Copies go by eight bytes (`rep movsq`): under instruction counting `rep` counts one a step. The tail follows by bytes.
//! A page may be missing in the middle of a copy: then part of the destination has been written.
//!
//! The caller must not hold a lock that the address space takes (rank 20), and may be preempted inside a copy. With
//! preemption or interrupts off, or before a program runs, a missing page is a [`Fault`] at once.

use super::layout::USER_END;
use core::mem::MaybeUninit;

/// The program's memory is not there, or does not allow the access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// The place of a `stac` (1) or `clac` (0), for the patching.
macro_rules! smap_site {
    ($open:literal) => {
        concat!(
            ".pushsection .smap_sites, \"a\", @progbits\n.quad 662f\n.quad ",
            $open,
            "\n.popsection\n662: .byte 0x0f, 0x1f, 0x00"
        )
    };
}

/// `instruction` at label `at` may fault, and then goes on at label `to`.
macro_rules! may_fault {
    ($at:literal, $to:literal) => {
        concat!(
            ".pushsection .exception_table, \"a\", @progbits\n.quad ",
            $at,
            "\n.quad ",
            $to,
            "\n.popsection"
        )
    };
}

/// Whether `length` bytes from `address` lie in the user's half.
#[inline(always)]
fn check(address: u64, length: usize) -> Result<(), Fault> {
    // A length is at most isize::MAX, so the sum cannot overflow where the address is the user's.
    if address <= USER_END && address + length as u64 <= USER_END {
        Ok(())
    } else {
        Err(Fault)
    }
}

/// Copies without checking which side is whose.
///
/// # Safety
/// The kernel's side is valid for `length` bytes; the other one is in the user's half (checked), mapped or not.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> Result<(), Fault> {
    let left: usize;
    // SAFETY: 1. the kernel's side by the caller. 2. On the user's side a fault ends the copy at label 4, with the rest
    // of the count in rcx. 3. The direction flag is clear, as the ABI wants.
    unsafe {
        core::arch::asm!(
            smap_site!("1"),
            "2: rep movsq",
            "mov ecx, {tail:e}",
            "3: rep movsb",
            "4:",
            smap_site!("0"),
            may_fault!("2b", "4b"),
            may_fault!("3b", "4b"),
            tail = in(reg) length & 7,
            inout("rcx") length >> 3 => left,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack),
        );
    }
    if left == 0 { Ok(()) } else { Err(Fault) }
}

/// Fills `to` from the program's memory at `from`.
#[inline]
pub fn copy_from_user(to: &mut [u8], from: u64) -> Result<(), Fault> {
    check(from, to.len())?;
    // SAFETY: `to` is ours; `from` was checked.
    unsafe { copy(to.as_mut_ptr(), from as *const u8, to.len()) }
}

/// As [`copy_from_user`], into memory that holds nothing yet: after `Ok` all of it is written.
#[inline]
pub fn copy_from_user_uninit(to: &mut [MaybeUninit<u8>], from: u64) -> Result<(), Fault> {
    check(from, to.len())?;
    // SAFETY: `to` is ours; `from` was checked.
    unsafe { copy(to.as_mut_ptr().cast(), from as *const u8, to.len()) }
}

/// Writes `from` to the program's memory at `to`.
#[inline]
pub fn copy_to_user(to: u64, from: &[u8]) -> Result<(), Fault> {
    check(to, from.len())?;
    // SAFETY: `from` is ours; `to` was checked.
    unsafe { copy(to as *mut u8, from.as_ptr(), from.len()) }
}

/// Reads the word at `address`.
#[inline(always)]
pub fn load_user(address: u64) -> Result<u64, Fault> {
    check(address, 8)?;
    let (word, failed): (u64, u32);
    // SAFETY: as in copy: a fault ends it at label 4, with the mark of failure still set; nothing is written.
    unsafe {
        core::arch::asm!(
            smap_site!("1"),
            "2: mov {word}, qword ptr [{address}]",
            "xor {failed:e}, {failed:e}",
            "4:",
            smap_site!("0"),
            may_fault!("2b", "4b"),
            address = in(reg) address,
            word = out(reg) word,
            failed = inout(reg) 1u32 => failed,
            options(nostack, readonly),
        );
    }
    if failed == 0 { Ok(word) } else { Err(Fault) }
}

/// Writes `word` to `address`.
#[inline(always)]
pub fn store_user(address: u64, word: u64) -> Result<(), Fault> {
    check(address, 8)?;
    let failed: u32;
    // SAFETY: as in load_user; only the user's half is written.
    unsafe {
        core::arch::asm!(
            smap_site!("1"),
            "2: mov qword ptr [{address}], {word}",
            "xor {failed:e}, {failed:e}",
            "4:",
            smap_site!("0"),
            may_fault!("2b", "4b"),
            address = in(reg) address,
            word = in(reg) word,
            failed = inout(reg) 1u32 => failed,
            options(nostack),
        );
    }
    if failed == 0 { Ok(()) } else { Err(Fault) }
}

/// As [`copy_from_user`], into memory that others may read and write meanwhile.
///
/// # Safety
/// `to` is valid for writes of `length` bytes.
pub unsafe fn copy_raw_from_user(to: *mut u8, from: u64, length: usize) -> Result<(), Fault> {
    check(from, length)?;
    // SAFETY: `to` by the caller; `from` was checked.
    unsafe { copy(to, from as *const u8, length) }
}

/// As [`copy_to_user`], from memory that others may write meanwhile.
///
/// # Safety
/// `from` is valid for reads of `length` bytes.
pub unsafe fn copy_raw_to_user(to: u64, from: *const u8, length: usize) -> Result<(), Fault> {
    check(to, length)?;
    // SAFETY: `from` by the caller; `to` was checked.
    unsafe { copy(to as *mut u8, from, length) }
}

/// Writes `length` zeroes to the program's memory at `to`.
pub fn clear_user(to: u64, length: usize) -> Result<(), Fault> {
    if length > USER_END as usize {
        return Err(Fault);
    }
    check(to, length)?;
    let left: usize;
    // SAFETY: as in copy; nothing but the user's half is written.
    unsafe {
        core::arch::asm!(
            smap_site!("1"),
            "2: rep stosq",
            "mov ecx, {tail:e}",
            "3: rep stosb",
            "4:",
            smap_site!("0"),
            may_fault!("2b", "4b"),
            may_fault!("3b", "4b"),
            tail = in(reg) length & 7,
            inout("rcx") length >> 3 => left,
            inout("rdi") to => _,
            in("rax") 0u64,
            options(nostack),
        );
    }
    if left == 0 { Ok(()) } else { Err(Fault) }
}

/// Replaces the word at `address`, which begins a multiple of four, by `new` if it is `old`: whether it was.
pub fn compare_exchange_user(address: u64, old: u32, new: u32) -> Result<bool, Fault> {
    check(address, 4)?;
    let (failed, changed): (u32, u8);
    // SAFETY: as in copy: a fault ends it at label 4, with the mark of failure still set.
    unsafe {
        core::arch::asm!(
            smap_site!("1"),
            "2: lock cmpxchg dword ptr [{address}], {new:e}",
            "sete {changed}",
            "xor {failed:e}, {failed:e}",
            "4:",
            smap_site!("0"),
            may_fault!("2b", "4b"),
            address = in(reg) address,
            new = in(reg) new,
            failed = inout(reg) 1u32 => failed,
            changed = out(reg_byte) changed,
            inout("eax") old => _,
            options(nostack),
        );
    }
    if failed == 0 { Ok(changed != 0) } else { Err(Fault) }
}

/// Copies a string with its zero from the program's memory at `from`: its length without the zero, or `None` where `to`
/// is full before a zero comes. What stands behind the zero in `to` is arbitrary.
pub fn strncpy_from_user(to: &mut [u8], from: u64) -> Result<Option<usize>, Fault> {
    /// Bytes copied at once, up to the next multiple: never across a page that the string does not reach.
    const STEP: u64 = 64;
    let mut done = 0;
    while done < to.len() {
        let at = from.checked_add(done as u64).ok_or(Fault)?;
        let step = (STEP - at % STEP) as usize;
        let end = to.len().min(done + step);
        copy_from_user(&mut to[done..end], at)?;
        if let Some(zero) = to[done..end].iter().position(|&byte| byte == 0) {
            return Ok(Some(done + zero));
        }
        done = end;
    }
    Ok(None)
}

/// The entries between two symbols of the linker script.
macro_rules! table {
    ($start:ident, $end:ident) => {{
        unsafe extern "C" {
            static $start: [u64; 2];
            static $end: [u64; 2];
        }
        let (start, end) = (&raw const $start, &raw const $end);
        // SAFETY: the linker script puts the symbols around pairs of words, which nobody writes.
        unsafe { core::slice::from_raw_parts(start, end.offset_from(start) as usize) }
    }};
}

/// Where to go on after a fault of the kernel's instruction at `rip`; `None` where that must not fault.
pub(super) fn fixup(rip: u64) -> Option<u64> {
    let entries: &[[u64; 2]] = table!(exception_table_start, exception_table_end);
    entries.iter().find(|[at, _]| *at == rip).map(|[_, to]| *to)
}

/// Puts `stac` and `clac` into their places, where the processor has them.
///
/// # Safety
/// At boot, on one CPU, while the image's code is still writable.
pub(super) unsafe fn patch_smap_sites(smap: bool) {
    if !smap {
        return;
    }
    let sites: &[[u64; 2]] = table!(smap_sites_start, smap_sites_end);
    for [at, open] in sites {
        let code = if *open == 1 {
            [0x0f, 0x01, 0xcb]
        } else {
            [0x0f, 0x01, 0xca]
        };
        // SAFETY: each site is three bytes of no-op in the image's code, writable (caller), and is not being run.
        unsafe { (*at as *mut [u8; 3]).write_volatile(code) };
    }
}
