//! Memory: frames, the heap, kernel stacks, and the programs' address spaces.
//!
//! * [`frames`]: physical memory. [`heap`]: what `alloc`'s types are made of. [`stacks`]: kernel stacks.
//! * [`page`]: counted pages, for files.
//! * [`address_space`], [`areas`]: a program's memory and its page faults. [`plain`]: values that cross its border.
//! * [`shared`], [`tasks`]: the few things that safe code elsewhere in the kernel needs unsafe code for.

pub mod address_space;
pub mod areas;
pub mod fault;
pub mod frames;
pub mod heap;
pub mod page;
pub mod page_object;
mod pages;
pub mod plain;
pub mod shared;
pub mod stacks;
pub mod tasks;
