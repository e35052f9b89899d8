//! The last words of a kernel that has failed.
//!
//! `tollgate: panic REASON`, then the registers, the task and a backtrace, each line as `tollgate: | ...`; then the end
//! as a failure. The other CPUs stand still meanwhile. Takes no lock and allocates nothing: whatever went wrong may hold them.

use super::exceptions::Description;
use super::trap::TrapFrame;
use super::{backtrace, ipi, qemu};
use crate::log::failure;
use crate::task::table::printable;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};
use x86_64::instructions::interrupts;
use x86_64::registers::control::{Cr2, Cr3};

/// The CPU that reports, plus 1: a failure while reporting must not report itself for ever, and one report is enough.
static REPORTER: AtomicUsize = AtomicUsize::new(0);

/// Whether another CPU reports a failure.
pub(super) fn by_another() -> bool {
    let reporter = REPORTER.load(Ordering::Acquire);
    reporter != 0 && reporter != cpu::id() + 1
}

/// Begins a report and stops the other CPUs. A second failure here ends the machine at once; one elsewhere waits for that.
fn begin(reason: fmt::Arguments) {
    interrupts::disable();
    let here = cpu::id() + 1;
    match REPORTER.compare_exchange(0, here, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            cpu::lock::stop_checking();
            ipi::stop_others();
        }
        Err(reporter) if reporter == here => {
            failure(format_args!("tollgate: | failed again while reporting: {reason}"));
            qemu::exit(false);
        }
        Err(_) => ipi::stop_if_asked(),
    }
    // The console may stand in the middle of a line.
    failure(format_args!("\ntollgate: panic {}", OneLine(reason)));
    let task = crate::task::current_name();
    failure(format_args!(
        "tollgate: | cpu {} task {} preempt_count {:#x}",
        cpu::id(),
        printable(task.as_deref().unwrap_or(b"none")),
        cpu::preempt::count()
    ));
}

fn end(instruction: Option<u64>, stack: u64) -> ! {
    failure(format_args!(
        "tollgate: | backtrace (return addresses found on the stack):"
    ));
    backtrace::print(instruction, stack, |line| failure(format_args!("tollgate: |   {line}")));
    qemu::exit(false)
}

/// An exception that the kernel itself caused.
pub fn exception(frame: &TrapFrame, description: &Description) -> ! {
    begin(format_args!("{description}"));
    let f = frame;
    let lines = [
        [("rip", f.rip), ("cs", f.cs), ("rflags", f.rflags), ("error", f.error)],
        [("rax", f.rax), ("rbx", f.rbx), ("rcx", f.rcx), ("rdx", f.rdx)],
        [("rsi", f.rsi), ("rdi", f.rdi), ("rbp", f.rbp), ("rsp", f.rsp)],
        [("r8", f.r8), ("r9", f.r9), ("r10", f.r10), ("r11", f.r11)],
        [("r12", f.r12), ("r13", f.r13), ("r14", f.r14), ("r15", f.r15)],
    ];
    for [a, b, c, d] in lines {
        failure(format_args!(
            "tollgate: | {:>6} {:016x} {:>6} {:016x} {:>6} {:016x} {:>6} {:016x}",
            a.0, a.1, b.0, b.1, c.0, c.1, d.0, d.1
        ));
    }
    let root = Cr3::read_raw().0.start_address().as_u64();
    failure(format_args!(
        "tollgate: |    cr2 {:016x}    cr3 {root:016x}",
        Cr2::read_raw()
    ));
    end(Some(frame.rip), frame.rsp)
}

/// A `panic!` of the kernel.
#[panic_handler]
fn panicked(info: &PanicInfo) -> ! {
    match info.location() {
        Some(place) => begin(format_args!("{} at {}:{}", info.message(), place.file(), place.line())),
        None => begin(format_args!("{}", info.message())),
    }
    let stack: u64;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack, preserves_flags)) };
    end(None, stack)
}

/// A text with its line breaks made spaces: the reason is one line.
struct OneLine<'a>(fmt::Arguments<'a>);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Joined<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl Write for Joined<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for (i, part) in text.split('\n').enumerate() {
                    if i > 0 {
                        self.0.write_char(' ')?;
                    }
                    self.0.write_str(part)?;
                }
                Ok(())
            }
        }
        Joined(f).write_fmt(self.0)
    }
}
