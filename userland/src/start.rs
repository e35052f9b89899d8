//! From the kernel's first instruction to `main`: the initial stack and its three lists.
//!
//! The x86-64 System V ABI (process initialisation) leaves at rsp: the argument count, that many pointers and a null,
//! the environment's pointers and a null, then pairs of key and value up to the key 0. All of it stays in place for
//! the life of the process, so what is handed out here is `'static`.

use core::ffi::{CStr, c_char};
use core::panic::PanicInfo;

use crate::syscall::exit_group;

/// The status of a program that panicked, as Rust's own runtime gives it.
const PANICKED: u8 = 101;

/// What the kernel gave the process at its start.
pub struct Process {
    /// Address of the argument count: the caller of `begin` answers for it. Immutable.
    stack: *const usize,
}

impl Process {
    /// The arguments, the program's name first.
    pub fn arguments(&self) -> impl Iterator<Item = &'static CStr> {
        // SAFETY: `stack` points at the argument count, and the list of pointers follows it (`begin`'s condition).
        let next = unsafe { self.stack.add(1) };
        Strings { next }
    }

    /// The environment, as `NAME=value` strings.
    pub fn environment(&self) -> impl Iterator<Item = &'static CStr> {
        Strings {
            next: self.environment_start(),
        }
    }

    /// The value that the kernel left in the auxiliary vector under `key` (getauxval(3)).
    pub fn auxiliary(&self, key: usize) -> Option<usize> {
        let mut at = self.environment_start();
        // SAFETY: the environment's pointers end in a null, the vector of pairs follows it and ends in a pair whose key
        // is 0: no read goes past that key.
        unsafe {
            while *at != 0 {
                at = at.add(1);
            }
            at = at.add(1);
            while *at != 0 {
                if *at == key {
                    return Some(*at.add(1));
                }
                at = at.add(2);
            }
        }
        None
    }

    fn environment_start(&self) -> *const usize {
        // SAFETY: as many pointers as the argument count says and one null follow the count (`begin`'s condition).
        unsafe { self.stack.add(*self.stack + 2) }
    }
}

/// The strings of a list of pointers that ends in a null.
struct Strings {
    next: *const usize,
}

impl Iterator for Strings {
    type Item = &'static CStr;

    fn next(&mut self) -> Option<&'static CStr> {
        // SAFETY: 1. `next` points into a list that ends in a null, and is not moved past it. 2. Each pointer before
        // the null is the address of a string with its zero, which the process never frees.
        unsafe {
            let string = *self.next as *const c_char;
            if string.is_null() {
                return None;
            }
            self.next = self.next.add(1);
            Some(CStr::from_ptr(string))
        }
    }
}

/// Makes `$main`, a `fn(&Process) -> u8`, the program: its result is the exit status.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        /// Where the kernel starts the program.
        // SAFETY: the name is the one that the linker takes for the entry, and no other item of a program bears it.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn _start() -> ! {
            extern "C" fn program(stack: *const usize) -> ! {
                let main: fn(&$crate::start::Process) -> u8 = $main;
                // SAFETY: `_start` passes the stack pointer as the kernel left it.
                unsafe { $crate::start::begin(stack, main) }
            }
            // The outermost frame has no caller (rbp 0), and a C function wants rsp on sixteen bytes before its call.
            core::arch::naked_asm!(
                "xor ebp, ebp",
                "mov rdi, rsp",
                "and rsp, -16",
                "call {program}",
                "ud2",
                program = sym program,
            )
        }
    };
}

/// Runs `main` and ends the program with its status.
///
/// # Safety
/// `stack` is the stack pointer that the kernel gave the process: the argument count stands there, and the three lists
/// follow it.
#[doc(hidden)]
pub unsafe fn begin(stack: *const usize, main: fn(&Process) -> u8) -> ! {
    exit_group(main(&Process { stack }))
}

#[panic_handler]
fn panicked(info: &PanicInfo) -> ! {
    crate::eprintln!("{info}");
    exit_group(PANICKED)
}
