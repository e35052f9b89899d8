//! `batch=N` and `batch-irq=N`: parts below N, then a fold.

use super::{PercpuCounter, Variant, grown};

/// Adds to this CPU's part by a local compare-and-exchange; what would reach ±batch is folded.
///
/// # Why an interrupt between its steps does no harm
/// The interrupt adds too, on the same CPU: A reads the part as v; B, the interrupt, makes it w, by an add or a fold.
/// * A saw that v + amount fits: its exchange finds w instead of v, and A decides again, by w. If w = v nothing is lost
///   either: v + amount still fits.
/// * A saw that it does not fit: it folds what the part is by then, w, and not v.
///
/// A is moved to another CPU between its steps: the same, with that CPU's part for w.
pub struct Batch;

impl Variant for Batch {
    fn add(counter: &PercpuCounter, amount: i64) {
        Batch::add_below(counter, amount, counter.batch);
    }
}

impl Batch {
    /// Adds, with a batch that may be known to the compiler.
    #[inline(always)]
    pub(super) fn add_below(counter: &PercpuCounter, amount: i64, batch: i32) {
        let mut part = counter.parts.load();
        while let Some(grown) = grown(part, amount, batch) {
            match counter.parts.compare_exchange(part, grown) {
                Ok(()) => return,
                Err(found) => part = found,
            }
        }
        counter.fold(amount);
    }
}

/// The same with interrupts off from the read to the write: nothing can come between (what Linux does where a CPU has no
/// local compare-and-exchange).
pub struct BatchMasked;

impl Variant for BatchMasked {
    fn add(counter: &PercpuCounter, amount: i64) {
        BatchMasked::add_below(counter, amount, counter.batch);
    }
}

impl BatchMasked {
    /// Adds, with a batch that may be known to the compiler.
    #[inline(always)]
    pub(super) fn add_below(counter: &PercpuCounter, amount: i64, batch: i32) {
        cpu::without_interrupts(|masked| match grown(counter.parts.load(), amount, batch) {
            Some(grown) => counter.parts.set(grown, masked),
            None => counter.fold(amount),
        });
    }
}
