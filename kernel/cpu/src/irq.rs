//! The interrupt flag of this CPU.

use crate::event::{self, Event};
use crate::preempt::Pinned;
use core::ops::Deref;

/// Proof that this CPU's interrupts are off. It implies [`Pinned`]: without interrupts nothing preempts.
pub struct Masked {
    pinned: Pinned,
}

impl Masked {
    /// For code that knows by other means that interrupts are off: the guards of the locks, interrupt handlers.
    ///
    /// # Safety
    /// Interrupts stay off on this CPU while the value lives.
    #[inline(always)]
    pub const unsafe fn assume() -> Masked {
        // SAFETY: interrupts off means not preempted; the caller vouches for the time.
        let pinned = unsafe { Pinned::assume() };
        Masked { pinned }
    }
}

impl Deref for Masked {
    type Target = Pinned;
    #[inline(always)]
    fn deref(&self) -> &Pinned {
        &self.pinned
    }
}

/// Runs `f` with this CPU's interrupts off and puts the flag back as it was. Sections nest.
///
/// As on Linux the flag is saved with `pushf`, cleared with `cli`, and set again with `sti` only where it was set.
#[inline(always)]
pub fn without_interrupts<R>(f: impl FnOnce(&Masked) -> R) -> R {
    let section = Section::enter();
    // SAFETY: the section holds the flag down until after f.
    let result = f(&unsafe { Masked::assume() });
    drop(section);
    result
}

/// An interrupts-off section; the flag is put back on drop.
pub(crate) struct Section {
    /// Whether interrupts were on before.
    were_on: bool,
}

impl Section {
    #[inline(always)]
    pub(crate) fn enter() -> Section {
        event::count(Event::IrqFlag);
        #[cfg(target_os = "none")]
        {
            let flags: u64;
            // SAFETY: reads RFLAGS and clears IF; the stack is used (no `nostack`), memory accesses are not moved
            // across (no `nomem`).
            unsafe { core::arch::asm!("pushfq", "pop {}", "cli", out(reg) flags) };
            Section {
                were_on: flags & (1 << 9) != 0,
            }
        }
        #[cfg(not(target_os = "none"))]
        crate::local::with_local(|local| Section {
            were_on: core::mem::replace(&mut local.host_interrupts, false),
        })
    }
}

impl Drop for Section {
    #[inline(always)]
    fn drop(&mut self) {
        event::count(Event::IrqFlag);
        if self.were_on {
            enable();
        }
    }
}

/// Whether interrupts are on.
#[inline]
pub fn enabled() -> bool {
    #[cfg(target_os = "none")]
    {
        let flags: u64;
        // SAFETY: reads RFLAGS through the stack.
        unsafe { core::arch::asm!("pushfq", "pop {}", out(reg) flags, options(nomem, preserves_flags)) };
        flags & (1 << 9) != 0
    }
    #[cfg(not(target_os = "none"))]
    crate::local::with_local(|local| local.host_interrupts)
}

/// Turns interrupts on. For entry and exit paths and the scheduler; mechanisms use [`without_interrupts`].
#[inline(always)]
pub fn enable() {
    #[cfg(target_os = "none")]
    // SAFETY: the caller has left every section that needs them off (sections restore in order of nesting).
    unsafe {
        core::arch::asm!("sti", options(nostack));
    }
    #[cfg(not(target_os = "none"))]
    crate::local::with_local(|local| local.host_interrupts = true);
}

/// Turns interrupts off. For entry and exit paths and the scheduler; mechanisms use [`without_interrupts`].
#[inline(always)]
pub fn disable() {
    #[cfg(target_os = "none")]
    // SAFETY: masking interrupts is always sound.
    unsafe {
        core::arch::asm!("cli", options(nostack));
    }
    #[cfg(not(target_os = "none"))]
    crate::local::with_local(|local| local.host_interrupts = false);
}
