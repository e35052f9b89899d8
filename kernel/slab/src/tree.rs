//! A red-black tree whose nodes are slab objects.
//!
//! **Purpose.** Priority levels and waiters of the crate ipc, in order of their keys, with an allocation that can fail
//! and can be done beforehand, outside a lock.
//!
//! **How it works.** The tree is intrusive-collections'; its adapter macro does not compile without unsafe code, so the
//! adapter is here. A [`Spare`] is the memory of a node: made fallibly, filled by an insertion, given back by a removal.
//!
//! **Lock order.** None: whoever has `&mut` of the tree has its nodes.

use crate::{AllocError, Gfp, Object, Slab};
use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::mem::offset_of;
use core::ptr::NonNull;
use intrusive_collections::rbtree::{self, RBTree};
use intrusive_collections::{Adapter, Bound, KeyAdapter, PointerOps};
use memcg::TaskMemcg;

/// What a node's object holds.
struct Node<K, V> {
    link: rbtree::Link,
    /// Key and value: initialised while the node is in a tree.
    entry: Cell<MaybeUninit<(K, V)>>,
}

/// The memory of a node of a [`Tree`], not in use.
pub struct Spare<K, V>(Object<Node<K, V>>);

// SAFETY: a spare holds no key and no value, and owns its memory; its link is unlinked.
unsafe impl<K, V> Send for Spare<K, V> {}
// SAFETY: as above; a shared spare gives nothing.
unsafe impl<K, V> Sync for Spare<K, V> {}

impl<K, V> Spare<K, V> {
    /// Takes memory for a node.
    ///
    /// # Errors
    /// As [`Slab::kmalloc`].
    pub fn try_new(slab: &Slab, gfp: Gfp, task: &TaskMemcg) -> Result<Self, AllocError> {
        let node = Node {
            link: rbtree::Link::new(),
            entry: Cell::new(MaybeUninit::uninit()),
        };
        Ok(Spare(Object::try_new(slab, gfp, task, node, 0)?))
    }
}

/// Pointers to nodes: owning objects.
struct NodePointers<K, V>(core::marker::PhantomData<(K, V)>);

// SAFETY: from_raw undoes into_raw, and neither panics.
unsafe impl<K, V> PointerOps for NodePointers<K, V> {
    type Value = Node<K, V>;
    type Pointer = Object<Node<K, V>>;

    #[inline]
    unsafe fn from_raw(&self, value: *const Node<K, V>) -> Object<Node<K, V>> {
        // SAFETY: the caller's word: it came from into_raw.
        unsafe { Object::from_header(value) }
    }
    #[inline]
    fn into_raw(&self, pointer: Object<Node<K, V>>) -> *const Node<K, V> {
        pointer.into_header()
    }
}

struct NodeAdapter<K, V> {
    links: rbtree::LinkOps,
    pointers: NodePointers<K, V>,
}

// SAFETY: get_link and get_value undo each other by the link's fixed offset.
unsafe impl<K, V> Adapter for NodeAdapter<K, V> {
    type LinkOps = rbtree::LinkOps;
    type PointerOps = NodePointers<K, V>;

    #[inline]
    unsafe fn get_value(&self, link: NonNull<rbtree::Link>) -> *const Node<K, V> {
        // SAFETY: the link lies in a node.
        unsafe {
            link.as_ptr()
                .cast::<u8>()
                .sub(offset_of!(Node<K, V>, link))
                .cast_const()
                .cast()
        }
    }
    #[inline]
    unsafe fn get_link(&self, value: *const Node<K, V>) -> NonNull<rbtree::Link> {
        // SAFETY: the value is a node, so the pointer is not null.
        unsafe { NonNull::new_unchecked(value.cast::<u8>().add(offset_of!(Node<K, V>, link)).cast_mut().cast()) }
    }
    #[inline]
    fn link_ops(&self) -> &rbtree::LinkOps {
        &self.links
    }
    #[inline]
    fn link_ops_mut(&mut self) -> &mut rbtree::LinkOps {
        &mut self.links
    }
    #[inline]
    fn pointer_ops(&self) -> &NodePointers<K, V> {
        &self.pointers
    }
}

impl<'a, K: Ord + Copy, V> KeyAdapter<'a> for NodeAdapter<K, V> {
    type Key = K;
    #[inline]
    fn get_key(&self, node: &'a Node<K, V>) -> K {
        // SAFETY: the tree asks for keys of nodes that are being inserted or are in it: initialised. Keys do not change.
        unsafe { (*node.entry.as_ptr().cast::<(K, V)>()).0 }
    }
}

/// A map in order of its keys; equal keys are kept in order of their insertion.
pub struct Tree<K: Ord + Copy, V> {
    tree: RBTree<NodeAdapter<K, V>>,
}

// SAFETY: the tree owns its nodes with their keys and values; links are touched through it only.
unsafe impl<K: Ord + Copy + Send, V: Send> Send for Tree<K, V> {}
// SAFETY: a shared tree gives &V and copies of K.
unsafe impl<K: Ord + Copy + Sync, V: Sync> Sync for Tree<K, V> {}

impl<K: Ord + Copy, V> Tree<K, V> {
    /// An empty tree.
    pub fn new() -> Self {
        Tree {
            tree: RBTree::new(NodeAdapter {
                links: rbtree::LinkOps,
                pointers: NodePointers(core::marker::PhantomData),
            }),
        }
    }

    /// Whether it has no node.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Adds a key and its value, behind those of equal key, in the memory of `spare`.
    pub fn insert(&mut self, spare: Spare<K, V>, key: K, value: V) {
        spare.0.entry.set(MaybeUninit::new((key, value)));
        self.tree.insert(spare.0);
    }

    /// The least key and its value.
    #[inline]
    pub fn first(&self) -> Option<(K, &V)> {
        self.tree.front().get().map(entry)
    }
    /// The greatest key and its value.
    #[inline]
    pub fn last(&self) -> Option<(K, &V)> {
        self.tree.back().get().map(entry)
    }
    /// The least key and its value, to be changed.
    #[inline]
    pub fn first_mut(&mut self) -> Option<(K, &mut V)> {
        // SAFETY: the node is in the tree, which is borrowed mutably as long as the value is.
        self.tree.front().get().map(|node| unsafe { entry_mut(node) })
    }
    /// The greatest key and its value, to be changed.
    #[inline]
    pub fn last_mut(&mut self) -> Option<(K, &mut V)> {
        // SAFETY: as in first_mut.
        self.tree.back().get().map(|node| unsafe { entry_mut(node) })
    }
    /// The value of the first node with this key.
    #[inline]
    pub fn get(&self, key: K) -> Option<&V> {
        let node = self.tree.lower_bound(Bound::Included(&key)).get()?;
        let (found, value) = entry(node);
        (found == key).then_some(value)
    }
    /// The value of the first node with this key, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let node = self.tree.lower_bound(Bound::Included(&key)).get()?;
        // SAFETY: as in first_mut: the node is reached from a tree that is borrowed mutably.
        let (found, value) = unsafe { entry_mut(node) };
        (found == key).then_some(value)
    }

    /// Takes the least key out. Gives its value, and the node's memory.
    #[inline]
    pub fn pop_first(&mut self) -> Option<(K, V, Spare<K, V>)> {
        self.tree.front_mut().remove().map(take)
    }
    /// Takes the greatest key out (of equal ones the youngest). Gives its value, and the node's memory.
    #[inline]
    pub fn pop_last(&mut self) -> Option<(K, V, Spare<K, V>)> {
        self.tree.back_mut().remove().map(take)
    }
    /// Takes the first node with this key out. Gives its value, and the node's memory.
    pub fn remove(&mut self, key: K) -> Option<(V, Spare<K, V>)> {
        let mut cursor = self.tree.lower_bound_mut(Bound::Included(&key));
        let (found, _) = entry(cursor.get()?);
        if found != key {
            return None;
        }
        let (_, value, spare) = take(cursor.remove()?);
        Some((value, spare))
    }

    /// All keys and values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.tree.iter().map(entry)
    }

    /// Takes out the first entry, in order, of which `wanted` is true.
    pub fn remove_where(&mut self, mut wanted: impl FnMut(K, &V) -> bool) -> Option<(K, V, Spare<K, V>)> {
        let mut cursor = self.tree.front_mut();
        while let Some(node) = cursor.get() {
            let (key, value) = entry(node);
            if wanted(key, value) {
                return cursor.remove().map(take);
            }
            cursor.move_next();
        }
        None
    }
}

#[inline]
fn entry<K: Copy, V>(node: &Node<K, V>) -> (K, &V) {
    // SAFETY: nodes are seen here only while in a tree: initialised. Values change only through entry_mut, whose caller
    // has the tree mutably.
    let (key, value) = unsafe { &*node.entry.as_ptr().cast::<(K, V)>() };
    (*key, value)
}

/// # Safety
/// The node is in a tree that is borrowed mutably for as long as the result is.
#[inline]
#[expect(clippy::mut_from_ref, reason = "the entry is in a cell; the borrow is of the tree")]
unsafe fn entry_mut<K: Copy, V>(node: &Node<K, V>) -> (K, &mut V) {
    // SAFETY: the caller's word; entries are in cells, so a shared node may be written.
    let (key, value) = unsafe { &mut *node.entry.as_ptr().cast::<(K, V)>() };
    (*key, value)
}

#[inline]
fn take<K, V>(node: Object<Node<K, V>>) -> (K, V, Spare<K, V>) {
    // SAFETY: the node has just left a tree: initialised; what stays behind is a spare, whose entry is not looked at.
    let (key, value) = unsafe { node.entry.replace(MaybeUninit::uninit()).assume_init() };
    (key, value, Spare(node))
}

impl<K: Ord + Copy, V> Default for Tree<K, V> {
    fn default() -> Self {
        Tree::new()
    }
}

impl<K: Ord + Copy, V> Drop for Tree<K, V> {
    fn drop(&mut self) {
        while let Some((_, value, spare)) = self.pop_first() {
            drop(value);
            drop(spare);
        }
    }
}

impl<K: Ord + Copy + fmt::Debug, V: fmt::Debug> fmt::Debug for Tree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
