//! Tasks and processes.
//!
//! * [`task`]: a task and its private part. [`process`]: what tasks share. [`table`]: all of them by number.
//! * [`scheduler`]: who runs, sleep and wake-up. [`policy`]: by which rules; [`balance`]: on which CPU. [`cpus`]: the
//!   start of the CPUs. [`clock`]: time.
//! * [`rseq`]: where a thread runs, for its program. [`signal`], [`exit`]: how they end. [`credentials`]: who they act for.
//! * [`ipc_namespace`]: the queues that they can reach.
//! * [`init`]: the first task, which starts the program and ends the machine.
//!
//! **Lock order.** The table (5), then a process's locks (10 to 15), each taken alone; timers (90), run queues (91).

mod accounts;
mod balance;
pub mod clock;
pub mod clone;
mod cpus;
pub mod cputime;
pub mod credentials;
pub mod deliver;
pub mod exit;
pub mod family;
pub mod futex;
mod init;
pub mod ipc_namespace;
pub mod pending;
pub mod policy;
pub mod process;
mod robust;
pub mod rseq;
pub mod scheduler;
pub mod signal;
pub mod stopping;
pub mod table;
#[allow(clippy::module_inception, reason = "a file is a noun, and this noun is the task")]
pub mod task;
pub mod timers;

pub use cpus::start_here;
pub use scheduler::{
    preempt_from_interrupt, reschedule_asked, schedule, schedule_until, wake, wake_by_id, wake_in_turn,
    wake_interruptible,
};
pub use task::{Pid, Private, Task, work};

use crate::arch::boot_info::BootInfo;
use crate::arch::once::BootCell;
use crate::arch::{Trap, TrapFrame};
use crate::mm::fault::Refused;
use crate::mm::shared::{OutOfMemory, Shared};
use crate::mm::tasks::{self, Current};
use crate::options::Options;
use memcg::{Accounting, Cgroup};
use process::Process;
use signal::{Info, Signal};

/// What the whole system runs under: made once by boot.
pub struct System {
    /// The command line.
    pub options: Options,
    /// The slab allocator of accounted objects.
    pub slab: &'static slab::Slab,
    /// Memory control.
    pub accounting: &'static Accounting,
    /// The first program's cgroup.
    pub cgroup: &'static Cgroup,
}

static SYSTEM: BootCell<System> = BootCell::new();

/// See [`System`].
pub fn system() -> &'static System {
    SYSTEM.get().expect("tasks start after memory")
}

/// Memory control.
pub fn memory() -> &'static Accounting {
    system().accounting
}

/// Makes boot's own thread of execution the first CPU's idle task, starts the other CPUs and init, and is idle for ever.
pub fn start(made: System, boot: &BootInfo) -> ! {
    let system = SYSTEM.set(made);
    clock::start();
    if let Err(OutOfMemory) = start_tasks(system, boot) {
        panic!("too little memory to start the first tasks");
    }
    cpu::irq::enable();
    scheduler::idle()
}

fn start_tasks(system: &'static System, boot: &BootInfo) -> Result<(), OutOfMemory> {
    let root = system.accounting.root();
    cpus::start_first()?;
    if !cpus::start_others(boot)? && system.options.all_cpus {
        log::error!("cpus=all: the run ends");
        crate::arch::qemu::exit(false);
    }
    spawn(b"init", 0, root, init::run)?;
    let (_, worker) = spawn_task(b"kworker", 0, root, worker)?;
    WORKER.set(worker); // it never ends
    let (_, timekeeper) = spawn_task(b"ktimers", 0, root, timers::work)?;
    timers::start(timekeeper);
    static WAKE_WORKER: fn() = wake_worker;
    system.slab.on_wanted_copy(&WAKE_WORKER);
    Ok(())
}

/// Starts a task of the kernel, in a process of its own.
pub fn spawn(
    name: &[u8],
    parent: Pid,
    cgroup: &'static Cgroup,
    entry: task::Entry,
) -> Result<Shared<Process>, OutOfMemory> {
    spawn_task(name, parent, cgroup, entry).map(|(process, _)| process)
}

fn spawn_task(
    name: &[u8],
    parent: Pid,
    cgroup: &'static Cgroup,
    entry: task::Entry,
) -> Result<(Shared<Process>, &'static Task), OutOfMemory> {
    let number = table::free_number();
    let process = Process::try_new(number, parent, name)?;
    let task = Task::try_new(number, process.clone(), cgroup, entry)?;
    table::insert(&task)?;
    let task = tasks::alive(task);
    scheduler::enqueue_new(task);
    Ok((process, task))
}

/// The kernel's worker: what cannot be done where it is asked for.
fn worker() {
    let current = Current::get();
    loop {
        current.prepare_to_wait();
        if system().slab.has_pending_copies() {
            current.cancel_sleep();
            accounts::make_copies();
        } else {
            schedule();
        }
    }
}

/// The worker.
static WORKER: BootCell<&'static Task> = BootCell::new();

/// There is something for the worker.
fn wake_worker() {
    if let Some(worker) = WORKER.get() {
        scheduler::wake(worker);
    }
}

/// The timer's tick, which interrupted a program (`user`) or the kernel: interrupt context, interrupts off.
pub fn tick(user: bool) {
    if let Some(current) = Current::try_get() {
        cputime::tick(&current, user);
        scheduler::tick();
    }
}

/// What is to be done before the running task goes to ring 3 with `frame`: a reschedule, signals.
pub fn exit_to_user_work(frame: &mut TrapFrame) {
    let current = Current::get();
    let work = current.take_work();
    if work != 0 {
        // First: a handler's frame holds the address at which the program goes on.
        rseq::resume(&current, frame);
    }
    if work & work::SIGNAL != 0 {
        deliver::deliver(&current, frame);
    }
    if cpu::preempt::need_resched() {
        scheduler::give_way();
    }
}

/// A fault of ring 3 that is none of the kernel's to mend: a signal.
pub fn user_fault(trap: Trap) {
    let current = Current::get();
    let info = fault_info(&current, &trap);
    let signal = info.signal();
    if current.process.signals.action(signal).handler <= 1 {
        log::warn!(
            "{} ({}): exception {} at {:#x}, address {:#x}, error {:#x}, stack {:#x}: signal {}",
            table::printable(&current.process.name()),
            current.tid,
            trap.vector,
            trap.frame.rip,
            trap.address,
            trap.error,
            trap.frame.rsp,
            signal.number(),
        );
    }
    let address = if trap.vector == 14 { trap.address } else { 0 };
    current.own().last_fault.set((trap.vector.into(), trap.error, address));
    signal::force(&current, info);
}

/// The signal of a fault and what it carries, as Linux has them on x86.
fn fault_info(current: &Current, trap: &Trap) -> Info {
    use linux_raw_sys::general;
    let fault = |signal, code: u32| Info::fault(signal, code as i32, trap.address);
    match trap.vector {
        0 => fault(Signal::SIGFPE, general::FPE_INTDIV),
        16 | 19 => fault(Signal::SIGFPE, general::FPE_FLTINV),
        1 => fault(Signal::SIGTRAP, general::TRAP_TRACE),
        3 => Info::kernel(Signal::SIGTRAP),
        6 => fault(Signal::SIGILL, general::ILL_ILLOPN),
        17 => fault(Signal::SIGBUS, general::BUS_ADRALN),
        14 => match current.space().refusal(trap.address) {
            Refused::NoPage => fault(Signal::SIGBUS, general::BUS_ADRERR),
            Refused::NoArea => fault(Signal::SIGSEGV, general::SEGV_MAPERR),
            _ => fault(Signal::SIGSEGV, general::SEGV_ACCERR),
        },
        _ => Info::kernel(Signal::SIGSEGV),
    }
}

/// No frame is left for the running program: it gets SIGKILL, and the log names it.
pub fn kill_for_memory(current: &Current) {
    log::error!(
        "out of memory: {} ({}) is killed; it has {} KiB mapped",
        table::printable(&current.process.name()),
        current.tid,
        current
            .own()
            .space
            .borrow()
            .as_ref()
            .map_or(0, |space| space.pages() * 4),
    );
    signal::kill_task(current);
}

/// The running task's program, for reports; `None` before the first task.
pub fn current_name() -> Option<process::Name> {
    Some(Current::try_get()?.process.name())
}
