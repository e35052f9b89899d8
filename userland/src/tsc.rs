//! How fast the time-stamp counter counts.
//!
//! Tollgate says it in the auxiliary vector. Linux does not tell ring 3, so there it is measured against a clock; that
//! spends some milliseconds, which is why it is done when the measurements are over.

use crate::errno::Errno;
use crate::start::Process;
use crate::syscall::{monotonic_raw, rdtsc};

/// Tollgate's key in the auxiliary vector: the frequency of the time-stamp counter in kHz.
const AT_TOLLGATE_TSC_KHZ: usize = 0x544b_4854;

/// How long the counter is watched where the kernel does not say, in nanoseconds.
const WATCHED_NS: u64 = 20_000_000;

/// The frequency of the time-stamp counter, in kHz.
pub fn frequency_khz(process: &Process) -> Result<u64, Errno> {
    match process.auxiliary(AT_TOLLGATE_TSC_KHZ) {
        Some(khz) => Ok(khz as u64),
        None => calibrated_khz(),
    }
}

/// Counts ticks against `CLOCK_MONOTONIC_RAW`. The error is that of two clock readings in [`WATCHED_NS`].
fn calibrated_khz() -> Result<u64, Errno> {
    let (start, first) = (monotonic_raw()?, rdtsc());
    loop {
        let (now, last) = (monotonic_raw()?, rdtsc());
        let elapsed = now.saturating_sub(start);
        if elapsed >= WATCHED_NS {
            // Ticks a microsecond are MHz: the product stays far below 2^64 for any frequency and a watch of seconds.
            return Ok((last - first) * 1_000_000 / elapsed);
        }
    }
}
