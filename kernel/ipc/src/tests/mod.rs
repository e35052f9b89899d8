//! Tests, by subject. Each runs on a machine of its own with all that a queue needs; after each, nothing may be left: no
//! queue, no user's byte, no object, and no page on any cgroup's bill.

mod cache;
mod cpus;
mod history;
mod message;
mod names;
mod notify;
mod property;
mod queue;
mod sysv;
mod sysv_cpus;

use crate::message::MAX_INLINE;
use crate::mqueue::{Claim, Create, Namespace, NamespaceRef, Open, Queue, Received, Sent};
use crate::{Access, Blank, Caller, Error, Ipc, Message, TaskId};
use memcg::{Cgroup, TaskMemcg};
use slab::Slab;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::Vec;

type Handle = Open<&'static Namespace<Arc<Queue>>>;

const MODELS: [&str; 6] = ["off", "page", "object", "task-stock", "local-lock", "scoped"];

/// A machine's allocator, cgroups and queues.
struct World {
    slab: &'static Slab,
    ipc: &'static Ipc,
    namespace: &'static Namespace<Arc<Queue>>,
    /// Siblings below the root.
    cgroups: [&'static Cgroup; 2],
    /// Objects in use when there is no queue: the model `page` keeps its copies' tables in some.
    resting: usize,
}

impl World {
    /// The world of this model and cache: made once, since allocators live for ever. Only inside a machine.
    fn of(model: &'static str, cache: bool) -> &'static World {
        type Worlds = Option<HashMap<(&'static str, bool), &'static World>>;
        static WORLDS: Mutex<Worlds> = Mutex::new(None);
        let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
        worlds.get_or_insert_default().entry((model, cache)).or_insert_with(|| {
            let slab = Slab::by_name(model).expect("an allocator");
            let accounting = slab.accounting();
            let cgroups = [(); 2].map(|()| accounting.create(accounting.root()).expect("a cgroup"));
            let ipc = Ipc::try_new(slab, cache, percpu::Counting::Local).expect("queues");
            let namespace = Box::leak(Box::new(Namespace::new(ipc)));
            let mut world = World {
                slab,
                ipc,
                namespace,
                cgroups,
                resting: 0,
            };
            world.make_copies();
            world.resting = world.objects();
            Box::leak(Box::new(world))
        })
    }

    /// Lets the model `page` make the copies of the caches that messages come from.
    fn make_copies(&self) {
        for cgroup in self.cgroups {
            let task = self.task(1);
            task.memcg.set_cgroup(cgroup);
            for length in [0, 16, 40, 80, 140, 200, 460, 900, 2000, 4000] {
                drop(Blank::alloc(self.slab, &task.memcg, length).expect("memory"));
                drop(Blank::alloc(self.slab, &task.memcg, MAX_INLINE + length).expect("memory"));
            }
            self.slab.make_pending_copies();
        }
        self.settle_this_cpu();
    }

    /// A task in the first cgroup.
    fn task(&self, id: TaskId) -> Task {
        Task {
            id,
            memcg: TaskMemcg::new(self.cgroups[0]),
            slab: self.slab,
        }
    }

    /// Gives back what this CPU holds back for later.
    fn settle_this_cpu(&self) {
        cpu::without_preemption(|pinned| self.ipc.messages().drain_this_cpu(pinned, |_| true));
        // More than once: what is given back may have been the last object of a page.
        for _ in 0..3 {
            self.slab.flush_this_cpu();
            self.slab.shrink();
        }
        self.slab.accounting().drain_this_cpu();
    }

    /// Checks that nothing is left.
    #[track_caller]
    fn assert_clean(&self) {
        self.settle_this_cpu();
        assert_eq!(self.namespace.len(), 0, "queues are left");
        for uid in 0..4 {
            assert_eq!(self.ipc.users().bytes(uid * 1000), 0, "user {} is charged", uid * 1000);
        }
        assert_eq!(self.objects(), self.resting, "objects are left");
        for cgroup in self.cgroups {
            assert_eq!(cgroup.memory().usage(), 0, "pages are charged to {cgroup:?}");
        }
    }

    /// Objects in use of the size classes.
    fn objects(&self) -> usize {
        let classes = self.slab.caches().filter(|cache| cache.name.starts_with("kmalloc"));
        classes.map(|cache| cache.active_objects).sum()
    }

    fn open(&self, name: &str, max_messages: i64, message_size: i64) -> Handle {
        let claim = Claim {
            max_messages,
            message_size,
        };
        self.namespace
            .open(&ROOT, name.as_bytes(), Some(Access::all()), create(Some(claim)))
            .expect("a queue")
    }

    fn unlink(&self, name: &str) {
        self.namespace.unlink(&ROOT, name.as_bytes()).expect("a name");
    }
}

const ROOT: Caller = Caller::new(0, 0, true, u64::MAX);

fn create(attributes: Option<Claim>) -> Option<Create> {
    Some(Create {
        exclusive: false,
        mode: 0o600,
        attributes,
    })
}

/// A task as the kernel has it.
struct Task {
    id: TaskId,
    memcg: TaskMemcg,
    slab: &'static Slab,
}

impl Task {
    fn message(&self, queue: &Queue, data: &[u8]) -> Message {
        let blank = queue.alloc(self.id, &self.memcg, data.len()).expect("memory");
        blank.fill(&mut &data[..]).expect("a whole source")
    }
    /// Sends; `Err` after giving the message up.
    fn send(&self, queue: &Queue, data: &[u8], priority: u32) -> Result<Sent, Error> {
        queue.send(self.message(queue, data), priority).map_err(|not_sent| {
            self.free(queue, not_sent.message);
            not_sent.reason
        })
    }
    fn receive(&self, queue: &Queue) -> Result<(Vec<u8>, i64), Error> {
        let Received { message, .. } = queue.receive()?;
        Ok(self.consume(queue, message))
    }
    fn consume(&self, queue: &Queue, message: Message) -> (Vec<u8>, i64) {
        let (data, kind) = (content(&message), message.kind());
        self.free(queue, message);
        (data, kind)
    }
    fn free(&self, queue: &Queue, message: Message) {
        queue.free(self.id, &self.memcg, message.into_blank());
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.memcg.exit(self.slab.accounting());
    }
}

/// All bytes of a message.
fn content(message: &Message) -> Vec<u8> {
    let mut data = vec![0; message.len()];
    message.copy_out(&mut &mut data[..], usize::MAX).expect("a whole sink");
    data
}

/// Bytes that tell messages apart, and places in a message.
fn data(seed: u64, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    for (at, word) in data.chunks_mut(8).enumerate() {
        let value = (seed << 16 | at as u64).to_le_bytes();
        word.copy_from_slice(&value[..word.len()]);
    }
    data
}

/// Runs `f` on a machine of one CPU under every model and with the cache on and off, and checks that nothing is left.
fn everywhere(f: impl Fn(&'static World)) {
    cpu::host::single(|| {
        for model in MODELS {
            for cache in [false, true] {
                let world = World::of(model, cache);
                f(world);
                world.assert_clean();
            }
        }
    });
}

/// Runs `f` on a machine of one CPU under the model `scoped` with the cache, and checks that nothing is left.
fn once(f: impl FnOnce(&'static World)) {
    cpu::host::single(|| {
        let world = World::of("scoped", true);
        f(world);
        world.assert_clean();
    });
}
