//! An ELF file as a program: its header and segments, checked before anything is made of them.
//!
//! The crate elf reads the structures; what they may say is decided here, as Linux's binfmt_elf decides it. Section
//! headers are not looked at.

use crate::arch::layout::{PAGE_SIZE as PAGE, USER_END};
use crate::arch::paging::Protection;
use crate::mm::address_space::{AddressSpace, Placement, Request, SpaceLimits, page_up};
use crate::mm::areas::{Backing, Purpose};
use crate::syscall::errno::{Errno, Result};
use crate::task::table::printable;
use arrayvec::ArrayVec;
use core::fmt;
use core::ops::Range;
use elf::abi;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};

/// Bytes of the file header and of a program header (ELF-64 object file format).
const FILE_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// The most program headers: as many as Linux reads (64 KiB of them).
const MAX_HEADERS: usize = 65536 / PROGRAM_HEADER;
/// The most segments to load. Linux has no such limit; real programs have about six.
const MAX_SEGMENTS: usize = 32;
/// What a position-independent program's addresses are added to (Linux: ELF_ET_DYN_BASE, without randomization).
const BASE: u64 = 0x5555_5555_4000;

/// Why a file is no program for this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It does not begin like an ELF file.
    NotElf,
    /// It is an ELF file for another machine.
    OtherMachine(u16),
    /// It is 32-bit, or big-endian.
    OtherClass,
    /// It is not an executable (but an object file, or a core).
    NotExecutable(u16),
    /// Its structures are cut short or contradict each other.
    Malformed(&'static str),
    /// It wants this interpreter: a dynamic program.
    Dynamic(&'static [u8]),
    /// It has segments that cannot be in an address space.
    BadSegments(&'static str),
}

impl Refused {
    /// As execve(2) gives it.
    pub fn errno(self) -> Errno {
        match self {
            Refused::Dynamic(_) => Errno::ENOENT,
            Refused::BadSegments(_) => Errno::EINVAL,
            _ => Errno::ENOEXEC,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NotElf => f.write_str("no ELF file"),
            Refused::OtherMachine(machine) => write!(f, "an ELF file for another machine ({machine}), not x86-64 (62)"),
            Refused::OtherClass => f.write_str("an ELF file, but not a 64-bit little-endian one"),
            Refused::NotExecutable(kind) => write!(f, "an ELF file, but no executable (its type is {kind})"),
            Refused::Malformed(what) => write!(f, "a malformed ELF file: {what}"),
            Refused::Dynamic(interpreter) => write!(
                f,
                "dynamically linked (it wants {}): only static programs run here, link it with -static",
                printable(interpreter)
            ),
            Refused::BadSegments(what) => write!(f, "an ELF file that cannot be loaded: {what}"),
        }
    }
}

/// A segment to load.
#[derive(Clone, Debug)]
struct Segment {
    /// Addresses before the base is added.
    memory: Range<u64>,
    /// Its bytes of the file.
    bytes: Range<usize>,
    protection: Protection,
}

/// A program that can be loaded.
pub struct Program {
    file: &'static [u8],
    segments: ArrayVec<Segment, MAX_SEGMENTS>,
    /// Added to every address.
    base: u64,
    /// First instruction.
    pub entry: u64,
    /// Address, and number, of the program headers in memory.
    pub headers: (u64, usize),
}

/// Bytes of a program header, as `AT_PHENT` tells.
pub const HEADER_SIZE: u64 = PROGRAM_HEADER as u64;

impl Program {
    /// Reads and checks a file.
    pub fn parse(file: &'static [u8]) -> core::result::Result<Program, Refused> {
        let Some((ident, rest)) = file.split_at_checked(abi::EI_NIDENT) else {
            return Err(Refused::NotElf);
        };
        if !ident.starts_with(&abi::ELFMAGIC) {
            return Err(Refused::NotElf);
        }
        let ident = parse_ident::<LittleEndian>(ident).map_err(|_| Refused::OtherClass)?;
        if ident.1 != Class::ELF64 {
            return Err(Refused::OtherClass);
        }
        let rest = rest
            .get(..FILE_HEADER - abi::EI_NIDENT)
            .ok_or(Refused::Malformed("the file header is cut short"))?;
        let header = FileHeader::parse_tail(ident, rest).map_err(|_| Refused::Malformed("the file header"))?;
        if header.e_machine != abi::EM_X86_64 {
            return Err(Refused::OtherMachine(header.e_machine));
        }
        let base = match header.e_type {
            abi::ET_EXEC => 0,
            abi::ET_DYN => BASE,
            other => return Err(Refused::NotExecutable(other)),
        };
        let table = headers(file, &header)?;
        let mut segments = ArrayVec::new();
        let mut headers_at = 0;
        for header_of_segment in table.iter() {
            match header_of_segment.p_type {
                abi::PT_INTERP => return Err(Refused::Dynamic(interpreter(file, &header_of_segment))),
                abi::PT_LOAD => {
                    let segment = Segment::check(file, &header_of_segment, base)?;
                    let offset = header_of_segment.p_offset;
                    if (offset..offset + header_of_segment.p_filesz).contains(&header.e_phoff) {
                        headers_at = base + header_of_segment.p_vaddr + (header.e_phoff - offset);
                    }
                    if !segment.memory.is_empty() {
                        segments
                            .try_push(segment)
                            .map_err(|_| Refused::BadSegments("it has more than 32 segments"))?;
                    }
                }
                _ => {}
            }
        }
        if segments.is_empty() {
            return Err(Refused::BadSegments("it has nothing to load"));
        }
        Ok(Program {
            file,
            segments,
            base,
            entry: base.wrapping_add(header.e_entry),
            headers: (headers_at, table.len()),
        })
    }

    /// Maps the segments, and sets where the heap begins.
    pub fn map(&self, space: &AddressSpace, limits: &SpaceLimits) -> Result<()> {
        let mut end = 0;
        for segment in &self.segments {
            self.map_segment(segment, space, limits)?;
            end = end.max(segment.memory.end);
        }
        space.set_heap((self.base + end).next_multiple_of(PAGE));
        Ok(())
    }

    fn map_segment(&self, segment: &Segment, space: &AddressSpace, limits: &SpaceLimits) -> Result<()> {
        // Within the first page the file's bytes before the segment come along, as they do when a file is mapped.
        let skew = segment.memory.start % PAGE;
        let start = self.base + segment.memory.start - skew;
        let data = match segment.bytes.start.checked_sub(skew as usize) {
            Some(first) if !segment.bytes.is_empty() => &self.file[first..segment.bytes.end],
            _ => &[],
        };
        let file_end = start + (data.len() as u64).next_multiple_of(PAGE);
        let end = (self.base + segment.memory.end).next_multiple_of(PAGE);
        let part = |address, length, backing| Request {
            address,
            length,
            protection: segment.protection,
            placement: Placement::Fixed,
            backing,
            purpose: Purpose::Mapping,
            unreserved: false,
        };
        if !segment.bytes.is_empty() {
            space.map(&part(start, file_end - start, Backing::Bytes { data, base: 0 }), limits)?;
        }
        let zeros = if segment.bytes.is_empty() { start } else { file_end };
        if zeros < end {
            space.map(&part(zeros, end - zeros, Backing::Anonymous), limits)?;
        }
        Ok(())
    }
}

impl Segment {
    fn check(file: &'static [u8], header: &ProgramHeader, base: u64) -> core::result::Result<Segment, Refused> {
        let bad = |what| Err(Refused::BadSegments(what));
        if header.p_filesz > header.p_memsz {
            return bad("a segment has more bytes in the file than in memory");
        }
        if header.p_filesz != 0 && header.p_offset % PAGE != header.p_vaddr % PAGE {
            return bad("a segment's place in the file and its address differ within a page");
        }
        let Some(end) = header.p_vaddr.checked_add(header.p_memsz) else {
            return bad("a segment goes beyond 64 bits");
        };
        if page_up(end).is_none_or(|end| end > USER_END - base) {
            return bad("a segment lies outside the user's half of the address space");
        }
        let bytes = header
            .p_offset
            .checked_add(header.p_filesz)
            .filter(|&end| end <= file.len() as u64)
            .map(|end| header.p_offset as usize..end as usize)
            .ok_or(Refused::Malformed("a segment is cut short: the file is truncated"))?;
        let mut protection = Protection::empty();
        protection.set(Protection::READ, header.p_flags & abi::PF_R != 0);
        protection.set(Protection::WRITE, header.p_flags & abi::PF_W != 0);
        protection.set(Protection::EXEC, header.p_flags & abi::PF_X != 0);
        Ok(Segment {
            memory: header.p_vaddr..end,
            bytes: if header.p_filesz == 0 { 0..0 } else { bytes },
            protection,
        })
    }
}

/// The table of program headers.
fn headers(
    file: &'static [u8],
    header: &FileHeader<LittleEndian>,
) -> core::result::Result<SegmentTable<'static, LittleEndian>, Refused> {
    if usize::from(header.e_phentsize) != PROGRAM_HEADER {
        return Err(Refused::Malformed("program headers of a wrong size"));
    }
    let count = usize::from(header.e_phnum);
    if !(1..=MAX_HEADERS).contains(&count) {
        return Err(Refused::Malformed("no program headers, or too many"));
    }
    let bytes = usize::try_from(header.e_phoff)
        .ok()
        .and_then(|start| file.get(start..start.checked_add(count * PROGRAM_HEADER)?))
        .ok_or(Refused::Malformed("the program headers are cut short"))?;
    Ok(SegmentTable::new(LittleEndian, Class::ELF64, bytes))
}

/// The interpreter's path, for the message.
fn interpreter(file: &'static [u8], header: &ProgramHeader) -> &'static [u8] {
    let start = header.p_offset as usize;
    let bytes = start
        .checked_add(header.p_filesz as usize)
        .and_then(|end| file.get(start..end))
        .unwrap_or_default();
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
