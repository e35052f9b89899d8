//! The calls that are made, and what their arguments are.

use crate::arguments::{Kind, Memory};
use crate::random::Random;
use Kind::*;

/// A call.
pub struct Row {
    /// Its number.
    pub number: usize,
    /// Its name.
    pub name: &'static str,
    /// Whether 0 may mean that this is a child.
    pub makes_children: bool,
    /// How often it is chosen.
    weight: usize,
    arguments: &'static [Kind],
}

macro_rules! rows {
    ($($number:literal $name:ident $weight:literal ($($kind:expr),*) $($children:ident)?;)*) => {
        &[$(Row {
            number: $number,
            name: stringify!($name),
            makes_children: false $(|| stringify!($children).len() > 0)?,
            weight: $weight,
            arguments: &[$($kind),*],
        },)*]
    };
}

const OPEN: Kind = Flags(&[
    0, 1, 2, 0o100, 0o200, 0o1000, 0o2000, 0o4000, 0o200000, 0o2000000, 0o10000000,
]);
const MAP: Kind = Flags(&[
    0x22, 0x21, 0x32, 0x12, 0x11, 0x2, 0x1, 0x100022, 0x4022, 0x122, 0x8022, 0,
]);
const PROTECTION: Kind = Flags(&[0, 1, 2, 3, 4, 5]);
const CLOCK: Kind = One(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 0xffff_fffe, 0xffff_ffda]);
const FUTEX: Kind = One(&[0, 1, 3, 4, 5, 9, 10, 128, 129, 131, 132, 133, 137, 138, 265, 6, 7, 134]);
const AT: Kind = Flags(&[0, 0x100, 0x200, 0x400, 0x1000, 0x2000]);

/// All of them. Left out: what ends the process or the machine, what would take a worker out of its group, and alarm, which
/// would take away the timer that interrupts calls.
const ROWS: &[Row] = rows! {
    0 read 6 (Fd, Memory, Length);
    1 write 6 (Fd, Memory, Length);
    2 open 6 (Path, OPEN, Mode);
    3 close 4 (Fd);
    4 stat 2 (Path, Memory);
    5 fstat 2 (Fd, Memory);
    6 lstat 1 (Path, Memory);
    7 poll 2 (Memory, Small, Small);
    8 lseek 2 (Fd, Length, Small);
    9 mmap 8 (Pages, PagesLength, PROTECTION, MAP, Fd, PagesLength);
    10 mprotect 5 (Pages, PagesLength, PROTECTION);
    11 munmap 4 (Pages, PagesLength);
    12 brk 2 (Any);
    13 rt_sigaction 2 (Signal, Memory, Memory, One(&[8, 8, 8, 0]));
    14 rt_sigprocmask 3 (Small, Set, Memory, One(&[8, 8, 8, 0]));
    16 ioctl 2 (Fd, One(&[0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451]), Memory);
    17 pread64 2 (Fd, Memory, Length, Length);
    18 pwrite64 2 (Fd, Memory, Length, Length);
    19 readv 2 (Fd, Iovec, Small);
    20 writev 2 (Fd, Iovec, Small);
    21 access 1 (Path, Small);
    22 pipe 3 (Memory);
    23 select 2 (Small, Memory, Memory, Memory, Time);
    24 sched_yield 2 ();
    25 mremap 4 (Pages, PagesLength, PagesLength, Flags(&[0, 1, 3, 7]), Pages);
    26 msync 1 (Pages, PagesLength, Small);
    27 mincore 1 (Pages, PagesLength, Memory);
    28 madvise 3 (Pages, PagesLength, One(&[0, 1, 2, 3, 4, 8, 9, 10, 14, 16, 18]));
    32 dup 2 (Fd);
    33 dup2 2 (Fd, Fd);
    35 nanosleep 1 (Time, Memory);
    36 getitimer 1 (Small, Memory);
    38 setitimer 1 (One(&[1, 2, 3]), Timer, Memory);
    40 sendfile 1 (Fd, Fd, Memory, Length);
    41 socket 2 (One(&[1, 1, 2, 16]), Flags(&[1, 2, 3, 5, 0x800, 0x80000]), Small);
    42 connect 1 (Fd, Memory, Length);
    43 accept 1 (Fd, Memory, Memory);
    44 sendto 2 (Fd, Memory, Length, Flags(&[0, 0x40, 0x4000]), Memory, Length);
    45 recvfrom 2 (Fd, Memory, Length, Flags(&[0, 2, 0x40]), Memory, Memory);
    46 sendmsg 1 (Fd, Memory, Flags(&[0, 0x40, 0x4000]));
    47 recvmsg 1 (Fd, Memory, Flags(&[0, 2, 0x40]));
    48 shutdown 1 (Fd, Small);
    49 bind 1 (Fd, Memory, Length);
    50 listen 1 (Fd, Small);
    51 getsockname 1 (Fd, Memory, Memory);
    53 socketpair 2 (One(&[1, 1, 2]), Flags(&[1, 2, 5, 0x800]), Small, Memory);
    54 setsockopt 1 (Fd, Small, Small, Memory, Length);
    55 getsockopt 1 (Fd, Small, Small, Memory, Memory);
    56 clone 1 (Flags(&[17, 0x11, 0x200, 0x400, 0x800, 0x40000000, 0x08000000]), Any) children;
    57 fork 2 () children;
    61 wait4 2 (Pid, Memory, Flags(&[0, 1, 2, 8]), Memory);
    62 kill 2 (Pid, Signal);
    63 uname 1 (Memory);
    68 msgget 3 (Small, Flags(&[0, 0o1000, 0o2000, 0o600, 0o666]));
    69 msgsnd 4 (Small, Memory, Length, Flags(&[0, 0o4000]));
    70 msgrcv 4 (Small, Memory, Length, Small, Flags(&[0, 0o4000, 0o10000, 0o20000, 0o40000]));
    71 msgctl 3 (Small, One(&[0, 1, 2, 3, 11, 12, 13]), Memory);
    72 fcntl 3 (Fd, One(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 36, 37, 38, 1024, 1030, 1031, 1032]), Any);
    73 flock 1 (Fd, Flags(&[1, 2, 4, 8]));
    74 fsync 1 (Fd);
    76 truncate 1 (Path, Length);
    77 ftruncate 2 (Fd, Length);
    78 getdents 1 (Fd, Memory, Length);
    79 getcwd 1 (Memory, Length);
    80 chdir 1 (Path);
    81 fchdir 1 (Fd);
    82 rename 2 (Path, Path);
    83 mkdir 2 (Path, Mode);
    84 rmdir 1 (Path);
    85 creat 1 (Path, Mode);
    86 link 1 (Path, Path);
    87 unlink 2 (Path);
    88 symlink 1 (Path, Path);
    89 readlink 1 (Path, Memory, Length);
    90 chmod 1 (Path, Mode);
    91 fchmod 1 (Fd, Mode);
    92 chown 1 (Path, User, User);
    93 fchown 1 (Fd, User, User);
    95 umask 1 (Mode);
    96 gettimeofday 1 (Memory, Memory);
    97 getrlimit 1 (Small, Memory);
    98 getrusage 1 (One(&[0, 1, 0xffff_ffff_ffff_ffff]), Memory);
    99 sysinfo 1 (Memory);
    100 times 1 (Memory);
    105 setuid 1 (User);
    106 setgid 1 (User);
    113 setreuid 1 (User, User);
    115 getgroups 1 (Small, Memory);
    116 setgroups 1 (Small, Memory);
    117 setresuid 1 (User, User, User);
    118 getresuid 1 (Memory, Memory, Memory);
    121 getpgid 1 (Pid);
    124 getsid 1 (Pid);
    125 capget 1 (Memory, Memory);
    126 capset 1 (Memory, Memory);
    127 rt_sigpending 1 (Memory, Length);
    128 rt_sigtimedwait 2 (Set, Memory, Time, One(&[8, 8, 0]));
    129 rt_sigqueueinfo 2 (Pid, Signal, Memory);
    130 rt_sigsuspend 1 (Set, One(&[8, 8, 0]));
    131 sigaltstack 1 (Memory, Memory);
    133 mknod 1 (Path, Mode, Any);
    137 statfs 1 (Path, Memory);
    138 fstatfs 1 (Fd, Memory);
    140 getpriority 1 (Small, Pid);
    141 setpriority 1 (Small, Pid, Small);
    142 sched_setparam 1 (Pid, Memory);
    143 sched_getparam 1 (Pid, Memory);
    144 sched_setscheduler 1 (Pid, One(&[0, 3, 5, 0]), Memory);
    145 sched_getscheduler 1 (Pid);
    148 sched_rr_get_interval 1 (Pid, Memory);
    157 prctl 2 (One(&[1, 2, 3, 4, 15, 16, 22, 23, 29, 30, 36, 38, 39]), Any, Any, Any, Any);
    158 arch_prctl 1 (One(&[0x1001, 0x1002, 0x1003, 0x1004]), Memory);
    160 setrlimit 1 (One(&[0, 1, 2, 3, 4, 6, 7, 9, 11, 12, 13]), Memory);
    161 chroot 1 (Path);
    165 mount 1 (Path, One(&[0]), One(&[0]), Any, One(&[0]));
    186 gettid 1 ();
    200 tkill 1 (Pid, Signal);
    201 time 1 (Memory);
    202 futex 6 (Memory, FUTEX, Small, Time, Memory, Any);
    203 sched_setaffinity 2 (Pid, One(&[8, 4, 128]), Set);
    204 sched_getaffinity 1 (Pid, Length, Memory);
    213 epoll_create 1 (Small);
    217 getdents64 2 (Fd, Memory, Length);
    218 set_tid_address 1 (Memory);
    221 fadvise64 1 (Fd, Length, Length, Small);
    222 timer_create 2 (CLOCK, Event, Memory);
    223 timer_settime 2 (Small, Small, Timer, Memory);
    224 timer_gettime 1 (Small, Memory);
    225 timer_getoverrun 1 (Small);
    226 timer_delete 1 (Small);
    227 clock_settime 1 (CLOCK, Time);
    228 clock_gettime 1 (CLOCK, Memory);
    229 clock_getres 1 (CLOCK, Memory);
    230 clock_nanosleep 1 (CLOCK, Small, Time, Memory);
    232 epoll_wait 2 (Fd, Memory, Small, Small);
    233 epoll_ctl 4 (Fd, One(&[1, 2, 3]), Fd, Memory);
    234 tgkill 2 (Pid, Pid, Signal);
    240 mq_open 6 (Queue, OPEN, Mode, Attr);
    241 mq_unlink 2 (Queue);
    242 mq_timedsend 6 (Fd, Memory, Length, Small, Time);
    243 mq_timedreceive 6 (Fd, Memory, One(&[8192, 16, 1, 0, 100000]), Memory, Time);
    244 mq_notify 4 (Fd, Event);
    245 mq_getsetattr 2 (Fd, Attr, Memory);
    247 waitid 2 (Small, Pid, Memory, Flags(&[1, 2, 4, 8, 0x1000000]), Memory);
    253 inotify_init 1 ();
    254 inotify_add_watch 1 (Fd, Path, Any);
    257 openat 3 (Dir, Path, OPEN, Mode);
    258 mkdirat 1 (Dir, Path, Mode);
    262 newfstatat 1 (Dir, Path, Memory, AT);
    263 unlinkat 1 (Dir, Path, Flags(&[0, 0x200]));
    264 renameat 1 (Dir, Path, Dir, Path);
    267 readlinkat 1 (Dir, Path, Memory, Length);
    269 faccessat 1 (Dir, Path, Small);
    270 pselect6 1 (Small, Memory, Memory, Memory, Time, Memory);
    271 ppoll 1 (Memory, Small, Time, Set, One(&[8, 0]));
    272 unshare 1 (Flags(&[0, 0x08000000, 0x400, 0x200]));
    273 set_robust_list 1 (Memory, One(&[24, 24, 0]));
    274 get_robust_list 1 (Pid, Memory, Memory);
    275 splice 1 (Fd, Memory, Fd, Memory, Length, Small);
    280 utimensat 1 (Dir, Path, Memory, AT);
    281 epoll_pwait 1 (Fd, Memory, Small, Small, Set, One(&[8, 0]));
    283 timerfd_create 1 (CLOCK, Flags(&[0, 0x800, 0x80000]));
    284 eventfd 1 (Small);
    285 fallocate 1 (Fd, Small, Length, Length);
    288 accept4 1 (Fd, Memory, Memory, Flags(&[0, 0x800]));
    289 signalfd4 1 (Fd, Set, One(&[8, 0]), Flags(&[0, 0x800]));
    290 eventfd2 2 (Small, Flags(&[0, 1, 0x800, 0x80000]));
    291 epoll_create1 2 (Flags(&[0, 0x80000]));
    292 dup3 1 (Fd, Fd, Flags(&[0, 0x80000]));
    293 pipe2 3 (Memory, Flags(&[0, 0x800, 0x80000, 0x4000]));
    295 preadv 1 (Fd, Iovec, Small, Length, Length);
    296 pwritev 1 (Fd, Iovec, Small, Length, Length);
    297 rt_tgsigqueueinfo 1 (Pid, Pid, Signal, Memory);
    302 prlimit64 2 (Pid, Small, Memory, Memory);
    309 getcpu 1 (Memory, Memory, Memory);
    314 sched_setattr 1 (Pid, Memory, Small);
    315 sched_getattr 1 (Pid, Memory, Length, Small);
    316 renameat2 1 (Dir, Path, Dir, Path, Flags(&[0, 1, 2, 4]));
    318 getrandom 1 (Memory, Length, Small);
    319 memfd_create 1 (Path, Flags(&[0, 1, 2]));
    324 membarrier 1 (Flags(&[0, 1, 2, 4, 8, 16, 32]), Small, Small);
    326 copy_file_range 1 (Fd, Memory, Fd, Memory, Length, Small);
    332 statx 1 (Dir, Path, AT, Any, Memory);
    334 rseq 1 (Memory, One(&[32, 32, 0]), Small, Any);
    424 pidfd_send_signal 1 (Fd, Signal, Memory, Small);
    434 pidfd_open 1 (Pid, Flags(&[0, 0x800]));
    435 clone3 1 (Clone, One(&[64, 88, 0, 4096])) children;
    436 close_range 1 (Fd, Fd, Flags(&[0, 4]));
    437 openat2 1 (Dir, Path, Memory, One(&[24, 0]));
    439 faccessat2 1 (Dir, Path, Small, AT);
    441 epoll_pwait2 1 (Fd, Memory, Small, Time, Set, One(&[8, 0]));
    449 futex_waitv 1 (Memory, Small, Small, Time, CLOCK);
    463 nothing 1 (Any, Any, Any, Any, Any, Any);
};

const TOTAL: usize = {
    let (mut total, mut index) = (0, 0);
    while index < ROWS.len() {
        total += ROWS[index].weight;
        index += 1;
    }
    total
};

/// A call and its arguments.
pub fn choose(random: &mut Random, memory: &Memory, thread: usize) -> (&'static Row, [usize; 6]) {
    let mut at = random.below(TOTAL);
    let row = ROWS.iter().find(|row| match at.checked_sub(row.weight) {
        Some(rest) => {
            at = rest;
            false
        }
        None => true,
    });
    // The weights add up to the total.
    let row = row.unwrap_or(&ROWS[0]);
    let mut arguments = [0; 6];
    for (place, &kind) in arguments.iter_mut().zip(row.arguments) {
        *place = memory.argument(kind, random, thread);
    }
    (row, arguments)
}
