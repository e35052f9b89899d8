//! The terminal: the serial line that programs write to and read from.
//!
//! Output goes out as it is where the log has a port of its own. Input is what has arrived; a reader waits for the first
//! byte by looking once a [`PERIOD`]. There is no line editing and no echo: what the host sends is what a program gets.

use super::file::UserBuffer;
use crate::arch::{serial, usercopy};
use crate::mm::tasks::Current;
use crate::syscall::errno::{Errno, Result};
use crate::task::{self, clock};
use cpu::SpinLock;
use linux_raw_sys::general;

/// Bytes copied at a time.
const CHUNK: usize = 512;
/// Nanoseconds between two looks for input.
const PERIOD: u64 = 10_000_000;

/// One byte of input that poll(2) has seen and nobody has read.
static SEEN: SpinLock<Option<u8>> = SpinLock::new(17, None);

/// Sends a program's bytes. The whole buffer, unless it ends at memory that is not readable.
pub fn write(buffer: UserBuffer) -> Result<usize> {
    let mut done = 0;
    let mut chunk = [0; CHUNK];
    while done < buffer.length {
        let part = &mut chunk[..CHUNK.min(buffer.length - done)];
        match usercopy::copy_from_user(part, buffer.address + done as u64) {
            Ok(()) => crate::log::console(part),
            Err(_) if done > 0 => break,
            Err(fault) => return Err(fault.into()),
        }
        done += part.len();
    }
    Ok(done)
}

/// Waits for input and gives what is there. EAGAIN instead of waiting, EINTR at a signal.
pub fn read(buffer: UserBuffer, nonblocking: bool) -> Result<usize> {
    let mut chunk = [0; CHUNK];
    let wanted = CHUNK.min(buffer.length);
    if wanted == 0 {
        return Ok(0);
    }
    let current = Current::get();
    let arrived = loop {
        let arrived = take(&mut chunk[..wanted]);
        if arrived > 0 {
            break arrived;
        }
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
        current.prepare_to_sleep();
        if current.signal_pending() {
            current.cancel_sleep();
            return Err(task::signal::interrupted(&current, Errno::ERESTARTSYS));
        }
        task::schedule_until(Some(clock::monotonic() + PERIOD));
    };
    usercopy::copy_to_user(buffer.address, &chunk[..arrived])?;
    Ok(arrived)
}

fn take(into: &mut [u8]) -> usize {
    let mut seen = SEEN.lock();
    let bytes = core::iter::from_fn(|| seen.take().or_else(|| serial::CONSOLE.read()));
    let mut count = 0;
    for (place, byte) in into.iter_mut().zip(bytes) {
        // A terminal's return key, as a program expects it (ICRNL).
        *place = if byte == b'\r' { b'\n' } else { byte };
        count += 1;
    }
    count
}

/// `POLLIN` if there is input.
pub fn readable() -> u32 {
    let mut seen = SEEN.lock();
    if seen.is_none() {
        *seen = serial::CONSOLE.read();
    }
    if seen.is_some() {
        general::POLLIN | general::POLLRDNORM
    } else {
        0
    }
}

/// ioctl(2) of a terminal: enough for isatty(3) and the size.
pub fn control(request: u32, argument: u64) -> Result<usize> {
    use crate::syscall::user::UserPtr;
    use linux_raw_sys::ioctl;
    match request {
        ioctl::TCGETS => UserPtr::new(argument).write(&SETTINGS)?,
        ioctl::TIOCGWINSZ => {
            let size = general::winsize {
                ws_row: 0,
                ws_col: 0,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            UserPtr::new(argument).write(&size)?;
        }
        _ => return Err(Errno::ENOTTY),
    }
    Ok(0)
}

/// The settings that a terminal of Linux begins with (`tty_std_termios`), but for editing and echo.
const SETTINGS: general::termios = general::termios {
    c_iflag: general::ICRNL | general::IXON,
    c_oflag: general::OPOST | general::ONLCR,
    c_cflag: general::B115200 | general::CS8 | general::CREAD | general::HUPCL,
    c_lflag: general::ISIG | general::IEXTEN,
    c_line: 0,
    c_cc: [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0, 0, 0],
};
