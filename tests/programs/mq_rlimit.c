/* RLIMIT_MSGQUEUE: what a queue is charged to its user, to the byte, and when that is given back. Run as root, which
 * this limit does not exempt, by a user without queues.
 */
#include "queue.h"

enum { DEFAULT_LIMIT = 819200 };

/* getrlimit(2): 48 bytes of header for each message and 48 of tree node for each priority that can be in use. */
static long charge(long length, long size)
{
	return length * size + 48 * length + 48 * (length < 32768 ? length : 32768);
}

static long limit(long bytes)
{
	struct rlimit r = { bytes, RLIM_INFINITY };
	return R(setrlimit(RLIMIT_MSGQUEUE, &r));
}

static void is_the_limit_800_kib_at_first(void)
{
	struct rlimit r;
	EXPECT(R(getrlimit(RLIMIT_MSGQUEUE, &r)), 0, "getrlimit");
	EXPECT(r.rlim_cur, DEFAULT_LIMIT, "soft");
	EXPECT(r.rlim_max, DEFAULT_LIMIT, "hard");
}

static void is_the_charge_exact_to_the_byte(void)
{
	static const struct {
		long length, size;
	} queues[] = { { 1, 1 }, { 10, 8192 }, { 10, 256 }, { 32768, 1 }, { 32769, 1 }, { 65536, 16 }, { 1, 16777216 } };
	for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
		long length = queues[i].length, size = queues[i].size;
		EXPECT(limit(charge(length, size) - 1), 0, "setrlimit");
		EXPECT(fresh_queue("exact", length, size), -EMFILE, "one byte short");
		EXPECT(raw_open("exact", O_RDWR, 0, NULL), -ENOENT, "no name is left behind");
		EXPECT(limit(charge(length, size)), 0, "setrlimit");
		OPEN_FRESH(q, "exact", length, size);
		WITHIN(discard(q, "exact"));
	}
}

static void is_the_charge_held_until_the_last_close(void)
{
	EXPECT(limit(charge(10, 100) + charge(1, 1) - 1), 0, "setrlimit");
	OPEN_FRESH(q, "held", 10, 100);
	long second = raw_open("held", O_RDONLY, 0, NULL);
	EXPECT_OK(second, "opening again costs nothing");
	EXPECT(fresh_queue("other", 1, 1), -EMFILE, "while it has a name");
	EXPECT(raw_unlink("held"), 0, "unlink");
	EXPECT(fresh_queue("other", 1, 1), -EMFILE, "while it is open twice");
	EXPECT(R(close(q)), 0, "close");
	EXPECT(fresh_queue("other", 1, 1), -EMFILE, "while it is open");
	EXPECT(R(close(second)), 0, "close");
	OPEN_FRESH(other, "other", 1, 1);
	WITHIN(discard(other, "other"));
}

static void is_the_charge_held_while_only_the_name_is_left(void)
{
	EXPECT(limit(charge(10, 100) + charge(1, 1) - 1), 0, "setrlimit");
	OPEN_FRESH(q, "named", 10, 100);
	EXPECT(R(close(q)), 0, "close");
	EXPECT(fresh_queue("other", 1, 1), -EMFILE, "while it has a name");
	EXPECT(raw_unlink("named"), 0, "unlink");
	OPEN_FRESH(other, "other", 1, 1);
	WITHIN(discard(other, "other"));
}

static void how_many_queues_does_the_default_limit_allow(void)
{
	char name[32];
	int count = 0;
	EXPECT(limit(DEFAULT_LIMIT), 0, "setrlimit");
	for (;; count++) {
		snprintf(name, sizeof name, "default%d", count);
		long q = raw_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
		if (q < 0) {
			EXPECT(q, -EMFILE, "the first that does not fit");
			break;
		}
	}
	EXPECT(count, DEFAULT_LIMIT / charge(10, 8192), "queues");
	while (count-- > 0) {
		snprintf(name, sizeof name, "default%d", count);
		EXPECT(raw_unlink(name), 0, "unlink");
		EXPECT(R(close(3 + count)), 0, "close");
	}
}

/* A limit below what is in use takes nothing away; it only stops what is new. */
static void does_a_lower_limit_leave_queues_alone(void)
{
	char buffer[8];
	EXPECT(limit(DEFAULT_LIMIT), 0, "setrlimit");
	OPEN_FRESH(q, "lower", 10, 8);
	EXPECT(limit(0), 0, "setrlimit");
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "send");
	EXPECT(raw_receive(q, buffer, 8, NULL, NULL), 1, "receive");
	EXPECT(fresh_queue("new", 1, 1), -EMFILE, "a new one");
	long again = raw_open("lower", O_RDWR, 0, NULL);
	EXPECT_OK(again, "the old one again");
	EXPECT(R(close(again)), 0, "close");
	WITHIN(discard(q, "lower"));
}

static void are_bad_attributes_found_before_the_limit(void)
{
	EXPECT(limit(0), 0, "setrlimit");
	EXPECT(fresh_queue("bad", 65537, 1), -EINVAL, "too many messages");
	EXPECT(fresh_queue("bad", 0, 1), -EINVAL, "no messages");
	EXPECT(limit(DEFAULT_LIMIT), 0, "setrlimit");
}

int main(void)
{
	ASK(is_the_limit_800_kib_at_first);
	ASK(is_the_charge_exact_to_the_byte);
	ASK(is_the_charge_held_until_the_last_close);
	ASK(is_the_charge_held_while_only_the_name_is_left);
	ASK(how_many_queues_does_the_default_limit_allow);
	ASK(does_a_lower_limit_leave_queues_alone);
	ASK(are_bad_attributes_found_before_the_limit);
	return verdict_status();
}
