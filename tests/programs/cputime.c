/* CPU time: of the process, its threads and its children. */
#include "verdict.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>

#define MS 1000000L

static long shown(clockid_t id)
{
	struct timespec t;
	return syscall(SYS_clock_gettime, id, &t) ? -errno : t.tv_sec * 1000 * MS + t.tv_nsec;
}

/* Keeps a CPU busy for so many nanoseconds of this thread's own time. */
static void burn(long nanoseconds)
{
	long end = shown(CLOCK_THREAD_CPUTIME_ID) + nanoseconds;
	while (shown(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static long nanoseconds(struct timeval t)
{
	return t.tv_sec * 1000 * MS + t.tv_usec * 1000;
}

static long used(int who)
{
	struct rusage r;
	getrusage(who, &r);
	return nanoseconds(r.ru_utime) + nanoseconds(r.ru_stime);
}

static void is_sleep_no_cpu_time(void)
{
	struct timespec wait = { 0, 200 * MS };
	long process = shown(CLOCK_PROCESS_CPUTIME_ID), thread = shown(CLOCK_THREAD_CPUTIME_ID);
	long resource = used(RUSAGE_SELF);
	EXPECT(R(nanosleep(&wait, NULL)), 0, "nanosleep");
	EXPECT_TRUE(shown(CLOCK_PROCESS_CPUTIME_ID) - process < 100 * MS, "of the process");
	EXPECT_TRUE(shown(CLOCK_THREAD_CPUTIME_ID) - thread < 100 * MS, "of the thread");
	EXPECT_TRUE(used(RUSAGE_SELF) - resource < 100 * MS, "by getrusage");
}

static void is_work_cpu_time(void)
{
	struct tms before, after;
	long process = shown(CLOCK_PROCESS_CPUTIME_ID), resource = used(RUSAGE_SELF), thread = used(RUSAGE_THREAD);
	times(&before);
	burn(60 * MS);
	times(&after);
	EXPECT_TRUE(shown(CLOCK_PROCESS_CPUTIME_ID) - process >= 60 * MS, "by the clock");
	EXPECT_TRUE(used(RUSAGE_SELF) - resource >= 59 * MS, "by getrusage");
	EXPECT_TRUE(used(RUSAGE_THREAD) - thread >= 59 * MS, "by getrusage, of the thread");
	long ticks = after.tms_utime + after.tms_stime - before.tms_utime - before.tms_stime;
	EXPECT_TRUE(ticks >= 4, "by times");
}

static void is_time_in_the_program_the_users(void)
{
	struct rusage before, after;
	getrusage(RUSAGE_SELF, &before);
	long end = shown(CLOCK_THREAD_CPUTIME_ID) + 100 * MS;
	while (shown(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 100000; i++)
			;
	getrusage(RUSAGE_SELF, &after);
	long user = nanoseconds(after.ru_utime) - nanoseconds(before.ru_utime);
	EXPECT_TRUE(user >= 50 * MS, "most of it in the program");
}

static void is_time_in_calls_the_systems(void)
{
	static char buffer[1 << 16];
	FILE *zero = fopen("/dev/zero", "r");
	struct rusage before, after;
	EXPECT_TRUE(zero, "open /dev/zero");
	getrusage(RUSAGE_SELF, &before);
	long end = shown(CLOCK_THREAD_CPUTIME_ID) + 100 * MS;
	while (shown(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 100; i++)
			if (read(fileno(zero), buffer, sizeof buffer) != sizeof buffer)
				break;
	fclose(zero);
	getrusage(RUSAGE_SELF, &after);
	EXPECT_TRUE(nanoseconds(after.ru_stime) > nanoseconds(before.ru_stime), "time in the kernel");
}

static void *work(void *unused)
{
	burn(50 * MS);
	return unused;
}

static void does_a_threads_time_count_for_its_process_alone(void)
{
	pthread_t thread;
	long process = shown(CLOCK_PROCESS_CPUTIME_ID), own = shown(CLOCK_THREAD_CPUTIME_ID);
	EXPECT(pthread_create(&thread, NULL, work, NULL), 0, "pthread_create");
	pthread_join(thread, NULL);
	EXPECT_TRUE(shown(CLOCK_PROCESS_CPUTIME_ID) - process >= 50 * MS, "the process's");
	EXPECT_TRUE(shown(CLOCK_THREAD_CPUTIME_ID) - own < 50 * MS, "not the other thread's");
}

static void does_a_childs_time_count_when_it_is_waited_for(void)
{
	struct rusage r;
	struct tms before, after;
	long children = used(RUSAGE_CHILDREN), own = used(RUSAGE_SELF);
	times(&before);
	pid_t child = fork();
	if (child == 0) {
		burn(60 * MS);
		_exit(0);
	}
	siginfo_t info;
	EXPECT(R(waitid(P_PID, child, &info, WEXITED | WNOWAIT)), 0, "waitid");
	EXPECT(used(RUSAGE_CHILDREN), children, "not before the wait");
	EXPECT(R(wait4(child, NULL, 0, &r)), child, "wait4");
	EXPECT_TRUE(nanoseconds(r.ru_utime) + nanoseconds(r.ru_stime) >= 59 * MS, "by wait4");
	EXPECT_TRUE(used(RUSAGE_CHILDREN) - children >= 59 * MS, "by getrusage");
	EXPECT_TRUE(used(RUSAGE_SELF) - own < 59 * MS, "not the parent's own");
	times(&after);
	EXPECT_TRUE(after.tms_cutime + after.tms_cstime - before.tms_cutime - before.tms_cstime >= 4, "by times");
}

static void does_a_forked_child_begin_with_none(void)
{
	int status;
	burn(20 * MS);
	pid_t child = fork();
	if (child == 0)
		_exit(shown(CLOCK_PROCESS_CPUTIME_ID) >= 20 * MS || used(RUSAGE_CHILDREN) != 0);
	EXPECT(R(waitpid(child, &status, 0)), child, "waitpid");
	EXPECT(status, 0, "the child's times");
}

static void are_switches_counted(void)
{
	struct timespec wait = { 0, MS };
	struct rusage before, after, thread;
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < 5; i++)
		nanosleep(&wait, NULL);
	getrusage(RUSAGE_SELF, &after);
	getrusage(RUSAGE_THREAD, &thread);
	EXPECT_TRUE(after.ru_nvcsw - before.ru_nvcsw >= 5, "voluntary ones");
	EXPECT_TRUE(thread.ru_nvcsw >= 5, "of the thread");
}

static void which_clocks_of_others_can_be_read(void)
{
	clockid_t id;
	EXPECT(clock_getcpuclockid(getpid(), &id), 0, "the own process's");
	EXPECT_TRUE(shown(id) > 0, "shows");
	EXPECT(pthread_getcpuclockid(pthread_self(), &id), 0, "the own thread's");
	EXPECT_TRUE(shown(id) > 0, "shows");
	EXPECT(shown(~99999U << 3 | 2), -EINVAL, "of a process that is none");
	EXPECT(shown(~(unsigned)getpid() << 3 | 3), -EINVAL, "a kind that is none");
	pid_t child = fork();
	if (child == 0) {
		burn(30 * MS);
		kill(getpid(), SIGSTOP);
		_exit(0);
	}
	waitpid(child, NULL, WUNTRACED);
	EXPECT_TRUE(shown(~(unsigned)child << 3 | 2) >= 30 * MS, "a child's");
	EXPECT(shown(~(unsigned)child << 3 | 6), -EINVAL, "a thread of another process");
	kill(child, SIGCONT);
	waitpid(child, NULL, 0);
}

static void by_which_clocks_can_one_sleep(void)
{
	static const struct { int id, error; } clocks[] = {
		{ 0, 0 }, { 1, 0 }, { 7, 0 }, { 11, 0 }, { 3, EOPNOTSUPP }, { 4, EOPNOTSUPP }, { 5, EOPNOTSUPP },
		{ 6, EOPNOTSUPP }, { 10, EINVAL }, { 12, EINVAL }, { -1, EINVAL }, { -2, EINVAL }, { -5, EOPNOTSUPP },
	};
	struct timespec none = { 0, 0 }, bad = { 0, -1 };
	for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++)
		EXPECT(R(syscall(SYS_clock_nanosleep, clocks[i].id, 0, &none, NULL)), -clocks[i].error, "a clock");
	EXPECT(R(syscall(SYS_clock_nanosleep, 3, 0, NULL, NULL)), -EOPNOTSUPP, "the clock before the address");
	EXPECT(R(syscall(SYS_clock_nanosleep, -2, 0, NULL, NULL)), -EFAULT, "but not a clock of a thread");
	EXPECT(R(syscall(SYS_clock_nanosleep, 0, 0, &bad, NULL)), -EINVAL, "a time that is none");
}

static void does_proc_show_the_same(void)
{
	char line[1024] = "";
	FILE *f = fopen("/proc/self/stat", "r");
	EXPECT_TRUE(f && fgets(line, sizeof line, f), "read /proc/self/stat");
	fclose(f);
	long group = 0, user = 0, system = 0;
	char *rest = strrchr(line, ')');
	EXPECT_TRUE(rest, "its form");
	EXPECT(sscanf(rest, ") %*c %*d %ld %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &group, &user, &system), 3, "its fields");
	EXPECT(group, getpgrp(), "the group");
	EXPECT_TRUE(user + system > 0, "the times");
	EXPECT_TRUE(labs(user + system - used(RUSAGE_SELF) / (10 * MS)) <= 2, "agree with getrusage");
}

int main(void)
{
	ASK(is_sleep_no_cpu_time);
	ASK(is_work_cpu_time);
	ASK(is_time_in_the_program_the_users);
	ASK(is_time_in_calls_the_systems);
	ASK(does_a_threads_time_count_for_its_process_alone);
	ASK(does_a_childs_time_count_when_it_is_waited_for);
	ASK(does_a_forked_child_begin_with_none);
	ASK(are_switches_counted);
	ASK(which_clocks_of_others_can_be_read);
	ASK(by_which_clocks_can_one_sleep);
	ASK(does_proc_show_the_same);
	return verdict_status();
}
