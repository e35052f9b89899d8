/* mq_timedsend(2) on a non-blocking queue: what is refused, in which order, and what of a message is kept. */
#include "queue.h"

static void does_a_full_queue_refuse_a_message(void)
{
	OPEN_FRESH(q, "full", 3, 8);
	for (int i = 0; i < 3; i++)
		EXPECT(raw_send(q, "x", 1, i, NULL), 0, "send");
	EXPECT(raw_send(q, "x", 1, 0, NULL), -EAGAIN, "one too many");
	EXPECT(raw_send(q, "x", 1, 32767, NULL), -EAGAIN, "whatever its priority");
	EXPECT(raw_send(q, "x", 0, 0, NULL), -EAGAIN, "and however short");
	EXPECT(queued(q), 3, "queued");
	char buffer[8];
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), 1, "receive one");
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "now there is room");
	WITHIN(discard(q, "full"));
}

static void is_a_message_longer_than_the_queue_allows_refused(void)
{
	static char message[101];
	OPEN_FRESH(q, "long", 2, 100);
	EXPECT(raw_send(q, message, 100, 0, NULL), 0, "the longest");
	EXPECT(raw_send(q, message, 101, 0, NULL), -EMSGSIZE, "one byte more");
	EXPECT(raw_send(q, message, SIZE_MAX, 0, NULL), -EMSGSIZE, "as long as can be");
	EXPECT(raw_send(q, message, (size_t)1 << 63, 0, NULL), -EMSGSIZE, "a negative length");
	EXPECT(queued(q), 1, "queued");
	WITHIN(discard(q, "long"));
}

static void is_a_message_of_no_bytes_a_message(void)
{
	char buffer[8] = "before";
	OPEN_FRESH(q, "empty", 2, 8);
	EXPECT(raw_send(q, "", 0, 3, NULL), 0, "send nothing");
	EXPECT(raw_send(q, NULL, 0, 2, NULL), 0, "send nothing from nowhere");
	EXPECT(queued(q), 2, "queued");
	unsigned priority = 0;
	EXPECT(raw_receive(q, buffer, 8, &priority, NULL), 0, "receive nothing");
	EXPECT(priority, 3, "with its priority");
	EXPECT(memcmp(buffer, "before", 7), 0, "the buffer is left alone");
	WITHIN(discard(q, "empty"));
}

static void what_priorities_are_there(void)
{
	OPEN_FRESH(q, "priorities", 8, 8);
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "the lowest");
	EXPECT(raw_send(q, "x", 1, 32767, NULL), 0, "the highest");
	EXPECT(raw_send(q, "x", 1, 32768, NULL), -EINVAL, "one more");
	EXPECT(raw_send(q, "x", 1, UINT_MAX, NULL), -EINVAL, "a negative one");
	EXPECT(queued(q), 2, "queued");
	WITHIN(discard(q, "priorities"));
}

static void does_a_receiving_end_refuse_to_send(void)
{
	OPEN_FRESH(q, "ends", 2, 8);
	long receiver = raw_open("ends", O_RDONLY | O_NONBLOCK, 0, NULL);
	EXPECT_OK(receiver, "open for receiving");
	EXPECT(raw_send(receiver, "x", 1, 0, NULL), -EBADF, "send");
	EXPECT(R(close(receiver)), 0, "close");
	WITHIN(discard(q, "ends"));
}

static void what_descriptors_are_refused(void)
{
	OPEN_FRESH(q, "closed", 1, 1);
	WITHIN(discard(q, "closed"));
	EXPECT(raw_send(q, "x", 1, 0, NULL), -EBADF, "a closed one");
	EXPECT(raw_send(-1, "x", 1, 0, NULL), -EBADF, "-1");
	EXPECT(raw_send(1 << 20, "x", 1, 0, NULL), -EBADF, "a high one");
	EXPECT(raw_send(INT_MAX, "x", 1, 0, NULL), -EBADF, "the highest");
	EXPECT(raw_send(INT_MIN, "x", 1, 0, NULL), -EBADF, "the lowest");
	EXPECT(raw_send(STDOUT_FILENO, "x", 1, 0, NULL), -EBADF, "one that is no queue");
	EXPECT(R(close(q)), -EBADF, "close again");
}

/* A descriptor is an int: what stands above its 32 bits in the register is not part of it. */
static void are_the_upper_halves_of_int_arguments_ignored(void)
{
	OPEN_FRESH(q, "halves", 2, 8);
	long high = 0x1234567800000000;
	EXPECT(R(syscall(SYS_mq_timedsend, high + q, "x", 1, high + 5, NULL)), 0, "send");
	char buffer[8];
	unsigned priority = 0;
	EXPECT(R(syscall(SYS_mq_timedreceive, high + q, buffer, 8, &priority, NULL)), 1, "receive");
	EXPECT(priority, 5, "priority");
	WITHIN(discard(q, "halves"));
}

static void in_which_order_are_faults_found(void)
{
	static char message[9];
	struct timespec bad = { 0, 1000000000 };
	void *nowhere = (void *)8;
	OPEN_FRESH(q, "order", 1, 8);
	EXPECT(raw_send(-1, nowhere, 9, 32768, nowhere), -EFAULT, "the deadline's address");
	EXPECT(raw_send(-1, nowhere, 9, 32768, &bad), -EINVAL, "the deadline");
	EXPECT(raw_send(-1, nowhere, 9, 32768, NULL), -EINVAL, "the priority");
	EXPECT(raw_send(-1, nowhere, 9, 0, NULL), -EBADF, "the descriptor");
	EXPECT(raw_send(q, nowhere, 9, 0, NULL), -EMSGSIZE, "the length");
	EXPECT(raw_send(q, nowhere, 8, 0, NULL), -EFAULT, "the message's address");
	EXPECT(raw_send(q, message, 8, 0, NULL), 0, "send");
	EXPECT(raw_send(q, nowhere, 8, 0, NULL), -EFAULT, "the address before the room");
	EXPECT(raw_send(q, message, 8, 0, NULL), -EAGAIN, "the room");
	WITHIN(discard(q, "order"));
}

static void does_a_refused_message_leave_nothing_behind(void)
{
	char buffer[8];
	OPEN_FRESH(q, "nothing", 2, 8);
	EXPECT(raw_send(q, "kept", 4, 7, NULL), 0, "send");
	EXPECT(raw_send(q, (void *)8, 8, 9, NULL), -EFAULT, "a bad one");
	EXPECT(raw_send(q, "x", 9, 9, NULL), -EMSGSIZE, "a long one");
	EXPECT(queued(q), 1, "queued");
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), 4, "receive");
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), -EAGAIN, "nothing more");
	WITHIN(discard(q, "nothing"));
}

static void does_the_queue_keep_its_own_copy(void)
{
	char message[8] = "first", buffer[8];
	OPEN_FRESH(q, "copy", 2, 8);
	EXPECT(raw_send(q, message, 8, 0, NULL), 0, "send");
	memcpy(message, "other", 6);
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), 8, "receive");
	EXPECT(memcmp(buffer, "first\0\0", 8), 0, "text");
	WITHIN(discard(q, "copy"));
}

int main(void)
{
	ASK(does_a_full_queue_refuse_a_message);
	ASK(is_a_message_longer_than_the_queue_allows_refused);
	ASK(is_a_message_of_no_bytes_a_message);
	ASK(what_priorities_are_there);
	ASK(does_a_receiving_end_refuse_to_send);
	ASK(what_descriptors_are_refused);
	ASK(are_the_upper_halves_of_int_arguments_ignored);
	ASK(in_which_order_are_faults_found);
	ASK(does_a_refused_message_leave_nothing_behind);
	ASK(does_the_queue_keep_its_own_copy);
	return verdict_status();
}
