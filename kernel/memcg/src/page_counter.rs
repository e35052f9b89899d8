//! The page counter of one cgroup: usage, limit, peak.
//!
//! One level of the hierarchy; [`crate::Cgroup::try_charge`] walks the levels. All counts are pages of 4096 bytes.

use cpu::atomic::{AtomicI64, AtomicU64, Ordering};

/// No limit (Linux: `PAGE_COUNTER_MAX`).
pub const UNLIMITED: i64 = i64::MAX / 4096;

/// A counter of charged pages with a limit.
#[derive(Debug)]
pub struct PageCounter {
    /// Pages charged, those held back in stocks included. May be above `max` for the instants of a failing charge.
    usage: AtomicI64,
    /// The most that `usage` may be.
    max: AtomicI64,
    /// The highest `usage` seen by a successful charge, approximately (racing charges may lower it for a moment).
    watermark: AtomicI64,
    /// Charges refused here.
    failed: AtomicU64,
}

impl PageCounter {
    pub(crate) const fn new() -> Self {
        PageCounter {
            usage: AtomicI64::new(0),
            max: AtomicI64::new(UNLIMITED),
            watermark: AtomicI64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Adds pages, unless that passes the limit. The addition comes first, so a racing charge may be refused by pages
    /// that are about to be taken back; never are more pages in use than the limit.
    pub(crate) fn try_charge(&self, pages: usize) -> bool {
        let pages = pages as i64;
        let usage = self.usage.fetch_add(pages, Ordering::Relaxed) + pages;
        if usage > self.max.load(Ordering::Relaxed) {
            self.usage.fetch_sub(pages, Ordering::Relaxed);
            self.failed.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if usage > self.watermark.load(Ordering::Relaxed) {
            self.watermark.store(usage, Ordering::Relaxed);
        }
        true
    }

    /// Takes pages off.
    pub(crate) fn uncharge(&self, pages: usize) {
        let before = self.usage.fetch_sub(pages as i64, Ordering::Relaxed);
        debug_assert!(
            before >= pages as i64,
            "page counter: {pages} pages uncharged of {before}"
        );
    }

    /// Pages charged.
    pub fn usage(&self) -> i64 {
        self.usage.load(Ordering::Relaxed)
    }
    /// The limit in pages.
    pub fn max(&self) -> i64 {
        self.max.load(Ordering::Relaxed)
    }
    /// Sets the limit. What is in use above it stays; new charges are refused until usage is below.
    pub fn set_max(&self, pages: i64) {
        self.max.store(pages.clamp(0, UNLIMITED), Ordering::Relaxed);
    }
    /// The peak in pages.
    pub fn watermark(&self) -> i64 {
        self.watermark.load(Ordering::Relaxed)
    }
    /// Number of charges that this limit refused.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
