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
use crate::task::policy::LEVELS;
use crate::task::{Private, Task, scheduler};
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

/// Tasks that wait for a CPU: the highest level first, at one level first come first served. Its owner's lock guards it.
pub struct TaskQueue {
    levels: [LinkedList<RunAdapter>; LEVELS],
    /// The levels above 0 at which somebody waits, a bit each.
    realtime: u128,
    length: usize,
}

const _: () = assert!(LEVELS <= u128::BITS as usize);

impl TaskQueue {
    /// An empty queue.
    pub const fn new() -> TaskQueue {
        TaskQueue {
            levels: [const { LinkedList::new(RunAdapter::NEW) }; LEVELS],
            realtime: 0,
            length: 0,
        }
    }
    /// How many wait.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }
    /// The highest level at which somebody waits.
    #[inline(always)]
    pub fn highest(&self) -> Option<usize> {
        if self.realtime != 0 {
            Some(self.realtime.ilog2() as usize)
        } else {
            (self.length != 0).then_some(0)
        }
    }
    /// Adds a task that is in no queue, behind those of its level, or `first` of them.
    #[inline]
    pub fn push(&mut self, task: &Task, level: usize, first: bool) {
        // SAFETY: the task stays alive while it is linked (Anchor's drop).
        let anchor = unsafe { UnsafeRef::from_raw(&task.anchor) };
        if first {
            self.levels[level].push_front(anchor);
        } else {
            self.levels[level].push_back(anchor);
        }
        if level != 0 {
            self.realtime |= 1 << level;
        }
        self.length += 1;
    }
    /// Takes the first one of the highest level.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready> {
        let level = self.highest()?;
        let anchor = self.levels[level].pop_front()?;
        Some(self.taken(level, anchor))
    }
    /// Takes the first one, from the highest level down, that `fits`; only the first [`LOOKED_AT`] are looked at.
    pub fn take_first(&mut self, fits: impl Fn(&Task) -> bool) -> Option<Ready> {
        let mut looked_at = 0;
        let mut levels = self.realtime | 1;
        while let Some(level) = levels.checked_ilog2() {
            levels &= !(1 << level);
            let mut cursor = self.levels[level as usize].front_mut();
            while let Some(anchor) = cursor.get() {
                // SAFETY: push linked a task's anchor, and a linked task is alive.
                if fits(unsafe { task_of(anchor) }) {
                    let anchor = cursor.remove()?;
                    return Some(self.taken(level as usize, anchor));
                }
                looked_at += 1;
                if looked_at == LOOKED_AT {
                    return None;
                }
                cursor.move_next();
            }
        }
        None
    }
    /// Takes out a task that waits at `level`; false if it is in no queue.
    pub fn remove(&mut self, task: &Task, level: usize) -> bool {
        if !task.anchor.run.is_linked() {
            return false;
        }
        // SAFETY: the task is linked, and in this queue at this level (caller: the lock of its CPU's queue is held).
        let anchor = unsafe { self.levels[level].cursor_mut_from_ptr(&task.anchor) }.remove();
        anchor.is_some_and(|anchor| {
            self.taken(level, anchor);
            true
        })
    }
    #[inline(always)]
    fn taken(&mut self, level: usize, anchor: UnsafeRef<Anchor>) -> Ready {
        self.length -= 1;
        if level != 0 && self.levels[level].is_empty() {
            self.realtime &= !(1 << level);
        }
        // SAFETY: push linked a task's anchor, and a linked task is alive.
        Ready(NonNull::from(unsafe { task_of(&*UnsafeRef::into_raw(anchor)) }))
    }
}

/// A search in a queue ends after this many tasks: interrupts are off meanwhile.
const LOOKED_AT: usize = 32;

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

/// The task that a CPU has just left, for [`finish_switch`]; bit 0 says that it is to go to another CPU. Per CPU.
static LEFT: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

/// Makes `task`, which holds this CPU already (boot's own stack), the running one.
pub fn adopt(task: &'static Task, kernel_stack: u64) {
    task.anchor.on_cpu.store(1, Ordering::Relaxed);
    local::set_current(task as *const Task as usize, kernel_stack as usize);
}

/// Leaves `previous`, the running task, for `next`. Returns when somebody switches back to it. `moves`: `previous` wants
/// a CPU still and may not have this one.
pub fn switch(previous: &Current, next: Ready, moves: bool, masked: &Masked) {
    let (previous, next): (&Task, &Task) = (previous, &next);
    debug_assert!(!next.anchor.on_cpu(), "a task was taken that a CPU has not left");
    next.anchor.on_cpu.store(1, Ordering::Relaxed);
    LEFT[cpu::id()].store(previous as *const Task as usize | usize::from(moves), Ordering::Relaxed);
    local::set_current(next as *const Task as usize, next.kernel_stack_top() as usize);
    // SAFETY: 1. Interrupts are off (`masked`). 2. Both contexts belong to us: previous runs here; next was in this CPU's
    // queue, and a task that a CPU has not left is in no other's (see the scheduler), or it is this CPU's idle task.
    // 3. next's context was saved by this function or made by Context::new on its own stack, which lives as long as the
    // task.
    unsafe { switch::switch(previous.anchor.context.get(), next.anchor.context.get()) };
    finish_switch(masked);
}

/// The other half of [`switch`], on the new task's stack: lets go of the task that was left, and frees it if it has
/// ended. A new task calls this first, with interrupts off.
pub fn finish_switch(_masked: &Masked) {
    let left = LEFT[cpu::id()].load(Ordering::Relaxed);
    // SAFETY: switch stored it on this CPU with interrupts off; a task is aligned to more than the bit. It is alive: its
    // end is below, and while it is marked as on a CPU nobody else runs it to its end.
    let task = unsafe { &*((left & !1) as *const Task) };
    let ended = task.ended();
    // From here on others may run it, and end it, unless it has ended or moves.
    task.anchor.on_cpu.store(0, Ordering::Release);
    if ended {
        // SAFETY: `alive` gave this reference up once, and an ended task is left once.
        drop(unsafe { Shared::from_raw(NonNull::from(task)) });
    } else if left & 1 != 0 {
        // In no queue, and awake: it stays alive until it has been run.
        scheduler::place(task);
    }
}

/// Gives `task` the reference that keeps it until it has ended and been left.
pub fn alive(task: Shared<Task>) -> &'static Task {
    // SAFETY: the reference is given up here and taken back only in finish_switch after the task's end.
    unsafe { task.into_raw().as_ref() }
}
