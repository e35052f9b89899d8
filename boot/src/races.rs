//! The show of the counters' races (`tollgate races`): what the kernel said in a boot with `show=races`, as a table.

use crate::console::pairs;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The kernel's command line of the show.
pub const CMDLINE: &str = "show=races log=com2";

/// An unsafe add, interrupted at its weak spot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// What becomes of the count.
    pub case: String,
    /// Where the interrupt came: a label in the kernel.
    pub label: String,
    /// What the CPU's part was, what the add added, what the interrupt added.
    pub amounts: [i64; 3],
    /// What the count should be.
    pub right: i64,
    /// What it was.
    pub got: i64,
    /// The safe adds from the same state.
    pub safe: Vec<Safe>,
}

/// A safe add, interrupted before each of its instructions in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Safe {
    /// The variant.
    pub counters: String,
    /// Before how many instructions an interrupt came.
    pub points: u64,
    /// How far the count was off, at worst.
    pub worst: i64,
}

/// Reads what the kernel said. Errors: a line lacks a figure, or no race was shown.
pub fn parse(lines: &[String]) -> Result<Vec<Race>> {
    let mut races: Vec<Race> = Vec::new();
    for line in lines {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let fields: BTreeMap<&str, &str> = pairs(rest).collect();
        let text = |key: &str| fields.get(key).with_context(|| format!("'{line}' has no {key}"));
        let number = |key: &str| {
            let value = text(key)?;
            value.parse::<i64>().with_context(|| format!("{key} of '{line}'"))
        };
        match word {
            "race" => races.push(Race {
                case: (*text("case")?).to_owned(),
                label: (*text("label")?).to_owned(),
                amounts: [number("part")?, number("amount")?, number("interrupt")?],
                right: number("right")?,
                got: number("got")?,
                safe: Vec::new(),
            }),
            _ => {
                let race = races.last_mut().with_context(|| format!("'{line}' comes first"))?;
                race.safe.push(Safe {
                    counters: (*text("counters")?).to_owned(),
                    points: number("points")?.unsigned_abs(),
                    worst: number("worst")?,
                });
            }
        }
    }
    ensure!(!races.is_empty(), "the kernel showed no race");
    Ok(races)
}

/// What a case is, in words.
fn words(case: &str) -> &'static str {
    match case {
        "underflow" => {
            "decides to fold, and subtracts what it had read: the interrupt has made the part small meanwhile"
        }
        "overflow" => "decides to add, by what it had read: the interrupt has made the part large meanwhile",
        "lost" => "folds, lets the lock go, then zeroes the part: with what the interrupt has added meanwhile",
        "unfolded" => "adds to the part and never folds: it takes no interrupt, only time",
        _ => "",
    }
}

/// All that the command prints.
pub fn render(races: &[Race]) -> String {
    let mut text = String::from(
        "Adds to a per-CPU counter, each interrupted once by an add on the same CPU (a debug register at the named label;\n\
         the part is 32 bits, the batch 2147483647):\n",
    );
    // Writing to a String cannot fail.
    let mut line = |s: String| writeln!(text, "{s}").unwrap_or_default();
    for race in races {
        let [part, amount, interrupt] = race.amounts;
        line(String::new());
        line(format!("{}: the unsafe add {}", race.case, words(&race.case)));
        line(format!(
            "    part {part}, add {amount}, interrupt at {} adds {interrupt}: the sum must be {}",
            race.label, race.right
        ));
        line(format!(
            "    {:<12} {:>12}, off by {}",
            "unsafe",
            race.got,
            i128::from(race.got) - i128::from(race.right)
        ));
        for safe in &race.safe {
            line(format!(
                "    {:<12} {:>12}, interrupted before each of {} instructions in turn",
                safe.counters,
                match safe.worst {
                    0 => "right".to_owned(),
                    off => format!("off by {off}"),
                },
                safe.points
            ));
        }
    }
    text
}

/// Whether the show showed what it should: every unsafe add wrong, every safe one right.
pub fn as_expected(races: &[Race]) -> bool {
    races.iter().all(|race| {
        race.got != race.right
            && !race.safe.is_empty()
            && race.safe.iter().all(|safe| safe.points > 0 && safe.worst == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Vec<String> {
        [
            "race case=lost label=race_folded part=2147483646 amount=1 interrupt=-1000 right=2147482647 got=2147483647",
            "race-safe case=lost counters=local points=14 worst=0",
            "race-safe case=lost counters=atomic points=3 worst=0",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    #[test]
    fn says_by_how_much() {
        let races = parse(&recorded()).unwrap();
        let text = render(&races);
        assert!(text.contains("2147483647, off by 1000"), "{text}");
        assert!(
            text.contains("right, interrupted before each of 14 instructions"),
            "{text}"
        );
        assert!(as_expected(&races));
    }

    #[test]
    fn a_wrong_safe_add_is_not_as_expected() {
        let mut lines = recorded();
        lines[1] = lines[1].replace("worst=0", "worst=-7");
        let races = parse(&lines).unwrap();
        assert!(render(&races).contains("off by -7"));
        assert!(!as_expected(&races));
        lines[1] = lines[1].replace("worst=-7", "worst=0").replace("points=14", "points=0");
        assert!(!as_expected(&parse(&lines).unwrap()));
    }

    #[test]
    fn what_lacks_a_figure_is_an_error() {
        assert!(parse(&[]).is_err());
        assert!(parse(&recorded()[1..]).is_err());
        assert!(parse(&["race case=x label=y part=1".to_owned()]).is_err());
    }
}
