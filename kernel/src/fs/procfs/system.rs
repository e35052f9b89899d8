//! What /proc tells of the machine.

use crate::arch::layout::PAGE_SIZE;
use crate::arch::tsc;
use crate::fs::filesystems;
use crate::fs::table::{Item, text};
use crate::fs::text::Text;
use crate::mm::frames;
use crate::put;
use crate::syscall::errno::Result;
use crate::syscall::system::{MACHINE, RELEASE, VERSION};
use crate::task::clock::{self, SECOND};
use crate::task::{Pid, ipc_namespace, system, table};

pub static TOLLGATE: [Item; 2] = [
    text("mqcache", |out, _| {
        let counts = ipc_namespace::first().queues.ipc().cache_counts();
        put!(out, "hits {}\nmisses {}\n", counts.hits(), counts.misses());
        Ok(())
    }),
    text("tsc_khz", |out, _| {
        put!(out, "{}\n", tsc::khz());
        Ok(())
    }),
];

pub static SYSVIPC: [Item; 1] = [text("msg", sysvipc_msg)];

/// The System V queues of the reader's namespace, by index (sysvipc(7)).
fn sysvipc_msg(out: &mut Text, _: Pid) -> Result<()> {
    put!(
        out,
        "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n"
    );
    ipc_namespace::with_messages(|queues| sysvipc_lines(out, queues));
    Ok(())
}

fn sysvipc_lines(out: &mut Text, queues: &ipc::sysv::Namespace) {
    for index in 0..=queues.info().highest_index {
        let Ok(status) = queues.status_at(None, index) else {
            continue;
        };
        let owner = status.ownership;
        put!(
            out,
            "{:>10} {:>10}  {:>4o}  {:>10} {:>10} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10} {:>10}\n",
            status.key,
            status.id,
            owner.mode,
            status.bytes,
            status.messages,
            status.sender,
            status.receiver,
            owner.uid,
            owner.gid,
            owner.cuid,
            owner.cgid,
            status.sent / SECOND,
            status.received / SECOND,
            status.changed / SECOND
        );
    }
}

pub fn meminfo(out: &mut Text, _: Pid) -> Result<()> {
    let frames::Count { free, total } = frames::count();
    let kib = |frames: usize| frames as u64 * PAGE_SIZE / 1024;
    let slabs: usize = system()
        .slab
        .caches()
        .map(|cache| cache.total_slabs * cache.pages_per_slab)
        .sum();
    let shmem = crate::mm::page::count();
    for (name, value) in [
        ("MemTotal", kib(total)),
        ("MemFree", kib(free)),
        ("MemAvailable", kib(free)),
        ("Buffers", 0),
        ("Cached", kib(shmem)),
        ("SwapCached", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Shmem", kib(shmem)),
        ("Slab", kib(slabs)),
        ("SReclaimable", 0),
        ("SUnreclaim", kib(slabs)),
    ] {
        // The value's column begins at 16, as Linux aligns it.
        put!(out, "{name}:{value:>width$} kB\n", width = 23 - name.len());
    }
    Ok(())
}

pub fn cpuinfo(out: &mut Text, _: Pid) -> Result<()> {
    for number in cpu::online() {
        let mhz = tsc::khz();
        put!(
            out,
            "processor\t: {number}\nvendor_id\t: Tollgate\ncpu MHz\t\t: {}.{:03}\ncache size\t: 0 KB\n\n",
            mhz / 1000,
            mhz % 1000
        );
    }
    Ok(())
}

pub fn stat(out: &mut Text, _: Pid) -> Result<()> {
    let ticks = clock::monotonic() / (SECOND / 100);
    put!(out, "cpu  {ticks} 0 0 0 0 0 0 0 0 0\n");
    for number in cpu::online() {
        put!(out, "cpu{number} {ticks} 0 0 0 0 0 0 0 0 0\n");
    }
    let booted = (clock::realtime() - clock::monotonic()) / SECOND;
    put!(
        out,
        "intr 0\nctxt 0\nbtime {booted}\nprocesses {}\nprocs_running 1\nprocs_blocked 0\n",
        table::last_number()
    );
    Ok(())
}

pub fn uptime(out: &mut Text, _: Pid) -> Result<()> {
    let hundredths = clock::monotonic() / (SECOND / 100);
    put!(out, "{}.{:02} 0.00\n", hundredths / 100, hundredths % 100);
    Ok(())
}

pub fn loadavg(out: &mut Text, _: Pid) -> Result<()> {
    put!(out, "0.00 0.00 0.00 1/{} {}\n", table::count(), table::last_number());
    Ok(())
}

pub fn filesystems(out: &mut Text, _: Pid) -> Result<()> {
    for kind in &filesystems::TYPES {
        put!(out, "nodev\t{}\n", kind.name);
    }
    Ok(())
}

pub fn version(out: &mut Text, _: Pid) -> Result<()> {
    put!(out, "Linux version {RELEASE} (tollgate@{MACHINE}) {VERSION}\n");
    Ok(())
}

pub fn cmdline(out: &mut Text, _: Pid) -> Result<()> {
    let options = &system().options;
    let cache = if options.msgcache { "on" } else { "off" };
    put!(out, "accounting={} msgcache={cache}\n", options.accounting);
    Ok(())
}

/// slabinfo(5), version 2.1. Copies of caches for cgroups are lines of their own.
pub fn slabinfo(out: &mut Text, _: Pid) -> Result<()> {
    put!(
        out,
        "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> "
    );
    put!(
        out,
        "<objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : "
    );
    put!(out, "slabdata <active_slabs> <num_slabs> <sharedavail>\n");
    for cache in system().slab.caches() {
        put!(
            out,
            "{:<17} {:>6} {:>6} {:>6} {:>4} {:>4} : tunables {:>4} {:>4} {:>4} : slabdata {:>6} {:>6} {:>6}\n",
            cache.name,
            cache.active_objects,
            cache.total_objects,
            cache.object_size,
            cache.objects_per_slab,
            cache.pages_per_slab,
            0,
            0,
            0,
            cache.active_slabs,
            cache.total_slabs,
            0
        );
    }
    Ok(())
}

pub fn devices(out: &mut Text, _: Pid) -> Result<()> {
    put!(
        out,
        "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n  5 /dev/console\n\nBlock devices:\n"
    );
    Ok(())
}

pub fn cgroups(out: &mut Text, _: Pid) -> Result<()> {
    put!(out, "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t1\t1\n");
    Ok(())
}

pub fn swaps(out: &mut Text, _: Pid) -> Result<()> {
    put!(out, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
    Ok(())
}

pub fn vmstat(out: &mut Text, _: Pid) -> Result<()> {
    put!(
        out,
        "nr_free_pages {}\nnr_shmem {}\n",
        frames::count().free,
        crate::mm::page::count()
    );
    Ok(())
}
