//! Tests of the allocator, by subject.

mod accounted;
mod objects;
mod property;
mod remote;
mod single;

use crate::{Gfp, Slab, kfree};
use core::ptr::NonNull;
use memcg::TaskMemcg;
use std::vec::Vec;

/// The names of all models.
const MODELS: [&str; 6] = ["off", "page", "object", "task-stock", "local-lock", "scoped"];

/// An allocator under a model, on its own cgroups.
fn slab(model: &str) -> &'static Slab {
    Slab::by_name(model).expect("an allocator")
}

/// A task in the root cgroup.
fn root_task(slab: &Slab) -> TaskMemcg {
    TaskMemcg::new(slab.accounting().root())
}

/// An object in use, whose every byte the test wrote.
struct Block {
    pointer: NonNull<u8>,
    size: usize,
    pattern: u8,
}

// SAFETY: the memory is the block's alone.
unsafe impl Send for Block {}

impl Block {
    fn new(slab: &Slab, size: usize, gfp: Gfp, task: &TaskMemcg, pattern: u8) -> Result<Block, crate::AllocError> {
        let pointer = slab.kmalloc(size, gfp, task)?;
        assert!(pointer.addr().get().is_multiple_of(8));
        let block = Block { pointer, size, pattern };
        if gfp.contains(Gfp::ZERO) {
            assert!(block.bytes().iter().all(|&byte| byte == 0), "zeroed memory is not");
        }
        // SAFETY: kmalloc gave at least `size` bytes.
        unsafe { pointer.write_bytes(pattern, size) };
        Ok(block)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: ours, and written by new (or zeroed).
        unsafe { core::slice::from_raw_parts(self.pointer.as_ptr(), self.size) }
    }

    /// Checks that nobody else wrote to it, and gives it back.
    fn free(self) {
        assert!(
            self.bytes().iter().all(|&byte| byte == self.pattern),
            "an object of {} bytes was written by somebody else",
            self.size
        );
        // SAFETY: from kmalloc, freed once.
        unsafe { kfree(self.pointer) };
    }
}

/// Frees all.
fn free_all(blocks: Vec<Block>) {
    blocks.into_iter().for_each(Block::free);
}

/// Gives back all that this CPU and the nodes hold back: more than once, because a vector that is given back may have
/// been the last object of a page.
fn settle(slab: &'static Slab) {
    for _ in 0..3 {
        slab.flush_this_cpu();
        slab.shrink();
    }
}
