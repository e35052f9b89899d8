//! The initramfs: a cpio archive in the `newc` format, as a read-only tree.
//!
//! The archive stays where the boot loader put it; a file's bytes are a slice of it. The names are sorted once, so that
//! a look-up is a binary search; a directory that only appears inside longer names exists too.
//!
//! Format: cpio(5), "New ASCII Format": a header of 110 bytes (magic 070701 and thirteen numbers of eight hexadecimal
//! digits), the name with its zero, padding to four bytes, the data, padding to four bytes; `TRAILER!!!` ends it.

use alloc::vec::Vec;
use core::fmt;

const HEADER: usize = 110;
const MAGIC: &[u8] = b"070701";
/// Same with a checksum field; the sum is not checked.
const MAGIC_CRC: &[u8] = b"070702";
const TRAILER: &[u8] = b"TRAILER!!!";

/// The bits of a mode that say what kind of file it is (`S_IFMT`).
pub const TYPE_MASK: u32 = 0o170000;
/// A directory (`S_IFDIR`).
pub const DIRECTORY: u32 = 0o040000;
/// A symbolic link (`S_IFLNK`): its data is the target.
pub const LINK: u32 = 0o120000;
/// A regular file (`S_IFREG`).
pub const REGULAR: u32 = 0o100000;

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
    /// Inode number, unique in the archive.
    pub ino: u32,
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
                    ino: entries.len() as u32 + 2,
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

    /// The file or directory at `path` (no leading slash, no `.` or `..`).
    pub fn get(&self, path: &[u8]) -> Option<Entry> {
        match self.entries.binary_search_by(|entry| entry.path.cmp(path)) {
            Ok(found) => Some(self.entries[found]),
            Err(next) => {
                let implied = path.is_empty()
                    || self.entries[next..]
                        .iter()
                        .take_while(|entry| entry.path.starts_with(path))
                        .any(|entry| entry.path.get(path.len()) == Some(&b'/'));
                implied.then_some(Entry {
                    path: b"",
                    data: b"",
                    mode: DIRECTORY | 0o755,
                    uid: 0,
                    gid: 0,
                    mtime: 0,
                    ino: 1,
                })
            }
        }
    }

    /// A regular file's bytes.
    pub fn file(&self, path: &[u8]) -> Option<&'static [u8]> {
        self.get(path)
            .filter(|entry| entry.mode & TYPE_MASK == REGULAR)
            .map(|entry| entry.data)
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
            ino: 0,
        };
        Ok((entry, (data_at + size).next_multiple_of(4)))
    }
}
