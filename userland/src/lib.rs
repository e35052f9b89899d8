//! The runtime of the ring-3 programs: what stands between the x86-64 Linux ABI and a `fn main`.
//!
//! A program here is one static ELF file that runs on Tollgate and on Linux unchanged. It asks the kernel for nothing
//! but what the ABI promises: the initial stack (`start`), the `syscall` instruction (`syscall`) and a few calls. There
//! is no heap: what a program measures is the kernel and not its runtime.
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//!
//! userland::entry!(main);
//!
//! fn main(process: &userland::start::Process) -> u8 {
//!     userland::println!("{} arguments", process.arguments().count());
//!     0
//! }
//! ```
//!
//! Unsafe code stands in `start` and `syscall` only.
#![no_std]

pub mod errno;
pub mod mqueue;
pub mod print;
pub mod start;
pub mod statistics;
pub mod syscall;
pub mod tsc;
