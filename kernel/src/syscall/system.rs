//! System calls on the machine as a whole.

use super::errno::{Errno, Result};
use super::user::UserPtr;
use crate::fs::device;
use crate::fs::file::UserBuffer;
use crate::mm::frames;
use crate::task::{clock, table};
use crate::user_struct;
use linux_raw_sys::general;

/// Bytes of a string of uname(2), its zero included.
const NAME: usize = 65;

/// The release that programs are told: that of the Linux whose calls these are.
pub const RELEASE: &str = "6.12.0-tollgate";

/// The machine's name.
pub const MACHINE: &str = "tollgate";
/// How it was built, as uname(2) tells.
pub const VERSION: &str = "#1 SMP PREEMPT";

fn name(text: &str) -> [u8; NAME] {
    let mut name = [0; NAME];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

pub(super) fn uname(to: UserPtr<[[u8; NAME]; 6]>) -> Result<()> {
    to.write(&["Linux", MACHINE, RELEASE, VERSION, "x86_64", "(none)"].map(name))
}

user_struct! {
    /// `struct sysinfo` (x86-64), its padding named.
    pub(super) struct SystemInfo {
        uptime: i64,
        loads: [u64; 3],
        total_ram: u64,
        free_ram: u64,
        shared_ram: u64,
        buffer_ram: u64,
        total_swap: u64,
        free_swap: u64,
        processes: u16,
        pad: [u16; 3],
        total_high: u64,
        free_high: u64,
        unit: u32,
        pad_end: u32,
    }
}

pub(super) fn sysinfo(to: UserPtr<SystemInfo>) -> Result<()> {
    let frames::Count { free, total } = frames::count();
    let bytes = |frames: usize| frames as u64 * crate::arch::layout::PAGE_SIZE;
    to.write(&SystemInfo {
        uptime: (clock::monotonic() / clock::SECOND) as i64,
        loads: [0; 3],
        total_ram: bytes(total),
        free_ram: bytes(free),
        shared_ram: 0,
        buffer_ram: 0,
        total_swap: 0,
        free_swap: 0,
        processes: table::count() as u16,
        pad: [0; 3],
        total_high: 0,
        free_high: 0,
        unit: 1,
        pad_end: 0,
    })
}

pub(super) fn getrandom(address: u64, length: usize, flags: u32) -> Result<usize> {
    const KNOWN: u32 = general::GRND_NONBLOCK | general::GRND_RANDOM | general::GRND_INSECURE;
    const BOTH: u32 = general::GRND_RANDOM | general::GRND_INSECURE;
    if flags & !KNOWN != 0 || flags & BOTH == BOTH {
        return Err(Errno::EINVAL);
    }
    device::random(UserBuffer::checked(address, length.min(device::MAX_TRANSFER))?)
}
