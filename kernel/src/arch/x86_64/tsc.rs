//! x
use core::arch::x86_64::_rdtsc;
/// Reads
pub fn read() -> u64 { unsafe { _rdtsc() } }
/// ns
pub fn now_ns() -> u64 { read() }
