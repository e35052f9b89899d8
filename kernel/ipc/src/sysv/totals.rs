//! Messages and bytes in all queues of a namespace, for `MSG_INFO`.

use crate::Error;
use cpu::atomic::{AtomicI64, Ordering};

/// The totals: every send and receive adds, `MSG_INFO` reads. Exact when all is quiet; never below what it was before a
/// send that is under way.
pub(super) struct Totals {
    bytes: AtomicI64,
    headers: AtomicI64,
}

impl Totals {
    /// Nothing.
    ///
    /// # Errors
    /// No memory for a counter; the one that was made before it is given back.
    pub(super) fn try_new() -> Result<Totals, Error> {
        Ok(Totals {
            bytes: AtomicI64::new(0),
            headers: AtomicI64::new(0),
        })
    }

    /// A message of `length` bytes has come in.
    #[inline(always)]
    pub(super) fn add(&self, length: usize) {
        self.bytes.fetch_add(length as i64, Ordering::Relaxed);
        self.headers.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages of together `bytes` bytes have gone.
    #[inline(always)]
    pub(super) fn sub(&self, messages: u64, bytes: u64) {
        self.bytes.fetch_sub(bytes as i64, Ordering::Relaxed);
        self.headers.fetch_sub(messages as i64, Ordering::Relaxed);
    }

    /// Messages and bytes now.
    pub(super) fn sum(&self) -> (i64, i64) {
        (self.headers.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}
