//! The tables on standard output: the thread's columns with this run's figures, then what explains them.
//!
//! Three tables with the same rows, each narrow enough to read: the calls' cost in the thread's columns; the counted
//! events per call; the modelled time beside the published nanoseconds. Nothing in them depends on the terminal, the
//! clock or the host.

use crate::experiment::{Plan, Row, RowEvents};
use crate::findings;
use crate::latency::{self, PerCall};
use crate::model::{Model, RowKey};
use crate::published::{self, variation};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::fmt::Write;

/// The row that variations refer to: `page` without the cache, else the first.
pub fn base(rows: &[Row]) -> Option<&Row> {
    rows.iter()
        .find(|r| {
            r.key
                == RowKey {
                    model: Model::Page,
                    msgcache: false,
                }
        })
        .or(rows.first())
}

/// Everything that the command prints for a finished plan.
pub fn render(plan: &Plan, rows: &[Row]) -> String {
    let Some(base) = base(rows) else { return String::new() };
    let unit = plan.unit();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |s: &str| writeln!(text, "{s}").unwrap_or_default();

    line(&format!(
        "mq_send and mq_receive of one 256-byte message (queue of 10, O_NONBLOCK, one task in a user cgroup, {} rounds):",
        plan.rounds
    ));
    line(&format!(
        "{unit} per call, the rdtsc pair's own two instructions included; variation against {}, (base - value) / value",
        base.key.name()
    ));
    if unit == "ticks" {
        line("(several CPUs: a tick is an instruction of any of them, so these are not instructions per call)");
    }
    line(&costs(base, rows, unit).to_string());
    line("");
    line("Counted events per call, from the instrumented kernel (a boot of its own, not the one measured above):");
    line(
        "locked operations / interrupt-flag changes / preemption-count changes / writes to cache lines that other CPUs write /",
    );
    line(
        "charges and uncharges of stocks and page counters / references taken and dropped (getppid: none of any kind, unless shown)",
    );
    line(&events(rows).to_string());
    line("");
    if unit == "instructions" {
        line(&format!(
            "Modelled time (a model, not a measurement: {} instruction a cycle at {} GHz, {} cycles a locked operation, {} an",
            1.0 / latency::CPI,
            latency::CLOCK_GHZ,
            latency::LOCKED,
            latency::IRQ_FLAG
        ));
        line(&format!(
            "interrupt-flag change; 'contended' adds {} cycles for each shared line), beside the published nanoseconds (min / avg / max):",
            latency::SHARED_LINE
        ));
    } else {
        line("The published nanoseconds (min / avg / max):");
    }
    line(&times(rows, unit == "instructions").to_string());
    line("");
    let findings = findings::order(rows, unit == "instructions");
    if !findings.is_empty() {
        line("Does the published order come out? (measured minima against published minima)");
    }
    for finding in findings {
        line(&format!("- {}: {}", finding.claim, finding.verdict()));
        line(&format!("    published         {}", finding.published));
        line(&format!("    {unit:<17} {}", finding.measured));
        if let Some(ns) = finding.modelled_ns {
            line(&format!("    modelled ns       {ns}"));
        }
    }
    line("");
    line(&crate::findings::open_question(rows, unit));
    text
}

pub(crate) fn table(head: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .force_no_tty();
    table.set_header(head);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(if i < left {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    table
}

/// A figure: whole as it is, else with one decimal.
fn figure(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

fn percent(base: f64, value: f64) -> String {
    // Adding zero turns a negative zero into a positive one.
    format!("{:.2} %", variation(base, value) + 0.0)
}

fn costs(base: &Row, rows: &[Row], unit: &str) -> Table {
    let head = [
        "kernel".to_owned(),
        format!("RX min ({unit})"),
        "avg".into(),
        "max".into(),
        "var. min".into(),
        "var. avg".into(),
        format!("TX min ({unit})"),
        "avg".into(),
        "max".into(),
        "var. min".into(),
        "var. avg".into(),
        "getppid".into(),
        "var.".into(),
    ];
    let mut table = table(&head.each_ref().map(String::as_str), 1);
    for row in rows {
        let (m, b) = (&row.measured, &base.measured);
        let mut cells = vec![row.key.name()];
        for (mine, its) in [(&m.rx, &b.rx), (&m.tx, &b.tx)] {
            cells.extend([figure(mine.min), figure(mine.avg), figure(mine.max)]);
            cells.extend([percent(its.min, mine.min), percent(its.avg, mine.avg)]);
        }
        cells.extend([figure(m.getppid.avg), percent(b.getppid.avg, m.getppid.avg)]);
        table.add_row(cells);
    }
    table
}

/// Events come in whole numbers per call, unless something rare fell into the run.
fn count(value: f64) -> String {
    if (value - value.round()).abs() < 0.005 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn events(rows: &[Row]) -> Table {
    let mut head = vec!["kernel"];
    type Call = (&'static str, fn(&RowEvents) -> &PerCall);
    let calls: [Call; 3] = [
        ("RX locked", |e| &e.rx),
        ("TX locked", |e| &e.tx),
        ("getppid locked", |e| &e.getppid),
    ];
    // A call that does nothing of any kind in any row needs no columns.
    let calls: Vec<_> = calls
        .into_iter()
        .filter(|(_, of)| rows.iter().any(|row| *of(&row.events) != PerCall::default()))
        .collect();
    for (locked, _) in &calls {
        head.extend([*locked, "irq", "preempt", "shared", "charges", "refs"]);
    }
    let mut table = table(&head, 1);
    for row in rows {
        let mut cells = vec![row.key.name()];
        for (_, of) in &calls {
            let e = of(&row.events);
            cells.extend([e.locked, e.irq_flag, e.preempt, e.shared_lines, e.charges, e.references].map(count));
        }
        table.add_row(cells);
    }
    table
}

fn times(rows: &[Row], modelled: bool) -> Table {
    let mut head = vec!["kernel"];
    if modelled {
        head.extend([
            "model RX ns",
            "contended",
            "model TX ns",
            "contended",
            "model getppid ns",
        ]);
    }
    head.extend(["published as", "RX ns", "TX ns", "getppid ns"]);
    let mut table = table(&head, 1);
    for row in rows {
        let mut cells = vec![row.key.name()];
        if modelled {
            let both = |min: f64, e: &PerCall| {
                [latency::alone(min, e), latency::contended(min, e)].map(|ns| format!("{ns:.0}"))
            };
            cells.extend(both(row.measured.rx.min, &row.events.rx));
            cells.extend(both(row.measured.tx.min, &row.events.tx));
            cells.push(format!(
                "{:.0}",
                latency::alone(row.measured.getppid.min, &row.events.getppid)
            ));
        }
        let published: Vec<_> = published::of(row.key).collect();
        let lines = |f: &dyn Fn(&published::Published) -> String| match published.as_slice() {
            [] => "-".to_owned(),
            some => some.iter().map(|p| f(p)).collect::<Vec<_>>().join("\n"),
        };
        let three = |t: [u32; 3]| t.map(|v| v.to_string()).join(" / ");
        cells.push(lines(&|p| p.kernel.to_owned()));
        cells.push(lines(&|p| three(p.rx)));
        cells.push(lines(&|p| three(p.tx)));
        cells.push(lines(&|p| p.getppid.to_string()));
        table.add_row(cells);
    }
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::console::{Measured, Stat};
    use crate::qemu::{Accel, Machine};
    use std::time::Duration;

    /// Rows with round figures, for the tests of what is made of them.
    pub(crate) fn recorded() -> Vec<Row> {
        let cost = |key: RowKey| {
            let plain = match key.model {
                Model::Off => 150.0,
                Model::Page => 200.0,
                Model::Object => 280.0,
                Model::TaskStock | Model::LocalLock => 240.0,
                Model::Scoped => 220.0,
            };
            if key.msgcache { 140.0 } else { plain }
        };
        RowKey::rows(&Model::ALL)
            .into_iter()
            .map(|key| {
                let stat = |min: f64| Stat {
                    min,
                    avg: min + 0.5,
                    max: min * 10.0,
                };
                let irq_flag = if key.model == Model::LocalLock { 4.0 } else { 0.0 };
                let each = PerCall {
                    locked: 2.0,
                    irq_flag,
                    preempt: 2.25,
                    shared_lines: 1.0,
                    charges: 2.0,
                    references: 3.0,
                };
                Row {
                    key,
                    measured: Measured {
                        rounds: 100_000,
                        rx: stat(cost(key)),
                        tx: stat(cost(key) + 10.0),
                        getppid: Stat {
                            min: 40.0,
                            avg: 40.0,
                            max: 41.0,
                        },
                    },
                    events: RowEvents {
                        rx: each,
                        tx: each,
                        getppid: PerCall::default(),
                    },
                    first_user_tsc: Some(9_000_000),
                    counts: [("charges".to_owned(), 7)].into(),
                }
            })
            .collect()
    }

    pub(crate) fn plan(accel: Accel) -> Plan {
        Plan {
            machine: Machine {
                qemu: "q".into(),
                accel,
                cpus: 1,
                mem: 256,
                timeout: Duration::from_secs(1),
            },
            models: Model::ALL.to_vec(),
            rounds: 100_000,
        }
    }

    fn cells(text: &str, start: &str) -> Vec<String> {
        let line = text
            .lines()
            .find(|l| l.starts_with(start))
            .unwrap_or_else(|| panic!("no line {start} in\n{text}"));
        line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect()
    }

    #[test]
    fn rows_are_in_the_threads_columns() {
        let text = render(&plan(Accel::Icount), &recorded());
        assert_eq!(
            cells(&text, "| object "),
            [
                "object", "280", "280.5", "2800", "-28.57 %", "-28.52 %", "290", "290.5", "2900", "-27.59 %",
                "-27.54 %", "40", "0.00 %"
            ]
        );
        assert_eq!(cells(&text, "| page ")[4..6], ["0.00 %", "0.00 %"]);
        assert!(text.contains("RX min (instructions)"));
        assert!(text.contains("100000 rounds"));
    }

    #[test]
    fn explanations_stand_beside() {
        let text = render(&plan(Accel::Icount), &recorded());
        let events = text.split("Counted events").nth(1).unwrap();
        assert_eq!(cells(events, "| local-lock ")[1..5], ["2", "4", "2.25", "1"]);
        let times = text.split("Modelled time").nth(1).unwrap();
        // (240 + 36 + 26) / 2.2 and with 75 more.
        assert_eq!(cells(times, "| local-lock ")[1..3], ["137", "171"]);
        assert!(times.contains("4.18.45") && times.contains("351 / 382 / 17533"));
        assert_eq!(cells(times, "| scoped ")[6], "-");
        assert!(text.contains("Open question"));
    }

    #[test]
    fn wall_clock_says_ns_and_models_nothing() {
        let text = render(&plan(Accel::Tcg), &recorded());
        assert!(
            text.contains("RX min (ns)") && !text.contains("Modelled time") && !text.contains("instructions per call")
        );
    }

    #[test]
    fn same_rows_same_bytes() {
        let of = || render(&plan(Accel::Icount), &recorded());
        assert_eq!(of(), of());
        assert!(!of().lines().any(|l| l.contains("-0.00")));
    }

    #[test]
    fn without_page_the_first_row_is_the_base() {
        let rows: Vec<Row> = recorded()
            .into_iter()
            .filter(|r| r.key.model == Model::Scoped)
            .collect();
        assert!(render(&plan(Accel::Icount), &rows).contains("variation against scoped,"));
        assert_eq!(render(&plan(Accel::Icount), &[]), "");
    }
}
