//! Operations on queues from numbers, and the model that is too simple to be wrong.

use std::vec::Vec;

pub(super) const TASKS: usize = 6;
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Bytes; the longest has a segment.
pub(super) const MESSAGE_SIZE: usize = 4100;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Open {
        name: usize,
        create: bool,
        exclusive: bool,
        max: i64,
    },
    Close {
        open: usize,
    },
    Unlink {
        name: usize,
    },
    Send {
        task: usize,
        open: usize,
        priority: u32,
        length: usize,
        wait: bool,
        memory: bool,
    },
    Receive {
        task: usize,
        open: usize,
        wait: bool,
    },
    /// The task's timeout passes, or it is interrupted, or it was woken.
    EndWait {
        task: usize,
    },
    Register {
        open: usize,
        process: u64,
    },
    Unregister {
        open: usize,
        process: u64,
    },
    Move {
        task: usize,
        cgroup: usize,
    },
    Drain {
        cgroup: usize,
    },
    Look {
        open: usize,
    },
}

/// An operation from a number, digit by digit: a strategy for each operation would take longer than the operation.
pub(super) fn op(mut number: u64) -> Op {
    let mut digit = |below: u64| {
        let digit = number % below;
        number /= below;
        digit as usize
    };
    let kind = digit(43);
    let (task, open) = (digit(TASKS as u64), digit(8));
    match kind {
        0..12 => Op::Send {
            task,
            open,
            // Few priorities so that they meet, and the extremes.
            priority: match digit(6) as u32 {
                4 => 32767,
                5 => digit(32768) as u32,
                few => few,
            },
            length: match digit(6) {
                0..3 => 256,
                3 | 4 => digit(64),
                _ => MESSAGE_SIZE - digit(60),
            },
            wait: digit(2) == 0,
            memory: digit(20) != 0,
        },
        12..24 => Op::Receive {
            task,
            open,
            wait: digit(2) == 0,
        },
        24..32 => Op::EndWait { task },
        32..34 => Op::Open {
            name: digit(NAMES.len() as u64),
            create: digit(4) != 0,
            exclusive: digit(5) == 0,
            max: 1 + digit(5) as i64,
        },
        34 => Op::Close { open },
        35 => Op::Unlink {
            name: digit(NAMES.len() as u64),
        },
        36 | 37 => Op::Register {
            open,
            process: 1 + digit(2) as u64,
        },
        38 => Op::Unregister {
            open,
            process: 1 + digit(2) as u64,
        },
        39 => Op::Move { task, cgroup: digit(3) },
        40 => Op::Drain { cgroup: digit(3) },
        _ => Op::Look { open },
    }
}

/// A message: its priority, and what its bytes are made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Note {
    pub(super) priority: u32,
    pub(super) seed: u64,
    pub(super) length: usize,
}

/// A queue as the model sees it.
#[derive(Default)]
pub(super) struct List {
    pub(super) name: Option<usize>,
    pub(super) max: usize,
    pub(super) notes: Vec<Note>,
    /// Tasks in order of arrival.
    pub(super) receivers: Vec<usize>,
    pub(super) senders: Vec<(usize, Note)>,
    pub(super) registered: Option<u64>,
    pub(super) opens: usize,
}

impl List {
    /// The next message, taken out: the first of the highest priority.
    pub(super) fn take(&mut self) -> Note {
        let highest = self.notes.iter().map(|note| note.priority).max().expect("a message");
        let at = self
            .notes
            .iter()
            .position(|note| note.priority == highest)
            .expect("it is there");
        self.notes.remove(at)
    }
    /// The next of some waiters, taken out: the first of the most urgent. Task `n` has the scheduling priority n % 2.
    pub(super) fn next<T>(waiters: &mut Vec<T>, task: impl Fn(&T) -> usize) -> Option<T> {
        let at = (0..waiters.len()).min_by_key(|&at| task(&waiters[at]) % 2)?;
        Some(waiters.remove(at))
    }
}
