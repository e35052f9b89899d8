//! The two instructions by which a program reaches outside itself: `syscall` and `rdtsc`.
//!
//! Numbers, argument order and registers are those of the x86-64 Linux ABI (syscall(2)): number in rax, arguments in
//! rdi, rsi, rdx, r10, r8, r9, result in rax, rcx and r11 lost; a result in -4095..=-1 is an error number negated.
//! Every call is inlined, so that nothing but the argument registers' set-up stands between a caller's two clock
//! readings and the instruction.

use core::arch::asm;
use core::ffi::CStr;
use core::sync::atomic::AtomicU64;

use crate::errno::Errno;

const WRITE: usize = 1;
const CLOSE: usize = 3;
const MMAP: usize = 9;
const NANOSLEEP: usize = 35;
const CLONE: usize = 56;
const EXIT: usize = 60;
const WAIT4: usize = 61;
const MSGGET: usize = 68;
const MSGSND: usize = 69;
const MSGRCV: usize = 70;
const MSGCTL: usize = 71;
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

/// A System V message queue, by its id (as in the ABI: an `int` that is not negative).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageQueue(pub u32);

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

/// msgget(2) with `IPC_PRIVATE` and mode 0600: a fresh System V queue.
pub fn msgget() -> Result<MessageQueue, Errno> {
    // SAFETY: no argument is an address.
    checked(unsafe { syscall!(MSGGET, "rdi" = 0usize, "rsi" = 0o1600usize) }).map(|id| MessageQueue(id as u32))
}

/// msgctl(2) with `IPC_RMID`: removes a queue.
pub fn msg_remove(queue: MessageQueue) -> Result<(), Errno> {
    // SAFETY: the command reads and writes no memory of ours.
    checked(unsafe { syscall!(MSGCTL, "rdi" = queue.0 as usize, "rsi" = 0usize, "rdx" = 0usize) }).map(drop)
}

/// A System V message: its type, above 0, and its text.
#[repr(C, align(64))]
pub struct MessageBuffer<const N: usize> {
    /// The type.
    pub kind: i64,
    /// The text.
    pub text: [u8; N],
}

/// msgsnd(2) of the first `length` bytes of the text, which are all there are at most; it waits for room.
#[inline(always)]
pub fn msgsnd<const N: usize>(queue: MessageQueue, message: &MessageBuffer<N>, length: usize) -> Result<(), Errno> {
    // SAFETY: the kernel reads the type and at most N bytes behind it, of a live buffer.
    let result = unsafe {
        syscall!(
            MSGSND,
            "rdi" = queue.0 as usize,
            "rsi" = core::ptr::from_ref(message),
            "rdx" = length.min(N),
            "r10" = 0usize
        )
    };
    checked(result).map(drop)
}

/// msgrcv(2) of the first message of any type; it waits for one. Returns the text's length.
#[inline(always)]
pub fn msgrcv<const N: usize>(queue: MessageQueue, buffer: &mut MessageBuffer<N>) -> Result<usize, Errno> {
    // SAFETY: the kernel writes the type and at most N bytes behind it, to a buffer that is ours alone.
    checked(unsafe {
        syscall!(
            MSGRCV,
            "rdi" = queue.0 as usize,
            "rsi" = core::ptr::from_mut(buffer),
            "rdx" = N,
            "r10" = 0usize,
            "r8" = 0usize
        )
    })
}

/// nanosleep(2), however often it is interrupted.
pub fn sleep_ns(nanoseconds: u64) -> Result<(), Errno> {
    let mut time = Timespec {
        seconds: (nanoseconds / 1_000_000_000) as i64,
        nanoseconds: (nanoseconds % 1_000_000_000) as i64,
    };
    loop {
        let at = &raw mut time;
        // SAFETY: the kernel reads one `struct timespec`, and writes there what was left.
        match checked(unsafe { syscall!(NANOSLEEP, "rdi" = at, "rsi" = at) }) {
            Err(Errno::EINTR) => {}
            done => return done.map(drop),
        }
    }
}

/// mmap(2) of fresh memory that is shared with children, as words in rows of 16 (two cache lines). It is never unmapped.
pub fn shared_words(rows: usize) -> Result<&'static [[AtomicU64; 16]], Errno> {
    let address = map(rows * size_of::<[AtomicU64; 16]>(), SHARED_ANONYMOUS)?;
    // SAFETY: a fresh mapping of so many bytes, all zero, that stays; atomics may be shared with whomever.
    Ok(unsafe { core::slice::from_raw_parts(address as *const [AtomicU64; 16], rows) })
}

const SHARED_ANONYMOUS: usize = 0x21;
const PRIVATE_ANONYMOUS: usize = 0x22;

/// A fresh mapping, readable and writable: its address, at a page.
fn map(bytes: usize, flags: usize) -> Result<usize, Errno> {
    const READ_WRITE: usize = 3;
    // SAFETY: without MAP_FIXED no mapping of ours is touched.
    checked(unsafe {
        syscall!(
            MMAP,
            "rdi" = 0usize,
            "rsi" = bytes,
            "rdx" = READ_WRITE,
            "r10" = flags,
            "r8" = -1isize,
            "r9" = 0usize
        )
    })
}

/// Bytes of a spawned task's stack.
const STACK: usize = 64 << 10;

/// clone(2): a task that runs `entry(argument)`, as a thread of this process or as a process of its own, which has a copy of
/// this one's memory. It ends with [`exit`]; a process is waited for with [`wait`].
pub fn spawn<T: Sync>(thread: bool, entry: extern "C" fn(&'static T) -> !, argument: &'static T) -> Result<(), Errno> {
    const SIGCHLD: usize = 17;
    /// Memory, directories, descriptors, handlers, thread group, semaphores.
    const THREAD: usize = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000;
    let stack = map(STACK, PRIVATE_ANONYMOUS)? + STACK;
    let result: isize;
    // SAFETY: 1. The new task begins behind the instruction, on a fresh stack that nobody else has and that stays, at its end,
    // which is a page's; it goes from there to `entry`, which does not return. 2. The argument lives for ever and may be
    // shared.
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
            in("rdi") if thread { THREAD } else { SIGCHLD },
            in("rsi") stack,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") core::ptr::from_ref(argument),
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    checked(result).map(drop)
}

/// exit(2): ends the calling task alone.
pub fn exit() -> ! {
    // SAFETY: no argument is an address, and the call does not return.
    unsafe { asm!("syscall", "ud2", in("rax") EXIT, in("rdi") 0usize, options(noreturn, nostack)) }
}

/// wait4(2): waits for any child to end. Its status as the kernel has it; `ECHILD` when there is none.
pub fn wait() -> Result<i32, Errno> {
    let mut status = 0i32;
    // SAFETY: the kernel writes one int, and nothing for the null usage.
    checked(unsafe {
        syscall!(
            WAIT4,
            "rdi" = -1isize,
            "rsi" = &raw mut status,
            "rdx" = 0usize,
            "r10" = 0usize
        )
    })?;
    Ok(status)
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
