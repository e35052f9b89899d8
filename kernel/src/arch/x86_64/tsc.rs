//! The time-stamp counter and its frequency, and the tick's.
//!
//! The frequency comes from the first source that has one: CPUID leaf 0x15 (the processor's crystal), the hypervisor's
//! leaf 0x40000010, the interval timer (8254). The last is measured: counter 0 is read until it changes, twice, a
//! millisecond apart (ten on a real machine), so each end of the gate is known to within one reading of the counter.
//! Where a round frequency (whole MHz, then tenths) lies within that error it is taken, since clocks are made round and
//! under instruction counting the answer is exactly 1 GHz. Without any source 1 GHz is assumed, and the log says so.
//!
//! The APIC's timer is measured over the same gate.

use super::apic;
use super::features::{self, Features};
use super::once::BootCell;
use core::arch::x86_64::{__cpuid, _rdtsc};
use x86_64::instructions::port::Port;

/// Frequency of the 8254, in Hz.
const PIT_HZ: u64 = 1_193_182;
/// What is assumed without a source.
const ASSUMED_KHZ: u64 = 1_000_000;

/// Frequencies in kHz. Immutable after [`calibrate`].
struct Rates {
    tsc: u64,
    apic: u64,
}

static RATES: BootCell<Rates> = BootCell::new();

/// Reads the counter.
#[inline(always)]
pub fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and ring 0 may use it.
    unsafe { _rdtsc() }
}

/// Ticks of the counter in a millisecond; before the calibration what would be assumed.
pub fn khz() -> u64 {
    RATES.get().map_or(ASSUMED_KHZ, |rates| rates.tsc)
}

/// Nanoseconds since the counter was zero, on real machines and QEMU since the machine was started.
pub fn now_ns() -> u64 {
    (u128::from(read()) * 1_000_000 / u128::from(khz())) as u64
}

/// What a gate has measured.
struct Gate {
    /// Counts of the TSC and the APIC.
    tsc: u64,
    apic: u64,
    /// Length in nanoseconds.
    ns: u64,
    /// By how many TSC counts the ends may be off.
    error: u64,
}

/// Counter 0 of the 8254, latched and read: it counts down.
fn pit_count() -> u16 {
    let (mut command, mut data) = (Port::<u8>::new(0x43), Port::<u8>::new(0x40));
    // SAFETY: the ports of the 8254, or nobody's; latching and reading disturbs nothing.
    unsafe {
        command.write(0);
        let low = data.read();
        u16::from_le_bytes([low, data.read()])
    }
}

/// Waits until counter 0 has gone at least `down` counts below `from`, and changes; the count, and by how many TSC
/// counts the moment may be late. `None` where it does not move.
fn pit_edge(from: u16, down: u16) -> Option<(u16, u64)> {
    /// Readings before the counter is given up: it moves at every second one or so.
    const PATIENCE: u32 = 1_000_000;
    let mut before = read();
    for _ in 0..PATIENCE {
        let count = pit_count();
        let now = read();
        if from.wrapping_sub(count) >= down {
            return Some((count, now - before));
        }
        before = now;
    }
    None
}

/// Measures by the 8254 over about `ms` milliseconds.
fn pit_gate(ms: u64) -> Option<Gate> {
    let (mut command, mut data) = (Port::<u8>::new(0x43), Port::<u8>::new(0x40));
    // SAFETY: as in pit_count. Counter 0 in mode 2, from 65536 down, again and again; its interrupt is masked.
    unsafe {
        command.write(0x34);
        data.write(0);
        data.write(0);
    }
    let first = pit_count();
    let (start, error_start) = pit_edge(first, 1)?;
    let (tsc, apic) = (read(), apic::counted());
    let (end, error_end) = pit_edge(start, (PIT_HZ * ms / 1000) as u16)?;
    let (tsc_end, apic_end) = (read(), apic::counted());
    Some(Gate {
        tsc: tsc_end - tsc,
        apic: u64::from(apic_end - apic),
        ns: u64::from(start.wrapping_sub(end)) * 1_000_000_000 / PIT_HZ,
        error: error_start + error_end,
    })
}

/// Measures by the 8254 until both ends are sharp (to 100 ppm), or the sharpest of ten times: on a busy host an emulated
/// processor may stand still just where the counter is read.
fn sharp_gate(ms: u64) -> Option<Gate> {
    let mut best = pit_gate(ms)?;
    for _ in 1..10 {
        if best.error * 10_000 <= best.tsc {
            break;
        }
        let gate = pit_gate(ms)?;
        if gate.error < best.error {
            best = gate;
        }
    }
    Some(best)
}

/// Measures by a TSC of known frequency over a millisecond.
fn tsc_gate(khz: u64) -> Gate {
    let (tsc, apic) = (read(), apic::counted());
    while read() - tsc < khz {
        core::hint::spin_loop();
    }
    let (tsc_end, apic_end) = (read(), apic::counted());
    Gate {
        tsc: tsc_end - tsc,
        apic: u64::from(apic_end - apic),
        ns: (tsc_end - tsc) * 1_000_000 / khz,
        error: 64, // the two reads of each end stand a few instructions apart
    }
}

/// A measured frequency in kHz, made round where that is within the error of the measurement.
fn frequency(counts: u64, gate: &Gate) -> u64 {
    let measured = counts * 1_000_000 / gate.ns;
    let tolerance = (measured * gate.error).div_ceil(gate.tsc);
    for step in [1000, 100] {
        let round = (measured + step / 2) / step * step;
        if round != 0 && round.abs_diff(measured) <= tolerance {
            return round;
        }
    }
    measured
}

/// The frequency that the processor or the hypervisor states, in kHz.
fn stated(features: &Features) -> Option<u64> {
    if features::max_leaf() >= 0x15 {
        let leaf = __cpuid(0x15);
        let (denominator, numerator, crystal) = (u64::from(leaf.eax), u64::from(leaf.ebx), u64::from(leaf.ecx));
        if denominator != 0 && numerator != 0 && crystal != 0 {
            return Some(crystal * numerator / denominator / 1000);
        }
    }
    if features.hypervisor && __cpuid(0x4000_0000).eax >= 0x4000_0010 {
        return Some(u64::from(__cpuid(0x4000_0010).eax)).filter(|&khz| khz != 0);
    }
    None
}

/// Finds the frequencies, once. The APIC is on.
pub(super) fn calibrate(features: &Features) {
    apic::start_counting();
    let (gate, tsc) = match stated(features) {
        Some(khz) => (tsc_gate(khz), khz),
        None => match sharp_gate(if features.hypervisor { 1 } else { 10 }) {
            Some(gate) => {
                let khz = frequency(gate.tsc, &gate);
                (gate, khz)
            }
            None => {
                log::warn!("no clock to measure the time-stamp counter by: {ASSUMED_KHZ} kHz is assumed");
                (tsc_gate(ASSUMED_KHZ), ASSUMED_KHZ)
            }
        },
    };
    let apic = frequency(gate.apic, &gate);
    RATES.set(Rates { tsc, apic });
    log::debug!(
        "gate of {} ns: {} TSC and {} APIC counts, off by {}",
        gate.ns,
        gate.tsc,
        gate.apic,
        gate.error
    );
}

/// Starts this CPU's tick, `hz` times a second.
pub(super) fn start_tick(hz: u32) {
    let khz = RATES.get().map_or(0, |rates| rates.apic);
    let counts = (khz * 1000 / u64::from(hz)).clamp(1, u32::MAX.into());
    apic::start_tick(counts as u32);
}
