//! The initramfs: a cpio archive in the `newc` format, of which the root file system is filled.
//!
//! The archive stays where the boot loader put it; a file's bytes are a slice of it. The names are sorted once, so that
//! a look-up is a binary search; a directory that only appears inside longer names exists too.
//!
//! Format: cpio(5), "New ASCII Format": a header of 110 bytes (magic 070701 and thirteen numbers of eight hexadecimal
//! digits), the name with its zero, padding to four bytes, the data, padding to four bytes; `TRAILER!!!` ends it.

use super::node::{REGULAR, TYPE_MASK};
use alloc::vec::Vec;
use core::fmt;

const HEADER: usize = 110;
const MAGIC: &[u8] = b"070701";
/// Same with a checksum field; the sum is not checked.
const MAGIC_CRC: &[u8] = b"070702";
const TRAILER: &[u8] = b"TRAILER!!!";

/// One entry of the archive. Immutable.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Path without a leading slash; empty for the root.
    pub path: &'static [u8],
    /// The file's bytes.
    pub data: &'static [u8],
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970.
    pub mtime: u32,
}

/// Why an archive is refused: what, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    what: &'static str,
    at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the initramfs is no newc cpio archive: {} at byte {}",
            self.what, self.at
        )
    }
}

/// The tree. Immutable after boot.
pub struct Initramfs {
    /// Sorted by path.
    entries: Vec<Entry>,
}

impl Initramfs {
    /// Reads the archive; an empty one gives an empty tree.
    pub fn parse(archive: &'static [u8]) -> Result<Initramfs, Malformed> {
        let mut entries = Vec::new();
        let mut at = 0;
        // Archives are padded with zeros to a block, and may be concatenated.
        while at < archive.len() {
            if archive[at] == 0 {
                at += 1;
                continue;
            }
            let (entry, next) = Header::read(archive, at)?;
            if entry.path != TRAILER {
                let entry = Entry {
                    path: trimmed(entry.path),
                    ..entry
                };
                entries.push(entry);
            }
            at = next;
        }
        entries.sort_by(|a, b| a.path.cmp(b.path));
        // The last of several entries of one name wins, as when unpacking.
        entries.dedup_by(|later, earlier| {
            let same = later.path == earlier.path;
            if same {
                *earlier = *later;
            }
            same
        });
        Ok(Initramfs { entries })
    }

    /// All entries, by path: a directory comes before what is in it.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// A regular file's bytes.
    pub fn file(&self, path: &[u8]) -> Option<&'static [u8]> {
        let at = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        let entry = &self.entries[at];
        (entry.mode & TYPE_MASK == REGULAR).then_some(entry.data)
    }
}

/// `./bin/sh` and `/bin/sh` are `bin/sh`; `.` is the root.
fn trimmed(mut path: &'static [u8]) -> &'static [u8] {
    loop {
        path = match path {
            [b'/', rest @ ..] | [b'.', b'/', rest @ ..] => rest,
            b"." => b"",
            _ => return path,
        };
    }
}

/// The fields of a header, by their place.
struct Header;

impl Header {
    const MODE_UID_GID: [usize; 3] = [1, 2, 3];
    const MTIME: usize = 5;
    const SIZE: usize = 6;
    const NAME_SIZE: usize = 11;

    /// The entry at `at`, and where the next one begins.
    fn read(archive: &'static [u8], at: usize) -> Result<(Entry, usize), Malformed> {
        let bad = |what| Malformed { what, at };
        let header = archive.get(at..at + HEADER).ok_or(bad("a header is cut short"))?;
        if !header.starts_with(MAGIC) && !header.starts_with(MAGIC_CRC) {
            return Err(bad("no header"));
        }
        let number = |field: usize| {
            let digits = &header[6 + 8 * field..][..8];
            core::str::from_utf8(digits)
                .ok()
                .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .ok_or(bad("a number that is not hexadecimal"))
        };
        // All sums are of 32-bit numbers and an offset into memory: they cannot overflow 64 bits.
        let name_at = at + HEADER;
        let name_size = number(Header::NAME_SIZE)? as usize;
        let data_at = (name_at + name_size).next_multiple_of(4);
        let size = number(Header::SIZE)? as usize;
        let name = archive
            .get(name_at..name_at + name_size)
            .ok_or(bad("a name is cut short"))?;
        let [path @ .., 0] = name else {
            return Err(bad("a name without its zero"));
        };
        let data = archive
            .get(data_at..data_at + size)
            .ok_or(bad("a file's data is cut short"))?;
        let [mode, uid, gid] = Header::MODE_UID_GID.map(number);
        let entry = Entry {
            path,
            data,
            mode: mode?,
            uid: uid?,
            gid: gid?,
            mtime: number(Header::MTIME)?,
        };
        Ok((entry, (data_at + size).next_multiple_of(4)))
    }
}
