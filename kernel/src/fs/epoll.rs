//! Sets of files that are waited for together: epoll(7), and the waiting of poll(2) and select(2).
//!
//! An instance of epoll holds its files by reference. One whose descriptors are all closed leaves the set when the set is
//! next looked at.
//!
//! **Lock order.** A set's lock has rank 22; files are asked without it.

use super::file::{File, Object};
use super::wait::{self, WaitQueue};
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::{Task, clock};
use alloc::vec::Vec;
use cpu::SpinLock;
use cpu::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general;

/// Nanoseconds between two looks at files that cannot wake anybody: terminals.
const PERIOD: u64 = 10_000_000;
/// How deep sets may lie in sets (`EP_MAX_NESTS`).
const MAX_DEPTH: usize = 5;
/// Events that are reported whether or not they were asked for.
pub const ALWAYS: u32 = general::POLLERR | general::POLLHUP | general::POLLNVAL;
/// The bits of an entry's events that are no events.
const MODES: u32 = general::EPOLLET | general::EPOLLONESHOT | general::EPOLLWAKEUP | general::EPOLLEXCLUSIVE;

/// A task's place in the line of a file; leaves it when dropped.
struct Joined {
    file: Shared<File>,
    task: Shared<Task>,
}

impl Joined {
    fn new(file: &Shared<File>, task: &Shared<Task>) -> Result<Option<Joined>> {
        let Some(waiters) = file.waiters() else { return Ok(None) };
        waiters.join(task)?;
        if let Object::Queue(queue) = &file.object {
            queue.begin_poll();
        }
        Ok(Some(Joined {
            file: file.clone(),
            task: task.clone(),
        }))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Object::Queue(queue) = &self.file.object {
            queue.end_poll();
        }
        if let Some(waiters) = self.file.waiters() {
            waiters.leave(&self.task);
        }
    }
}

/// The lines that a task has joined, and whether it must also look from time to time.
#[derive(Default)]
struct Lines {
    joined: Vec<Joined>,
    silent: bool,
}

impl Lines {
    /// Joins the line of `file`, or of all files of a set.
    fn join(&mut self, file: &Shared<File>, task: &Shared<Task>, depth: usize) -> Result<()> {
        match &file.object {
            Object::Epoll(epoll) if depth < MAX_DEPTH => {
                let mut at = 0;
                while let Some(entry) = epoll.entry(at) {
                    self.join(&entry.file, task, depth + 1)?;
                    at += 1;
                }
            }
            Object::Console => self.silent = true,
            _ => {
                self.joined.try_reserve(1)?;
                self.joined.extend(Joined::new(file, task)?);
            }
        }
        Ok(())
    }
}

/// Sleeps until `look` gives something, at most until `deadline`, in the lines of `files`. `look` must not sleep nor
/// touch user memory. `None` at the deadline; EINTR.
pub fn wait_for<'a, R>(
    files: impl Iterator<Item = &'a Shared<File>>,
    deadline: Option<u64>,
    mut look: impl FnMut() -> Option<R>,
) -> Result<Option<R>> {
    if let Some(found) = look() {
        return Ok(Some(found));
    }
    if deadline.is_some_and(|deadline| clock::monotonic() >= deadline) {
        return Ok(None);
    }
    let current = Current::get();
    let task = wait::this_task(&current)?;
    let mut lines = Lines::default();
    for file in files {
        lines.join(file, &task, 0)?;
    }
    loop {
        let next = lines.silent.then(|| clock::monotonic() + PERIOD);
        let until = match (deadline, next) {
            (Some(deadline), Some(next)) => Some(deadline.min(next)),
            (deadline, next) => deadline.or(next),
        };
        match wait::sleep_until(&current, until, &mut look) {
            Ok(found) => return Ok(Some(found)),
            Err(Errno::ETIMEDOUT) if deadline.is_none_or(|deadline| clock::monotonic() < deadline) => {}
            Err(Errno::ETIMEDOUT) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

#[derive(Clone)]
struct Entry {
    descriptor: i32,
    file: Shared<File>,
    /// `EPOLL*`, the modes among them.
    events: u32,
    data: u64,
    /// Changes of the file that an edge-triggered entry has reported; `None` before the first.
    seen: Option<u64>,
    /// False for a one-shot entry that has been reported.
    armed: bool,
}

/// An instance of epoll.
pub struct Epoll {
    entries: SpinLock<Vec<Entry>>,
    /// Changes of the set.
    version: AtomicU32,
    /// Those who wait for the set, for whom a change of it is news.
    waiters: WaitQueue,
}

/// What epoll_wait(2) reports of one file.
pub struct Ready {
    /// `EPOLL*`
    pub events: u32,
    /// The program's own.
    pub data: u64,
}

impl Epoll {
    /// An empty set.
    pub fn new() -> Epoll {
        Epoll {
            entries: SpinLock::new(22, Vec::new()),
            version: AtomicU32::new(0),
            waiters: WaitQueue::new(),
        }
    }

    fn entry(&self, at: usize) -> Option<Entry> {
        self.entries.lock().get(at).cloned()
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
        self.waiters.wake();
    }

    /// Whether `other` is this set, or in it, or in one of its.
    fn reaches(&self, other: &Epoll, depth: usize) -> bool {
        if core::ptr::eq(self, other) || depth > MAX_DEPTH {
            return true;
        }
        let mut at = 0;
        while let Some(entry) = self.entry(at) {
            if let Object::Epoll(inner) = &entry.file.object
                && inner.reaches(other, depth + 1)
            {
                return true;
            }
            at += 1;
        }
        false
    }

    /// `EPOLL_CTL_ADD`. EPERM for files that are always ready, EEXIST, ELOOP.
    pub fn add(&self, descriptor: i32, file: &Shared<File>, events: u32, data: u64) -> Result<()> {
        if matches!(file.object, Object::Regular(_) | Object::Directory(_)) {
            return Err(Errno::EPERM);
        }
        if let Object::Epoll(inner) = &file.object
            && inner.reaches(self, 1)
        {
            return Err(Errno::ELOOP);
        }
        {
            let mut entries = self.entries.lock();
            if entries
                .iter()
                .any(|entry| entry.descriptor == descriptor && entry.file.same_object(file))
            {
                return Err(Errno::EEXIST);
            }
            entries.try_reserve(1)?;
            entries.push(Entry {
                descriptor,
                file: file.clone(),
                events: events | ALWAYS,
                data,
                seen: None,
                armed: true,
            });
        }
        file.watchers.fetch_add(1, Ordering::Relaxed);
        self.changed();
        Ok(())
    }

    /// `EPOLL_CTL_MOD`. ENOENT.
    pub fn modify(&self, descriptor: i32, file: &Shared<File>, events: u32, data: u64) -> Result<()> {
        {
            let mut entries = self.entries.lock();
            let entry = entries
                .iter_mut()
                .find(|entry| entry.descriptor == descriptor && entry.file.same_object(file))
                .ok_or(Errno::ENOENT)?;
            (entry.events, entry.data, entry.seen, entry.armed) = (events | ALWAYS, data, None, true);
        }
        self.changed();
        Ok(())
    }

    /// `EPOLL_CTL_DEL`. ENOENT.
    pub fn remove(&self, descriptor: i32, file: &Shared<File>) -> Result<()> {
        let gone = {
            let mut entries = self.entries.lock();
            let at = entries
                .iter()
                .position(|entry| entry.descriptor == descriptor && entry.file.same_object(file));
            entries.remove(at.ok_or(Errno::ENOENT)?)
        };
        gone.file.watchers.fetch_sub(1, Ordering::Relaxed);
        drop(gone);
        self.changed();
        Ok(())
    }

    /// Takes out the files that have no descriptor any more.
    fn tidy(&self) {
        loop {
            let gone = {
                let mut entries = self.entries.lock();
                let closed = |entry: &Entry| entry.file.count() <= entry.file.watchers.load(Ordering::Relaxed) as usize;
                entries.iter().position(closed).map(|at| entries.remove(at))
            };
            match gone {
                Some(gone) => _ = gone.file.watchers.fetch_sub(1, Ordering::Relaxed),
                None => return,
            }
        }
    }

    /// poll(2) of the set itself.
    pub fn poll(&self) -> u32 {
        let mut at = 0;
        while let Some(entry) = self.entry(at) {
            if news(&entry).is_some() {
                return general::POLLIN | general::POLLRDNORM;
            }
            at += 1;
        }
        0
    }

    /// What is ready, at most `most`; at least something unless `deadline` passes. EINTR.
    pub fn wait(&self, most: usize, deadline: Option<u64>) -> Result<Vec<Ready>> {
        let mut ready = Vec::new();
        ready.try_reserve_exact(most.min(self.entries.lock().len() + 1))?;
        loop {
            self.tidy();
            let version = self.version.load(Ordering::Relaxed);
            let mut files = Vec::new();
            let mut at = 0;
            while let Some(entry) = self.entry(at) {
                files.try_reserve(1)?;
                files.push(entry.file);
                at += 1;
            }
            let current = Current::get();
            let task = wait::this_task(&current)?;
            self.waiters.join(&task)?;
            let outcome = wait_for(files.iter(), deadline, || {
                self.collect(&mut ready);
                let changed = self.version.load(Ordering::Relaxed) != version;
                (!ready.is_empty() || changed).then_some(())
            });
            self.waiters.leave(&task);
            match outcome? {
                Some(()) if ready.is_empty() => ready.try_reserve_exact(most.min(self.entries.lock().len() + 1))?,
                _ => return Ok(ready),
            }
        }
    }

    /// Adds what is ready, as far as there is room.
    fn collect(&self, ready: &mut Vec<Ready>) {
        let mut at = 0;
        while ready.len() < ready.capacity()
            && let Some(entry) = self.entry(at)
        {
            at += 1;
            let Some((events, seen)) = news(&entry) else { continue };
            let mut entries = self.entries.lock();
            let same = |other: &&mut Entry| other.descriptor == entry.descriptor && other.file.same_object(&entry.file);
            if let Some(own) = entries.iter_mut().find(same) {
                own.seen = Some(seen);
                own.armed = own.events & general::EPOLLONESHOT == 0;
                ready.push(Ready { events, data: own.data });
            }
        }
    }
}

/// The events that an entry has to report, and the file's changes by then.
fn news(entry: &Entry) -> Option<(u32, u64)> {
    if !entry.armed {
        return None;
    }
    let changes = entry.file.waiters().map_or(0, WaitQueue::changes);
    if entry.events & general::EPOLLET != 0 && entry.seen == Some(changes) {
        return None;
    }
    let events = entry.file.poll() & entry.events & !MODES;
    (events != 0).then_some((events, changes))
}

impl Drop for Epoll {
    fn drop(&mut self) {
        for entry in self.entries.get_mut().drain(..) {
            entry.file.watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
