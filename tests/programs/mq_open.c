/* mq_open(2), mq_open(3): names, flags, attributes, and the order in which the kernel finds fault. Run as root. */
#include "queue.h"

static char long_name[8192];

static const char *name_of(size_t length)
{
	memset(long_name, 'q', length);
	long_name[length] = 0;
	return long_name;
}

static void does_a_queue_keep_the_attributes_it_was_made_with(void)
{
	struct mq_attr asked = { .mq_flags = O_NONBLOCK, .mq_maxmsg = 7, .mq_msgsize = 99, .mq_curmsgs = 5 }, is;
	mq_unlink("/attributes");
	mqd_t q = mq_open("/attributes", O_RDWR | O_CREAT | O_EXCL, 0600, &asked);
	EXPECT_OK(q, "mq_open");
	EXPECT(R(mq_getattr(q, &is)), 0, "mq_getattr");
	EXPECT(is.mq_maxmsg, 7, "mq_maxmsg");
	EXPECT(is.mq_msgsize, 99, "mq_msgsize");
	EXPECT(is.mq_curmsgs, 0, "mq_curmsgs is not taken over");
	EXPECT(is.mq_flags, 0, "mq_flags comes from the open flags alone");
	WITHIN(discard(q, "attributes"));
}

static void does_no_attribute_mean_ten_messages_of_8192_bytes(void)
{
	struct mq_attr is;
	long q = raw_open("defaults", O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
	EXPECT_OK(q, "mq_open");
	EXPECT(raw_getsetattr(q, NULL, &is), 0, "attributes");
	EXPECT(is.mq_maxmsg, 10, "mq_maxmsg");
	EXPECT(is.mq_msgsize, 8192, "mq_msgsize");
	WITHIN(discard(q, "defaults"));
}

static void does_an_existing_queue_keep_its_attributes_when_opened_again(void)
{
	struct mq_attr other = { .mq_maxmsg = 3, .mq_msgsize = 30 }, is;
	OPEN_FRESH(q, "again", 5, 50);
	long second = raw_open("again", O_RDWR | O_CREAT, 0600, &other);
	EXPECT_OK(second, "open again");
	EXPECT_TRUE(second != q, "another descriptor");
	EXPECT(raw_getsetattr(second, NULL, &is), 0, "attributes");
	EXPECT(is.mq_maxmsg, 5, "mq_maxmsg");
	EXPECT(is.mq_msgsize, 50, "mq_msgsize");
	EXPECT(is.mq_flags, 0, "the second description has its own O_NONBLOCK");
	EXPECT(raw_send(q, "x", 1, 0, NULL), 0, "send by one descriptor");
	EXPECT(queued(second), 1, "seen by the other");
	EXPECT(R(close(second)), 0, "close");
	WITHIN(discard(q, "again"));
}

/* Attributes that no queue may have are not even looked at where the queue is there already. */
static void are_bad_attributes_ignored_for_an_existing_queue(void)
{
	struct mq_attr bad = { .mq_maxmsg = -1, .mq_msgsize = 0 };
	OPEN_FRESH(q, "ignored", 1, 1);
	long second = raw_open("ignored", O_RDWR | O_CREAT, 0600, &bad);
	EXPECT_OK(second, "open with bad attributes");
	EXPECT(R(close(second)), 0, "close");
	WITHIN(discard(q, "ignored"));
}

static void what_sizes_are_refused(void)
{
	static const struct {
		long length, size;
	} refused[] = {
		{ 0, 1 }, { 1, 0 }, { -1, 1 }, { 1, -1 }, { LONG_MIN, 1 }, { 1, LONG_MAX }, { LONG_MAX, LONG_MAX },
		{ 65537, 1 }, { 1, 16777217 },
	};
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct mq_attr attributes = { .mq_maxmsg = refused[i].length, .mq_msgsize = refused[i].size };
		EXPECT(raw_open("sizes", O_RDWR | O_CREAT | O_EXCL, 0600, &attributes), -EINVAL, "mq_open");
		EXPECT(raw_open("sizes", O_RDWR, 0, NULL), -ENOENT, "no name is left behind");
	}
}

static void may_root_pass_the_default_limits(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	EXPECT(R(setrlimit(RLIMIT_MSGQUEUE, &all)), 0, "setrlimit");
	OPEN_FRESH(many, "many", 65536, 1);
	WITHIN(discard(many, "many"));
	OPEN_FRESH(large, "large", 1, 16777216);
	WITHIN(discard(large, "large"));
}

static void does_a_missing_queue_give_enoent(void)
{
	EXPECT(raw_open("missing", O_RDWR, 0, NULL), -ENOENT, "O_RDWR");
	EXPECT(raw_open("missing", O_RDONLY | O_EXCL, 0, NULL), -ENOENT, "O_EXCL alone means nothing");
}

static void does_exclusive_creation_refuse_an_existing_queue(void)
{
	OPEN_FRESH(q, "exclusive", 1, 1);
	EXPECT(raw_open("exclusive", O_RDWR | O_CREAT | O_EXCL, 0600, NULL), -EEXIST, "O_CREAT | O_EXCL");
	struct mq_attr bad = { .mq_maxmsg = -1, .mq_msgsize = -1 };
	EXPECT(raw_open("exclusive", O_RDWR | O_CREAT | O_EXCL, 0600, &bad), -EEXIST, "before the attributes");
	EXPECT(raw_open("exclusive", O_ACCMODE | O_CREAT | O_EXCL, 0600, NULL), -EEXIST, "before the access mode");
	WITHIN(discard(q, "exclusive"));
}

static void is_access_mode_three_invalid(void)
{
	OPEN_FRESH(q, "mode3", 1, 1);
	EXPECT(raw_open("mode3", O_ACCMODE, 0, NULL), -EINVAL, "O_WRONLY | O_RDWR");
	WITHIN(discard(q, "mode3"));
}

static void what_names_does_the_kernel_refuse(void)
{
	EXPECT(raw_open("", O_RDWR | O_CREAT, 0600, NULL), -ENOENT, "empty");
	EXPECT(raw_open(".", O_RDWR | O_CREAT, 0600, NULL), -EACCES, "dot");
	EXPECT(raw_open("..", O_RDWR | O_CREAT, 0600, NULL), -EACCES, "dot dot");
	EXPECT(raw_open("/slash", O_RDWR | O_CREAT, 0600, NULL), -EACCES, "a leading slash");
	EXPECT(raw_open("sl/ash", O_RDWR | O_CREAT, 0600, NULL), -EACCES, "a slash inside");
	EXPECT(raw_open("slash/", O_RDWR | O_CREAT, 0600, NULL), -EACCES, "a slash behind");
}

static void what_names_does_the_library_refuse(void)
{
	EXPECT(R(mq_open("noslash", O_RDWR | O_CREAT, 0600, NULL)), -EINVAL, "no leading slash");
	EXPECT(R(mq_open("/", O_RDWR | O_CREAT, 0600, NULL)), -ENOENT, "nothing but the slash");
	EXPECT(R(mq_open("/a/b", O_RDWR | O_CREAT, 0600, NULL)), -EACCES, "two slashes");
}

static void is_a_name_of_255_bytes_the_longest(void)
{
	long q = raw_open(name_of(255), O_RDWR | O_CREAT, 0600, NULL);
	EXPECT_OK(q, "255 bytes");
	WITHIN(discard(q, name_of(255)));
	EXPECT(raw_open(name_of(256), O_RDWR | O_CREAT, 0600, NULL), -ENAMETOOLONG, "256 bytes");
	EXPECT(raw_open(name_of(4095), O_RDWR | O_CREAT, 0600, NULL), -ENAMETOOLONG, "4095 bytes");
	EXPECT(raw_open(name_of(4096), O_RDWR | O_CREAT, 0600, NULL), -ENAMETOOLONG, "4096 bytes");
	EXPECT(raw_open(name_of(5000), O_RDWR | O_CREAT, 0600, NULL), -ENAMETOOLONG, "5000 bytes");
}

static void may_a_name_hold_any_byte_but_slash_and_zero(void)
{
	char name[255], *at = name;
	for (int byte = 1; byte < 256; byte++)
		if (byte != '/')
			*at++ = byte;
	*at = 0;
	long q = raw_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
	EXPECT_OK(q, "all bytes");
	WITHIN(discard(q, name));
}

static void does_a_bad_name_pointer_give_efault(void)
{
	EXPECT(raw_open(NULL, O_RDWR, 0, NULL), -EFAULT, "null");
	for (size_t i = 0; i < BAD_ADDRESSES; i++)
		EXPECT(raw_open((void *)bad_addresses[i], O_RDWR | O_CREAT, 0600, NULL), -EFAULT, "mq_open");
	char *end = pages_before_a_hole(1);
	EXPECT_TRUE(end, "a page before a hole");
	memset(end, 'n', PAGE);
	EXPECT(raw_open(end + PAGE - 10, O_RDWR | O_CREAT, 0600, NULL), -EFAULT, "a name that runs into the hole");
	end[PAGE - 1] = 0;
	long q = raw_open(end + PAGE - 10, O_RDWR | O_CREAT, 0600, NULL);
	EXPECT_OK(q, "a name that ends right before the hole");
	WITHIN(discard(q, end + PAGE - 10));
}

/* The attributes are fetched before anything else, whether or not the call would use them. */
static void does_a_bad_attribute_pointer_give_efault_first(void)
{
	for (size_t i = 0; i < BAD_ADDRESSES; i++) {
		void *bad = (void *)bad_addresses[i];
		EXPECT(raw_open("efault", O_RDWR | O_CREAT, 0600, bad), -EFAULT, "creating");
		EXPECT(raw_open("efault", O_RDWR, 0, bad), -EFAULT, "not creating");
		EXPECT(raw_open("sl/ash", O_RDWR, 0, bad), -EFAULT, "before the name");
	}
	char *end = pages_before_a_hole(1);
	EXPECT_TRUE(end, "a page before a hole");
	EXPECT(raw_open("efault", O_RDWR | O_CREAT, 0600, end + PAGE - 32), -EFAULT, "straddling a hole");
}

static void do_descriptors_count_up_from_the_lowest_free_one(void)
{
	OPEN_FRESH(a, "lowest_a", 1, 1);
	OPEN_FRESH(b, "lowest_b", 1, 1);
	EXPECT(b, a + 1, "the next");
	EXPECT(R(close(a)), 0, "close the first");
	long c = raw_open("lowest_a", O_RDONLY, 0, NULL);
	EXPECT(c, a, "the freed one");
	WITHIN(discard(b, "lowest_b"));
	WITHIN(discard(c, "lowest_a"));
}

/* The descriptor is taken before the name is looked at, and given back when the call fails. */
static void does_no_free_descriptor_give_emfile_and_leave_no_queue(void)
{
	struct rlimit before, few;
	EXPECT(R(getrlimit(RLIMIT_NOFILE, &before)), 0, "getrlimit");
	OPEN_FRESH(q, "nofile", 1, 1);
	few = (struct rlimit){ q + 1, before.rlim_max };
	EXPECT(R(setrlimit(RLIMIT_NOFILE, &few)), 0, "setrlimit");
	EXPECT(raw_open("nofile_new", O_RDWR | O_CREAT, 0600, NULL), -EMFILE, "creating");
	EXPECT(raw_open("nofile", O_RDWR, 0, NULL), -EMFILE, "opening");
	EXPECT(raw_open("missing", O_RDWR, 0, NULL), -EMFILE, "before ENOENT");
	EXPECT(raw_open("", O_RDWR, 0, NULL), -ENOENT, "but the name is fetched first");
	EXPECT(R(setrlimit(RLIMIT_NOFILE, &before)), 0, "setrlimit back");
	EXPECT(raw_open("nofile_new", O_RDWR, 0, NULL), -ENOENT, "no queue was made");
	for (int i = 0; i < 3000; i++)
		EXPECT(raw_open("missing", O_RDWR, 0, NULL), -ENOENT, "failures use no descriptor up");
	WITHIN(discard(q, "nofile"));
}

int main(void)
{
	ASK(does_a_queue_keep_the_attributes_it_was_made_with);
	ASK(does_no_attribute_mean_ten_messages_of_8192_bytes);
	ASK(does_an_existing_queue_keep_its_attributes_when_opened_again);
	ASK(are_bad_attributes_ignored_for_an_existing_queue);
	ASK(what_sizes_are_refused);
	ASK(may_root_pass_the_default_limits);
	ASK(does_a_missing_queue_give_enoent);
	ASK(does_exclusive_creation_refuse_an_existing_queue);
	ASK(is_access_mode_three_invalid);
	ASK(what_names_does_the_kernel_refuse);
	ASK(what_names_does_the_library_refuse);
	ASK(is_a_name_of_255_bytes_the_longest);
	ASK(may_a_name_hold_any_byte_but_slash_and_zero);
	ASK(does_a_bad_name_pointer_give_efault);
	ASK(does_a_bad_attribute_pointer_give_efault_first);
	ASK(do_descriptors_count_up_from_the_lowest_free_one);
	ASK(does_no_free_descriptor_give_emfile_and_leave_no_queue);
	return verdict_status();
}
