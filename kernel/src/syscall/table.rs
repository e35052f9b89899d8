//! The table of system calls: the one place that says what there is.
//!
//! A row is a number's name (linux-raw-sys has the numbers), the function, how many arguments it takes, and how complete
//! it is. The dispatch table of the entry code, the names for reports and the list in docs/SYSTEM-CALLS.md come from here:
//! a test makes the list from the rows as text.

use super::user::{Argument, Return};
use super::{
    clone, family, file, futex, identity, memory, mqueue, namespace, process, schedule, signal, socket, system, sysv,
    time, timer, unknown,
};
use crate::arch::SyscallFn;
use linux_raw_sys::general;

/// How much of a call there is.
#[allow(dead_code, reason = "for docs/SYSTEM-CALLS.md, which is made from this file")]
enum Completeness {
    /// All that Linux's manual says.
    Full,
    /// This is missing.
    Partial(&'static str),
}

/// A row, for reports.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Linux's number on x86-64.
    pub number: usize,
    /// Linux's name.
    pub name: &'static str,
}

/// Numbers below this are looked up; all others are unknown.
pub const LENGTH: usize = 480;

/// A number without a row.
extern "C" fn hole<const NUMBER: u64>(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> i64 {
    unknown(NUMBER)
}

macro_rules! holes {
    ($table:ident: $($row:literal)*) => { $(holes!(@ $table $row: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);)* };
    (@ $table:ident $row:literal: $($column:literal)*) => {
        $($table[$row * 16 + $column] = hole::<{ $row * 16 + $column }>;)*
    };
}

const fn all_holes() -> [SyscallFn; LENGTH] {
    let mut table = [hole::<0> as SyscallFn; LENGTH];
    holes!(table: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29);
    table
}

/// Makes the entry functions, each with its arguments taken from the registers in order, and the two tables.
macro_rules! calls {
    (
        all registers { $($all_number:ident $all_name:ident = $all_function:path, $all_completeness:expr;)* }
        $($number:ident $name:ident = $function:path, ($($argument:literal)*) $completeness:expr;)*
    ) => {
        /// The entry functions: what a register holds, as the arguments' types want it, and the result as rax.
        mod entry {
            use super::*;
            $(
                #[allow(unused_variables, reason = "registers that the call does not use")]
                pub(super) extern "C" fn $name(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64 {
                    let registers = [a, b, c, d, e, f];
                    Return::to_register($function($(Argument::from_register(registers[$argument])),*))
                }
            )*
        }

        /// By number: what the entry code calls.
        pub static TABLE: [SyscallFn; LENGTH] = {
            let mut table = all_holes();
            $(table[general::$number as usize] = entry::$name;)*
            $(table[general::$all_number as usize] = $all_function;)*
            table
        };

        /// All rows.
        pub static ROWS: &[Row] = &[
            $(Row {
                number: general::$number as usize,
                name: stringify!($name),
            },)*
            $(Row {
                number: general::$all_number as usize,
                name: stringify!($all_name),
            },)*
        ];

        $(const _: Completeness = $completeness;)*
        $(const _: Completeness = $all_completeness;)*
    };
}

use Completeness::{Full, Partial};

calls! {
    all registers {
    __NR_rt_sigreturn rt_sigreturn = clone::rt_sigreturn, Full;
    __NR_clone clone = clone::clone, Partial("namespaces but those for IPC; handlers shared between processes; pidfds");
    __NR_fork fork = clone::fork, Full;
    __NR_vfork vfork = clone::vfork, Full;
    __NR_execve execve = clone::execve, Partial("dynamic programs; a thread that is not the first keeps its number");
    __NR_sigaltstack sigaltstack = clone::sigaltstack, Full;
    __NR_clone3 clone3 = clone::clone3, Partial("as clone; set_tid; cgroups");
    }
    __NR_read read = file::read, (0 1 2) Full;
    __NR_write write = file::write, (0 1 2) Full;
    __NR_open open = file::open, (0 1 2) Partial("O_ASYNC; O_DIRECT is as without");
    __NR_close close = file::close, (0) Full;
    __NR_stat stat = file::stat, (0 1) Full;
    __NR_fstat fstat = file::fstat, (0 1) Full;
    __NR_lstat lstat = file::lstat, (0 1) Full;
    __NR_poll poll = file::poll, (0 1 2) Full;
    __NR_lseek lseek = file::lseek, (0 1 2) Full;
    __NR_mmap mmap = memory::mmap, (0 1 2 3 4 5) Partial("shared mappings of files; huge pages; locking");
    __NR_mprotect mprotect = memory::mprotect, (0 1 2) Partial("PROT_GROWSDOWN reaches no further than the range");
    __NR_munmap munmap = memory::munmap, (0 1) Full;
    __NR_brk brk = memory::brk, (0) Full;
    __NR_rt_sigaction rt_sigaction = signal::rt_sigaction, (0 1 2 3) Full;
    __NR_rt_sigprocmask rt_sigprocmask = signal::rt_sigprocmask, (0 1 2 3) Full;
    __NR_ioctl ioctl = file::ioctl, (0 1 2) Partial("TCGETS and TIOCGWINSZ of a terminal, FIONREAD, FIONBIO");
    __NR_pread64 pread64 = file::pread64, (0 1 2 3) Full;
    __NR_pwrite64 pwrite64 = file::pwrite64, (0 1 2 3) Full;
    __NR_readv readv = file::readv, (0 1 2) Full;
    __NR_writev writev = file::writev, (0 1 2) Full;
    __NR_access access = file::access, (0 1) Full;
    __NR_pipe pipe = file::pipe, (0) Full;
    __NR_select select = file::select, (0 1 2 3 4) Full;
    __NR_sched_yield sched_yield = process::sched_yield, () Full;
    __NR_mremap mremap = memory::mremap, (0 1 2 3 4) Partial("MREMAP_DONTUNMAP");
    __NR_madvise madvise = memory::madvise, (0 1 2) Partial("only DONTNEED and FREE do something");
    __NR_dup dup = file::dup, (0) Full;
    __NR_dup2 dup2 = file::dup2, (0 1) Full;
    __NR_pause pause = signal::pause, () Full;
    __NR_nanosleep nanosleep = time::nanosleep, (0 1) Full;
    __NR_getitimer getitimer = timer::getitimer, (0 1) Partial("all three count real time");
    __NR_alarm alarm = timer::alarm, (0) Full;
    __NR_setitimer setitimer = timer::setitimer, (0 1 2) Partial("all three count real time");
    __NR_getpid getpid = process::getpid, () Full;
    __NR_socket socket = socket::socket, (0 1 2) Partial("only what mq_notify needs of AF_NETLINK");
    __NR_recvfrom recvfrom = socket::recvfrom, (0 1 2 3 4 5) Full;
    __NR_recvmsg recvmsg = socket::recvmsg, (0 1 2) Full;
    __NR_exit exit = process::exit, (0) Full;
    __NR_wait4 wait4 = family::wait4, (0 1 2 3) Full;
    __NR_kill kill = signal::kill, (0 1) Full;
    __NR_uname uname = system::uname, (0) Full;
    __NR_msgget msgget = sysv::msgget, (0 1) Full;
    __NR_msgsnd msgsnd = sysv::msgsnd, (0 1 2 3) Full;
    __NR_msgrcv msgrcv = sysv::msgrcv, (0 1 2 3 4) Full;
    __NR_msgctl msgctl = sysv::msgctl, (0 1 2) Full;
    __NR_fcntl fcntl = file::fcntl, (0 1 2) Partial("locks, owners, leases, seals");
    __NR_fsync fsync = file::fsync, (0) Full;
    __NR_fdatasync fdatasync = file::fsync, (0) Full;
    __NR_truncate truncate = file::truncate, (0 1) Full;
    __NR_ftruncate ftruncate = file::ftruncate, (0 1) Full;
    __NR_getcwd getcwd = file::getcwd, (0 1) Full;
    __NR_chdir chdir = file::chdir, (0) Full;
    __NR_fchdir fchdir = file::fchdir, (0) Full;
    __NR_rename rename = file::rename, (0 1) Full;
    __NR_mkdir mkdir = file::mkdir, (0 1) Full;
    __NR_rmdir rmdir = file::rmdir, (0) Full;
    __NR_creat creat = file::creat, (0 1) Full;
    __NR_link link = file::link, (0 1) Full;
    __NR_unlink unlink = file::unlink, (0) Full;
    __NR_symlink symlink = file::symlink, (0 1) Full;
    __NR_readlink readlink = file::readlink, (0 1 2) Full;
    __NR_chmod chmod = file::chmod, (0 1) Full;
    __NR_fchmod fchmod = file::fchmod, (0 1) Full;
    __NR_chown chown = file::chown, (0 1 2) Full;
    __NR_fchown fchown = file::fchown, (0 1 2) Full;
    __NR_lchown lchown = file::lchown, (0 1 2) Full;
    __NR_umask umask = file::umask, (0) Full;
    __NR_gettimeofday gettimeofday = time::gettimeofday, (0 1) Full;
    __NR_getrlimit getrlimit = process::getrlimit, (0 1) Full;
    __NR_getrusage getrusage = process::getrusage, (0 1) Partial("the largest resident set");
    __NR_sysinfo sysinfo = system::sysinfo, (0) Full;
    __NR_times times = process::times, (0) Full;
    __NR_getuid getuid = process::getuid, () Full;
    __NR_getgid getgid = process::getgid, () Full;
    __NR_setuid setuid = identity::setuid, (0) Full;
    __NR_setgid setgid = identity::setgid, (0) Full;
    __NR_geteuid geteuid = process::geteuid, () Full;
    __NR_getegid getegid = process::getegid, () Full;
    __NR_getppid getppid = process::getppid, () Full;
    __NR_setpgid setpgid = family::setpgid, (0 1) Full;
    __NR_getpgrp getpgrp = family::getpgrp, () Full;
    __NR_setsid setsid = family::setsid, () Full;
    __NR_setreuid setreuid = identity::setreuid, (0 1) Full;
    __NR_setregid setregid = identity::setregid, (0 1) Full;
    __NR_getgroups getgroups = identity::getgroups, (0 1) Full;
    __NR_setgroups setgroups = identity::setgroups, (0 1) Full;
    __NR_setresuid setresuid = identity::setresuid, (0 1 2) Full;
    __NR_getresuid getresuid = identity::getresuid, (0 1 2) Full;
    __NR_setresgid setresgid = identity::setresgid, (0 1 2) Full;
    __NR_getresgid getresgid = identity::getresgid, (0 1 2) Full;
    __NR_getpgid getpgid = family::getpgid, (0) Full;
    __NR_getsid getsid = family::getsid, (0) Full;
    __NR_rt_sigpending rt_sigpending = signal::rt_sigpending, (0 1) Full;
    __NR_rt_sigtimedwait rt_sigtimedwait = signal::rt_sigtimedwait, (0 1 2 3) Full;
    __NR_rt_sigqueueinfo rt_sigqueueinfo = signal::rt_sigqueueinfo, (0 1 2) Full;
    __NR_rt_sigsuspend rt_sigsuspend = signal::rt_sigsuspend, (0 1) Full;
    __NR_getpriority getpriority = schedule::getpriority, (0 1) Partial("groups and users other than the caller's");
    __NR_setpriority setpriority = schedule::setpriority, (0 1 2) Partial("of processes, not of threads");
    __NR_sched_getparam sched_getparam = schedule::sched_getparam, (0 1) Full;
    __NR_sched_setparam sched_setparam = schedule::sched_setparam, (0 1) Full;
    __NR_sched_setscheduler sched_setscheduler = schedule::sched_setscheduler, (0 1 2) Partial("SCHED_DEADLINE");
    __NR_sched_rr_get_interval sched_rr_get_interval = schedule::sched_rr_get_interval, (0 1) Full;
    __NR_sched_getscheduler sched_getscheduler = schedule::sched_getscheduler, (0) Full;
    __NR_sched_get_priority_max sched_get_priority_max = schedule::sched_get_priority_max, (0) Full;
    __NR_sched_get_priority_min sched_get_priority_min = schedule::sched_get_priority_min, (0) Full;
    __NR_prctl prctl = schedule::prctl, (0 1 2 3 4) Partial("names, death signals, flags");
    __NR_mknod mknod = file::mknod, (0 1 2) Full;
    __NR_statfs statfs = file::statfs, (0 1) Full;
    __NR_fstatfs fstatfs = file::fstatfs, (0 1) Full;
    __NR_arch_prctl arch_prctl = process::arch_prctl, (0 1) Partial("the bases of fs and gs only");
    __NR_setrlimit setrlimit = process::setrlimit, (0 1) Full;
    __NR_chroot chroot = file::chroot, (0) Full;
    __NR_sync sync = file::sync, () Full;
    __NR_mount mount = file::mount, (0 1 2 3 4) Partial("bind mounts, moves, propagation, options of file systems");
    __NR_umount2 umount2 = file::umount2, (0 1) Partial("MNT_EXPIRE");
    __NR_gettid gettid = process::gettid, () Full;
    __NR_tkill tkill = signal::tkill, (0 1) Full;
    __NR_restart_syscall restart_syscall = time::restart_syscall, () Full;
    __NR_time time = time::time, (0) Full;
    __NR_futex futex = futex::futex, (0 1 2 3 4 5) Partial("locks that lend priority (PI)");
    __NR_sched_setaffinity sched_setaffinity = schedule::sched_setaffinity, (0 1 2) Full;
    __NR_sched_getaffinity sched_getaffinity = schedule::sched_getaffinity, (0 1 2) Full;
    __NR_epoll_create epoll_create = file::epoll_create, (0) Full;
    __NR_getdents64 getdents64 = file::getdents64, (0 1 2) Full;
    __NR_set_tid_address set_tid_address = process::set_tid_address, (0) Full;
    __NR_timer_create timer_create = timer::timer_create, (0 1 2) Partial("CPU-time clocks count real time");
    __NR_timer_settime timer_settime = timer::timer_settime, (0 1 2 3) Full;
    __NR_timer_gettime timer_gettime = timer::timer_gettime, (0 1) Full;
    __NR_timer_getoverrun timer_getoverrun = timer::timer_getoverrun, (0) Full;
    __NR_timer_delete timer_delete = timer::timer_delete, (0) Full;
    __NR_clock_gettime clock_gettime = time::clock_gettime, (0 1) Full;
    __NR_clock_getres clock_getres = time::clock_getres, (0 1) Full;
    __NR_clock_nanosleep clock_nanosleep = time::clock_nanosleep, (0 1 2 3) Partial("a CPU-time clock is waited for as if it were running");
    __NR_exit_group exit_group = process::exit_group, (0) Full;
    __NR_epoll_wait epoll_wait = file::epoll_wait, (0 1 2 3) Full;
    __NR_epoll_ctl epoll_ctl = file::epoll_ctl, (0 1 2 3) Full;
    __NR_tgkill tgkill = signal::tgkill, (0 1 2) Full;
    __NR_mq_open mq_open = mqueue::mq_open, (0 1 2 3) Full;
    __NR_mq_unlink mq_unlink = mqueue::mq_unlink, (0) Full;
    __NR_mq_timedsend mq_timedsend = mqueue::mq_timedsend, (0 1 2 3 4) Full;
    __NR_mq_timedreceive mq_timedreceive = mqueue::mq_timedreceive, (0 1 2 3 4) Full;
    __NR_mq_notify mq_notify = mqueue::mq_notify, (0 1) Full;
    __NR_mq_getsetattr mq_getsetattr = mqueue::mq_getsetattr, (0 1 2) Full;
    __NR_waitid waitid = family::waitid, (0 1 2 3 4) Partial("pidfds");
    __NR_openat openat = file::openat, (0 1 2 3) Partial("O_ASYNC; O_DIRECT is as without");
    __NR_mkdirat mkdirat = file::mkdirat, (0 1 2) Full;
    __NR_mknodat mknodat = file::mknodat, (0 1 2 3) Full;
    __NR_fchownat fchownat = file::fchownat, (0 1 2 3 4) Full;
    __NR_newfstatat newfstatat = file::newfstatat, (0 1 2 3) Full;
    __NR_unlinkat unlinkat = file::unlinkat, (0 1 2) Full;
    __NR_renameat renameat = file::renameat, (0 1 2 3) Full;
    __NR_linkat linkat = file::linkat, (0 1 2 3 4) Full;
    __NR_symlinkat symlinkat = file::symlinkat, (0 1 2) Full;
    __NR_readlinkat readlinkat = file::readlinkat, (0 1 2 3) Full;
    __NR_fchmodat fchmodat = file::fchmodat, (0 1 2) Full;
    __NR_faccessat faccessat = file::faccessat, (0 1 2) Full;
    __NR_pselect6 pselect6 = file::pselect6, (0 1 2 3 4 5) Full;
    __NR_ppoll ppoll = file::ppoll, (0 1 2 3 4) Full;
    __NR_unshare unshare = namespace::unshare, (0) Partial("namespaces but those for IPC; CLONE_FS where there are several threads");
    __NR_set_robust_list set_robust_list = process::set_robust_list, (0 1) Full;
    __NR_utimensat utimensat = file::utimensat, (0 1 2 3) Full;
    __NR_epoll_pwait epoll_pwait = file::epoll_pwait, (0 1 2 3 4 5) Full;
    __NR_eventfd eventfd = file::eventfd, (0) Full;
    __NR_fallocate fallocate = file::fallocate, (0 1 2 3) Partial("only to allocate");
    __NR_eventfd2 eventfd2 = file::eventfd2, (0 1) Full;
    __NR_epoll_create1 epoll_create1 = file::epoll_create1, (0) Full;
    __NR_dup3 dup3 = file::dup3, (0 1 2) Full;
    __NR_rt_tgsigqueueinfo rt_tgsigqueueinfo = signal::rt_tgsigqueueinfo, (0 1 2 3) Full;
    __NR_pipe2 pipe2 = file::pipe2, (0 1) Partial("O_DIRECT is as without");
    __NR_preadv preadv = file::preadv, (0 1 2 3) Full;
    __NR_pwritev pwritev = file::pwritev, (0 1 2 3) Full;
    __NR_prlimit64 prlimit64 = process::prlimit64, (0 1 2 3) Full;
    __NR_setns setns = namespace::setns, (0 1) Partial("namespaces but those for IPC; pidfds");
    __NR_getcpu getcpu = process::getcpu, (0 1) Full;
    __NR_renameat2 renameat2 = file::renameat2, (0 1 2 3 4) Partial("RENAME_WHITEOUT");
    __NR_getrandom getrandom = system::getrandom, (0 1 2) Full;
    __NR_statx statx = file::statx, (0 1 2 3 4) Full;
    __NR_rseq rseq = process::rseq, (0 1 2 3) Full;
    __NR_openat2 openat2 = file::openat2, (0 1 2 3) Partial("RESOLVE_*");
    __NR_faccessat2 faccessat2 = file::faccessat2, (0 1 2 3) Full;
    __NR_epoll_pwait2 epoll_pwait2 = file::epoll_pwait2, (0 1 2 3 4 5) Full;
    __NR_fchmodat2 fchmodat2 = file::fchmodat2, (0 1 2 3) Full;
}

/// The row of a number.
pub fn row(number: u64) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.number as u64 == number)
}
