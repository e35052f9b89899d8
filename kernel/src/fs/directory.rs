//! A directory in memory: names and their nodes.
//!
//! The entries stand in the order in which they were made, each with a serial number, so that a list that is read in
//! parts goes on at the right place while names come and go. A second list has the serial numbers in the order of names,
//! for the look-up.

use super::node::{Each, Listed, Node};
use crate::mm::shared::Shared;
use crate::syscall::errno::Result;
use alloc::vec::Vec;
use cpu::SpinLock;

struct Entry {
    serial: u64,
    name: Vec<u8>,
    node: Shared<Node>,
}

struct Entries {
    /// By serial number.
    list: Vec<Entry>,
    /// Serial numbers by name.
    by_name: Vec<u64>,
    next: u64,
}

/// See the module.
pub struct Directory(SpinLock<Entries>);

/// The first serial number: behind the positions of `.` and `..`.
const FIRST: u64 = 2;

impl Entries {
    fn at(&self, serial: u64) -> usize {
        self.list.partition_point(|entry| entry.serial < serial)
    }

    fn find(&self, name: &[u8]) -> core::result::Result<usize, usize> {
        self.by_name
            .binary_search_by(|&serial| self.list[self.at(serial)].name.as_slice().cmp(name))
    }

    fn take(&mut self, place: usize) -> Entry {
        let serial = self.by_name.remove(place);
        let at = self.at(serial);
        let entry = self.list.remove(at);
        if self.list.is_empty() {
            // An empty directory holds no memory.
            self.list = Vec::new();
            self.by_name = Vec::new();
        }
        entry
    }

    /// Adds a name that is not there. Room was reserved.
    fn add(&mut self, place: usize, name: Vec<u8>, node: Shared<Node>) {
        let serial = self.next;
        self.next += 1;
        self.by_name.insert(place, serial);
        self.list.push(Entry { serial, name, node });
    }
}

impl Directory {
    /// An empty one.
    pub fn new() -> Directory {
        Directory(SpinLock::new(
            9,
            Entries {
                list: Vec::new(),
                by_name: Vec::new(),
                next: FIRST,
            },
        ))
    }

    /// The node of a name.
    pub fn get(&self, name: &[u8]) -> Option<Shared<Node>> {
        let entries = self.0.lock();
        let place = entries.find(name).ok()?;
        Some(entries.list[entries.at(entries.by_name[place])].node.clone())
    }

    /// Gives `node` a name. The node that had the name before is given back.
    pub fn insert(&self, name: &[u8], node: &Shared<Node>) -> Result<Option<Shared<Node>>> {
        let own = super::text::copied(name)?;
        let mut entries = self.0.lock();
        entries.list.try_reserve(1)?;
        entries.by_name.try_reserve(1)?;
        match entries.find(name) {
            Ok(place) => {
                let at = entries.at(entries.by_name[place]);
                let before = core::mem::replace(&mut entries.list[at].node, node.clone());
                Ok(Some(before))
            }
            Err(place) => {
                entries.add(place, own, node.clone());
                Ok(None)
            }
        }
    }

    /// Takes a name away.
    pub fn remove(&self, name: &[u8]) -> Option<Shared<Node>> {
        let mut entries = self.0.lock();
        let place = entries.find(name).ok()?;
        let entry = entries.take(place);
        drop(entries);
        Some(entry.node)
    }

    /// Renames within this directory, in one step: the node that had the new name is given back. Both names differ.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<Option<Shared<Node>>> {
        let own = super::text::copied(to)?;
        let mut entries = self.0.lock();
        let Ok(old) = entries.find(from) else { return Ok(None) };
        let replaced = match entries.find(to) {
            Ok(place) => {
                let serial = entries.by_name[place];
                let moved = entries.list[entries.at(entries.by_name[old])].node.clone();
                let at = entries.at(serial);
                let before = core::mem::replace(&mut entries.list[at].node, moved);
                let gone = entries.take(old);
                drop(entries);
                drop(gone);
                return Ok(Some(before));
            }
            Err(place) => place,
        };
        // One goes and one comes: there is room.
        let serial = entries.by_name.remove(old);
        let at = entries.at(serial);
        let entry = entries.list.remove(at);
        entries.add(replaced - usize::from(replaced > old), own, entry.node);
        Ok(None)
    }

    /// Takes any entry out, for dismantling.
    pub fn pop(&self) -> Option<Shared<Node>> {
        let mut entries = self.0.lock();
        let last = entries.by_name.len().checked_sub(1)?;
        let entry = entries.take(last);
        drop(entries);
        Some(entry.node)
    }

    /// Whether there is no name in it.
    pub fn is_empty(&self) -> bool {
        self.0.lock().list.is_empty()
    }

    /// As `st_size` has it on Linux's tmpfs: twenty bytes a name, and two names more.
    pub fn size(&self) -> u64 {
        (self.0.lock().list.len() as u64 + 2) * 20
    }

    /// Lists the names from position `from` on. The directory is locked meanwhile.
    pub fn list(&self, from: u64, each: &mut Each) {
        let entries = self.0.lock();
        for entry in &entries.list[entries.at(from.max(FIRST))..] {
            let listed = Listed {
                next: entry.serial + 1,
                ino: entry.node.ino,
                kind: entry.node.type_bits(),
                name: &entry.name,
            };
            if !each(listed) {
                return;
            }
        }
    }
}
