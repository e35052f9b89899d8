//! Acting on signals: before the running task goes to ring 3.
//!
//! Signals are taken one by one. One without a handler ends, stops or leaves alone the process; one with a handler gets a
//! frame on the program's stack, so that the program goes on in the handler; the next handler's frame lies on top of it.
//!
//! An interrupted call has left one of `ERESTART*` as its result: with a handler it is begun again or gives EINTR as the
//! handler's flags and the number say; without one it is begun again always. A call that must go on with what is left of a
//! time ([`Restart`]) is begun again as restart_syscall(2).

use super::exit::{self, Exit};
use super::futex::Wait;
use super::signal::{self, Action, Info, Signal};
use super::stopping;
use crate::arch::TrapFrame;
use crate::arch::signal_frame;
use crate::mm::tasks::Current;
use crate::syscall::errno::Errno;
use crate::user_struct;
use linux_raw_sys::general;

user_struct! {
    /// `stack_t`
    pub struct AlternateStack {
        /// Its lowest address.
        start: u64,
        /// `SS_*`.
        flags: i32,
        gap: i32,
        /// Bytes.
        size: u64,
    }
}

impl AlternateStack {
    /// None.
    pub const NONE: AlternateStack = AlternateStack {
        start: 0,
        flags: general::SS_DISABLE as i32,
        gap: 0,
        size: 0,
    };

    /// As a program sees it that runs at `pointer`: whether it is in use.
    pub fn as_seen_from(self, pointer: u64) -> AlternateStack {
        let mode = if self.size == 0 {
            general::SS_DISABLE
        } else if self.is_in_use(pointer) {
            general::SS_ONSTACK
        } else {
            0
        };
        AlternateStack {
            flags: mode as i32 | (self.flags & general::SS_AUTODISARM as i32),
            ..self
        }
    }

    /// Whether `pointer` is on it.
    pub fn holds(&self, pointer: u64) -> bool {
        pointer > self.start && pointer - self.start <= self.size
    }

    /// Whether a program that runs at `pointer` runs on it. What is disarmed while it is used is never in use.
    pub fn is_in_use(&self, pointer: u64) -> bool {
        self.flags as u32 & general::SS_AUTODISARM == 0 && self.size != 0 && self.holds(pointer)
    }
}

/// What is left of an interrupted call.
#[derive(Clone, Copy, Debug)]
pub enum Restart {
    /// Nothing: restart_syscall(2) gives EINTR.
    None,
    /// A sleep until `deadline` (nanoseconds since boot); what is left goes to `rest`.
    Sleep {
        /// Until then.
        deadline: u64,
        /// Where, or 0.
        rest: u64,
    },
    /// A wait for a futex with a timeout.
    Futex(Wait),
}

/// Acts on the running task's pending signals; comes back when none is left that is not blocked.
pub fn deliver(current: &Current, frame: &mut TrapFrame) {
    let own = current.own();
    loop {
        if current.process.stopping.is_stopped() {
            stopping::stand_still(current);
        }
        let Some(info) = take(current, current.pending_signals() & !current.blocked.get()) else {
            break;
        };
        let signal = info.signal();
        let signals = &current.process.signals;
        let action = signals.action(signal);
        match action.handler {
            Action::IGNORE => {}
            0 if signal.ignored_by_default() => {}
            0 if signal.stops() => {
                if signal == Signal::SIGSTOP || !super::family::is_orphaned(current.process.group()) {
                    stopping::stop(current, signal);
                }
            }
            0 => exit::exit_group(Exit::Signal(signal)),
            _ => {
                if action.flags & u64::from(general::SA_RESETHAND) != 0 {
                    signals.set_action(signal, Action::DEFAULT);
                }
                restart(frame, Some(&action));
                call_handler(current, frame, &info, &action);
            }
        }
    }
    restart(frame, None);
    if let Some(mask) = own.saved_mask.take() {
        current.blocked.set(mask);
        if current.pending_signals() & !mask != 0 {
            current.add_work(super::work::SIGNAL);
        }
    }
}

/// Makes the program go on in a handler.
fn call_handler(current: &Current, frame: &mut TrapFrame, info: &Info, action: &Action) {
    let own = current.own();
    let signal = info.signal();
    let mask = own.saved_mask.take().unwrap_or(current.blocked.get());
    let stack = own.alternate_stack.get();
    let pushed = signal_frame::push(frame, info, action, mask, &stack, own.last_fault.get());
    if pushed.is_err() {
        // No room for the frame: SIGSEGV, and where that is the signal it is not handled again.
        if signal == Signal::SIGSEGV {
            current.process.signals.set_action(signal, Action::DEFAULT);
        }
        current.blocked.set(mask);
        signal::force(current, Info::kernel(Signal::SIGSEGV));
        return;
    }
    if stack.flags as u32 & general::SS_AUTODISARM != 0 {
        own.alternate_stack.set(AlternateStack::NONE);
    }
    let mut blocked = current.blocked.get() | action.mask;
    if action.flags & u64::from(general::SA_NODEFER) == 0 {
        blocked |= signal.bit();
    }
    current.blocked.set(blocked & !signal::UNBLOCKABLE);
}

/// Decides what becomes of an interrupted call, if `frame` is one's: begun again, or ended with EINTR.
fn restart(frame: &mut TrapFrame, handler: Option<&Action>) {
    if !frame.is_system_call() {
        return;
    }
    let result = Errno::of_return(frame.rax as i64);
    let restarts = handler.is_none_or(|action| action.flags & u64::from(general::SA_RESTART) != 0);
    let (again, number) = match result {
        Some(Errno::ERESTARTNOINTR) => (true, frame.error),
        Some(Errno::ERESTARTSYS) => (restarts, frame.error),
        Some(Errno::ERESTARTNOHAND) => (handler.is_none(), frame.error),
        Some(Errno::ERESTART_RESTARTBLOCK) => (handler.is_none(), general::__NR_restart_syscall.into()),
        _ => {
            frame.forget_system_call();
            return;
        }
    };
    if again {
        frame.rax = number;
        frame.rip -= signal_frame::SYSCALL_LENGTH;
    } else {
        frame.rax = Errno::EINTR.to_return() as u64;
    }
    frame.forget_system_call();
}

/// Goes back from a handler: restores what its frame holds. A frame that is none gives SIGSEGV.
pub fn return_from_handler(frame: &mut TrapFrame) {
    let current = Current::get();
    current.own().restart.set(Restart::None);
    match signal_frame::pop(frame) {
        Ok((mask, stack)) => {
            current.blocked.set(mask & !signal::UNBLOCKABLE);
            _ = set_alternate_stack(&current, stack, frame.rsp);
        }
        Err(_) => signal::force(&current, Info::kernel(Signal::SIGSEGV)),
    }
    current.add_work(super::work::SIGNAL);
    frame.forget_system_call();
}

/// sigaltstack(2): EINVAL, ENOMEM, EPERM. `pointer` is the program's stack pointer.
pub fn set_alternate_stack(current: &Current, new: AlternateStack, pointer: u64) -> Result<(), Errno> {
    let old = current.own().alternate_stack.get();
    if old.is_in_use(pointer) {
        return Err(Errno::EPERM);
    }
    let mode = new.flags as u32 & !general::SS_AUTODISARM;
    if mode != 0 && mode != general::SS_ONSTACK && mode != general::SS_DISABLE {
        return Err(Errno::EINVAL);
    }
    let stack = if mode == general::SS_DISABLE {
        AlternateStack {
            start: 0,
            size: 0,
            ..new
        }
    } else if new.size < u64::from(general::MINSIGSTKSZ) {
        return Err(Errno::ENOMEM);
    } else {
        new
    };
    current.own().alternate_stack.set(AlternateStack { gap: 0, ..stack });
    Ok(())
}

/// Takes the next signal of a set: SIGKILL before all others, then what a fault has sent, then by number.
pub fn take(current: &Current, wanted: u64) -> Option<Info> {
    const SYNCHRONOUS: [Signal; 6] = [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGTRAP,
        Signal::SIGFPE,
        Signal::SIGSYS,
    ];
    let mut wanted = wanted;
    while wanted != 0 {
        let faults = SYNCHRONOUS.iter().fold(0, |set, signal| set | signal.bit()) & wanted & current.pending.bits();
        let signal = match wanted & Signal::SIGKILL.bit() {
            0 if faults != 0 => Signal::lowest(faults)?,
            0 => Signal::lowest(wanted)?,
            _ => Signal::SIGKILL,
        };
        let info = current.pending.take(signal);
        if let Some(info) = info.or_else(|| current.process.signals.pending.take(signal)) {
            return Some(info);
        }
        // Another task was faster.
        wanted &= !signal.bit();
    }
    None
}
