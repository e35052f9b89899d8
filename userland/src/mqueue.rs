//! Flags of POSIX message queues (mq_open(3), fcntl.h of x86-64 Linux).

/// Open for receiving and sending.
pub const O_RDWR: i32 = 0o2;
/// Make the queue if it is not there.
pub const O_CREAT: i32 = 0o100;
/// Fail with EAGAIN instead of waiting.
pub const O_NONBLOCK: i32 = 0o4000;
