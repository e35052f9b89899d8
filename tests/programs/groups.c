/* Supplementary groups: setgroups(2), getgroups(2), and where they count. */
#include "msg.h"

#include <grp.h>
#include <mqueue.h>
#include <sys/stat.h>

static int in_child(int (*f)(void))
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(f());
	return said(pid);
}

static long raw_groups(int size, void *list)
{
	return R(syscall(SYS_getgroups, size, list));
}

static int keeps_groups(void)
{
	gid_t groups[] = { 30, 10, 20, 10 }, got[8];
	if (R(getgroups(0, NULL)) != 0)
		return 1;
	if (setgroups(4, groups) || R(getgroups(0, NULL)) != 4)
		return 2;
	if (R(getgroups(8, got)) != 4 || got[0] != 10 || got[1] != 10 || got[2] != 20 || got[3] != 30)
		return 3; /* in order */
	if (raw_groups(3, got) != -EINVAL || raw_groups(-1, got) != -EINVAL || raw_groups(8, (void *)8) != -EFAULT)
		return 4;
	pid_t pid = fork();
	if (pid == 0)
		_exit(R(getgroups(8, got)) != 4 || got[3] != 30);
	if (said(pid))
		return 5;
	return setgroups(0, NULL) || R(getgroups(8, got)) != 0 ? 6 : 0;
}

static void are_groups_kept_in_order_and_inherited(void)
{
	EXPECT(in_child(keeps_groups), 0, "a child");
}

static int is_refused(void)
{
	gid_t group = 1;
	if (R(setgroups(65537, &group)) != -EINVAL || R(setgroups(1, (void *)8)) != -EFAULT)
		return 1;
	if (become(1000))
		return 2;
	return R(setgroups(1, &group)) != -EPERM || R(setgroups(65537, &group)) != -EPERM ? 3 : 0;
}

static void what_does_setgroups_refuse(void)
{
	EXPECT(in_child(is_refused), 0, "a child");
}

static long queue;

static int reads(void)
{
	gid_t group = 500;
	static struct text m;
	if (setgroups(1, &group) || become(1000))
		return 1;
	int fd = open("groups", O_RDONLY);
	if (fd < 0 || R(open("groups", O_WRONLY)) != -EACCES)
		return 2;
	if (put(queue, 1, 'a', 1) || rcv(queue, &m, 8, 0, IPC_NOWAIT) != -EACCES)
		return 3;
	if (mq_open("/groups", O_RDONLY) < 0 || R(mq_open("/groups", O_WRONLY)) != -EACCES)
		return 4;
	return 0;
}

static void do_groups_give_their_rights(void)
{
	struct msqid_ds status;
	/* By a relative name: who may pass the root directory is not asked. */
	EXPECT(R(chdir("/tmp")), 0, "chdir");
	umask(0);
	int fd = open("groups", O_CREAT | O_RDWR, 0640);
	EXPECT_OK(fd, "a file");
	EXPECT(R(fchown(fd, 0, 500)), 0, "its group");
	queue = get(IPC_PRIVATE, 0620);
	EXPECT_OK(queue, "a System V queue");
	EXPECT(ctl(queue, IPC_STAT, &status), 0, "status");
	status.msg_perm.gid = 500;
	EXPECT(ctl(queue, IPC_SET, &status), 0, "its group");
	mqd_t posix = mq_open("/groups", O_CREAT | O_RDWR, 0640, NULL);
	EXPECT_OK(posix, "a POSIX queue");
	EXPECT(R(fchown(posix, 0, 500)), 0, "its group");
	EXPECT(in_child(reads), 0, "a child of the group");
	REMOVE(queue);
	EXPECT(R(mq_unlink("/groups")), 0, "unlink");
	EXPECT(R(unlink("groups")), 0, "unlink");
}

int main(void)
{
	ASK(are_groups_kept_in_order_and_inherited);
	ASK(what_does_setgroups_refuse);
	ASK(do_groups_give_their_rights);
	return verdict_status();
}
