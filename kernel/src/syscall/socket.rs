//! System calls on sockets: socket(7), unix(7), netlink(7).

use super::errno::{Errno, Result};
use super::file::{buffers_of, install, shared_file};
use super::user::UserPtr;
use crate::arch::usercopy;
use crate::fs::file::{File, Object, UserBuffer};
use crate::fs::filesystems;
use crate::fs::node::Kind;
use crate::mm::shared::Shared;
use crate::mm::tasks::Current;
use crate::net::Socket;
use crate::net::buffers::Buffers;
use crate::net::netlink::Netlink;
use crate::user_struct;
use linux_raw_sys::{general, net};

/// The bits of a type that say how the descriptor is made.
const MODES: u32 = SOCK_CLOEXEC | SOCK_NONBLOCK;
const SOCK_CLOEXEC: u32 = general::O_CLOEXEC;
const SOCK_NONBLOCK: u32 = general::O_NONBLOCK;
/// The types end here (`SOCK_MAX`); families: `NPROTO`.
const TYPES: u32 = 11;
const FAMILIES: u32 = 46;

/// A descriptor for a socket.
fn open(current: &Current, socket: Socket, modes: u32) -> Result<i32> {
    let credentials = current.process.credentials();
    let place = filesystems::nameless(Kind::Special((0, 0)), general::S_IFSOCK | 0o777, &credentials)?;
    let flags = general::O_RDWR | modes & SOCK_NONBLOCK;
    let file = File::try_new_at(Object::Socket(socket), flags, place, None)?;
    install(current, file, 0, modes & SOCK_CLOEXEC != 0)
}

pub(super) fn socket(family: u32, kind: u32, protocol: u32) -> Result<i32> {
    let (kind, modes) = (kind & 0xf, kind & !0xf);
    if modes & !MODES != 0 {
        return Err(Errno::EINVAL);
    }
    if family >= FAMILIES {
        return Err(Errno::EAFNOSUPPORT);
    }
    if kind >= TYPES {
        return Err(Errno::EINVAL);
    }
    let socket = match family {
        net::AF_NETLINK => match (kind, protocol) {
            (net::SOCK_RAW | net::SOCK_DGRAM, NETLINK_ROUTE) => Socket::Netlink(Shared::try_new(Netlink::new())?),
            (net::SOCK_RAW | net::SOCK_DGRAM, _) => return Err(Errno::EPROTONOSUPPORT),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        },
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    open(&Current::get(), socket, modes)
}

/// `NETLINK_ROUTE`
const NETLINK_ROUTE: u32 = 0;

/// Runs `f` on the socket of a descriptor. EBADF, ENOTSOCK.
fn with_socket<R>(descriptor: i32, f: impl FnOnce(&File, &Socket) -> Result<R>) -> Result<R> {
    let file = shared_file(descriptor)?;
    match &file.object {
        Object::Socket(socket) => f(&file, socket),
        Object::Path => Err(Errno::EBADF),
        _ => Err(Errno::ENOTSOCK),
    }
}

/// The netlink socket of a descriptor. EBADF, ENOTSOCK, EINVAL for one of another family.
#[allow(clippy::unnecessary_wraps, reason = "more families come")]
pub(super) fn netlink_of(descriptor: i32) -> Result<Shared<Netlink>> {
    with_socket(descriptor, |_, socket| match socket {
        Socket::Netlink(socket) => Ok(socket.clone()),
    })
}

user_struct! {
    /// `struct msghdr`
    pub(super) struct Header {
        name: u64,
        name_length: u32,
        gap: u32,
        buffers: u64,
        count: usize,
        control: u64,
        control_length: usize,
        flags: u32,
        end: u32,
    }
}

/// Writes an address, cut to the room that `length` says, and its true length there. EINVAL for a negative room.
fn write_address(address: &[u8], to: u64, length: UserPtr<u32>) -> Result<()> {
    let room = length.read()? as i32;
    if room < 0 {
        return Err(Errno::EINVAL);
    }
    usercopy::copy_to_user(to, &address[..address.len().min(room as usize)])?;
    length.write(&(address.len() as u32))
}

pub(super) fn recvfrom(
    descriptor: i32,
    to: u64,
    length: usize,
    flags: u32,
    address: u64,
    address_length: UserPtr<u32>,
) -> Result<usize> {
    let buffers = Buffers::one(UserBuffer::checked(to, length)?)?;
    with_socket(descriptor, |file, socket| {
        let received = socket.receive(&buffers, flags, file.nonblocking())?;
        if address != 0 {
            write_address(received.from.as_deref().unwrap_or_default(), address, address_length)?;
        }
        Ok(received.result)
    })
}

pub(super) fn recvmsg(descriptor: i32, message: UserPtr<Header>, flags: u32) -> Result<usize> {
    with_socket(descriptor, |file, socket| {
        let mut header = message.read()?;
        if (header.name_length as i32) < 0 {
            return Err(Errno::EINVAL);
        }
        let buffers = buffers_of(UserPtr::new(header.buffers), header.count)?;
        let received = socket.receive(&buffers, flags, file.nonblocking())?;
        if header.name != 0 {
            let from = received.from.as_deref().unwrap_or_default();
            usercopy::copy_to_user(header.name, &from[..from.len().min(header.name_length as usize)])?;
            header.name_length = from.len() as u32;
        }
        header.flags = received.flags | flags & net::MSG_CMSG_CLOEXEC;
        header.control_length = 0;
        message.write(&header)?;
        Ok(received.result)
    })
}
