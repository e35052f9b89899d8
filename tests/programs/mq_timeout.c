/* Deadlines of mq_timedsend(2) and mq_timedreceive(2): absolute times of CLOCK_REALTIME, checked always, waited for
 * only by a call that would block. One task: nobody comes to wake it.
 */
#include "queue.h"

static long full, empty; /* both block unless a question opens its own */
static char buffer[8];

/* The same deadline put to both calls, each where it would have to wait. */
static void both(const struct timespec *deadline, long want, const char *what)
{
	EXPECT(raw_send(full, "x", 1, 0, deadline), want, what);
	EXPECT(raw_receive(empty, buffer, 8, NULL, deadline), want, what);
}

static void is_a_bad_deadline_always_invalid(void)
{
	static const struct timespec bad[] = {
		{ 0, -1 }, { 0, 1000000000 }, { 0, LONG_MAX }, { 0, LONG_MIN }, { -1, 0 }, { LONG_MIN, 0 }, { -1, 999999999 },
	};
	OPEN_FRESH(q, "always", 2, 8);
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "send");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		WITHIN(both(&bad[i], -EINVAL, "where it would block"));
		EXPECT(raw_send(q, "x", 1, 0, &bad[i]), -EINVAL, "where there is room, with O_NONBLOCK");
		EXPECT(raw_receive(q, buffer, 8, NULL, &bad[i]), -EINVAL, "where there is a message, with O_NONBLOCK");
	}
	EXPECT(queued(q), 1, "queued");
	WITHIN(discard(q, "always"));
}

static void does_a_past_deadline_time_out_at_once(void)
{
	static const struct timespec past[] = { { 0, 0 }, { 0, 999999999 }, { 1, 0 }, { 1000000000, 0 } };
	for (size_t i = 0; i < sizeof past / sizeof *past; i++)
		WITHIN(both(&past[i], -ETIMEDOUT, "past"));
	EXPECT(queued(full), 1, "nothing was sent");
}

static void does_a_past_deadline_matter_only_to_a_call_that_would_block(void)
{
	static const struct timespec past = { 1, 0 };
	EXPECT(raw_send(empty, "x", 1, 4, &past), 0, "send where there is room");
	EXPECT(raw_receive(empty, buffer, 8, NULL, &past), 1, "receive where there is a message");
}

static void does_nonblock_beat_a_deadline(void)
{
	static const struct timespec past = { 1, 0 }, far = { 4000000000, 0 };
	OPEN_FRESH(q, "beats", 1, 8);
	EXPECT(raw_receive(q, buffer, 8, NULL, &past), -EAGAIN, "receive, past");
	EXPECT(raw_receive(q, buffer, 8, NULL, &far), -EAGAIN, "receive, far");
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "send");
	EXPECT(raw_send(q, "x", 1, 0, &past), -EAGAIN, "send, past");
	EXPECT(raw_send(q, "x", 1, 0, &far), -EAGAIN, "send, far");
	WITHIN(discard(q, "beats"));
}

static long nanoseconds(struct timespec t)
{
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void does_a_call_wait_until_its_deadline(void)
{
	for (int i = 0; i < 6; i++) {
		struct timespec deadline, after;
		EXPECT(R(clock_gettime(CLOCK_REALTIME, &deadline)), 0, "clock");
		deadline.tv_nsec += 1000000 + i * 7000001;
		if (deadline.tv_nsec >= 1000000000) {
			deadline.tv_sec++;
			deadline.tv_nsec -= 1000000000;
		}
		if (i % 2)
			EXPECT(raw_send(full, "x", 1, 0, &deadline), -ETIMEDOUT, "send");
		else
			EXPECT(raw_receive(empty, buffer, 8, NULL, &deadline), -ETIMEDOUT, "receive");
		EXPECT(R(clock_gettime(CLOCK_REALTIME, &after)), 0, "clock");
		EXPECT_TRUE(nanoseconds(after) >= nanoseconds(deadline), "not before the deadline");
	}
}

static void does_a_wait_that_timed_out_leave_the_queues_as_they_were(void)
{
	static const struct timespec past = { 0, 0 };
	WITHIN(both(&past, -ETIMEDOUT, "past"));
	EXPECT(queued(full), 1, "the full one");
	EXPECT(queued(empty), 0, "the empty one");
	EXPECT(raw_send(empty, "y", 1, 1, NULL), 0, "send: no dead receiver takes it");
	EXPECT(queued(empty), 1, "it is queued");
	EXPECT(raw_receive(empty, buffer, 8, NULL, NULL), 1, "and comes back");
	EXPECT(raw_receive(full, buffer, 8, NULL, NULL), 1, "receive: no dead sender fills the room");
	EXPECT(queued(full), 0, "the room stays");
	EXPECT(raw_send(full, "x", 1, 0, NULL), 0, "fill it again");
}

static void does_the_library_pass_deadlines_on(void)
{
	static const struct timespec past = { 1, 0 };
	EXPECT(R(mq_timedsend(full, "x", 1, 0, &past)), -ETIMEDOUT, "mq_timedsend");
	EXPECT(R(mq_timedreceive(empty, buffer, 8, NULL, &past)), -ETIMEDOUT, "mq_timedreceive");
}

static long blocking(const char *name)
{
	struct mq_attr none = { 0 };
	long q = fresh_queue(name, 1, 8);
	return q < 0 ? q : raw_getsetattr(q, &none, NULL) < 0 ? -1 : q;
}

int main(void)
{
	full = blocking("full");
	empty = blocking("empty");
	if (full < 0 || empty < 0 || raw_send(full, "x", 1, 0, NULL) != 0)
		return 2;
	ASK(is_a_bad_deadline_always_invalid);
	ASK(does_a_past_deadline_time_out_at_once);
	ASK(does_a_past_deadline_matter_only_to_a_call_that_would_block);
	ASK(does_nonblock_beat_a_deadline);
	ASK(does_a_call_wait_until_its_deadline);
	ASK(does_a_wait_that_timed_out_leave_the_queues_as_they_were);
	ASK(does_the_library_pass_deadlines_on);
	raw_unlink("full");
	raw_unlink("empty");
	return verdict_status();
}
