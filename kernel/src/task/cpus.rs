//! The CPUs: their idle tasks, and their start.
//!
//! Each CPU has an idle task, made before the CPU is started, on whose stack it begins. A CPU that does not come is named
//! in the log, and the others behind it are not tried; then the run goes on with those that came, or ends, as `cpus=` says.

use super::process::Process;
use super::{Task, scheduler, system};
use crate::arch;
use crate::arch::boot_info::BootInfo;
use crate::arch::startup::Trampoline;
use crate::mm::shared::OutOfMemory;
use crate::mm::stacks::KernelStack;
use crate::mm::tasks::{self, Current};
use cpu::CpuSet;

/// Makes boot's own thread of execution the first CPU's idle task.
pub(super) fn start_first() -> Result<(), OutOfMemory> {
    let root = system().accounting.root();
    let idle = Task::try_new_idle(Process::try_new(0, 0, b"idle")?, root, None)?;
    scheduler::set_idle(0, tasks::alive(idle));
    scheduler::start();
    Ok(())
}

/// Starts the other CPUs: whether all came.
pub(super) fn start_others(boot: &BootInfo) -> Result<bool, OutOfMemory> {
    if cpu::possible() == 1 {
        return Ok(true);
    }
    let trampoline = match Trampoline::new(boot) {
        Ok(trampoline) => trampoline,
        Err(why) => {
            log::error!("only the first CPU runs: the others cannot be started ({why:?})");
            return Ok(false);
        }
    };
    for cpu in 1..cpu::possible() {
        let root = system().accounting.root();
        let idle = Task::try_new_idle(Process::try_new(0, 0, b"idle")?, root, Some(KernelStack::new()?))?;
        let idle = tasks::alive(idle);
        scheduler::set_idle(cpu, idle);
        if let Err(why) = trampoline.start(cpu, idle.kernel_stack_top()) {
            log::error!(
                "CPU {cpu} does not come ({why:?}): {} of {} CPUs run",
                cpu,
                cpu::possible()
            );
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs `f` on each CPU: the running task goes there, and comes to be where it may be at the end. What a CPU keeps for
/// itself is so given back by that CPU, in a task's context, and no lock need guard it.
pub fn on_each(f: impl Fn()) {
    let current = Current::get();
    let before = current.affinity();
    for cpu in cpu::online() {
        scheduler::set_affinity(&current, CpuSet::of(cpu));
        f();
    }
    scheduler::set_affinity(&current, before);
}

/// What a CPU does that has just been started: it is idle, for ever. Interrupts are off.
pub fn start_here() -> ! {
    scheduler::start();
    arch::start_tick(system().options.tick);
    cpu::local::set_online(cpu::id());
    cpu::irq::enable();
    scheduler::idle()
}
