//! The arguments of calls: mostly such as a call expects, now and then such as it must refuse.

use crate::random::Random;
use core::ffi::CStr;

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A descriptor.
    Fd,
    /// A directory's descriptor, or AT_FDCWD.
    Dir,
    /// A path.
    Path,
    /// A message queue's name.
    Queue,
    /// The address of memory that the call reads or writes, with random words in it.
    Memory,
    /// The address of a `struct timespec` or `timeval` of at most some milliseconds.
    Time,
    /// The address of a `struct itimerspec` or `itimerval`.
    Timer,
    /// The address of a `struct mq_attr`.
    Attr,
    /// The address of an array of `struct iovec`.
    Iovec,
    /// The address of a `struct sigevent`.
    Event,
    /// The address of a `struct clone_args`.
    Clone,
    /// The address of a set of signals.
    Set,
    /// A length in bytes, or a count.
    Length,
    /// The address of whole pages.
    Pages,
    /// The length of whole pages.
    PagesLength,
    /// One of these, or some of them or-ed together.
    Flags(&'static [usize]),
    /// One of these.
    One(&'static [usize]),
    /// A small number.
    Small,
    /// A file's mode.
    Mode,
    /// A task's or process's number.
    Pid,
    /// A user's or group's number.
    User,
    /// A signal.
    Signal,
    /// Anything.
    Any,
}

/// Paths that calls make, change and remove.
pub const PATHS: [&CStr; 9] = [
    c"/tmp/a",
    c"/tmp/b",
    c"/tmp/d/e",
    c"/tmp/d",
    c"/tmp/f",
    c"/dev/shm/s",
    c"/dev/mqueue/one",
    c"/dev/mqueue/two",
    c"/tmp/a/b",
];
/// Paths that are there.
const PLACES: [&CStr; 23] = [
    c"/",
    c".",
    c"..",
    c"/tmp",
    c"/dev/null",
    c"/dev/zero",
    c"/dev/full",
    c"/dev/urandom",
    c"/dev/mqueue",
    c"/dev/shm",
    c"/proc/self/maps",
    c"/proc/self/status",
    c"/proc/self/fd/3",
    c"/proc/self/stat",
    c"/proc/self/exe",
    c"/proc/meminfo",
    c"/proc/1/status",
    c"/proc/sys/fs/mqueue/msg_max",
    c"/sys/devices/system/cpu/online",
    c"/nowhere",
    c"",
    c"/tmp/../tmp/./a",
    c"/bin/fuzz",
];
/// Names of queues.
pub const QUEUES: [&CStr; 4] = [c"one", c"two", c"three", c"a.very.long.name.for.a.queue"];

/// Bytes of a worker's memory: for each of eight threads 8 pages of its own, then 16 that all share.
pub const BYTES: usize = 4096 * (8 * 8 + 16 + 16);
const OWN: usize = 8 * 4096;
const SHARED: usize = 64 * 4096;
const PAGE: usize = 4096;

/// A worker's memory: where arguments point.
pub struct Memory(usize);

impl Memory {
    /// At the start of a mapping of [`BYTES`].
    pub fn map(at: Option<usize>) -> Option<Memory> {
        at.map(Memory)
    }

    /// An address: in the thread's own part, in the shared part, at the edge of a page, or nowhere.
    fn address(&self, random: &mut Random, thread: usize, bytes: usize) -> usize {
        let own = self.0 + thread * OWN;
        match random.below(32) {
            0 => 0,
            1 => random.one(&[
                0xffff_8000_0000_1000,
                0x8000_0000_0000,
                usize::MAX - 7,
                0x7fff_ffff_e000,
                4096,
            ]),
            2 => self.0 + BYTES - random.below(bytes.max(1) + 8), // at the end of the mapping
            3 => own + PAGE - 1 - random.below(bytes.max(1) + 1), // across two pages
            4..8 => self.0 + SHARED + random.below(16 * PAGE) / 8 * 8,
            _ => own + random.below(OWN - bytes.clamp(8, PAGE)) / 8 * 8,
        }
    }

    /// The address of `words`, written where that is possible.
    fn put(&self, random: &mut Random, thread: usize, words: &[usize]) -> usize {
        let address = self.address(random, thread, size_of_val(words));
        let inside = (self.0..self.0 + SHARED).contains(&address) && address + size_of_val(words) <= self.0 + SHARED;
        // One time in eight it stays as it is: what an earlier call left there.
        if inside && !random.once_in(8) {
            for (index, &word) in words.iter().enumerate() {
                // SAFETY: inside the worker's mapping; if a call has unmapped it the worker ends by a fault.
                unsafe { ((address + 8 * index) as *mut usize).write_unaligned(word) };
            }
        }
        address
    }

    /// An argument.
    pub fn argument(&self, kind: Kind, random: &mut Random, thread: usize) -> usize {
        // Never a wild number for a process: it could be the one that keeps the count.
        if kind != Kind::Pid && random.once_in(48) {
            return any(random);
        }
        match kind {
            Kind::Fd => match random.below(12) {
                0 => usize::MAX,
                1 => random.one(&[100, 1023, 1024, 0x7fff_ffff]),
                2 => random.below(3),
                _ => 3 + random.below(12),
            },
            Kind::Dir => match random.below(3) {
                0 => 3 + random.below(12),
                _ => 0xffff_ff9c, // AT_FDCWD
            },
            Kind::Path => match random.below(8) {
                0 => self.address(random, thread, 16),
                1..5 => random.one(&PATHS).as_ptr() as usize,
                _ => random.one(&PLACES).as_ptr() as usize,
            },
            Kind::Queue => match random.below(12) {
                0 => self.address(random, thread, 16),
                1 => random.one(&PLACES).as_ptr() as usize,
                _ => random.one(&QUEUES).as_ptr() as usize,
            },
            Kind::Memory => {
                let words = [any(random), any(random), random.below(64), any(random)];
                self.put(random, thread, &words)
            }
            Kind::Time => {
                let bad = random.once_in(8);
                let part = if bad { any(random) } else { random.below(3_000_000) };
                self.put(random, thread, &[0, part])
            }
            Kind::Timer => {
                let words = [0, random.below(1_000_000), 0, random.below(3_000_000)];
                self.put(random, thread, &words)
            }
            Kind::Attr => {
                let words = [
                    random.one(&[0, 0x800, 1]),
                    random.below(12),
                    random.one(&[1, 16, 8192, 8193, 0]),
                    0,
                ];
                self.put(random, thread, &words)
            }
            Kind::Iovec => {
                let first = self.address(random, thread, 64);
                let second = self.address(random, thread, 64);
                let words = [first, self.length(random), second, random.below(100)];
                self.put(random, thread, &words)
            }
            Kind::Event => {
                let signal = 1 + random.below(64);
                let words = [any(random), random.below(5) << 32 | signal, any(random), 0];
                self.put(random, thread, &words)
            }
            Kind::Clone => {
                let stack = self.0 + SHARED;
                let wild = any(random);
                let flags = random.one(&[0, 0x100, 0x4100, 0x3d0f00, 0x200, 0x11200000, wild]);
                let words = [flags, 0, 0, 0, random.one(&[17, 0]), stack, 16 * PAGE, 0];
                self.put(random, thread, &words)
            }
            Kind::Set => {
                let wild = any(random);
                let bits = random.one(&[0, usize::MAX, 1 << 13, 1 << 9, wild]);
                self.put(random, thread, &[bits])
            }
            Kind::Length => self.length(random),
            Kind::Pages => match random.below(8) {
                0 => 0,
                1 => any(random) & !(PAGE - 1),
                2..4 => self.0 + thread * OWN + random.below(8) * PAGE,
                _ => self.0 + SHARED + random.below(32) * PAGE,
            },
            Kind::PagesLength => match random.below(8) {
                0 => any(random),
                1 => 0,
                2 => random.below(1 << 20),
                _ => (1 + random.below(4)) * PAGE,
            },
            Kind::Flags(of) => {
                let mut flags = random.one(of);
                while random.once_in(2) {
                    flags |= random.one(of);
                }
                flags
            }
            Kind::One(of) => random.one(of),
            Kind::Small => random.below(10),
            Kind::Mode => random.one(&[0o600, 0o777, 0, 0o4755, 0o100644, 0o40755, 0o20666]),
            Kind::Pid => match random.below(8) {
                0 => random.one(&[0, 0x7fff_fffe, 1]),
                1 => crate::own_number() + 1 + random.below(4),
                _ => crate::own_number(),
            },
            Kind::User => random.one(&[0, 0, 0, 1000, 65534, usize::MAX]),
            Kind::Signal => match random.below(8) {
                0 => random.one(&[0, 65, 9, 19, 18]),
                _ => 1 + random.below(64),
            },
            Kind::Any => any(random),
        }
    }

    fn length(&self, random: &mut Random) -> usize {
        match random.below(10) {
            0 => any(random),
            1 => random.one(&[0, 4095, 4096, 4097, 8192, 65536, 1 << 20]),
            2..5 => random.below(5000),
            _ => random.below(64),
        }
    }
}

/// Anything: limits above all.
fn any(random: &mut Random) -> usize {
    match random.below(4) {
        0 => random.next() as usize,
        1 => 1 << random.below(64),
        2 => random.one(&[
            0,
            1,
            usize::MAX,
            usize::MAX - 1,
            i64::MIN as usize,
            i64::MAX as usize,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            4096,
        ]),
        _ => random.below(256),
    }
}
