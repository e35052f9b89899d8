//! What programs look up under /sys: which CPUs there are.

use super::node::{FileSystem, Node};
use super::table::{Item, directory, node, text};
use super::text::Text;
use crate::mm::shared::Shared;
use crate::put;
use crate::syscall::errno::Result;

/// Numbers 0 to one below `count`, as cpuset(7) lists them.
fn range(out: &mut Text, count: usize) {
    match count {
        0 | 1 => put!(out, "0\n"),
        count => put!(out, "0-{}\n", count - 1),
    }
}

static CPU: [Item; 3] = [
    text("online", |out, _| {
        range(out, cpu::online().count()); // they come in order
        Ok(())
    }),
    text("possible", |out, _| {
        range(out, cpu::possible());
        Ok(())
    }),
    text("present", |out, _| {
        range(out, cpu::possible());
        Ok(())
    }),
];
static SYSTEM: [Item; 1] = [directory("cpu", &CPU)];
static DEVICES: [Item; 1] = [directory("system", &SYSTEM)];
static CGROUP: [Item; 0] = [];
static FS: [Item; 1] = [directory("cgroup", &CGROUP)];
static TOP: [Item; 2] = [directory("devices", &DEVICES), directory("fs", &FS)];
static ROOT: Item = directory("", &TOP);

/// The root of an instance.
pub fn root(fs: &Shared<FileSystem>) -> Result<Shared<Node>> {
    node(fs, &ROOT, 0, None)
}
