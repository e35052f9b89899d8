/* Processes: fork, exec, wait, groups. */
#include "verdict.h"

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

/* Waits for a child and gives its status as wait(2) does, or an error number negated. */
static long status_of(pid_t child)
{
	int status;
	long result = R(waitpid(child, &status, 0));
	return result < 0 ? result : status;
}

static void does_a_child_have_memory_of_its_own(void)
{
	static volatile int word = 1;
	pid_t child = fork();
	if (child == 0) {
		word = 2;
		_exit(word + 40);
	}
	EXPECT_TRUE(child > 0, "fork");
	word = 3;
	EXPECT(status_of(child), 42 << 8, "the child's own");
	EXPECT(word, 3, "the parent's own");
}

static void is_a_shared_mapping_shared(void)
{
	int *word = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT_TRUE(word != MAP_FAILED, "mmap");
	word[0] = 5;
	pid_t child = fork();
	if (child == 0) {
		word[1024] = word[0] + 1;
		_exit(0);
	}
	EXPECT(status_of(child), 0, "the child");
	EXPECT(word[1024], 6, "written by the child, in a page that was not there before");
	munmap(word, 8192);
}

static void does_wait_say_how_a_child_ended(void)
{
	pid_t child = fork();
	if (child == 0)
		abort();
	EXPECT(status_of(child), SIGABRT, "abort");
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	EXPECT(R(kill(child, SIGTERM)), 0, "kill");
	EXPECT(status_of(child), SIGTERM, "SIGTERM");
	EXPECT(R(waitpid(-1, NULL, 0)), -ECHILD, "no child is left");
	EXPECT(R(waitpid(child, NULL, WNOHANG)), -ECHILD, "nor that one");
	EXPECT(R(kill(child, 0)), -ESRCH, "nor its number");
}

static void can_wait_look_without_waiting(void)
{
	pid_t child = fork();
	if (child == 0)
		for (;;)
			pause();
	EXPECT(R(waitpid(child, NULL, WNOHANG)), 0, "it runs");
	kill(child, SIGKILL);
	siginfo_t info;
	EXPECT(R(waitid(P_PID, child, &info, WEXITED | WNOWAIT)), 0, "look");
	EXPECT(info.si_code, CLD_KILLED, "how");
	EXPECT(info.si_status, SIGKILL, "by what");
	EXPECT(info.si_pid, child, "who");
	EXPECT(status_of(child), SIGKILL, "and it is still there to be waited for");
}

static void does_a_stopped_child_go_on(void)
{
	int status;
	pid_t child = fork();
	if (child == 0)
		for (;;)
			pause();
	kill(child, SIGSTOP);
	EXPECT(R(waitpid(child, &status, WUNTRACED)), child, "stopped");
	EXPECT(status, SIGSTOP << 8 | 0x7f, "its status");
	kill(child, SIGCONT);
	EXPECT(R(waitpid(child, &status, WCONTINUED)), child, "continued");
	EXPECT(status, 0xffff, "its status");
	kill(child, SIGKILL);
	EXPECT(status_of(child), SIGKILL, "killed");
}

static void does_an_ignored_end_leave_no_zombie(void)
{
	signal(SIGCHLD, SIG_IGN);
	pid_t child = fork();
	if (child == 0)
		_exit(3);
	long result = R(waitpid(child, NULL, 0));
	signal(SIGCHLD, SIG_DFL);
	EXPECT(result, -ECHILD, "waitpid");
}

static void do_orphans_get_another_parent(void)
{
	int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();
	if (child == 0) {
		pid_t middle = getpid();
		if (fork() == 0) {
			while (getppid() == middle)
				usleep(1000);
			*(volatile int *)word = getppid();
			_exit(0);
		}
		_exit(0);
	}
	EXPECT(status_of(child), 0, "the middle one");
	for (int i = 0; i < 2000 && !*(volatile int *)word; i++)
		usleep(1000);
	EXPECT(*word, 1, "init");
}

static void do_groups_and_sessions_keep_their_rules(void)
{
	pid_t child = fork();
	if (child == 0) {
		if (getpgrp() == getpid() || setsid() != getpid() || getsid(0) != getpid() || getpgrp() != getpid())
			_exit(1);
		_exit(setpgid(0, 0) == -1 && errno == EPERM ? 0 : 2);
	}
	EXPECT(status_of(child), 0, "a session of its own");
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	EXPECT(R(setpgid(child, child)), 0, "a group of its own");
	EXPECT(R(getpgid(child)), child, "getpgid");
	EXPECT(R(kill(-child, SIGUSR1)), 0, "the whole group");
	EXPECT(status_of(child), SIGUSR1, "its end");
	EXPECT(R(setpgid(99999, 0)), -ESRCH, "nobody");
	EXPECT(R(setpgid(0, -1)), -EINVAL, "no group");
}

static void does_exec_replace_the_program(void)
{
	char *arguments[] = { "me", "again", NULL }, *environment[] = { "WORD=value", NULL };
	pid_t child = fork();
	if (child == 0) {
		execve("/proc/self/exe", arguments, environment);
		_exit(99);
	}
	EXPECT(status_of(child), 77 << 8, "fork and execve");
	child = vfork();
	if (child == 0) {
		execve("/proc/self/exe", arguments, environment);
		_exit(99);
	}
	EXPECT(status_of(child), 77 << 8, "vfork and execve");
	EXPECT(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environment), 0, "posix_spawn");
	EXPECT(status_of(child), 77 << 8, "its end");
}

static void what_does_exec_refuse(void)
{
	char *arguments[] = { "x", NULL };
	EXPECT(R(execve("/no/such/file", arguments, environ)), -ENOENT, "nothing there");
	EXPECT(R(execve("/", arguments, environ)), -EACCES, "a directory");
	EXPECT(R(syscall(SYS_execve, 8, arguments, environ)), -EFAULT, "a bad path");
	EXPECT(R(syscall(SYS_execve, "/proc/self/exe", 8, environ)), -EFAULT, "a bad list");
	size_t size = 200000;
	char *large = malloc(size);
	memset(large, 'x', size - 1);
	large[size - 1] = 0;
	char *too_large[] = { "x", large, NULL };
	EXPECT(R(execve("/proc/self/exe", too_large, environ)), -E2BIG, "a string of more than 128 KiB");
	free(large);
}

static void does_a_child_share_open_files_and_only_them(void)
{
	int copy = dup(1);
	EXPECT_TRUE(copy > 0, "dup");
	pid_t child = fork();
	if (child == 0)
		_exit(close(copy));
	EXPECT(status_of(child), 0, "closed there");
	EXPECT(R(close(copy)), 0, "still open here");
}

static void do_many_processes_come_and_go(void)
{
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(i & 0x7f);
		EXPECT(status_of(child), (i & 0x7f) << 8, "its status");
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "again"))
		return getenv("WORD") && !strcmp(getenv("WORD"), "value") && !environ[1] ? 77 : 78;
	ASK(does_a_child_have_memory_of_its_own);
	ASK(is_a_shared_mapping_shared);
	ASK(does_wait_say_how_a_child_ended);
	ASK(can_wait_look_without_waiting);
	ASK(does_a_stopped_child_go_on);
	ASK(does_an_ignored_end_leave_no_zombie);
	ASK(do_orphans_get_another_parent);
	ASK(do_groups_and_sessions_keep_their_rules);
	ASK(does_exec_replace_the_program);
	ASK(what_does_exec_refuse);
	ASK(does_a_child_share_open_files_and_only_them);
	ASK(do_many_processes_come_and_go);
	return verdict_status();
}
