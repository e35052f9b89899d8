//! Time: nanoseconds since boot, and since 1970.
//!
//! The time-stamp counter is the clock source. Its frequency is found once at boot; from then on nanoseconds are one
//! multiplication and a shift. CLOCK_REALTIME is the battery clock's reading at boot plus the time since.

use crate::arch::{rtc, tsc};
use cpu::atomic::{AtomicU64, Ordering};

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
const SHIFT: u32 = 32;

/// Counter at boot. Immutable after [`start`], as the two below.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds of one count, times 2^[`SHIFT`].
static MULTIPLIER: AtomicU64 = AtomicU64::new(1 << SHIFT);
/// Nanoseconds from 1970 to the counter's base.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Reads both clocks of the machine. Once, at boot, after the counter's calibration.
pub fn start() {
    BASE.store(tsc::read(), Ordering::Relaxed);
    MULTIPLIER.store((1_000_000 << SHIFT) / tsc::khz().max(1), Ordering::Relaxed);
    EPOCH.store(rtc::read() * SECOND, Ordering::Relaxed);
    tick();
}

/// Nanoseconds since boot (CLOCK_MONOTONIC).
#[inline]
pub fn monotonic() -> u64 {
    let counts = tsc::read().wrapping_sub(BASE.load(Ordering::Relaxed));
    let multiplier = MULTIPLIER.load(Ordering::Relaxed);
    ((u128::from(counts) * u128::from(multiplier)) >> SHIFT) as u64
}

/// CLOCK_REALTIME at the last tick.
static AT_TICK: AtomicU64 = AtomicU64::new(0);

/// Notes the time, for [`coarse`]. Each tick, on one CPU.
pub(super) fn tick() {
    AT_TICK.store(realtime(), Ordering::Relaxed);
}

/// Nanoseconds since 1970 at the last tick: as good as the tick, and one load.
#[inline(always)]
pub fn coarse() -> u64 {
    AT_TICK.load(Ordering::Relaxed)
}

/// Nanoseconds since 1970 (CLOCK_REALTIME).
#[inline]
pub fn realtime() -> u64 {
    monotonic().saturating_add(EPOCH.load(Ordering::Relaxed))
}

/// The moment since boot at which CLOCK_REALTIME shows `realtime`; 0 for one that has passed before boot.
pub fn monotonic_of(realtime: u64) -> u64 {
    realtime.saturating_sub(EPOCH.load(Ordering::Relaxed))
}
