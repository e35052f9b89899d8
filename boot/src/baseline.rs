//! A recorded run, kept in the tree, and what has become of its figures since: the project's performance test. It
//! compares counts, never times, so it answers the same on every machine.
//!
//! The counts follow from the sources, the compiler and QEMU, so a record names the versions it was made with. Under
//! the same ones a change of more than [`TOLERANCE`] percent in an instruction count, either way, or a figure that is
//! gone, is a failure; under others it is only reported. The dearest call and the counted events are reported.

use crate::experiment::Plan;
use crate::failure::Usage;
use crate::figures::{self, Difference, Figures, Kind};
use crate::preflight::Ready;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::path::Path;

/// By how many percent an instruction count may change before it is a failure.
pub const TOLERANCE: f64 = 3.0;
/// How many differences that are no failure are listed.
const LISTED: usize = 40;

/// What a run was made with.
#[derive(Debug, Clone, PartialEq)]
pub struct Versions {
    /// The compiler's version line.
    pub rustc: String,
    /// QEMU's version number: what a distribution appends to it changes no count.
    pub qemu: String,
}

impl Versions {
    /// Those of this run. Errors: the compiler does not answer.
    pub fn of(ready: &Ready) -> Result<Versions> {
        Ok(Versions {
            rustc: ready.toolchain.version()?,
            qemu: qemu_number(&ready.qemu_version),
        })
    }
}

/// `7.2.22` of `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)`.
fn qemu_number(line: &str) -> String {
    let number = line.split_whitespace().skip_while(|word| *word != "version").nth(1);
    number.unwrap_or(line).to_owned()
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// What it was made with.
    pub versions: Versions,
    /// What was run: runs of other settings are not comparable.
    pub settings: Value,
    /// What came out.
    pub figures: Figures,
}

impl Baseline {
    /// This run, for the record.
    pub fn new(versions: Versions, plan: &Plan, figures: Figures) -> Baseline {
        let settings = json!({
            "models": plan.models.iter().map(|m| m.name()).collect::<Vec<_>>().join(","),
            "rounds": plan.rounds,
            "accel": plan.machine.accel.name(),
            "cpus": plan.machine.cpus,
            "mem_mib": plan.machine.mem,
        });
        Baseline {
            versions,
            settings,
            figures,
        }
    }

    /// The file's text: JSON, a figure a line, so that a change shows as the lines that changed.
    pub fn text(&self) -> Result<String> {
        let figures: Map<String, Value> = self.figures.0.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let document = json!({
            "rustc": self.versions.rustc,
            "qemu": self.versions.qemu,
            "settings": self.settings,
            "figures": figures,
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    /// Reads a file's text. Errors: it is no such record.
    pub fn parse(text: &str) -> Result<Baseline> {
        let document: Value = serde_json::from_str(text).context("it is no JSON")?;
        let word = |key: &str| -> Result<String> {
            let word = document[key].as_str();
            Ok(word.with_context(|| format!("it names no {key}"))?.to_owned())
        };
        let figures = document["figures"].as_object().context("it has no figures")?;
        let figures = figures.iter().map(|(name, value)| {
            let value = value.as_f64().with_context(|| format!("its {name} is no number"))?;
            Ok((name.clone(), value))
        });
        Ok(Baseline {
            versions: Versions {
                rustc: word("rustc")?,
                qemu: word("qemu")?,
            },
            settings: document["settings"].clone(),
            figures: Figures(figures.collect::<Result<_>>()?),
        })
    }

    /// Reads a file. Errors: it cannot be read, or is no such record.
    pub fn read(path: &Path) -> Result<Baseline> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("--baseline {}: cannot read it: --update writes one", path.display()))?;
        Baseline::parse(&text).with_context(|| format!("--baseline {}", path.display()))
    }

    /// Refuses to compare with a run of other settings.
    pub fn check(&self, now: &Baseline) -> Result<()> {
        ensure!(
            self.settings == now.settings,
            Usage(format!(
                "the baseline was recorded with {}, this run is with {}: they are not comparable",
                self.settings, now.settings
            ))
        );
        Ok(())
    }

    /// Compares with a later run.
    pub fn compare(&self, now: &Baseline) -> Verdict {
        let (failures, others) = figures::compare(&self.figures, &now.figures)
            .into_iter()
            .partition(is_failure);
        Verdict {
            recorded: self.versions.clone(),
            now: now.versions.clone(),
            figures: now.figures.0.len(),
            failures,
            others,
        }
    }
}

fn is_failure(difference: &Difference) -> bool {
    figures::kind(&difference.name) == Kind::Instructions
        && difference.before.is_some()
        && difference.percent().abs() > TOLERANCE
}

/// What has become of a baseline's figures.
#[derive(Debug, Clone)]
pub struct Verdict {
    recorded: Versions,
    now: Versions,
    figures: usize,
    /// Instruction counts that changed by more than may be.
    pub failures: Vec<Difference>,
    /// Everything else that differs.
    pub others: Vec<Difference>,
}

impl Verdict {
    /// Whether both sides were made with the same compiler and QEMU.
    pub fn same_versions(&self) -> bool {
        self.recorded == self.now
    }

    /// Whether the run may stand: no failure, or one that other versions may have made.
    pub fn passes(&self) -> bool {
        self.failures.is_empty() || !self.same_versions()
    }

    /// The verdict in lines.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if !self.same_versions() {
            lines.push(format!(
                "the baseline was recorded with {}, QEMU {}; this run is with {}, QEMU {}: changes are reported, none fails",
                self.recorded.rustc, self.recorded.qemu, self.now.rustc, self.now.qemu
            ));
        }
        for difference in &self.failures {
            let worse = if difference.percent() > 0.0 && difference.now.is_some() {
                "dearer"
            } else if difference.now.is_some() {
                "cheaper"
            } else {
                "missing"
            };
            lines.push(format!("{worse}: {}", difference.line()));
        }
        for difference in self.others.iter().take(LISTED) {
            lines.push(format!("changed: {}", difference.line()));
        }
        if self.others.len() > LISTED {
            lines.push(format!(
                "and {} more within what is allowed",
                self.others.len() - LISTED
            ));
        }
        lines.push(match (self.failures.len(), self.others.len()) {
            (0, 0) => format!("all {} figures are the baseline's", self.figures),
            (0, others) => format!("no instruction count changed by more than {TOLERANCE} %; {others} figures differ"),
            (failures, _) => format!(
                "{failures} instruction counts changed by more than {TOLERANCE} %: if that is meant, record them by --update"
            ),
        });
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::Accel;
    use crate::table::tests::{plan, recorded};

    fn baseline(qemu: &str) -> Baseline {
        let versions = Versions {
            rustc: "rustc 1.95.0".into(),
            qemu: qemu.into(),
        };
        Baseline::new(versions, &plan(Accel::Icount), Figures::of(&recorded()))
    }

    #[test]
    fn a_record_reads_back() {
        let record = baseline("7.2.1");
        assert_eq!(Baseline::parse(&record.text().unwrap()).unwrap(), record);
        for bad in ["", "{}", "{\"rustc\":\"r\",\"qemu\":\"q\",\"figures\":{\"a\":\"b\"}}"] {
            assert!(Baseline::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn more_than_the_tolerance_fails_either_way() {
        let before = baseline("7.2.1");
        let name = "mqueue/object/mq_send/min";
        for (value, passes) in [(290.0, true), (298.0, true), (299.0, false), (281.0, false)] {
            let mut now = before.clone();
            now.figures.0.insert(name.into(), value);
            assert_eq!(before.compare(&now).passes(), passes, "{value}");
        }
        let mut now = before.clone();
        now.figures.0.insert(name.into(), 319.0);
        let verdict = before.compare(&now);
        assert!(
            verdict
                .text()
                .contains("dearer: mq_send under object (mqueue), min: 290 -> 319 (+10.00 %)")
        );
        now.figures.0.remove(name);
        assert!(!before.compare(&now).passes());
    }

    #[test]
    fn what_the_phase_moves_and_what_is_new_passes() {
        let before = baseline("7.2.1");
        let mut now = before.clone();
        now.figures.0.insert("mqueue/object/mq_send/max".into(), 9.0);
        now.figures.0.insert("msg/object/msgsnd/min".into(), 9.0);
        let verdict = before.compare(&now);
        assert!(verdict.passes());
        assert_eq!(verdict.others.len(), 2);
    }

    #[test]
    fn other_versions_only_report() {
        let before = baseline("7.2.1");
        let mut now = baseline("10.0.0");
        now.figures.0.insert("mqueue/object/mq_send/min".into(), 900.0);
        let verdict = before.compare(&now);
        assert!(verdict.passes() && verdict.failures.len() == 1);
        assert!(
            verdict
                .text()
                .contains("QEMU 7.2.1; this run is with rustc 1.95.0, QEMU 10.0.0")
        );
    }

    #[test]
    fn unlike_settings_are_refused() {
        let mut other = baseline("7.2.1");
        assert!(baseline("7.2.1").check(&other).is_ok());
        other.settings["rounds"] = json!(5);
        assert!(baseline("7.2.1").check(&other).is_err());
    }

    #[test]
    fn a_distributions_addition_is_no_version() {
        assert_eq!(
            qemu_number("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"),
            "7.2.22"
        );
        assert_eq!(qemu_number("QEMU emulator version 10.0.0"), "10.0.0");
    }
}
