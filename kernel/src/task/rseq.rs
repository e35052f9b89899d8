//! Restartable sequences: a thread's area that says where it runs, and code that begins again where it was interrupted
//! (rseq(2), `include/uapi/linux/rseq.h`).
//!
//! The area is brought up to date before the thread goes back to ring 3 after it was moved, preempted or is to act on a
//! signal ([`work::RSEQ`](super::work::RSEQ)). If the program was between the two ends of a critical section then, it goes
//! on at that section's abort address instead.

use super::signal::{self, Info, Signal};
use super::work;
use crate::arch::TrapFrame;
use crate::arch::layout::USER_END;
use crate::mm::plain::{read_user, write_user};
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::user_struct;

/// The area's smallest size, and its alignment.
const SIZE: u32 = 32;
/// Where in the area the address of the critical section's description is.
const SECTION: u64 = 8;
/// `RSEQ_FLAG_UNREGISTER`
const UNREGISTER: u32 = 1;

/// A registered area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its address.
    address: u64,
    /// Its size in bytes.
    size: u32,
    /// What stands before every abort address.
    signature: u32,
}

user_struct! {
    /// The area's first two words.
    struct Cpu {
        cpu_id_start: u32,
        cpu_id: u32,
    }
}

user_struct! {
    /// The words behind the section's address and the flags.
    struct Place {
        node_id: u32,
        mm_cid: u32,
    }
}
/// Where in the area [`Place`] is.
const PLACE: u64 = 20;

user_struct! {
    /// `struct rseq_cs`
    struct Section {
        version: u32,
        flags: u32,
        start: u64,
        length: u64,
        abort: u64,
    }
}

/// rseq(2): registers an area, or takes one back. EINVAL, EPERM (another signature), EBUSY (registered already), EFAULT.
pub fn register(current: &Current, address: u64, size: u32, flags: u32, signature: u32) -> Result<()> {
    let registered = &current.own().rseq;
    let wanted = Area {
        address,
        size,
        signature,
    };
    if flags & UNREGISTER != 0 {
        if flags != UNREGISTER {
            return Err(Errno::EINVAL);
        }
        return match registered.get() {
            None => Err(Errno::EINVAL),
            Some(area) if area == wanted => {
                registered.set(None);
                let nowhere = Cpu {
                    cpu_id_start: 0,
                    cpu_id: u32::MAX, // RSEQ_CPU_ID_UNINITIALIZED
                };
                Ok(write_user(address, &nowhere)?)
            }
            Some(area) if (area.address, area.size) == (address, size) => Err(Errno::EPERM),
            Some(_) => Err(Errno::EINVAL),
        };
    }
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(area) = registered.get() {
        return Err(match (area.address, area.size) == (address, size) {
            false => Errno::EINVAL,
            true if area.signature != signature => Errno::EPERM,
            true => Errno::EBUSY,
        });
    }
    if size < SIZE || !address.is_multiple_of(u64::from(SIZE)) {
        return Err(Errno::EINVAL);
    }
    if address > USER_END - u64::from(size) {
        return Err(Errno::EFAULT);
    }
    registered.set(Some(wanted));
    // Written on the way back, on whichever CPU that is.
    current.add_work(work::RSEQ);
    Ok(())
}

/// Brings the running thread's area up to date before it goes to ring 3 with `frame`.
pub(super) fn resume(current: &Current, frame: &mut TrapFrame) {
    if let Some(area) = current.own().rseq.get()
        && update(area, frame).is_err()
    {
        signal::force(current, Info::kernel(Signal::SIGSEGV));
    }
}

/// An area or a section that is not as it must be is the program's end.
fn update(area: Area, frame: &mut TrapFrame) -> Result<()> {
    leave_section(area, frame)?;
    // If the task is moved again before ring 3, there is new work, and this is done again.
    let cpu = cpu::id() as u32;
    write_user(
        area.address,
        &Cpu {
            cpu_id_start: cpu,
            cpu_id: cpu,
        },
    )?;
    // One address space's threads that run at the same time have different CPUs: a CPU's number is a concurrency id.
    write_user(
        area.address + PLACE,
        &Place {
            node_id: 0,
            mm_cid: cpu,
        },
    )?;
    Ok(())
}

/// Sends a program that is inside its critical section to the abort address.
fn leave_section(area: Area, frame: &mut TrapFrame) -> Result<()> {
    let at = area.address + SECTION;
    let address: u64 = read_user(at)?;
    if address == 0 {
        return Ok(());
    }
    let section: Section = read_user(address)?;
    let end = section.start.checked_add(section.length).ok_or(Errno::EINVAL)?;
    let inside = |ip: u64| (section.start..end).contains(&ip);
    if section.version != 0
        || section.start >= USER_END
        || end >= USER_END
        || section.abort >= USER_END
        || inside(section.abort)
        || section.flags != 0
    {
        return Err(Errno::EINVAL);
    }
    let before: u32 = read_user(section.abort.checked_sub(4).ok_or(Errno::EINVAL)?)?;
    if before != area.signature {
        return Err(Errno::EINVAL);
    }
    // Done with, or not begun: the next section sets it anew.
    write_user(at, &0u64)?;
    if inside(frame.rip) {
        frame.rip = section.abort;
    }
    Ok(())
}
