//! ACPI: as much as it takes to count the processors.
//!
//! The root pointer leads to a table of tables; the one with the signature "APIC" (MADT) has an entry for each
//! processor. Lengths and sums are checked before anything is believed. Source: ACPI specification, chapter 5.

use super::paging::map_firmware;
use arrayvec::ArrayVec;
use cpu::MAX_CPUS;

/// Bytes of the header that every table begins with.
const HEADER: usize = 36;
/// The longest table that is read.
const MAX_TABLE: usize = 1 << 20;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The bytes of every structure with a checksum add up to zero.
fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte)) == 0
}

/// The whole table at a physical address.
fn table(address: u64) -> Option<&'static [u8]> {
    let length = u32_at(map_firmware(address, HEADER)?, 4)? as usize;
    if !(HEADER..=MAX_TABLE).contains(&length) {
        return None;
    }
    map_firmware(address, length).filter(|table| sums_to_zero(table))
}

/// The MADT.
fn madt(rsdp: u64) -> Option<&'static [u8]> {
    let root = map_firmware(rsdp, 20)?;
    if root.get(..8)? != b"RSD PTR " || !sums_to_zero(root) {
        return None;
    }
    let extended = if root[15] >= 2 { map_firmware(rsdp, 36)? } else { root };
    let wide = u64_at(extended, 24).filter(|&address| address != 0);
    let (tables, width) = match wide {
        Some(xsdt) => (table(xsdt)?, 8),
        None => (table(u32_at(root, 16)?.into())?, 4),
    };
    tables[HEADER..].chunks_exact(width).find_map(|entry| {
        let address = if width == 8 {
            u64_at(entry, 0)?
        } else {
            u32_at(entry, 0)?.into()
        };
        table(address).filter(|table| table.starts_with(b"APIC"))
    })
}

/// The APIC ids of the processors that can be used, at most [`MAX_CPUS`], and how many there are besides; none where the
/// firmware does not say.
pub fn processors(rsdp: Option<u64>) -> (ArrayVec<u32, MAX_CPUS>, usize) {
    let mut found = ArrayVec::new();
    let mut more = 0;
    let Some(madt) = rsdp.and_then(madt) else {
        return (found, more);
    };
    // Behind the header: the APIC's address and flags, then entries of type, length and contents.
    let mut rest = madt.get(HEADER + 8..).unwrap_or_default();
    while let [kind, length, ..] = *rest
        && length >= 2
        && let Some((entry, after)) = rest.split_at_checked(length.into())
    {
        let processor = match kind {
            0 => u32_at(entry, 4).zip(entry.get(3).map(|&id| u32::from(id))), // local APIC
            9 => u32_at(entry, 8).zip(u32_at(entry, 4)),                      // local x2APIC
            _ => None,
        };
        if let Some((flags, id)) = processor
            && flags & 1 != 0
        {
            more += usize::from(found.try_push(id).is_err());
        }
        rest = after;
    }
    (found, more)
}
