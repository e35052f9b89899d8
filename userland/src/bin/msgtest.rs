//! What one `msgsnd` and one `msgrcv` cost, in one task, and whether other queues make them dearer.
//!
//! A round sends a message to a queue of its own and receives it, with the time-stamp counter read right before and right
//! after each call, as `mqtest` does. Other queues, if asked for, are made first and kept busy: each holds a message all the
//! time, and between two rounds one of them, in turn, gets another and gives its oldest.
#![no_std]
#![no_main]

use core::fmt;

use userland::errno::Errno;
use userland::start::Process;
use userland::statistics::Summary;
use userland::syscall::{self, MessageBuffer, MessageQueue, rdtsc};
use userland::{eprintln, println};

userland::entry!(main);

const USAGE: &str = "usage: msgtest [ROUNDS [SIZE [QUEUES]]]

Measures msgsnd and msgrcv of a message of SIZE bytes (16; at most 4096), ROUNDS times each (100000), while QUEUES other
queues (0; at most 4096) are in use. Prints minimum/average/maximum in ticks of the time-stamp counter.";

const MOST_BYTES: usize = 4096;
const MOST_QUEUES: usize = 4096;

fn main(process: &Process) -> u8 {
    let mut numbers = [100_000, 16, 0];
    let mut given = 0;
    for argument in process.arguments().skip(1) {
        let number = argument.to_str().ok().and_then(|text| text.parse::<usize>().ok());
        let (Some(number), Some(place)) = (number, numbers.get_mut(given)) else {
            eprintln!("{USAGE}");
            return 2;
        };
        (*place, given) = (number, given + 1);
    }
    let [rounds, size, queues] = numbers;
    if rounds == 0 || size > MOST_BYTES || queues > MOST_QUEUES {
        eprintln!("{USAGE}");
        return 2;
    }
    match measure(rounds, size, queues) {
        Ok((send, receive)) => {
            println!(
                "msgtest: {{\"rounds\":{rounds},\"size\":{size},\"queues\":{queues},\"send\":{},\"receive\":{}}}",
                Json(&send),
                Json(&receive)
            );
            0
        }
        Err(error) => {
            eprintln!("msgtest: {error}");
            1
        }
    }
}

fn measure(rounds: usize, size: usize, queues: usize) -> Result<(Summary, Summary), Errno> {
    let mut message = MessageBuffer {
        kind: 1,
        text: [0; MOST_BYTES],
    };
    let queue = syscall::msgget()?;
    let mut all = [MessageQueue(0); MOST_QUEUES];
    let others = &mut all[..queues];
    for other in others.iter_mut() {
        *other = syscall::msgget()?;
        syscall::msgsnd(*other, &message, size)?;
    }
    let measured = exchange(queue, others, &mut message, rounds, size);
    for &other in others.iter().chain([&queue]) {
        syscall::msg_remove(other)?;
    }
    measured
}

/// The measured loop.
fn exchange(
    queue: MessageQueue,
    others: &[MessageQueue],
    message: &mut MessageBuffer<MOST_BYTES>,
    rounds: usize,
    size: usize,
) -> Result<(Summary, Summary), Errno> {
    let (mut send, mut receive) = (Summary::new(), Summary::new());
    for round in 0..rounds {
        let start = rdtsc();
        let sent = syscall::msgsnd(queue, message, size);
        send.add(rdtsc() - start);
        sent?;

        let start = rdtsc();
        let received = syscall::msgrcv(queue, message);
        receive.add(rdtsc() - start);
        received?;

        if let Some(&other) = others.get(round % others.len().max(1)) {
            syscall::msgsnd(other, message, size)?;
            syscall::msgrcv(other, message)?;
        }
    }
    Ok((send, receive))
}

/// A summary as a JSON object.
struct Json<'a>(&'a Summary);

impl fmt::Display for Json<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.0;
        let (min, avg, max) = (summary.min(), summary.avg(), summary.max());
        write!(out, "{{\"min\":{min},\"avg\":{avg},\"max\":{max}}}")
    }
}
