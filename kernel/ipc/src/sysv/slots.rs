//! Where queues stand: a table of slots by index that is read without a lock.
//!
//! Slots come in blocks of a page, made when an index in them is first used and kept as long as the namespace lives. See
//! [`super`] for what that is good for. A namespace that has had n queues at a time keeps at most n / 64 + 1 pages for it.
//!
//! **Lock order.** A slot's lock has rank 35.

use super::limits::MAX_QUEUES;
use super::queue::Queue;
use crate::Error;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cpu::SpinLock;
use cpu::lock::SpinGuard;
use once_cell::race::OnceBox;
use slab::{Fifo, Object};

/// Slots in a block.
const BLOCK: usize = 64;
/// Bytes of a block.
pub(super) const BLOCK_SIZE: usize = size_of::<[Slot; BLOCK]>();
const BLOCKS: usize = MAX_QUEUES as usize / BLOCK;

/// The place of a queue, with its lock. On a cache line of its own.
#[repr(align(64))]
struct Slot(SpinLock<Standing>);

const _: () = assert!(BLOCK_SIZE == 4096);

/// What stands in a slot.
pub(super) struct Standing {
    /// The queue, which ids lead to.
    pub(super) queue: Option<Object<Queue>>,
    /// Removed ones at which tasks have slept that have not come back.
    pub(super) removed: Fifo<Queue>,
}

/// All slots of a namespace.
pub(super) struct Slots {
    blocks: Box<[OnceBox<[Slot; BLOCK]>]>,
}

impl Slots {
    pub(super) fn try_new() -> Result<Slots, Error> {
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(BLOCKS)?;
        blocks.extend((0..BLOCKS).map(|_| OnceBox::new()));
        Ok(Slots {
            blocks: blocks.into_boxed_slice(),
        })
    }

    /// What stands at `index`, locked; `None` where nothing ever stood.
    #[inline(always)]
    pub(super) fn lock(&self, index: u32) -> Option<SpinGuard<'_, Standing>> {
        let block = self.blocks.get(index as usize / BLOCK)?.get()?;
        Some(block[index as usize % BLOCK].0.lock())
    }

    /// Makes the block of `index`, if it is not there. The caller holds the lock of the ids, so that nobody else does.
    pub(super) fn make(&self, index: u32) -> Result<(), Error> {
        let place = &self.blocks[index as usize / BLOCK];
        if place.get().is_some() {
            return Ok(());
        }
        let mut slots = Vec::new();
        slots.try_reserve_exact(BLOCK)?;
        slots.extend((0..BLOCK).map(|_| {
            let nothing = Standing {
                queue: None,
                removed: Fifo::new(),
            };
            Slot(SpinLock::new(35, nothing))
        }));
        let block = Box::<[Slot; BLOCK]>::try_from(slots.into_boxed_slice()).map_err(|_| Error::NoMemory)?;
        place.set(block).map_err(|_| Error::NoMemory)
    }

    /// Blocks that have been made.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.iter().filter(|block| block.get().is_some()).count()
    }
}
