/* Message bodies of every awkward length: the first 4048 bytes stand behind the message's header in one page, what
 * follows in segments of a page less a pointer. Each must come back byte for byte. Run as root.
 */
#include "queue.h"

static char *out, *in;

static void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++) {
		seed = seed * 1664525 + 1013904223;
		at[i] = seed >> 24;
	}
}

/* Sends `length` bytes and expects them back, with nothing written behind them. */
static void round_trip(long queue, size_t length, size_t largest)
{
	fill(out, length, length);
	memset(in, 0x5a, length + 64);
	EXPECT(raw_send(queue, out, length, length % 32768, NULL), 0, "send");
	unsigned priority = 0;
	EXPECT(raw_receive(queue, in, largest, &priority, NULL), length, "receive");
	EXPECT(priority, length % 32768, "priority");
	EXPECT(memcmp(in, out, length), 0, "bytes");
	for (int i = 0; i < 64; i++)
		EXPECT(in[length + i], 0x5a, "the byte behind the message");
}

static void do_short_messages_come_back_whole(void)
{
	OPEN_FRESH(q, "short", 1, 600);
	for (size_t length = 0; length <= 600; length++)
		WITHIN(round_trip(q, length, 600));
	WITHIN(discard(q, "short"));
}

static void do_messages_at_the_edges_of_segments_come_back_whole(void)
{
	enum { FIRST = PAGE - 48, SEGMENT = PAGE - 8 };
	OPEN_FRESH(q, "edges", 1, 5 * PAGE);
	for (int segments = 0; segments < 4; segments++)
		for (int off = -2; off <= 2; off++)
			WITHIN(round_trip(q, FIRST + segments * SEGMENT + off, 5 * PAGE));
	for (int pages = 1; pages < 5; pages++)
		for (int off = -1; off <= 1; off++)
			WITHIN(round_trip(q, pages * PAGE + off, 5 * PAGE));
	WITHIN(round_trip(q, 8192, 5 * PAGE));
	WITHIN(discard(q, "edges"));
}

static void does_a_message_of_16_mib_come_back_whole(void)
{
	enum { LARGEST = 16 << 20 };
	struct rlimit before, all = { RLIM_INFINITY, RLIM_INFINITY };
	EXPECT(R(getrlimit(RLIMIT_MSGQUEUE, &before)), 0, "getrlimit");
	EXPECT(R(setrlimit(RLIMIT_MSGQUEUE, &all)), 0, "setrlimit");
	OPEN_FRESH(q, "largest", 1, LARGEST);
	WITHIN(round_trip(q, LARGEST, LARGEST));
	WITHIN(round_trip(q, LARGEST - 1, LARGEST));
	WITHIN(round_trip(q, 1 << 20, LARGEST));
	WITHIN(round_trip(q, 0, LARGEST));
	WITHIN(discard(q, "largest"));
	EXPECT(R(setrlimit(RLIMIT_MSGQUEUE, &before)), 0, "setrlimit back");
}

static void do_unaligned_buffers_work(void)
{
	OPEN_FRESH(q, "unaligned", 1, 300);
	for (int from = 0; from < 9; from++)
		for (int to = 0; to < 9; to++) {
			fill(out + from, 257, from * 9 + to);
			memset(in, 0, 400);
			EXPECT(raw_send(q, out + from, 257, 0, NULL), 0, "send");
			EXPECT(raw_receive(q, in + to, 300, NULL, NULL), 257, "receive");
			EXPECT(memcmp(in + to, out + from, 257), 0, "bytes");
			EXPECT(in[to + 257], 0, "the byte behind");
		}
	WITHIN(discard(q, "unaligned"));
}

/* Many lengths in the queue at once, so that no message can be taken for the memory of another. */
static void do_mixed_lengths_in_one_queue_stay_apart(void)
{
	enum { COUNT = 40 };
	OPEN_FRESH(q, "mixed", COUNT, 9000);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++) {
			fill(out, i * 223, i + round);
			EXPECT(raw_send(q, out, i * 223, i, NULL), 0, "send");
		}
		for (int i = COUNT - 1; i >= 0; i--) {
			fill(out, i * 223, i + round);
			EXPECT(raw_receive(q, in, 9000, NULL, NULL), i * 223, "receive");
			EXPECT(memcmp(in, out, i * 223), 0, "bytes");
		}
	}
	WITHIN(discard(q, "mixed"));
}

int main(void)
{
	out = malloc((16 << 20) + 64);
	in = malloc((16 << 20) + 64);
	if (!out || !in)
		return 2;
	ASK(do_short_messages_come_back_whole);
	ASK(do_messages_at_the_edges_of_segments_come_back_whole);
	ASK(does_a_message_of_16_mib_come_back_whole);
	ASK(do_unaligned_buffers_work);
	ASK(do_mixed_lengths_in_one_queue_stay_apart);
	return verdict_status();
}
