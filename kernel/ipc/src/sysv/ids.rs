//! Which indexes and keys are in use, and which id is next.
//!
//! Ids are given out as Linux does it, so that a stale id stays stale for long: indexes go round, and each time round the
//! sequence number rises.
//!
//! **Lock order.** All of it is guarded by the namespace's lock of ids (rank 30).

use super::limits::MAX_QUEUES;
use crate::Error;
use alloc::vec::Vec;
use slab::{Spare, Tree};

/// Bits of an id that are the index.
const INDEX_BITS: u32 = MAX_QUEUES.ilog2();
/// Sequence numbers are below this.
const SEQUENCES: u32 = i32::MAX as u32 >> INDEX_BITS;
/// Indexes in the shortest round.
const MIN_ROUND: u32 = 64;

/// The memory that a key needs.
pub(super) type KeyNode = Spare<i32, u32>;

/// A new id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) index: u32,
    pub(super) sequence: u16,
    /// Never given out again, and never 0.
    pub(super) serial: u64,
}

impl Id {
    pub(super) const fn number(self) -> i32 {
        ((self.sequence as u32) << INDEX_BITS | self.index) as i32
    }
}

/// The index in an id.
#[inline(always)]
pub(super) const fn index_of(id: i32) -> u32 {
    id as u32 & (MAX_QUEUES - 1)
}

pub(super) struct Ids {
    /// Indexes by key.
    keys: Tree<i32, u32>,
    /// Indexes in use, a bit each.
    used: Vec<u64>,
    count: u32,
    /// Where the search for a free index begins.
    next: u32,
    /// The index given out last.
    last: Option<u32>,
    sequence: u32,
    serial: u64,
}

impl Ids {
    pub(super) fn new() -> Ids {
        Ids {
            keys: Tree::new(),
            used: Vec::new(),
            count: 0,
            next: 0,
            last: None,
            sequence: 0,
            serial: 1,
        }
    }

    /// Queues.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The index of the queue with this key.
    pub(super) fn find(&self, key: i32) -> Option<u32> {
        self.keys.get(key).copied()
    }

    /// The highest index in use.
    pub(super) fn highest(&self) -> Option<u32> {
        let word = self.used.iter().rposition(|&word| word != 0)?;
        Some(word as u32 * 64 + self.used[word].ilog2())
    }

    /// Chooses the next id, without taking it: the one `wanted`, if that is said and its index is free, or the next free
    /// index behind it; otherwise in the order of rounds.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::NoMemory`].
    pub(super) fn choose(&mut self, wanted: Option<i32>) -> Result<Id, Error> {
        let index = match wanted {
            Some(id) => self.free(index_of(id), MAX_QUEUES),
            None => {
                let round = (self.count * 3 / 2).clamp(MIN_ROUND, MAX_QUEUES);
                self.free(self.next, round).or_else(|| self.free(0, round))
            }
        };
        let index = index.ok_or(Error::NoSpace)?;
        let word = index as usize / 64;
        if word >= self.used.len() {
            self.used.try_reserve(word + 1 - self.used.len())?;
            self.used.resize(word + 1, 0);
        }
        let sequence = match wanted {
            Some(id) => id as u32 >> INDEX_BITS,
            None if self.last.is_some_and(|last| index <= last) => (self.sequence + 1) % SEQUENCES,
            None => self.sequence,
        };
        Ok(Id {
            index,
            sequence: sequence as u16,
            serial: self.serial,
        })
    }

    /// The first free index from `start` on, below `end`.
    fn free(&self, start: u32, end: u32) -> Option<u32> {
        let mut at = start;
        while at < end {
            let word = self.used.get(at as usize / 64).copied().unwrap_or(0);
            let free = !word >> (at % 64);
            if free != 0 {
                return Some(at + free.trailing_zeros()).filter(|&index| index < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Takes an id that was [chosen](Ids::choose) since the lock was taken; `asked` tells whether it had been asked for.
    pub(super) fn take(&mut self, id: Id, asked: bool, key: Option<(i32, KeyNode)>) {
        self.used[id.index as usize / 64] |= 1 << (id.index % 64);
        self.count += 1;
        self.serial += 1;
        if !asked {
            self.next = id.index + 1;
            self.last = Some(id.index);
            self.sequence = id.sequence.into();
        }
        if let Some((key, node)) = key {
            self.keys.insert(node, key, id.index);
        }
    }

    /// Gives an index back, and the key that led to it. What comes back is to be dropped outside of the lock.
    pub(super) fn give_back(&mut self, index: u32, key: i32) -> (Option<KeyNode>, Vec<u64>) {
        self.used[index as usize / 64] &= !(1 << (index % 64));
        self.count -= 1;
        let node = match key {
            super::PRIVATE => None,
            key => self.keys.remove(key).map(|(_, node)| node),
        };
        // Nothing stays behind in the allocator when there is no queue.
        let unused = match self.count {
            0 => core::mem::take(&mut self.used),
            _ => Vec::new(),
        };
        (node, unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(ids: &mut Ids) -> Id {
        let id = ids.choose(None).unwrap();
        ids.take(id, false, None);
        id
    }

    #[test]
    fn do_indexes_go_round_and_sequence_numbers_rise_with_each_round() {
        let mut ids = Ids::new();
        for round in 0..3u16 {
            for index in 0..64 {
                let id = make(&mut ids);
                assert_eq!((id.index, id.sequence), (index, round));
                _ = ids.give_back(id.index, 0);
            }
        }
    }

    #[test]
    fn does_the_sequence_number_wrap_before_an_id_is_negative() {
        let mut ids = Ids::new();
        for _ in 0..SEQUENCES * 64 {
            let id = make(&mut ids);
            assert!(id.number() >= 0);
            _ = ids.give_back(id.index, 0);
        }
        assert_eq!(make(&mut ids).number(), 0);
    }

    #[test]
    fn are_indexes_in_use_passed_over_and_rounds_as_long_as_needed() {
        let mut ids = Ids::new();
        let all: Vec<_> = (0..200).map(|_| make(&mut ids).index).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 200, "none twice");
        assert_eq!(ids.highest(), sorted.last().copied());
        // Holes are filled once the search has come round.
        for index in [3, 70, 150] {
            _ = ids.give_back(index, 0);
        }
        let again: Vec<_> = (0..3).map(|_| make(&mut ids).index).collect();
        assert_eq!(
            again,
            [200, 201, 202],
            "onwards, as long as the round is longer than that"
        );
        let mut round = Vec::new();
        for _ in 0..400 {
            let id = make(&mut ids);
            round.push(id.index);
            _ = ids.give_back(id.index, 0);
        }
        assert!([3, 70, 150].iter().all(|hole| round.contains(hole)));
    }

    #[test]
    fn can_every_index_be_used_and_no_more() {
        let mut ids = Ids::new();
        for _ in 0..MAX_QUEUES {
            make(&mut ids);
        }
        assert_eq!((ids.count(), ids.highest()), (MAX_QUEUES, Some(MAX_QUEUES - 1)));
        assert_eq!(ids.choose(None), Err(Error::NoSpace));
        assert_eq!(ids.choose(Some(5)), Err(Error::NoSpace));
    }

    #[test]
    fn is_the_id_asked_for_given_if_it_is_free() {
        let mut ids = Ids::new();
        let wanted = 77 << INDEX_BITS | 5;
        let id = ids.choose(Some(wanted)).unwrap();
        assert_eq!(id.number(), wanted);
        ids.take(id, true, None);
        let next = ids.choose(Some(wanted)).unwrap();
        assert_eq!(next.number(), wanted + 1, "the next index, the same sequence number");
        assert_eq!(make(&mut ids).number(), 0, "the order of the others is as before");
    }
}
