//! A signed count for each CPU, added to with one instruction.

use crate::area;
use crate::slot::NoSpace;
use core::sync::atomic::{AtomicI64, Ordering};

/// A 64-bit count for each CPU.
///
/// [`add`](PerCpuI64::add) is one unlocked add to this CPU's count (Linux: `this_cpu_add`), safe against interrupts and
/// migration without masking anything. [`sum`](PerCpuI64::sum) adds all CPUs' counts, one after the other: it is exact
/// when nobody adds meanwhile, and otherwise off by at most what is added during the call.
pub struct PerCpuI64 {
    /// Offset in every area. Immutable.
    offset: usize,
}

impl PerCpuI64 {
    /// Makes a count of 0 on every possible CPU.
    pub fn try_new() -> Result<Self, NoSpace> {
        let count = PerCpuI64 {
            offset: area::alloc(8, 8).ok_or(NoSpace)?,
        };
        count.reset();
        Ok(count)
    }

    /// Sets every CPU's count to 0, when nobody adds.
    pub fn reset(&self) {
        for id in 0..cpu::possible() {
            self.on(id).store(0, Ordering::Relaxed);
        }
    }

    /// Adds to this CPU's count.
    #[inline(always)]
    pub fn add(&self, value: i64) {
        #[cfg(target_os = "none")]
        // SAFETY: one instruction on a word of this CPU's area that try_new initialised.
        unsafe {
            core::arch::asm!("add gs:[{}], {}", in(reg) self.offset, in(reg) value, options(nostack));
        }
        #[cfg(not(target_os = "none"))]
        {
            let count = self.on(cpu::id());
            cpu::point("this_cpu_add");
            count.store(count.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
        }
    }

    /// The sum over all CPUs.
    pub fn sum(&self) -> i64 {
        (0..cpu::possible()).map(|id| self.on(id).load(Ordering::Relaxed)).sum()
    }

    /// CPU `id`'s count.
    fn on(&self, id: usize) -> &AtomicI64 {
        let area = cpu::local::area(id).expect("possible CPUs have areas");
        // SAFETY: the word is ours in every area, aligned to 8, and written whole.
        unsafe { &*area.add(self.offset).cast::<AtomicI64>() }
    }
}

impl Drop for PerCpuI64 {
    fn drop(&mut self) {
        area::free(self.offset, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_an_interrupt_in_an_add_lose_nothing() {
        cpu::host::single(|| {
            let count: &'static PerCpuI64 = Box::leak(Box::new(PerCpuI64::try_new().unwrap()));
            cpu::host::on_point(move |_| count.add(1));
            for _ in 0..100 {
                count.add(10);
            }
            cpu::host::no_points();
            assert_eq!(count.sum(), 1100);
        });
    }

    #[test]
    fn is_the_sum_exact_when_all_are_quiet() {
        cpu::host::scenario(
            4,
            || PerCpuI64::try_new().unwrap(),
            |id, count| (0..1000).for_each(|_| count.add(id as i64 - 1)),
            |count| assert_eq!(count.sum(), 2000),
        );
    }
}
