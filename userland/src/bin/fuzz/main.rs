//! fuzz: calls with arguments that are nearly right, from several threads, to see whether the kernel survives them.
//!
//! ```text
//! fuzz SEED CALLS THREADS [FIRST COUNT [KEEP [show]]]
//! ```
//!
//! Makes about CALLS calls, in workers: a worker is a process with THREADS threads, each of which makes [`EACH`] calls and
//! ends. Whatever the calls do to a worker, the next one starts fresh; what they leave in the file system is taken away.
//! The arguments of a call depend on SEED and on the call's place (worker, thread, number) alone: leaving others out does
//! not change it. FIRST and COUNT choose workers. KEEP chooses calls of every worker: ranges such as `0-9,14`, where the
//! call with number N of thread T has the place `T * EACH + N`.
//!
//! With `show` each call is printed before it is made.
//!
//! It runs on Linux as well, in a machine that may be lost.
#![no_std]
#![no_main]
#![allow(
    unsafe_code,
    reason = "any call with any arguments is what this program is for; see `Worker`"
)]

mod arguments;
mod calls;
mod random;

use arguments::Memory;
use core::sync::atomic::{AtomicUsize, Ordering};
use random::Random;
use userland::start::Process;
use userland::syscall::{raw, thread};
use userland::{entry, println};

entry!(main);

/// Calls of one thread of a worker.
pub const EACH: usize = 250;
/// The most threads of a worker.
const MOST_THREADS: usize = 8;
/// A worker has this long (of the guest's time) to end by itself.
const PATIENCE_NS: usize = 300_000_000;
/// Where a worker's memory for arguments is.
const ARENA: usize = 0x1234_5000_0000;
/// Bytes of a thread's stack.
const STACK: usize = 64 << 10;

mod number {
    pub const MMAP: usize = 9;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const FORK: usize = 57;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const UNLINK: usize = 87;
    pub const RMDIR: usize = 84;
    pub const SETPGID: usize = 109;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const PRCTL: usize = 157;
    pub const SETRLIMIT: usize = 160;
    pub const MQ_UNLINK: usize = 241;
    pub const SETITIMER: usize = 38;
    pub const GETPID: usize = 39;
}

/// What the command line asks for.
struct Plan {
    seed: u64,
    threads: usize,
    first: usize,
    count: usize,
    keep: Option<&'static [u8]>,
    show: bool,
}

/// Calls made so far, by all workers: in memory that they share.
struct Tally {
    calls: AtomicUsize,
    succeeded: AtomicUsize,
}

fn main(process: &Process) -> u8 {
    let Some(plan) = read(process) else {
        println!("usage: fuzz SEED CALLS THREADS [FIRST COUNT [KEEP [show]]]");
        return 2;
    };
    let Some(tally) = shared_tally() else {
        println!("fuzz: no memory for the tally");
        return 2;
    };
    println!(
        "fuzz seed={} threads={} workers={}..{}",
        plan.seed,
        plan.threads,
        plan.first,
        plan.first + plan.count
    );
    prepare();
    let mut killed = 0;
    for worker in plan.first..plan.first + plan.count {
        killed += usize::from(run(&plan, worker, tally));
        clean_up();
    }
    println!(
        "fuzz done calls={} succeeded={} killed={killed}",
        tally.calls.load(Ordering::Relaxed),
        tally.succeeded.load(Ordering::Relaxed)
    );
    0
}

fn read(process: &Process) -> Option<Plan> {
    let mut arguments = process.arguments().skip(1);
    let mut next = || arguments.next()?.to_str().ok()?.parse::<u64>().ok();
    let (seed, calls, threads) = (next()?, next()?, next()? as usize);
    if !(1..=MOST_THREADS).contains(&threads) {
        return None;
    }
    let all = (calls as usize).div_ceil(threads * EACH);
    let first = next().map(|first| first as usize);
    let count = next().map(|count| count as usize);
    Some(Plan {
        seed,
        threads,
        first: first.unwrap_or(0),
        count: count.unwrap_or(all),
        keep: process.arguments().nth(6).map(|keep| keep.to_bytes()),
        show: process
            .arguments()
            .nth(7)
            .is_some_and(|word| word.to_bytes() == b"show"),
    })
}

/// Whether the list of ranges has `place`.
fn kept(ranges: &[u8], place: usize) -> bool {
    ranges.split(|&byte| byte == b',').any(|range| {
        let mut ends = range.split(|&byte| byte == b'-').map(decimal);
        let first = ends.next().unwrap_or(usize::MAX);
        let last = ends.next().unwrap_or(first);
        (first..=last).contains(&place)
    })
}

fn decimal(digits: &[u8]) -> usize {
    digits.iter().fold(0usize, |value, &digit| {
        value
            .wrapping_mul(10)
            .wrapping_add(usize::from(digit.wrapping_sub(b'0')))
    })
}

/// A mapping at `address`, or where the kernel likes it where that is 0; shared with children or not. `None` where there is
/// no memory.
fn map(address: usize, bytes: usize, shared: bool) -> Option<usize> {
    const READ_WRITE: usize = 3;
    const ANONYMOUS: usize = 0x20;
    const FIXED_NOREPLACE: usize = 0x10_0000;
    let kind = if shared { 1 } else { 2 } | if address != 0 { FIXED_NOREPLACE } else { 0 };
    // SAFETY: nothing of ours is replaced.
    let at = unsafe {
        raw(
            number::MMAP,
            [address, bytes, READ_WRITE, ANONYMOUS | kind, usize::MAX, 0],
        )
    };
    (at >= 0).then_some(at as usize)
}

fn shared_tally() -> Option<&'static Tally> {
    // Far from the memory that calls write to.
    let at = map(0x2345_6000_0000, 4096, true)?;
    // SAFETY: a fresh mapping of zeroes, aligned to a page, never unmapped by this process; workers only add to it.
    Some(unsafe { &*(at as *const Tally) })
}

/// SIGCHLD is waited for, and files stay small.
fn prepare() {
    const SIGCHLD: u64 = 1 << 16;
    const SIG_BLOCK: usize = 0;
    const RLIMIT_FSIZE: usize = 1;
    let limit = [1u64 << 20, 1 << 20];
    let set = SIGCHLD;
    // SAFETY: the calls read the two values, which live.
    unsafe {
        raw(number::RT_SIGPROCMASK, [SIG_BLOCK, &raw const set as usize, 0, 8, 0, 0]);
        raw(number::SETRLIMIT, [RLIMIT_FSIZE, limit.as_ptr() as usize, 0, 0, 0, 0]);
    }
}

/// Runs one worker to its end; whether it had to be killed.
fn run(plan: &Plan, worker: usize, tally: &'static Tally) -> bool {
    const SIGKILL: usize = 9;
    const WNOHANG: usize = 1;
    const SIGCHLD: u64 = 1 << 16;
    // SAFETY: fork copies this process; the child goes to `work`.
    let child = unsafe { raw(number::FORK, [0; 6]) };
    if child == 0 {
        work(plan, worker, tally);
    }
    let Ok(child) = usize::try_from(child) else {
        println!("fuzz: worker {worker}: fork fails ({child})");
        return false;
    };
    let patience = [0usize, PATIENCE_NS];
    let mut killed = false;
    // SAFETY: the calls read the set and the time, which live; wait4 writes nowhere.
    unsafe {
        loop {
            if raw(number::WAIT4, [child, 0, WNOHANG, 0, 0, 0]) != 0 {
                break;
            }
            let set = SIGCHLD;
            let signal = raw(
                number::RT_SIGTIMEDWAIT,
                [&raw const set as usize, 0, patience.as_ptr() as usize, 8, 0, 0],
            );
            if signal < 0 {
                killed = true;
                raw(number::KILL, [child, SIGKILL, 0, 0, 0, 0]);
                raw(number::WAIT4, [child, 0, 0, 0, 0, 0]);
                break;
            }
        }
        // Its children, if it had any that did not end with it.
        raw(number::KILL, [child.wrapping_neg(), SIGKILL, 0, 0, 0, 0]);
        while raw(number::WAIT4, [usize::MAX, 0, WNOHANG, 0, 0, 0]) > 0 {}
    }
    killed
}

/// Takes away what workers can leave.
fn clean_up() {
    for path in arguments::PATHS {
        // SAFETY: the calls read a string with its zero.
        unsafe {
            raw(number::UNLINK, [path.as_ptr() as usize, 0, 0, 0, 0, 0]);
            raw(number::RMDIR, [path.as_ptr() as usize, 0, 0, 0, 0, 0]);
        }
    }
    for name in arguments::QUEUES {
        // SAFETY: as above.
        unsafe { raw(number::MQ_UNLINK, [name.as_ptr() as usize, 0, 0, 0, 0, 0]) };
    }
}

/// A worker: a process whose memory may be overwritten, unmapped and shared at the calls' whim. Its code touches its own
/// stacks and this structure only, and if even these go it ends by a fault: that is what it is for.
struct Worker {
    plan: &'static Plan,
    tally: &'static Tally,
    number: usize,
    /// Threads that have begun.
    begun: AtomicUsize,
    memory: Memory,
}

fn work(plan: &Plan, number: usize, tally: &'static Tally) -> ! {
    const THREAD: usize = 0x3d0f00 & !0x100000; // VM, FS, FILES, SIGHAND, THREAD, SYSVSEM; no TLS, no words to write
    let name = *b"fuzz-worker\0";
    // SAFETY: the calls read the name; the group is this process's own, so that a signal to it stays in it.
    unsafe {
        raw(number::PRCTL, [15, name.as_ptr() as usize, 0, 0, 0, 0]);
        raw(number::SETPGID, [0; 6]);
    }
    interrupt_often();
    if !plan.show {
        be_quiet();
    }
    let Some(memory) = Memory::map(map(ARENA, arguments::BYTES, false)) else {
        end()
    };
    let worker = Worker {
        // SAFETY: this function does not return, so what it borrows lives as long as the process.
        plan: unsafe { &*core::ptr::from_ref(plan) },
        tally,
        number,
        begun: AtomicUsize::new(0),
        memory,
    };
    for _ in 1..plan.threads {
        let Some(stack) = map(0, STACK, false) else { break };
        // SAFETY: the stack is fresh; `worker` lives as long as the process, since the first thread ends last or with it.
        unsafe { thread(THREAD, stack + STACK, begin, &raw const worker as usize) };
    }
    begin(&raw const worker as usize)
}

/// SIGALRM every few milliseconds: calls that wait give EINTR. It and most other signals have a handler that does nothing.
fn interrupt_often() {
    const RT_SIGACTION: usize = 13;
    const SA_RESTORER: usize = 0x0400_0000;
    let action = [
        nothing as *const () as usize,
        SA_RESTORER,
        restore as *const () as usize,
        0,
    ];
    let period = [0usize, 5000, 0, 5000];
    // What a fault sends keeps its default: the end. But for memory that a call has taken away.
    const FAULTS: [usize; 4] = [4, 5, 7, 8];
    const SIGSEGV: usize = 11;
    for signal in (1..=64).filter(|signal| !FAULTS.contains(signal)) {
        let action = if signal == SIGSEGV {
            [repair as *const () as usize, action[1], action[2], action[3]]
        } else {
            action
        };
        // SAFETY: the handler returns through `restore`, which gives the kernel its frame back.
        unsafe { raw(RT_SIGACTION, [signal, action.as_ptr() as usize, 0, 8, 0, 0]) };
    }
    // SAFETY: the call reads the two times.
    unsafe { raw(number::SETITIMER, [0, period.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// What a worker writes to its first three descriptors is nobody's.
fn be_quiet() {
    const OPEN: usize = 2;
    const DUP2: usize = 33;
    const READ_WRITE: usize = 2;
    // SAFETY: the call reads the path.
    unsafe {
        let null = raw(OPEN, [c"/dev/null".as_ptr() as usize, READ_WRITE, 0, 0, 0, 0]);
        for descriptor in 0..3 {
            raw(DUP2, [null as usize, descriptor, 0, 0, 0, 0]);
        }
    }
}

extern "C" fn nothing(_signal: i32) {}

/// Puts fresh memory where arguments are written, a few times.
extern "C" fn repair(_signal: i32) {
    const MOST: usize = 50;
    const READ_WRITE: usize = 3;
    const PRIVATE_FIXED_ANONYMOUS: usize = 0x32;
    static DONE: AtomicUsize = AtomicUsize::new(0);
    if DONE.fetch_add(1, Ordering::Relaxed) == MOST {
        end();
    }
    // SAFETY: the arguments' memory only, which nobody has a reference into.
    unsafe {
        raw(
            number::MMAP,
            [
                ARENA,
                arguments::BYTES,
                READ_WRITE,
                PRIVATE_FIXED_ANONYMOUS,
                usize::MAX,
                0,
            ],
        )
    };
}

#[unsafe(naked)]
extern "C" fn restore() {
    core::arch::naked_asm!("mov eax, 15", "syscall", "ud2")
}

/// One thread's calls.
extern "C" fn begin(worker: usize) -> ! {
    // SAFETY: `work` passes its own structure, which lives as long as the process.
    let worker = unsafe { &*(worker as *const Worker) };
    let thread = worker.begun.fetch_add(1, Ordering::Relaxed);
    for call in 0..EACH {
        let place = thread * EACH + call;
        if worker.plan.keep.is_some_and(|ranges| !kept(ranges, place)) {
            continue;
        }
        let mut random = Random::of([worker.plan.seed, worker.number as u64, place as u64]);
        let (row, arguments) = calls::choose(&mut random, &worker.memory, thread);
        if worker.plan.show {
            println!(
                "{}/{place} {}({:#x}, {:#x}, {:#x}, {:#x}, {:#x}, {:#x})",
                worker.number,
                row.name,
                arguments[0],
                arguments[1],
                arguments[2],
                arguments[3],
                arguments[4],
                arguments[5]
            );
        }
        // SAFETY: see `Worker`.
        let result = unsafe { raw(row.number, arguments) };
        worker.tally.calls.fetch_add(1, Ordering::Relaxed);
        worker
            .tally
            .succeeded
            .fetch_add(usize::from(result >= 0), Ordering::Relaxed);
        if row.makes_children && result == 0 {
            end(); // the child's way out
        }
    }
    // SAFETY: no argument is an address.
    unsafe { raw(number::EXIT, [0; 6]) };
    end()
}

/// Ends the process.
fn end() -> ! {
    userland::syscall::exit_group(0)
}

/// The process's own number, for arguments.
pub fn own_number() -> usize {
    // SAFETY: no arguments.
    unsafe { raw(number::GETPID, [0; 6]) as usize }
}
