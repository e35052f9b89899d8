//! Entry by the PVH boot protocol: from QEMU's `-kernel` (and Firecracker's, and Cloud Hypervisor's) to Rust.
//!
//! The loader finds the physical address of [`pvh_start`](self) in the note of type 18 (XEN_ELFNOTE_PHYS32_ENTRY) and
//! jumps there in 32-bit protected mode, paging off, interrupts off, with the physical address of the start info in
//! ebx. The page tables for the way up are constants of the assembler: the first 4 GiB, at 0 and in the direct map, and
//! the first GiB at the kernel's own address. Everything is mapped with all permissions; `paging::init` ends that.
//!
//! The start info and what it points to lie in low memory that nobody has reserved: they are copied into a
//! [`BootInfo`] first of all. Nothing in them is trusted to be aligned.
//!
//! Source: the Xen project's "x86/HVM direct boot ABI" and its header `start_info.h`.

use super::boot_info::{BootInfo, COMMAND_LINE_MAX, Kind, MAX_REGIONS, Region};
use super::layout::{BOOT_MAPPED, PHYS_OFFSET};
use arrayvec::ArrayVec;
use core::ops::Range;

/// Bytes of the boot stack. Its guard page lies below.
pub const BOOT_STACK_SIZE: usize = 64 * 1024;

core::arch::global_asm!(
    r#"
    .pushsection .note.Xen, "a", @note
    .p2align 2
    .long 4                                 # bytes of the name
    .long 4                                 # bytes of the descriptor
    .long 18                                # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long pvh_start - {offset}
    .popsection

    # Read, and marked as accessed by the processor, before any of our permissions exist.
    .pushsection .data.boot_tables, "aw", @progbits
    .p2align 12
    .global boot_pml4
boot_pml4:
    .quad boot_pdpt - {offset} + 3          # 0: the entry code runs here until it jumps up
    .fill 255, 8, 0
    .quad boot_pdpt - {offset} + 3          # 256: the direct map
    .fill 254, 8, 0
    .quad boot_pdpt_image - {offset} + 3    # 511: the image
boot_pdpt:
    .quad boot_pd - {offset} + 0x0003
    .quad boot_pd - {offset} + 0x1003
    .quad boot_pd - {offset} + 0x2003
    .quad boot_pd - {offset} + 0x3003
    .fill 508, 8, 0
boot_pdpt_image:
    .fill 510, 8, 0
    .quad boot_pd - {offset} + 3
    .quad 0
boot_pd:
    .set page, 0
    .rept 2048
    .quad page + 0xe3                       # present, writable, accessed, dirty, 2 MiB
    .set page, page + 0x200000
    .endr
    .p2align 3
    .global boot_gdt
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff                # 8: 64-bit code
    .quad 0x00cf93000000ffff                # 16: data
boot_gdt_pointer:
    .word . - boot_gdt - 1
    .long boot_gdt - {offset}
    .popsection

    .pushsection .bss.boot_stack, "aw", @nobits
    .p2align 12
    .global boot_stack_guard
boot_stack_guard:
    .skip 4096
    .skip {stack}
    .global boot_stack_top
boot_stack_top:
    .popsection

    .pushsection .text.boot, "ax", @progbits
    .code32
    .global pvh_start
pvh_start:
    cld
    rdtsc                                   # what the firmware took
    movl    %eax, %esi
    movl    %edx, %edi
    movl    %cr4, %eax
    orl     $0x20, %eax                     # PAE
    movl    %eax, %cr4
    movl    $(boot_pml4 - {offset}), %eax
    movl    %eax, %cr3
    movl    $0xc0000080, %ecx               # EFER:
    rdmsr
    orl     $0x901, %eax                    # syscall, long mode, no-execute
    wrmsr
    movl    %cr0, %eax
    orl     $0x80010001, %eax               # paging, write protection in ring 0, protected mode
    movl    %eax, %cr0
    lgdt    boot_gdt_pointer - {offset}
    ljmpl   $8, $(1f - {offset})
    .code64
1:  movabsq $2f, %rax                       # still at the low address: jump up
    jmpq    *%rax
2:  movl    $16, %eax
    movl    %eax, %ss
    xorl    %eax, %eax
    movl    %eax, %ds
    movl    %eax, %es
    movl    %eax, %fs
    movl    %eax, %gs
    movabsq $boot_stack_top, %rsp
    xorl    %ebp, %ebp
    shlq    $32, %rdi                       # the TSC's halves (the switch kept the lower 32 bits of registers)
    movl    %esi, %esi
    orq     %rdi, %rsi
    movl    %ebx, %edi
    callq   {main}
    ud2
    .popsection
    "#,
    offset = const super::layout::KERNEL_OFFSET,
    stack = const BOOT_STACK_SIZE,
    main = sym pvh_main,
    options(att_syntax)
);

/// Addresses of the boot stack without its guard page.
pub fn boot_stack() -> Range<u64> {
    unsafe extern "C" {
        static boot_stack_top: u8;
    }
    let top = &raw const boot_stack_top as u64;
    top - BOOT_STACK_SIZE as u64..top
}

const MAGIC: u32 = 0x336e_c578;

/// `struct hvm_start_info`, version 1.
#[repr(C)]
#[derive(Clone, Copy)]
struct StartInfo {
    magic: u32,
    version: u32,
    _flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    _reserved: u32,
}

/// `struct hvm_modlist_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Module {
    address: u64,
    size: u64,
    _command_line: u64,
    _reserved: u64,
}

/// `struct hvm_memmap_table_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryMapEntry {
    address: u64,
    size: u64,
    kind: u32,
    _reserved: u32,
}

/// Reads a `T` of the loader at a physical address; `None` where the boot page tables do not reach.
///
/// # Safety
/// Any bytes are a valid `T`.
unsafe fn read<T: Copy>(address: u64) -> Option<T> {
    let end = address.checked_add(size_of::<T>() as u64)?;
    if address == 0 || end > BOOT_MAPPED {
        return None;
    }
    // SAFETY: 1. mapped by the boot page tables (checked above). 2. Read unaligned. 3. Any bytes are valid (caller).
    Some(unsafe { ((PHYS_OFFSET + address) as *const T).read_unaligned() })
}

/// The first Rust code. `start_info` is a physical address, `tsc` the time stamp at the kernel's first instruction.
extern "C" fn pvh_main(start_info: u64, tsc: u64) -> ! {
    // SAFETY: this is the first code that runs, once, on the boot stack.
    unsafe { super::early() };
    let info = match gather(start_info, tsc) {
        Ok(info) => info,
        Err(reason) => panic!("PVH: {reason}"),
    };
    crate::boot(super::boot_info::set(info))
}

/// Copies what the loader left.
fn gather(start_info: u64, tsc: u64) -> Result<BootInfo, &'static str> {
    // SAFETY: all fields are integers.
    let start: StartInfo = unsafe { read(start_info) }.ok_or("the start info is out of reach")?;
    if start.magic != MAGIC {
        return Err("the start info has another magic number");
    }
    if start.version < 1 {
        return Err("start info of version 0 carries no memory map");
    }
    let mut regions: ArrayVec<Region, MAX_REGIONS> = ArrayVec::new();
    let mut regions_dropped = 0;
    for i in 0..u64::from(start.memory_map_entries) {
        let address = start.memory_map.wrapping_add(i * size_of::<MemoryMapEntry>() as u64);
        // SAFETY: all fields are integers.
        let entry: MemoryMapEntry = unsafe { read(address) }.ok_or("the memory map is out of reach")?;
        if entry.size == 0 {
            continue; // microvm's map ends in an empty entry
        }
        let region = Region {
            range: entry.address..entry.address.saturating_add(entry.size),
            kind: Kind::from_e820(entry.kind),
        };
        regions_dropped += usize::from(regions.try_push(region).is_err());
    }
    let mut initrd = None;
    if start.modules > 0 {
        // SAFETY: all fields are integers.
        let module: Module = unsafe { read(start.module_list) }.ok_or("the module list is out of reach")?;
        let end = module
            .address
            .checked_add(module.size)
            .ok_or("the initrd's size is absurd")?;
        initrd = (module.size > 0).then_some(module.address..end);
    }
    let mut command_line = ArrayVec::new();
    let mut command_line_cut = false;
    if start.command_line != 0 {
        for i in 0..=COMMAND_LINE_MAX as u64 {
            // SAFETY: a byte is a byte.
            let byte: u8 = unsafe { read(start.command_line + i) }.ok_or("the command line is out of reach")?;
            if byte == 0 {
                break;
            }
            command_line_cut = command_line.try_push(byte).is_err();
        }
    }
    Ok(BootInfo {
        protocol: "PVH",
        tsc_at_entry: tsc,
        command_line,
        command_line_cut,
        regions,
        regions_dropped,
        initrd,
        rsdp: (start.rsdp != 0).then_some(start.rsdp),
    })
}
