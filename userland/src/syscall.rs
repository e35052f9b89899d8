//! The two instructions by which a program reaches outside itself: `syscall` and `rdtsc`.
//!
//! Numbers, argument order and registers are those of the x86-64 Linux ABI (syscall(2)): number in rax, arguments in
//! rdi, rsi, rdx, r10, r8, r9, result in rax, rcx and r11 lost; a result in -4095..=-1 is an error number negated.
//! Every call is inlined, so that nothing but the argument registers' set-up stands between a caller's two clock
//! readings and the instruction.

use core::arch::asm;
use core::ffi::CStr;

use crate::errno::Errno;

const WRITE: usize = 1;
const CLOSE: usize = 3;
const GETPPID: usize = 110;
const CLOCK_GETTIME: usize = 228;
const EXIT_GROUP: usize = 231;
const MQ_OPEN: usize = 240;
const MQ_UNLINK: usize = 241;
const MQ_TIMEDSEND: usize = 242;
const MQ_TIMEDRECEIVE: usize = 243;

/// An open file, by its number (as in the ABI: an `int`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor(pub u32);

/// `struct mq_attr` of mq_getattr(3): eight longs, four of them reserved.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MqAttributes {
    /// 0 or `O_NONBLOCK`; ignored by `mq_open`.
    pub flags: i64,
    /// Messages that the queue holds at most.
    pub max_messages: i64,
    /// Bytes of the longest message.
    pub message_size: i64,
    /// Messages in the queue now; ignored by `mq_open`.
    pub current_messages: i64,
    reserved: [i64; 4],
}

impl MqAttributes {
    /// Of a queue of at most `max_messages`, each of at most `message_size` bytes.
    pub const fn new(max_messages: i64, message_size: i64) -> MqAttributes {
        MqAttributes {
            flags: 0,
            max_messages,
            message_size,
            current_messages: 0,
            reserved: [0; 4],
        }
    }
}

/// `struct timespec`: seconds and nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Timespec {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds below a second.
    pub nanoseconds: i64,
}

/// The raw call with `N` arguments.
///
/// # Safety
/// The kernel may write wherever an argument that it takes for an address points to, and read what such an argument
/// points to as bytes: the caller answers for every such address, for the whole length that the call gives it.
macro_rules! syscall {
    ($number:expr $(, $register:tt = $argument:expr)*) => {{
        let result: isize;
        asm!(
            "syscall",
            inlateout("rax") $number => result,
            $(in($register) $argument,)*
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
        result
    }};
}

/// The kernel's result, told apart into value and error number.
#[inline(always)]
fn checked(result: isize) -> Result<usize, Errno> {
    match result {
        -4095..=-1 => Err(Errno(result.unsigned_abs() as u16)),
        value => Ok(value as usize),
    }
}

/// write(2). Returns the bytes written, at most those given.
pub fn write(to: Descriptor, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `bytes.len()` bytes from the start of a live slice and writes nothing of ours.
    checked(unsafe {
        syscall!(
            WRITE,
            "rdi" = to.0 as usize,
            "rsi" = bytes.as_ptr(),
            "rdx" = bytes.len()
        )
    })
}

/// close(2).
pub fn close(file: Descriptor) -> Result<(), Errno> {
    // SAFETY: no argument is an address; a descriptor is a number, not memory.
    checked(unsafe { syscall!(CLOSE, "rdi" = file.0 as usize) }).map(drop)
}

/// getppid(2): the parent's process number, 0 where it is outside the namespace. Cannot fail.
#[inline(always)]
pub fn getppid() -> usize {
    // SAFETY: the call takes no argument.
    unsafe { syscall!(GETPPID) as usize }
}

/// `CLOCK_MONOTONIC_RAW` of clock_gettime(2), in nanoseconds since some start: no adjustment bends it.
pub fn monotonic_raw() -> Result<u64, Errno> {
    const CLOCK_MONOTONIC_RAW: usize = 4;
    let mut now = Timespec::default();
    // SAFETY: the kernel writes one `struct timespec`, and `now` is one, ours alone for the call.
    checked(unsafe { syscall!(CLOCK_GETTIME, "rdi" = CLOCK_MONOTONIC_RAW, "rsi" = &raw mut now) })?;
    Ok(now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64)
}

/// exit_group(2): ends the program; the parent sees the low eight bits of the status.
pub fn exit_group(status: u8) -> ! {
    // SAFETY: no argument is an address, and the call does not return.
    unsafe {
        asm!("syscall", "ud2", in("rax") EXIT_GROUP, in("rdi") usize::from(status), options(noreturn, nostack));
    }
}

/// mq_open(2). `name` without the leading slash that mq_open(3) asks for: the kernel wants it stripped.
pub fn mq_open(name: &CStr, flags: i32, mode: u32, attributes: &MqAttributes) -> Result<Descriptor, Errno> {
    // SAFETY: the kernel reads `name` up to its zero and one `struct mq_attr`; both are live, and it writes neither.
    let result = unsafe {
        syscall!(
            MQ_OPEN,
            "rdi" = name.as_ptr(),
            "rsi" = flags as isize,
            "rdx" = mode as usize,
            "r10" = core::ptr::from_ref(attributes)
        )
    };
    checked(result).map(|number| Descriptor(number as u32))
}

/// mq_unlink(2), `name` as for [`mq_open`].
pub fn mq_unlink(name: &CStr) -> Result<(), Errno> {
    // SAFETY: the kernel reads `name` up to its zero and writes nothing of ours.
    checked(unsafe { syscall!(MQ_UNLINK, "rdi" = name.as_ptr()) }).map(drop)
}

/// mq_timedsend(2) without a timeout: what mq_send(3) calls.
#[inline(always)]
pub fn mq_send(queue: Descriptor, message: &[u8], priority: u32) -> Result<(), Errno> {
    // SAFETY: the kernel reads `message.len()` bytes from the start of a live slice; a null timeout is read as none.
    let result = unsafe {
        syscall!(
            MQ_TIMEDSEND,
            "rdi" = queue.0 as usize,
            "rsi" = message.as_ptr(),
            "rdx" = message.len(),
            "r10" = priority as usize,
            "r8" = 0usize
        )
    };
    checked(result).map(drop)
}

/// mq_timedreceive(2) without a timeout and without asking for the priority: mq_receive(3) with a null priority.
/// Returns the message's length.
#[inline(always)]
pub fn mq_receive(queue: Descriptor, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes from the start of a slice that is ours alone; null for
    // the priority and for the timeout is taken as 'not wanted'.
    checked(unsafe {
        syscall!(
            MQ_TIMEDRECEIVE,
            "rdi" = queue.0 as usize,
            "rsi" = buffer.as_mut_ptr(),
            "rdx" = buffer.len(),
            "r10" = 0usize,
            "r8" = 0usize
        )
    })
}

/// The time-stamp counter, in ticks. Not a fence: the instructions around it may overlap on real hardware, as in the
/// measurement that this one repeats.
#[inline(always)]
pub fn rdtsc() -> u64 {
    // SAFETY: rdtsc reads a counter, touches no memory, and ring 3 may execute it unless CR4.TSD is set, which would
    // be a signal and not undefined behaviour.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Any call with any arguments; the kernel's result as it is.
///
/// # Safety
/// The caller answers for every address among the arguments, and for what the call does to the process: to its memory, its
/// descriptors, its other threads.
#[inline(always)]
pub unsafe fn raw(number: usize, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's.
    unsafe {
        syscall!(
            number,
            "rdi" = arguments[0],
            "rsi" = arguments[1],
            "rdx" = arguments[2],
            "r10" = arguments[3],
            "r8" = arguments[4],
            "r9" = arguments[5]
        )
    }
}

/// clone(2) for a thread that begins in `entry(argument)` with its stack at `stack`. The kernel's result.
///
/// # Safety
/// `flags` share the memory; `stack` is the top of a mapping, a multiple of 16, that is the thread's alone and stays.
pub unsafe fn thread(flags: usize, stack: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> isize {
    const CLONE: usize = 56;
    let result: isize;
    // SAFETY: the child has its own stack (caller) and goes to `entry`, which does not return; the parent goes on behind.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") CLONE => result,
            in("rdi") flags,
            in("rsi") stack,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") argument,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}
