/* What the programs about System V message queues share: raw calls, a fresh queue, children that sleep at it. */
#ifndef MSG_H
#define MSG_H

#include "verdict.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef MSG_COPY
#define MSG_COPY 040000
#endif
#ifndef MSG_STAT_ANY
#define MSG_STAT_ANY 13
#endif

enum { PAGE = 4096 };

struct text {
	long type;
	char text[8192];
};

/* The kernel's own calls: no checks and no cancellation points before the kernel's. */
static inline UNUSED long get(int key, int flags)
{
	return R(syscall(SYS_msgget, key, flags));
}
static inline UNUSED long snd(long id, const void *buffer, size_t length, int flags)
{
	return R(syscall(SYS_msgsnd, (int)id, buffer, length, flags));
}
static inline UNUSED long rcv(long id, void *buffer, size_t room, long type, int flags)
{
	return R(syscall(SYS_msgrcv, (int)id, buffer, room, type, flags));
}
static inline UNUSED long ctl(long id, int command, void *buffer)
{
	return R(syscall(SYS_msgctl, (int)id, command, buffer));
}

/* A message of one type and `length` times one letter, sent without waiting. */
static inline UNUSED long put(long id, long type, char letter, size_t length)
{
	static struct text m;
	m.type = type;
	memset(m.text, letter, length);
	return snd(id, &m, length, IPC_NOWAIT);
}

static inline UNUSED long queued(long id)
{
	struct msqid_ds status;
	long result = ctl(id, IPC_STAT, &status);
	return result < 0 ? result : (long)status.msg_qnum;
}

/* Lets a queue hold `bytes` bytes, and messages. */
static inline UNUSED long set_room(long id, unsigned long bytes)
{
	struct msqid_ds status;
	long result = ctl(id, IPC_STAT, &status);
	if (result < 0)
		return result;
	status.msg_qbytes = bytes;
	return ctl(id, IPC_SET, &status);
}

/* A new private queue into `id`, ending the question if that fails. */
#define FRESH(id)                              \
	long id = get(IPC_PRIVATE, 0600);      \
	EXPECT_OK(id, "a fresh queue")
#define REMOVE(id) EXPECT(ctl(id, IPC_RMID, NULL), 0, "remove")

static inline UNUSED void pause_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

/* Waits until `pid` sleeps: its state in /proc is S. */
static inline UNUSED int asleep(pid_t pid)
{
	char path[32], line[256];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	for (int i = 0; i < 2000; i++) {
		int fd = open(path, O_RDONLY);
		ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
		close(fd);
		if (n <= 0)
			return 0;
		line[n] = 0;
		char *state = strrchr(line, ')');
		if (state && state[2] == 'S')
			return 1;
		pause_ms(1);
	}
	return 0;
}

/* What a child says: a byte, by its exit status; -1 for one that a signal ended. */
static inline UNUSED int said(pid_t pid)
{
	int status;
	if (waitpid(pid, &status, 0) != pid)
		return -2;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static inline UNUSED int still_there(pid_t pid)
{
	int status;
	return waitpid(pid, &status, WNOHANG) == 0;
}

/* A child that receives one message and says its first letter, or its errno as a number above 'z'. */
static inline UNUSED pid_t receiver(long id, size_t room, long type, int flags)
{
	pid_t pid = fork();
	if (pid == 0) {
		static struct text m;
		long n = rcv(id, &m, room, type, flags);
		_exit(n < 0 ? 128 - n : n == 0 ? '0' : m.text[0]);
	}
	if (pid > 0)
		asleep(pid);
	return pid;
}
/* A child that sends one message and says 0 or its errno, likewise. */
static inline UNUSED pid_t sender(long id, long type, char letter, size_t length)
{
	pid_t pid = fork();
	if (pid == 0) {
		static struct text m;
		m.type = type;
		memset(m.text, letter, length);
		long n = snd(id, &m, length, 0);
		_exit(n < 0 ? 128 - n : 0);
	}
	if (pid > 0)
		asleep(pid);
	return pid;
}
#define SAYS(error) (128 + (error))

/* The child's user id, for good. */
static inline UNUSED int become(unsigned user)
{
	return setresgid(user, user, user) || setresuid(user, user, user);
}

/* A setting of /proc/sys/kernel; -errno. */
static inline UNUSED long setting(const char *name)
{
	char path[64], line[32];
	snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, line, sizeof line - 1);
	close(fd);
	if (n < 0)
		return -errno;
	line[n] = 0;
	return strtol(line, NULL, 10);
}
static inline UNUSED long set_setting(const char *name, long value)
{
	char path[64], line[32];
	snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
	int n = snprintf(line, sizeof line, "%ld", value), fd = open(path, O_WRONLY);
	if (fd < 0)
		return -errno;
	long result = write(fd, line, n) < 0 ? -errno : 0;
	close(fd);
	return result;
}

/* Addresses that a program cannot use. */
static const uintptr_t bad_addresses[] UNUSED = {
	8, 0xffffffff80200000, 0xffff800000000000, 0x4141414141414141, ~(uintptr_t)0 - 8,
};
#define BAD_ADDRESSES (sizeof bad_addresses / sizeof *bad_addresses)

/* A page that may be read and written, with one behind it that may not be touched; NULL if there is none. */
static inline UNUSED char *page_before_a_hole(void)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || munmap(p + PAGE, PAGE) != 0)
		return NULL;
	return p;
}

#endif
