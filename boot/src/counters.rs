//! The variants of per-CPU counters, as the kernel's `counters=` option names them, and what was published of them.

use crate::failure::Usage;
use anyhow::Result;
use std::fmt;

/// How the kernel counts the messages and bytes in a namespace's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counters {
    /// One shared word.
    Atomic,
    /// Parts of each CPU's, folded at this.
    Batch(u32),
    /// The same with interrupts off.
    BatchMasked(u32),
    /// Parts that fold as good as never (batch 2147483647).
    Local,
    /// The same with interrupts off.
    LocalMasked,
}

/// A gain that was published: System V messages of stress-ng, 160 threads on 80 cores, against `atomic` (2022).
pub const PUBLISHED: [(Counters, f64); 3] = [
    (Counters::Atomic, 1.0),
    (Counters::Batch(1024), 3.17),
    (Counters::Local, 3.99),
];

impl Counters {
    /// The rows of the tables; the first is what the others are compared with.
    pub const ROWS: [Counters; 5] = [
        Counters::Atomic,
        Counters::Batch(1024),
        Counters::BatchMasked(1024),
        Counters::Local,
        Counters::LocalMasked,
    ];

    /// Reads a name. Errors: [`Usage`], naming the possible ones.
    pub fn parse(name: &str) -> Result<Counters> {
        let batch = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse()
                .ok()
                .filter(|batch| digits && (1..=i32::MAX as u32).contains(batch))
        };
        let found = match (name, name.split_once('=')) {
            ("atomic", _) => Some(Counters::Atomic),
            ("local", _) => Some(Counters::Local),
            ("local-irq", _) => Some(Counters::LocalMasked),
            (_, Some(("batch", text))) => batch(text).map(Counters::Batch),
            (_, Some(("batch-irq", text))) => batch(text).map(Counters::BatchMasked),
            _ => None,
        };
        found.ok_or_else(|| {
            Usage(format!(
                "unknown --counters '{name}': atomic, batch=N, batch-irq=N, local or local-irq (N from 1 to {})",
                i32::MAX
            ))
            .into()
        })
    }

    /// The gain that was published for this variant, if one was.
    pub fn published(self) -> Option<f64> {
        PUBLISHED.iter().find(|(counters, _)| *counters == self).map(|p| p.1)
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counters::Atomic => f.pad("atomic"),
            Counters::Batch(batch) => f.pad(&format!("batch={batch}")),
            Counters::BatchMasked(batch) => f.pad(&format!("batch-irq={batch}")),
            Counters::Local => f.pad("local"),
            Counters::LocalMasked => f.pad("local-irq"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for row in Counters::ROWS {
            assert_eq!(Counters::parse(&row.to_string()).unwrap(), row);
        }
        for wrong in ["", "batch", "batch=0", "batch=+1", "batch=2147483648", "locals"] {
            let error = Counters::parse(wrong).unwrap_err();
            assert_eq!(crate::failure::status(&error), 2, "{wrong}");
        }
    }
}
