//! A program for the guest, checked on the host: what the kernel's loader could only refuse with an errno is named here
//! with its remedy.

use anyhow::{Context, Result, bail, ensure};
use elf::{ElfBytes, abi, endian::AnyEndian, file::Class};
use std::path::Path;

/// A checked static ELF.
#[derive(Debug)]
pub struct Program {
    /// Its name in the guest's /bin.
    pub name: String,
    /// The file.
    pub image: Vec<u8>,
}

impl Program {
    /// Reads and checks a file. Errors name the file, what is wrong with it and what to do.
    pub fn load(path: &Path) -> Result<Program> {
        let shown = path.display();
        let image = read_file(path)?;
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .with_context(|| format!("{shown}: not a file name in UTF-8"))?;
        check(&image).with_context(|| shown.to_string())?;
        Ok(Program {
            name: name.to_owned(),
            image,
        })
    }
}

/// The largest file that goes into the guest: QEMU puts the initial file system below 4 GiB, beside the devices.
const LARGEST: u64 = 2 << 30;

/// Reads a file of the user's that is to go into the guest.
///
/// Only a regular file has an end that is sure to come: opening a pipe waits for its writer, and a device may never run
/// dry. Errors name the file.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let status = std::fs::metadata(path).with_context(|| format!("{shown}: cannot read it"))?;
    ensure!(!status.is_dir(), "{shown}: a directory, not a file");
    ensure!(
        status.is_file(),
        "{shown}: a pipe, socket or device: give a regular file"
    );
    ensure!(
        status.len() <= LARGEST,
        "{shown}: {} MiB, too large for the guest: the limit is {} MiB",
        status.len() >> 20,
        LARGEST >> 20
    );
    std::fs::read(path).with_context(|| format!("{shown}: cannot read it"))
}

/// Whether Tollgate can run this image: a static ELF for x86-64, whole. Errors say why not and what to do.
pub fn check(image: &[u8]) -> Result<()> {
    if !image.starts_with(&abi::ELFMAGIC) {
        if image.starts_with(b"#!") {
            bail!("a script, not an ELF file: give the interpreter (as a static ELF) and pass the script by --file");
        }
        bail!("not an ELF file: give a static x86-64 Linux program, as `gcc -static` links it");
    }
    ensure!(
        image.len() > abi::EI_NIDENT,
        "truncated ELF: the file ends inside its header: build or copy it again"
    );
    ensure!(
        image[abi::EI_CLASS] != abi::ELFCLASS32,
        "a 32-bit ELF: Tollgate runs 64-bit programs only: build it without -m32 or -mx32"
    );
    ensure!(
        image[abi::EI_CLASS] == abi::ELFCLASS64,
        "an ELF of unknown class {}: build it again",
        image[abi::EI_CLASS]
    );
    if image.len() < 64 {
        bail!("truncated ELF: the file ends inside its header: build or copy it again");
    }
    let file = match ElfBytes::<AnyEndian>::minimal_parse(image) {
        Ok(file) => file,
        // With magic, class and length right, what is left to fail is a table beyond the end or a senseless header.
        Err(elf::ParseError::SliceReadError(_)) => {
            bail!("truncated ELF: its tables lie beyond the end of the file: build or copy it again")
        }
        Err(error) => return Err(error).context("a malformed ELF: build it again"),
    };
    debug_assert_eq!(file.ehdr.class, Class::ELF64);
    if file.ehdr.e_machine != abi::EM_X86_64 {
        let machine = elf::to_str::e_machine_to_human_str(file.ehdr.e_machine)
            .map_or_else(|| format!("machine {}", file.ehdr.e_machine), str::to_owned);
        bail!("an ELF for another machine ({machine}): build it for x86-64");
    }
    match file.ehdr.e_type {
        abi::ET_EXEC | abi::ET_DYN => {}
        abi::ET_REL => bail!("an object file, not a program: link it with `gcc -static`"),
        abi::ET_CORE => bail!("a core dump, not a program"),
        other => bail!("an ELF of type {other}, not a program: link it with `gcc -static`"),
    }
    let segments = file
        .segments()
        .context("an ELF without program headers: link it with `gcc -static`")?;
    let mut loadable = false;
    let mut interpreter = None;
    for segment in segments.iter() {
        let end = segment.p_offset.checked_add(segment.p_filesz);
        if segment.p_filesz > 0 && end.is_none_or(|end| end > image.len() as u64) {
            bail!(
                "truncated ELF: a segment ends at byte {} of a file of {}: build or copy it again",
                segment.p_offset.saturating_add(segment.p_filesz),
                image.len()
            );
        }
        loadable |= segment.p_type == abi::PT_LOAD;
        if segment.p_type == abi::PT_INTERP {
            let bytes = file.segment_data(&segment).unwrap_or_default();
            interpreter = Some(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned());
        }
    }
    if let Some(interpreter) = interpreter {
        bail!("a dynamic ELF (it asks for {interpreter}): link it with -static or -static-pie");
    }
    ensure!(loadable, "an ELF with nothing to load: link it with `gcc -static`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small ELF file: header, program headers (type, offset, file size), and `tail` more bytes.
    fn elf(machine: u16, kind: u16, segments: &[(u32, u64, u64)], tail: usize) -> Vec<u8> {
        let mut b = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        b.extend(kind.to_le_bytes());
        b.extend(machine.to_le_bytes());
        b.extend(1u32.to_le_bytes());
        b.extend(0x40_1000u64.to_le_bytes()); // entry
        b.extend(64u64.to_le_bytes()); // program headers
        b.extend(0u64.to_le_bytes()); // section headers
        b.extend(0u32.to_le_bytes());
        for half in [64, 56, segments.len() as u16, 64, 0, 0] {
            b.extend(half.to_le_bytes());
        }
        for &(kind, offset, size) in segments {
            b.extend(kind.to_le_bytes());
            b.extend(5u32.to_le_bytes());
            for word in [offset, 0x40_0000, 0x40_0000, size, size, 4096] {
                b.extend(word.to_le_bytes());
            }
        }
        b.extend(std::iter::repeat_n(b'x', tail));
        b
    }

    fn why(image: &[u8]) -> String {
        crate::failure::one_line(&check(image).unwrap_err())
    }

    #[test]
    fn a_static_program_passes() {
        check(&elf(abi::EM_X86_64, abi::ET_EXEC, &[(abi::PT_LOAD, 0, 200)], 100)).unwrap();
        check(&elf(
            abi::EM_X86_64,
            abi::ET_DYN,
            &[(abi::PT_LOAD, 0, 200), (abi::PT_DYNAMIC, 0, 16)],
            100,
        ))
        .unwrap();
    }

    #[test]
    fn what_cannot_run_is_named_with_its_remedy() {
        let good = elf(abi::EM_X86_64, abi::ET_EXEC, &[(abi::PT_LOAD, 0, 200)], 100);
        assert!(why(b"").contains("not an ELF file"));
        assert!(why(b"hello, world, this is text").contains("not an ELF file"));
        assert!(why(b"#!/bin/sh\n").contains("a script"));
        for cut in [4, 15, 16, 40, 63, 64, 100, 119] {
            assert!(
                why(&good[..cut]).contains("truncated"),
                "cut at {cut}: {}",
                why(&good[..cut])
            );
        }
        assert!(why(&good[..150]).contains("a segment ends at byte 200 of a file of 150"));
        assert!(why(&elf(abi::EM_AARCH64, abi::ET_EXEC, &[(abi::PT_LOAD, 0, 1)], 9)).contains("another machine"));
        assert!(why(&elf(abi::EM_X86_64, abi::ET_REL, &[], 9)).contains("an object file"));
        assert!(why(&elf(abi::EM_X86_64, abi::ET_EXEC, &[], 9)).contains("link it with"));
        let dynamic = elf(
            abi::EM_X86_64,
            abi::ET_DYN,
            &[(abi::PT_INTERP, 176, 9), (abi::PT_LOAD, 0, 20)],
            90,
        );
        assert!(
            why(&dynamic).contains("asks for xxxxxxxxx") && why(&dynamic).contains("-static"),
            "{}",
            why(&dynamic)
        );
        let mut narrow = good.clone();
        narrow[abi::EI_CLASS] = 1;
        assert!(why(&narrow).contains("32-bit"));
        let mut overflow = elf(abi::EM_X86_64, abi::ET_EXEC, &[(abi::PT_LOAD, u64::MAX, 200)], 100);
        assert!(why(&overflow).contains("truncated"));
        overflow[56] = 0xff; // many program headers, beyond the end
        assert!(why(&overflow).contains("truncated"), "{}", why(&overflow));
    }

    #[test]
    fn a_files_error_names_it() {
        let e = Program::load(Path::new("/nonexistent/prog")).unwrap_err();
        assert!(crate::failure::one_line(&e).starts_with("/nonexistent/prog: cannot read it: No such file"));
        assert!(crate::failure::one_line(&Program::load(Path::new("/tmp")).unwrap_err()).contains("a directory"));
        // Neither waits nor reads for ever.
        assert!(crate::failure::one_line(&read_file(Path::new("/dev/zero")).unwrap_err()).contains("device"));
    }
}
