//! Who runs: run queues, sleep and wake-up, preemption.
//!
//! Each CPU has a queue of tasks that want it, served round robin: a task keeps the CPU for [`SLICE`] ticks, or until it
//! sleeps. A task that wants to sleep says so first ([`Current::prepare_to_sleep`]), then looks once more at what it
//! waits for, then calls [`schedule`]: a wake-up between any two of these steps makes `schedule` return at once, so none
//! is lost.
//!
//! In the kernel a task may be preempted wherever the preemption count is zero. One that is preempted while it prepares
//! to sleep stays in its queue.
//!
//! **Lock order.** A CPU's timers (rank 90), then a run queue (rank 91).

use super::task::{State, Task};
use super::{clock, table};
use crate::arch;
use crate::arch::once::BootCell;
use crate::mm::tasks::{self, Current, Ready, TaskQueue, TimerTree};
use cpu::atomic::{AtomicU32, Ordering};
use cpu::{IrqLock, MAX_CPUS, preempt};

/// Ticks that a task keeps the CPU while others want it.
const SLICE: u32 = 10;

/// The scheduler's part of a CPU.
struct Cpu {
    queue: IrqLock<TaskQueue>,
    timers: IrqLock<TimerTree>,
    /// Runs when nobody else wants to. Immutable after [`start`].
    idle: BootCell<&'static Task>,
    /// Ticks left to the running task. Written by this CPU's tick and switch, interrupts off.
    slice: AtomicU32,
}

static CPUS: [Cpu; MAX_CPUS] = [const {
    Cpu {
        queue: IrqLock::new(91, TaskQueue::new()),
        timers: IrqLock::new(90, TimerTree::new()),
        idle: BootCell::new(),
        slice: AtomicU32::new(SLICE),
    }
}; MAX_CPUS];

/// Makes boot's own thread of execution this CPU's idle task.
pub(super) fn start(idle: &'static Task) {
    CPUS[cpu::id()].idle.set(idle);
    idle.set_state(State::Runnable);
    tasks::adopt(idle, idle.kernel_stack_top());
    preempt::set_reschedule(preempted);
}

/// What the idle task does for ever: waits for interrupts, and gives the CPU to whoever wants it.
pub(super) fn idle() -> ! {
    loop {
        cpu::irq::disable();
        if CPUS[cpu::id()].queue.lock().is_empty() {
            // Interrupts on and halt in one step: a wake-up cannot slip in between.
            arch::idle();
        } else {
            cpu::irq::enable();
        }
        schedule();
    }
}

/// Gives the CPU to the next task; returns when this one has it again. A task that prepared to sleep leaves its queue.
pub fn schedule() {
    choose(false);
}

/// Called when preemption has become possible and was wanted. With interrupts off the wish stays, until the next
/// chance: the end of a section, of an interrupt or of the system call.
fn preempted() {
    if cpu::irq::enabled() {
        choose(true);
    }
}

/// At the end of an interrupt that wants the interrupted task, which is in the kernel and may be preempted, to give way.
/// Interrupts are off, by the interrupt alone.
pub fn preempt_from_interrupt() {
    choose(true);
}

fn choose(preempted: bool) {
    cpu::without_interrupts(|masked| {
        let cpu = &CPUS[cpu::id()];
        let current = Current::get();
        preempt::clear_need_resched();
        cpu.slice.store(SLICE, Ordering::Relaxed);
        let next = {
            let mut queue = cpu.queue.lock();
            if preempted || current.state() == State::Runnable {
                if !current.is_idle() {
                    queue.push_back(&current);
                }
            } else {
                current.set_queued(false);
            }
            queue.pop_front()
        };
        let next = match next {
            Some(next) => next,
            None if current.is_idle() => return,
            None => Ready::idle(cpu.idle.get().expect("the CPU has been started")),
        };
        if !core::ptr::eq(&*next, &*current) {
            // An instrumented build's counts are of the task's own call.
            let aside = cpu::event::set_aside();
            tasks::switch(&current, next, masked);
            cpu::event::put_back(aside);
        }
    });
}

/// Makes a new task runnable on this CPU. It gets its turn: who made it goes on.
pub(super) fn enqueue_new(task: &'static Task) {
    cpu::without_interrupts(|_| {
        let mut queue = CPUS[cpu::id()].queue.lock();
        task.set_cpu(cpu::id());
        task.set_state(State::Runnable);
        task.set_queued(true);
        queue.push_back(task);
    });
}

/// Ends `task`'s sleep. False if it did not sleep.
pub fn wake(task: &Task) -> bool {
    wake_if(task, |state| state != State::Runnable)
}

/// Ends `task`'s sleep if a signal may end it.
pub fn wake_interruptible(task: &Task) -> bool {
    wake_if(task, |state| state == State::Sleeping)
}

fn wake_if(task: &Task, sleeps: impl Fn(State) -> bool) -> bool {
    loop {
        let at = task.cpu();
        let mut queue = CPUS[at].queue.lock();
        // It may have been moved before the lock was ours.
        if task.cpu() != at {
            continue;
        }
        let state = task.state();
        if state == State::Ended || !sleeps(state) {
            return false;
        }
        task.set_state(State::Runnable);
        if !task.queued() {
            task.set_queued(true);
            queue.push_back(task);
            // Who wakes up has waited long enough: it runs as soon as the running task can be preempted.
            preempt::set_need_resched();
        }
        return true;
    }
}

/// Ends the sleep of the task with this identity, if it is there.
pub fn wake_by_id(id: ipc::TaskId) {
    if let Some(task) = table::find_by_id(id) {
        wake(&task);
    }
}

/// As [`schedule`], woken at `deadline` (nanoseconds since boot) at the latest. True if the deadline has passed.
pub fn schedule_until(deadline: Option<u64>) -> bool {
    let Some(deadline) = deadline else {
        schedule();
        return false;
    };
    let current = Current::get();
    if clock::monotonic() >= deadline {
        current.cancel_sleep();
        return true;
    }
    let cpu = &CPUS[cpu::id()];
    cpu.timers.lock().insert(&current, deadline);
    schedule();
    cpu.timers.lock().remove(&current);
    clock::monotonic() >= deadline
}

/// The timer's tick, in interrupt context: ends sleeps, and slices.
pub(super) fn tick() {
    let cpu = &CPUS[cpu::id()];
    clock::tick();
    let now = clock::monotonic();
    let mut timers = cpu.timers.lock();
    // Woken under the timers' lock: a sleeper takes it before it goes on, so none can end under our hands.
    while timers.expire_one(now, |task| {
        wake(task);
    }) {}
    drop(timers);
    let left = cpu.slice.load(Ordering::Relaxed);
    if left > 1 {
        cpu.slice.store(left - 1, Ordering::Relaxed);
    } else if !cpu.queue.lock().is_empty() {
        preempt::set_need_resched();
    }
}
