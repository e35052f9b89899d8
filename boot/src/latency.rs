//! A modelled time: what the counted instructions and events would take by documented latencies. A model, not a
//! measurement, and none of its constants was chosen to meet a published figure.
//!
//! Under instruction counting a `cli`, a locked addition and a cache miss count one each; on a processor they do not
//! take the same time. So
//!
//! ```text
//! time = (instructions x CPI + locked x 18 + irq_flag x 6.5 [+ shared_lines x 75]) / 2.2 GHz
//! ```
//!
//! - Clock: 2.2 GHz, the TSC of the machine that the thread measured on (its program converts ticks by 5/11).
//! - CPI: 1, a round number, the same for every row. It sets the scale, never the order.
//! - Locked operation: 18 cycles, latency of `lock add m, r` on Skylake (Agner Fog, "Instruction tables"); the
//!   instruction itself is in the count as well, so this is at most one cycle too much.
//! - Interrupt-flag change: 6.5 cycles, half of a `cli`/`sti` pair (5 + 8 cycles on the 45 nm Core microarchitecture:
//!   "Improvements in the Intel Core 2 Processor Family Architecture and Microarchitecture", Intel Technology Journal
//!   12(3), 2008). A kernel that restores by `popf` pays more (about 20 cycles on Skylake, Agner Fog).
//! - Shared cache line: 75 cycles to fetch a line that another core has modified (David Levinthal, "Performance Analysis
//!   Guide for Intel Core i7 and Xeon 5500 processors", Intel, 2009). Only when another CPU is using the line: the
//!   thread measured one task alone, so this term stands in a figure of its own, `contended`.
//! - Preemption-count change: an addition to the CPU's own memory, no more than its instructions.

use crate::console::Events;

/// Cycles a nanosecond.
pub const CLOCK_GHZ: f64 = 2.2;
/// Cycles an instruction.
pub const CPI: f64 = 1.0;
/// Cycles a locked operation adds.
pub const LOCKED: f64 = 18.0;
/// Cycles a change of the interrupt flag adds.
pub const IRQ_FLAG: f64 = 6.5;
/// Cycles a cache line costs that another core has written.
pub const SHARED_LINE: f64 = 75.0;

/// Events of one call, on average.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PerCall {
    /// Locked operations.
    pub locked: f64,
    /// Interrupt-flag changes.
    pub irq_flag: f64,
    /// Preemption-count changes.
    pub preempt: f64,
    /// Writes to cache lines that other CPUs write.
    pub shared_lines: f64,
    /// Charges and uncharges.
    pub charges: f64,
    /// References taken or dropped.
    pub references: f64,
}

impl PerCall {
    /// Totals divided by calls; `None` where the call was never made.
    pub fn of(events: &Events) -> Option<PerCall> {
        let each = |total: u64| total as f64 / events.calls as f64;
        (events.calls > 0).then(|| PerCall {
            locked: each(events.locked),
            irq_flag: each(events.irq_flag),
            preempt: each(events.preempt),
            shared_lines: each(events.shared_lines),
            charges: each(events.charges),
            references: each(events.references),
        })
    }
}

/// Modelled nanoseconds of a call of so many instructions, with no other CPU using its lines.
pub fn alone(instructions: f64, events: &PerCall) -> f64 {
    (instructions * CPI + events.locked * LOCKED + events.irq_flag * IRQ_FLAG) / CLOCK_GHZ
}

/// The same with every shared line fetched from another core.
pub fn contended(instructions: f64, events: &PerCall) -> f64 {
    alone(instructions, events) + events.shared_lines * SHARED_LINE / CLOCK_GHZ
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_add_up() {
        let events = Events {
            calls: 10,
            locked: 20,
            irq_flag: 40,
            preempt: 60,
            shared_lines: 10,
            charges: 20,
            references: 0,
        };
        let each = PerCall::of(&events).unwrap();
        assert_eq!(
            each,
            PerCall {
                locked: 2.0,
                irq_flag: 4.0,
                preempt: 6.0,
                shared_lines: 1.0,
                charges: 2.0,
                references: 0.0,
            }
        );
        assert!((alone(220.0, &each) - (220.0 + 36.0 + 26.0) / 2.2).abs() < 1e-9);
        assert!((contended(220.0, &each) - (220.0 + 36.0 + 26.0 + 75.0) / 2.2).abs() < 1e-9);
        assert_eq!(PerCall::of(&Events::default()), None);
    }
}
