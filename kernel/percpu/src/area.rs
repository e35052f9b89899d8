//! The allocator of offsets in the CPUs' areas.
//!
//! A bitmap of [`UNIT`]-byte units, first fit from where the last allocation ended. Areas are small and allocations rare
//! (a cache, a cgroup, a queue), so a walk over 4 KiB of bitmap is cheap enough.
//!
//! **Lock order.** The bitmap's lock (rank 80); nothing is taken under it.

use cpu::SpinLock;
use cpu::local::{AREA_SIZE, DYNAMIC_START};

/// Granularity and least alignment of slots, in bytes.
const UNIT: usize = 8;
/// Number of units.
const UNITS: usize = (AREA_SIZE - DYNAMIC_START) / UNIT;
const WORDS: usize = UNITS.div_ceil(64);

struct Bitmap {
    /// One bit a unit, set when taken.
    words: [u64; WORDS],
    /// Units taken.
    used: usize,
    /// Where the next search begins.
    next: usize,
}

static BITMAP: SpinLock<Bitmap> = SpinLock::new(
    80,
    Bitmap {
        words: [0; WORDS],
        used: 0,
        next: 0,
    },
);

impl Bitmap {
    fn taken(&self, unit: usize) -> bool {
        self.words[unit / 64] >> (unit % 64) & 1 != 0
    }
    fn flip(&mut self, start: usize, count: usize) {
        for unit in start..start + count {
            self.words[unit / 64] ^= 1 << (unit % 64);
        }
    }
    /// First free run of `count` units at a multiple of `step`, from `from` on.
    fn find(&self, from: usize, count: usize, step: usize) -> Option<usize> {
        let mut start = from.next_multiple_of(step);
        'start: while start + count <= UNITS {
            for unit in (start..start + count).rev() {
                if self.taken(unit) {
                    start = (unit + 1).next_multiple_of(step);
                    continue 'start;
                }
            }
            return Some(start);
        }
        None
    }
}

/// Takes `size` bytes at a multiple of `align` (at most a page) in every area. Gives the offset; `None` when full.
pub(crate) fn alloc(size: usize, align: usize) -> Option<usize> {
    assert!(
        align.is_power_of_two() && align <= 4096,
        "per-CPU slots align to at most a page"
    );
    let count = size.div_ceil(UNIT).max(1);
    let step = align.div_ceil(UNIT);
    let mut bitmap = BITMAP.lock();
    // DYNAMIC_START is a page boundary, so a multiple in units is a multiple in bytes.
    let start = bitmap
        .find(bitmap.next, count, step)
        .or_else(|| bitmap.find(0, count, step))?;
    bitmap.flip(start, count);
    bitmap.used += count;
    bitmap.next = start + count;
    Some(DYNAMIC_START + start * UNIT)
}

/// Gives back what [`alloc`] gave for the same `size`.
pub(crate) fn free(offset: usize, size: usize) {
    let count = size.div_ceil(UNIT).max(1);
    let start = (offset - DYNAMIC_START) / UNIT;
    let mut bitmap = BITMAP.lock();
    assert!(
        bitmap.taken(start) && bitmap.taken(start + count - 1),
        "per-CPU slot at {offset} freed twice"
    );
    bitmap.flip(start, count);
    bitmap.used -= count;
    bitmap.next = bitmap.next.min(start);
}

/// Bytes of each CPU's area in use by slots.
pub fn used_bytes() -> usize {
    BITMAP.lock().used * UNIT
}

/// Bytes of each CPU's area that are free, not necessarily in one piece.
pub fn free_bytes() -> usize {
    (UNITS - BITMAP.lock().used) * UNIT
}
