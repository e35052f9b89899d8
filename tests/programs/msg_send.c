/* msgsnd(2) without waiting: what is refused, in which order, and what of a message is kept. */
#include "msg.h"

static void what_types_are_there(void)
{
	static struct text m;
	FRESH(id);
	m.type = 1;
	EXPECT(snd(id, &m, 1, 0), 0, "the lowest");
	m.type = LONG_MAX;
	EXPECT(snd(id, &m, 1, 0), 0, "the highest");
	m.type = 0;
	EXPECT(snd(id, &m, 1, 0), -EINVAL, "none");
	m.type = -1;
	EXPECT(snd(id, &m, 1, 0), -EINVAL, "a negative one");
	m.type = LONG_MIN;
	EXPECT(snd(id, &m, 1, 0), -EINVAL, "the most negative one");
	EXPECT(queued(id), 2, "queued");
	REMOVE(id);
}

static void how_long_may_a_message_be(void)
{
	static struct { long type; char text[8200]; } m = { 1, "" };
	FRESH(id);
	long most = setting("msgmax");
	EXPECT(most, 8192, "msgmax");
	EXPECT(snd(id, &m, most, 0), 0, "the longest");
	EXPECT(snd(id, &m, most + 1, 0), -EINVAL, "one byte more");
	EXPECT(snd(id, &m, SIZE_MAX, 0), -EINVAL, "as long as can be");
	EXPECT(snd(id, &m, (size_t)1 << 63, 0), -EINVAL, "a negative length");
	EXPECT(snd(id, &m, 0, 0), 0, "none");
	EXPECT(set_setting("msgmax", 100), 0, "a lower limit");
	long result = snd(id, &m, 101, 0), fits = snd(id, &m, 100, 0);
	set_setting("msgmax", most);
	EXPECT(result, -EINVAL, "beyond it");
	EXPECT(fits, 0, "at it");
	EXPECT(queued(id), 3, "queued");
	REMOVE(id);
}

static void is_a_queue_full_of_bytes(void)
{
	FRESH(id);
	EXPECT(set_room(id, 10), 0, "room for ten");
	EXPECT(put(id, 1, 'a', 6), 0, "six");
	EXPECT(put(id, 1, 'b', 5), -EAGAIN, "five more");
	EXPECT(put(id, 1, 'c', 4), 0, "four more");
	EXPECT(put(id, 1, 'd', 1), -EAGAIN, "one more");
	EXPECT(put(id, 1, 'd', 0), 0, "one of no bytes");
	EXPECT(put(id, 1, 'e', 11), -EAGAIN, "what never fits is not refused for good");
	struct msqid_ds status;
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.__msg_cbytes, 10, "bytes");
	EXPECT(status.msg_qnum, 3, "messages");
	REMOVE(id);
}

static void is_a_queue_full_of_messages(void)
{
	FRESH(id);
	EXPECT(set_room(id, 3), 0, "room for three");
	for (int i = 0; i < 3; i++)
		EXPECT(put(id, 1, 0, 0), 0, "one of no bytes");
	EXPECT(put(id, 1, 0, 0), -EAGAIN, "one too many");
	EXPECT(set_room(id, 2), 0, "less room than messages");
	static struct text m;
	EXPECT(rcv(id, &m, 10, 0, IPC_NOWAIT), 0, "receive");
	EXPECT(put(id, 1, 0, 0), -EAGAIN, "two are left");
	EXPECT(rcv(id, &m, 10, 0, IPC_NOWAIT), 0, "receive");
	EXPECT(put(id, 1, 0, 0), 0, "one is left");
	EXPECT(set_room(id, 0), 0, "no room");
	EXPECT(put(id, 1, 0, 0), -EAGAIN, "nothing fits");
	REMOVE(id);
}

static void in_which_order_are_faults_found(void)
{
	static struct text m = { 0, "" };
	char *page = page_before_a_hole();
	EXPECT_TRUE(page, "memory");
	for (unsigned i = 0; i < BAD_ADDRESSES; i++)
		EXPECT(snd(-1, (void *)bad_addresses[i], SIZE_MAX, 0), -EFAULT, "the type's address first");
	EXPECT(snd(0x7fffffff, &m, 1, 0), -EINVAL, "then the type");
	FRESH(id);
	/* The text begins where memory ends. */
	long *type = (long *)(page + PAGE - sizeof(long));
	*type = 0;
	EXPECT(snd(id, type, 1, 0), -EINVAL, "the type before the text");
	*type = 1;
	EXPECT(snd(0x7fffffff, type, 1, 0), -EFAULT, "the text before the queue");
	EXPECT(snd(-1, type, 1, 0), -EINVAL, "but not before a negative id");
	EXPECT(snd(id, type, 8193, 0), -EINVAL, "nor before the length");
	EXPECT(snd(id, type, 1, 0), -EFAULT, "the text");
	EXPECT(snd(id, type, 0, 0), 0, "no text, no fault");
	EXPECT(snd(id, page + PAGE - 9, 2, 0), -EFAULT, "a text that begins well");
	EXPECT(queued(id), 1, "queued");
	REMOVE(id);
	EXPECT(snd(id, type, 0, 0), -EINVAL, "a queue that has gone");
}

static void who_may_send(void)
{
	long id = get(IPC_PRIVATE, 0622), none = get(IPC_PRIVATE, 0604);
	EXPECT_TRUE(id >= 0 && none >= 0, "queues");
	EXPECT(set_room(none, 0), 0, "a full one");
	pid_t pid = fork();
	if (pid == 0) {
		if (become(1000))
			_exit(1);
		if (put(id, 1, 'x', 1) != 0)
			_exit(2);
		if (put(none, 1, 'x', 1) != -EACCES)
			_exit(3); /* said before that it is full */
		if (snd(none, (void *)8, 1, 0) != -EFAULT)
			_exit(4); /* which is said before that */
		_exit(0);
	}
	EXPECT(said(pid), 0, "a stranger");
	EXPECT(queued(id), 1, "queued");
	REMOVE(id);
	REMOVE(none);
}

static void does_the_queue_keep_its_own_copy(void)
{
	static struct text m, back;
	FRESH(id);
	static const size_t lengths[] = { 1, 8, 4047, 4048, 4049, 8128, 8129, 8192 };
	for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t n = lengths[i];
		m.type = 7;
		for (size_t at = 0; at < n; at++)
			m.text[at] = at * 7 + i;
		EXPECT(snd(id, &m, n, IPC_NOWAIT), 0, "send");
		memset(m.text, 0, sizeof m.text);
		EXPECT(rcv(id, &back, sizeof back.text, 0, IPC_NOWAIT), n, "receive");
		for (size_t at = 0; at < n; at++)
			if (back.text[at] != (char)(at * 7 + i))
				EXPECT(back.text[at], (char)(at * 7 + i), "text");
	}
	REMOVE(id);
}

static void are_times_and_senders_noted(void)
{
	struct msqid_ds status;
	long before = time(NULL);
	FRESH(id);
	EXPECT(put(id, 1, 'x', 3), 0, "send");
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_lspid, getpid(), "last sender");
	EXPECT_TRUE(status.msg_stime >= before && status.msg_stime <= before + 5, "time");
	EXPECT(status.msg_rtime + status.msg_lrpid, 0, "nobody has received");
	EXPECT(put(id, 0, 'x', 3), -EINVAL, "refused");
	pid_t pid = fork();
	if (pid == 0)
		_exit(-put(id, 1, 'x', 3));
	EXPECT(said(pid), 0, "a child sends");
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_lspid, pid, "last sender");
	REMOVE(id);
}

int main(void)
{
	ASK(what_types_are_there);
	ASK(how_long_may_a_message_be);
	ASK(is_a_queue_full_of_bytes);
	ASK(is_a_queue_full_of_messages);
	ASK(in_which_order_are_faults_found);
	ASK(who_may_send);
	ASK(does_the_queue_keep_its_own_copy);
	ASK(are_times_and_senders_noted);
	return verdict_status();
}
