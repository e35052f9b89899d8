//! How a task has its table of open files: alone, or together with other threads.
//!
//! A table of one task takes no lock and counts no reference at a look-up: the file is borrowed for the length of the call,
//! in which nobody else can close it. A table of several is behind a lock, and a look-up takes a reference; who wants to
//! work on it takes it out for the time ([`CheckedOut`]), and others that come meanwhile give way.
//!
//! **Lock order.** A shared table's lock has rank 16; nothing but the heap is taken under it, and no file is closed.

use super::descriptor::Descriptors;
use super::file::File;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use crate::task;
use core::cell::{Cell, Ref, RefCell, RefMut};
use core::ops::{Deref, DerefMut};
use cpu::SpinLock;

/// A table of several tasks; `None` while one of them has taken it out.
struct Together(SpinLock<Option<Descriptors>>);

impl Together {
    /// Runs `f` on the slot as soon as the table is in it.
    fn when_there<R>(&self, mut f: impl FnMut(&mut Option<Descriptors>) -> Option<R>) -> R {
        loop {
            if let Some(result) = f(&mut self.0.lock()) {
                return result;
            }
            task::schedule();
        }
    }
}

/// A task's table of open files.
#[derive(Default)]
pub struct Files {
    /// The task's own; empty while it shares one.
    own: RefCell<Descriptors>,
    together: RefCell<Option<Shared<Together>>>,
    /// Whether there is a shared one.
    is_shared: Cell<bool>,
    /// A file of the shared one that a call works with.
    held: RefCell<Option<Shared<File>>>,
}

impl Files {
    /// A table without files.
    pub const fn new() -> Files {
        Files {
            own: RefCell::new(Descriptors::new()),
            together: RefCell::new(None),
            is_shared: Cell::new(false),
            held: RefCell::new(None),
        }
    }

    /// Lets go of what [`lookup_held`] has given.
    #[inline(always)]
    pub fn release(&self) {
        if self.is_shared.get() {
            self.let_go();
        }
    }

    #[cold]
    #[inline(never)]
    fn let_go(&self) {
        let held = self.held.take();
        drop(held);
    }

    fn take_out(&self) -> CheckedOut {
        let together = self.together.borrow().clone();
        let Some(together) = together else {
            unreachable!("a table that is shared is there");
        };
        CheckedOut {
            descriptors: Some(together.when_there(Option::take)),
            together,
        }
    }

    /// The table, to look at.
    pub fn borrow(&self) -> Borrowed<'_> {
        if self.is_shared.get() {
            Borrowed::Shared(self.take_out())
        } else {
            Borrowed::Own(self.own.borrow())
        }
    }

    /// The table, to change.
    pub fn borrow_mut(&self) -> BorrowedMut<'_> {
        if self.is_shared.get() {
            BorrowedMut::Shared(self.take_out())
        } else {
            BorrowedMut::Own(self.own.borrow_mut())
        }
    }

    /// A copy for a child.
    pub fn try_clone(&self) -> Result<Files> {
        Ok(Files {
            own: RefCell::new(self.borrow().try_clone()?),
            ..Files::new()
        })
    }

    /// The same table, for another thread (`CLONE_FILES`).
    pub fn share(&self) -> Result<Files> {
        if !self.is_shared.get() {
            let together = Shared::try_new(Together(SpinLock::new(16, None)))?;
            *together.0.lock() = Some(self.own.take());
            self.together.replace(Some(together));
            self.is_shared.set(true);
        }
        Ok(Files {
            own: RefCell::default(),
            together: RefCell::new(self.together.borrow().clone()),
            is_shared: Cell::new(true),
            held: RefCell::new(None),
        })
    }

    /// Makes the table the task's own: a copy, where it was shared.
    pub fn unshare(&self) -> Result<()> {
        if self.is_shared.get() {
            let copy = self.borrow().try_clone()?;
            self.own.replace(copy);
            self.is_shared.set(false);
            let left = self.together.take();
            drop(left);
        }
        Ok(())
    }

    /// Lets go of the table; files that nobody else has open are closed.
    pub fn leave(&self) {
        self.is_shared.set(false);
        let (own, together) = (self.own.take(), self.together.take());
        // Closing may look at the running task, so the table is free while its files go.
        drop(own);
        drop(together);
    }
}

/// A shared table in the hands of one task.
pub struct CheckedOut {
    together: Shared<Together>,
    /// There until the end.
    descriptors: Option<Descriptors>,
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        *self.together.0.lock() = self.descriptors.take();
    }
}

impl Deref for CheckedOut {
    type Target = Descriptors;
    fn deref(&self) -> &Descriptors {
        self.descriptors.as_ref().expect("there until the end")
    }
}

impl DerefMut for CheckedOut {
    fn deref_mut(&mut self) -> &mut Descriptors {
        self.descriptors.as_mut().expect("there until the end")
    }
}

/// A table, to look at.
pub enum Borrowed<'a> {
    /// The task's own.
    Own(Ref<'a, Descriptors>),
    /// A shared one.
    Shared(CheckedOut),
}

impl Deref for Borrowed<'_> {
    type Target = Descriptors;
    fn deref(&self) -> &Descriptors {
        match self {
            Borrowed::Own(own) => own,
            Borrowed::Shared(shared) => shared,
        }
    }
}

/// A table, to change.
pub enum BorrowedMut<'a> {
    /// The task's own.
    Own(RefMut<'a, Descriptors>),
    /// A shared one.
    Shared(CheckedOut),
}

impl Deref for BorrowedMut<'_> {
    type Target = Descriptors;
    fn deref(&self) -> &Descriptors {
        match self {
            BorrowedMut::Own(own) => own,
            BorrowedMut::Shared(shared) => shared,
        }
    }
}

impl DerefMut for BorrowedMut<'_> {
    fn deref_mut(&mut self) -> &mut Descriptors {
        match self {
            BorrowedMut::Own(own) => own,
            BorrowedMut::Shared(shared) => shared,
        }
    }
}

/// An open file, for the length of a call.
pub enum FileRef<'a> {
    /// Of the task's own table: nobody else can close it.
    Borrowed(Ref<'a, File>),
    /// Of a shared table.
    Counted(Shared<File>),
}

impl Deref for FileRef<'_> {
    type Target = File;
    #[inline(always)]
    fn deref(&self) -> &File {
        match self {
            FileRef::Borrowed(file) => file,
            FileRef::Counted(file) => file,
        }
    }
}

/// The file of a descriptor for the length of a call. EBADF.
#[inline(always)]
pub fn lookup(files: &Files, descriptor: i32) -> Result<FileRef<'_>> {
    if files.is_shared.get() {
        return lookup_shared(files, descriptor);
    }
    // One look: filter_map would hand the table back through memory.
    match Ref::filter_map(files.own.borrow(), |table| {
        table.get(descriptor).ok().map(|file| &**file)
    }) {
        Ok(file) => Ok(FileRef::Borrowed(file)),
        Err(_) => Err(Errno::EBADF),
    }
}

/// [`lookup`] for the calls that are counted in instructions: one borrow in either case. The file of a shared table stays
/// with the task until [`Files::release`], and only one at a time. EBADF.
#[inline(always)]
pub fn lookup_held(files: &Files, descriptor: i32) -> Result<Ref<'_, File>> {
    if files.is_shared.get() {
        return hold(files, descriptor);
    }
    match Ref::filter_map(files.own.borrow(), |table| {
        table.get(descriptor).ok().map(|file| &**file)
    }) {
        Ok(file) => Ok(file),
        Err(_) => Err(Errno::EBADF),
    }
}

#[cold]
#[inline(never)]
fn hold(files: &Files, descriptor: i32) -> Result<Ref<'_, File>> {
    if let FileRef::Counted(file) = lookup_shared(files, descriptor)? {
        files.held.replace(Some(file));
    }
    match Ref::filter_map(files.held.borrow(), |held| held.as_deref()) {
        Ok(file) => Ok(file),
        Err(_) => Err(Errno::EBADF),
    }
}

#[cold]
#[inline(never)]
fn lookup_shared(files: &Files, descriptor: i32) -> Result<FileRef<'_>> {
    let together = files.together.borrow();
    let Some(together) = together.as_ref() else {
        return Err(Errno::EBADF);
    };
    together
        .when_there(|table| table.as_ref().map(|table| table.get(descriptor).cloned()))
        .map(FileRef::Counted)
}
