/* Queues as files: /dev/mqueue and /proc/sys/fs/mqueue. Run as root. */
#include "verdict.h"
#include <dirent.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdlib.h>
#include <sys/stat.h>

#define V(call) ({ long v_ = (call); v_ == -1 ? -(long)errno : v_; })
#define IDLE "QSIZE:0          NOTIFY:0     SIGNO:0     NOTIFY_PID:0     \n"

static mqd_t make(const char *name)
{
	struct mq_attr attributes = { .mq_maxmsg = 4, .mq_msgsize = 64 };
	return mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0640, &attributes);
}

static void is_a_queue_listed_and_looked_at(void)
{
	struct stat is;
	int seen = 0;
	mqd_t q = make("/listed");
	EXPECT_TRUE(q >= 0, "mq_open");
	DIR *d = opendir("/dev/mqueue");
	EXPECT_TRUE(d, "opendir");
	for (struct dirent *e; (e = readdir(d));)
		seen += !strcmp(e->d_name, "listed");
	closedir(d);
	EXPECT(seen, 1, "its name");
	EXPECT(V(stat("/dev/mqueue/listed", &is)), 0, "stat");
	EXPECT(is.st_mode, S_IFREG | 0640, "mode");
	EXPECT(is.st_size, 80, "size");
	EXPECT(V(fchmod(q, 0600)), 0, "fchmod");
	EXPECT(V(chown("/dev/mqueue/listed", 5, 6)), 0, "chown");
	EXPECT(V(fstat(q, &is)), 0, "fstat");
	EXPECT((is.st_mode & 0777) * 100 + is.st_uid * 10 + is.st_gid, 0600 * 100 + 56, "as changed");
	EXPECT(V(unlink("/dev/mqueue/listed")), 0, "unlink");
	EXPECT(V(mq_open("/listed", O_RDWR)), -ENOENT, "gone");
	mq_close(q);
}

static void does_reading_tell_the_status_and_take_nothing(void)
{
	char text[128] = "";
	struct mq_attr now;
	mqd_t q = make("/status");
	int f = open("/dev/mqueue/status", O_RDONLY);
	EXPECT_TRUE(f >= 0, "open");
	EXPECT(V(read(f, text, 128)), (long)sizeof IDLE - 1, "read");
	EXPECT(memcmp(text, IDLE, sizeof IDLE - 1), 0, "an idle queue");
	EXPECT(V(mq_send(q, "hello", 5, 1)), 0, "send");
	EXPECT(V(pread(q, text, 128, 0)), (long)sizeof IDLE - 1, "by the queue's own descriptor");
	EXPECT(memcmp(text, "QSIZE:5 ", 8), 0, "five bytes");
	EXPECT(V(mq_getattr(q, &now)), 0, "mq_getattr");
	EXPECT(now.mq_curmsgs, 1, "still there");
	EXPECT(V(write(q, "x", 1)), -EINVAL, "write");
	close(f);
	mq_close(q);
	mq_unlink("/status");
}

static void what_cannot_be_done_with_a_queues_name(void)
{
	mqd_t q = make("/name");
	EXPECT(V(rename("/dev/mqueue/name", "/dev/mqueue/other")), -EPERM, "rename");
	EXPECT(V(link("/dev/mqueue/name", "/dev/mqueue/other")), -EPERM, "link");
	EXPECT(V(mkdir("/dev/mqueue/other", 0700)), -EPERM, "mkdir");
	EXPECT(V(symlink("name", "/dev/mqueue/other")), -EPERM, "symlink");
	EXPECT(V(rmdir("/dev/mqueue/name")), -ENOTDIR, "rmdir");
	mq_close(q);
	mq_unlink("/name");
}

static void does_open_make_a_queue(void)
{
	struct mq_attr is;
	int f = open("/dev/mqueue/made", O_RDWR | O_CREAT | O_EXCL, 0600);
	EXPECT_TRUE(f >= 0, "open");
	close(f);
	mqd_t q = mq_open("/made", O_RDWR);
	EXPECT_TRUE(q >= 0, "mq_open");
	EXPECT(V(mq_getattr(q, &is)), 0, "mq_getattr");
	EXPECT(is.mq_maxmsg, 10, "the default");
	EXPECT(is.mq_msgsize, 8192, "the default");
	mq_close(q);
	EXPECT(V(unlink("/dev/mqueue/made")), 0, "unlink");
}

static long set(const char *name, const char *text)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/sys/fs/mqueue/%s", name);
	int f = open(path, O_WRONLY);
	long result = f < 0 ? -errno : V(write(f, text, strlen(text)));
	close(f);
	return result;
}

static void are_the_settings_bounded(void)
{
	char text[16] = "";
	EXPECT(set("msg_max", "20\n"), 3, "20");
	int f = open("/proc/sys/fs/mqueue/msg_max", O_RDONLY);
	EXPECT(V(read(f, text, 16)), 3, "read");
	EXPECT(memcmp(text, "20\n", 3), 0, "20");
	close(f);
	EXPECT(set("msg_max", "0"), -EINVAL, "none");
	EXPECT(set("msg_max", "65537"), -EINVAL, "too many");
	EXPECT(set("msg_max", "many"), -EINVAL, "no number");
	EXPECT(set("msgsize_max", "127"), -EINVAL, "too short");
	EXPECT(set("msgsize_max", "16777217"), -EINVAL, "too long");
	EXPECT(set("msg_max", "10"), 2, "as before");
}

int main(void)
{
	ASK(is_a_queue_listed_and_looked_at);
	ASK(does_reading_tell_the_status_and_take_nothing);
	ASK(what_cannot_be_done_with_a_queues_name);
	ASK(does_open_make_a_queue);
	ASK(are_the_settings_bounded);
	return verdict_status();
}
