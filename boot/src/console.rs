//! What the kernel says about itself: the control lines on the second serial line, and mqtest's result on the first.
//!
//! A control line stands alone and starts with `tollgate: `. Everything else on that line is the kernel's log. A line
//! that starts so but says nothing known is kept as log: a newer kernel may say more than this reader asks for.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// How the guest's first program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// It exited with this status (0 to 255).
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
}

/// Events of one system call in the instrumented kernel: totals over `calls` calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events {
    /// How often the call was made.
    pub calls: u64,
    /// Lock-prefixed (or implicitly locked) operations.
    pub locked: u64,
    /// Changes of the interrupt flag, each way counted once.
    pub irq_flag: u64,
    /// Changes of the preemption count, each way counted once.
    pub preempt: u64,
    /// Writes to cache lines that other CPUs write too.
    pub shared_lines: u64,
    /// Charges to, and uncharges from, stocks and page counters.
    pub charges: u64,
    /// References taken or dropped on cgroups, objcgs and copies of caches.
    pub references: u64,
}

/// Everything that one boot's control lines said.
#[derive(Debug, Clone, Default)]
pub struct Control {
    /// `tollgate: boot`: the settings the kernel booted with.
    pub boot: Option<BTreeMap<String, String>>,
    /// TSC at the first user instruction.
    pub first_user_tsc: Option<u64>,
    /// How the first program ended.
    pub end: Option<ProgramEnd>,
    /// What was not given back when all processes were gone.
    pub leaks: Vec<String>,
    /// `tollgate: race…`: what the show of races said, line by line (see [`crate::races`]).
    pub races: Vec<String>,
    /// Events by system call (instrumented kernel only).
    pub events: BTreeMap<String, Events>,
    /// Counters of memory accounting at the end of the run; a cgroup's own as `cgroupN.NAME`.
    pub counts: BTreeMap<String, u64>,
    /// The reason of a kernel panic.
    pub panic: Option<String>,
    /// Registers and backtrace of a panic.
    pub trace: Vec<String>,
    /// The kernel's log: every line that is no control line.
    pub log: Vec<String>,
}

/// Splits `k=v k=v`; a word without `=` is skipped.
pub(crate) fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_ascii_whitespace().filter_map(|word| word.split_once('='))
}

impl Control {
    /// How many CPUs ran, as `tollgate: boot` says.
    pub fn cpus(&self) -> Option<u32> {
        self.boot.as_ref()?.get("cpus")?.parse().ok()
    }

    /// Reads all lines of the second serial line.
    pub fn parse(text: &str) -> Control {
        let mut control = Control::default();
        for line in text.lines() {
            let line = line.trim_end_matches('\r');
            if !line.strip_prefix("tollgate: ").is_some_and(|rest| control.take(rest)) && !line.trim().is_empty() {
                control.log.push(line.to_owned());
            }
        }
        control
    }

    /// Takes what follows `tollgate: `; false if it is nothing known.
    fn take(&mut self, text: &str) -> bool {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "boot" => self.boot = Some(pairs(rest).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()),
            "first-user-instruction" => {
                let tsc = pairs(rest).find(|(k, _)| *k == "tsc").and_then(|(_, v)| v.parse().ok());
                self.first_user_tsc = tsc;
                return tsc.is_some();
            }
            "exit" => match pairs(rest).next().map(|(k, v)| (k, v.parse::<i32>())) {
                Some(("code", Ok(code))) => self.end = Some(ProgramEnd::Code(code & 0xff)),
                Some(("signal", Ok(signal))) => self.end = Some(ProgramEnd::Signal(signal)),
                _ => return false,
            },
            "leak" => self.leaks.push(rest.to_owned()),
            "race" | "race-safe" => self.races.push(text.to_owned()),
            "events" => {
                let Some(name) = rest.split_ascii_whitespace().next() else {
                    return false;
                };
                let mut events = Events::default();
                for (key, value) in pairs(rest) {
                    let Ok(value) = value.parse() else { return false };
                    match key {
                        "calls" => events.calls = value,
                        "locked" => events.locked = value,
                        "irq_flag" => events.irq_flag = value,
                        "preempt" => events.preempt = value,
                        "shared_lines" => events.shared_lines = value,
                        "charges" => events.charges = value,
                        "references" => events.references = value,
                        _ => {}
                    }
                }
                self.events.insert(name.to_owned(), events);
            }
            "counts" => {
                // A line may be one cgroup's: its number tells the counters of several apart.
                let group = pairs(rest)
                    .find(|(k, _)| *k == "cgroup")
                    .map(|(_, v)| format!("cgroup{v}."));
                let prefix = group.unwrap_or_default();
                let counters = pairs(rest).filter(|(k, _)| *k != "cgroup");
                self.counts
                    .extend(counters.filter_map(|(k, v)| Some((format!("{prefix}{k}"), v.parse().ok()?))));
            }
            // A panic while panicking may print a second line; the first is the cause.
            "panic" => {
                self.panic.get_or_insert_with(|| rest.to_owned());
            }
            "|" => self.trace.push(rest.to_owned()),
            _ => return false,
        }
        true
    }
}

/// Minimum, average and maximum of one measured call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stat {
    /// The cheapest call.
    pub min: f64,
    /// Sum over count.
    pub avg: f64,
    /// The dearest call (an interrupt falls into it).
    pub max: f64,
}

/// What mqtest measured, in the unit of its clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// How many times each call was made.
    pub rounds: u64,
    /// `mq_receive` of 256 bytes.
    pub rx: Stat,
    /// `mq_send` of 256 bytes.
    pub tx: Stat,
    /// `getppid`, the control.
    pub getppid: Stat,
}

impl Measured {
    /// Finds mqtest's machine-readable line (`mqtest: {…}`) in what a program printed.
    ///
    /// Errors: no such line, or one that lacks a figure.
    pub fn parse(output: &str) -> Result<Measured> {
        let line = output
            .lines()
            .find_map(|l| l.trim_end().strip_prefix("mqtest: "))
            .context("mqtest printed no line starting 'mqtest: '")?;
        let json: Value = serde_json::from_str(line).with_context(|| format!("mqtest's result '{line}'"))?;
        let stat = |name: &str| -> Result<Stat> {
            let figure = |part: &str| {
                let value = json[name][part]
                    .as_f64()
                    .with_context(|| format!("mqtest's result has no {name}.{part}"))?;
                ensure!(value.is_finite() && value >= 0.0, "mqtest's {name}.{part} is {value}");
                Ok(value)
            };
            Ok(Stat {
                min: figure("min")?,
                avg: figure("avg")?,
                max: figure("max")?,
            })
        };
        Ok(Measured {
            rounds: json["rounds"].as_u64().context("mqtest's result has no rounds")?,
            rx: stat("rx")?,
            tx: stat("tx")?,
            getppid: stat("getppid")?,
        })
    }
}

/// A signal's name for messages; the number where it has none.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    match usize::try_from(signal - 1).ok().and_then(|i| NAMES.get(i)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[    0.1] memory: 65000 frames\r
tollgate: boot accounting=scoped msgcache=on cgroup=user cpus=1 tsc_khz=1000000
tollgate: first-user-instruction tsc=9123456
tollgate: events mq_timedsend calls=1000 locked=3000 irq_flag=2000 preempt=8000 shared_lines=1000 charges=2000 references=3000
tollgate: counts charges=12 uncharges=9
tollgate: counts cgroup=1 drains=2
tollgate: something new
tollgate: exit code=3
";

    #[test]
    fn reads_every_line() {
        let c = Control::parse(LOG);
        assert_eq!(c.boot.unwrap()["cgroup"], "user");
        assert_eq!(c.first_user_tsc, Some(9_123_456));
        assert_eq!(c.end, Some(ProgramEnd::Code(3)));
        let e = c.events["mq_timedsend"];
        assert_eq!(
            (e.calls, e.locked, e.irq_flag, e.preempt, e.shared_lines),
            (1000, 3000, 2000, 8000, 1000)
        );
        assert_eq!((e.charges, e.references), (2000, 3000));
        assert_eq!((c.counts["charges"], c.counts["cgroup1.drains"]), (12, 2));
        assert_eq!(c.log, ["[    0.1] memory: 65000 frames", "tollgate: something new"]);
    }

    #[test]
    fn reads_a_panic() {
        let c = Control::parse(
            "tollgate: panic no memory\ntollgate: | rip=ff\ntollgate: |  0 a::b\ntollgate: panic again\n",
        );
        assert_eq!(c.panic.as_deref(), Some("no memory"));
        assert_eq!(c.trace, ["rip=ff", " 0 a::b"]);
        assert_eq!(
            Control::parse("tollgate: exit signal=11").end,
            Some(ProgramEnd::Signal(11))
        );
    }

    #[test]
    fn malformed_lines_are_log() {
        let c = Control::parse(
            "tollgate: exit code=x\ntollgate: exit\ntollgate: events\ntollgate: first-user-instruction\n",
        );
        assert_eq!((c.end, c.log.len(), c.events.len()), (None, 4, 0));
    }

    #[test]
    fn reads_mqtest() {
        let out = "RX: 1/2/3\r\nmqtest: {\"rounds\":10,\"unit\":\"ticks\",\"rx\":{\"min\":1,\"avg\":2.5,\"max\":3},\
                   \"tx\":{\"min\":4,\"avg\":5,\"max\":6},\"getppid\":{\"min\":7,\"avg\":8,\"max\":9}}\r\n";
        let m = Measured::parse(out).unwrap();
        assert_eq!((m.rounds, m.rx.avg, m.tx.max, m.getppid.min), (10, 2.5, 6.0, 7.0));
        assert!(Measured::parse("RX: 1/2/3").is_err());
        assert!(Measured::parse("mqtest: {\"rounds\":1}").is_err());
        assert!(Measured::parse("mqtest: {").is_err());
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(
            (signal_name(11), signal_name(31), signal_name(40)),
            ("SIGSEGV".into(), "SIGSYS".into(), "signal 40".into())
        );
    }
}
