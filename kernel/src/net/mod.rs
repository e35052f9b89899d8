//! Sockets: files by which tasks speak with each other.
//!
//! **Purpose.** What socket(2) and its relatives ask for, as far as there is anybody to speak with inside one machine: the
//! netlink socket that mq_notify(3) reads ([`netlink`]). There is no network.
//!
//! **How it works.** A socket is a file ([`crate::fs::file::Object::Socket`]); a call on it ends here, in the family that
//! it belongs to. Bytes cross the border to user memory by way of buffers of the kernel's ([`buffers`]), because user
//! memory is not touched under a lock.
//!
//! **Lock order.** A netlink socket (23); lines of waiters (27).

pub mod buffers;
pub mod netlink;

use crate::fs::wait::WaitQueue;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use arrayvec::ArrayVec;
use buffers::Buffers;
use linux_raw_sys::net;
use netlink::Netlink;

/// The bytes of a `struct sockaddr`, the family included: of a local name 110 at most.
pub type Address = ArrayVec<u8, 110>;

/// A socket, by its family.
pub enum Socket {
    /// `AF_NETLINK`
    Netlink(Shared<Netlink>),
}

/// What a receive gave, its bytes in the buffers.
pub struct Received {
    /// What the call returns: bytes put into the buffers, or with `MSG_TRUNC` those that there were.
    pub result: usize,
    /// `MSG_*`
    pub flags: u32,
    /// From whom, where the family says that.
    pub from: Option<Address>,
}

impl Socket {
    /// Receives into buffers. `flags`: `MSG_*`.
    pub fn receive(&self, into: &Buffers, flags: u32, nonblocking: bool) -> Result<Received> {
        let nonblocking = nonblocking || flags & net::MSG_DONTWAIT != 0;
        match self {
            Socket::Netlink(socket) => {
                let cookie = socket.receive(flags & net::MSG_PEEK != 0, nonblocking)?;
                let fits = cookie.len().min(into.length());
                into.write_at(0, &cookie[..fits])?;
                let whole = flags & net::MSG_TRUNC != 0;
                Ok(Received {
                    result: if whole { cookie.len() } else { fits },
                    flags: if fits < cookie.len() { net::MSG_TRUNC } else { 0 },
                    from: Some(netlink::kernel_address()),
                })
            }
        }
    }

    /// What a program sends: EOPNOTSUPP, since nobody listens.
    pub fn send(&self) -> Result<usize> {
        match self {
            Socket::Netlink(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// poll(2).
    pub fn poll(&self) -> u32 {
        match self {
            Socket::Netlink(socket) => socket.poll(),
        }
    }

    /// Who waits.
    pub fn waiters(&self) -> &WaitQueue {
        match self {
            Socket::Netlink(socket) => socket.waiters(),
        }
    }
}
