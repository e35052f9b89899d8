//! The messages of a queue in order: highest priority first, first in first out within a priority.
//!
//! **How it works.** Each priority in use is a level: a FIFO. The highest level is kept at hand, outside of the tree that
//! holds the others: a queue whose messages have one priority never touches the tree or allocates a node, and both ends
//! of its only level are one load away. So pushing and popping at the top priority is O(1), elsewhere O(log p) for p
//! priorities in use, however many messages there are. The node of a level that ran empty is kept for the next.
//!
//! Invariant: the level at hand is empty only when all are.

use crate::Ipc;
use crate::message::{Message, Messages};
use slab::{AllocError, Gfp, Spare, Tree};

/// The memory of a level in the tree.
pub(super) type Node = Spare<u32, Messages>;

/// The levels of one queue.
pub(super) struct Levels {
    /// Priority of the level at hand; anything when there is no message.
    priority: u32,
    /// The level at hand: the highest.
    top: Messages,
    /// The others, by priority.
    lower: Tree<u32, Messages>,
    /// The node of a level that ran empty.
    spare: Option<Node>,
}

impl Levels {
    pub(super) fn new() -> Levels {
        Levels {
            priority: 0,
            top: Messages::new(),
            lower: Tree::new(),
            spare: None,
        }
    }

    /// Whether there is no message. The queue counts its messages itself; this is for its assertions.
    pub(super) fn is_empty(&self) -> bool {
        self.top.is_empty()
    }

    /// Adds a message. `Err` gives it back when there is no memory for a new level.
    #[inline(always)]
    pub(super) fn push(&mut self, message: Message, priority: u32, ipc: &Ipc) -> Result<(), Message> {
        if self.top.is_empty() {
            self.priority = priority;
        } else if priority != self.priority {
            return self.push_elsewhere(message, priority, ipc);
        }
        self.top.push(message);
        Ok(())
    }

    /// Slow path of [`push`](Levels::push): not at the priority at hand.
    #[inline(never)]
    fn push_elsewhere(&mut self, message: Message, priority: u32, ipc: &Ipc) -> Result<(), Message> {
        if self.needs_node(priority) && self.spare.is_none() {
            match Levels::new_node(ipc) {
                Ok(node) => self.spare = Some(node),
                Err(_) => return Err(message),
            }
        }
        self.place(message, priority);
        Ok(())
    }

    /// Adds a message for which `node` was brought along, so that it cannot fail.
    pub(super) fn push_with(&mut self, message: Message, priority: u32, node: Option<Node>) {
        match self.spare {
            None => {
                self.spare = node;
                self.place(message, priority);
            }
            Some(_) => {
                self.place(message, priority);
                node.into_iter().for_each(|node| self.keep(node));
            }
        }
    }

    /// Whether a message of this priority opens a level in the tree.
    fn needs_node(&self, priority: u32) -> bool {
        if self.top.is_empty() || priority == self.priority {
            return false;
        }
        priority > self.priority || self.lower.get(priority).is_none()
    }

    /// Puts the message where it belongs; a spare node is there if one is needed.
    fn place(&mut self, message: Message, priority: u32) {
        if self.top.is_empty() {
            self.priority = priority;
        }
        if priority < self.priority {
            if let Some(level) = self.lower.get_mut(priority) {
                return level.push(message);
            }
            let mut level = Messages::new();
            level.push(message);
            return self.open(priority, level);
        }
        if priority > self.priority {
            let below = core::mem::replace(&mut self.top, Messages::new());
            self.open(self.priority, below);
            self.priority = priority;
        }
        self.top.push(message);
    }

    /// Puts a level into the tree.
    fn open(&mut self, priority: u32, level: Messages) {
        let node = self.spare.take().expect("a node is at hand when a level is opened");
        self.lower.insert(node, priority, level);
    }

    /// Takes the oldest message of the highest priority.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.top.pop()?;
        if self.top.is_empty() {
            self.refill();
        }
        Some(message)
    }

    /// The level at hand ran empty: the next lower one, if any, takes its place.
    #[inline(always)]
    fn refill(&mut self) {
        if !self.lower.is_empty() {
            self.refill_from_tree();
        }
    }

    #[inline(never)]
    fn refill_from_tree(&mut self) {
        if let Some((priority, level, node)) = self.lower.pop_last() {
            self.priority = priority;
            self.top = level;
            self.keep(node);
        }
    }

    /// A node for a message that may have to wait: the spare one, or a new one.
    pub(super) fn node(&mut self, ipc: &Ipc) -> Result<Node, AllocError> {
        match self.spare.take() {
            Some(node) => Ok(node),
            None => Levels::new_node(ipc),
        }
    }

    /// Keeps a node that is not needed, or frees it if one is kept already.
    pub(super) fn keep(&mut self, node: Node) {
        if self.spare.is_none() {
            self.spare = Some(node);
        }
    }

    fn new_node(ipc: &Ipc) -> Result<Node, AllocError> {
        Node::try_new(ipc.slab, Gfp::empty(), &ipc.nobody)
    }
}
