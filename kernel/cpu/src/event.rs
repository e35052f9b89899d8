//! Counters of what instruction counts do not show.
//!
//! A `cli`, a locked add and a write to a line that another CPU owns count as one instruction each, and differ by two
//! orders of magnitude in time. An instrumented kernel (feature `events`) counts them; without the feature every
//! function here is empty, and a measured kernel holds no trace of them.
//!
//! Counters are per CPU. The kernel clears them at the entry of a system call and reads them at its exit; interrupts in
//! between are [set aside](set_aside). A line counts once per system call however often it is written: the last
//! [`LINES`] distinct lines are remembered.

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A locked read-modify-write.
    Locked,
    /// A change of the interrupt flag (saving and clearing, or restoring).
    IrqFlag,
    /// A change of the preemption count.
    Preempt,
    /// A distinct cache line written that other CPUs write too.
    SharedLine,
    /// A charge to, or an uncharge from, a stock or a page counter of memory control.
    Charge,
    /// A reference taken or dropped on an object cgroup, a cgroup or a cache's copy.
    Reference,
}

/// Number of kinds of event.
pub const KINDS: usize = 6;
/// How many distinct lines are remembered between two [`clear`]s.
pub const LINES: usize = 32;

/// Counts since the last [`clear`], by [`Event`].
pub type Counts = [u32; KINDS];

/// The counters of one CPU.
#[cfg(feature = "events")]
#[derive(Clone)]
pub struct Counters {
    counts: Counts,
    lines: [usize; LINES],
    known: usize,
}

#[cfg(feature = "events")]
impl Counters {
    /// All zero.
    pub const fn new() -> Counters {
        Counters {
            counts: [0; KINDS],
            lines: [0; LINES],
            known: 0,
        }
    }

    fn shared_write(&mut self, address: usize) {
        let line = address >> 6;
        if !self.lines[..self.known].contains(&line) {
            self.counts[Event::SharedLine as usize] += 1;
            if self.known < LINES {
                self.lines[self.known] = line;
                self.known += 1;
            }
        }
    }
}

#[cfg(feature = "events")]
impl Default for Counters {
    fn default() -> Self {
        Counters::new()
    }
}

/// Runs `f` on this CPU's counters. On the host, a thread that is no CPU has none, and nothing is counted: ordinary code
/// may use what CPUs use.
#[cfg(feature = "events")]
#[inline(always)]
fn with_counters(f: impl FnOnce(&mut Counters)) {
    #[cfg(not(target_os = "none"))]
    if !crate::host::is_cpu() {
        return;
    }
    crate::local::with_local(|local| f(&mut local.events));
}

/// Counts one event.
#[inline(always)]
pub fn count(event: Event) {
    #[cfg(feature = "events")]
    with_counters(|counters| counters.counts[event as usize] += 1);
    #[cfg(not(feature = "events"))]
    let _ = event;
}

/// Counts a write to `target` as a write to a line that other CPUs write.
#[inline(always)]
pub fn shared_write<T: ?Sized>(target: &T) {
    #[cfg(feature = "events")]
    with_counters(|counters| counters.shared_write(target as *const T as *const u8 as usize));
    #[cfg(not(feature = "events"))]
    let _ = target;
}

/// Sets this CPU's counters to zero.
#[inline(always)]
pub fn clear() {
    #[cfg(feature = "events")]
    crate::local::with_local(|local| {
        local.events.counts = [0; KINDS];
        local.events.known = 0;
    });
}

/// This CPU's counts since [`clear`]; all zero without the feature.
pub fn counts() -> Counts {
    #[cfg(feature = "events")]
    return crate::local::with_local(|local| local.events.counts);
    #[cfg(not(feature = "events"))]
    [0; KINDS]
}

/// Counters set aside for the time of an interrupt.
pub struct Aside(#[cfg(feature = "events")] Counters);

/// Sets the counters aside: what happens until [`put_back`] is not the interrupted call's.
#[inline(always)]
pub fn set_aside() -> Aside {
    Aside(
        #[cfg(feature = "events")]
        crate::local::with_local(|local| local.events.clone()),
    )
}

/// Puts back what [`set_aside`] gave.
#[inline(always)]
pub fn put_back(aside: Aside) {
    #[cfg(feature = "events")]
    crate::local::with_local(|local| local.events = aside.0);
    #[cfg(not(feature = "events"))]
    let _ = aside;
}
