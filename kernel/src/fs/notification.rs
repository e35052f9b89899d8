//! Telling a process that a message has arrived at a queue, or that it will not be told any more (mq_notify(3)).
//!
//! The crate ipc keeps the registration and says when it has ended; here it is acted on, outside the queue's lock: by a
//! signal, or by the cookie on the socket that was named when the registration was made.
//!
//! A registration belongs to a process, whichever of its tasks made it, and goes when the process closes any descriptor of
//! the queue: by close(2), dup2(2), execve(2) or its end. A registration that outlives its process, because a descriptor
//! table is shared with another one, tells nobody; one that outlives its program raises no signal.

use crate::mm::shared::try_box;
use crate::mm::tasks::Current;
use crate::net::netlink::{Cookie, Place};
use crate::syscall::errno::Result;
use crate::task::process::Process;
use crate::task::signal::{self, Info, Signal};
use crate::task::table;
use cpu::atomic::Ordering;
use ipc::mqueue::{Ending, How, Queue, Registered, Registration};

/// The registration of the running process.
pub fn registration(current: &Current, how: How) -> Registration {
    Registration {
        process: current.process.id,
        program: program_of(&current.process),
        how,
    }
}

fn program_of(process: &Process) -> u64 {
    process.executed.load(Ordering::Relaxed).into()
}

/// By a cookie for which there is a place. ENOMEM.
pub fn by_cookie(place: Place, cookie: Cookie) -> Result<How> {
    Ok(How::Thread {
        socket: try_box(place)?,
        cookie,
    })
}

/// The number of a registered process.
pub fn pid_of(process: u64) -> i32 {
    process as u32 as i32
}

/// The running process closes a descriptor of `queue`, or takes its registration back.
pub fn withdraw(queue: &Queue) {
    if let Some(registered) = queue.unregister(Current::get().process.id) {
        tell(&registered, Ending::Removed);
    }
}

/// Acts on a registration that has ended.
#[cold]
#[inline(never)]
pub fn tell(registered: &Registered, ending: Ending) {
    let registration: &Registration = registered;
    match &registration.how {
        How::Signal { number, value } if ending == Ending::Fired => {
            // Number 0 is no signal.
            if let Some(signal) = Signal::new(*number) {
                raise(registration, signal, *value);
            }
        }
        How::Thread { socket, cookie } => {
            if let Some(place) = socket.downcast_ref::<Place>() {
                let mut cookie = *cookie;
                cookie[cookie.len() - 1] = ending.cookie();
                place.fill(cookie);
            }
        }
        How::Signal { .. } | How::None => {}
    }
}

/// Raises the signal of a registration, as from the running process.
fn raise(registration: &Registration, signal: Signal, value: u64) {
    let Some(process) = table::find_process(registration.process as u32) else {
        return;
    };
    if process.id != registration.process || program_of(&process) != registration.program {
        return;
    }
    let sender = &Current::get().process;
    // A real-time signal that finds no room is lost, as on Linux: the sender is not at fault.
    _ = signal::send_to_process(
        &process,
        Info::message(signal, sender.pid, sender.credentials().uid, value),
    );
}
