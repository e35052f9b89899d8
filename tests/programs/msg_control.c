/* msgctl(2) and /proc/sysvipc/msg: what is told, what can be changed, and by whom. */
#include "msg.h"

static void what_commands_and_ids_are_refused(void)
{
	struct msqid_ds status;
	FRESH(id);
	EXPECT(ctl(id, 99, &status), -EINVAL, "no such command");
	EXPECT(ctl(id, -1, &status), -EINVAL, "a negative one");
	EXPECT(ctl(-1, IPC_STAT, &status), -EINVAL, "a negative id");
	EXPECT(ctl(-1, IPC_INFO, &status), -EINVAL, "even where it is not looked at");
	EXPECT(ctl(id + (1 << 15), IPC_STAT, &status), -EINVAL, "another sequence number");
	EXPECT(ctl(id + 1, IPC_RMID, NULL), -EINVAL, "another index");
	EXPECT(ctl(0x7fffffff, IPC_SET, &status), -EINVAL, "the last id");
	REMOVE(id);
	EXPECT(ctl(id, IPC_RMID, NULL), -EINVAL, "removed twice");
	EXPECT(ctl(id, IPC_STAT, &status), -EINVAL, "looked at afterwards");
}

static void in_which_order_are_controls_faults_found(void)
{
	FRESH(id);
	for (unsigned i = 0; i < BAD_ADDRESSES; i++) {
		void *bad = (void *)bad_addresses[i];
		EXPECT(ctl(id, IPC_STAT, bad), -EFAULT, "status");
		EXPECT(ctl(0x7fffffff, IPC_STAT, bad), -EINVAL, "the queue before the address");
		EXPECT(ctl(0x7fffffff, IPC_SET, bad), -EFAULT, "but not for a change");
		EXPECT(ctl(0, IPC_INFO, bad), -EFAULT, "limits");
		EXPECT(ctl(0, MSG_INFO, bad), -EFAULT, "totals");
		EXPECT(ctl(id & 0x7fff, MSG_STAT, bad), -EFAULT, "by index");
	}
	EXPECT(ctl(id, IPC_RMID, (void *)8), 0, "a removal looks at no address");
}

static void are_the_limits_told(void)
{
	struct msginfo info;
	memset(&info, 0xee, sizeof info);
	EXPECT_OK(ctl(0, IPC_INFO, &info), "limits");
	EXPECT(info.msgmax, setting("msgmax"), "msgmax");
	EXPECT(info.msgmnb, setting("msgmnb"), "msgmnb");
	EXPECT(info.msgmni, setting("msgmni"), "msgmni");
	EXPECT(info.msgssz, 16, "msgssz");
	EXPECT(info.msgseg, 0xffff, "msgseg");
	EXPECT(info.msgpool, 512000, "msgpool");
	EXPECT(info.msgmap, 16384, "msgmap");
	EXPECT(info.msgtql, 16384, "msgtql");
}

static void are_the_totals_those_of_all_queues(void)
{
	struct msginfo before, info;
	EXPECT_OK(ctl(0, MSG_INFO, &before), "before");
	FRESH(a);
	FRESH(b);
	EXPECT(put(a, 1, 'a', 10) + put(a, 1, 'a', 0) + put(b, 1, 'b', 300), 0, "send");
	long highest = ctl(0, MSG_INFO, &info);
	EXPECT(info.msgpool, before.msgpool + 2, "queues");
	EXPECT(info.msgmap, before.msgmap + 3, "messages");
	EXPECT(info.msgtql, before.msgtql + 310, "bytes");
	EXPECT(info.msgssz, 16, "and the limits");
	struct msqid_ds status;
	EXPECT_OK(ctl(highest, MSG_STAT, &status), "the highest index is in use");
	EXPECT(ctl(highest + 1, MSG_STAT, &status), -EINVAL, "the next is not");
	static struct text m;
	EXPECT(rcv(a, &m, 10, 0, 0), 10, "receive");
	REMOVE(b);
	EXPECT_OK(ctl(0, MSG_INFO, &info), "after");
	EXPECT(info.msgpool, before.msgpool + 1, "queues");
	EXPECT(info.msgmap, before.msgmap + 1, "messages");
	EXPECT(info.msgtql, before.msgtql, "bytes");
	REMOVE(a);
}

static void is_a_queue_found_by_its_index(void)
{
	struct msqid_ds status;
	FRESH(id);
	EXPECT(put(id, 1, 'a', 7), 0, "send");
	EXPECT(ctl(id & 0x7fff, MSG_STAT, &status), id, "its id");
	EXPECT(status.__msg_cbytes, 7, "bytes");
	EXPECT(ctl(id, MSG_STAT, &status), id, "the sequence number is not looked at");
	EXPECT(ctl(id & 0x7fff, MSG_STAT_ANY, &status), id, "for anybody");
	EXPECT(ctl(0x7ffe, MSG_STAT, &status), -EINVAL, "an index that nobody has");
	pid_t pid = fork();
	if (pid == 0) {
		if (become(1000))
			_exit(1);
		if (ctl(id & 0x7fff, MSG_STAT, &status) != -EACCES)
			_exit(2);
		memset(&status, 0, sizeof status);
		if (ctl(id & 0x7fff, MSG_STAT_ANY, &status) != id || status.msg_qnum != 1)
			_exit(3);
		if (ctl(id, IPC_STAT, &status) != -EACCES)
			_exit(4);
		if (ctl(id, IPC_STAT, (void *)8) != -EACCES)
			_exit(5);
		_exit(0);
	}
	EXPECT(said(pid), 0, "a stranger");
	REMOVE(id);
}

static void what_can_be_changed(void)
{
	struct msqid_ds status;
	FRESH(id);
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	status.msg_perm.uid = 12;
	status.msg_perm.gid = 34;
	status.msg_perm.cuid = 56;
	status.msg_perm.mode = 07755;
	status.msg_perm.__key = 99;
	status.msg_qbytes = 1000000;
	status.msg_qnum = 5;
	status.msg_lspid = 77;
	EXPECT(ctl(id, IPC_SET, &status), 0, "change");
	memset(&status, 0xee, sizeof status);
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_perm.uid, 12, "owner");
	EXPECT(status.msg_perm.gid, 34, "group");
	EXPECT(status.msg_perm.cuid, 0, "the creator stays");
	EXPECT(status.msg_perm.mode, 0755, "permission bits");
	EXPECT(status.msg_perm.__key, IPC_PRIVATE, "the key stays");
	EXPECT(status.msg_qbytes, 1000000, "room");
	EXPECT(status.msg_qnum + status.msg_lspid, 0, "the rest stays");
	status.msg_perm.uid = -1;
	EXPECT(ctl(id, IPC_SET, &status), -EINVAL, "nobody");
	status.msg_perm.uid = 0;
	status.msg_perm.gid = -1;
	EXPECT(ctl(id, IPC_SET, &status), -EINVAL, "no group");
	REMOVE(id);
}

static void who_may_change_and_remove(void)
{
	struct msqid_ds status;
	FRESH(id);
	FRESH(own);
	EXPECT(ctl(own, IPC_STAT, &status), 0, "status");
	status.msg_perm.uid = 1000;
	status.msg_perm.mode = 0;
	EXPECT(ctl(own, IPC_SET, &status), 0, "one is given away");
	pid_t pid = fork();
	if (pid == 0) {
		if (become(1000))
			_exit(1);
		if (ctl(id, IPC_SET, &status) != -EPERM || ctl(id, IPC_RMID, NULL) != -EPERM)
			_exit(2);
		if (ctl(own, IPC_STAT, &status) != -EACCES)
			_exit(3); /* the owner of a queue that nobody may use */
		status.msg_qbytes = 16385;
		if (ctl(own, IPC_SET, &status) != -EPERM)
			_exit(4); /* more room than msgmnb */
		status.msg_qbytes = 16384;
		status.msg_perm.uid = -1;
		if (ctl(own, IPC_SET, &status) != -EINVAL)
			_exit(5);
		status.msg_qbytes = 16385;
		if (ctl(own, IPC_SET, &status) != -EPERM)
			_exit(6); /* said before that */
		status.msg_perm.uid = 1000;
		status.msg_perm.mode = 0400;
		status.msg_qbytes = 16384;
		if (ctl(own, IPC_SET, &status) || ctl(own, IPC_STAT, &status))
			_exit(7);
		if (ctl(own, IPC_RMID, NULL))
			_exit(8);
		_exit(0);
	}
	EXPECT(said(pid), 0, "a stranger who owns one");
	EXPECT(ctl(own, IPC_STAT, &status), -EINVAL, "it is gone");
	REMOVE(id);
}

static void does_proc_tell_of_every_queue(void)
{
	static const char head[] = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid "
				   "     stime      rtime      ctime\n";
	static char all[16384];
	struct msqid_ds status;
	char want[256];
	long id = get(-5, IPC_CREAT | 0642);
	EXPECT_OK(id, "a queue");
	EXPECT(put(id, 1, 'a', 11), 0, "send");
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	int fd = open("/proc/sysvipc/msg", O_RDONLY);
	EXPECT_OK(fd, "open");
	ssize_t n = 0, more;
	while ((more = read(fd, all + n, sizeof all - 1 - n)) > 0)
		n += more;
	EXPECT(close(fd), 0, "close");
	EXPECT_TRUE(n > (ssize_t)sizeof head, "text");
	all[n] = 0;
	EXPECT(memcmp(all, head, sizeof head - 1), 0, "the names of the columns");
	snprintf(want, sizeof want, "%10d %10ld   642  %10d %10d %5d %5d %5u %5u %5u %5u %10ld %10ld %10ld\n", -5, id, 11, 1,
		 getpid(), 0, 0u, 0u, 0u, 0u, (long)status.msg_stime, 0l, (long)status.msg_ctime);
	EXPECT_TRUE(strstr(all, want), "the queue's line");
	REMOVE(id);
}

int main(void)
{
	ASK(what_commands_and_ids_are_refused);
	ASK(in_which_order_are_controls_faults_found);
	ASK(are_the_limits_told);
	ASK(are_the_totals_those_of_all_queues);
	ASK(is_a_queue_found_by_its_index);
	ASK(what_can_be_changed);
	ASK(who_may_change_and_remove);
	ASK(does_proc_tell_of_every_queue);
	return verdict_status();
}
