//! The raw netlink socket, as far as mq_notify(3) needs it.
//!
//! The C library opens one of `NETLINK_ROUTE` and hands it to mq_notify(2) with a cookie; the kernel puts the cookie into
//! the socket when the registration ends, and a thread of the library reads it there (`SIGEV_THREAD`). There is no routing
//! table behind it: what a program sends is refused.
//!
//! A registration takes its place in the socket's queue when it is made ([`Place`]), so a message that fires it cannot
//! find the queue full, nor memory short. A place keeps the socket alive after its last descriptor is closed; what is
//! put there then is read by nobody and goes with it.
//!
//! **Lock order.** The queue's lock has rank 23; the heap under it.

use super::Address;
use crate::fs::wait::WaitQueue;
use crate::mm::shared::Shared;
use crate::syscall::errno::{Errno, Result};
use alloc::collections::VecDeque;
use cpu::SpinLock;
use ipc::mqueue::COOKIE_LEN;
use linux_raw_sys::{general, net};

/// A cookie of mq_notify(2).
pub type Cookie = [u8; COOKIE_LEN];

/// Cookies and places at once: what a socket of Linux's default buffer (`net.core.rmem_default`) takes of so short ones.
const MOST: usize = 277;

#[derive(Default)]
struct Queue {
    cookies: VecDeque<Cookie>,
    /// Places taken and not filled. The cookies' memory has room for them.
    places: usize,
}

/// A socket.
pub struct Netlink {
    queue: SpinLock<Queue>,
    waiters: WaitQueue,
}

/// A place in a socket's queue for one cookie.
pub struct Place(Shared<Netlink>);

impl Netlink {
    /// Nothing to read.
    pub fn new() -> Netlink {
        Netlink {
            queue: SpinLock::new(23, Queue::default()),
            waiters: WaitQueue::new(),
        }
    }

    /// The first cookie; it stays where `peek` says so. EAGAIN, ERESTARTSYS.
    pub fn receive(&self, peek: bool, nonblocking: bool) -> Result<Cookie> {
        loop {
            let taken = {
                let mut queue = self.queue.lock();
                match peek {
                    true => queue.cookies.front().copied(),
                    false => queue.cookies.pop_front(),
                }
            };
            if let Some(cookie) = taken {
                // There is room again for who waits for a place.
                self.waiters.wake();
                return Ok(cookie);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            self.waiters.wait(None, || !self.queue.lock().cookies.is_empty())?;
        }
    }

    /// poll(2).
    pub fn poll(&self) -> u32 {
        let readable = match self.queue.lock().cookies.is_empty() {
            true => 0,
            false => general::POLLIN | general::POLLRDNORM,
        };
        readable | general::POLLOUT | general::POLLWRNORM
    }

    /// Who waits.
    pub fn waiters(&self) -> &WaitQueue {
        &self.waiters
    }
}

impl Queue {
    fn has_room(&self) -> bool {
        self.cookies.len() + self.places < MOST
    }
}

impl Place {
    /// Takes a place, as soon as there is one. ENOMEM, ERESTARTSYS.
    pub fn take(socket: &Shared<Netlink>) -> Result<Place> {
        loop {
            {
                let mut queue = socket.queue.lock();
                if queue.has_room() {
                    let more = queue.places + 1;
                    queue.cookies.try_reserve(more)?;
                    queue.places = more;
                    return Ok(Place(socket.clone()));
                }
            }
            socket.waiters.wait(None, || socket.queue.lock().has_room())?;
        }
    }

    /// Puts a cookie there.
    pub fn fill(&self, cookie: Cookie) {
        // Within the memory that the place stands for: each is filled once, before it is dropped.
        self.0.queue.lock().cookies.push_back(cookie);
        self.0.waiters.wake();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.queue.lock().places -= 1;
        self.0.waiters.wake();
    }
}

/// The kernel's address, from which cookies come: a `struct sockaddr_nl` of port 0.
pub fn kernel_address() -> Address {
    let mut address = Address::new();
    // Twelve bytes of a hundred and ten.
    address.extend((net::AF_NETLINK as u16).to_ne_bytes());
    address.extend([0; 10]);
    address
}
