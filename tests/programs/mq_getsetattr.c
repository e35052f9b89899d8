/* mq_getsetattr(2), and mq_getattr(3) and mq_setattr(3) above it. */
#include "queue.h"

static void can_only_nonblock_be_changed(void)
{
	struct mq_attr old, new = { .mq_flags = 0, .mq_maxmsg = 99, .mq_msgsize = 99, .mq_curmsgs = 99 };
	OPEN_FRESH(q, "changed", 3, 30);
	EXPECT(R(mq_setattr(q, &new, &old)), 0, "mq_setattr");
	EXPECT(old.mq_flags, O_NONBLOCK, "the old flags come back");
	EXPECT(R(mq_getattr(q, &old)), 0, "mq_getattr");
	EXPECT(old.mq_flags, 0, "the new flags");
	EXPECT(old.mq_maxmsg, 3, "mq_maxmsg stays");
	EXPECT(old.mq_msgsize, 30, "mq_msgsize stays");
	EXPECT(old.mq_curmsgs, 0, "mq_curmsgs stays");
	new.mq_flags = O_NONBLOCK;
	EXPECT(R(mq_setattr(q, &new, NULL)), 0, "and back, not asking");
	EXPECT(R(mq_getattr(q, &old)), 0, "mq_getattr");
	EXPECT(old.mq_flags, O_NONBLOCK, "the flags");
	WITHIN(discard(q, "changed"));
}

static void are_other_flags_invalid(void)
{
	static const long flags[] = { 1, O_CREAT, O_APPEND, O_NONBLOCK | O_CLOEXEC, -1, LONG_MIN, 1L << 32 };
	struct mq_attr is;
	OPEN_FRESH(q, "flags", 1, 1);
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		struct mq_attr new = { .mq_flags = flags[i] };
		EXPECT(raw_getsetattr(q, &new, NULL), -EINVAL, "flags");
		EXPECT(raw_getsetattr(-1, &new, NULL), -EINVAL, "flags before the descriptor");
	}
	EXPECT(raw_getsetattr(q, NULL, &is), 0, "attributes");
	EXPECT(is.mq_flags, O_NONBLOCK, "as before");
	WITHIN(discard(q, "flags"));
}

static void does_nonblock_belong_to_the_open_description(void)
{
	struct mq_attr is;
	OPEN_FRESH(q, "description", 1, 1);
	long other = raw_open("description", O_RDWR, 0, NULL);
	EXPECT_OK(other, "open again");
	EXPECT(raw_getsetattr(other, NULL, &is), 0, "attributes of the other");
	EXPECT(is.mq_flags, 0, "no O_NONBLOCK");
	EXPECT(raw_getsetattr(q, NULL, &is), 0, "attributes of the first");
	EXPECT(is.mq_flags, O_NONBLOCK, "O_NONBLOCK");
	EXPECT(R(close(other)), 0, "close");
	WITHIN(discard(q, "description"));
}

static void are_the_messages_counted(void)
{
	char buffer[4];
	OPEN_FRESH(q, "count", 5, 4);
	for (int i = 0; i < 5; i++) {
		EXPECT(queued(q), i, "queued");
		EXPECT(raw_send(q, "x", 1, i, NULL), 0, "send");
	}
	for (int i = 5; i > 0; i--) {
		EXPECT(queued(q), i, "queued");
		EXPECT(raw_receive(q, buffer, 4, NULL, NULL), 1, "receive");
	}
	EXPECT(queued(q), 0, "queued");
	WITHIN(discard(q, "count"));
}

static void what_descriptors_are_refused(void)
{
	struct mq_attr is, new = { 0 };
	OPEN_FRESH(q, "closed", 1, 1);
	WITHIN(discard(q, "closed"));
	EXPECT(raw_getsetattr(q, NULL, &is), -EBADF, "a closed one");
	EXPECT(raw_getsetattr(q, &new, &is), -EBADF, "a closed one, setting");
	EXPECT(raw_getsetattr(q, NULL, NULL), -EBADF, "a closed one, doing nothing");
	EXPECT(raw_getsetattr(-1, NULL, &is), -EBADF, "-1");
	EXPECT(raw_getsetattr(STDOUT_FILENO, NULL, &is), -EBADF, "one that is no queue");
}

static void does_a_bad_address_give_efault(void)
{
	struct mq_attr is, none = { 0 };
	OPEN_FRESH(q, "efault", 1, 1);
	EXPECT(raw_getsetattr(q, NULL, NULL), 0, "neither is asked for");
	for (size_t i = 0; i < BAD_ADDRESSES; i++) {
		void *bad = (void *)bad_addresses[i];
		EXPECT(raw_getsetattr(q, NULL, bad), -EFAULT, "old");
		EXPECT(raw_getsetattr(q, bad, &is), -EFAULT, "new");
		EXPECT(raw_getsetattr(-1, bad, &is), -EFAULT, "new, before the descriptor");
	}
	EXPECT(raw_getsetattr(q, &none, (void *)8), -EFAULT, "old, after the change");
	EXPECT(raw_getsetattr(q, NULL, &is), 0, "attributes");
	EXPECT(is.mq_flags, 0, "the change was made");
	WITHIN(discard(q, "efault"));
}

/* Four longs of the structure are reserved: the kernel gives them back as zeros and not as what its stack held. */
static void are_the_reserved_fields_zero(void)
{
	long is[8];
	memset(is, 0xff, sizeof is);
	OPEN_FRESH(q, "reserved", 1, 1);
	EXPECT(raw_getsetattr(q, NULL, is), 0, "attributes");
	for (int i = 4; i < 8; i++)
		EXPECT(is[i], 0, "a reserved field");
	WITHIN(discard(q, "reserved"));
}

int main(void)
{
	ASK(can_only_nonblock_be_changed);
	ASK(are_other_flags_invalid);
	ASK(does_nonblock_belong_to_the_open_description);
	ASK(are_the_messages_counted);
	ASK(what_descriptors_are_refused);
	ASK(does_a_bad_address_give_efault);
	ASK(are_the_reserved_fields_zero);
	return verdict_status();
}
