//! `atomic`: one shared word.

use super::{PercpuCounter, Variant};
use cpu::atomic::Ordering;

/// Every add is a locked addition to one word, and every read exact. What all CPUs add to is a cache line that goes from
/// one to the next.
pub struct Atomic;

impl Variant for Atomic {
    fn add(counter: &PercpuCounter, amount: i64) {
        counter.shared.fetch_add(amount, Ordering::Relaxed);
    }
}
