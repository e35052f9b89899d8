//! The serial ports: COM1 is the console, COM2 the log when the command line says `log=com2`.
//!
//! Sending is by polling: a byte that a caller gave has left when the call returns, so nothing is lost at the end of a
//! run or in a panic.
//!
//! Lock order: [`Port`]'s lock (rank 105) is innermost but for nothing.

use cpu::IrqLock;
use uart_16550::backend::PioBackend;
use uart_16550::{BaudRate, Config, Uart16550};

const COM1: u16 = 0x3f8;
const COM2: u16 = 0x2f8;

/// A serial port.
pub struct Port {
    base: u16,
    /// `None` until [`Port::init`], and for ever where no device answers.
    uart: IrqLock<Option<Uart16550<PioBackend>>>,
}

/// COM1: the program's output and input.
pub static CONSOLE: Port = Port::new(COM1);
/// COM2: the log.
pub static LOG: Port = Port::new(COM2);

impl Port {
    const fn new(base: u16) -> Port {
        Port {
            base,
            uart: IrqLock::new(105, None),
        }
    }

    /// A driver for the port; `None` where no device answers.
    fn open(&self) -> Option<Uart16550<PioBackend>> {
        // SAFETY: the base is one of the PC's two serial ports; nothing else in the kernel touches their registers.
        let mut uart = unsafe { Uart16550::new_port(self.base) }.ok()?;
        let config = Config {
            baud_rate: BaudRate::Baud115200,
            ..Config::DEFAULT
        };
        uart.init(config).ok()?;
        Some(uart)
    }

    /// Sets the port up: 115200 baud, 8 bits, no parity. Whether a device answers.
    pub fn init(&self) -> bool {
        let uart = self.open();
        let found = uart.is_some();
        *self.uart.lock() = uart;
        found
    }

    /// Sends all of `bytes` as they are.
    pub fn write(&self, bytes: &[u8]) {
        if let Some(uart) = &mut *self.uart.lock() {
            uart.send_bytes_exact(bytes);
        }
    }

    /// The next byte that has arrived.
    pub fn read(&self) -> Option<u8> {
        self.uart.lock().as_mut()?.try_receive_byte().ok()
    }

    /// A driver that does not know of the lock: for the report of a failure, whose victim may hold it.
    pub fn regardless(&self) -> Option<impl FnMut(&[u8]) + use<>> {
        let mut uart = self.open()?;
        Some(move |bytes: &[u8]| uart.send_bytes_exact(bytes))
    }
}
