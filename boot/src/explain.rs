//! Where the instructions of one call go: a trace ([`crate::trace`]) by phases and by functions.
//!
//! An instruction belongs to the innermost function, inlined ones included, whose source file is a phase's; what all
//! phases use (atomics, preemption, the standard library) belongs to the phase that called it. Nothing is estimated and
//! nothing left out, so the phases' sum is the table's number.

use crate::build::Guest;
use crate::console::Measured;
use crate::experiment;
use crate::model::{Cgroup, RowKey};
use crate::qemu::{self, Load, Machine, OneByOne};
use crate::table;
use crate::trace::{Code, KERNEL, Recorder};
use addr2line::Loader;
use anyhow::{Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The phases, in the order of the table and the bars, with what they are.
pub const PHASES: [(&str, &str); 14] = [
    ("program", "ring 3: the clock's reading and the call's registers"),
    ("entry", "from ring 3 to the call's function"),
    ("arguments", "the call's function: arguments, result"),
    ("descriptor", "from the number to the open queue, and its permission"),
    ("message", "making or giving back a message"),
    ("freelist", "the allocator's own work on an object"),
    ("charge", "which cgroup pays, and that it is known"),
    ("objcg", "references on the cgroup's object"),
    ("stock", "paying from the CPU's stock"),
    ("statistics", "counting the bytes in the cgroup's statistics"),
    ("copy", "to and from the program's memory"),
    ("queue", "into the queue or out of it, with its lock"),
    ("wake", "whom the call wakes or tells"),
    ("exit", "back to ring 3"),
];

/// Source files (by a part of their path) and the phase of what is written there; the first that fits.
const FILES: [(&str, &str); 17] = [
    ("kernel/src/arch/x86_64/usercopy.rs", "copy"),
    ("kernel/src/mm/", "copy"),
    ("kernel/memcg/src/statistics.rs", "statistics"),
    ("kernel/memcg/src/stock.rs", "stock"),
    ("kernel/memcg/src/page_counter.rs", "stock"),
    ("kernel/memcg/src/objcg.rs", "objcg"),
    ("kernel/memcg/src/", "charge"),
    // Containers: what is done with an object is its owner's.
    ("kernel/slab/src/object.rs", ""),
    ("kernel/slab/src/fifo.rs", ""),
    ("kernel/slab/src/", "freelist"),
    ("kernel/ipc/src/waiters.rs", "wake"),
    ("kernel/ipc/src/mqueue/notify.rs", "wake"),
    ("kernel/ipc/src/message.rs", "message"),
    ("kernel/ipc/src/cache.rs", "message"),
    ("kernel/ipc/src/", "queue"),
    ("kernel/src/fs/", "descriptor"),
    ("kernel/src/", "arguments"),
];

/// The phase of a function by its file, and by its name where the file holds two.
fn phase(file: &str, function: &str) -> Option<&'static str> {
    // A model's `count` is the statistics' caller: interrupts masked and the layer around them are its cost.
    if file.contains("kernel/memcg/src/models/") && function == "count" {
        return Some("statistics");
    }
    let (_, phase) = FILES.iter().find(|(part, _)| file.contains(part))?;
    Some(*phase).filter(|p| !p.is_empty())
}

/// One function that an instruction is in.
#[derive(Debug, Clone, PartialEq)]
struct Frame {
    function: String,
    file: String,
}

/// A kernel with its line tables.
pub struct Symbols {
    loader: Loader,
    code: Code,
}

impl Symbols {
    /// Of the kernel's ELF file. Errors: it cannot be read.
    pub fn of(kernel: &Path) -> Result<Symbols> {
        let loader = Loader::new(kernel).map_err(|e| anyhow!("{}: reading its line tables: {e}", kernel.display()))?;
        Ok(Symbols {
            loader,
            code: Code::of(&std::fs::read(kernel)?)?,
        })
    }

    /// The functions at an address, innermost first.
    fn frames(&self, pc: u64) -> Result<Vec<Frame>> {
        let mut found = Vec::new();
        let mut frames = self
            .loader
            .find_frames(pc)
            .map_err(|e| anyhow!("the kernel's line tables at {pc:#x}: {e}"))?;
        while let Some(frame) = frames
            .next()
            .map_err(|e| anyhow!("the kernel's line tables at {pc:#x}: {e}"))?
        {
            let name = frame
                .function
                .as_ref()
                .and_then(|f| f.demangle().ok().map(|n| plain(&n)));
            found.push(Frame {
                function: name.unwrap_or_else(|| "?".into()),
                file: frame.location.and_then(|l| l.file).unwrap_or("").to_owned(),
            });
        }
        if found.iter().all(|f| f.function == "?") {
            let function = plain(self.loader.find_symbol(pc).unwrap_or("?"));
            found = vec![Frame {
                function,
                file: String::new(),
            }];
        }
        Ok(found)
    }
}

/// A function's name without the hash of its symbol and without type parameters.
fn plain(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    let name = match name.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => front,
        _ => &name,
    };
    let mut depth = 0;
    name.chars()
        .filter(|c| match c {
            '<' => {
                depth += 1;
                false
            }
            '>' => {
                depth -= 1;
                false
            }
            ';' | ' ' => false,
            _ => depth == 0,
        })
        .collect()
}

/// The measured calls, in the order of the measuring program.
pub const CALLS: [&str; 3] = ["mq_send", "mq_receive", "getppid"];
/// Rounds of a traced boot: the first use of everything is over, and the log is short.
const ROUNDS: u64 = 20;

/// Boots a row traced and takes one steady-state call of each kind apart, in the order of [`CALLS`].
///
/// Errors: the boot's; a trace that is not as long as the program's own figure says.
pub fn run(machine: &Machine, one: OneByOne, guest: &Guest, key: RowKey, dir: &Path) -> Result<[Profile; 3]> {
    let program = std::fs::read(guest.program(experiment::PROGRAM)?)?;
    let path = format!("/bin/{}", experiment::PROGRAM);
    let argv = [path.clone(), ROUNDS.to_string()];
    let fs = experiment::file_system(&guest.kernel, &argv, &[(path, &program)])?;
    let cmdline = key.cmdline(Cgroup::User);
    let load = Load {
        kernel: &guest.kernel,
        initramfs: &fs,
        cmdline: &cmdline,
    };
    let (boot, recorder) = qemu::boot_traced(machine, &load, dir, one, Recorder::new(Code::of(&program)?))?;
    let boot = experiment::succeeded(boot)?;
    let measured = Measured::parse(&String::from_utf8_lossy(&boot.output))?;
    let symbols = Symbols::of(&guest.kernel)?;
    let traces = recorder.calls(CALLS.len())?;
    let mut profiles = [const {
        Profile {
            phases: BTreeMap::new(),
            stacks: BTreeMap::new(),
        }
    }; 3];
    let figures = [measured.tx.min, measured.rx.min, measured.getppid.min];
    for (index, (trace, figure)) in traces.iter().zip(figures).enumerate() {
        ensure!(
            trace.len() as f64 == figure,
            "{}: QEMU's execution log has {} instructions, the program measured {figure}",
            CALLS[index],
            trace.len()
        );
        profiles[index] = Profile::of(trace, &symbols)?;
    }
    Ok(profiles)
}

/// One call's instructions by phase and by stack.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// Instructions by phase; a phase without any is not in it.
    pub phases: BTreeMap<&'static str, u64>,
    /// Instructions by stack, outermost function first, joined by `;`.
    pub stacks: BTreeMap<String, u64>,
}

impl Profile {
    /// Of a trace.
    pub fn of(trace: &[u64], symbols: &Symbols) -> Result<Profile> {
        let mut profile = Profile::default();
        let mut callers: Vec<String> = Vec::new();
        let (mut entered, mut last) = (false, "entry");
        for &pc in trace {
            let (phase, stack) = if pc < KERNEL {
                ("program", "program".to_owned())
            } else {
                let frames = symbols.frames(pc)?;
                let own = frames.iter().find_map(|f| phase(&f.file, &f.function));
                let phase = match own {
                    Some(phase) => phase,
                    // The way in and out is assembly, without line tables.
                    None if frames.iter().any(|f| f.function == "syscall_entry") && !entered => "entry",
                    None if frames.iter().any(|f| f.function == "syscall_entry") => "exit",
                    // What the compiler gives to no line goes with what is before it.
                    None => last,
                };
                entered |= own.is_some();
                last = phase;
                let names: Vec<&str> = frames.iter().rev().map(|f| f.function.as_str()).collect();
                let here = names.join(";");
                let stack = callers
                    .iter()
                    .map(String::as_str)
                    .chain([here.as_str()])
                    .collect::<Vec<_>>()
                    .join(";");
                match symbols.code.at(pc) {
                    // call rel32, call r/m64
                    [0xe8, ..] => callers.push(here),
                    [0xff, m, ..] | [0x41, 0xff, m, ..] if m >> 3 & 7 == 2 => callers.push(here),
                    // ret
                    [0xc3, ..] => drop(callers.pop()),
                    _ => {}
                }
                (phase, stack)
            };
            *profile.phases.entry(phase).or_default() += 1;
            *profile.stacks.entry(stack).or_default() += 1;
        }
        Ok(profile)
    }

    /// All instructions.
    pub fn total(&self) -> u64 {
        self.phases.values().sum()
    }

    /// The stacks in the format of flame graphs: `a;b;c N`, a line a stack, below `root`.
    pub fn folded(&self, root: &str) -> String {
        let root = root.replace([' ', ';'], "");
        self.stacks
            .iter()
            .map(|(stack, count)| format!("{root};{stack} {count}\n"))
            .collect()
    }
}

/// The table: a line a phase, a column a row of the experiment.
pub fn render(call: &str, columns: &[(String, Profile)]) -> String {
    let head: Vec<&str> = ["phase"]
        .into_iter()
        .chain(columns.iter().map(|(name, _)| name.as_str()))
        .collect();
    let mut table = table::table(&head, 1);
    for (phase, _) in PHASES {
        let of = |p: &Profile| p.phases.get(phase).copied().unwrap_or(0);
        if columns.iter().any(|(_, p)| of(p) > 0) {
            table.add_row(
                [phase.to_owned()]
                    .into_iter()
                    .chain(columns.iter().map(|(_, p)| of(p).to_string())),
            );
        }
    }
    table.add_row(
        ["sum".to_owned()]
            .into_iter()
            .chain(columns.iter().map(|(_, p)| p.total().to_string())),
    );
    format!("{call}: instructions of one call, by phase\n{table}\n")
}

/// The same as stacked bars, one a column.
pub fn svg(call: &str, columns: &[(String, Profile)]) -> String {
    const COLOURS: [&str; 14] = [
        "#9e9e9e", "#4e79a7", "#a0cbe8", "#59a14f", "#f28e2b", "#ffbe7d", "#e15759", "#ff9d9a", "#b07aa1", "#d4a6c8",
        "#edc948", "#76b7b2", "#9c755f", "#bab0ac",
    ];
    const LEFT: u64 = 150;
    const WIDTH: u64 = 480;
    const BAR: u64 = 30;
    let most = columns.iter().map(|(_, p)| p.total()).max().unwrap_or(0).max(1);
    let bars = columns.len() as u64 * BAR + 40;
    let (width, height) = (LEFT + WIDTH + 60, bars + PHASES.len() as u64 / 2 * 20 + 10);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#777\">\n\
         <title>{call}: instructions by phase</title>\n<text x=\"8\" y=\"20\">{call}: instructions of one call</text>\n"
    );
    // Writing to a String cannot fail.
    for (index, (name, profile)) in columns.iter().enumerate() {
        let y = 32 + index as u64 * BAR;
        let _ = writeln!(text, "<text x=\"8\" y=\"{}\">{name}</text>", y + 16);
        let mut before = 0;
        for ((phase, _), colour) in PHASES.iter().zip(COLOURS) {
            let count = profile.phases.get(phase).copied().unwrap_or(0);
            let at = |n: u64| LEFT as f64 + n as f64 * WIDTH as f64 / most as f64;
            if count > 0 {
                let _ = writeln!(
                    text,
                    "<rect x=\"{:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"22\" fill=\"{colour}\"><title>{phase}: {count}</title></rect>",
                    at(before),
                    at(before + count) - at(before)
                );
            }
            before += count;
        }
        let x = LEFT + before * WIDTH / most + 6;
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{}\">{before}</text>", y + 16);
    }
    for (index, ((phase, what), colour)) in PHASES.iter().zip(COLOURS).enumerate() {
        let (x, y) = (8 + index as u64 % 2 * 340, bars + index as u64 / 2 * 20);
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{phase}<title>{what}</title></text>",
            x + 18,
            y + 11
        );
    }
    text + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(stock: u64) -> Profile {
        Profile {
            phases: [("entry", 10), ("stock", stock)]
                .into_iter()
                .filter(|p| p.1 > 0)
                .collect(),
            stacks: [("a;b".to_owned(), 10 + stock)].into(),
        }
    }

    #[test]
    fn a_place_has_a_phase() {
        assert_eq!(
            phase("/x/kernel/memcg/src/models/object.rs", "count"),
            Some("statistics")
        );
        assert_eq!(
            phase("/x/kernel/memcg/src/models/object.rs", "pre_alloc"),
            Some("charge")
        );
        assert_eq!(phase("/x/kernel/slab/src/object.rs", "fill"), None);
        assert_eq!(phase("/rustc/0/library/core/src/cell.rs", "get"), None);
        for (_, of) in FILES {
            assert!(of.is_empty() || PHASES.iter().any(|(p, _)| *p == of), "{of}");
        }
    }

    #[test]
    fn names_are_plain() {
        assert_eq!(
            plain("slab::accounted::alloc::h38bde6529c456a62"),
            "slab::accounted::alloc"
        );
        assert_eq!(plain("charge<memcg::stock::Single>"), "charge");
    }

    #[test]
    fn table_stacks_and_bars_have_every_instruction() {
        let columns = [
            ("off".to_owned(), profile(0)),
            ("object + cache".to_owned(), profile(30)),
        ];
        let text = render("mq_send", &columns);
        assert!(
            text.contains("| stock | 0 | 30 |") || text.contains("| stock |   0 |             30 |"),
            "{text}"
        );
        assert!(text.contains("40") && !text.contains("copy"));
        assert_eq!(columns[1].1.folded("object + cache"), "object+cache;a;b 40\n");
        let bars = svg("mq_send", &columns);
        assert_eq!(bars.matches("height=\"22\"").count(), 3);
        assert!(bars.contains("<title>stock: 30</title>") && bars.ends_with("</svg>\n"));
    }
}
