//! The frame that a signal's handler finds on its stack, as Linux lays it out on x86-64.
//!
//! From low addresses to high: the handler's return address (the C library's restorer, which calls rt_sigreturn(2)), the
//! `ucontext`, the `siginfo`; above them, aligned to 64, the FPU's state in XSAVE's form, with Linux's own words in the
//! part of the legacy area that the processor leaves alone, and a magic number behind it. Handlers begin with a fresh FPU.

use super::features::{self, FPU_AREA};
use super::switch::Fpu;
use super::trap::TrapFrame;
use super::usercopy::{self, Fault};
use crate::mm::plain;
use crate::task::deliver::AlternateStack;
use crate::task::pending::INFO_SIZE;
use crate::task::signal::{Action, Info};
use crate::user_struct;
use linux_raw_sys::general;
use x86_64::registers::rflags::RFlags;

/// Bytes of the instruction `syscall`: a call that is to be begun again is this far back.
pub const SYSCALL_LENGTH: u64 = 2;
/// Below the stack pointer, what a leaf function may use (System V ABI).
const RED_ZONE: u64 = 128;
/// Where Linux's words begin in the FPU's legacy area (`struct _fpx_sw_bytes`).
const SOFTWARE: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// `uc_flags`: the FPU's state is extended; the stack segment is there and is to be taken as it is.
const EXTENDED: u64 = 1;
const STACK_SEGMENT: u64 = 2 | 4;

user_struct! {
    /// `struct rt_sigframe` up to the `siginfo`.
    struct Frame {
        restorer: u64,
        flags: u64,
        link: u64,
        stack: AlternateStack,
        /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags.
        registers: [u64; 18],
        /// cs, gs, fs, ss.
        segments: [u16; 4],
        error: u64,
        vector: u64,
        old_mask: u64,
        address: u64,
        fpu: u64,
        reserved: [u64; 8],
        mask: u64,
    }
}
const FRAME: u64 = (size_of::<Frame>() + INFO_SIZE) as u64;
const _: () = assert!(size_of::<Frame>() == 8 + 304);

/// A stack for the FPU's state on its way.
#[repr(C, align(64))]
struct Area([u8; FPU_AREA]);

/// Puts a frame for `info` on the program's stack, or on its alternate one, and makes `frame` the handler's beginning.
pub fn push(
    frame: &mut TrapFrame,
    info: &Info,
    action: &Action,
    mask: u64,
    stack: &AlternateStack,
    fault: (u64, u64, u64),
) -> Result<(), Fault> {
    if action.flags & u64::from(general::SA_RESTORER) == 0 {
        return Err(Fault);
    }
    let wants = action.flags & u64::from(general::SA_ONSTACK) != 0;
    let in_use = stack.is_in_use(frame.rsp);
    let mut pointer = if wants && !in_use && stack.size != 0 {
        stack.start.wrapping_add(stack.size)
    } else {
        frame.rsp.wrapping_sub(RED_ZONE)
    };
    let size = features::get().fpu_area;
    let extended = features::get().xsave;
    let tail = if extended.is_some() { 4 } else { 0 };
    pointer = pointer.wrapping_sub((size + tail) as u64) & !63;
    let fpu = pointer;
    pointer = (pointer.wrapping_sub(FRAME) & !15).wrapping_sub(8);
    // An alternate stack that would overflow is not written beyond.
    if in_use && !stack.holds(pointer) {
        return Err(Fault);
    }

    let mut area = Area([0; FPU_AREA]);
    Fpu::save_to(&mut area.0);
    if let Some(components) = extended {
        let mut put = |at: usize, bytes: &[u8]| area.0[SOFTWARE + at..][..bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC1.to_le_bytes());
        put(4, &(size as u32 + 4).to_le_bytes());
        put(8, &components.bits().to_le_bytes());
        put(16, &(size as u32).to_le_bytes());
    }
    usercopy::copy_to_user(fpu, &area.0[..size])?;
    if extended.is_some() {
        plain::write_user(fpu + size as u64, &MAGIC2)?;
    }
    let (vector, error, address) = fault;
    plain::write_user(
        pointer,
        &Frame {
            restorer: action.restorer,
            flags: STACK_SEGMENT | if extended.is_some() { EXTENDED } else { 0 },
            link: 0,
            stack: stack.as_seen_from(frame.rsp),
            registers: [
                frame.r8,
                frame.r9,
                frame.r10,
                frame.r11,
                frame.r12,
                frame.r13,
                frame.r14,
                frame.r15,
                frame.rdi,
                frame.rsi,
                frame.rbp,
                frame.rbx,
                frame.rdx,
                frame.rax,
                frame.rcx,
                frame.rsp,
                frame.rip,
                frame.rflags,
            ],
            segments: [frame.cs as u16, 0, 0, frame.ss as u16],
            error,
            vector,
            old_mask: mask,
            address,
            fpu,
            reserved: [0; 8],
            mask,
        },
    )?;
    let at = pointer + size_of::<Frame>() as u64;
    plain::write_user(at, info)?;
    usercopy::clear_user(at + size_of::<Info>() as u64, INFO_SIZE - size_of::<Info>())?;

    frame.rdi = plain::bytes_of(info)[0].into();
    frame.rsi = at;
    frame.rdx = pointer + 8;
    frame.rax = 0;
    frame.rip = action.handler;
    frame.rsp = pointer;
    let cleared = RFlags::DIRECTION_FLAG | RFlags::RESUME_FLAG | RFlags::TRAP_FLAG;
    frame.rflags &= !cleared.bits();
    super::user::reset_fpu();
    Ok(())
}

/// Restores what the frame on the program's stack holds; gives the mask and the alternate stack to go back to.
pub fn pop(frame: &mut TrapFrame) -> Result<(u64, AlternateStack), Fault> {
    let saved: Frame = plain::read_user(frame.rsp.wrapping_sub(8))?;
    let mut area = Area([0; FPU_AREA]);
    if saved.fpu == 0 {
        super::user::reset_fpu();
    } else {
        let size = features::get().fpu_area;
        usercopy::copy_from_user(&mut area.0[..512], saved.fpu)?;
        let word = |at: usize| u32::from_le_bytes([area.0[at], area.0[at + 1], area.0[at + 2], area.0[at + 3]]);
        let whole = word(SOFTWARE) == MAGIC1
            && word(SOFTWARE + 16) as usize == size
            && plain::read_user::<u32>(saved.fpu.wrapping_add(size as u64)) == Ok(MAGIC2);
        if whole {
            usercopy::copy_from_user(&mut area.0[..size], saved.fpu)?;
        }
        Fpu::load_checked(&mut area.0, whole)?;
    }
    let [
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        rdi,
        rsi,
        rbp,
        rbx,
        rdx,
        rax,
        rcx,
        rsp,
        rip,
        rflags,
    ] = saved.registers;
    *frame = TrapFrame {
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        rdi,
        rsi,
        rbp,
        rbx,
        rdx,
        rax,
        rcx,
        rsp,
        rip,
        rflags,
        ..*frame
    };
    frame.sanitise();
    Ok((saved.mask, saved.stack))
}
