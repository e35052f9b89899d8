//! `local` and `local-irq`: the largest batch (Linux: `percpu_counter_add_local`).
//!
//! For counts that are written all the time and read seldom, and then by their sum: a [`read`](PercpuCounter::read) says
//! next to nothing. A part folds before it overflows, and for message sizes that is once in hours.

use super::{Batch, BatchMasked, PercpuCounter, Variant};

/// 2^31 - 1: a part stays below it, and so a part of 32 bits cannot overflow.
pub(super) const BATCH: i32 = i32::MAX;

/// [`Batch`] that folds as good as never.
pub struct Local;

impl Variant for Local {
    fn add(counter: &PercpuCounter, amount: i64) {
        Batch::add_below(counter, amount, BATCH);
    }
}

/// [`BatchMasked`] that folds as good as never.
pub struct LocalMasked;

impl Variant for LocalMasked {
    fn add(counter: &PercpuCounter, amount: i64) {
        BatchMasked::add_below(counter, amount, BATCH);
    }
}
