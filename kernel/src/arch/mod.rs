//! The machine: everything that is different on another processor.
//!
//! The one processor today is x86-64; its module is re-exported here, so that the rest of the kernel says `arch::`.

mod x86_64;

pub use self::x86_64::*;
