//! Results as a set of named figures: what two runs are compared by, whatever tables they come from.
//!
//! A figure's name is `TABLE/ROW/CALL/WHAT`, as in `mqueue/object + cache/mq_send/min`. A table that wants to be
//! compared adds its figures under a name of its own; nothing that compares knows of rows and calls.

use crate::experiment::Row;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How a figure may differ between two versions of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Instructions of a typical call: what the sources decide.
    Instructions,
    /// The dearest call, a time of start-up: an interrupt's phase decides it too, which any change moves.
    Phase,
    /// An event's number per call.
    Event,
}

/// The figures of a run, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures(pub BTreeMap<String, f64>);

impl Figures {
    /// Every figure of the experiment's rows.
    pub fn of(rows: &[Row]) -> Figures {
        let mut figures = Figures::default();
        for row in rows {
            let name = row.key.name();
            let calls = [
                ("mq_receive", row.measured.rx, row.events.rx),
                ("mq_send", row.measured.tx, row.events.tx),
                ("getppid", row.measured.getppid, row.events.getppid),
            ];
            for (call, stat, events) in calls {
                let mut add = |what: &str, value| figures.add("mqueue", &name, call, what, value);
                add("min", stat.min);
                add("avg", stat.avg);
                add("max", stat.max);
                add("locked", events.locked);
                add("irq_flag", events.irq_flag);
                add("preempt", events.preempt);
                add("shared_lines", events.shared_lines);
                add("charges", events.charges);
                add("references", events.references);
            }
            for (counter, value) in &row.counts {
                figures.add("mqueue", &name, "counts", counter, *value as f64);
            }
            if let Some(tsc) = row.first_user_tsc {
                figures.add("mqueue", &name, "boot", "first_user_instruction", tsc as f64);
            }
        }
        figures
    }

    /// Adds one figure.
    pub fn add(&mut self, table: &str, row: &str, call: &str, what: &str, value: f64) {
        self.0.insert(format!("{table}/{row}/{call}/{what}"), value);
    }
}

/// What kind of figure has this name.
pub fn kind(name: &str) -> Kind {
    match name.rsplit('/').next() {
        Some("min" | "avg") => Kind::Instructions,
        Some("max" | "first_user_instruction") => Kind::Phase,
        _ => Kind::Event,
    }
}

/// One figure that is not the same on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The figure's name.
    pub name: String,
    /// Its value before; `None`: it was not there.
    pub before: Option<f64>,
    /// Its value now; `None`: it is there no more.
    pub now: Option<f64>,
}

impl Difference {
    /// The change in percent of the value before; infinite where there is none, or it was 0.
    pub fn percent(&self) -> f64 {
        match (self.before, self.now) {
            (Some(before), Some(now)) if before != 0.0 => (now - before) / before * 100.0,
            _ => f64::INFINITY,
        }
    }

    /// One line for the person: call and row first, then what became of the figure.
    pub fn line(&self) -> String {
        let parts: Vec<&str> = self.name.splitn(4, '/').collect();
        let mut text = match parts.as_slice() {
            [table, row, call, what] => format!("{call} under {row} ({table}), {what}: "),
            _ => format!("{}: ", self.name),
        };
        let _ = match (self.before, self.now) {
            (Some(before), Some(now)) if before != 0.0 => write!(text, "{before} -> {now} ({:+.2} %)", self.percent()),
            (Some(before), Some(now)) => write!(text, "{before} -> {now}"),
            (Some(before), None) => write!(text, "{before} -> gone"),
            (None, Some(now)) => write!(text, "new, {now}"),
            (None, None) => write!(text, "nowhere"),
        };
        text
    }
}

/// What differs, in the order of the names.
pub fn compare(before: &Figures, now: &Figures) -> Vec<Difference> {
    let mut names: Vec<&String> = before.0.keys().chain(now.0.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| Difference {
            name: name.clone(),
            before: before.0.get(name).copied(),
            now: now.0.get(name).copied(),
        })
        .filter(|d| d.before != d.now)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::recorded;

    #[test]
    fn every_figure_has_a_name() {
        let figures = Figures::of(&recorded());
        assert_eq!(figures.0["mqueue/object/mq_receive/min"], 280.0);
        assert_eq!(figures.0["mqueue/object + cache/mq_send/max"], 1500.0);
        assert_eq!(figures.0["mqueue/local-lock/mq_send/irq_flag"], 4.0);
        assert_eq!(figures.0["mqueue/page/counts/charges"], 7.0);
        // Three calls of nine figures, a counter and the start of ring 3.
        assert_eq!(figures.0.len(), 12 * (3 * 9 + 2));
        assert!(compare(&figures, &figures).is_empty());
    }

    #[test]
    fn differences_are_named_by_call_and_model() {
        let mut rows = recorded();
        let before = Figures::of(&rows);
        rows[2].measured.tx.min += 29.0;
        rows[2].counts.clear();
        rows[3].counts.insert("drains".into(), 2);
        let found = compare(&before, &Figures::of(&rows));
        let lines: Vec<String> = found.iter().map(Difference::line).collect();
        assert_eq!(
            lines,
            [
                "counts under object (mqueue), charges: 7 -> gone",
                "mq_send under object (mqueue), min: 290 -> 319 (+10.00 %)",
                "counts under task-stock (mqueue), drains: new, 2",
            ]
        );
    }

    #[test]
    fn kinds_follow_the_last_part() {
        assert_eq!(kind("a/b/c/min"), Kind::Instructions);
        assert_eq!(kind("a/b/c/max"), Kind::Phase);
        assert_eq!(kind("a/b/c/locked"), Kind::Event);
    }
}
