/* msgget(2): keys, ids, what is refused; and how long an id stays what it is. */
#include "msg.h"

enum { KEY = 0x5a17, OTHER = 0x5a18 };

static void forget(int key)
{
	ctl(get(key, 0), IPC_RMID, NULL);
}

static void does_a_key_lead_to_one_queue(void)
{
	forget(KEY);
	EXPECT(get(KEY, 0), -ENOENT, "no queue has the key");
	EXPECT(get(KEY, IPC_EXCL), -ENOENT, "nor is one made without IPC_CREAT");
	long id = get(KEY, IPC_CREAT | 0600);
	EXPECT_OK(id, "a queue");
	EXPECT(get(KEY, 0), id, "found");
	EXPECT(get(KEY, IPC_CREAT | 0600), id, "found, not made");
	EXPECT(get(KEY, IPC_CREAT | IPC_EXCL | 0600), -EEXIST, "must be new");
	EXPECT(get(KEY, IPC_EXCL | 0600), id, "IPC_EXCL alone says nothing");
	long other = get(OTHER, IPC_CREAT | 0600);
	EXPECT_TRUE(other >= 0 && other != id, "another key, another queue");
	REMOVE(other);
	REMOVE(id);
	EXPECT(get(KEY, 0), -ENOENT, "the key has gone with the queue");
}

static void is_every_private_queue_a_new_one(void)
{
	FRESH(a);
	FRESH(b);
	EXPECT_TRUE(a != b, "two queues");
	struct msqid_ds status;
	EXPECT(ctl(a, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_perm.__key, IPC_PRIVATE, "key");
	long c = get(IPC_PRIVATE, IPC_CREAT | IPC_EXCL | 0600);
	EXPECT_OK(c, "IPC_EXCL has nothing to refuse");
	REMOVE(c);
	EXPECT(put(a, 1, 'a', 1), 0, "a message for one");
	EXPECT(queued(b), 0, "is not in the other");
	REMOVE(a);
	REMOVE(b);
}

static void may_a_key_be_any_number_but_zero(void)
{
	static const int keys[] = { -1, INT_MIN, INT_MAX, 1 };
	for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
		struct msqid_ds status;
		long id = get(keys[i], IPC_CREAT | 0600);
		EXPECT_OK(id, "a queue");
		EXPECT(get(keys[i], 0), id, "found");
		EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
		EXPECT(status.msg_perm.__key, keys[i], "key");
		REMOVE(id);
	}
}

static void does_a_stale_id_stay_stale(void)
{
	FRESH(old);
	REMOVE(old);
	for (int i = 0; i < 1000; i++) {
		FRESH(id);
		if (id == old)
			EXPECT(id, -1, "an old id came again");
		EXPECT(id & 0x7fff, (old + 1 + i) % 64, "indexes go round");
		REMOVE(id);
	}
	EXPECT(put(old, 1, 'x', 1), -EINVAL, "nothing leads there");
}

static void what_is_a_new_queue_like(void)
{
	struct msqid_ds status;
	long before = time(NULL), id = get(IPC_PRIVATE, IPC_CREAT | 07642);
	EXPECT_OK(id, "a queue");
	memset(&status, 0xee, sizeof status);
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_perm.mode, 0642, "permission bits alone");
	EXPECT(status.msg_perm.uid, getuid(), "owner");
	EXPECT(status.msg_perm.cgid, getgid(), "creator's group");
	EXPECT(status.msg_qbytes, setting("msgmnb"), "room");
	EXPECT(status.msg_qnum + status.__msg_cbytes, 0, "empty");
	EXPECT(status.msg_lspid + status.msg_lrpid, 0, "nobody was there");
	EXPECT(status.msg_stime + status.msg_rtime, 0, "never");
	EXPECT_TRUE(status.msg_ctime >= before && status.msg_ctime <= before + 5, "made now");
	EXPECT(status.msg_perm.__seq, id >> 15, "sequence number");
	REMOVE(id);
}

static void is_the_number_of_queues_bounded(void)
{
	struct msginfo info;
	long limit = setting("msgmni"), a, b;
	EXPECT_OK(ctl(0, MSG_INFO, &info), "info");
	EXPECT(set_setting("msgmni", info.msgpool + 1), 0, "room for one more");
	a = get(KEY, IPC_CREAT | 0600);
	b = get(IPC_PRIVATE, 0600);
	long c = get(OTHER, IPC_CREAT | 0600), found = get(KEY, IPC_CREAT | 0600), none = get(OTHER, 0);
	set_setting("msgmni", limit);
	EXPECT_OK(a, "the one");
	EXPECT(b, -ENOSPC, "one too many, for root too");
	EXPECT(c, -ENOSPC, "with a key too");
	EXPECT(found, a, "what is there is found");
	EXPECT(none, -ENOENT, "and what is not, is not");
	REMOVE(a);
	EXPECT(set_setting("msgmni", -1), -EINVAL, "a negative limit");
	EXPECT(set_setting("msgmni", 32769), -EINVAL, "more than there are ids");
	EXPECT(set_setting("msgmni", 32768), 0, "as many as there are");
	EXPECT(set_setting("msgmni", limit), 0, "as before");
}

static void may_the_next_id_be_chosen(void)
{
	enum { WANTED = 5 << 15 | 60 };
	EXPECT(setting("msg_next_id"), -1, "nothing is chosen");
	EXPECT(set_setting("msg_next_id", -1), -EINVAL, "-1 cannot be written");
	EXPECT(set_setting("msg_next_id", WANTED), 0, "choose");
	EXPECT(setting("msg_next_id"), WANTED, "it is kept");
	FRESH(id);
	EXPECT(id, WANTED, "the id");
	EXPECT(setting("msg_next_id"), -1, "it was for once");
	EXPECT(set_setting("msg_next_id", WANTED), 0, "again");
	FRESH(next);
	EXPECT(next, WANTED + 1, "the next free index, the same sequence number");
	REMOVE(id);
	REMOVE(next);
}

static void who_may_find_a_queue(void)
{
	long id = get(KEY, IPC_CREAT | 0640);
	EXPECT_OK(id, "a queue");
	pid_t pid = fork();
	if (pid == 0) {
		if (become(1000))
			_exit(1);
		if (get(KEY, 0) != id)
			_exit(2); /* who asks for nothing gets it */
		if (get(KEY, 0400) != -EACCES || get(KEY, 0020) != -EACCES || get(KEY, 0004) != -EACCES)
			_exit(3); /* whatever the class of the bit */
		if (get(KEY, IPC_CREAT | 0600) != -EACCES)
			_exit(4);
		if (get(KEY, IPC_CREAT | IPC_EXCL | 0600) != -EEXIST)
			_exit(5); /* said first */
		if (get(KEY, 0111) != -EACCES)
			_exit(6); /* the third bit is not a right, but is asked for */
		_exit(0);
	}
	EXPECT(said(pid), 0, "a stranger");
	EXPECT(get(KEY, 0777), id, "root");
	REMOVE(id);
}

int main(void)
{
	ASK(does_a_key_lead_to_one_queue);
	ASK(is_every_private_queue_a_new_one);
	ASK(may_a_key_be_any_number_but_zero);
	ASK(does_a_stale_id_stay_stale);
	ASK(what_is_a_new_queue_like);
	ASK(is_the_number_of_queues_bounded);
	ASK(may_the_next_id_be_chosen);
	ASK(who_may_find_a_queue);
	return verdict_status();
}
