/* What mq_send, mq_receive and getppid cost through the C library's wrappers, in ticks of the time-stamp counter.
 *
 * The protocol is that of userland/mqtest (one task, ten messages of 256 bytes, O_NONBLOCK, a counter reading before
 * and after each call), so that the two can be compared: the difference is the C library.
 *
 * usage: mq_cost [ROUNDS]. Prints three lines, NAME: minimum/average/maximum.
 */
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

enum { LENGTH = 10, SIZE = 256 };

struct series {
	unsigned long min, max, sum;
};

static inline void add(struct series *s, unsigned long ticks)
{
	if (ticks < s->min)
		s->min = ticks;
	if (ticks > s->max)
		s->max = ticks;
	s->sum += ticks;
}

static void print(const char *name, const struct series *s, unsigned long rounds)
{
	printf("%s: %lu/%lu/%lu\n", name, s->min, s->sum / rounds, s->max);
}

static int failed(const char *call)
{
	perror(call);
	return 1;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	if (rounds == 0)
		return 2;

	struct series send = { -1UL, 0, 0 }, receive = send, control = send;
	struct mq_attr attributes = { .mq_maxmsg = LENGTH, .mq_msgsize = SIZE };
	char message[SIZE] = { 0 };

	mq_unlink("/mq_cost");
	mqd_t queue = mq_open("/mq_cost", O_RDWR | O_CREAT | O_NONBLOCK, 0600, &attributes);
	if (queue == (mqd_t)-1)
		return failed("mq_open");

	for (unsigned long i = 0; i < rounds; i++) {
		unsigned long start = __rdtsc();
		int sent = mq_send(queue, message, SIZE, 0);
		add(&send, __rdtsc() - start);
		if (sent != 0)
			return failed("mq_send");

		start = __rdtsc();
		ssize_t received = mq_receive(queue, message, SIZE, NULL);
		add(&receive, __rdtsc() - start);
		if (received != SIZE)
			return failed("mq_receive");
	}
	if (mq_close(queue) != 0 || mq_unlink("/mq_cost") != 0)
		return failed("mq_close, mq_unlink");

	for (unsigned long i = 0; i < rounds; i++) {
		unsigned long start = __rdtsc();
		getppid();
		add(&control, __rdtsc() - start);
	}

	print("mq_receive", &receive, rounds);
	print("mq_send", &send, rounds);
	print("getppid", &control, rounds);
	return 0;
}
