//! Sets of CPUs.

use crate::local::MAX_CPUS;
use core::ops::{BitAnd, BitOr, Not, Sub};
use core::sync::atomic::{AtomicU32, Ordering};

/// A set of CPUs, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuSet(u32);

const _: () = assert!(MAX_CPUS <= u32::BITS as usize);

impl CpuSet {
    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet(0);
    /// Every CPU that the kernel could have.
    pub const ALL: CpuSet = CpuSet(((1u64 << MAX_CPUS) - 1) as u32);

    /// One CPU, below [`MAX_CPUS`].
    #[inline(always)]
    pub const fn of(cpu: usize) -> CpuSet {
        CpuSet(1 << cpu)
    }

    /// By bits, as sched_setaffinity(2) has them; bits of CPUs that the kernel cannot have are dropped.
    pub const fn from_bits(bits: u64) -> CpuSet {
        CpuSet((bits & CpuSet::ALL.0 as u64) as u32)
    }

    /// As bits.
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Whether there is none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it has this one.
    #[inline(always)]
    pub const fn contains(self, cpu: usize) -> bool {
        self.0 >> cpu & 1 != 0
    }

    /// Whether there is one and no other.
    #[inline(always)]
    pub const fn is_single(self) -> bool {
        self.0 != 0 && self.0 & (self.0 - 1) == 0
    }

    /// How many.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The one with the lowest number.
    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros() as usize)
        }
    }
}

impl Iterator for CpuSet {
    type Item = usize;
    /// Takes out the one with the lowest number.
    #[inline]
    fn next(&mut self) -> Option<usize> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

impl BitAnd for CpuSet {
    type Output = CpuSet;
    #[inline(always)]
    fn bitand(self, other: CpuSet) -> CpuSet {
        CpuSet(self.0 & other.0)
    }
}

impl BitOr for CpuSet {
    type Output = CpuSet;
    #[inline(always)]
    fn bitor(self, other: CpuSet) -> CpuSet {
        CpuSet(self.0 | other.0)
    }
}

impl Sub for CpuSet {
    type Output = CpuSet;
    /// Those that are not in `other`.
    #[inline(always)]
    fn sub(self, other: CpuSet) -> CpuSet {
        CpuSet(self.0 & !other.0)
    }
}

impl Not for CpuSet {
    type Output = CpuSet;
    fn not(self) -> CpuSet {
        CpuSet::ALL - self
    }
}

/// A set that several CPUs change.
#[derive(Default, Debug)]
pub struct AtomicCpuSet(AtomicU32);

impl AtomicCpuSet {
    /// Holding `set`.
    pub const fn new(set: CpuSet) -> AtomicCpuSet {
        AtomicCpuSet(AtomicU32::new(set.0))
    }

    /// What it holds.
    #[inline(always)]
    pub fn get(&self) -> CpuSet {
        CpuSet(self.0.load(Ordering::Acquire))
    }

    /// Makes it hold `set`.
    pub fn set(&self, set: CpuSet) {
        self.0.store(set.0, Ordering::Release);
    }

    /// Puts a CPU in. Ordered against everything before and after, as [`AtomicCpuSet::remove`] is.
    #[inline]
    pub fn insert(&self, cpu: usize) {
        self.0.fetch_or(CpuSet::of(cpu).0, Ordering::SeqCst);
    }

    /// Takes a CPU out; whether it was in.
    #[inline]
    pub fn remove(&self, cpu: usize) -> bool {
        self.0.fetch_and(!CpuSet::of(cpu).0, Ordering::SeqCst) & CpuSet::of(cpu).0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_a_set_give_its_cpus_in_order() {
        let set = CpuSet::from_bits(0b1010_0001);
        assert_eq!(set.collect::<Vec<_>>(), [0, 5, 7]);
        assert_eq!((set - CpuSet::of(5)).count(), 2);
        assert_eq!(CpuSet::from_bits(u64::MAX), CpuSet::ALL);
        assert!(!(!set).contains(5) && (!set).contains(6));
    }

    #[test]
    fn does_taking_out_say_whether_it_was_in() {
        let set = AtomicCpuSet::new(CpuSet::of(3));
        assert!(set.remove(3));
        assert!(!set.remove(3));
        set.insert(1);
        assert_eq!(set.get().first(), Some(1));
    }
}
