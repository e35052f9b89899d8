/* What msgsnd and msgrcv cost through the C library's functions, in ticks of the time-stamp counter: one task, a message
 * sent and received at a time, a counter reading before and after each call.
 *
 * usage: msg_cost [ROUNDS]. Prints a line for each call and length, NAME LENGTH: minimum/median/maximum.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/msg.h>
#include <x86intrin.h>

static struct {
	long type;
	char text[1024];
} message = { 1, "" };

static int ascending(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
	return (x > y) - (x < y);
}

static void print(const char *name, size_t length, unsigned long *ticks, unsigned long rounds)
{
	qsort(ticks, rounds, sizeof *ticks, ascending);
	printf("%s %zu: %lu/%lu/%lu\n", name, length, ticks[0], ticks[rounds / 2], ticks[rounds - 1]);
}

static int failed(const char *call)
{
	perror(call);
	return 1;
}

int main(int argc, char **argv)
{
	static const size_t lengths[] = { 16, 1024 };
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
	unsigned long *send = calloc(rounds, sizeof *send), *receive = calloc(rounds, sizeof *receive);
	if (rounds == 0 || send == NULL || receive == NULL)
		return 2;
	int queue = msgget(IPC_PRIVATE, 0600);
	if (queue < 0)
		return failed("msgget");
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t length = lengths[i];
		for (unsigned long round = 0; round < rounds; round++) {
			unsigned long start = __rdtsc();
			int sent = msgsnd(queue, &message, length, 0);
			send[round] = __rdtsc() - start;
			if (sent != 0)
				return failed("msgsnd");
			start = __rdtsc();
			ssize_t received = msgrcv(queue, &message, length, 0, 0);
			receive[round] = __rdtsc() - start;
			if (received != (ssize_t)length)
				return failed("msgrcv");
		}
		print("msgsnd", length, send, rounds);
		print("msgrcv", length, receive, rounds);
	}
	return msgctl(queue, IPC_RMID, NULL) ? failed("msgctl") : 0;
}
