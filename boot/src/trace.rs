//! One call's instructions, as QEMU's execution log has them: every instruction between two readings of the clock.
//!
//! QEMU translates one instruction at a time (`-singlestep`; `one-insn-per-tb=on` since 8.1) and logs each before it
//! runs (`-d exec,nochain`). Instruction counting goes on meanwhile, so the figures that the program prints in such a
//! boot are those of any other. The measuring program's `rdtsc` instructions are the marks: what runs from one of them
//! to the next, the first included, is as many instructions as the difference of their readings.

use anyhow::{Context, Result, ensure};
use elf::{ElfBytes, abi, endian::AnyEndian};
use std::collections::BTreeMap;

/// The opcode of `rdtsc`.
const RDTSC: [u8; 2] = [0x0f, 0x31];
/// A stretch longer than this is no call: it is forgotten, so that a log without marks fills no memory.
const LONGEST: usize = 1 << 20;
/// The lowest address of the kernel's half.
pub const KERNEL: u64 = 0xffff_8000_0000_0000;

/// The bytes of an executable's code by address.
pub struct Code(Vec<(u64, Vec<u8>)>);

impl Code {
    /// Of an ELF image. Errors: it is none.
    pub fn of(image: &[u8]) -> Result<Code> {
        let file = ElfBytes::<AnyEndian>::minimal_parse(image).context("reading an ELF image")?;
        let segments = file.segments().context("the ELF image has no segments")?;
        let mut code = Vec::new();
        for segment in segments
            .iter()
            .filter(|s| s.p_type == abi::PT_LOAD && s.p_flags & abi::PF_X != 0)
        {
            code.push((segment.p_vaddr, file.segment_data(&segment)?.to_vec()));
        }
        Ok(Code(code))
    }

    /// What is at an address: as many bytes as there are.
    pub fn at(&self, address: u64) -> &[u8] {
        self.0
            .iter()
            .find_map(|(start, bytes)| bytes.get(usize::try_from(address.checked_sub(*start)?).ok()?..))
            .unwrap_or(&[])
    }
}

/// The address of a line of the execution log: `Trace 0: 0x7f00 [cs_base/PC/flags/cflags] symbol`.
fn address(line: &str) -> Option<u64> {
    let inside = line.strip_prefix("Trace ")?.split_once('[')?.1;
    u64::from_str_radix(inside.split('/').nth(1)?, 16).ok()
}

/// What runs between two marks.
struct Kind {
    /// How many kinds were met before it.
    met: usize,
    /// How often it ran.
    times: u64,
    shortest: Vec<u64>,
}

/// Takes the log as it comes and keeps of each kind of call the shortest stretch.
pub struct Recorder {
    program: Code,
    current: Option<Vec<u64>>,
    /// By the addresses of the two marks.
    kinds: BTreeMap<(u64, u64), Kind>,
}

impl Recorder {
    /// For the marks in this program's code.
    pub fn new(program: Code) -> Recorder {
        Recorder {
            program,
            current: None,
            kinds: BTreeMap::new(),
        }
    }

    /// Takes a line of the log.
    pub fn line(&mut self, line: &str) {
        let Some(address) = address(line) else { return };
        if address < KERNEL && self.program.at(address).starts_with(&RDTSC) {
            if let Some(stretch) = self.current.take() {
                self.keep(address, stretch);
            }
            self.current = Some(Vec::new());
        }
        if let Some(stretch) = &mut self.current {
            stretch.push(address);
            if stretch.len() > LONGEST {
                self.current = None;
            }
        }
    }

    fn keep(&mut self, end: u64, stretch: Vec<u64>) {
        let met = self.kinds.len();
        let kind = self.kinds.entry((stretch[0], end)).or_insert_with(|| Kind {
            met,
            times: 0,
            shortest: stretch.clone(),
        });
        kind.times += 1;
        if stretch.len() < kind.shortest.len() {
            kind.shortest = stretch;
        }
    }

    /// The shortest stretch of each kind that repeats and always enters the kernel, in the order of the program.
    ///
    /// Errors: there are not `expected` kinds.
    pub fn calls(self, expected: usize) -> Result<Vec<Vec<u64>>> {
        let mut found: Vec<Kind> = self.kinds.into_values().collect();
        // What runs once is the way from one loop to the next; what stays in ring 3 is between two calls.
        found.retain(|kind| kind.times > 1 && kind.shortest.iter().any(|pc| *pc >= KERNEL));
        found.sort_by_key(|kind| kind.met);
        ensure!(
            found.len() == expected,
            "QEMU's execution log shows {} kinds of measured call, not {expected}",
            found.len()
        );
        Ok(found.into_iter().map(|kind| kind.shortest).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_an_address() {
        let line = "Trace 0: 0x7fb3d47462c0 [0000000000000000/0000000000401a34/18c0c2b3/ff020201] ";
        assert_eq!(address(line), Some(0x40_1a34));
        assert_eq!(
            address("Trace 1: 0x1 [0/ffffffff80200140/1/2] syscall_entry"),
            Some(0xffff_ffff_8020_0140)
        );
        assert_eq!(address("qemu: something else [1/2]"), None);
    }

    #[test]
    fn stretches_run_from_mark_to_mark() {
        // A mark at 0x10, one at 0x14, between them a call; then back to the first.
        let mut bytes = vec![0x90; 16];
        bytes[0..2].copy_from_slice(&RDTSC);
        bytes[4..6].copy_from_slice(&RDTSC);
        let mut recorder = Recorder::new(Code(vec![(0x10, bytes)]));
        let kernel = KERNEL + 1;
        let log = [
            0x12, 0x10, 0x12, kernel, kernel, 0x14, 0x16, 0x10, 0x12, kernel, 0x14, kernel, 0x14, 0x16, 0x10,
        ];
        for pc in log {
            recorder.line(&format!("Trace 0: 0x1 [0/{pc:x}/0/0]"));
        }
        assert_eq!(recorder.calls(1).unwrap(), [vec![0x10, 0x12, kernel]]);
    }

    #[test]
    fn no_marks_no_calls() {
        assert!(Recorder::new(Code(Vec::new())).calls(3).is_err());
    }
}
