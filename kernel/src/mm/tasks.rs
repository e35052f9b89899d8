//! What tasks need and only unsafe code can give.
//!
//! * [`Current`]: the running task, and its private part ([`Own`]) that nobody else may touch.
//! * [`TaskQueue`] and [`TimerTree`]: tasks in order of arrival, tasks in order of deadline. Intrusive: linking allocates
//!   nothing, so waking and sleeping cannot fail.
//! * [`switch`]: from one task's kernel stack to another's.
//!
//! **What it all rests on: a task is not freed while anything here refers to it.** Lists and the CPUs' current pointers
//! hold bare references, as on Linux, because counting would cost two locked operations a switch. [`Anchor`]'s drop
//! proves it instead: a task that is freed while it is linked or on a CPU is a bug of the kernel and panics.

use crate::arch::switch::{self, Context};
use crate::mm::shared::Shared;
use crate::task::{Private, Task};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use cpu::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use cpu::{MAX_CPUS, Masked, local};
use intrusive_collections::{
    KeyAdapter, LinkedList, LinkedListAtomicLink, RBTree, RBTreeAtomicLink, UnsafeRef, intrusive_adapter,
};

/// A value that only the running task itself reaches, from task context: no lock, no atomics.
pub struct Own<T>(UnsafeCell<T>);

// SAFETY: references to the value come from Current::own alone, so they exist on the task's own stack only, one CPU at a
// time; the switch orders memory between CPUs. The value itself may be dropped elsewhere: Send.
unsafe impl<T: Send> Sync for Own<T> {}

impl<T> Own<T> {
    /// Around `value`.
    pub const fn new(value: T) -> Own<T> {
        Own(UnsafeCell::new(value))
    }
}

/// The running task. Cannot leave the task's own stack.
pub struct Current {
    task: NonNull<Task>,
    _here: PhantomData<*mut ()>,
}

impl Current {
    /// The running task.
    #[inline(always)]
    pub fn get() -> Current {
        let task = local::current() as *mut Task;
        debug_assert!(!task.is_null(), "no task yet");
        Current {
            // SAFETY: the scheduler has stored a task before any code runs that asks.
            task: unsafe { NonNull::new_unchecked(task) },
            _here: PhantomData,
        }
    }

    /// The running task; `None` before there is one.
    pub fn try_get() -> Option<Current> {
        Some(Current {
            task: NonNull::new(local::current() as *mut Task)?,
            _here: PhantomData,
        })
    }

    /// The task's private part. Not from interrupt handlers.
    #[inline(always)]
    pub fn own(&self) -> &Private {
        debug_assert!(cpu::in_task());
        // SAFETY: self is the running task and does not leave its stack, and handlers stay away (asserted): the only
        // references are this task's own, all shared.
        unsafe { &*self.private().0.get() }
    }
}

impl Deref for Current {
    type Target = Task;
    #[inline(always)]
    fn deref(&self) -> &Task {
        // SAFETY: a running task is not freed (Anchor's drop), and this value lives on the running task's stack.
        unsafe { self.task.as_ref() }
    }
}

/// The links and the machine state of a task.
pub struct Anchor {
    run: LinkedListAtomicLink,
    timer: RBTreeAtomicLink,
    /// Nanoseconds since boot. Written before the task goes into a [`TimerTree`], not while it is there.
    deadline: AtomicU64,
    /// Whether a CPU runs it, or has not yet left its stack.
    on_cpu: AtomicU32,
    /// Guarded by `on_cpu`: used by the switch alone.
    context: UnsafeCell<Context>,
}

// SAFETY: the links are atomic and guarded by the lock of the list; the context is touched by the switch alone, which
// owns the task (on_cpu).
unsafe impl Sync for Anchor {}
// SAFETY: as above; a context is numbers.
unsafe impl Send for Anchor {}

impl Anchor {
    /// For a task that starts in `context`.
    pub fn new(context: Context) -> Anchor {
        Anchor {
            run: LinkedListAtomicLink::new(),
            timer: RBTreeAtomicLink::new(),
            deadline: AtomicU64::new(0),
            on_cpu: AtomicU32::new(0),
            context: UnsafeCell::new(context),
        }
    }

    /// Whether a CPU runs the task, or is still on its stack.
    pub fn on_cpu(&self) -> bool {
        self.on_cpu.load(Ordering::Acquire) != 0
    }

    /// Runs `f` on the running task's own context, for what the switch is to load next time (its address space).
    pub fn with_own_context<R>(current: &Current, f: impl FnOnce(&mut Context) -> R) -> R {
        cpu::without_interrupts(|_| {
            // SAFETY: the task runs here and no switch happens with interrupts off: nobody else uses the context.
            f(unsafe { &mut *current.anchor.context.get() })
        })
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        assert!(
            !self.run.is_linked() && !self.timer.is_linked() && !self.on_cpu(),
            "a task was freed while it was queued, slept with a deadline or ran"
        );
    }
}

intrusive_adapter!(RunAdapter = UnsafeRef<Anchor>: Anchor { run => LinkedListAtomicLink });
intrusive_adapter!(TimerAdapter = UnsafeRef<Anchor>: Anchor { timer => RBTreeAtomicLink });

impl KeyAdapter<'_> for TimerAdapter {
    /// Deadline, then address: keys are distinct.
    type Key = (u64, usize);
    fn get_key(&self, anchor: &Anchor) -> (u64, usize) {
        (
            anchor.deadline.load(Ordering::Relaxed),
            anchor as *const Anchor as usize,
        )
    }
}

/// The task that an anchor is part of.
///
/// # Safety
/// The anchor is a task's.
unsafe fn task_of(anchor: &Anchor) -> &Task {
    let offset = core::mem::offset_of!(Task, anchor);
    // SAFETY: the anchor is the field of that name of a live task.
    unsafe { &*(anchor as *const Anchor).byte_sub(offset).cast::<Task>() }
}

/// Tasks that wait for a CPU, first come first served. Its owner's lock guards it.
pub struct TaskQueue(LinkedList<RunAdapter>);

impl TaskQueue {
    /// An empty queue.
    pub const fn new() -> TaskQueue {
        TaskQueue(LinkedList::new(RunAdapter::NEW))
    }
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Adds a task that is in no queue.
    pub fn push_back(&mut self, task: &Task) {
        // SAFETY: the task stays alive while it is linked (Anchor's drop).
        self.0.push_back(unsafe { UnsafeRef::from_raw(&task.anchor) });
    }
    /// Takes the first one.
    pub fn pop_front(&mut self) -> Option<Ready> {
        let anchor = UnsafeRef::into_raw(self.0.pop_front()?);
        // SAFETY: push_back linked a task's anchor, and a linked task is alive.
        Some(Ready(NonNull::from(unsafe { task_of(&*anchor) })))
    }
}

/// A task taken from its queue, to be run. It is alive: it has not ended, and can only end by running.
pub struct Ready(NonNull<Task>);

impl Ready {
    /// For a task that is in no queue and does not run: an idle task.
    pub fn idle(task: &'static Task) -> Ready {
        Ready(NonNull::from(task))
    }
}

impl Deref for Ready {
    type Target = Task;
    fn deref(&self) -> &Task {
        // SAFETY: as the type says.
        unsafe { self.0.as_ref() }
    }
}

/// Tasks that sleep with a deadline, earliest first. Its owner's lock guards it.
pub struct TimerTree(RBTree<TimerAdapter>);

impl TimerTree {
    /// An empty tree.
    pub const fn new() -> TimerTree {
        TimerTree(RBTree::new(TimerAdapter::NEW))
    }
    /// Adds a task that is in no tree. `deadline` in nanoseconds since boot.
    pub fn insert(&mut self, task: &Task, deadline: u64) {
        task.anchor.deadline.store(deadline, Ordering::Relaxed);
        // SAFETY: the task stays alive while it is linked (Anchor's drop).
        self.0.insert(unsafe { UnsafeRef::from_raw(&task.anchor) });
    }
    /// Takes a task out; false if it was not in.
    pub fn remove(&mut self, task: &Task) -> bool {
        task.anchor.timer.is_linked() && {
            let key = TimerAdapter::NEW.get_key(&task.anchor);
            self.0.find_mut(&key).remove().is_some()
        }
    }
    /// Takes the first task whose deadline is not after `now` and runs `f` on it; false if there is none.
    pub fn expire_one(&mut self, now: u64, f: impl FnOnce(&Task)) -> bool {
        let mut first = self.0.front_mut();
        let due = first
            .get()
            .is_some_and(|anchor| anchor.deadline.load(Ordering::Relaxed) <= now);
        if due && let Some(anchor) = first.remove() {
            // SAFETY: the anchor is a task's; a sleeper cannot end before it leaves the tree, which takes our owner's lock.
            f(unsafe { task_of(&anchor) });
        }
        due
    }
}

/// The task that a CPU has just left, for [`finish_switch`]. Per CPU.
static LEFT: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

/// Makes `task`, which holds this CPU already (boot's own stack), the running one.
pub fn adopt(task: &'static Task, kernel_stack: u64) {
    task.anchor.on_cpu.store(1, Ordering::Relaxed);
    local::set_current(task as *const Task as usize, kernel_stack as usize);
}

/// Leaves `previous`, the running task, for `next`. Returns when somebody switches back to it.
///
/// # Panics
/// When `next` runs elsewhere.
pub fn switch(previous: &Current, next: Ready, masked: &Masked) {
    let (previous, next): (&Task, &Task) = (previous, &next);
    // Another CPU may still be on the stack of a task that it has just put to sleep: a few instructions.
    while next.anchor.on_cpu() {
        cpu::pause();
    }
    next.anchor.on_cpu.store(1, Ordering::Relaxed);
    LEFT[cpu::id()].store(previous as *const Task as usize, Ordering::Relaxed);
    local::set_current(next as *const Task as usize, next.kernel_stack_top() as usize);
    // SAFETY: 1. Interrupts are off (`masked`). 2. Both contexts belong to us: previous runs here, next was taken from
    // its queue and marked. 3. next's context was saved by this function or made by Context::new on its own stack, which
    // lives as long as the task.
    unsafe { switch::switch(previous.anchor.context.get(), next.anchor.context.get()) };
    finish_switch(masked);
}

/// The other half of [`switch`], on the new task's stack: lets go of the task that was left, and frees it if it has
/// ended. A new task calls this first, with interrupts off.
pub fn finish_switch(_masked: &Masked) {
    let left = LEFT[cpu::id()].load(Ordering::Relaxed) as *const Task;
    // SAFETY: switch stored it on this CPU with interrupts off; the task is alive: its end is below.
    let task = unsafe { &*left };
    let ended = task.ended();
    task.anchor.on_cpu.store(0, Ordering::Release);
    if ended {
        // SAFETY: `alive` gave this reference up once, and an ended task is left once.
        drop(unsafe { Shared::from_raw(NonNull::from(task)) });
    }
}

/// Gives `task` the reference that keeps it until it has ended and been left.
pub fn alive(task: Shared<Task>) -> &'static Task {
    // SAFETY: the reference is given up here and taken back only in finish_switch after the task's end.
    unsafe { task.into_raw().as_ref() }
}
