//! Events by system call, in the build with the feature `events`.
//!
//! The counters of [`cpu::event`] are cleared before the call's function and read after it, and summed by the call's
//! number. Interrupts in between are set aside by the crate cpu, other tasks by the scheduler. Calls that want all registers
//! ([`full_frame!`](crate::full_frame)) do not come back this way and are not counted.
//!
//! Without the feature there is nothing here to count and [`report`] prints nothing.

#[cfg(feature = "events")]
mod counting {
    use crate::syscall::TABLE;
    use core::sync::atomic::{AtomicU64, Ordering};
    use cpu::event::{self, KINDS};

    /// Sums of one system call.
    pub struct Totals {
        pub calls: AtomicU64,
        pub events: [AtomicU64; KINDS],
    }

    pub static TOTALS: [Totals; TABLE.len()] = [const {
        Totals {
            calls: AtomicU64::new(0),
            events: [const { AtomicU64::new(0) }; KINDS],
        }
    }; TABLE.len()];

    /// The entry code calls this in place of the table's function; `number` is below the table's length.
    pub extern "C" fn call(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, number: u64) -> i64 {
        event::clear();
        let result = TABLE[number as usize](a, b, c, d, e, f);
        let counts = event::counts();
        let totals = &TOTALS[number as usize];
        totals.calls.fetch_add(1, Ordering::Relaxed);
        for (total, count) in totals.events.iter().zip(counts) {
            total.fetch_add(count.into(), Ordering::Relaxed);
        }
        result
    }
}

#[cfg(feature = "events")]
pub(super) use counting::call;

/// Prints the sums as control lines, one for each system call that was made. `name` gives a call's name by its number.
pub fn report(name: impl Fn(usize) -> &'static str) {
    #[cfg(feature = "events")]
    for (number, totals) in counting::TOTALS.iter().enumerate() {
        use core::sync::atomic::Ordering::Relaxed;
        use cpu::event::Event;
        let calls = totals.calls.load(Relaxed);
        let sum = |event: Event| totals.events[event as usize].load(Relaxed);
        if calls != 0 {
            crate::control!(
                "events {} calls={calls} locked={} irq_flag={} preempt={} shared_lines={} charges={} references={}",
                name(number),
                sum(Event::Locked),
                sum(Event::IrqFlag),
                sum(Event::Preempt),
                sum(Event::SharedLine),
                sum(Event::Charge),
                sum(Event::Reference)
            );
        }
    }
    #[cfg(not(feature = "events"))]
    let _ = name;
}
