//! A task: one thread of execution, in the kernel and perhaps in a program.

use super::cputime::CpuTime;
use super::deliver::{AlternateStack, Restart};
use super::ipc_namespace;
use super::policy::{Packed, Scheduling};
use super::process::Process;
use super::rseq;
use super::signal::{Pending, Signal};
use crate::arch::TrapFrame;
use crate::arch::switch::Context;
use crate::fs::files::Files;
use crate::mm::address_space::AddressSpace;
use crate::mm::shared::{OutOfMemory, Shared};
use crate::mm::stacks::KernelStack;
use crate::mm::tasks::{Anchor, Current, Own};
use core::cell::{Cell, RefCell};
use cpu::atomic::{AtomicU32, AtomicU64, Ordering};
use cpu::{AtomicCpuSet, CpuSet};
use memcg::TaskMemcg;

/// Number of a task or a process (`pid_t`, above 0 but for the idle tasks).
pub type Pid = u32;

/// What a task is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Runs or wants to.
    Runnable,
    /// Sleeps; a signal may wake it.
    Sleeping,
    /// Sleeps until what it waits for has happened.
    Waiting,
    /// Is being made: others may know it already, but a wake-up is not for it.
    New,
    /// Has ended, and will be left for ever at its next switch.
    Ended,
}

/// Reasons for work before the task goes to ring 3. The entry code looks at the word as a whole.
pub mod work {
    /// A signal may be pending.
    pub const SIGNAL: u32 = 1;
    /// The task was moved or preempted: its restartable sequence is to be looked at.
    pub const RSEQ: u32 = 2;
}

/// What a new task runs.
pub type Entry = fn();

/// A task. Others see this through [`Shared`]; what only the running task may touch is in [`Private`].
#[repr(C)]
pub struct Task {
    /// [`work`] before ring 3. First of all: the system call's exit path tests it by this place.
    work: AtomicU32,
    /// A [`State`]. Written by the task itself, or under its CPU's run-queue lock.
    state: AtomicU32,
    /// Whether it is in its CPU's run queue or runs. Guarded by that queue's lock.
    queued: AtomicU32,
    /// Number of the CPU whose queue it belongs to. Changed under that queue's lock.
    cpu: AtomicU32,
    /// A [`Packed`]. Changed under the queue's lock.
    scheduling: AtomicU32,
    /// Where it may run. Changed under the queue's lock.
    affinity: AtomicCpuSet,
    /// Immutable. 0 for idle tasks.
    pub tid: Pid,
    /// As [`ipc::TaskId`] wants it: never used again. Its low half is the number. Immutable.
    pub id: ipc::TaskId,
    /// The process that it is a thread of. Immutable.
    pub process: Shared<Process>,
    /// The private part.
    private: Own<Private>,
    /// The message queues that it can reach, for others to see.
    pub ipc_namespace: ipc_namespace::Seen,
    /// Its cgroup. Changed by whoever moves it.
    pub memcg: TaskMemcg,
    /// Signals sent to this task alone.
    pub pending: Pending,
    /// Blocked signals, a bit each. Written by the task itself.
    pub blocked: Mask,
    /// Signals that it blocks as a rule and waits for now (sigtimedwait(2)). Written by the task itself.
    pub awaited: Mask,
    /// Its place in queues, and its registers while it does not run.
    pub anchor: Anchor,
    /// Its CPU time.
    pub cpu_time: CpuTime,
    /// Whether it waits for a child. Set by the task itself.
    pub(super) awaits_child: AtomicU32,
    /// `None` for a CPU's first idle task, which runs on boot's stack.
    stack: Option<KernelStack>,
    /// What it runs first. Immutable.
    entry: Entry,
}

static_assertions::const_assert_eq!(core::mem::offset_of!(Task, work), 0);

/// Upper half of the next [`Task::id`].
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// Tasks that exist, ended ones that have not been left included.
static EXISTING: AtomicU64 = AtomicU64::new(0);

/// See [`EXISTING`].
pub fn existing() -> u64 {
    EXISTING.load(Ordering::Acquire)
}

/// A set of signals that one task writes and all read.
#[derive(Default)]
pub struct Mask(AtomicU64);

impl Mask {
    /// The set.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    /// Replaces it.
    pub fn set(&self, set: u64) {
        self.0.store(set, Ordering::Relaxed);
    }
}

/// What only the running task itself touches.
pub struct Private {
    /// Open files.
    pub files: Files,
    /// The message queues that it can reach.
    pub ipc_namespace: ipc_namespace::Own,
    /// The program's memory; `None` for a kernel thread.
    pub space: RefCell<Option<Shared<AddressSpace>>>,
    /// Where to write 0 at the end (set_tid_address(2)).
    pub clear_child_tid: Cell<u64>,
    /// Head of the robust list and its size, as claimed.
    pub robust_list: Cell<(u64, usize)>,
    /// What rseq(2) has registered.
    pub rseq: Cell<Option<rseq::Area>>,
    /// The registers with which it enters its program first: a child's.
    pub first_frame: Cell<Option<TrapFrame>>,
    /// Where to write its own number first (`CLONE_CHILD_SETTID`).
    pub set_child_tid: Cell<u64>,
    /// Who waits until this task lets go of the memory that it borrows (vfork(2)).
    pub lender: RefCell<Option<Shared<Lender>>>,
    /// The mask to go back to once a signal has been acted on (rt_sigsuspend(2) and its like).
    pub saved_mask: Cell<Option<u64>>,
    /// Where handlers run that ask for it.
    pub alternate_stack: Cell<AlternateStack>,
    /// How restart_syscall(2) goes on with an interrupted call.
    pub restart: Cell<Restart>,
    /// The program's last fault: vector, error code, address.
    pub last_fault: Cell<(u64, u64, u64)>,
}

impl Private {
    /// Nothing open, no memory, nothing blocked.
    pub fn new() -> Private {
        Private {
            files: Files::new(),
            ipc_namespace: ipc_namespace::Own::default(),
            space: RefCell::new(None),
            clear_child_tid: Cell::new(0),
            robust_list: Cell::new((0, 0)),
            rseq: Cell::new(None),
            first_frame: Cell::new(None),
            set_child_tid: Cell::new(0),
            lender: RefCell::new(None),
            saved_mask: Cell::new(None),
            alternate_stack: Cell::new(AlternateStack::NONE),
            restart: Cell::new(Restart::None),
            last_fault: Cell::new((0, 0, 0)),
        }
    }
}

/// A task that has lent its memory to a child, and waits.
pub struct Lender {
    /// The task.
    pub id: ipc::TaskId,
    /// Whether it has it back.
    pub returned: AtomicU32,
}

impl Task {
    /// A task that will run `entry` on a stack of its own.
    pub fn try_new(
        tid: Pid,
        process: Shared<Process>,
        cgroup: &'static memcg::Cgroup,
        entry: Entry,
    ) -> Result<Shared<Task>, OutOfMemory> {
        let stack = KernelStack::new()?;
        let context = Context::new(stack.top(), first_steps, 0);
        Shared::try_new(Task::assemble(tid, process, cgroup, context, Some(stack), entry))
    }

    /// A task that will enter a program as `own` says, in the memory `space`, with the running program's other registers.
    pub fn try_new_child(
        tid: Pid,
        process: Shared<Process>,
        cgroup: &'static memcg::Cgroup,
        entry: Entry,
        own: Private,
        blocked: u64,
        fs_base: Option<u64>,
    ) -> Result<Shared<Task>, OutOfMemory> {
        let stack = KernelStack::new()?;
        let mut context = Context::new(stack.top(), first_steps, 0);
        cpu::without_interrupts(|_| context.inherit());
        if let Some(base) = fs_base {
            context.set_fs_base(base);
        }
        if let Some(space) = &*own.space.borrow() {
            space.be_entered_by(&mut context);
        }
        let mut task = Task::assemble(tid, process, cgroup, context, Some(stack), entry);
        task.private = Own::new(own);
        task.blocked.set(blocked);
        Shared::try_new(task)
    }

    /// The task that a CPU's first thread of execution becomes: boot's own, without a stack, or that of a CPU that is to
    /// begin on `stack`.
    pub fn try_new_idle(
        process: Shared<Process>,
        cgroup: &'static memcg::Cgroup,
        stack: Option<KernelStack>,
    ) -> Result<Shared<Task>, OutOfMemory> {
        let context = Context::idle(stack.as_ref().map(KernelStack::top));
        Shared::try_new(Task::assemble(0, process, cgroup, context, stack, || {}))
    }

    fn assemble(
        tid: Pid,
        process: Shared<Process>,
        cgroup: &'static memcg::Cgroup,
        context: Context,
        stack: Option<KernelStack>,
        entry: Entry,
    ) -> Task {
        process.task_made();
        EXISTING.fetch_add(1, Ordering::Relaxed);
        Task {
            work: AtomicU32::new(0),
            state: AtomicU32::new(State::New as u32),
            queued: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            scheduling: AtomicU32::new(Scheduling::DEFAULT.pack().0),
            affinity: AtomicCpuSet::new(CpuSet::ALL),
            tid,
            id: SERIAL.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(tid),
            process,
            private: Own::new(Private::new()),
            ipc_namespace: ipc_namespace::Seen::new(),
            memcg: TaskMemcg::new(cgroup),
            pending: Pending::new(),
            blocked: Mask::default(),
            awaited: Mask::default(),
            anchor: Anchor::new(context),
            cpu_time: CpuTime::new(),
            awaits_child: AtomicU32::new(0),
            stack,
            entry,
        }
    }

    /// See [`State`].
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Runnable,
            1 => State::Sleeping,
            2 => State::Waiting,
            3 => State::New,
            _ => State::Ended,
        }
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }

    pub(super) fn queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_queued(&self, queued: bool) {
        self.queued.store(queued.into(), Ordering::Relaxed);
    }

    pub(super) fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Acquire) as usize
    }

    /// The CPU that it runs on, or ran on last.
    pub fn cpu_number(&self) -> usize {
        self.cpu()
    }

    pub(super) fn set_cpu(&self, cpu: usize) {
        self.cpu.store(cpu as u32, Ordering::Release);
    }

    /// How it competes for its CPU.
    #[inline]
    pub fn scheduling(&self) -> Packed {
        Packed(self.scheduling.load(Ordering::Relaxed))
    }

    /// For the scheduler, and for a task that is not known to others yet.
    pub(super) fn set_scheduling(&self, scheduling: Scheduling) {
        self.scheduling.store(scheduling.pack().0, Ordering::Relaxed);
    }

    /// The CPUs that it may run on.
    #[inline]
    pub fn affinity(&self) -> CpuSet {
        self.affinity.get()
    }

    /// As [`Task::set_scheduling`].
    pub(super) fn set_affinity(&self, cpus: CpuSet) {
        self.affinity.set(cpus);
    }

    /// Whether it may run on this CPU.
    #[inline]
    pub fn may_run_on(&self, cpu: usize) -> bool {
        self.affinity().contains(cpu)
    }

    /// Whether this is a CPU's idle task.
    pub fn is_idle(&self) -> bool {
        self.tid == 0
    }

    /// Whether it runs a program.
    pub fn is_program(&self) -> bool {
        self.process.executable().is_some()
    }

    /// Whether it has ended and waits to be left.
    pub fn ended(&self) -> bool {
        self.state() == State::Ended
    }

    /// Where its kernel stack begins: one past its last byte. 0 for an idle task on boot's stack.
    pub fn kernel_stack_top(&self) -> u64 {
        self.stack.as_ref().map_or(0, KernelStack::top)
    }

    /// The private part's cell, for [`Current::own`].
    #[inline(always)]
    pub(crate) fn private(&self) -> &Own<Private> {
        &self.private
    }

    /// Asks for [`work`] before the task goes to ring 3.
    pub fn add_work(&self, bits: u32) {
        let mut old = self.work.load(Ordering::Relaxed);
        while let Err(now) = self
            .work
            .compare_exchange(old, old | bits, Ordering::AcqRel, Ordering::Relaxed)
        {
            old = now;
        }
    }

    pub(super) fn take_work(&self) -> u32 {
        self.work.swap(0, Ordering::AcqRel)
    }

    /// Signals that wait for this task, its process's among them, blocked ones too.
    pub fn pending_signals(&self) -> u64 {
        self.pending.bits() | self.process.signals.pending.bits()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.process.task_gone();
        EXISTING.fetch_sub(1, Ordering::Release);
    }
}

impl Current {
    /// Says that this task is about to sleep until a wake-up or a signal. Look once more at what is waited for, then
    /// call [`schedule`](super::schedule), or [`Current::cancel_sleep`].
    pub fn prepare_to_sleep(&self) {
        // A locked write: the look that follows must not come first.
        self.state_swap(State::Sleeping);
    }

    /// As [`Current::prepare_to_sleep`]; signals do not wake it.
    pub fn prepare_to_wait(&self) {
        self.state_swap(State::Waiting);
    }

    /// Takes the announcement back.
    pub fn cancel_sleep(&self) {
        self.set_state(State::Runnable);
    }

    fn state_swap(&self, state: State) {
        self.state.swap(state as u32, Ordering::AcqRel);
    }

    /// Whether a signal that is not blocked is pending, or the process is to stand still: then a sleep ends.
    #[inline]
    pub fn signal_pending(&self) -> bool {
        self.pending_signals() & !self.blocked.get() != 0 || self.process.stopping.is_stopped()
    }

    /// Whether it must end before it goes back to its program.
    pub fn must_end(&self) -> bool {
        self.pending_signals() & Signal::SIGKILL.bit() != 0
    }

    /// The running program's memory.
    ///
    /// # Panics
    /// In a kernel thread, which has none.
    pub fn space(&self) -> Shared<AddressSpace> {
        self.own()
            .space
            .borrow()
            .clone()
            .expect("system calls come from programs")
    }
}

/// Where a new task begins: the CPU is still inside [`tasks::switch`](crate::mm::tasks::switch), with interrupts off.
extern "C" fn first_steps(_argument: usize) -> ! {
    cpu::without_interrupts(crate::mm::tasks::finish_switch);
    cpu::irq::enable();
    let entry = Current::get().entry;
    entry();
    super::exit::exit_task()
}
