//! Page faults: whether an access may be, and the page behind it.
//!
//! A page that is not there is zeroed, or filled from the initramfs, or found in the object that is mapped. One that is
//! shared with a relative since fork(2) is copied at the first write.
//!
//! **Lock order.** That of [`super::address_space`].

use super::address_space::{AddressSpace, Inner, LOWEST, SpaceLimits};
use super::areas::{GUARD_GAP, Purpose};
use super::frames::OutOfMemory;
use super::tasks::Current;
use crate::arch::layout::{PAGE_SIZE as PAGE, USER_END};
use crate::arch::paging::Protection;
use crate::task;

/// What an access wants to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Fetch an instruction.
    Execute,
}

/// Why an access must not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Nothing is mapped there.
    NoArea,
    /// The area's rights do not allow it.
    Denied,
    /// The mapping has no page there: it ends before.
    NoPage,
    /// No frame is left.
    OutOfMemory,
}

impl AddressSpace {
    /// Makes the page at `address` ready for `access`.
    pub fn fault(
        &self,
        address: u64,
        access: Access,
        limits: impl FnOnce() -> SpaceLimits,
    ) -> core::result::Result<(), Refused> {
        let page = address & !(PAGE - 1);
        let mut inner = self.inner.lock();
        if inner.areas.find(page).is_none() {
            drop(inner);
            let limits = limits();
            inner = self.inner.lock();
            inner.grow_stack(page, &limits)?;
        }
        let Inner { root, areas, .. } = &mut *inner;
        let area = areas.find(page).ok_or(Refused::NoArea)?;
        let allowed = match access {
            Access::Read => !area.protection.is_empty(),
            Access::Write => area.protection.contains(Protection::WRITE),
            Access::Execute => area.protection.contains(Protection::EXEC),
        };
        if !allowed {
            return Err(Refused::Denied);
        }
        let done = match root.find_user(page) {
            // A write to what is shared, or another thread was here first, or this CPU remembers an older right.
            Some(frame) => super::pages::ready(root, page, frame, area, access == Access::Write),
            None => super::pages::fill(root, page, area),
        };
        match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused::NoPage),
            Err(OutOfMemory) => Err(Refused::OutOfMemory),
        }
    }
}

impl AddressSpace {
    /// Why an access to `address`, which was refused, may not be.
    pub fn refusal(&self, address: u64) -> Refused {
        match self.inner.lock().areas.find(address) {
            None => Refused::NoArea,
            Some(area) if area.backing.is_shared() && !area.protection.is_empty() => Refused::NoPage,
            Some(_) => Refused::Denied,
        }
    }
}

impl Inner {
    /// Extends a growing area down to `page`, if one begins above it and nothing is in the way.
    pub(super) fn grow_stack(&mut self, page: u64, limits: &SpaceLimits) -> core::result::Result<(), Refused> {
        let Some(area) = self.areas.at_or_above(page).cloned() else {
            return Err(Refused::NoArea);
        };
        if area.start <= page {
            return Ok(());
        }
        let below = page.saturating_sub(GUARD_GAP);
        let crowded = self
            .areas
            .overlapping(below..page)
            .iter()
            .any(|neighbour| neighbour.purpose != Purpose::Stack);
        let more = (area.start - page) / PAGE;
        if area.purpose != Purpose::Stack
            || page < LOWEST
            || crowded
            || area.end - page > limits.stack
            || self.room_for(more, limits).is_err()
        {
            return Err(Refused::NoArea);
        }
        self.areas.grow_down(area.start, page);
        Ok(())
    }
}

/// A page fault at a user address, by the program or (`user` false) by a copy of the kernel's: true if the access may be
/// tried again.
///
/// A program for which no frame is left gets SIGKILL, and the log names it.
pub fn handle_fault(address: u64, write: bool, exec: bool, user: bool) -> bool {
    if address >= USER_END || !cpu::in_task() {
        return false;
    }
    let Some(current) = Current::try_get() else {
        return false;
    };
    let space = current.own().space.borrow();
    let Some(space) = space.as_ref() else {
        return false;
    };
    let access = match (write, exec) {
        (true, _) => Access::Write,
        (false, true) => Access::Execute,
        (false, false) => Access::Read,
    };
    task::cputime::count_fault(&current);
    match space.fault(address, access, || SpaceLimits::of(&current)) {
        Ok(()) => true,
        Err(Refused::OutOfMemory) => {
            task::kill_for_memory(&current);
            // The program goes on to its end; a copy by the kernel fails.
            user
        }
        Err(_) => false,
    }
}
