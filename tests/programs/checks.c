/* What calls look at, in which order, and what they leave done: where a mistake shows it. */
#include "verdict.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE 4096
#define NOBODY 99999
#define NO_SIGNAL 99
#define BAD ((void *)8)

/* The last 96 bytes of a page that nothing follows. */
static char *edge(void)
{
	char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(page + PAGE, PAGE);
	return page + PAGE - 96;
}

static void is_the_part_done_that_fits(void)
{
	char *at = edge();
	int zero = open("/dev/zero", O_RDWR), random = open("/dev/urandom", O_RDONLY), text = open("/proc/self/status", O_RDONLY);
	memset(at, 1, 96);
	EXPECT(R(syscall(SYS_getrandom, at, 200, 0)), 96, "getrandom");
	EXPECT(R(syscall(SYS_getrandom, at + 96, 200, 0)), -EFAULT, "getrandom without room");
	EXPECT(R(read(zero, at, 200)), 96, "zeros");
	EXPECT(at[0] | at[95], 0, "they are zero");
	EXPECT(R(read(zero, at + 96, 200)), -EFAULT, "zeros without room");
	EXPECT(R(read(random, at, 200)), 96, "random bytes");
	EXPECT_TRUE(R(read(text, at, 200)) > 0, "a text of /proc");
	EXPECT(R(syscall(SYS_read, zero, at, -1L)), -EFAULT, "a length below 0");
	close(zero);
	close(random);
	close(text);
}

static void may_a_pending_set_be_short(void)
{
	unsigned char set[8] = { 9, 9, 9, 9, 9, 9, 9, 9 };
	EXPECT(R(syscall(SYS_rt_sigpending, set, 4)), 0, "four bytes");
	EXPECT(set[0] | set[3], 0, "are written");
	EXPECT(set[4], 9, "and no more");
	EXPECT(R(syscall(SYS_rt_sigpending, BAD, 0)), 0, "none");
	EXPECT(R(syscall(SYS_rt_sigpending, set, 9)), -EINVAL, "too many");
}

static void is_who_is_meant_looked_for_before_the_signal(void)
{
	EXPECT(R(syscall(SYS_kill, NOBODY, NO_SIGNAL)), -ESRCH, "kill");
	EXPECT(R(syscall(SYS_kill, -NOBODY, NO_SIGNAL)), -ESRCH, "kill a group");
	EXPECT(R(syscall(SYS_tkill, NOBODY, NO_SIGNAL)), -ESRCH, "tkill");
	EXPECT(R(syscall(SYS_tgkill, NOBODY, NOBODY, NO_SIGNAL)), -ESRCH, "tgkill");
	EXPECT(R(syscall(SYS_kill, getpid(), NO_SIGNAL)), -EINVAL, "kill oneself");
	EXPECT(R(syscall(SYS_kill, 0, NO_SIGNAL)), -EINVAL, "kill one's group");
	EXPECT(R(syscall(SYS_tkill, getpid(), NO_SIGNAL)), -EINVAL, "tkill oneself");
	EXPECT(R(syscall(SYS_tgkill, getpid(), getpid(), NO_SIGNAL)), -EINVAL, "tgkill oneself");
}

static void is_the_number_of_buffers_32_bits_wide(void)
{
	char text[10];
	struct iovec buffer = { text, sizeof text };
	int zero = open("/dev/zero", O_RDWR);
	EXPECT(R(syscall(SYS_readv, zero, &buffer, 1L << 32 | 1)), 10, "readv");
	EXPECT(R(syscall(SYS_writev, zero, &buffer, 1L << 32 | 1)), 10, "writev");
	EXPECT(R(syscall(SYS_writev, zero, &buffer, -1L)), -EINVAL, "-1");
	close(zero);
}

static void in_which_order_does_prlimit_look(void)
{
	struct rlimit limit, wrong = { 5, 3 };
	EXPECT(R(syscall(SYS_prlimit64, NOBODY, NO_SIGNAL, BAD, NULL)), -EFAULT, "the address first");
	EXPECT(R(syscall(SYS_prlimit64, NOBODY, NO_SIGNAL, NULL, NULL)), -ESRCH, "then the process");
	EXPECT(R(syscall(SYS_prlimit64, 0, NO_SIGNAL, NULL, NULL)), -EINVAL, "then the limit");
	EXPECT(R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &wrong, NULL)), -EINVAL, "then the value");
	EXPECT(R(syscall(SYS_prlimit64, -1, RLIMIT_NOFILE, NULL, &limit)), -ESRCH, "-1 is nobody");
}

static void can_another_processs_limits_be_set(void)
{
	struct rlimit want = { 50, 60 }, got;
	int end[2], status;
	EXPECT(R(pipe(end)), 0, "pipe");
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(end[1]);
		while (read(end[0], &byte, 1) < 0)
			;
		_exit(getrlimit(RLIMIT_NOFILE, &got) || got.rlim_cur != 50 || got.rlim_max != 60);
	}
	EXPECT(R(syscall(SYS_prlimit64, child, RLIMIT_NOFILE, &want, NULL)), 0, "set");
	EXPECT(R(syscall(SYS_prlimit64, child, RLIMIT_NOFILE, NULL, &got)), 0, "get");
	EXPECT(got.rlim_cur, 50, "what was set");
	getrlimit(RLIMIT_NOFILE, &got);
	EXPECT_TRUE(got.rlim_cur != 50, "the caller's is as before");
	close(end[1]);
	waitpid(child, &status, 0);
	EXPECT(status, 0, "the child's own view");
	close(end[0]);
}

static void are_the_upper_halves_of_flags_looked_at(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(R(syscall(SYS_mprotect, page, PAGE, 1L << 32 | PROT_READ)), -EINVAL, "mprotect's");
	EXPECT(R(syscall(SYS_mprotect, page, 0L, 1L << 32 | PROT_READ)), 0, "not of nothing");
	EXPECT(R(syscall(SYS_mremap, page, PAGE, PAGE, 1L << 32, 0L)), -EINVAL, "mremap's");
	munmap(page, PAGE);
}

static void can_several_areas_shrink_together(void)
{
	char *start = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(R(mprotect(start + PAGE, PAGE, PROT_READ)), 0, "mprotect");
	EXPECT(R(syscall(SYS_mremap, start, 4 * PAGE, 4 * PAGE, 0L, 0L)), (long)start, "the same length");
	EXPECT(R(syscall(SYS_mremap, start, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE, 0L)), -EFAULT, "longer");
	EXPECT(R(syscall(SYS_mremap, start, 4 * PAGE, PAGE, 0L, 0L)), (long)start, "shorter");
	start[PAGE - 1] = 1;
	EXPECT(R(madvise(start + PAGE, PAGE, MADV_NORMAL)), -ENOMEM, "the second is gone");
	EXPECT(R(madvise(start + 3 * PAGE, PAGE, MADV_NORMAL)), -ENOMEM, "and the last");
	munmap(start, PAGE);
}

static void are_files_large(void)
{
	int zero = open("/dev/zero", O_RDWR), path = open("/dev/zero", O_PATH), end[2];
	EXPECT(R(syscall(SYS_fcntl, zero, F_GETFL)), 0100002, "an open file");
	EXPECT(R(syscall(SYS_fcntl, path, F_GETFL)), O_PATH, "a path");
	EXPECT(R(pipe(end)), 0, "pipe");
	EXPECT(R(syscall(SYS_fcntl, end[1], F_GETFL)), O_WRONLY, "a pipe");
	close(zero);
	close(path);
	close(end[0]);
	close(end[1]);
}

static void which_futex_operations_take_the_real_time(void)
{
	int word = 1;
	EXPECT(R(syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0)), -ENOSYS, "not a wait");
	EXPECT(R(syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0)), -ENOSYS, "nor a wake");
	EXPECT(R(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 1)), -EAGAIN, "a wait by bits");
}

int main(void)
{
	ASK(is_the_part_done_that_fits);
	ASK(may_a_pending_set_be_short);
	ASK(is_who_is_meant_looked_for_before_the_signal);
	ASK(is_the_number_of_buffers_32_bits_wide);
	ASK(in_which_order_does_prlimit_look);
	ASK(can_another_processs_limits_be_set);
	ASK(are_the_upper_halves_of_flags_looked_at);
	ASK(can_several_areas_shrink_together);
	ASK(are_files_large);
	ASK(which_futex_operations_take_the_real_time);
	return verdict_status();
}
