//! Messages and bytes in all queues of a namespace, for `MSG_INFO`.

use crate::Error;
use percpu::{Counting, PercpuCounter};

/// The totals: every send and receive adds to both, `MSG_INFO` sums. Linux calls them `msg_bytes` and `msg_hdrs`; there as
/// here they are neighbours in one cache line. Exact when all is quiet, else off by at most what is sent and received
/// during the sum.
#[repr(align(64))]
pub(super) struct Totals {
    bytes: PercpuCounter,
    headers: PercpuCounter,
}

impl Totals {
    /// Nothing.
    ///
    /// # Errors
    /// No space for a counter; the one that was made before it is given back.
    pub(super) fn try_new(counting: Counting) -> Result<Totals, Error> {
        Ok(Totals {
            bytes: PercpuCounter::try_new(counting, 0)?,
            headers: PercpuCounter::try_new(counting, 0)?,
        })
    }

    /// A message of `length` bytes has come in.
    #[inline(always)]
    pub(super) fn add(&self, length: usize) {
        self.bytes.add(length as i64);
        self.headers.add(1);
    }

    /// Messages of together `bytes` bytes have gone.
    #[inline(always)]
    pub(super) fn sub(&self, messages: u64, bytes: u64) {
        self.bytes.add(-(bytes as i64));
        self.headers.add(-(messages as i64));
    }

    /// Messages and bytes now.
    pub(super) fn sum(&self) -> (i64, i64) {
        (self.headers.sum(), self.bytes.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use percpu::PerCpu;
    use std::vec::Vec;

    /// The first counter finds the last free word, the second none.
    #[test]
    fn is_the_first_counter_given_back_when_the_second_fails() {
        cpu::host::single(|| {
            let mut fillers = Vec::new();
            while let Ok(slot) = PerCpu::try_new(|_| [0u8; 4096]) {
                fillers.push(slot);
            }
            fillers.pop();
            let mut counters = Vec::new();
            while let Ok(counter) = PercpuCounter::try_new(Counting::Local, 0) {
                counters.push(counter);
            }
            drop(counters.pop());
            let free = percpu::free_bytes();
            assert!(Totals::try_new(Counting::Local).is_err());
            assert_eq!(percpu::free_bytes(), free, "the first counter is given back");
            drop(counters.pop());
            assert!(Totals::try_new(Counting::Local).is_ok());
        });
    }
}
