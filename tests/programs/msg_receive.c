/* msgrcv(2) without waiting: which message, how much of it, what is refused and in which order; and MSG_COPY. */
#include "msg.h"

/* Receives by type and says the message's first letter. */
static long take(long id, long type, int flags)
{
	static struct text m;
	long n = rcv(id, &m, sizeof m.text, type, flags | IPC_NOWAIT);
	return n < 0 ? n : m.text[0];
}

static void is_the_oldest_message_taken_whatever_its_type(void)
{
	FRESH(id);
	EXPECT(take(id, 0, 0), -ENOMSG, "nothing there");
	EXPECT(put(id, 9, 'a', 1) + put(id, 1, 'b', 1) + put(id, 5, 'c', 1), 0, "send");
	EXPECT(take(id, 0, 0), 'a', "first");
	EXPECT(take(id, 0, MSG_EXCEPT), 'b', "MSG_EXCEPT says nothing without a type");
	EXPECT(take(id, 0, 0), 'c', "third");
	EXPECT(take(id, 0, 0), -ENOMSG, "nothing left");
	REMOVE(id);
}

static void is_a_type_chosen_and_avoided(void)
{
	FRESH(id);
	EXPECT(put(id, 2, 'a', 1) + put(id, 3, 'b', 1) + put(id, 2, 'c', 1) + put(id, LONG_MAX, 'd', 1), 0, "send");
	EXPECT(take(id, 4, 0), -ENOMSG, "no such type");
	EXPECT(take(id, 3, 0), 'b', "one from the middle");
	EXPECT(take(id, 2, MSG_EXCEPT), 'd', "any other");
	EXPECT(put(id, 2, 'e', 1), 0, "behind the last");
	EXPECT(take(id, 2, MSG_EXCEPT), -ENOMSG, "no other");
	EXPECT(take(id, 2, 0), 'a', "the oldest of it");
	EXPECT(take(id, 2, 0), 'c', "the next of it");
	EXPECT(take(id, 2, 0), 'e', "the last of it");
	EXPECT(queued(id), 0, "nothing left");
	REMOVE(id);
}

static void is_the_lowest_type_up_to_a_bound_chosen(void)
{
	FRESH(id);
	EXPECT(put(id, 5, 'a', 1) + put(id, 3, 'b', 1) + put(id, 3, 'c', 1) + put(id, 9, 'd', 1), 0, "send");
	EXPECT(take(id, -2, 0), -ENOMSG, "all are above");
	EXPECT(take(id, -3, 0), 'b', "the bound is in");
	EXPECT(take(id, -8, MSG_EXCEPT), 'c', "the lowest, not the oldest; MSG_EXCEPT says nothing");
	EXPECT(take(id, LONG_MIN, 0), 'a', "the most negative type bounds nothing");
	EXPECT(take(id, LONG_MIN + 1, 0), 'd', "nor does the next");
	REMOVE(id);
}

static void is_a_message_without_room_left_or_cut(void)
{
	static struct text m;
	FRESH(id);
	EXPECT(put(id, 1, 'a', 10) + put(id, 2, 'b', 3), 0, "send");
	memset(&m, 'z', sizeof m);
	EXPECT(rcv(id, &m, 9, 0, IPC_NOWAIT), -E2BIG, "a byte short");
	EXPECT(rcv(id, &m, 0, 0, IPC_NOWAIT), -E2BIG, "no room at all");
	EXPECT(m.text[0], 'z', "nothing came");
	EXPECT(queued(id), 2, "both are there");
	EXPECT(rcv(id, &m, 3, 2, IPC_NOWAIT), 3, "the other fits");
	EXPECT(rcv(id, &m, 4, 0, IPC_NOWAIT | MSG_NOERROR), 4, "cut");
	EXPECT(memcmp(m.text, "aaaazz", 6), 0, "to what there is room for");
	EXPECT(queued(id), 0, "the rest is gone");
	EXPECT(put(id, 1, 'c', 10), 0, "send");
	EXPECT(rcv(id, &m, 0, 0, IPC_NOWAIT | MSG_NOERROR), 0, "cut to nothing");
	EXPECT(put(id, 8, 'd', 8192), 0, "send a long one");
	EXPECT(rcv(id, &m, 5000, 0, IPC_NOWAIT | MSG_NOERROR), 5000, "cut in its second page");
	EXPECT_TRUE(m.type == 8 && m.text[4999] == 'd', "with its type");
	REMOVE(id);
}

static void in_which_order_are_receivers_faults_found(void)
{
	FRESH(id);
	EXPECT(rcv(-1, (void *)8, 1, 0, 0), -EINVAL, "a negative id");
	EXPECT(rcv(id, (void *)8, SIZE_MAX, 0, IPC_NOWAIT), -EINVAL, "a negative room");
	EXPECT(rcv(0x7fffffff, (void *)8, 1, 0, IPC_NOWAIT), -EINVAL, "no such queue");
	for (unsigned i = 0; i < BAD_ADDRESSES; i++) {
		void *bad = (void *)bad_addresses[i];
		EXPECT(rcv(id, bad, 9, 0, IPC_NOWAIT), -ENOMSG, "no message, no fault");
		EXPECT(put(id, 1, 'x', 9), 0, "send");
		EXPECT(rcv(id, bad, 8, 0, IPC_NOWAIT), -E2BIG, "the room before the address");
		EXPECT(rcv(id, bad, 9, 0, IPC_NOWAIT), -EFAULT, "the address");
		EXPECT(queued(id), 0, "the message is gone");
	}
	char *page = page_before_a_hole();
	EXPECT_TRUE(page, "memory");
	EXPECT(put(id, 7, 'x', 9), 0, "send");
	EXPECT(rcv(id, page + PAGE - 8, 9, 0, IPC_NOWAIT), -EFAULT, "room for the type alone");
	EXPECT(*(long *)(page + PAGE - 8), 7, "which came");
	REMOVE(id);
	EXPECT(rcv(id, page, 9, 0, IPC_NOWAIT), -EINVAL, "a queue that has gone");
}

static void who_may_receive(void)
{
	long id = get(IPC_PRIVATE, 0644), none = get(IPC_PRIVATE, 0622);
	EXPECT_TRUE(id >= 0 && none >= 0, "queues");
	EXPECT(put(id, 1, 'a', 9), 0, "send");
	pid_t pid = fork();
	if (pid == 0) {
		if (become(1000))
			_exit(1);
		if (take(none, 0, 0) != -EACCES)
			_exit(2); /* said before that it is empty */
		if (rcv(none, (void *)8, 1, 0, MSG_COPY | IPC_NOWAIT) != -EFAULT)
			_exit(3);
		static struct text m;
		if (rcv(none, &m, 1, 0, MSG_COPY | IPC_NOWAIT) != -EACCES)
			_exit(4);
		if (take(id, 0, 0) != 'a')
			_exit(5);
		_exit(0);
	}
	EXPECT(said(pid), 0, "a stranger");
	struct msqid_ds status;
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_lrpid, pid, "last receiver");
	EXPECT_TRUE(status.msg_rtime > 0, "time");
	REMOVE(id);
	REMOVE(none);
}

static void does_a_copy_leave_the_message(void)
{
	static struct text m;
	FRESH(id);
	EXPECT(put(id, 5, 'a', 10) + put(id, 1, 'b', 5000) + put(id, 3, 'c', 0), 0, "send");
	memset(&m, 'z', sizeof m);
	EXPECT(rcv(id, &m, 8192, 1, MSG_COPY | IPC_NOWAIT), 5000, "the second");
	EXPECT(m.type, 1, "type");
	EXPECT_TRUE(m.text[0] == 'b' && m.text[4999] == 'b' && m.text[5000] == 'z', "text");
	EXPECT(rcv(id, &m, 8192, 2, MSG_COPY | IPC_NOWAIT), 0, "the third");
	EXPECT(rcv(id, &m, 8192, 3, MSG_COPY | IPC_NOWAIT), -ENOMSG, "there is no fourth");
	EXPECT(rcv(id, &m, 8192, -1, MSG_COPY | IPC_NOWAIT), -ENOMSG, "nor one before the first");
	struct msqid_ds status;
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_qnum, 3, "all are there");
	EXPECT(status.msg_lrpid + status.msg_rtime, 0, "nobody has received");
	EXPECT(rcv(id, &m, 10, 0, IPC_NOWAIT), 10, "receive");
	EXPECT(rcv(id, &m, 8192, 0, MSG_COPY | IPC_NOWAIT), 5000, "the second is the first now");
	REMOVE(id);
}

static void what_copies_are_refused(void)
{
	static struct text m;
	FRESH(id);
	EXPECT(put(id, 5, 'a', 10), 0, "send");
	EXPECT(rcv(id, &m, 10, 0, MSG_COPY), -EINVAL, "one that would wait");
	EXPECT(rcv(id, &m, 10, 0, MSG_COPY | IPC_NOWAIT | MSG_EXCEPT), -EINVAL, "one that avoids a type");
	EXPECT(rcv(id, &m, 9, 0, MSG_COPY | IPC_NOWAIT), -E2BIG, "one without room");
	EXPECT(rcv(id, &m, 9, 0, MSG_COPY | IPC_NOWAIT | MSG_NOERROR), -EINVAL, "one to be cut");
	EXPECT(rcv(id, (void *)8, 10, 0, MSG_COPY), -EINVAL, "flags before the address");
	EXPECT(rcv(0x7fffffff, (void *)8, 10, 0, MSG_COPY | IPC_NOWAIT), -EFAULT, "the address before the queue");
	EXPECT(rcv(0x7fffffff, &m, 10, 0, MSG_COPY | IPC_NOWAIT), -EINVAL, "the queue");
	EXPECT(queued(id), 1, "it is still there");
	REMOVE(id);
}

int main(void)
{
	ASK(is_the_oldest_message_taken_whatever_its_type);
	ASK(is_a_type_chosen_and_avoided);
	ASK(is_the_lowest_type_up_to_a_bound_chosen);
	ASK(is_a_message_without_room_left_or_cut);
	ASK(in_which_order_are_receivers_faults_found);
	ASK(who_may_receive);
	ASK(does_a_copy_leave_the_message);
	ASK(what_copies_are_refused);
	return verdict_status();
}
