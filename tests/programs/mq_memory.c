/* Whatever address a program hands to a queue call, the answer is an errno; and what may be touched is touched up to
 * its last byte.
 */
#include "queue.h"

static void does_a_bad_message_address_give_efault(void)
{
	OPEN_FRESH(q, "message", 2, 8192);
	EXPECT(raw_send(q, NULL, 1, 0, NULL), -EFAULT, "null");
	for (size_t i = 0; i < BAD_ADDRESSES; i++) {
		void *bad = (void *)bad_addresses[i];
		EXPECT(raw_send(q, bad, 1, 0, NULL), -EFAULT, "one byte");
		EXPECT(raw_send(q, bad, 64, 0, NULL), -EFAULT, "64 bytes");
		EXPECT(raw_send(q, bad, 8192, 0, NULL), -EFAULT, "8192 bytes");
	}
	EXPECT(queued(q), 0, "nothing was sent");
	WITHIN(discard(q, "message"));
}

static void does_a_bad_buffer_address_give_efault(void)
{
	OPEN_FRESH(q, "buffer", 2, 8192);
	for (size_t i = 0; i < BAD_ADDRESSES; i++)
		for (size_t length = 1; length <= 8192; length *= 2) {
			static const char message[8192];
			EXPECT(raw_send(q, message, length, 0, NULL), 0, "send");
			EXPECT(raw_receive(q, (void *)bad_addresses[i], 8192, NULL, NULL), -EFAULT, "receive");
		}
	EXPECT(queued(q), 0, "all were consumed");
	WITHIN(discard(q, "buffer"));
}

static void does_a_bad_priority_address_give_efault(void)
{
	char buffer[8];
	OPEN_FRESH(q, "priority", 2, 8);
	for (size_t i = 0; i < BAD_ADDRESSES; i++) {
		EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "send");
		EXPECT(raw_receive(q, buffer, 8, (void *)bad_addresses[i], NULL), -EFAULT, "receive");
	}
	WITHIN(discard(q, "priority"));
}

static void does_a_bad_deadline_address_give_efault(void)
{
	char buffer[8];
	OPEN_FRESH(q, "deadline", 2, 8);
	for (size_t i = 0; i < BAD_ADDRESSES; i++) {
		void *bad = (void *)bad_addresses[i];
		EXPECT(raw_send(q, "x", 1, 0, bad), -EFAULT, "send");
		EXPECT(raw_receive(q, buffer, 8, NULL, bad), -EFAULT, "receive");
	}
	char *end = pages_before_a_hole(1);
	EXPECT_TRUE(end, "a page before a hole");
	memset(end, 0, PAGE);
	EXPECT(raw_send(q, "x", 1, 0, end + PAGE - 8), -EFAULT, "half of it in the hole");
	EXPECT(raw_send(q, "x", 1, 0, end + PAGE - 16), 0, "none of it");
	WITHIN(discard(q, "deadline"));
}

/* Every split of a message between a page and the hole behind it. */
static void does_a_buffer_that_runs_into_a_hole_give_efault(void)
{
	enum { LENGTH = 300 };
	char buffer[LENGTH], *end = pages_before_a_hole(2);
	EXPECT_TRUE(end, "pages before a hole");
	end += 2 * PAGE;
	memset(end - 2 * PAGE, 'h', 2 * PAGE);
	OPEN_FRESH(q, "hole", 2, LENGTH);
	for (int inside = 0; inside < LENGTH; inside++) {
		EXPECT(raw_send(q, end - inside, LENGTH, 0, NULL), -EFAULT, "send");
		EXPECT(raw_send(q, "x", LENGTH - 1, 0, NULL), 0, "send a good one");
		if (inside < LENGTH - 1)
			EXPECT(raw_receive(q, end - inside, LENGTH, NULL, NULL), -EFAULT, "receive");
		else
			EXPECT(raw_receive(q, end - inside, LENGTH, NULL, NULL), LENGTH - 1, "what fits is delivered");
	}
	EXPECT(raw_send(q, end - LENGTH, LENGTH, 0, NULL), 0, "send up to the hole");
	EXPECT(raw_receive(q, end - LENGTH, LENGTH, NULL, NULL), LENGTH, "receive up to the hole");
	EXPECT(raw_receive(q, buffer, LENGTH, NULL, NULL), -EAGAIN, "nothing is left");
	WITHIN(discard(q, "hole"));
}

/* A message in several segments, of which a later one cannot be read or written. */
static void does_a_hole_under_a_later_segment_give_efault(void)
{
	enum { LENGTH = 4 * PAGE };
	static char message[LENGTH];
	char *hole = pages_before_a_hole(3);
	EXPECT_TRUE(hole, "pages before a hole");
	OPEN_FRESH(q, "segments", 2, LENGTH);
	for (int i = 0; i < 20; i++) {
		EXPECT(raw_send(q, hole, LENGTH, 0, NULL), -EFAULT, "send");
		EXPECT(raw_send(q, message, LENGTH, 0, NULL), 0, "send a good one");
		EXPECT(raw_receive(q, hole, LENGTH, NULL, NULL), -EFAULT, "receive");
	}
	EXPECT(queued(q), 0, "nothing is left");
	WITHIN(discard(q, "segments"));
}

static void may_a_read_only_page_be_sent_but_not_received_into(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_TRUE(page != MAP_FAILED, "mmap");
	memset(page, 'r', PAGE);
	OPEN_FRESH(q, "read_only", 2, PAGE);
	EXPECT(R(mprotect(page, PAGE, PROT_READ)), 0, "mprotect");
	EXPECT(raw_send(q, page, PAGE, 0, NULL), 0, "send");
	EXPECT(raw_receive(q, page, PAGE, NULL, NULL), -EFAULT, "receive");
	EXPECT(page[0], 'r', "the page is as it was");
	EXPECT(raw_send(q, "text", 4, 0, NULL), 0, "send a constant");
	EXPECT(raw_receive(q, (void *)(uintptr_t)fresh_queue, PAGE, NULL, NULL), -EFAULT, "receive into the program's text");
	EXPECT(R(mprotect(page, PAGE, PROT_NONE)), 0, "mprotect");
	EXPECT(raw_send(q, page, PAGE, 0, NULL), -EFAULT, "send what may not be read");
	EXPECT(queued(q), 0, "nothing is left");
	WITHIN(discard(q, "read_only"));
}

/* Pages that the program has not touched yet are the kernel's to supply, in both directions. */
static void may_untouched_pages_be_used(void)
{
	enum { LENGTH = 6 * PAGE };
	char *fresh = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_TRUE(fresh != MAP_FAILED, "mmap");
	OPEN_FRESH(q, "untouched", 2, LENGTH);
	EXPECT(raw_send(q, fresh, LENGTH, 0, NULL), 0, "send zeros");
	EXPECT(raw_receive(q, fresh + LENGTH, LENGTH, NULL, NULL), LENGTH, "receive them");
	for (int i = 0; i < 2 * LENGTH; i++)
		EXPECT(fresh[i], 0, "zero");
	WITHIN(discard(q, "untouched"));
}

/* A send that failed half-way may leave memory behind for the next one to use, but nothing of what was in it. */
static void does_a_failed_send_leave_no_trace_in_the_next_message(void)
{
	enum { LARGEST = 6000 };
	static const size_t lengths[] = { 1, 100, 300, 4048, 4049, LARGEST };
	static char message[LARGEST], buffer[LARGEST];
	char *hole = pages_before_a_hole(2);
	EXPECT_TRUE(hole, "pages before a hole");
	hole += 2 * PAGE;
	memset(hole - 2 * PAGE, 'h', 2 * PAGE);
	OPEN_FRESH(q, "trace", 2, LARGEST);
	for (int i = 0; i < 6 * 6; i++) {
		size_t failed = lengths[i / 6], length = lengths[i % 6];
		memset(message, 'a' + i % 26, length);
		EXPECT(raw_send(q, hole - failed / 2, failed, 9, NULL), -EFAULT, "a send that fails half-way");
		EXPECT(raw_send(q, message, length, 0, NULL), 0, "a good one");
		EXPECT(queued(q), 1, "queued");
		memset(buffer, '.', LARGEST);
		EXPECT(raw_receive(q, buffer, LARGEST, NULL, NULL), length, "its length");
		EXPECT(memcmp(buffer, message, length), 0, "its bytes");
		for (size_t k = length; k < LARGEST; k++)
			EXPECT(buffer[k], '.', "nothing behind it");
		EXPECT(raw_send(q, message, length, 0, NULL), 0, "another");
		EXPECT(raw_receive(q, hole - length / 2, LARGEST, NULL, NULL), -EFAULT, "a receive that fails half-way");
	}
	WITHIN(discard(q, "trace"));
}

static void does_a_length_that_wraps_around_give_no_message(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	EXPECT(R(setrlimit(RLIMIT_MSGQUEUE, &all)), 0, "setrlimit");
	OPEN_FRESH(q, "wrap", 1, 16 << 20);
	EXPECT(raw_send(q, (void *)(~(uintptr_t)0 - 4095), 16 << 20, 0, NULL), -EFAULT, "over the end of all addresses");
	EXPECT(raw_send(q, (void *)0x7fffffffe000, 16 << 20, 0, NULL), -EFAULT, "over the end of the program's half");
	EXPECT(queued(q), 0, "nothing was sent");
	WITHIN(discard(q, "wrap"));
}

int main(void)
{
	ASK(does_a_bad_message_address_give_efault);
	ASK(does_a_bad_buffer_address_give_efault);
	ASK(does_a_bad_priority_address_give_efault);
	ASK(does_a_bad_deadline_address_give_efault);
	ASK(does_a_buffer_that_runs_into_a_hole_give_efault);
	ASK(does_a_hole_under_a_later_segment_give_efault);
	ASK(may_a_read_only_page_be_sent_but_not_received_into);
	ASK(may_untouched_pages_be_used);
	ASK(does_a_failed_send_leave_no_trace_in_the_next_message);
	ASK(does_a_length_that_wraps_around_give_no_message);
	return verdict_status();
}
