/* The calls that every program makes before it does anything: clocks, identity, limits, files that are not there, and
 * numbers that are no calls. Raw, so that no library stands between question and answer. Run as root.
 */
#include "verdict.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

#define BAD ((void *)8)
#define KERNEL ((void *)0xffffffff80200000)

static void is_a_number_that_is_no_call_enosys(void)
{
	static const long numbers[] = { 9999, 511, -1, -4095, 1L << 31, 1L << 32 | 9999, 0x40000000 + SYS_getpid };
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		EXPECT(R(syscall(numbers[i], 0, 0, 0, 0, 0, 0)), -ENOSYS, "no call");
}

static void is_only_the_low_half_of_a_call_number_looked_at(void)
{
	EXPECT(R(syscall(1L << 32 | SYS_getpid)), syscall(SYS_getpid), "getpid");
}

static void does_write_check_its_descriptor_and_address(void)
{
	EXPECT(R(syscall(SYS_write, -1, "x", 1)), -EBADF, "-1");
	EXPECT(R(syscall(SYS_write, 77, "x", 1)), -EBADF, "not open");
	EXPECT(R(syscall(SYS_write, INT32_MAX, BAD, 1)), -EBADF, "the descriptor before the address");
	EXPECT(R(syscall(SYS_write, 1, BAD, 1)), -EFAULT, "a bad address");
	EXPECT(R(syscall(SYS_write, 1, KERNEL, 100)), -EFAULT, "the kernel's address");
	EXPECT(R(syscall(SYS_write, 1, "", 0)), 0, "nothing");
	EXPECT(R(syscall(SYS_close, 77)), -EBADF, "close what is not open");
	EXPECT(R(syscall(SYS_close, -1)), -EBADF, "close -1");
}

static long now(int clock)
{
	struct timespec t;
	return syscall(SYS_clock_gettime, clock, &t) ? -1 : t.tv_sec * 1000000000 + t.tv_nsec;
}

static void do_clocks_go_forward_only(void)
{
	static const int clocks[] = {
		CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
		CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
	};
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
		long first = now(clocks[i]), last = first;
		EXPECT_TRUE(first >= 0, "clock_gettime");
		for (int k = 0; k < 5000 || (last == first && k < 10000000); k++) {
			long next = now(clocks[i]);
			EXPECT_TRUE(next >= last, "never back");
			last = next;
		}
		EXPECT_TRUE(last > first, "it moves");
	}
}

static void does_the_real_time_lie_after_2020(void)
{
	EXPECT_TRUE(now(CLOCK_REALTIME) / 1000000000 > 1577836800, "clock_gettime");
	EXPECT_TRUE(time(NULL) > 1577836800, "time");
}

static void what_does_clock_gettime_refuse(void)
{
	struct timespec t;
	EXPECT(R(syscall(SYS_clock_gettime, 99, &t)), -EINVAL, "no clock");
	EXPECT(R(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, BAD)), -EFAULT, "a bad address");
	EXPECT(R(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, KERNEL)), -EFAULT, "the kernel's address");
	EXPECT(R(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, NULL)), -EFAULT, "null");
}

static void does_getrandom_give_random_bytes(void)
{
	static unsigned char a[5000], b[5000];
	EXPECT(R(syscall(SYS_getrandom, a, sizeof a, 0)), sizeof a, "many");
	EXPECT(R(syscall(SYS_getrandom, b, 200, 1)), 200, "GRND_NONBLOCK");
	EXPECT_TRUE(memcmp(a, b, 200) != 0, "other ones");
	int seen[256] = { 0 }, different = 0;
	for (size_t i = 0; i < sizeof a; i++)
		different += seen[a[i]]++ == 0;
	EXPECT_TRUE(different > 250, "nearly every byte is among 5000");
	EXPECT(R(syscall(SYS_getrandom, a, 0, 0)), 0, "none");
	EXPECT(R(syscall(SYS_getrandom, a, 1, 0x80)), -EINVAL, "flags that are none");
	EXPECT(R(syscall(SYS_getrandom, BAD, 1, 0)), -EFAULT, "a bad address");
	EXPECT(R(syscall(SYS_getrandom, KERNEL, 16, 0)), -EFAULT, "the kernel's address");
}

static void what_does_readlink_refuse(void)
{
	char target[64];
	EXPECT(R(syscall(SYS_readlink, "/no/such/file", target, 64)), -ENOENT, "nothing there");
	EXPECT(R(syscall(SYS_readlink, "", target, 64)), -ENOENT, "no name");
	EXPECT(R(syscall(SYS_readlink, "/", target, 64)), -EINVAL, "no link");
	EXPECT(R(syscall(SYS_readlink, "/", target, 0)), -EINVAL, "no room");
	EXPECT(R(syscall(SYS_readlink, "/", target, -1)), -EINVAL, "less than no room");
	EXPECT(R(syscall(SYS_readlink, BAD, target, 64)), -EFAULT, "a bad name");
	EXPECT(R(syscall(SYS_readlink, NULL, target, 64)), -EFAULT, "no name at all");
}

static void does_uname_name_a_machine(void)
{
	struct utsname name;
	memset(&name, 0xff, sizeof name);
	EXPECT(R(uname(&name)), 0, "uname");
	EXPECT(strcmp(name.machine, "x86_64"), 0, "machine");
	EXPECT_TRUE(strnlen(name.sysname, 65) < 65 && name.sysname[0], "sysname");
	EXPECT_TRUE(atoi(name.release) >= 4, "a release that a C library of today accepts");
	EXPECT(R(syscall(SYS_uname, BAD)), -EFAULT, "a bad address");
	EXPECT(R(syscall(SYS_uname, KERNEL)), -EFAULT, "the kernel's address");
}

static void who_is_the_program(void)
{
	EXPECT_TRUE(syscall(SYS_getpid) > 0, "getpid");
	EXPECT(syscall(SYS_gettid), syscall(SYS_getpid), "the first thread is the process");
	EXPECT_TRUE(syscall(SYS_getppid) >= 0, "getppid");
	EXPECT_TRUE(syscall(SYS_getppid) != syscall(SYS_getpid), "not its own parent");
	EXPECT(syscall(SYS_getuid), 0, "getuid");
	EXPECT(syscall(SYS_geteuid), 0, "geteuid");
	EXPECT(syscall(SYS_getgid), 0, "getgid");
	EXPECT(syscall(SYS_getegid), 0, "getegid");
	int word = 0;
	EXPECT(R(syscall(SYS_set_tid_address, &word)), syscall(SYS_gettid), "set_tid_address");
}

static void does_prlimit_keep_what_is_set(void)
{
	struct rlimit old, new = { 100, 200 }, is;
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &old)), 0, "ask");
	EXPECT_TRUE(old.rlim_cur >= 64 && old.rlim_cur <= old.rlim_max, "a sensible limit");
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &new, &is)), 0, "set and ask");
	EXPECT_TRUE(is.rlim_cur == old.rlim_cur && is.rlim_max == old.rlim_max, "the old one comes back");
	EXPECT(R(syscall(SYS_prlimit64, syscall(SYS_getpid), RLIMIT_NOFILE, NULL, &is)), 0, "ask by number");
	EXPECT_TRUE(is.rlim_cur == 100 && is.rlim_max == 200, "the new one is there");
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, NULL)), 0, "neither");
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &old, NULL)), 0, "root may raise the hard limit");
	new = (struct rlimit){ 200, 100 };
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &new, NULL)), -EINVAL, "soft above hard");
	EXPECT(R(syscall(SYS_prlimit64, 0, 16, NULL, &is)), -EINVAL, "no resource");
	EXPECT(R(syscall(SYS_prlimit64, 0, -1, NULL, &is)), -EINVAL, "a negative resource");
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, BAD, NULL)), -EFAULT, "a bad new one");
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, BAD)), -EFAULT, "a bad old one");
	EXPECT(R(syscall(SYS_prlimit64, 4000000, RLIMIT_NOFILE, NULL, &is)), -ESRCH, "no process");
}

static void what_does_arch_prctl_do(void)
{
	unsigned long fs = 0, gs = 1, self;
	__asm__ volatile("mov %%fs:0, %0" : "=r"(self));
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs)), 0, "ARCH_GET_FS");
	EXPECT_TRUE(fs == self, "the C library's thread block");
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_SET_GS, 0x123456789000)), 0, "ARCH_SET_GS");
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs)), 0, "ARCH_GET_GS");
	EXPECT(gs, 0x123456789000, "what was set");
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_SET_GS, 0)), 0, "ARCH_SET_GS");
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_SET_GS, KERNEL)), -EPERM, "the kernel's half");
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_SET_FS, 0x8000000000000000)), -EPERM, "no address");
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_GET_FS, BAD)), -EFAULT, "a bad address");
	EXPECT(R(syscall(SYS_arch_prctl, 0x9999, 0)), -EINVAL, "no such thing");
}

static void does_stat_of_a_missing_file_fail(void)
{
	struct stat is;
	EXPECT(R(syscall(SYS_newfstatat, AT_FDCWD, "/no/such/file", &is, 0)), -ENOENT, "nothing there");
	EXPECT(R(syscall(SYS_newfstatat, AT_FDCWD, BAD, &is, 0)), -EFAULT, "a bad name");
	EXPECT(R(syscall(SYS_newfstatat, 99, "", &is, AT_EMPTY_PATH)), -EBADF, "not open");
	EXPECT(R(syscall(SYS_newfstatat, 1, "", &is, AT_EMPTY_PATH)), 0, "standard output");
	EXPECT(R(syscall(SYS_newfstatat, 1, "", BAD, AT_EMPTY_PATH)), -EFAULT, "a bad address");
}

int main(void)
{
	ASK(is_a_number_that_is_no_call_enosys);
	ASK(is_only_the_low_half_of_a_call_number_looked_at);
	ASK(does_write_check_its_descriptor_and_address);
	ASK(do_clocks_go_forward_only);
	ASK(does_the_real_time_lie_after_2020);
	ASK(what_does_clock_gettime_refuse);
	ASK(does_getrandom_give_random_bytes);
	ASK(what_does_readlink_refuse);
	ASK(does_uname_name_a_machine);
	ASK(who_is_the_program);
	ASK(does_prlimit_keep_what_is_set);
	ASK(what_does_arch_prctl_do);
	ASK(does_stat_of_a_missing_file_fail);
	return verdict_status();
}
