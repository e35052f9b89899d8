//! Who runs: run queues, sleep and wake-up, preemption.
//!
//! Each CPU has a queue of tasks that want it. The highest level runs ([`super::policy`]); at one level tasks take turns.
//! A task that wants to sleep says so first ([`Current::prepare_to_sleep`]), then looks once more at what it waits for,
//! then calls [`schedule`]: a wake-up between any two of these steps makes `schedule` return at once, so none is lost.
//!
//! In the kernel a task may be preempted wherever the preemption count is zero. One that is preempted while it prepares
//! to sleep stays in its queue.
//!
//! **Whose queue.** A task that a CPU has not left yet (`on_cpu`) is in no other CPU's queue: a wake-up puts it back into
//! that one, and nobody takes it from there. So a CPU never waits for another to leave a task. Which CPU a task goes to
//! otherwise is decided in [`super::balance`].
//!
//! **Lock order.** A CPU's timers (rank 90), then one run queue (rank 91).

use super::policy::Scheduling;
use super::task::{State, Task};
use super::{balance, clock, cputime, table, work};
use crate::arch;
use crate::arch::ipi;
use crate::arch::once::BootCell;
use crate::mm::tasks::{self, Current, Ready, TaskQueue, TimerTree};
use cpu::atomic::{AtomicU32, Ordering};
use cpu::lock::IrqGuard;
use cpu::{IrqLock, MAX_CPUS, preempt};

/// The scheduler's part of a CPU.
struct Cpu {
    queue: IrqLock<TaskQueue>,
    timers: IrqLock<TimerTree>,
    /// Runs when nobody else wants to. Immutable after [`start`].
    idle: BootCell<&'static Task>,
    /// Ticks left to the running task, [`FOR_EVER`] without an end. Written by this CPU's tick and switch, interrupts off.
    slice: AtomicU32,
    /// Level of the running task plus 1; 0 while the idle task runs. Written under the queue's lock, read by wakers.
    running: AtomicU32,
    /// Tasks in the queue. Written under its lock, read by everybody.
    waiting: AtomicU32,
    /// Ticks since start. Written by this CPU's tick.
    ticks: AtomicU32,
}

const FOR_EVER: u32 = u32::MAX;

static CPUS: [Cpu; MAX_CPUS] = [const {
    Cpu {
        queue: IrqLock::new(91, TaskQueue::new()),
        timers: IrqLock::new(90, TimerTree::new()),
        idle: BootCell::new(),
        slice: AtomicU32::new(FOR_EVER),
        running: AtomicU32::new(0),
        waiting: AtomicU32::new(0),
        ticks: AtomicU32::new(0),
    }
}; MAX_CPUS];

/// Why a task gives up its CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// It sleeps, if it has said so and nobody has woken it since.
    Sleep,
    /// Somebody else is to run.
    Preempted,
    /// It lets others of its level go first (sched_yield(2)).
    Yield,
}

/// Notes the idle task of CPU `cpu`, which does not run yet, or of this CPU.
pub(super) fn set_idle(cpu: usize, idle: &'static Task) {
    idle.set_state(State::Runnable);
    idle.set_cpu(cpu);
    CPUS[cpu].idle.set(idle);
}

/// Makes this CPU's own thread of execution its idle task.
pub(super) fn start() {
    let idle = CPUS[cpu::id()].idle.get().expect("each CPU has an idle task");
    tasks::adopt(idle, idle.kernel_stack_top());
    preempt::set_reschedule(preempted);
}

/// What the idle task does for ever: waits for interrupts, and gives the CPU to whoever wants it.
pub(super) fn idle() -> ! {
    loop {
        cpu::irq::disable();
        let here = cpu::id();
        balance::IDLE.insert(here);
        if waiting(here) == 0 && !balance::steal(here, 1) {
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
    choose(Leave::Sleep);
}

/// Lets the others of this task's level run first.
pub fn yield_now() {
    choose(Leave::Yield);
}

/// Gives the CPU to who is to have it, perhaps this task.
pub(super) fn give_way() {
    choose(Leave::Preempted);
}

/// Leaves the running task, which has nothing any more, for ever.
pub(super) fn end(current: &Current) -> ! {
    // From here on to the switch: a task that has ended must not be preempted, which would queue it.
    cpu::irq::disable();
    {
        // Under the lock: a waker that has seen it sleep does not make it runnable again.
        let _queue = queue_of(current);
        current.set_state(State::Ended);
    }
    choose(Leave::Sleep);
    unreachable!("an ended task was run")
}

/// Called when preemption has become possible and was wanted. With interrupts off the wish stays, until the next
/// chance: the end of a section, of an interrupt or of the system call.
fn preempted() {
    if cpu::irq::enabled() {
        choose(Leave::Preempted);
    }
}

/// At the end of an interrupt that wants the interrupted task, which is in the kernel and may be preempted, to give way.
/// Interrupts are off, by the interrupt alone.
pub fn preempt_from_interrupt() {
    choose(Leave::Preempted);
}

fn choose(how: Leave) {
    // Who holds a lock must not give up its CPU: the count is the CPU's, and would go with it.
    debug_assert!(
        preempt::preemptible(),
        "a task gives up its CPU inside a section that keeps it"
    );
    cpu::without_interrupts(|masked| {
        let here = cpu::id();
        let cpu = &CPUS[here];
        let current = Current::get();
        preempt::clear_need_resched();
        // May it run here no more? Then it goes to another queue, once this CPU has left it.
        let mut moves = false;
        let mut queue = cpu.queue.lock();
        // Under the lock: a wake-up that came before it has made the task runnable, and left it to us.
        let voluntary = how == Leave::Sleep && current.state() != State::Runnable;
        if current.is_idle() {
        } else if voluntary {
            current.set_queued(false);
        } else if current.may_run_on(here) {
            let turn_is_over = how == Leave::Yield || cpu.slice.load(Ordering::Relaxed) == 0;
            let level = current.scheduling().level();
            queue.push(&current, level, level != 0 && !turn_is_over);
        } else {
            moves = true;
        }
        let next = loop {
            match queue.pop() {
                Some(next) if next.may_run_on(here) => break Some(next),
                // Its affinity was changed while it was on its way here.
                Some(elsewhere) => {
                    drop(queue);
                    place(&elsewhere);
                    queue = cpu.queue.lock();
                }
                None => break None,
            }
        };
        count(cpu, &queue);
        let next = match next {
            Some(next) => next,
            None if current.is_idle() => return,
            None => Ready::idle(cpu.idle.get().expect("the CPU has been started")),
        };
        let slice = match next.is_idle() {
            true => {
                cpu.running.store(0, Ordering::Relaxed);
                None
            }
            false => {
                let scheduling = next.scheduling();
                cpu.running.store(scheduling.level() as u32 + 1, Ordering::Relaxed);
                scheduling.slice(next.process.nice.load(Ordering::Relaxed) as i32)
            }
        };
        drop(queue);
        cpu.slice.store(slice.unwrap_or(FOR_EVER), Ordering::Relaxed);
        if !core::ptr::eq(&*next, &*current) {
            cputime::switch(&current, &next, voluntary);
            // An instrumented build's counts are of the task's own call.
            let aside = cpu::event::set_aside();
            tasks::switch(&current, next, moves, masked);
            cpu::event::put_back(aside);
            // A voluntary switch is inside a call, where no restartable sequence is.
            if how == Leave::Preempted || cpu::id() != here {
                current.add_work(work::RSEQ);
            }
        }
    });
}

/// Notes how many wait.
fn count(cpu: &Cpu, queue: &TaskQueue) {
    cpu.waiting.store(queue.len() as u32, Ordering::Relaxed);
}

/// How many tasks wait for CPU `cpu`, besides the one that runs: a look from outside.
pub(super) fn waiting(cpu: usize) -> u32 {
    CPUS[cpu].waiting.load(Ordering::Relaxed)
}

/// Level of the task that runs on CPU `cpu` plus 1, 0 for the idle task: a look from outside.
pub(super) fn running(cpu: usize) -> u32 {
    CPUS[cpu].running.load(Ordering::Relaxed)
}

/// The queue that `task` belongs to, locked, and its CPU.
fn queue_of(task: &Task) -> (usize, IrqGuard<'static, TaskQueue>) {
    loop {
        let at = task.cpu();
        let queue = CPUS[at].queue.lock();
        // It may have been moved before the lock was ours.
        if task.cpu() == at {
            return (at, queue);
        }
    }
}

/// Adds a task to the queue of CPU `at`, which is its own, and sees to it that it runs when it should.
fn add(at: usize, queue: &mut TaskQueue, task: &Task, woken: bool) {
    let scheduling = task.scheduling();
    let cpu = &CPUS[at];
    queue.push(task, scheduling.level(), false);
    count(cpu, queue);
    // Who wakes up has waited long enough: it runs as soon as the running task of its level can be preempted.
    let level = scheduling.level() as u32 + 1;
    let running = cpu.running.load(Ordering::Relaxed);
    let at_once = level > running || woken && level == running && level == 1 && scheduling.preempts_equals();
    if !at_once {
    } else if at == cpu::id() {
        preempt::set_need_resched();
    } else {
        ipi::reschedule(at);
    }
}

/// Puts a task that is in no queue, runs nowhere and wants a CPU into a queue.
pub fn place(task: &Task) {
    let to = balance::choose_cpu(task);
    // Its CPU is changed under its old queue's lock and it is linked under the new one's, so who holds the lock of its
    // CPU's queue knows whether it is linked there or nowhere.
    let (at, mut queue) = queue_of(task);
    if to != at {
        task.set_cpu(to);
        drop(queue);
        queue = CPUS[to].queue.lock();
    }
    add(to, &mut queue, task, false);
}

/// Makes a new task runnable. It gets its turn: who made it goes on.
pub(super) fn enqueue_new(task: &'static Task) {
    task.set_cpu(cpu::id());
    task.set_state(State::Runnable);
    task.set_queued(true);
    place(task);
}

/// Ends `task`'s sleep. False if it did not sleep.
pub fn wake(task: &Task) -> bool {
    wake_if(task, |state| state != State::Runnable, true)
}

/// Ends `task`'s sleep if a signal may end it.
pub fn wake_interruptible(task: &Task) -> bool {
    wake_if(task, |state| state == State::Sleeping, true)
}

fn wake_if(task: &Task, sleeps: impl Fn(State) -> bool, at_once: bool) -> bool {
    let (at, mut queue) = queue_of(task);
    let state = task.state();
    if matches!(state, State::New | State::Ended) || !sleeps(state) {
        return false;
    }
    task.set_state(State::Runnable);
    if task.queued() {
        return true; // it has not gone to sleep yet
    }
    task.set_queued(true);
    let to = if task.anchor.on_cpu() {
        at // whose CPU has not left it yet: see above
    } else {
        balance::choose_cpu(task)
    };
    if to != at {
        // In no queue for a moment: its state says that it is awake, so nobody else puts it into one.
        task.set_cpu(to);
        drop(queue);
        queue = CPUS[to].queue.lock();
    }
    add(to, &mut queue, task, at_once);
    true
}

/// Makes a task that runs on another CPU look at its work before it goes on in ring 3.
pub fn kick(task: &Task) {
    // The work was noted before; a CPU that leaves the task now, or has left it, looks at it when the task comes back.
    cpu::without_preemption(|_| {
        let at = task.cpu();
        if task.anchor.on_cpu() && at != cpu::id() {
            ipi::reschedule(at);
        }
    });
}

/// Another CPU wants this one to look for a task. Interrupt context.
pub fn reschedule_asked() {
    let here = cpu::id();
    if waiting(here) != 0 || Current::try_get().is_some_and(|current| !current.may_run_on(here)) {
        preempt::set_need_resched();
    }
}

/// Takes from the queue of CPU `from` a task that may run on `to` and that its CPU has left, and makes it `to`'s.
pub(super) fn take_over(from: usize, to: usize) -> bool {
    let taken = {
        let mut queue = CPUS[from].queue.lock();
        let taken = queue.take_first(|task| task.may_run_on(to) && !task.anchor.on_cpu());
        if let Some(task) = &taken {
            task.set_cpu(to);
            count(&CPUS[from], &queue);
        }
        taken
    };
    let Some(task) = taken else { return false };
    let mut queue = CPUS[to].queue.lock();
    add(to, &mut queue, &task, false);
    true
}

/// Changes how `task` competes.
pub fn set_scheduling(task: &Task, scheduling: Scheduling) {
    let (at, mut queue) = queue_of(task);
    let linked = queue.remove(task, task.scheduling().level());
    task.set_scheduling(scheduling);
    if linked {
        add(at, &mut queue, task, true);
    } else if task.queued() && task.anchor.on_cpu() {
        // It runs, or is about to be left.
        CPUS[at]
            .running
            .store(u32::from(scheduling.priority) + 1, Ordering::Relaxed);
        if at == cpu::id() {
            preempt::set_need_resched();
        } else {
            ipi::reschedule(at);
        }
    }
}

/// Gives a child that nobody knows yet its parent's policy and CPUs.
pub(super) fn inherit(parent: &Task, child: &Task) {
    let mut scheduling = parent.scheduling().unpack();
    if scheduling.reset_on_fork {
        scheduling = match scheduling.policy.is_realtime() {
            true => Scheduling::DEFAULT,
            false => Scheduling {
                reset_on_fork: false,
                ..scheduling
            },
        };
        let nice = &child.process.nice;
        if !core::ptr::eq(&*child.process, &*parent.process) && (nice.load(Ordering::Relaxed) as i32) < 0 {
            nice.store(0, Ordering::Relaxed);
        }
    }
    child.set_scheduling(scheduling);
    child.set_affinity(parent.affinity());
}

/// Changes where `task` may run; one of these CPUs runs. When this returns it does not run elsewhere, or is on its way.
pub fn set_affinity(task: &Task, cpus: cpu::CpuSet) {
    let (at, mut queue) = queue_of(task);
    task.set_affinity(cpus);
    if task.may_run_on(at) {
        return;
    }
    if !task.anchor.on_cpu() {
        if queue.remove(task, task.scheduling().level()) {
            count(&CPUS[at], &queue);
            drop(queue);
            place(task);
        }
        return; // else it sleeps, or is on its way to a queue: it is looked at there
    }
    drop(queue);
    if core::ptr::eq(task, &*Current::get()) {
        while !task.may_run_on(cpu::id()) {
            give_way();
        }
    } else {
        ipi::reschedule(at);
    }
}

/// Ends the sleep of the task with this identity, if it is there.
pub fn wake_by_id(id: ipc::TaskId) {
    if let Some(task) = table::find_by_id(id) {
        wake(&task);
    }
}

/// As [`wake_by_id`], but the running task goes on until its turn is over, unless the woken one is of a higher level.
///
/// For whoever hands over work and is about to hand over more: it fills a queue, and then the other empties it, instead of
/// two switches for each message. One that waits for an answer gives its CPU away by itself.
pub fn wake_in_turn(id: ipc::TaskId) {
    if let Some(task) = table::find_by_id(id) {
        wake_if(&task, |state| state != State::Runnable, false);
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
    // Of the CPU that it goes to sleep on; it may wake on another.
    let timers = &CPUS[cpu::id()].timers;
    timers.lock().insert(&current, deadline);
    schedule();
    timers.lock().remove(&current);
    clock::monotonic() >= deadline
}

/// The timer's tick, in interrupt context: ends sleeps, and slices.
pub(super) fn tick() {
    let here = cpu::id();
    let cpu = &CPUS[here];
    if here == 0 {
        clock::tick();
    }
    let now = clock::monotonic();
    let mut timers = cpu.timers.lock();
    // Woken under the timers' lock: a sleeper takes it before it goes on, so none can end under our hands.
    while timers.expire_one(now, |task| {
        wake(task);
    }) {}
    drop(timers);
    let ticks = cpu.ticks.load(Ordering::Relaxed).wrapping_add(1);
    cpu.ticks.store(ticks, Ordering::Relaxed);
    balance::tick(here, ticks);
    match cpu.slice.load(Ordering::Relaxed) {
        FOR_EVER => {}
        left @ 2.. => cpu.slice.store(left - 1, Ordering::Relaxed),
        _ => {
            cpu.slice.store(0, Ordering::Relaxed);
            let highest = cpu.queue.lock().highest();
            if highest.is_some_and(|level| level as u32 + 1 >= cpu.running.load(Ordering::Relaxed)) {
                preempt::set_need_resched();
            }
        }
    }
}
