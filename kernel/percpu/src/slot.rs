//! A value for each CPU.

use crate::area;
use core::fmt;
use core::marker::PhantomData;
use cpu::Pinned;

/// The CPUs' areas are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSpace;

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no space left in the per-CPU areas")
    }
}

/// One `T` for each possible CPU.
///
/// [`get`](PerCpu::get) gives the caller's own, for as long as the caller proves to stay. Values change through `Cell`s
/// and the like. Where an interrupt handler uses the same slot, callers pass a [`cpu::Masked`] (which is a `Pinned`).
/// Other CPUs' values can be read only if `T` is `Sync`.
pub struct PerCpu<T> {
    /// Offset in every area. Immutable.
    offset: usize,
    _owns: PhantomData<T>,
}

// SAFETY: a PerCpu owns its values. On several CPUs at once each reaches its own value only (get demands a Pinned, which
// cannot move to another CPU), or shares those that are Sync (on). Values are made and dropped by whichever CPU makes
// and drops the PerCpu: hence Send.
unsafe impl<T: Send> Send for PerCpu<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for PerCpu<T> {}

impl<T> PerCpu<T> {
    /// Makes a slot on every possible CPU; `init` is called with each CPU's number.
    pub fn try_new(mut init: impl FnMut(usize) -> T) -> Result<Self, NoSpace> {
        let offset = area::alloc(size_of::<T>(), align_of::<T>()).ok_or(NoSpace)?;
        for id in 0..cpu::possible() {
            let area = cpu::local::area(id).expect("possible CPUs have areas");
            // SAFETY: the allocator gave offset..offset + size_of::<T>() of every area to us alone, aligned for T.
            unsafe { area.add(offset).cast::<T>().write(init(id)) };
        }
        Ok(PerCpu {
            offset,
            _owns: PhantomData,
        })
    }

    /// This CPU's value.
    #[inline(always)]
    pub fn get<'a>(&'a self, _stays: &'a Pinned) -> &'a T {
        // SAFETY: initialised by try_new in every possible CPU's area. The proof keeps us on this CPU for 'a, so no
        // other CPU has a reference to this value (but through `on`, which is for T: Sync).
        unsafe { &*cpu::local::this_area().add(self.offset).cast::<T>() }
    }

    /// The value of CPU `id`, for reading sums. `None` when there is no such CPU.
    pub fn on(&self, id: usize) -> Option<&T>
    where
        T: Sync,
    {
        // SAFETY: initialised by try_new; T: Sync allows shared use.
        cpu::local::area(id).map(|area| unsafe { &*area.add(self.offset).cast::<T>() })
    }

    /// Every CPU's value, when nobody else can use the slot any more.
    pub fn each_mut(&mut self) -> impl Iterator<Item = &mut T> {
        (0..cpu::possible()).filter_map(|id| {
            // SAFETY: initialised by try_new; &mut self proves that there is no other reference, and each CPU's value is
            // given once.
            cpu::local::area(id).map(|area| unsafe { &mut *area.add(self.offset).cast::<T>() })
        })
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        for value in self.each_mut() {
            // SAFETY: each value is dropped once, here, and not used again.
            unsafe { core::ptr::drop_in_place(value) };
        }
        area::free(self.offset, size_of::<T>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn has_each_cpu_its_own_value() {
        cpu::host::scenario(
            4,
            || PerCpu::try_new(|id| Cell::new(id * 10)).unwrap(),
            |id, slot| {
                for _ in 0..100 {
                    cpu::without_preemption(|pinned| {
                        let value = slot.get(pinned);
                        value.set(value.get() + 1);
                    });
                }
                cpu::without_preemption(|pinned| assert_eq!(slot.get(pinned).get(), id * 10 + 100));
            },
            drop,
        );
    }

    #[test]
    fn are_values_dropped_and_space_given_back() {
        cpu::host::single(|| {
            let before = area::used_bytes();
            let witness = std::sync::Arc::new(());
            let slot = PerCpu::try_new(|_| witness.clone()).unwrap();
            assert_eq!(std::sync::Arc::strong_count(&witness), 1 + cpu::possible());
            assert!(area::used_bytes() > before);
            drop(slot);
            assert_eq!(std::sync::Arc::strong_count(&witness), 1);
            assert_eq!(area::used_bytes(), before);
        });
    }

    #[test]
    fn does_a_full_area_refuse() {
        cpu::host::single(|| {
            let mut slots = std::vec::Vec::new();
            let refused = loop {
                match PerCpu::try_new(|_| [0u8; 100_000]) {
                    Ok(slot) => slots.push(slot),
                    Err(error) => break error,
                }
            };
            assert_eq!(refused, NoSpace);
            assert!(slots.len() > 100, "{} slots of 100 000 bytes", slots.len());
            slots.swap_remove(50);
            assert!(PerCpu::try_new(|_| [0u8; 100_000]).is_ok(), "a hole is used again");
        });
    }

    #[test]
    fn are_slots_aligned() {
        #[repr(align(64))]
        struct Line(#[allow(dead_code)] u8);
        cpu::host::single(|| {
            let _odd = PerCpu::try_new(|_| 1u8).unwrap();
            let line = PerCpu::try_new(|_| Line(1)).unwrap();
            cpu::without_preemption(|pinned| assert_eq!(line.get(pinned) as *const Line as usize % 64, 0));
        });
    }
}
