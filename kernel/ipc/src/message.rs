//! A message of a queue: a header with inline data, then segments.
//!
//! **Purpose.** The one object that both kinds of message queues carry. Its content comes from a user's memory once and
//! goes to a user's memory once; in between only the pointer moves.
//!
//! **How it works.** The layout is Linux's, so that a message of a given length comes from the same size class: a header
//! of [`HEADER`] bytes, inline data up to the end of a page, and what does not fit in segments of a page each. A message
//! has two types, so that no half-made one can be mistaken for a whole one:
//! * a [`Blank`] has the memory for a message of its length, and no readable content;
//! * a [`Message`] was filled to its last byte by a [`Source`].
//!
//! The memory is charged to the task that allocates it, under whatever accounting model runs, and is given back to the
//! same account whoever frees it: slab keeps the owner with the object.

use core::fmt;
use core::ops::ControlFlow;
use memcg::TaskMemcg;
use slab::{AllocError, Fault, Fifo, Gfp, Object, PAGE_SIZE, Sink, Slab, Source};

/// Bytes before the inline data (Linux: `sizeof(struct msg_msg)`).
pub const HEADER: usize = Object::<Header>::OVERHEAD;
/// The most inline data, in bytes (Linux: `DATALEN_MSG`).
pub const MAX_INLINE: usize = PAGE_SIZE - HEADER;
/// The most data in a segment, in bytes (Linux: `DATALEN_SEG`; its segment header is a word shorter).
pub const MAX_SEGMENT: usize = PAGE_SIZE - Object::<Segment>::OVERHEAD;

const _: () = assert!(HEADER == 48 && MAX_INLINE == 4048 && MAX_SEGMENT == 4080);

/// Owner of a blank whose task moved to another cgroup while it was allocated: nobody in particular.
const NOBODY: u32 = u32::MAX;

/// What precedes the inline data, besides slab's own 16 bytes.
struct Header {
    /// Data beyond [`MAX_INLINE`].
    segments: Fifo<Segment>,
    /// Priority (POSIX) or type (System V). Set when the message is sent.
    kind: i64,
    /// Total length and payer, compared as one word by the message cache. Immutable.
    label: Label,
}

/// What follows the header's page: a page-sized piece of data.
struct Segment;

/// What makes a blank fit for a new message: that it has the right length and is on the right account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(u64);

impl Label {
    /// A label that no blank has.
    pub(crate) const NONE: Label = Label(u64::MAX);

    /// `length` fits 32 bits (a longer one cannot be allocated, so that its label fits no blank).
    #[inline(always)]
    pub(crate) fn new(length: usize, task: &TaskMemcg) -> Label {
        Label::of(length, task.cgroup().id().index() as u32)
    }
    #[inline(always)]
    const fn of(length: usize, owner: u32) -> Label {
        Label((owner as u64) << 32 | length as u64 & 0xffff_ffff)
    }
    #[inline(always)]
    const fn length(self) -> usize {
        self.0 as u32 as usize
    }
    /// Number of the cgroup that the task was in when the memory was allocated ([`memcg::KmemId::index`]).
    #[inline(always)]
    pub(crate) const fn owner(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// Memory for a message: not readable.
pub struct Blank {
    object: Object<Header>,
}

/// A whole message.
pub struct Message {
    object: Object<Header>,
}

impl Blank {
    /// Takes memory for a message of `length` bytes, charged to `task`, the running one.
    ///
    /// # Errors
    /// No memory, or the task's cgroup is at its limit; then nothing is kept.
    #[inline]
    pub fn alloc(slab: &Slab, task: &TaskMemcg, length: usize) -> Result<Blank, AllocError> {
        if u32::try_from(length).is_err() {
            return Err(AllocError::NoMemory);
        }
        let header = Header {
            segments: Fifo::new(),
            kind: 0,
            label: Label::new(length, task),
        };
        let inline = length.min(MAX_INLINE);
        let object = Object::try_new(slab, Gfp::ACCOUNT, task, header, inline)?;
        let mut blank = Blank { object };
        if length > inline {
            blank.add_segments(slab, task, length - inline)?;
        }
        // The task was moved between the reading of its cgroup and the charge: who pays is not known here. Such a
        // blank serves once and is not kept for reuse.
        if Label::new(length, task) != blank.object.label {
            blank.object.label = Label::of(length, NOBODY);
        }
        Ok(blank)
    }

    #[cold]
    #[inline(never)]
    fn add_segments(&mut self, slab: &Slab, task: &TaskMemcg, mut rest: usize) -> Result<(), AllocError> {
        while rest > 0 {
            let length = rest.min(MAX_SEGMENT);
            let segment = Object::try_new(slab, Gfp::ACCOUNT, task, Segment, length)?;
            self.object.segments.push(segment);
            rest -= length;
        }
        Ok(())
    }

    /// Length of the message that it is for, in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a message of no bytes is a message")]
    pub fn len(&self) -> usize {
        self.object.label.length()
    }

    #[inline(always)]
    pub(crate) fn label(&self) -> Label {
        self.object.label
    }

    /// Fills it with its length of bytes from `source`. On a fault the blank comes back, as blank as it was.
    #[inline]
    pub fn fill(mut self, source: &mut (impl Source + ?Sized)) -> Result<Message, (Blank, Fault)> {
        let inline = self.object.inline_len();
        if let Err(fault) = self.object.fill(0..inline, source) {
            return Err((self, fault));
        }
        if !self.object.segments.is_empty()
            && let Err(fault) = self.fill_segments(source)
        {
            return Err((self, fault));
        }
        Ok(Message { object: self.object })
    }

    #[cold]
    fn fill_segments(&mut self, source: &mut (impl Source + ?Sized)) -> Result<(), Fault> {
        for mut segment in self.object.segments.iter_mut() {
            let length = segment.inline_len();
            segment.fill(0..length, source)?;
        }
        Ok(())
    }
}

impl Message {
    /// Its length in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a message of no bytes is a message")]
    pub fn len(&self) -> usize {
        self.object.label.length()
    }

    /// Priority (POSIX) or type (System V).
    #[inline(always)]
    pub fn kind(&self) -> i64 {
        self.object.kind
    }

    #[inline(always)]
    pub(crate) fn set_kind(&mut self, kind: i64) {
        self.object.kind = kind;
    }

    /// Copies its first `length` bytes, or all of them if there are fewer, to `sink`.
    #[inline]
    pub fn copy_out(&self, sink: &mut (impl Sink + ?Sized), length: usize) -> Result<(), Fault> {
        let inline = length.min(self.object.filled());
        self.object.copy_to(0..inline, sink)?;
        if length > inline && !self.object.segments.is_empty() {
            self.copy_segments(sink, length - inline)?;
        }
        Ok(())
    }

    #[cold]
    fn copy_segments(&self, sink: &mut (impl Sink + ?Sized), mut rest: usize) -> Result<(), Fault> {
        for segment in self.object.segments.iter() {
            let length = rest.min(segment.filled());
            segment.copy_to(0..length, sink)?;
            rest -= length;
        }
        Ok(())
    }

    /// Gives up the content.
    #[inline(always)]
    pub fn into_blank(self) -> Blank {
        Blank { object: self.object }
    }
}

/// Messages of one priority, first in first out.
pub(crate) struct Messages(Fifo<Header>);

impl Messages {
    pub(crate) const fn new() -> Messages {
        Messages(Fifo::new())
    }
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    #[inline(always)]
    pub(crate) fn push(&mut self, message: Message) {
        self.0.push(message.object);
    }
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.0.pop().map(|object| Message { object })
    }
    /// Length and kind of the oldest.
    #[inline(always)]
    pub(crate) fn front(&self) -> Option<(usize, i64)> {
        self.0.front().map(|header| (header.label.length(), header.kind))
    }
    /// All, the oldest first.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = i64> {
        self.0.iter().map(|object| object.kind)
    }
    /// Shows length and kind of each, the oldest first, until `f` breaks off; takes out the one it broke off at if it
    /// says so.
    pub(crate) fn take_where(&mut self, mut f: impl FnMut(usize, i64) -> ControlFlow<bool>) -> Option<Message> {
        let object = self.0.take_where(|header| f(header.label.length(), header.kind))?;
        Some(Message { object })
    }
    /// The one before which there are `index`.
    pub(crate) fn nth(&self, index: usize) -> Option<Lent<'_>> {
        self.0.iter().nth(index).map(Lent)
    }
}

/// A message in a queue, looked at.
pub(crate) struct Lent<'a>(&'a Object<Header>);

impl Lent<'_> {
    pub(crate) fn len(&self) -> usize {
        self.0.label.length()
    }
    pub(crate) fn kind(&self) -> i64 {
        self.0.kind
    }
    /// Overwrites the first bytes of `into` with its own.
    ///
    /// # Panics
    /// When it is longer.
    pub(crate) fn copy_into(&self, into: &mut Message) {
        assert!(self.len() <= into.len(), "a copy of {} bytes into {into:?}", self.len());
        let whole = "a slice gives all of its bytes";
        let mut from = self.0.bytes_filled();
        into.object.fill(0..from.len(), &mut from).expect(whole);
        for (mut to, from) in into.object.segments.iter_mut().zip(self.0.segments.iter()) {
            let mut from = from.bytes_filled();
            to.fill(0..from.len(), &mut from).expect(whole);
        }
    }
}

impl fmt::Debug for Blank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blank({} bytes)", self.len())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({} bytes, kind {})", self.len(), self.kind())
    }
}
