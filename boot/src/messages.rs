//! The second table: what System V messages cost under each variant of their totals' counters (`counters=`).
//!
//! The part of the default run counts instructions of one task, and so shows what a variant adds to a call that nobody
//! contends with; that contention is what per-CPU counters are for is what [`crate::scaling`] shows.

use crate::build::Guest;
use crate::console::Events;
use crate::counters::Counters;
use crate::experiment::{self, EVENT_ROUNDS};
use crate::latency::PerCall;
use crate::model::{Cgroup, Model, cmdline};
use crate::progress::Progress;
use crate::qemu::{self, Load, Machine};
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The measuring program.
pub const PROGRAM: &str = "msgtest";
/// Rounds of a boot. The counts repeat from round to round.
pub const ROUNDS: u64 = 10_000;
/// Bytes of the messages.
pub const SIZES: [u64; 2] = [16, 1024];
/// Numbers of other queues in use, of the flat line.
pub const OTHERS: [u64; 6] = [0, 1, 16, 256, 1024, 4096];
/// Real Linux 6.12 under the same QEMU, user cgroup: send and receive by size (instructions, minima).
pub const LINUX: [[u32; 2]; 2] = [[1442, 1403], [3081, 2626]];

/// Minima of one boot: send and receive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// `msgsnd`.
    pub send: f64,
    /// `msgrcv`.
    pub receive: f64,
}

impl Cost {
    /// Finds msgtest's line in what it printed. Errors: there is none, or it lacks a figure.
    pub fn parse(output: &str) -> Result<Cost> {
        let line = output
            .lines()
            .find_map(|line| line.trim_end().strip_prefix("msgtest: "))
            .context("msgtest printed no line starting 'msgtest: '")?;
        let json: Value = serde_json::from_str(line).with_context(|| format!("msgtest's result '{line}'"))?;
        let minimum = |call: &str| {
            let figure = json[call]["min"].as_f64();
            figure.with_context(|| format!("msgtest's result has no {call}.min"))
        };
        Ok(Cost {
            send: minimum("send")?,
            receive: minimum("receive")?,
        })
    }
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The variant.
    pub counters: Counters,
    /// By size.
    pub costs: [Cost; 2],
    /// Events of a call with the first size: send, receive.
    pub events: [PerCall; 2],
}

/// How many boots [`run`] reports.
pub fn steps() -> u64 {
    (Counters::ROWS.len() * (SIZES.len() + 1)) as u64
}

/// One boot of msgtest. Gives what it printed and the events that were counted.
fn boot(
    machine: &Machine,
    kernel: &Path,
    program: &[u8],
    counters: Counters,
    arguments: [u64; 3],
    dir: &Path,
) -> Result<qemu::Boot> {
    let path = format!("/bin/{PROGRAM}");
    let mut argv = vec![path.clone()];
    argv.extend(arguments.iter().map(u64::to_string));
    let fs = experiment::file_system(kernel, &argv, &[(path, program)])?;
    let words = format!("{} counters={counters}", cmdline(Model::Scoped, false, Cgroup::User));
    let load = Load {
        kernel,
        initramfs: &fs,
        cmdline: &words,
    };
    let boot = qemu::boot(machine, &load, dir, None, &AtomicBool::new(false))?;
    experiment::succeeded(boot).with_context(|| format!("booting {PROGRAM} with counters={counters}"))
}

fn cost(machine: &Machine, guest: &Guest, counters: Counters, arguments: [u64; 3], dir: &Path) -> Result<Cost> {
    let program = std::fs::read(guest.program(PROGRAM)?).context("reading msgtest")?;
    let boot = boot(machine, &guest.kernel, &program, counters, arguments, dir)?;
    Cost::parse(&String::from_utf8_lossy(&boot.output))
}

/// Measures all rows.
pub fn run(machine: &Machine, guest: &Guest, dir: &Path, progress: &Progress) -> Result<Vec<Row>> {
    let program = std::fs::read(guest.program(PROGRAM)?).context("reading msgtest")?;
    let instrumented = guest.kernel_events.as_deref();
    let instrumented = instrumented.context("the instrumented kernel was not built")?;
    let row = |&counters: &Counters| {
        progress.doing(&format!("booting {PROGRAM}, counters={counters}"));
        let mut costs = Vec::new();
        for size in SIZES {
            costs.push(cost(machine, guest, counters, [ROUNDS, size, 0], dir)?);
            progress.step();
        }
        let counted = boot(
            machine,
            instrumented,
            &program,
            counters,
            [EVENT_ROUNDS, SIZES[0], 0],
            dir,
        )?;
        progress.step();
        let call = |name: &str| {
            let events: Option<&Events> = counted.control.events.get(name);
            let each = events.and_then(PerCall::of);
            each.with_context(|| format!("the instrumented kernel counted no {name}"))
        };
        Ok(Row {
            counters,
            costs: [costs[0], costs[1]],
            events: [call("msgsnd")?, call("msgrcv")?],
        })
    };
    Counters::ROWS.iter().map(row).collect()
}

/// Costs of a 16-byte message beside so many other queues in use ([`OTHERS`]).
pub fn flat_line(machine: &Machine, guest: &Guest, dir: &Path, progress: &Progress) -> Result<Vec<Cost>> {
    let one = |others: &u64| {
        progress.doing(&format!("booting {PROGRAM} beside {others} queues"));
        let cost = cost(machine, guest, Counters::Local, [ROUNDS, SIZES[0], *others], dir);
        progress.step();
        cost
    };
    OTHERS.iter().map(one).collect()
}

/// A table whose first column is a name and the others are numbers.
pub(crate) fn numbers(head: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .force_no_tty();
    table.set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The section of the default run.
pub fn render(rows: &[Row], unit: &str) -> String {
    let mut text = format!(
        "msgsnd and msgrcv of one message, one task in a user cgroup, by how the namespace counts its messages and bytes\n\
         ({unit} per call, minima of {ROUNDS} rounds). This is what a variant adds to a call: its overhead, and not the\n\
         contention that per-CPU counters are made for. That is in `tollgate msg`.\n"
    );
    let mut costs = numbers(&[
        "counters",
        "msgsnd 16 B",
        "msgrcv 16 B",
        "msgsnd 1024 B",
        "msgrcv 1024 B",
    ]);
    for row in rows {
        let mut cells = vec![row.counters.to_string()];
        cells.extend(
            row.costs
                .iter()
                .flat_map(|cost| [cost.send, cost.receive])
                .map(|value| format!("{value:.0}")),
        );
        costs.add_row(cells);
    }
    if unit == "instructions" {
        let mut cells = vec!["(Linux 6.12)".to_owned()];
        cells.extend(LINUX.iter().flatten().map(u32::to_string));
        costs.add_row(cells);
    }
    let mut events = numbers(&[
        "counters",
        "msgsnd locked",
        "irq",
        "preempt",
        "shared",
        "msgrcv locked",
        "irq",
        "preempt",
        "shared",
    ]);
    for row in rows {
        let mut cells = vec![row.counters.to_string()];
        for e in &row.events {
            cells.extend([e.locked, e.irq_flag, e.preempt, e.shared_lines].map(|value| format!("{value:.2}")));
        }
        events.add_row(cells);
    }
    // Writing to a String cannot fail.
    _ = writeln!(
        text,
        "{costs}\n\nCounted events per call of 16 bytes, columns as above:\n{events}"
    );
    text
}

/// The flat line, as text.
pub fn render_flat_line(costs: &[Cost]) -> String {
    let mut table = numbers(&["other queues in use", "msgsnd 16 B", "msgrcv 16 B"]);
    for (others, cost) in OTHERS.iter().zip(costs) {
        table.add_row([
            others.to_string(),
            format!("{:.0}", cost.send),
            format!("{:.0}", cost.receive),
        ]);
    }
    format!(
        "A message beside other queues, each holding one and in turn given and relieved of another (instructions):\n{table}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "msgtest: {\"rounds\":10,\"size\":16,\"queues\":0,\"send\":{\"min\":311,\"avg\":312,\"max\":900},\
                        \"receive\":{\"min\":323,\"avg\":324,\"max\":500}}\r\n";

    #[test]
    fn reads_msgtest() {
        let cost = Cost::parse(LINE).unwrap();
        assert_eq!((cost.send, cost.receive), (311.0, 323.0));
        assert!(Cost::parse("msgtest: {}").is_err() && Cost::parse("").is_err());
    }

    #[test]
    fn rows_are_by_variant() {
        let cost = Cost::parse(LINE).unwrap();
        let each = PerCall {
            locked: 2.0,
            ..PerCall::default()
        };
        let rows = [Row {
            counters: Counters::Batch(1024),
            costs: [cost; 2],
            events: [each; 2],
        }];
        let text = render(&rows, "instructions");
        assert!(text.contains("| batch=1024   |         311 |         323 |"), "{text}");
        assert!(text.contains("not the\ncontention") && text.contains("1442"), "{text}");
        assert!(!render(&rows, "ns").contains("1442"));
        let line = render_flat_line(&[cost; 6]);
        assert!(
            line.lines().filter(|l| l.contains("311") && l.contains("323")).count() == OTHERS.len(),
            "{line}"
        );
    }
}
