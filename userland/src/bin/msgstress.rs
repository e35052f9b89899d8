//! Pairs of senders and receivers, each pair at a System V queue of its own: the workload for which message totals became
//! per-CPU counters.
//!
//! The tasks are processes, or threads of one. All are there before the first message is sent: each reports at one queue and
//! then takes a message from another, the gate. The time runs from the gate's opening to the last report. The last message
//! of a sender has another type, so that its receiver knows.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering};

use userland::errno::Errno;
use userland::start::Process;
use userland::syscall::{self, MessageBuffer, MessageQueue};
use userland::{eprintln, println};

userland::entry!(main);

const USAGE: &str = "usage: msgstress [--pairs N] [--messages N | --milliseconds N] [--size BYTES] [--threads]

N pairs (8; at most 256) of a sender and a receiver, each at a System V queue of its own, pass messages of BYTES bytes (4; at
most 1024): a fixed number a pair, or for a fixed time (1000 ms). The tasks are processes, or threads with --threads.
Prints the messages a second.";

const MOST_PAIRS: usize = 256;
const MOST_BYTES: usize = 1024;
/// Type of a message, and of the last.
const MORE: i64 = 1;
const LAST: i64 = 2;
/// Types of what a task reports: it is there; it is done, with its number of messages; it failed, with the error.
const READY: i64 = 1;
const DONE: i64 = 2;
const FAILED: i64 = 3;

/// What a pair's tasks are told: words on cache lines of the pair's own, by index.
type Pair = [AtomicU64; 16];
const QUEUE: usize = 0;
/// The queue where each task takes a message before it begins, and the one where it reports.
const GATE: usize = 1;
const REPORTS: usize = 2;
const SIZE: usize = 3;
/// Messages that the sender sends; 0 for as many as there is time for.
const MESSAGES: usize = 4;
/// Not 0 when the time is over.
const STOP: usize = 5;

struct Options {
    pairs: usize,
    messages: u64,
    milliseconds: u64,
    size: usize,
    threads: bool,
}

impl Options {
    /// `None` where the arguments are not those of the usage text.
    fn parse(process: &Process) -> Option<Options> {
        let mut options = Options {
            pairs: 8,
            messages: 0,
            milliseconds: 1000,
            size: 4,
            threads: false,
        };
        let mut arguments = process.arguments().skip(1);
        while let Some(argument) = arguments.next() {
            let key = argument.to_str().ok()?;
            if key == "--threads" {
                options.threads = true;
                continue;
            }
            let value: u64 = arguments.next()?.to_str().ok()?.parse().ok()?;
            match key {
                "--pairs" => options.pairs = usize::try_from(value).ok()?,
                "--messages" if value > 0 => options.messages = value,
                "--milliseconds" if (1..=1 << 32).contains(&value) => options.milliseconds = value,
                "--size" => options.size = usize::try_from(value).ok()?,
                _ => return None,
            }
        }
        let possible = (1..=MOST_PAIRS).contains(&options.pairs) && options.size <= MOST_BYTES;
        possible.then_some(options)
    }
}

fn main(process: &Process) -> u8 {
    let Some(options) = Options::parse(process) else {
        eprintln!("{USAGE}");
        return 2;
    };
    match run(&options) {
        Ok((messages, ns)) => {
            let per_second = u128::from(messages) * 1_000_000_000 / u128::from(ns.max(1));
            println!(
                "msgstress: {{\"pairs\":{},\"threads\":{},\"size\":{},\"messages\":{messages},\"ns\":{ns},\"per_second\":{per_second}}}",
                options.pairs, options.threads, options.size
            );
            0
        }
        Err(error) => {
            eprintln!("msgstress: {error}");
            1
        }
    }
}

/// Messages, and the nanoseconds that they took.
fn run(options: &Options) -> Result<(u64, u64), Errno> {
    let (gate, reports) = (syscall::msgget()?, syscall::msgget()?);
    let pairs = syscall::shared_words(options.pairs)?;
    let tasks = 2 * options.pairs;
    for pair in pairs {
        let words = [
            (QUEUE, syscall::msgget()?.0.into()),
            (GATE, gate.0.into()),
            (REPORTS, reports.0.into()),
            (SIZE, options.size as u64),
            (MESSAGES, options.messages),
        ];
        for (at, value) in words {
            pair[at].store(value, Ordering::Relaxed);
        }
        syscall::spawn(options.threads, sender, pair)?;
        syscall::spawn(options.threads, receiver, pair)?;
    }
    let mut report = MessageBuffer { kind: 0, text: [0; 8] };
    for _ in 0..tasks {
        next_report(reports, &mut report)?;
    }

    let start = syscall::monotonic_raw()?;
    let go = MessageBuffer { kind: READY, text: [] };
    for _ in 0..tasks {
        syscall::msgsnd(gate, &go, 0)?;
    }
    if options.messages == 0 {
        syscall::sleep_ns(options.milliseconds * 1_000_000)?;
        pairs.iter().for_each(|pair| pair[STOP].store(1, Ordering::Relaxed));
    }
    // Both of a pair report what they have passed on: twice the messages.
    let mut messages = 0;
    for _ in 0..tasks {
        messages += next_report(reports, &mut report)?;
    }
    let ns = syscall::monotonic_raw()? - start;

    if !options.threads {
        while syscall::wait().is_ok() {}
    }
    for pair in pairs {
        syscall::msg_remove(queue(pair, QUEUE))?;
    }
    syscall::msg_remove(gate)?;
    syscall::msg_remove(reports)?;
    Ok((messages / 2, ns))
}

/// The number that the next report holds; what a task failed with.
fn next_report(reports: MessageQueue, report: &mut MessageBuffer<8>) -> Result<u64, Errno> {
    syscall::msgrcv(reports, report)?;
    let number = u64::from_ne_bytes(report.text);
    if report.kind == FAILED {
        Err(Errno(number as u16))
    } else {
        Ok(number)
    }
}

fn queue(pair: &Pair, at: usize) -> MessageQueue {
    MessageQueue(pair[at].load(Ordering::Relaxed) as u32)
}

fn tell(pair: &Pair, kind: i64, number: u64) -> Result<(), Errno> {
    let text = number.to_ne_bytes();
    syscall::msgsnd(queue(pair, REPORTS), &MessageBuffer { kind, text }, 8)
}

/// A task: there, waits, works, done. When it cannot even tell, nobody is there to be told.
fn task(pair: &Pair, work: fn(&Pair) -> Result<u64, Errno>) -> ! {
    let all = || {
        tell(pair, READY, 0)?;
        syscall::msgrcv(queue(pair, GATE), &mut MessageBuffer { kind: 0, text: [] })?;
        tell(pair, DONE, work(pair)?)
    };
    if let Err(error) = all() {
        _ = tell(pair, FAILED, error.0.into());
    }
    syscall::exit()
}

extern "C" fn sender(pair: &'static Pair) -> ! {
    task(pair, send)
}

extern "C" fn receiver(pair: &'static Pair) -> ! {
    task(pair, receive)
}

fn send(pair: &Pair) -> Result<u64, Errno> {
    let queue = queue(pair, QUEUE);
    let size = pair[SIZE].load(Ordering::Relaxed) as usize;
    let messages = pair[MESSAGES].load(Ordering::Relaxed);
    let mut message = MessageBuffer {
        kind: MORE,
        text: [0; MOST_BYTES],
    };
    let mut sent = 0;
    loop {
        let last = match messages {
            0 => pair[STOP].load(Ordering::Relaxed) != 0,
            _ => sent + 1 == messages,
        };
        if last {
            message.kind = LAST;
        }
        syscall::msgsnd(queue, &message, size)?;
        sent += 1;
        if last {
            return Ok(sent);
        }
    }
}

fn receive(pair: &Pair) -> Result<u64, Errno> {
    let queue = queue(pair, QUEUE);
    let mut message = MessageBuffer {
        kind: 0,
        text: [0; MOST_BYTES],
    };
    let mut received = 0;
    loop {
        syscall::msgrcv(queue, &mut message)?;
        received += 1;
        if message.kind == LAST {
            return Ok(received);
        }
    }
}
