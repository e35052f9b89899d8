//! Two words for each CPU that are exchanged together, without masking anything.
//!
//! SLUB's fast path needs 'this CPU's freelist head, if nothing has happened since I read it'. The second word is a
//! transaction number that every change moves on and that differs between CPUs, so one compare-and-exchange of both
//! words notices an interrupt, a preemption and a migration alike. It needs no lock prefix: other CPUs never touch the
//! words, and one instruction is atomic against this CPU's own interrupts.

use crate::area;
use crate::slot::NoSpace;

/// A pair of words for each CPU: a value and a transaction number.
///
/// # Why it is safe without pinning
/// Two parties: the caller A and whoever interrupts A between its read and its exchange, on the same CPU (an interrupt,
/// or another task after a preemption) or by moving A to another CPU.
/// * A reads (v, t). B, on the same CPU, exchanges (v, t) for (w, t + n). A's exchange finds t + n: refused.
/// * A reads (v, t) on CPU 0, moves to CPU 1 whose pair is (x, u). Transaction numbers of different CPUs differ modulo
///   [`STEP`](PerCpuPair::STEP), so u ≠ t: refused.
/// * A reads v on CPU 0 and t on CPU 1 (moved in between): if the exchange succeeds, CPU 1's pair is (v, t): right after all.
///
/// Transaction numbers wrap after 2^64 / [`STEP`](PerCpuPair::STEP) changes: never.
pub struct PerCpuPair {
    /// Offset in every area. Immutable.
    offset: usize,
}

const SIZE: usize = 16;

impl PerCpuPair {
    /// What a change adds to the transaction number: a CPU's numbers are its own number modulo this, for ever.
    pub const STEP: usize = cpu::MAX_CPUS.next_power_of_two();

    /// Makes a pair on every possible CPU: value 0, transaction number the CPU's.
    pub fn try_new() -> Result<Self, NoSpace> {
        let offset = area::alloc(SIZE, SIZE).ok_or(NoSpace)?;
        for id in 0..cpu::possible() {
            let area = cpu::local::area(id).expect("possible CPUs have areas");
            // SAFETY: the allocator gave these 16 bytes of every area to us alone.
            unsafe { area.add(offset).cast::<[usize; 2]>().write([0, id]) };
        }
        Ok(PerCpuPair { offset })
    }

    /// Reads this CPU's (value, transaction number). The number is read first; see the type's argument.
    #[inline(always)]
    pub fn load(&self) -> (usize, usize) {
        #[cfg(target_os = "none")]
        {
            let (value, number): (usize, usize);
            // SAFETY: reads two words of this CPU's area that try_new initialised.
            unsafe {
                core::arch::asm!(
                    "mov {number}, gs:[{offset} + 8]",
                    "mov {value}, gs:[{offset}]",
                    offset = in(reg) self.offset,
                    number = out(reg) number,
                    value = lateout(reg) value,
                    options(nostack, preserves_flags, readonly),
                );
            }
            (value, number)
        }
        #[cfg(not(target_os = "none"))]
        {
            // SAFETY: a CPU is a thread here and only it touches its pair, or an interrupt at a point.
            let [value, number] = unsafe { *self.words() };
            cpu::point("pair: read");
            (value, number)
        }
    }

    /// Puts `value` and the next transaction number where `seen` still is. Tells whether it was.
    #[inline(always)]
    pub fn compare_exchange(&self, seen: (usize, usize), value: usize) -> bool {
        let next = seen.1.wrapping_add(Self::STEP);
        #[cfg(target_os = "none")]
        {
            let done: u8;
            // SAFETY: exchanges two words of this CPU's area that try_new initialised. rbx is the compiler's own and is
            // put back; the offset is in a register of its own choice that is not rbx.
            unsafe {
                core::arch::asm!(
                    "xchg rbx, {low}",
                    "cmpxchg16b xmmword ptr gs:[rdi]",
                    "mov rbx, {low}",
                    "sete {done}",
                    low = inout(reg) value => _,
                    in("rdi") self.offset,
                    in("rcx") next,
                    inout("rax") seen.0 => _,
                    inout("rdx") seen.1 => _,
                    done = lateout(reg_byte) done,
                    options(nostack),
                );
            }
            done != 0
        }
        #[cfg(not(target_os = "none"))]
        {
            cpu::point("pair: exchange");
            // SAFETY: as in load.
            unsafe {
                let words = self.words();
                let same = *words == [seen.0, seen.1];
                if same {
                    *words = [value, next];
                }
                same
            }
        }
    }

    /// Replaces this CPU's value, whatever it is, and moves the number on. Gives the old value.
    #[inline]
    pub fn swap(&self, value: usize) -> usize {
        loop {
            let seen = self.load();
            if self.compare_exchange(seen, value) {
                return seen.0;
            }
        }
    }

    /// The value of CPU `id`, read from afar: a snapshot for statistics. `None` when there is no such CPU.
    pub fn value_on(&self, id: usize) -> Option<usize> {
        // SAFETY: initialised by try_new; a racing write gives the old or the new word.
        cpu::local::area(id).map(|area| unsafe { area.add(self.offset).cast::<usize>().read_volatile() })
    }

    #[cfg(not(target_os = "none"))]
    fn words(&self) -> *mut [usize; 2] {
        // SAFETY: the offset lies in the area.
        unsafe { cpu::local::this_area().add(self.offset).cast() }
    }
}

impl Drop for PerCpuPair {
    fn drop(&mut self) {
        area::free(self.offset, SIZE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_an_interrupt_between_read_and_exchange_noticed() {
        cpu::host::single(|| {
            let pair: &'static PerCpuPair = Box::leak(Box::new(PerCpuPair::try_new().unwrap()));
            assert!(pair.compare_exchange(pair.load(), 100));
            // The interrupt takes 100 away and puts the very same value back: only the number tells.
            cpu::host::on_point(move |at| {
                if at == "pair: read" {
                    pair.swap(7);
                    pair.swap(100);
                }
            });
            let seen = pair.load();
            cpu::host::no_points();
            assert_eq!(seen.0, 100);
            assert!(!pair.compare_exchange(seen, 1), "a stale exchange went through");
            assert_eq!(pair.load().0, 100);
        });
    }

    #[test]
    fn do_transaction_numbers_of_cpus_differ() {
        cpu::host::scenario(
            4,
            || PerCpuPair::try_new().unwrap(),
            |id, pair| {
                for i in 0..1000 {
                    pair.swap(i);
                    assert_eq!(pair.load().1 % PerCpuPair::STEP, id);
                }
            },
            drop,
        );
    }
}
