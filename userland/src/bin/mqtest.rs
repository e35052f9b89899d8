//! What one `mq_send`, one `mq_receive` and one `getppid` cost: the measurement of the regression thread.
//!
//! The protocol is the thread's: one task, one queue of ten messages of 256 bytes, opened with `O_NONBLOCK`; a round
//! sends one message and receives it, with the time-stamp counter read right before and right after each call; then as
//! many calls of `getppid` as the control. No round is left out as a warm-up. The two counter readings stay in each
//! figure, as there.
//!
//! One thing differs: a call that fails ends the program, so that no figure can be that of a failure.
#![no_std]
#![no_main]

use core::ffi::CStr;
use core::fmt;

use userland::errno::Errno;
use userland::mqueue::{O_CREAT, O_NONBLOCK, O_RDWR};
use userland::start::Process;
use userland::statistics::Summary;
use userland::syscall::{self, Descriptor, MqAttributes, rdtsc};
use userland::{eprintln, println, tsc};

userland::entry!(main);

const USAGE: &str = "usage: mqtest [ROUNDS] [--ns]

Measures mq_send and mq_receive of a 256-byte message, and getppid, ROUNDS times each (100000 unless given).
Prints minimum/average/maximum in ticks of the time-stamp counter, or in nanoseconds with --ns.";

const QUEUE: &CStr = c"mqtest";
const QUEUE_LENGTH: i64 = 10;
const MESSAGE_SIZE: usize = 256;

/// Aligned to its size: so no copy ever crosses from one page into another.
#[repr(align(256))]
struct Message([u8; MESSAGE_SIZE]);

/// A call that failed, or one that did not do what it said.
enum Failure {
    Call(&'static str, Errno),
    Length(usize),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Call(call, error) => write!(out, "{call}: {error}"),
            Failure::Length(got) => write!(out, "mq_receive: {got} bytes instead of {MESSAGE_SIZE}"),
        }
    }
}

/// Names the call that an error came from.
trait Of<T> {
    fn of(self, call: &'static str) -> Result<T, Failure>;
}

impl<T> Of<T> for Result<T, Errno> {
    #[inline(always)]
    fn of(self, call: &'static str) -> Result<T, Failure> {
        self.map_err(|error| Failure::Call(call, error))
    }
}

fn main(process: &Process) -> u8 {
    let Some(options) = Options::parse(process) else {
        eprintln!("{USAGE}");
        return 2;
    };
    match measure(options.rounds) {
        Ok(measured) => match tsc::frequency_khz(process) {
            Ok(tsc_khz) => {
                report(&options, &measured, tsc_khz);
                0
            }
            Err(error) => fail(&Failure::Call("clock_gettime", error)),
        },
        Err(failure) => fail(&failure),
    }
}

fn fail(failure: &Failure) -> u8 {
    eprintln!("mqtest: {failure}");
    1
}

struct Options {
    rounds: u32,
    nanoseconds: bool,
}

impl Options {
    /// `None` where the arguments are not those of the usage text.
    fn parse(process: &Process) -> Option<Options> {
        let mut options = Options {
            rounds: 100_000,
            nanoseconds: false,
        };
        for argument in process.arguments().skip(1) {
            match argument.to_str().ok()? {
                "--ns" => options.nanoseconds = true,
                rounds => options.rounds = rounds.parse().ok().filter(|&rounds| rounds > 0)?,
            }
        }
        Some(options)
    }
}

struct Measured {
    receive: Summary,
    send: Summary,
    getppid: Summary,
}

fn measure(rounds: u32) -> Result<Measured, Failure> {
    // A queue that an interrupted run left behind would keep its own sizes.
    match syscall::mq_unlink(QUEUE) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(Failure::Call("mq_unlink", error)),
    }
    let attributes = MqAttributes::new(QUEUE_LENGTH, MESSAGE_SIZE as i64);
    let queue = syscall::mq_open(QUEUE, O_RDWR | O_NONBLOCK | O_CREAT, 0o666, &attributes).of("mq_open")?;
    let (send, receive) = exchange(queue, rounds)?;
    syscall::close(queue).of("close")?;
    syscall::mq_unlink(QUEUE).of("mq_unlink")?;

    let mut getppid = Summary::new();
    for _ in 0..rounds {
        let start = rdtsc();
        syscall::getppid();
        getppid.add(rdtsc() - start);
    }
    Ok(Measured { receive, send, getppid })
}

/// The measured loop: each round one message in and out.
fn exchange(queue: Descriptor, rounds: u32) -> Result<(Summary, Summary), Failure> {
    let (mut send, mut receive) = (Summary::new(), Summary::new());
    let mut message = Message([0; MESSAGE_SIZE]);
    for _ in 0..rounds {
        let start = rdtsc();
        let sent = syscall::mq_send(queue, &message.0, 0);
        send.add(rdtsc() - start);
        sent.of("mq_send")?;

        let start = rdtsc();
        let received = syscall::mq_receive(queue, &mut message.0);
        receive.add(rdtsc() - start);
        match received.of("mq_receive")? {
            MESSAGE_SIZE => {}
            other => return Err(Failure::Length(other)),
        }
    }
    Ok((send, receive))
}

/// Ticks, or what they are in nanoseconds.
struct Unit {
    nanoseconds: bool,
    tsc_khz: u64,
}

impl Unit {
    fn of(&self, ticks: u64) -> u64 {
        if self.nanoseconds {
            (u128::from(ticks) * 1_000_000 / u128::from(self.tsc_khz)) as u64
        } else {
            ticks
        }
    }

    fn name(&self) -> &'static str {
        if self.nanoseconds { "ns" } else { "ticks" }
    }
}

fn report(options: &Options, measured: &Measured, tsc_khz: u64) {
    let unit = Unit {
        nanoseconds: options.nanoseconds,
        tsc_khz,
    };
    let (rounds, name) = (options.rounds, unit.name());
    let space = if options.nanoseconds { "" } else { " " };
    let Measured { receive, send, getppid } = measured;
    println!(
        "RX: {}/{}/{}",
        unit.of(receive.min()),
        unit.of(receive.avg()),
        unit.of(receive.max())
    );
    println!(
        "TX: {}/{}/{}",
        unit.of(send.min()),
        unit.of(send.avg()),
        unit.of(send.max())
    );
    println!(
        "Accumulated time for {rounds} getppid, {}{space}{name}",
        unit.of(getppid.sum())
    );
    println!("Average time per getppid: {}{space}{name}", unit.of(getppid.avg()));
    println!(
        "mqtest: {{\"rounds\":{rounds},\"unit\":\"{name}\",\"tsc_khz\":{tsc_khz},\"rx\":{},\"tx\":{},\"getppid\":{}}}",
        Json(receive, &unit),
        Json(send, &unit),
        Json(getppid, &unit)
    );
}

/// A summary as a JSON object.
struct Json<'a>(&'a Summary, &'a Unit);

impl fmt::Display for Json<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Json(summary, unit) = self;
        let (min, avg, max) = (unit.of(summary.min()), unit.of(summary.avg()), unit.of(summary.max()));
        write!(out, "{{\"min\":{min},\"avg\":{avg},\"max\":{max}}}")
    }
}
