//! The show of the races of per-CPU counters: `show=races` on the command line.
//!
//! Each unsafe add of [`percpu::races`] runs with an interrupt at its weak spot, then the safe adds from the same state with
//! the same amounts, interrupted before each of their instructions in turn. What came of it goes out as control lines, and
//! the host's side makes a table of them.

use crate::arch::breakpoint::with_interrupt_at;
use crate::control;
use percpu::Counting;
use percpu::races::{CASES, Case, Racy};

/// The safe adds that run beside the unsafe ones.
const SAFE: [Counting; 4] = [
    Counting::Local,
    Counting::LocalMasked,
    Counting::Batch(1024),
    Counting::Atomic,
];

/// Shows all cases. False where an interrupt did not come, or a safe add was wrong.
pub fn show() -> bool {
    CASES.iter().filter(|case| !one(case)).count() == 0
}

fn one(case: &Case) -> bool {
    let Ok(racy) = Racy::try_new(case.part) else {
        return false;
    };
    let came = with_interrupt_at(
        case.address(),
        || (case.add)(&racy, case.interrupt),
        || (case.add)(&racy, case.amount),
    );
    control!(
        "race case={} label={} part={} amount={} interrupt={} right={} got={}",
        case.name,
        case.label,
        case.part,
        case.amount,
        case.interrupt,
        case.right(),
        racy.sum()
    );
    SAFE.into_iter()
        .fold(came, |well, counting| safe(case, counting) && well)
}

/// The same with a safe add: a run for each of its instructions.
fn safe(case: &Case, counting: Counting) -> bool {
    let (mut points, mut worst) = (0u32, 0i64);
    // Between two instructions no address is met, and where interrupts are off none comes.
    for address in percpu::PercpuCounter::add_code(counting) {
        let Ok(counter) = case.safe(counting) else { return false };
        let came = with_interrupt_at(address, || counter.add(case.interrupt), || counter.add(case.amount));
        if came {
            points += 1;
            let off = counter.sum() - case.right();
            if off.abs() > worst.abs() {
                worst = off;
            }
        }
    }
    control!(
        "race-safe case={} counters={counting} points={points} worst={worst}",
        case.name
    );
    points > 0 && worst == 0
}
