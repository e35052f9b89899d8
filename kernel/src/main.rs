//! Tollgate: a small kernel that runs Linux programs and charges every kernel object to the cgroup that made it.
//!
//! This file is the whole boot, in order. The loader's entry (`arch`, module `pvh`) calls [`boot`] on the boot stack with
//! interrupts off; what follows turns it into the first CPU's idle task.
//!
//! * [`arch`]: the machine. [`mm`]: memory. [`task`]: tasks and time. [`fs`]: files. [`exec`]: programs.
//!   [`syscall`]: what programs ask. [`log`]: what we say. [`options`]: what we were told. [`races`]: a show of counters.
//! * Below the kernel stand the crates that hold its subject and know nothing of it: cpu, percpu, memcg, slab, ipc.

#![no_std]
#![no_main]
// Unsafe code has an address: below arch and mm, and nowhere else.
#![deny(unsafe_code)]

extern crate alloc;

#[allow(unsafe_code)]
mod arch;
mod exec;
mod fs;
mod log;
#[allow(unsafe_code)]
mod mm;
mod net;
mod options;
mod races;
mod syscall;
mod task;

use crate::arch::boot_info::BootInfo;
use crate::options::Options;
use ::log::{error, info, warn};
use core::fmt::{self, Debug};

/// From the loader's description of the machine to the first program.
fn boot(boot: &'static BootInfo) -> ! {
    log::init(Options::wants_com2(&boot.command_line)); // the serial ports: from here on there are words
    let options = options(boot); // what we are asked to be, or the end
    mm::heap::init(); // the early heap
    needed(arch::init_memory_and_traps(boot)); // page tables, frames; a mistake is reported from here on
    let left_out = needed(arch::init_cpu_areas(boot)); // per-CPU areas, before the first slot
    let slab = needed(mm::heap::init_slab(options.accounting)); // caches and cgroups; the heap is theirs now
    arch::init_clock(options.tick); // the time-stamp counter's frequency, and the tick
    if let Err(error) = fs::start(boot.initrd()) {
        // the loader's archive is the root file system
        refuse(format_args!("{error}"));
    }
    let accounting = slab.accounting();
    let root = accounting.root();
    let cgroup = if options.user_cgroup {
        needed(accounting.create(root))
    } else {
        root
    }; // /u
    let system = task::System {
        options,
        slab,
        accounting,
        cgroup,
    };
    needed(syscall::start_mqueues(&system)); // the namespace of message queues
    report(boot);
    if left_out > 0 && options.all_cpus {
        refuse(format_args!(
            "cpus=all: {left_out} more CPUs are listed than the {} that the kernel supports",
            cpu::MAX_CPUS
        ));
    } else if left_out > 0 {
        warn!(
            "{left_out} more CPUs are listed than the {} that the kernel supports",
            cpu::MAX_CPUS
        );
    }
    task::start(system, boot) // the idle tasks, the other CPUs, and init, which starts the program
}

/// The command line, understood. Otherwise the run ends as a failure: under other options it would measure something else.
fn options(boot: &'static BootInfo) -> Options {
    if boot.command_line_cut {
        refuse(format_args!(
            "command line: longer than {} bytes",
            arch::boot_info::COMMAND_LINE_MAX
        ));
    }
    match Options::parse(&boot.command_line) {
        Ok(options) => options,
        Err(error) => refuse(format_args!("command line: {error}")),
    }
}

/// Ends the run over something that we were given and that is not right.
fn refuse(why: fmt::Arguments) -> ! {
    error!("{why}");
    arch::qemu::exit(false)
}

/// The result of a step without which there is no kernel.
#[track_caller]
fn needed<T, E: Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("boot: {error:?}"),
    }
}

/// What was found, for the log.
fn report(boot: &BootInfo) {
    let frames = mm::frames::count();
    info!(
        "{}: {} KiB of memory, {} KiB free; {} CPUs listed; counter at {} kHz, {} at the kernel's first instruction",
        boot.protocol,
        frames.total * 4,
        frames.free * 4,
        cpu::possible(),
        arch::tsc::khz(),
        boot.tsc_at_entry
    );
    if boot.regions_dropped != 0 {
        warn!("the memory map has {} more entries than are kept", boot.regions_dropped);
    }
}
