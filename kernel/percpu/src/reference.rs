//! A reference count that is per CPU until its owner lets go (Linux: `percpu_ref`).
//!
//! While the owner holds its own reference nobody needs to know the count, so taking and dropping a reference adds to
//! this CPU's part. [`PercpuRef::kill`] switches to one shared atomic: from then on the last drop is noticed.

use crate::count::PerCpuI64;
use crate::slot::NoSpace;
use cpu::atomic::{AtomicI64, AtomicU32, Ordering};

/// Added to the shared count while the per-CPU parts are not folded in, so that it cannot reach zero meanwhile.
const BIAS: i64 = 1 << 60;
const PER_CPU: u32 = 0;
const KILLED: u32 = 1;

/// A reference count, born with one reference: the owner's.
pub struct PercpuRef {
    /// References taken less those dropped, by CPU, while not killed.
    parts: PerCpuI64,
    /// [`BIAS`] + 1 while not killed; the whole count afterwards.
    shared: AtomicI64,
    mode: AtomicU32,
}

impl PercpuRef {
    /// A count of one.
    pub fn try_new() -> Result<Self, NoSpace> {
        Ok(PercpuRef {
            parts: PerCpuI64::try_new()?,
            shared: AtomicI64::new(BIAS + 1),
            mode: AtomicU32::new(PER_CPU),
        })
    }

    /// Takes a reference; the caller knows that there is one already.
    ///
    /// Fast path: one unlocked add inside a reader section (the mode cannot change and be folded under it).
    #[inline(always)]
    pub fn get(&self) {
        cpu::rcu_read(|_| match self.mode.load(Ordering::Acquire) {
            PER_CPU => self.parts.add(1),
            _ => _ = self.shared.fetch_add(1, Ordering::Relaxed),
        });
    }

    /// Takes a reference if there is one. The caller is in a reader section ([`cpu::rcu_read`]).
    ///
    /// Fast path: one unlocked add.
    #[inline(always)]
    pub fn try_get(&self, _reader: &cpu::Pinned) -> bool {
        if self.mode.load(Ordering::Acquire) == PER_CPU {
            self.parts.add(1);
            return true;
        }
        let mut count = self.shared.load(Ordering::Relaxed);
        while count > 0 {
            match self
                .shared
                .compare_exchange(count, count + 1, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    /// Drops a reference. True when it was the last, which happens only after [`kill`](PercpuRef::kill).
    #[inline(always)]
    #[must_use]
    pub fn put(&self) -> bool {
        cpu::rcu_read(|_| match self.mode.load(Ordering::Acquire) {
            PER_CPU => {
                self.parts.add(-1);
                false
            }
            _ => self.shared.fetch_sub(1, Ordering::AcqRel) == 1,
        })
    }

    /// The owner lets go: the count becomes one shared number, and the owner's reference is dropped. True when it was
    /// the last.
    ///
    /// `grace` waits until every CPU has left the reader section that it may be in. Argument: a reader that saw
    /// `PER_CPU` adds to its part before `grace` returns, so the sum taken after it misses nothing; a reader that comes
    /// later sees `KILLED` and uses the shared count, which the bias keeps above zero until the parts are folded in.
    ///
    /// # Panics
    /// When called twice: there is one owner.
    #[must_use]
    pub fn kill(&self, grace: impl FnOnce()) -> bool {
        assert_eq!(
            self.mode.swap(KILLED, Ordering::AcqRel),
            PER_CPU,
            "a reference count is killed once"
        );
        grace();
        let fold = self.parts.sum() - BIAS - 1;
        self.shared.fetch_add(fold, Ordering::AcqRel) + fold == 0
    }

    /// Whether [`kill`](PercpuRef::kill) was called.
    pub fn killed(&self) -> bool {
        self.mode.load(Ordering::Acquire) == KILLED
    }

    /// The count: exact when all is quiet.
    pub fn count(&self) -> i64 {
        match self.mode.load(Ordering::Acquire) {
            PER_CPU => 1 + self.parts.sum(),
            _ => self.shared.load(Ordering::Acquire),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_last_put_noticed_only_after_the_kill() {
        cpu::host::single(|| {
            let count = PercpuRef::try_new().unwrap();
            count.get();
            count.get();
            assert!(!count.put());
            assert_eq!(count.count(), 2);
            assert!(!count.kill(|| ()));
            assert_eq!(count.count(), 1);
            assert!(cpu::rcu_read(|r| count.try_get(r)));
            assert!(!count.put());
            assert!(count.put());
            assert!(!cpu::rcu_read(|r| count.try_get(r)), "a dead count was revived");
        });
    }

    #[test]
    fn do_references_taken_on_one_cpu_and_dropped_on_another_balance() {
        cpu::host::scenario(
            4,
            || PercpuRef::try_new().unwrap(),
            |id, count| {
                for _ in 0..1000 {
                    if id < 2 { count.get() } else { assert!(!count.put()) }
                }
            },
            |count| {
                assert_eq!(count.count(), 1);
                assert!(count.kill(|| ()));
            },
        );
    }
}
