//! The host side of Tollgate: everything that the `tollgate` command does, as a library, so that the booted tests use
//! the same code as the command.
//!
//! How a run goes: [`preflight`] says what the machine lacks; [`build`] makes kernel and programs with a cargo of its
//! own; [`initramfs`] packs the program, its arguments and the kernel's symbols ([`kallsyms`]); [`qemu`] boots one
//! machine with a time limit and hands back what was printed; [`console`] reads the kernel's control lines;
//! [`experiment`] does that once a row and [`findings`], [`table`] and [`json`] say what came out, beside the
//! [`published`] figures and the time that [`latency`] models.
//!
//! [`figures`] names every result, so that two runs can be compared, and [`baseline`] compares with a recorded one.
//! [`trace`] follows single instructions and [`explain`] says what they were for.
//!
//! Nothing here holds a lock across a boot, and no code is unsafe.
#![forbid(unsafe_code)]

pub mod baseline;
pub mod build;
pub mod console;
pub mod counters;
pub mod experiment;
pub mod explain;
pub mod failure;
pub mod figures;
pub mod findings;
pub mod fuzz;
#[cfg(feature = "image")]
pub mod image;
pub mod initramfs;
pub mod json;
pub mod kallsyms;
pub mod latency;
pub mod messages;
pub mod model;
pub mod preflight;
pub mod process;
pub mod program;
pub mod progress;
pub mod published;
pub mod qemu;
pub mod races;
pub mod scaling;
pub mod stress;
pub mod table;
pub mod trace;
