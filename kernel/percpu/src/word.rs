//! A signed 32-bit word for each CPU: the local part of a counter.

use crate::area;
use crate::slot::NoSpace;
use core::sync::atomic::{AtomicI32, Ordering};
use cpu::Masked;

/// A 32-bit word for each CPU, changed by its own CPU only.
///
/// Each operation is one instruction on whichever CPU runs it, without a lock prefix (Linux: `this_cpu_read`,
/// `this_cpu_cmpxchg`, `this_cpu_add`): atomic against this CPU's interrupts, and another CPU never writes the word.
pub(crate) struct PerCpuI32 {
    /// Offset in every area. Immutable.
    offset: u32,
}

const SIZE: usize = 4;

impl PerCpuI32 {
    /// Makes a word of 0 on every possible CPU.
    pub(crate) fn try_new() -> Result<Self, NoSpace> {
        let offset = area::alloc(SIZE, SIZE).ok_or(NoSpace)?;
        let word = PerCpuI32 {
            offset: u32::try_from(offset).expect("areas are small"),
        };
        for id in 0..cpu::possible() {
            word.on(id).store(0, Ordering::Relaxed);
        }
        Ok(word)
    }

    /// This CPU's word.
    #[inline(always)]
    pub(crate) fn load(&self) -> i32 {
        #[cfg(target_os = "none")]
        {
            let value: i32;
            // SAFETY: reads a word of this CPU's area that try_new initialised.
            unsafe {
                core::arch::asm!("mov {:e}, gs:[{}]", out(reg) value, in(reg) u64::from(self.offset),
                    options(nostack, preserves_flags, readonly));
            }
            value
        }
        #[cfg(not(target_os = "none"))]
        {
            let value = self.own().load(Ordering::Relaxed);
            cpu::point("word: read");
            value
        }
    }

    /// Puts `new` where this CPU's word still is `seen`; else gives what it is.
    ///
    /// A caller that was moved to another CPU since it read `seen` exchanges that CPU's word if it has the same value.
    /// For `new` = `seen` + amount that is the addition all the same, on that CPU.
    #[inline(always)]
    pub(crate) fn compare_exchange(&self, seen: i32, new: i32) -> Result<(), i32> {
        #[cfg(target_os = "none")]
        {
            let found: i32;
            // SAFETY: exchanges a word of this CPU's area that try_new initialised.
            unsafe {
                core::arch::asm!("cmpxchg gs:[{}], {:e}", in(reg) u64::from(self.offset), in(reg) new,
                    inout("eax") seen => found, options(nostack));
            }
            if found == seen { Ok(()) } else { Err(found) }
        }
        #[cfg(not(target_os = "none"))]
        {
            cpu::point("word: exchange");
            let word = self.own();
            match word.load(Ordering::Relaxed) {
                found if found == seen => {
                    word.store(new, Ordering::Relaxed);
                    Ok(())
                }
                found => Err(found),
            }
        }
    }

    /// Adds to this CPU's word, wrapping. For the adds of [`crate::races`]: whoever must not wrap exchanges.
    #[inline(always)]
    pub(crate) fn add_wrapping(&self, amount: i32) {
        #[cfg(target_os = "none")]
        // SAFETY: one instruction on a word of this CPU's area that try_new initialised.
        unsafe {
            core::arch::asm!("add dword ptr gs:[{}], {:e}", in(reg) u64::from(self.offset), in(reg) amount,
                options(nostack));
        }
        #[cfg(not(target_os = "none"))]
        {
            let word = self.own();
            word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// Writes this CPU's word, of whatever value it is. For the adds of [`crate::races`]; see [`set`](PerCpuI32::set).
    #[inline(always)]
    pub(crate) fn overwrite(&self, value: i32) {
        #[cfg(target_os = "none")]
        // SAFETY: one instruction on a word of this CPU's area that try_new initialised.
        unsafe {
            core::arch::asm!("mov dword ptr gs:[{}], {:e}", in(reg) u64::from(self.offset), in(reg) value,
                options(nostack, preserves_flags));
        }
        #[cfg(not(target_os = "none"))]
        self.own().store(value, Ordering::Relaxed);
    }

    /// Writes this CPU's word, with interrupts off: what was read with the same proof is still there.
    #[inline(always)]
    pub(crate) fn set(&self, value: i32, _masked: &Masked) {
        self.overwrite(value);
    }

    /// The sum of all CPUs' words, one read after the other.
    pub(crate) fn sum(&self) -> i64 {
        (0..cpu::possible())
            .map(|id| i64::from(self.on(id).load(Ordering::Relaxed)))
            .sum()
    }

    /// This CPU's word.
    #[cfg(not(target_os = "none"))]
    fn own(&self) -> &AtomicI32 {
        // SAFETY: as in on; this CPU has an area.
        unsafe { &*cpu::local::this_area().add(self.offset as usize).cast::<AtomicI32>() }
    }

    /// CPU `id`'s word.
    fn on(&self, id: usize) -> &AtomicI32 {
        let area = cpu::local::area(id).expect("possible CPUs have areas");
        // SAFETY: the word is ours in every area, aligned to 4, and written whole.
        unsafe { &*area.add(self.offset as usize).cast::<AtomicI32>() }
    }
}

impl Drop for PerCpuI32 {
    fn drop(&mut self) {
        area::free(self.offset as usize, SIZE);
    }
}
