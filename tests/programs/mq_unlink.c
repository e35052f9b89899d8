/* mq_unlink(2): which names it finds, and what becomes of a queue without one. */
#include "queue.h"

static void does_a_missing_name_give_enoent(void)
{
	EXPECT(raw_unlink("missing"), -ENOENT, "never made");
	EXPECT(raw_unlink(""), -ENOENT, "empty");
	OPEN_FRESH(q, "gone", 1, 1);
	WITHIN(discard(q, "gone"));
	EXPECT(raw_unlink("gone"), -ENOENT, "unlinked before");
}

static void what_names_are_refused(void)
{
	char name[257];
	memset(name, 'u', 256);
	name[256] = 0;
	EXPECT(raw_unlink(name), -ENAMETOOLONG, "256 bytes");
	name[255] = 0;
	EXPECT(raw_unlink(name), -ENOENT, "255 bytes");
	EXPECT(raw_unlink("."), -EACCES, "dot");
	EXPECT(raw_unlink(".."), -EACCES, "dot dot");
	EXPECT(raw_unlink("sl/ash"), -EACCES, "a slash");
	EXPECT(R(mq_unlink("noslash")), -EINVAL, "the library wants a slash");
}

static void does_a_bad_pointer_give_efault(void)
{
	EXPECT(raw_unlink(NULL), -EFAULT, "null");
	for (size_t i = 0; i < BAD_ADDRESSES; i++)
		EXPECT(raw_unlink((void *)bad_addresses[i]), -EFAULT, "mq_unlink");
}

static void is_an_unlinked_queue_still_a_queue(void)
{
	char buffer[8];
	unsigned priority = 0;
	OPEN_FRESH(q, "still", 4, 8);
	EXPECT(raw_send(q, "before", 6, 1, NULL), 0, "send before");
	EXPECT(raw_unlink("still"), 0, "unlink");
	EXPECT(raw_open("still", O_RDWR, 0, NULL), -ENOENT, "the name is gone at once");
	EXPECT(raw_send(q, "after", 5, 2, NULL), 0, "send after");
	EXPECT(queued(q), 2, "queued");
	EXPECT(raw_receive(q, buffer, 8, &priority, NULL), 5, "receive");
	EXPECT(priority, 2, "priority");
	EXPECT(raw_receive(q, buffer, 8, &priority, NULL), 6, "receive");
	EXPECT(memcmp(buffer, "before", 6), 0, "text");
	EXPECT(R(close(q)), 0, "close");
}

static void may_the_name_be_used_for_another_queue_at_once(void)
{
	char buffer[8];
	OPEN_FRESH(old, "reused", 2, 8);
	EXPECT(raw_unlink("reused"), 0, "unlink");
	OPEN_FRESH(new, "reused", 2, 8);
	EXPECT(raw_send(old, "old", 3, 0, NULL), 0, "send to the old one");
	EXPECT(queued(new), 0, "nothing in the new one");
	EXPECT(raw_receive(new, buffer, 8, NULL, NULL), -EAGAIN, "receive from the new one");
	EXPECT(raw_receive(old, buffer, 8, NULL, NULL), 3, "receive from the old one");
	EXPECT(R(close(old)), 0, "close");
	WITHIN(discard(new, "reused"));
}

static void does_a_closed_queue_keep_its_messages_under_its_name(void)
{
	char buffer[8];
	OPEN_FRESH(q, "kept", 2, 8);
	EXPECT(raw_send(q, "kept", 4, 9, NULL), 0, "send");
	EXPECT(R(close(q)), 0, "close the only descriptor");
	q = raw_open("kept", O_RDONLY | O_NONBLOCK, 0, NULL);
	EXPECT_OK(q, "open again");
	unsigned priority = 0;
	EXPECT(raw_receive(q, buffer, 8, &priority, NULL), 4, "receive");
	EXPECT(priority, 9, "priority");
	WITHIN(discard(q, "kept"));
}

static void can_many_queues_come_and_go_with_messages_in_them(void)
{
	static const char message[5000] = "large enough for a second segment";
	for (int i = 0; i < 200; i++) {
		OPEN_FRESH(q, "many", 8, sizeof message);
		for (int k = 0; k < 8; k++)
			EXPECT(raw_send(q, message, k % 2 ? sizeof message : 100, k, NULL), 0, "send");
		if (i % 2)
			WITHIN(discard(q, "many"));
		else {
			EXPECT(raw_unlink("many"), 0, "unlink first");
			EXPECT(R(close(q)), 0, "then close");
		}
	}
}

int main(void)
{
	ASK(does_a_missing_name_give_enoent);
	ASK(what_names_are_refused);
	ASK(does_a_bad_pointer_give_efault);
	ASK(is_an_unlinked_queue_still_a_queue);
	ASK(may_the_name_be_used_for_another_queue_at_once);
	ASK(does_a_closed_queue_keep_its_messages_under_its_name);
	ASK(can_many_queues_come_and_go_with_messages_in_them);
	return verdict_status();
}
