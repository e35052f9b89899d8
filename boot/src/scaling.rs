//! The scaling table (`tollgate msg`): the gain of per-CPU counters by the number of sender-receiver pairs.
//!
//! Three measures, none of which is the machine of the published figures (160 threads on 80 cores):
//! * the kernel in the machine, by the clock, its virtual CPUs threads of the host: [`Gain`], from interleaved runs;
//! * the mechanism alone on threads of the host (`cargo bench -p ipc --bench contention`): [`Native`];
//! * a model over the costs that the second measured: [`Closed`].

use crate::counters::{Counters, PUBLISHED};
use crate::latency;
use crate::messages::numbers;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write;

/// The variants of the tables.
pub const VARIANTS: [Counters; 3] = [Counters::Atomic, Counters::Batch(1024), Counters::Local];

/// Finds msgstress's messages a second in what it printed. Errors: there is no such line or figure, or it is zero.
pub fn rate(output: &str) -> Result<f64> {
    let line = output
        .lines()
        .find_map(|line| line.trim_end().strip_prefix("msgstress: "))
        .context("msgstress printed no line starting 'msgstress: '")?;
    let json: Value = serde_json::from_str(line).with_context(|| format!("msgstress's result '{line}'"))?;
    let rate = json["per_second"]
        .as_f64()
        .context("msgstress's result has no per_second")?;
    ensure!(rate > 0.0, "msgstress passed no message");
    Ok(rate)
}

/// The middle one (of two, their mean). The list is not empty.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[half - 1] + sorted[half]) / 2.0,
        _ => sorted[half],
    }
}

/// Rates of one variant at one number of pairs, run by run.
#[derive(Debug, Clone, PartialEq)]
pub struct Runs {
    /// Pairs, or CPUs.
    pub pairs: u32,
    /// The variant.
    pub counters: Counters,
    /// Messages a second of each run.
    pub rates: Vec<f64>,
}

/// A table of gains over interleaved runs: medians' ratio to `atomic`'s, and the least and the greatest ratio of a run to
/// the median.
pub fn gains(runs: &[Runs], what: &str) -> String {
    let mut table = numbers(&[
        what,
        "counters",
        "messages/s (median)",
        "spread",
        "gain",
        "published (160 threads)",
    ]);
    for run in runs {
        let base = runs
            .iter()
            .find(|other| other.pairs == run.pairs && other.counters == Counters::Atomic);
        let middle = median(&run.rates);
        let least = run.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = run.rates.iter().copied().fold(0.0, f64::max);
        table.add_row([
            run.pairs.to_string(),
            run.counters.to_string(),
            format!("{middle:.0}"),
            format!(
                "{:+.0} % {:+.0} %",
                (least / middle - 1.0) * 100.0,
                (most / middle - 1.0) * 100.0
            ),
            base.map_or("-".into(), |base| format!("{:.2}", middle / median(&base.rates))),
            run.counters.published().map_or("-".into(), |gain| format!("{gain:.2}")),
        ]);
    }
    format!("{table}\n")
}

/// What the native bench measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Native {
    /// Messages a second by CPUs and variant.
    pub pairs: Vec<Runs>,
    /// Nanoseconds an addition, likewise.
    pub updates: Vec<Runs>,
}

impl Native {
    /// Reads the bench's lines. Errors: a line lacks a figure, or there are none.
    pub fn parse(output: &str) -> Result<Native> {
        let mut native = Native::default();
        for line in output.lines() {
            let Some((word, rest)) = line.split_once(' ') else {
                continue;
            };
            let field = |key: &str| {
                let found = crate::console::pairs(rest).find(|(k, _)| *k == key);
                found.map(|(_, v)| v).with_context(|| format!("'{line}' has no {key}"))
            };
            let (list, figure) = match word {
                "update" => (&mut native.updates, "ns"),
                "pairs" => (&mut native.pairs, "per_second"),
                _ => continue,
            };
            let (pairs, counters) = (field("cpus")?.parse()?, Counters::parse(field("counters")?)?);
            let value: f64 = field(figure)?.parse()?;
            match list
                .iter_mut()
                .find(|run| run.pairs == pairs && run.counters == counters)
            {
                Some(run) => run.rates.push(value),
                None => list.push(Runs {
                    pairs,
                    counters,
                    rates: vec![value],
                }),
            }
        }
        ensure!(
            !native.pairs.is_empty() && !native.updates.is_empty(),
            "the bench printed no figures"
        );
        Ok(native)
    }

    fn of(list: &[Runs], cpus: u32, counters: Counters) -> Option<f64> {
        let run = list.iter().find(|run| run.pairs == cpus && run.counters == counters)?;
        Some(median(&run.rates))
    }

    /// The model for messages of so many nanoseconds' own work; `None` where two CPUs were not measured.
    pub fn model(&self, own: f64) -> Option<Closed> {
        Some(Closed {
            own,
            alone: Native::of(&self.updates, 1, Counters::Atomic)?,
            line: Native::of(&self.updates, 2, Counters::Atomic)?,
        })
    }
}

/// The model: CPUs that do work of their own and then need the counters' cache line, which one at a time can have. A
/// closed network of one queue, solved by mean value analysis (Reiser and Lavenberg, 1980).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Closed {
    /// Nanoseconds of a message's own work on its CPU: a send and a receive under `local`.
    pub own: f64,
    /// Nanoseconds of an update that no other CPU wants the line of.
    pub alone: f64,
    /// Nanoseconds for which an update has the line: the contended cost of one addition, the clock's time by all CPUs'
    /// additions.
    pub line: f64,
}

/// Times that a message needs the line: once a send and once a receive, since both totals are in it.
const VISITS: f64 = 2.0;

impl Closed {
    /// The share of updates that go to the shared count: all, or those that fold. A message of `size` bytes folds
    /// `batch` once in batch / size sends.
    fn share(counters: Counters, size: f64) -> f64 {
        match counters {
            Counters::Atomic => 1.0,
            Counters::Batch(batch) | Counters::BatchMasked(batch) => (size / f64::from(batch)).min(1.0),
            Counters::Local | Counters::LocalMasked => size / f64::from(i32::MAX),
        }
    }

    /// Messages a nanosecond of so many CPUs.
    fn throughput(&self, counters: Counters, cpus: u32, size: f64) -> f64 {
        let update = if cpus == 1 { self.alone } else { self.line };
        let demand = VISITS * update * Closed::share(counters, size);
        let (mut waiting, mut rate) = (0.0, 0.0);
        for cpus in 1..=cpus {
            let there = demand * (1.0 + waiting);
            rate = f64::from(cpus) / (self.own + there);
            waiting = rate * there;
        }
        rate
    }

    /// The predicted gain over `atomic`.
    pub fn gain(&self, counters: Counters, cpus: u32, size: f64) -> f64 {
        self.throughput(counters, cpus, size) / self.throughput(Counters::Atomic, cpus, size)
    }

    /// The curve, with the published figures beside it.
    pub fn render(&self) -> String {
        const SIZE: f64 = 4.0;
        let mut text = format!(
            "A MODEL, not a measurement: gain over `atomic` by CPUs, each busy with messages of its own. A message takes {:.0} ns of\n\
             its CPU (the instructions of msgsnd and msgrcv below, at {} GHz) and has the totals' cache line {VISITS} times for {:.1} ns\n\
             ({:.1} ns on one CPU; measured natively, an addition by one and by two CPUs at once); one CPU at a time has the line.\n\
             The published machine's messages had more work of their own, which flattens its curve, and two sockets, which steepens it.\n",
            self.own,
            latency::CLOCK_GHZ,
            self.line,
            self.alone
        );
        let most = self.gain(Counters::Local, 160, SIZE).max(4.0);
        for cpus in [1, 2, 4, 8, 16, 32, 64, 80, 128, 160] {
            let gain = self.gain(Counters::Local, cpus, SIZE);
            let batch = self.gain(Counters::Batch(1024), cpus, SIZE);
            let bar = "#".repeat((gain / most * 50.0).round() as usize);
            // Writing to a String cannot fail.
            _ = writeln!(
                text,
                "{cpus:>5} CPUs  local {gain:>6.2}  batch=1024 {batch:>6.2}  {bar}"
            );
        }
        for (counters, gain) in &PUBLISHED[1..] {
            let bar = "=".repeat((gain / most * 50.0).round() as usize);
            _ = writeln!(
                text,
                "published  {counters:<11}{gain:>7.2}{:>20}{bar}  (80 cores, 160 threads)",
                ""
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: &str = "\
update counters=atomic cpus=1 ns=5.0
update counters=atomic cpus=2 ns=20.0
update counters=atomic cpus=2 ns=30.0
update counters=atomic cpus=2 ns=25.0
pairs counters=local cpus=1 per_second=10000000
pairs counters=atomic cpus=1 per_second=5000000
something else
";

    #[test]
    fn medians_and_gains() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (2.0, 2.5));
        let native = Native::parse(BENCH).unwrap();
        let text = gains(&native.pairs, "CPUs");
        assert!(text.contains("2.00") && text.contains("3.99"), "{text}");
        assert!(Native::parse("").is_err());
        assert!(Native::parse("update counters=atomic cpus=2\n").is_err());
    }

    #[test]
    fn the_model_is_bounded_by_its_line_and_by_its_cpus() {
        let model = Native::parse(BENCH).unwrap().model(100.0).unwrap();
        assert_eq!((model.own, model.alone, model.line), (100.0, 5.0, 25.0));
        // One CPU waits for nobody: 100 + 10 against 100.
        assert!((model.gain(Counters::Local, 1, 4.0) - 1.1).abs() < 1e-3);
        // Many: the line passes one message in 50 ns, however many ask.
        let many = model.throughput(Counters::Atomic, 160, 4.0);
        assert!((many - 1.0 / 50.0).abs() < 1e-4, "{many}");
        let mut last = 0.0;
        for cpus in 1..=160 {
            let gain = model.gain(Counters::Local, cpus, 4.0);
            assert!(gain >= last && gain <= 160.0 * 50.0 / 100.0 + 1e-6, "{cpus}: {gain}");
            assert!(model.gain(Counters::Batch(1024), cpus, 4.0) <= gain);
            last = gain;
        }
        assert!(model.render().starts_with("A MODEL"));
    }

    #[test]
    fn reads_msgstress() {
        assert_eq!(
            rate("x\nmsgstress: {\"pairs\":2,\"per_second\":1234}\r\n").unwrap(),
            1234.0
        );
        assert!(rate("msgstress: {\"per_second\":0}").is_err() && rate("").is_err());
    }
}
