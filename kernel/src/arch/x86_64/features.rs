//! What this processor can do, and the switching on of it.

use super::once::BootCell;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags};
use x86_64::registers::xcontrol::{XCr0, XCr0Flags};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Supervisor-mode execution prevention.
    pub smep: bool,
    /// Supervisor-mode access prevention.
    pub smap: bool,
    /// User-mode instruction prevention.
    pub umip: bool,
    /// XSAVE, and the components that are on: the FPU, SSE, and AVX where there is one.
    pub xsave: Option<XCr0Flags>,
    /// Bytes of a program's FPU state, as XSAVE (or FXSAVE) lays it out.
    pub fpu_area: usize,
    /// Pages of 1 GiB.
    pub gigabyte_pages: bool,
    /// The local APIC by MSRs.
    pub x2apic: bool,
    /// Runs under a hypervisor (or an emulator).
    pub hypervisor: bool,
}

/// Bytes of a saved FPU state: the legacy area (512), XSAVE's header (64), AVX's upper halves (256).
pub const FPU_AREA: usize = 832;

static FEATURES: BootCell<Features> = BootCell::new();

/// The boot CPU's features.
///
/// # Panics
/// Before [`detect`].
pub fn get() -> &'static Features {
    match FEATURES.get() {
        Some(features) => features,
        None => panic!("the processor's features were asked for before they were known"),
    }
}

/// CPUID leaf 1, edx: what Linux hands to programs as `AT_HWCAP`.
pub fn cpuid_edx() -> u32 {
    __cpuid(1).edx
}

/// The highest basic leaf: reading above it gives another leaf's data.
pub fn max_leaf() -> u32 {
    __cpuid(0).eax
}

/// Reads CPUID, once.
pub fn detect() -> &'static Features {
    let bit = |register: u32, bit: u32| register >> bit & 1 == 1;
    let basic = __cpuid(1);
    let structured = if max_leaf() >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    let structured_ecx = if max_leaf() >= 7 { __cpuid_count(7, 0).ecx } else { 0 };
    let extended = if __cpuid(0x8000_0000).eax >= 0x8000_0001 {
        __cpuid(0x8000_0001).edx
    } else {
        0
    };
    let has_xsave = bit(basic.ecx, 26) && max_leaf() >= 0xd;
    let xsave = has_xsave.then(|| {
        let supported = XCr0Flags::from_bits_truncate(u64::from(__cpuid_count(0xd, 0).eax));
        // AVX's part stands behind the header on every processor so far; elsewhere it would not fit a context.
        let avx = __cpuid_count(0xd, 2);
        let fits = (avx.ebx + avx.eax) as usize <= FPU_AREA;
        let avx = if fits {
            supported & XCr0Flags::AVX
        } else {
            XCr0Flags::empty()
        };
        XCr0Flags::X87 | XCr0Flags::SSE | avx
    });
    FEATURES.set(Features {
        smep: bit(structured, 7),
        smap: bit(structured, 20),
        umip: bit(structured_ecx, 2),
        xsave,
        fpu_area: match xsave {
            None => 512,
            Some(on) if on.contains(XCr0Flags::AVX) => FPU_AREA,
            Some(_) => 576,
        },
        gigabyte_pages: bit(extended, 26),
        x2apic: bit(basic.ecx, 21),
        hypervisor: bit(basic.ecx, 31),
    })
}

/// Switches on, on this CPU, what [`detect`] found.
///
/// # Safety
/// The page tables have no user page in the kernel's way: with SMEP and SMAP the kernel can no longer run or read them.
pub unsafe fn enable(features: &Features) {
    let mut cr4 = Cr4::read() | Cr4Flags::PAGE_GLOBAL | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE;
    cr4.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, features.smep);
    cr4.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, features.smap);
    cr4.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, features.umip);
    cr4.set(Cr4Flags::OSXSAVE, features.xsave.is_some());
    // Off, so that the entry code can tell whose gs base is loaded by its sign: only the kernel writes it.
    cr4.remove(Cr4Flags::FSGSBASE);
    let mut cr0 = Cr0::read() | Cr0Flags::MONITOR_COPROCESSOR | Cr0Flags::NUMERIC_ERROR | Cr0Flags::WRITE_PROTECT;
    cr0.remove(Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED | Cr0Flags::CACHE_DISABLE);
    cr0.remove(Cr0Flags::NOT_WRITE_THROUGH);
    cr0.insert(Cr0Flags::ALIGNMENT_MASK); // ring 3 may check the alignment of its accesses, as on Linux
    // SAFETY: 1. every bit that is set was found in CPUID or is part of x86-64. 2. SMEP and SMAP by the caller's word.
    unsafe {
        Cr0::write(cr0);
        Cr4::write(cr4);
        if let Some(components) = features.xsave {
            XCr0::write(components);
        }
    }
}
