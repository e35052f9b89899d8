//! What is left when all programs have ended: nothing, or the run fails.
//!
//! Caches must hold as many objects as before the first program, and cgroups below the root no page. What the CPUs hold
//! back (freelists, stocks) is given back first. Caches' copies (model `page`) are made for ever: what making them took
//! is taken off the account when they are made ([`make_copies`]); so are the tables of System V queues, which only grow. Vectors of owners are not looked at: one belongs to a
//! slab page and lives as long as any object in it, also one that has always been there.

use super::ipc_namespace;
use super::{cpus, memory, system};
use crate::arch;
use crate::control;
use crate::syscall::table;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use cpu::SpinLock;
use ipc::mqueue::MAX_NAME;
use memcg::KmemId;
use slab::CacheInfo;

/// The most caches that an account remembers; the ones beyond are not checked, and a warning says so.
const MAX_CACHES: usize = 128;

/// How the caches of owners' vectors are called.
const VECTORS: &str = "objcg-vector";

/// A cache, and a number of its objects.
type Line = (&'static str, Option<KmemId>, i64);
type Lines = ArrayVec<Line, MAX_CACHES>;

/// What making copies took.
struct Permanent {
    /// Objects that are there for ever, made since boot.
    lines: Lines,
    /// The counts before the making: here, because a stack is small.
    before: Lines,
}

static PERMANENT: SpinLock<Permanent> = SpinLock::new(
    29,
    Permanent {
        lines: Lines::new_const(),
        before: Lines::new_const(),
    },
);

fn lines() -> impl Iterator<Item = Line> {
    let line = |info: CacheInfo| (info.name, info.cgroup, info.active_objects as i64);
    system().slab.caches().map(line).take(MAX_CACHES)
}

fn amount(lines: &[Line], (name, cgroup, _): Line) -> i64 {
    let same = lines.iter().find(|line| line.0 == name && line.1 == cgroup);
    same.map_or(0, |line| line.2)
}

/// Makes the copies of caches that allocations asked for, and takes what that took off the account.
pub(super) fn make_copies() {
    let slab = system().slab;
    while slab.has_pending_copies() {
        // Under the lock nobody else runs here: the difference is the copies' alone.
        let mut permanent = PERMANENT.lock();
        let Permanent { lines: known, before } = &mut *permanent;
        before.clear();
        before.extend(lines());
        slab.make_pending_copies();
        for line in lines() {
            let more = line.2 - amount(before, line);
            match known.iter_mut().find(|known| known.0 == line.0 && known.1 == line.1) {
                Some(known) => known.2 += more,
                None if more != 0 => _ = known.try_push((line.0, line.1, more)),
                None => {}
            }
        }
    }
}

/// The caches' counts at one moment.
pub(super) struct Snapshot {
    lines: Vec<Line>,
    /// Blocks of System V queues' slots.
    blocks: usize,
}

impl Snapshot {
    /// Now, when nobody else runs.
    pub(super) fn take() -> Snapshot {
        let mut kept = Vec::with_capacity(MAX_CACHES);
        settle();
        kept.extend(lines());
        Snapshot {
            lines: kept,
            blocks: ipc_namespace::first().messages.slot_blocks().1,
        }
    }
}

/// Takes away the queues that programs left: they outlive their makers, but not the run.
fn unlink_queues() {
    let root = ipc::Caller::new(0, 0, true, u64::MAX);
    loop {
        let mut first = None;
        ipc_namespace::first().queues.list(None, |name, _| {
            first = ArrayVec::<u8, MAX_NAME>::try_from(name).ok();
            false
        });
        let Some(name) = first else { return };
        if ipc_namespace::first().queues.unlink(&root, &name).is_err() {
            return;
        }
    }
}

/// Likewise those of System V.
fn remove_queues() {
    ipc_namespace::first().messages.remove_all(super::wake_by_id);
}

/// The objects that slots of System V queues have taken since `before`, kept as long as their namespace lives.
fn permanent_slots(before: &Snapshot) -> ArrayVec<Line, 1> {
    let (size, blocks) = ipc_namespace::first().messages.slot_blocks();
    let class = |info: &CacheInfo| {
        info.object_size == size && info.name.starts_with("kmalloc-") && !info.name.starts_with("kmalloc-cg-")
    };
    let class = system().slab.caches().find(class);
    let line = |info: CacheInfo| (info.name, info.cgroup, (blocks - before.blocks) as i64);
    class.map(line).into_iter().collect()
}

/// Gives back all that the CPUs hold back.
fn settle() {
    unlink_queues();
    remove_queues();
    make_copies();
    let slab = system().slab;
    cpus::on_each(|| {
        let cache = ipc_namespace::first().queues.ipc().messages();
        cpu::without_preemption(|pinned| cache.drain_this_cpu(pinned, |_| true));
        slab.flush_this_cpu();
    });
    slab.shrink();
    // Last: slab pages that were given back are in the stocks now (model `page`).
    cpus::on_each(|| memory().drain_this_cpu());
}

/// Writes the run's counters and what differs from `before` to the log; whether nothing does.
pub(super) fn report(before: Snapshot) -> bool {
    settle();
    let mut clean = true;
    let mut leak = |text: core::fmt::Arguments| {
        clean = false;
        control!("leak {text}");
    };
    if system().slab.caches().count() > MAX_CACHES {
        log::warn!("more than {MAX_CACHES} caches: the rest is not checked");
    }
    let slots = permanent_slots(&before);
    for line in lines().filter(|line| !line.0.starts_with(VECTORS)) {
        let left = line.2 - amount(&before.lines, line) - amount(&PERMANENT.lock().lines, line) - amount(&slots, line);
        if left != 0 {
            let of = line.1.map_or(0, KmemId::index);
            leak(format_args!("cache={} cgroup={of} objects={left:+}", line.0));
        }
    }
    let cgroup = system().cgroup;
    if !cgroup.is_root() {
        let pages = cgroup.memory().usage();
        if pages != 0 {
            leak(format_args!("cgroup={} pages={pages}", cgroup.id()));
        }
    }
    if crate::mm::page::count() != 0 {
        leak(format_args!("file_pages={}", crate::mm::page::count()));
    }
    counts();
    arch::events::report(|number| table::row(number as u64).map_or("absent", |row| row.name));
    clean
}

/// The counters that say what accounting did.
fn counts() {
    let cgroup = system().cgroup;
    control!(
        "counts cgroup={} memory_pages={} slab_caches={}",
        cgroup.id(),
        cgroup.memory().usage(),
        system().slab.caches().count()
    );
}
