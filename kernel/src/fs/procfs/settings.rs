//! /proc/sys.

use crate::fs::table::{Item, directory, number, setting, text};
use crate::fs::text::Text;
use crate::put;
use crate::syscall::errno::{Errno, Result};
use crate::syscall::system::{MACHINE, RELEASE, VERSION};
use crate::task::ipc_namespace::{queues, with_messages};
use ipc::mqueue::Limit;
use ipc::sysv;

fn show(out: &mut Text, limit: Limit) {
    put!(out, "{}\n", queues().limits().get(limit) as i32);
}

fn set(bytes: &[u8], limit: Limit) -> Result<()> {
    let value = number(bytes)?;
    queues().limits().set(limit, value).map_err(|_| Errno::EINVAL)
}

macro_rules! limit {
    ($limit:ident) => {
        setting(
            Limit::$limit.name(),
            |out| show(out, Limit::$limit),
            |bytes| set(bytes, Limit::$limit),
        )
    };
}

static MQUEUE: [Item; 5] = [
    limit!(MsgDefault),
    limit!(MsgMax),
    limit!(MsgsizeDefault),
    limit!(MsgsizeMax),
    limit!(QueuesMax),
];

macro_rules! messages_limit {
    ($limit:ident) => {
        setting(
            sysv::Limit::$limit.name(),
            |out| {
                let value = with_messages(|queues| queues.limits().get(sysv::Limit::$limit));
                put!(out, "{}\n", value as i32);
            },
            |bytes| {
                let value = number(bytes)?;
                with_messages(|queues| queues.limits().set(sysv::Limit::$limit, value)).map_err(|_| Errno::EINVAL)
            },
        )
    };
}

macro_rules! constant {
    ($name:literal, $($value:tt)*) => {
        text($name, |out, _| {
            put!(out, $($value)*);
            Ok(())
        })
    };
}

static FS: [Item; 4] = [
    directory("mqueue", &MQUEUE),
    constant!("nr_open", "{}\n", crate::fs::descriptor::MAX),
    constant!("file-max", "{}\n", i64::MAX),
    constant!("pipe-max-size", "{}\n", 1 << 20),
];
static RANDOM: [Item; 1] = [constant!("entropy_avail", "256\n")];
static KERNEL: [Item; 14] = [
    messages_limit!(MsgMax),
    messages_limit!(MsgMnb),
    messages_limit!(MsgMni),
    messages_limit!(NextId),
    constant!("ostype", "Linux\n"),
    constant!("osrelease", "{RELEASE}\n"),
    constant!("version", "{VERSION}\n"),
    constant!("hostname", "{MACHINE}\n"),
    constant!("domainname", "(none)\n"),
    constant!("pid_max", "{}\n", crate::task::table::PID_MAX),
    constant!("threads-max", "{}\n", crate::task::table::PID_MAX),
    constant!("ngroups_max", "65536\n"),
    constant!("cap_last_cap", "40\n"),
    directory("random", &RANDOM),
];
static VM: [Item; 3] = [
    constant!("max_map_count", "{}\n", crate::mm::areas::Areas::MAX),
    constant!("mmap_min_addr", "65536\n"),
    constant!("overcommit_memory", "0\n"),
];
pub static SYS: [Item; 3] = [directory("fs", &FS), directory("kernel", &KERNEL), directory("vm", &VM)];
