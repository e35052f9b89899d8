//! The processes and the machine as files: proc(5).
//!
//! * [`process`]: what stands in /proc/PID. [`system`]: what is told of the machine. [`settings`]: /proc/sys.
//! * Here: the root, which has a directory for each process, and /proc/self.

mod process;
mod settings;
mod system;

use super::node::{Dynamic, Each, FileSystem, Kind, Listed, Node, Target};
use super::table::{self, Item, directory, link, node, text};
use super::text::{Text, copied};
use crate::mm::shared::{Shared, try_box};
use crate::mm::tasks::Current;
use crate::syscall::errno::Result;
use crate::task::{Pid, table as tasks};
use alloc::vec::Vec;

/// The subject of what is about no process.
const NOBODY: Pid = 0;

static TOP: [Item; 19] = [
    link("self", |_| Ok(Target::Path(decimal(Current::get().process.pid)?))),
    link("thread-self", |_| {
        let current = Current::get();
        let mut path = Text::default();
        crate::put!(path, "{}/task/{}", current.process.pid, current.tid);
        Ok(Target::Path(path.finish()?))
    }),
    link("mounts", |_| Ok(Target::Path(copied(b"self/mounts")?))),
    text("meminfo", system::meminfo),
    text("cpuinfo", system::cpuinfo),
    text("stat", system::stat),
    text("uptime", system::uptime),
    text("loadavg", system::loadavg),
    text("filesystems", system::filesystems),
    text("version", system::version),
    text("cmdline", system::cmdline),
    Item {
        name: "slabinfo",
        permissions: 0o400,
        what: table::What::Text(system::slabinfo),
    },
    text("devices", system::devices),
    text("cgroups", system::cgroups),
    text("swaps", system::swaps),
    text("vmstat", system::vmstat),
    directory("sys", &settings::SYS),
    directory("sysvipc", &system::SYSVIPC),
    directory("tollgate", &system::TOLLGATE),
];

fn decimal(number: Pid) -> Result<Vec<u8>> {
    let mut text = Text::default();
    crate::put!(text, "{number}");
    text.finish()
}

/// The root of /proc.
struct Root;

static ROOT: Item = Item {
    name: "",
    permissions: 0o555,
    what: table::What::Own(|_, _| Ok(Kind::Dynamic(try_box(Root)?)), super::node::DIRECTORY),
};

/// The root of an instance.
pub fn root(fs: &Shared<FileSystem>) -> Result<Shared<Node>> {
    node(fs, &ROOT, NOBODY, None)
}

/// The number that a name is, written as the kernel writes it.
fn number_of(name: &[u8]) -> Option<Pid> {
    let canonical = name.first().is_some_and(|&first| first != b'0') && name.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(name).ok().filter(|_| canonical)?;
    text.parse().ok()
}

impl Dynamic for Root {
    fn lookup(&self, this: &Shared<Node>, name: &[u8]) -> Result<Option<Shared<Node>>> {
        if let Some(pid) = number_of(name) {
            // A thread's number leads to its process, though it is not listed.
            return match tasks::find(pid) {
                Some(_) => Ok(Some(node(&this.fs, &process::PROCESS, pid, Some(this))?)),
                None => Ok(None),
            };
        }
        table::lookup(&TOP, NOBODY, this, name)
    }

    fn list(&self, _this: &Node, from: u64, each: &mut Each) -> Result<()> {
        /// Positions of processes begin here.
        const PROCESSES: u64 = 1 << 16;
        if from < PROCESSES && !table::list(&TOP, NOBODY, from, each) {
            return Ok(());
        }
        let mut last = from.saturating_sub(PROCESSES) as Pid;
        while let Some(task) = tasks::next(last) {
            last = task.tid;
            if task.tid != task.process.pid {
                continue;
            }
            let name = decimal(task.tid)?;
            let listed = Listed {
                next: PROCESSES + u64::from(task.tid),
                ino: u64::from(task.tid) << 32,
                kind: super::node::DIRECTORY,
                name: &name,
            };
            if !each(listed) {
                return Ok(());
            }
        }
        Ok(())
    }
}
