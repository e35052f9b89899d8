/* mq_timedreceive(2) on a non-blocking queue: which message comes, into what buffer, and what is refused. */
#include "queue.h"

static void does_an_empty_queue_have_nothing_to_receive(void)
{
	char buffer[8] = "before";
	unsigned priority = 99;
	OPEN_FRESH(q, "nothing", 2, 8);
	EXPECT(raw_receive(q, buffer, 8, &priority, NULL), -EAGAIN, "receive");
	EXPECT(priority, 99, "the priority is left alone");
	EXPECT(memcmp(buffer, "before", 7), 0, "the buffer is left alone");
	WITHIN(discard(q, "nothing"));
}

static void does_a_short_receive_buffer_get_emsgsize(void)
{
	char buffer[8];
	OPEN_FRESH(q, "short", 2, 8);
	EXPECT(raw_receive(q, buffer, 7, NULL, NULL), -EMSGSIZE, "before there is a message");
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "send one byte");
	EXPECT(raw_receive(q, buffer, 7, NULL, NULL), -EMSGSIZE, "even if the message would fit");
	EXPECT(raw_receive(q, buffer, 0, NULL, NULL), -EMSGSIZE, "no buffer at all");
	EXPECT(queued(q), 1, "the message is still there");
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), 1, "receive");
	WITHIN(discard(q, "short"));
}

static void may_the_buffer_be_longer_than_any_message(void)
{
	char buffer[64];
	OPEN_FRESH(q, "longer", 2, 8);
	memset(buffer, '.', sizeof buffer);
	EXPECT(raw_send(q, "abc", 3, 0, NULL), 0, "send");
	EXPECT(raw_receive(q, buffer, SIZE_MAX, NULL, NULL), 3, "receive with the greatest length");
	EXPECT(memcmp(buffer, "abc.....", 8), 0, "only the message is written");
	WITHIN(discard(q, "longer"));
}

static void do_higher_priorities_come_first(void)
{
	static const unsigned order[] = { 5, 0, 32767, 5, 1, 16384, 0, 32766, 2, 31 };
	enum { COUNT = sizeof order / sizeof *order };
	unsigned last = UINT_MAX, priority = 0;
	char buffer[8];
	OPEN_FRESH(q, "highest", COUNT, 8);
	for (unsigned i = 0; i < COUNT; i++)
		EXPECT(raw_send(q, &order[i], 4, order[i], NULL), 0, "send");
	for (unsigned i = 0; i < COUNT; i++) {
		EXPECT(raw_receive(q, buffer, 8, &priority, NULL), 4, "receive");
		EXPECT_TRUE(priority <= last, "not higher than the one before");
		EXPECT(memcmp(buffer, &priority, 4), 0, "the message that was sent with it");
		last = priority;
	}
	EXPECT(last, 0, "the lowest comes last");
	WITHIN(discard(q, "highest"));
}

static void does_one_priority_keep_the_order_of_sending(void)
{
	enum { COUNT = 60 };
	unsigned priority = 0;
	unsigned char buffer[8], next[3] = { 0, 1, 2 };
	OPEN_FRESH(q, "order", COUNT, 8);
	for (unsigned char i = 0; i < COUNT; i++)
		EXPECT(raw_send(q, &i, 1, 100 * (i % 3), NULL), 0, "send");
	for (int i = 0; i < COUNT; i++) {
		EXPECT(raw_receive(q, buffer, 8, &priority, NULL), 1, "receive");
		EXPECT(priority, 200 - 100 * (i / (COUNT / 3)), "priority");
		EXPECT(buffer[0], next[priority / 100], "the oldest of its priority");
		next[priority / 100] += 3;
	}
	WITHIN(discard(q, "order"));
}

/* Sends and receives mixed at random, against a plain table of what must come next. */
static void does_a_long_random_history_keep_both_orders(void)
{
	enum { LENGTH = 64, PRIORITIES = 40, STEPS = 4000 };
	static unsigned table[PRIORITIES][LENGTH], count[PRIORITIES];
	unsigned state = 12345, serial = 0, total = 0;
	OPEN_FRESH(q, "history", LENGTH, 4);
	for (int step = 0; step < STEPS; step++) {
		state = state * 1103515245 + 12345;
		unsigned p = (state >> 16) % PRIORITIES;
		if ((state >> 8) % 2) {
			long want = total == LENGTH ? -EAGAIN : 0;
			EXPECT(raw_send(q, &serial, 4, p * 800, NULL), want, "send");
			if (want == 0) {
				table[p][count[p]++] = serial;
				total++;
			}
			serial++;
		} else {
			unsigned got = 0, priority = 0;
			long want = total == 0 ? -EAGAIN : 4;
			EXPECT(raw_receive(q, &got, 4, &priority, NULL), want, "receive");
			if (want < 0)
				continue;
			p = PRIORITIES - 1;
			while (count[p] == 0)
				p--;
			EXPECT(priority, p * 800, "the highest priority there is");
			EXPECT(got, table[p][0], "the oldest of it");
			memmove(table[p], table[p] + 1, --count[p] * sizeof **table);
			total--;
		}
	}
	EXPECT(queued(q), total, "queued");
	WITHIN(discard(q, "history"));
}

static void does_a_sending_end_refuse_to_receive(void)
{
	char buffer[8];
	OPEN_FRESH(q, "ends", 2, 8);
	long sender = raw_open("ends", O_WRONLY | O_NONBLOCK, 0, NULL);
	EXPECT_OK(sender, "open for sending");
	EXPECT(raw_receive(sender, buffer, 8, NULL, NULL), -EBADF, "receive");
	EXPECT(R(close(sender)), 0, "close");
	WITHIN(discard(q, "ends"));
}

static void what_descriptors_are_refused(void)
{
	char buffer[8];
	OPEN_FRESH(q, "closed", 1, 1);
	WITHIN(discard(q, "closed"));
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), -EBADF, "a closed one");
	EXPECT(raw_receive(-1, buffer, 8, NULL, NULL), -EBADF, "-1");
	EXPECT(raw_receive(INT_MAX, buffer, 8, NULL, NULL), -EBADF, "the highest");
	EXPECT(raw_receive(STDOUT_FILENO, buffer, 8, NULL, NULL), -EBADF, "one that is no queue");
}

static void in_which_order_are_faults_found(void)
{
	struct timespec bad = { 0, -1 };
	void *nowhere = (void *)8;
	OPEN_FRESH(q, "order", 1, 8);
	EXPECT(raw_receive(-1, nowhere, 7, nowhere, nowhere), -EFAULT, "the deadline's address");
	EXPECT(raw_receive(-1, nowhere, 7, nowhere, &bad), -EINVAL, "the deadline");
	EXPECT(raw_receive(-1, nowhere, 7, nowhere, NULL), -EBADF, "the descriptor");
	EXPECT(raw_receive(q, nowhere, 7, nowhere, NULL), -EMSGSIZE, "the length");
	EXPECT(raw_receive(q, nowhere, 8, nowhere, NULL), -EAGAIN, "the message");
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "send");
	EXPECT(raw_receive(q, nowhere, 8, nowhere, NULL), -EFAULT, "the addresses last");
	WITHIN(discard(q, "order"));
}

/* What cannot be delivered is gone: the message was taken off the queue before it was copied out. */
static void does_a_failed_copy_consume_the_message(void)
{
	char buffer[8] = "before";
	unsigned priority = 99;
	OPEN_FRESH(q, "consumed", 2, 8);
	EXPECT(raw_send(q, "lost", 4, 5, NULL), 0, "send");
	EXPECT(raw_receive(q, (void *)8, 8, &priority, NULL), -EFAULT, "a bad buffer");
	EXPECT(priority, 5, "the priority had been written");
	EXPECT(queued(q), 0, "the message is gone");
	EXPECT(raw_send(q, "lost", 4, 5, NULL), 0, "send");
	EXPECT(raw_receive(q, buffer, 8, (void *)8, NULL), -EFAULT, "a bad priority");
	EXPECT(memcmp(buffer, "before", 7), 0, "the buffer had not been written");
	EXPECT(queued(q), 0, "the message is gone");
	EXPECT(raw_send(q, "kept", 4, 5, NULL), 0, "the queue still works");
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), 4, "both ways");
	WITHIN(discard(q, "consumed"));
}

int main(void)
{
	ASK(does_an_empty_queue_have_nothing_to_receive);
	ASK(does_a_short_receive_buffer_get_emsgsize);
	ASK(may_the_buffer_be_longer_than_any_message);
	ASK(do_higher_priorities_come_first);
	ASK(does_one_priority_keep_the_order_of_sending);
	ASK(does_a_long_random_history_keep_both_orders);
	ASK(does_a_sending_end_refuse_to_receive);
	ASK(what_descriptors_are_refused);
	ASK(in_which_order_are_faults_found);
	ASK(does_a_failed_copy_consume_the_message);
	return verdict_status();
}
