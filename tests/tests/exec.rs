//! Files that are no programs, or not for this kernel: refused by name on the host, and by the kernel's own loader where
//! the host's check is passed by. Whatever a file's headers say, the kernel ends in order.

use std::path::Path;
use tests::guest::{self, on_tollgate};
use tests::signal::SIGSEGV;
use tests::{End, Program, Run, Setting};
use tollgate::failure::one_line;
use tollgate::program::{Program as Checked, check};

const HELLO: Program = Program::new("hello");

/// The status of a first program that cannot be started.
const CANNOT_RUN: End = End::Code(126);

fn hello() -> Vec<u8> {
    std::fs::read(HELLO.compile().unwrap()).unwrap()
}

/// Why the host refuses this image.
fn why(image: &[u8]) -> String {
    one_line(&check(image).expect_err("it is refused"))
}

#[test]
fn does_a_missing_file_give_an_error_that_names_it() {
    let error = one_line(&Checked::load(Path::new("/no/such/program")).unwrap_err());
    assert!(
        error.contains("/no/such/program") && error.contains("No such file"),
        "{error}"
    );
}

#[test]
fn is_a_dynamic_program_refused_with_the_remedy() {
    // An option that begins with -static keeps the harness from linking statically; this one leaves libc dynamic.
    let dynamic = Program::new("hello").options(&["-static-libgcc"]).compile().unwrap();
    let error = one_line(&Checked::load(&dynamic).unwrap_err());
    assert!(error.contains("dynamic") && error.contains("-static"), "{error}");
}

#[test]
fn is_an_object_file_refused_with_the_remedy() {
    let object = Program::new("hello").options(&["-c"]).compile().unwrap();
    let error = one_line(&Checked::load(&object).unwrap_err());
    assert!(error.contains("object file") && error.contains("link it"), "{error}");
}

#[test]
fn is_a_file_cut_anywhere_before_its_last_segment_ends_refused() {
    let whole = hello();
    check(&whole).unwrap();
    let end = headers(&whole).iter().map(|h| h.offset + h.file_size).max().unwrap();
    for length in (0..end)
        .step_by(4099)
        .chain([1, 15, 16, 17, 63, 64, 65, 119, 120, end - 1])
    {
        let error = why(&whole[..length]);
        assert!(
            error.contains("truncated") || error.contains("not an ELF"),
            "cut to {length}: {error}"
        );
    }
}

#[test]
fn is_a_program_for_another_machine_refused_by_name() {
    let mut image = hello();
    put(&mut image, 18, 183u16.to_le_bytes());
    let error = why(&image);
    assert!(error.contains("another machine") && error.contains("x86-64"), "{error}");
}

/// A loadable segment, by what its program header says.
struct Header {
    /// Where the program header is in the file.
    at: usize,
    offset: usize,
    file_size: usize,
}

// Offsets of an ELF-64 file header and of a program header.
const TYPE: usize = 16;
const MACHINE: usize = 18;
const ENTRY: usize = 24;
const HEADERS_OFFSET: usize = 32;
const HEADER_SIZE: usize = 54;
const HEADERS_COUNT: usize = 56;
const P_OFFSET: usize = 8;
const P_ADDRESS: usize = 16;
const P_FILE_SIZE: usize = 32;
const P_MEMORY_SIZE: usize = 40;

fn put<const N: usize>(image: &mut [u8], at: usize, bytes: [u8; N]) {
    image[at..at + N].copy_from_slice(&bytes);
}

fn word(image: &[u8], at: usize) -> usize {
    u64::from_le_bytes(image[at..at + 8].try_into().unwrap()) as usize
}

/// The segments to load, in the file's order.
fn headers(image: &[u8]) -> Vec<Header> {
    let count = u16::from_le_bytes([image[HEADERS_COUNT], image[HEADERS_COUNT + 1]]);
    let table = word(image, HEADERS_OFFSET);
    (0..usize::from(count))
        .map(|i| table + i * 56)
        .filter(|&at| image[at..at + 4] == 1u32.to_le_bytes())
        .map(|at| Header {
            at,
            offset: word(image, at + P_OFFSET),
            file_size: word(image, at + P_FILE_SIZE),
        })
        .collect()
}

/// Boots with the image as the first program, past the host's check.
fn boot(image: &[u8]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hostile");
    std::fs::write(&file, image).unwrap();
    guest::run(&file, &[], Setting::DEFAULT).unwrap_or_else(|error| panic!("{}", guest::in_full(&error)))
}

/// Boots with the image changed at one place, and expects that it cannot be started.
fn expect_refused<const N: usize>(what: &str, at: usize, bytes: [u8; N]) {
    if on_tollgate() {
        let mut image = hello();
        put(&mut image, at, bytes);
        let run = boot(&image);
        assert_eq!(run.end, CANNOT_RUN, "{what}: {}", run.text());
    }
}

#[test]
fn does_the_kernel_refuse_files_that_are_no_programs() {
    if !on_tollgate() {
        return;
    }
    let whole = hello();
    for image in [
        &b""[..],
        b"\x7fELF",
        b"#!/bin/sh\necho no\n",
        &whole[..40],
        &whole[..70],
        &whole[..whole.len() / 3],
    ] {
        let run = boot(image);
        assert_eq!(run.end, CANNOT_RUN, "{} bytes: {}", image.len(), run.text());
        assert!(
            run.control.log.iter().any(|line| line.contains("/bin/hostile")),
            "the log names the file"
        );
    }
}

#[test]
fn does_the_kernel_refuse_programs_for_others() {
    expect_refused("another machine", MACHINE, 183u16.to_le_bytes());
    expect_refused("32 bits", 4, [1]);
    expect_refused("the other byte order", 5, [2]);
    expect_refused("an object file", TYPE, 1u16.to_le_bytes());
    let table = word(&hello(), HEADERS_OFFSET);
    // The last program header is none to load: as PT_INTERP it makes the program a dynamic one.
    let count = usize::from(hello()[HEADERS_COUNT]);
    expect_refused("a dynamic program", table + (count - 1) * 56, 3u32.to_le_bytes());
}

#[test]
fn does_the_kernel_refuse_tables_that_are_not_there() {
    expect_refused("headers beyond the end", HEADERS_OFFSET, u64::MAX.to_le_bytes());
    expect_refused(
        "headers that straddle the end",
        HEADERS_OFFSET,
        (hello().len() as u64 - 8).to_le_bytes(),
    );
    expect_refused("no headers", HEADERS_COUNT, 0u16.to_le_bytes());
    expect_refused(
        "more headers than the file holds",
        HEADERS_COUNT,
        u16::MAX.to_le_bytes(),
    );
    expect_refused("headers of another size", HEADER_SIZE, 1u16.to_le_bytes());
}

#[test]
fn does_the_kernel_refuse_segments_that_cannot_be() {
    let first = headers(&hello())[0].at;
    expect_refused(
        "in the kernel's half",
        first + P_ADDRESS,
        0xffff_ffff_8000_0000u64.to_le_bytes(),
    );
    expect_refused(
        "at no address",
        first + P_ADDRESS,
        0x4141_4141_0000_0000u64.to_le_bytes(),
    );
    expect_refused(
        "over the end of the program's half",
        first + P_ADDRESS,
        0x7fff_ffff_f000u64.to_le_bytes(),
    );
    expect_refused(
        "out of step with the file",
        first + P_ADDRESS,
        0x40_0123u64.to_le_bytes(),
    );
    expect_refused(
        "larger than all memory",
        first + P_MEMORY_SIZE,
        (1u64 << 62).to_le_bytes(),
    );
    expect_refused("wrapping around", first + P_MEMORY_SIZE, u64::MAX.to_le_bytes());
    expect_refused(
        "smaller in memory than in the file",
        first + P_MEMORY_SIZE,
        1u64.to_le_bytes(),
    );
    expect_refused(
        "beyond the end of the file",
        first + P_OFFSET,
        (1u64 << 40).to_le_bytes(),
    );
    expect_refused(
        "wrapping around in the file",
        first + P_OFFSET,
        (u64::MAX - 4095).to_le_bytes(),
    );
}

#[test]
fn is_an_entry_that_cannot_be_the_programs_own_fault() {
    if !on_tollgate() {
        return;
    }
    for entry in [
        0,
        8,
        0xffff_ffff_8020_0000,
        0x8000_0000_0000,
        0x4141_4141_4141_4141,
        u64::MAX,
    ] {
        let mut image = hello();
        put(&mut image, ENTRY, entry.to_le_bytes());
        let run = boot(&image);
        assert_eq!(run.end, End::Signal(SIGSEGV), "{entry:#x}: {}", run.text());
    }
}
