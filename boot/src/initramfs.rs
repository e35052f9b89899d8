//! The initial file system: a cpio archive of the "newc" kind, uncompressed, as the kernel unpacks it.
//!
//! Everything in it is fixed by its contents (no owner, no time, inode numbers in order), so that two runs of one
//! commit boot the same bytes. Format: Linux, Documentation/driver-api/early-userspace/buffer-format.rst.

use anyhow::{Result, bail, ensure};
use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040755;
const REGULAR: u32 = 0o100000;

/// An archive being written.
#[derive(Debug, Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

impl Initramfs {
    /// An empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file with the permissions `mode` (as `0o755`), and the directories above it.
    ///
    /// Errors: a name that is empty, leaves the root or is there already; more than 4 GiB.
    pub fn file(&mut self, path: &str, mode: u32, contents: &[u8]) -> Result<()> {
        let name = path.trim_start_matches('/');
        ensure!(
            !name.is_empty() && !name.ends_with('/'),
            "'{path}' is no file name for the guest"
        );
        ensure!(
            !name.contains('\0'),
            "the guest's file name '{}' holds a NUL byte",
            path.escape_debug()
        );
        let parts: Vec<&str> = name.split('/').collect();
        if parts.iter().any(|p| p.is_empty() || *p == "." || *p == "..") {
            bail!("'{path}' is no plain path from the guest's root: no empty part, '.' or '..'");
        }
        for depth in 1..parts.len() {
            let dir = parts[..depth].join("/");
            if self.names.insert(format!("{dir}/")) {
                ensure!(
                    !self.names.contains(&dir),
                    "'/{dir}' is a file of the guest and a directory above '{path}'"
                );
                self.entry(&dir, DIRECTORY, &[])?;
            }
        }
        ensure!(
            !self.names.contains(&format!("{name}/")),
            "'/{name}' is a directory of the guest already"
        );
        ensure!(
            self.names.insert(name.to_owned()),
            "two files for the guest's '/{name}'"
        );
        self.entry(name, REGULAR | (mode & 0o7777), contents)
    }

    /// Adds `.tollgate/init`: what the kernel starts first. `argv[0]` is the program's path in the guest.
    ///
    /// The file holds strings, each with its zero: the number of arguments in decimal, the arguments, the environment.
    ///
    /// Errors: a NUL byte in a string, an empty `argv`.
    pub fn init(&mut self, argv: &[String], envp: &[(&str, &str)]) -> Result<()> {
        ensure!(!argv.is_empty(), "no program to start");
        let mut strings = format!("{}\0", argv.len()).into_bytes();
        for arg in argv {
            ensure!(
                !arg.contains('\0'),
                "argument '{}' holds a NUL byte",
                arg.escape_debug()
            );
            strings.extend_from_slice(arg.as_bytes());
            strings.push(0);
        }
        for (key, value) in envp {
            strings.extend_from_slice(format!("{key}={value}\0").as_bytes());
        }
        self.file(".tollgate/init", 0o400, &strings)
    }

    /// Ends the archive and hands its bytes over.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.entry("TRAILER!!!", 0, &[])?;
        // cpio(1) pads the whole to its 512-byte blocks; a page's worth of zeroes is skipped by every reader.
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) -> Result<()> {
        let Ok(size) = u32::try_from(contents.len()) else {
            bail!("'/{name}' is larger than 4 GiB, the format's limit");
        };
        let inode = if mode == 0 { 0 } else { self.names.len() as u32 };
        let links = if mode & DIRECTORY == DIRECTORY & 0o170000 { 2 } else { 1 };
        let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader written from the format's description, not from the writer.
    fn entries(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let start = bytes.len();
        let mut found = Vec::new();
        loop {
            assert_eq!(&bytes[..6], b"070701");
            let field = |i: usize| {
                usize::from_str_radix(std::str::from_utf8(&bytes[6 + 8 * i..14 + 8 * i]).unwrap(), 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = std::str::from_utf8(&bytes[110..110 + name_size - 1])
                .unwrap()
                .to_owned();
            assert_eq!(bytes[110 + name_size - 1], 0);
            if name == "TRAILER!!!" {
                assert_eq!(start % 512, 0);
                return found;
            }
            let data = (110 + name_size).next_multiple_of(4);
            found.push((name, mode as u32, bytes[data..data + size].to_vec()));
            bytes = &bytes[(data + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn files_come_back_with_their_directories() {
        let mut cpio = Initramfs::new();
        cpio.file("/bin/a", 0o755, b"abc").unwrap();
        cpio.file("bin/bb", 0o755, b"").unwrap();
        cpio.init(&["/bin/a".into(), "x y".into(), "".into()], &[("HOME", "/")])
            .unwrap();
        let got = entries(&cpio.finish().unwrap());
        let names: Vec<_> = got.iter().map(|e| (e.0.as_str(), e.1)).collect();
        assert_eq!(
            names,
            [
                ("bin", 0o040755),
                ("bin/a", 0o100755),
                ("bin/bb", 0o100755),
                (".tollgate", 0o040755),
                (".tollgate/init", 0o100400)
            ]
        );
        assert_eq!(got[1].2, b"abc");
        assert_eq!(got[4].2, b"3\0/bin/a\0x y\0\0HOME=/\0");
    }

    #[test]
    fn bad_names_are_refused() {
        let mut cpio = Initramfs::new();
        cpio.file("a", 0o644, b"").unwrap();
        for bad in ["", "/", "a", "b/../c", "b//c", "a/b", "c/"] {
            assert!(cpio.file(bad, 0o644, b"").is_err(), "{bad}");
        }
        assert!(cpio.init(&[], &[]).is_err());
        assert!(cpio.init(&["a\0b".into()], &[]).is_err());
    }
}
