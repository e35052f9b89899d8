//! CPUs on the host: threads.
//!
//! [`machine`] starts a machine of some CPUs, each a thread inside this process, and runs a function on each;
//! [`single`] is the machine of one CPU, on the calling thread. Machines of one process run one after the other (their
//! areas are shared), so tests need not know of each other.

use crate::local::{self, AREA_SIZE, Local, MAX_CPUS};
use std::alloc::{Layout, alloc_zeroed};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

std::thread_local! {
    /// The area of the CPU that this thread is; null when it is none.
    static AREA: Cell<*mut u8> = const { Cell::new(core::ptr::null_mut()) };
    /// What happens at points (see [`on_point`]).
    static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
}

type Handler = Box<dyn FnMut(&'static str)>;

/// Whether any handler was ever registered: without one a point is a load.
static ARMED: AtomicBool = AtomicBool::new(false);

/// Held while a machine runs.
static RUNNING: Mutex<()> = Mutex::new(());

/// Whether the calling thread is a CPU.
pub(crate) fn is_cpu() -> bool {
    !AREA.get().is_null()
}

pub(crate) fn this_area() -> *mut u8 {
    let area = AREA.get();
    assert!(
        !area.is_null(),
        "this thread is no CPU: call it inside cpu::host::machine or single"
    );
    area
}

/// Powers on: all areas exist (once per process) and the machine is ours alone.
fn power_on() -> MutexGuard<'static, ()> {
    let guard = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if local::possible() == 0 {
        for id in 0..MAX_CPUS {
            let layout = Layout::from_size_align(AREA_SIZE, 4096).expect("a page-aligned area");
            // SAFETY: the layout has a size; the area is never freed and belongs to this CPU alone.
            unsafe {
                let base = alloc_zeroed(layout);
                assert!(!base.is_null(), "no memory for the area of CPU {id}");
                local::register_area(id, base);
            }
        }
    }
    guard
}

/// This thread is a CPU until dropped.
struct OnCpu;

impl OnCpu {
    fn enter(id: usize) -> OnCpu {
        let area = local::area(id).expect("power_on registered every area");
        // SAFETY: the machine is ours (RUNNING) and no other thread of it is this CPU: a fresh head, whatever an earlier
        // test that failed left behind.
        unsafe { area.cast::<Local>().write(Local::new(area as usize, id)) };
        AREA.set(area);
        OnCpu
    }
}

impl Drop for OnCpu {
    fn drop(&mut self) {
        AREA.set(core::ptr::null_mut());
        HANDLER.set(None);
    }
}

/// Runs `f` on the calling thread as CPU 0 of a machine.
pub fn single<R>(f: impl FnOnce() -> R) -> R {
    let _on = power_on();
    let _cpu = OnCpu::enter(0);
    f()
}

/// Runs `f(id)` on `cpus` threads, CPU 0 to `cpus - 1`, and waits for them all.
///
/// # Panics
/// When a CPU panicked, or `cpus` is 0 or above [`MAX_CPUS`].
pub fn machine(cpus: usize, f: impl Fn(usize) + Sync) {
    assert!(
        (1..=MAX_CPUS).contains(&cpus),
        "{cpus} CPUs: 1 to {MAX_CPUS} are possible"
    );
    let _on = power_on();
    std::thread::scope(|scope| {
        for id in 0..cpus {
            let f = &f;
            scope.spawn(move || {
                let _cpu = OnCpu::enter(id);
                f(id);
            });
        }
    });
}

/// Runs `before` on CPU 0, then `f(id)` on all CPUs, then `after` on CPU 0, as one machine: `before` makes what the CPUs
/// share, `after` looks at what is left.
pub fn scenario<T: Sync>(cpus: usize, before: impl FnOnce() -> T, f: impl Fn(usize, &T) + Sync, after: impl FnOnce(T)) {
    assert!(
        (1..=MAX_CPUS).contains(&cpus),
        "{cpus} CPUs: 1 to {MAX_CPUS} are possible"
    );
    let _on = power_on();
    let shared = {
        let _cpu = OnCpu::enter(0);
        before()
    };
    std::thread::scope(|scope| {
        for id in 0..cpus {
            let (f, shared) = (&f, &shared);
            scope.spawn(move || {
                let _cpu = OnCpu::enter(id);
                f(id, shared);
            });
        }
    });
    let _cpu = OnCpu::enter(0);
    after(shared);
}

/// Registers what happens at [`crate::point`]s of this CPU, as an interrupt, until the CPU's thread ends or another
/// handler is registered.
pub fn on_point(handler: impl FnMut(&'static str) + 'static) {
    ARMED.store(true, Ordering::Relaxed);
    HANDLER.set(Some(Box::new(handler)));
}

/// Removes the handler of [`on_point`].
pub fn no_points() {
    HANDLER.set(None);
}

#[inline]
pub(crate) fn interrupt_at(name: &'static str) {
    if ARMED.load(Ordering::Relaxed) {
        interrupt_if_on(name);
    }
}

fn interrupt_if_on(name: &'static str) {
    if !is_cpu() || !crate::irq::enabled() {
        return;
    }
    // Taken out while it runs: interrupts do not nest.
    let Some(mut handler) = HANDLER.take() else { return };
    crate::irq::disable();
    let aside = crate::preempt::irq_enter();
    handler(name);
    crate::preempt::irq_exit(aside);
    crate::irq::enable();
    HANDLER.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(handler);
        }
    });
}
