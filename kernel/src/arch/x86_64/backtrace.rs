//! Backtraces by looking through the stack.
//!
//! The kernel is built without frame pointers, so the calls that are open are found by what they left: words on the
//! stack that point into the code just behind a call instruction. That shows every open call, and now and then one that
//! is long over. Names come from the file `.tollgate/kallsyms` in the initial RAM disk.

use super::layout::{PAGE_SIZE, is_text};
use super::once::BootCell;
use super::pvh;
use crate::mm::stacks::{self, Place};
use core::fmt;
use core::ops::Range;

/// The most calls that are printed.
const MAX_CALLS: usize = 40;

/// `address symbol` lines, sorted by address.
static SYMBOLS: BootCell<&'static str> = BootCell::new();

/// Finds the symbols in the initial RAM disk, if it brings some.
pub fn init(initrd: &'static [u8]) {
    if let Some(text) = find(initrd, ".tollgate/kallsyms").and_then(|file| core::str::from_utf8(file).ok()) {
        SYMBOLS.set(text);
    }
}

/// A file of a cpio archive in the format "newc": a header of 13 hexadecimal fields after six characters of magic, the
/// name, the data, each padded to four bytes.
fn find<'a>(mut archive: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    const HEADER: usize = 110;
    loop {
        let header = archive.get(..HEADER)?.strip_prefix(b"070701")?;
        let field = |i: usize| {
            let digits = core::str::from_utf8(&header[8 * i..8 * i + 8]).ok()?;
            usize::from_str_radix(digits, 16).ok()
        };
        let (size, name_size) = (field(6)?, field(11)?);
        let data = (HEADER + name_size).next_multiple_of(4);
        let name = archive.get(HEADER..HEADER + name_size)?.strip_suffix(b"\0")?;
        let name = name.strip_prefix(b"./").unwrap_or(name);
        if name == wanted.as_bytes() {
            return archive.get(data..data.checked_add(size)?);
        }
        archive = archive.get(data.checked_add(size)?.checked_next_multiple_of(4)?..)?;
    }
}

/// A code address with its symbol, where one is known.
pub struct Symbol(pub u64);

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)?;
        match symbol(self.0) {
            Some((name, offset)) => write!(f, " {name}+{offset:#x}"),
            None => Ok(()),
        }
    }
}

/// The symbol that an address is in, and how far.
fn symbol(address: u64) -> Option<(&'static str, u64)> {
    let mut best = None;
    for line in SYMBOLS.get()?.lines() {
        let (digits, name) = line.split_once(' ')?;
        let start = u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()?;
        if start > address {
            break;
        }
        best = Some((name, address - start));
    }
    best
}

/// Prints where `instruction` is, and the calls that are open above `stack`.
pub fn print(instruction: Option<u64>, stack: u64, line: impl Fn(fmt::Arguments)) {
    if let Some(address) = instruction {
        line(format_args!("{}", Symbol(address)));
    }
    let Some(range) = stack_of(stack) else {
        line(format_args!("the stack pointer {stack:#x} is not on a kernel stack"));
        return;
    };
    let mut printed = 0;
    let mut at = range.start.next_multiple_of(8);
    while at + 8 <= range.end && printed < MAX_CALLS {
        // SAFETY: inside a mapped stack (stack_of), aligned; any bytes are a number.
        let word = unsafe { (at as *const u64).read_volatile() };
        if is_return_address(word) {
            // The call is the instruction before.
            line(format_args!("{}", Symbol(word - 1)));
            printed += 1;
        }
        at += 8;
    }
}

/// The part of a known stack that is above `pointer`; the whole stack if the pointer has run into the gap below.
fn stack_of(pointer: u64) -> Option<Range<u64>> {
    let boot = pvh::boot_stack();
    if (boot.start - PAGE_SIZE..boot.end).contains(&pointer) {
        return Some(pointer.max(boot.start)..boot.end);
    }
    match stacks::place(pointer)? {
        Place::Stack(range) => stacks::exists(pointer).then_some(pointer..range.end),
        // The overflow itself: its newest calls.
        Place::Guard(range) => stacks::exists(range.start).then_some(range),
    }
}

/// Whether a word is an address of code behind a call instruction: `e8` and a distance, or `ff /2` with its operand.
fn is_return_address(word: u64) -> bool {
    if !is_text(word) || !is_text(word - 7) {
        return false;
    }
    // SAFETY: code, mapped and readable.
    let before = unsafe { core::slice::from_raw_parts((word - 7) as *const u8, 7) };
    let indirect = |length: usize, modes: &[u8]| {
        let code = &before[7 - length..];
        code[0] == 0xff && code[1] >> 3 & 7 == 2 && modes.contains(&(code[1] >> 6))
    };
    before[2] == 0xe8 || indirect(2, &[0, 3]) || indirect(3, &[0, 1]) || indirect(6, &[0, 2]) || indirect(7, &[0, 2])
}
