/* Pipes, counters, and waiting for files: one task alone. */
#include "verdict.h"
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>

#define V(call) ({ long v_ = (call); v_ == -1 ? -(long)errno : v_; })

static void does_a_pipe_carry_bytes_in_order(void)
{
	int p[2], n = 0;
	char back[8];
	EXPECT(V(pipe(p)), 0, "pipe");
	EXPECT(V(write(p[1], "abc", 3)), 3, "write");
	EXPECT(V(write(p[1], "def", 3)), 3, "write");
	EXPECT(V(ioctl(p[0], FIONREAD, &n)), 0, "FIONREAD");
	EXPECT(n, 6, "bytes");
	EXPECT(V(read(p[0], back, 4)), 4, "read");
	EXPECT(memcmp(back, "abcd", 4), 0, "in order");
	EXPECT(V(read(p[1], back, 4)), -EBADF, "the wrong end");
	EXPECT(V(lseek(p[0], 0, SEEK_SET)), -ESPIPE, "no position");
	close(p[1]);
	EXPECT(V(read(p[0], back, 8)), 2, "the rest");
	EXPECT(V(read(p[0], back, 8)), 0, "the end");
	close(p[0]);
}

static void does_a_pipe_hold_64_kib_and_no_more(void)
{
	static char data[70000];
	int p[2];
	EXPECT(V(pipe2(p, O_NONBLOCK)), 0, "pipe2");
	EXPECT(V(read(p[0], data, 1)), -EAGAIN, "empty");
	EXPECT(V(write(p[1], data, sizeof data)), 65536, "as much as fits");
	EXPECT(V(write(p[1], data, 1)), -EAGAIN, "full");
	EXPECT(V(read(p[0], data, 4096)), 4096, "room");
	EXPECT(V(write(p[1], data, 4096)), 4096, "again");
	EXPECT(V(read(p[0], data, sizeof data)), 65536, "all");
	close(p[0]), close(p[1]);
}

static void is_a_pipe_without_a_reader_broken(void)
{
	int p[2];
	struct pollfd w;
	signal(SIGPIPE, SIG_IGN);
	EXPECT(V(pipe(p)), 0, "pipe");
	close(p[0]);
	EXPECT(V(write(p[1], "x", 1)), -EPIPE, "write");
	w = (struct pollfd){ p[1], POLLOUT, 0 };
	EXPECT(V(poll(&w, 1, 0)), 1, "poll");
	EXPECT(w.revents & POLLERR, POLLERR, "POLLERR");
	close(p[1]);
}

static void does_poll_see_what_is_ready(void)
{
	int p[2];
	EXPECT(V(pipe(p)), 0, "pipe");
	struct pollfd w[3] = { { p[0], POLLIN, 0 }, { p[1], POLLOUT, 0 }, { -1, POLLIN, 5 } };
	EXPECT(V(poll(w, 3, 0)), 1, "the writing end");
	EXPECT(w[0].revents, 0, "nothing to read");
	EXPECT(w[1].revents, POLLOUT, "room");
	EXPECT(w[2].revents, 0, "passed over");
	EXPECT(V(write(p[1], "x", 1)), 1, "write");
	EXPECT(V(poll(w, 1, -1)), 1, "the reading end");
	EXPECT(w[0].revents, POLLIN, "a byte");
	close(p[1]);
	EXPECT(V(poll(w, 1, 0)), 1, "closed");
	EXPECT(w[0].revents, POLLIN | POLLHUP, "a byte and the end");
	w[0].fd = 99;
	EXPECT(V(poll(w, 1, 0)), 1, "no such");
	EXPECT(w[0].revents, POLLNVAL, "POLLNVAL");
	close(p[0]);
	EXPECT(V(poll(NULL, 0, 10)), 0, "a nap");
}

static void does_select_see_what_is_ready(void)
{
	int p[2];
	fd_set r, w;
	struct timeval tv = { 0, 10000 };
	EXPECT(V(pipe(p)), 0, "pipe");
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(p[0], &r);
	EXPECT(V(select(p[1] + 1, &r, NULL, NULL, &tv)), 0, "nothing in time");
	EXPECT(FD_ISSET(p[0], &r), 0, "cleared");
	EXPECT(V(write(p[1], "x", 1)), 1, "write");
	FD_SET(p[0], &r);
	FD_SET(p[1], &w);
	EXPECT(V(select(p[1] + 1, &r, &w, NULL, NULL)), 2, "both");
	close(p[0]), close(p[1]);
	FD_ZERO(&r);
	FD_SET(p[0], &r);
	EXPECT(V(select(p[1] + 1, &r, NULL, NULL, NULL)), -EBADF, "closed");
}

static void does_a_counter_count(void)
{
	uint64_t n = 0;
	int e = eventfd(3, EFD_NONBLOCK), s = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
	EXPECT(V(read(e, &n, 8)), 8, "read");
	EXPECT(n, 3, "the first count");
	EXPECT(V(read(e, &n, 8)), -EAGAIN, "empty");
	n = 7;
	EXPECT(V(write(e, &n, 8)), 8, "write");
	EXPECT(V(write(e, &n, 8)), 8, "write");
	EXPECT(V(read(e, &n, 8)), 8, "read");
	EXPECT(n, 14, "the sum");
	n = UINT64_MAX;
	EXPECT(V(write(e, &n, 8)), -EINVAL, "too much");
	EXPECT(V(read(e, &n, 7)), -EINVAL, "too short");
	EXPECT(V(read(s, &n, 8)), 8, "one");
	EXPECT(n, 1, "of a semaphore");
	EXPECT(V(read(s, &n, 8)), 8, "two");
	EXPECT(V(read(s, &n, 8)), -EAGAIN, "no more");
	close(e), close(s);
}

static void does_epoll_report_levels_edges_and_shots(void)
{
	int p[2], e = epoll_create1(0);
	char c;
	struct epoll_event want = { EPOLLIN, { .u64 = 42 } }, got = { 0 };
	EXPECT_TRUE(e >= 0, "epoll_create1");
	EXPECT(V(pipe(p)), 0, "pipe");
	EXPECT(V(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &want)), 0, "add");
	EXPECT(V(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &want)), -EEXIST, "again");
	EXPECT(V(epoll_ctl(e, EPOLL_CTL_ADD, e, &want)), -EINVAL, "itself");
	EXPECT(V(epoll_ctl(e, EPOLL_CTL_MOD, p[1], &want)), -ENOENT, "not in it");
	EXPECT(V(epoll_wait(e, &got, 1, 0)), 0, "nothing");
	EXPECT(V(write(p[1], "xy", 2)), 2, "write");
	EXPECT(V(epoll_wait(e, &got, 1, -1)), 1, "ready");
	EXPECT(got.data.u64, 42, "data");
	EXPECT(V(epoll_wait(e, &got, 1, 0)), 1, "level: still ready");
	want.events = EPOLLIN | EPOLLET;
	EXPECT(V(epoll_ctl(e, EPOLL_CTL_MOD, p[0], &want)), 0, "edge");
	EXPECT(V(epoll_wait(e, &got, 1, 0)), 1, "the first look");
	EXPECT(V(epoll_wait(e, &got, 1, 0)), 0, "no news");
	EXPECT(V(write(p[1], "z", 1)), 1, "write");
	EXPECT(V(epoll_wait(e, &got, 1, 0)), 1, "news");
	want.events = EPOLLIN | EPOLLONESHOT;
	EXPECT(V(epoll_ctl(e, EPOLL_CTL_MOD, p[0], &want)), 0, "one shot");
	EXPECT(V(epoll_wait(e, &got, 1, 0)), 1, "the shot");
	EXPECT(V(epoll_wait(e, &got, 1, 0)), 0, "no more");
	EXPECT(V(read(p[0], &c, 1)), 1, "read");
	EXPECT(V(epoll_ctl(e, EPOLL_CTL_DEL, p[0], NULL)), 0, "del");
	EXPECT(V(epoll_wait(e, &got, 0, 0)), -EINVAL, "no room");
	close(p[0]), close(p[1]), close(e);
}

static void is_a_queue_ready_when_it_has_a_message(void)
{
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	mqd_t q = mq_open("/ready", O_RDWR | O_CREAT, 0600, &attributes);
	struct pollfd w = { q, POLLIN | POLLOUT, 0 };
	EXPECT(V(poll(&w, 1, 0)), 1, "poll");
	EXPECT(w.revents, POLLOUT, "empty");
	EXPECT(V(mq_send(q, "x", 1, 0)), 0, "send");
	EXPECT(V(poll(&w, 1, 0)), 1, "poll");
	EXPECT(w.revents, POLLIN, "full");
	mq_close(q);
	mq_unlink("/ready");
}

int main(void)
{
	ASK(does_a_pipe_carry_bytes_in_order);
	ASK(does_a_pipe_hold_64_kib_and_no_more);
	ASK(is_a_pipe_without_a_reader_broken);
	ASK(does_poll_see_what_is_ready);
	ASK(does_select_see_what_is_ready);
	ASK(does_a_counter_count);
	ASK(does_epoll_report_levels_edges_and_shots);
	ASK(is_a_queue_ready_when_it_has_a_message);
	return verdict_status();
}
