/* IPC namespaces: unshare(2), clone(2) and setns(2) with CLONE_NEWIPC, and what /proc tells of them. */
#include "msg.h"

#include <mqueue.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

enum { KEY = 0x1dc };

static long open_queue(const char *name, int flags)
{
	return R(syscall(SYS_mq_open, name, flags, 0600, NULL));
}

/* The number in a link of /proc. */
static long namespace_of(const char *who)
{
	char path[64], name[64];
	unsigned long number;
	snprintf(path, sizeof path, "/proc/%s/ns/ipc", who);
	ssize_t n = readlink(path, name, sizeof name - 1);
	if (n < 0)
		return -errno;
	name[n] = 0;
	return sscanf(name, "ipc:[%lu]", &number) == 1 ? (long)number : -1;
}

/* Runs `f` in a child; what it returns is the status. */
static int in_child(int (*f)(void))
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(f());
	return said(pid);
}

static long shared_id;

static int looks_in_a_new_one(void)
{
	if (unshare(CLONE_NEWIPC))
		return 1;
	if (get(KEY, 0) != -ENOENT || put(shared_id, 1, 'x', 1) != -EINVAL)
		return 2;
	if (open_queue("ns", O_RDONLY) != -ENOENT)
		return 3;
	struct msginfo info;
	if (ctl(0, MSG_INFO, &info) != 0 || info.msgpool != 0 || info.msgmap != 0)
		return 4;
	/* The same key and name, other queues. */
	if (get(KEY, IPC_CREAT | 0600) < 0 || put(get(KEY, 0), 1, 'y', 100) || open_queue("ns", O_CREAT | O_RDWR) < 0)
		return 5;
	return 0;
}

static void has_a_new_namespace_queues_of_its_own(void)
{
	shared_id = get(KEY, IPC_CREAT | 0600);
	EXPECT_OK(shared_id, "a queue");
	long posix = open_queue("ns", O_CREAT | O_RDWR);
	EXPECT_OK(posix, "a POSIX queue");
	EXPECT(put(shared_id, 1, 'a', 3), 0, "send");
	EXPECT(in_child(looks_in_a_new_one), 0, "a child with a namespace of its own");
	EXPECT(queued(shared_id), 1, "ours is as before");
	struct msginfo info;
	EXPECT_OK(ctl(0, MSG_INFO, &info), "totals");
	EXPECT(info.msgtql, 3, "bytes");
	EXPECT(R(close(posix)), 0, "close");
	EXPECT(R(syscall(SYS_mq_unlink, "ns")), 0, "unlink");
	REMOVE(shared_id);
}

static int changes_the_limits(void)
{
	if (set_setting("msgmax", 4000) || unshare(CLONE_NEWIPC))
		return 1;
	if (setting("msgmax") != 8192 || setting("msgmnb") != 16384 || setting("msgmni") != 32000)
		return 2; /* not the parent's, the defaults */
	if (set_setting("msgmni", 1) || get(IPC_PRIVATE, 0600) < 0 || get(IPC_PRIVATE, 0600) != -ENOSPC)
		return 3;
	return 0;
}

static void has_a_new_namespace_limits_of_its_own(void)
{
	EXPECT(in_child(changes_the_limits), 0, "a child");
	EXPECT(setting("msgmax"), 4000, "set before");
	EXPECT(set_setting("msgmax", 8192), 0, "as before");
	EXPECT(setting("msgmni"), 32000, "set elsewhere");
}

static int told_of_itself(void)
{
	struct stat status;
	long before = namespace_of("self");
	if (before != namespace_of("thread-self"))
		return 1;
	if (stat("/proc/self/ns/ipc", &status) || (long)status.st_ino != before)
		return 2;
	if (unshare(CLONE_NEWIPC))
		return 3;
	long own = namespace_of("self");
	if (own <= 0 || own == before)
		return 4;
	if (stat("/proc/self/ns/ipc", &status) || (long)status.st_ino != own)
		return 5;
	char parent[16];
	snprintf(parent, sizeof parent, "%d", getppid());
	if (namespace_of(parent) != before)
		return 6;
	pid_t pid = fork();
	if (pid == 0)
		_exit(namespace_of("self") != own);
	return said(pid) ? 7 : 0;
}

static void does_proc_tell_namespaces_apart(void)
{
	EXPECT_TRUE(namespace_of("self") > 0, "a number");
	EXPECT(namespace_of("1"), namespace_of("self"), "the first");
	EXPECT(in_child(told_of_itself), 0, "a child");
}

static char stack[65536] __attribute__((aligned(16)));

static int cloned(void *before)
{
	return namespace_of("self") == (long)before || get(KEY, 0) != -ENOENT;
}

static void does_clone_make_a_namespace(void)
{
	long id = get(KEY, IPC_CREAT | 0600);
	EXPECT_OK(id, "a queue");
	pid_t pid = clone(cloned, stack + sizeof stack, CLONE_NEWIPC | SIGCHLD, (void *)namespace_of("self"));
	EXPECT_OK(pid, "clone");
	EXPECT(said(pid), 0, "the child");
	EXPECT(R(clone(cloned, stack + sizeof stack, CLONE_NEWIPC | CLONE_SYSVSEM | SIGCHLD, NULL)), -EINVAL,
	       "with the same semaphores to undo");
	REMOVE(id);
}

static int may_not(void)
{
	int own = open("/proc/self/ns/ipc", O_RDONLY);
	if (become(1000))
		return 1;
	if (R(unshare(CLONE_NEWIPC)) != -EPERM)
		return 2;
	if (R(clone(cloned, stack + sizeof stack, CLONE_NEWIPC | SIGCHLD, NULL)) != -EPERM)
		return 3;
	if (R(setns(own, CLONE_NEWIPC)) != -EPERM)
		return 4;
	return R(unshare(CLONE_FILES)) ? 5 : 0;
}

static void who_may_make_a_namespace(void)
{
	EXPECT(in_child(may_not), 0, "a child of user 1000");
	EXPECT(R(unshare(0)), 0, "nothing");
	EXPECT(R(unshare(1)), -EINVAL, "a flag that is none");
	EXPECT(R(unshare(CLONE_SETTLS)), -EINVAL, "a flag of clone alone");
	EXPECT(R(unshare(CLONE_NEWIPC | CLONE_SETTLS)), -EINVAL, "and nothing was done");
}

static int goes_and_comes(void)
{
	int before = open("/proc/self/ns/ipc", O_RDONLY);
	long number = namespace_of("self"), id = get(KEY, 0);
	if (before < 0 || id < 0 || unshare(CLONE_NEWIPC))
		return 1;
	int own = open("/proc/self/ns/ipc", O_RDONLY);
	long inside = namespace_of("self"), other = get(KEY, IPC_CREAT | 0600);
	if (own < 0 || put(other, 1, 'z', 5))
		return 2;
	if (setns(before, CLONE_NEWIPC) || namespace_of("self") != number || put(id, 1, 'x', 1))
		return 3;
	/* The other one is kept by its file. */
	if (setns(own, 0) || namespace_of("self") != inside || queued(other) != 1)
		return 4;
	int null = open("/dev/null", O_RDONLY);
	if (R(setns(-1, 0)) != -EBADF || R(setns(null, 0)) != -EINVAL || R(setns(before, CLONE_NEWNET)) != -EINVAL)
		return 5;
	return 0;
}

static void does_setns_go_back_and_forth(void)
{
	long id = get(KEY, IPC_CREAT | 0600);
	EXPECT_OK(id, "a queue");
	EXPECT(in_child(goes_and_comes), 0, "a child");
	EXPECT(queued(id), 1, "it was here");
	REMOVE(id);
}

static int exists(const char *path)
{
	struct stat status;
	return stat(path, &status) == 0;
}

static int mounts(void)
{
	if (unshare(CLONE_NEWIPC) || open_queue("inside", O_CREAT | O_RDWR) < 0)
		return 1;
	if (exists("/dev/mqueue/inside") || !exists("/dev/mqueue/outside"))
		return 2; /* mounted by the other */
	mkdir("/tmp/mq", 0755);
	if (mount("mqueue", "/tmp/mq", "mqueue", 0, NULL))
		return 3;
	if (!exists("/tmp/mq/inside") || exists("/tmp/mq/outside"))
		return 4;
	return umount("/tmp/mq") || rmdir("/tmp/mq") ? 5 : 0;
}

static void does_a_mount_show_its_mounters_queues(void)
{
	long queue = open_queue("outside", O_CREAT | O_RDWR);
	EXPECT_OK(queue, "a queue");
	EXPECT(in_child(mounts), 0, "a child");
	EXPECT(R(close(queue)), 0, "close");
	EXPECT(R(syscall(SYS_mq_unlink, "outside")), 0, "unlink");
}

static int outlives(void)
{
	char buffer[8192];
	int before = open("/proc/self/ns/ipc", O_RDONLY);
	if (before < 0 || unshare(CLONE_NEWIPC))
		return 1;
	long queue = open_queue("left", O_CREAT | O_RDWR);
	if (queue < 0 || setns(before, 0))
		return 2;
	/* The namespace has gone; the queue has not. */
	if (R(syscall(SYS_mq_timedsend, queue, "abc", 3, 0, NULL)))
		return 3;
	return R(syscall(SYS_mq_timedreceive, queue, buffer, sizeof buffer, NULL, NULL)) != 3;
}

static void does_an_open_queue_outlive_its_namespace(void)
{
	EXPECT(in_child(outlives), 0, "a child");
}

static int fills_and_leaves(void)
{
	/* A small one: Linux gives the user's bytes back some time later. */
	struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	if (unshare(CLONE_NEWIPC))
		return 1;
	for (int i = 0; i < 3; i++)
		if (put(get(i + 1, IPC_CREAT | 0600), 1, 'x', 5000))
			return 2;
	return R(syscall(SYS_mq_open, "kept", O_CREAT | O_RDWR, 0600, &small)) < 0 ? 3 : 0;
}

static void do_namespaces_come_and_go(void)
{
	for (int i = 0; i < 100; i++)
		EXPECT(in_child(fills_and_leaves), 0, "a child that leaves queues behind");
	EXPECT(open_queue("kept", O_RDONLY), -ENOENT, "none of them is here");
}

int main(void)
{
	ASK(has_a_new_namespace_queues_of_its_own);
	ASK(has_a_new_namespace_limits_of_its_own);
	ASK(does_proc_tell_namespaces_apart);
	ASK(does_clone_make_a_namespace);
	ASK(who_may_make_a_namespace);
	ASK(does_setns_go_back_and_forth);
	ASK(does_a_mount_show_its_mounters_queues);
	ASK(does_an_open_queue_outlive_its_namespace);
	ASK(do_namespaces_come_and_go);
	return verdict_status();
}
