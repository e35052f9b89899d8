/* Notification of a message's arrival: mq_notify(2) as the kernel has it, and mq_notify(3) as the library makes of it.
 *
 * The signal of all questions is SIGUSR1, blocked and fetched by sigtimedwait(2).
 */
#include "queue.h"

#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char buffer[64];

static long raw_notify(long queue, const void *event)
{
	return R(syscall(SYS_mq_notify, queue, event));
}

static long register_for(long queue, int how, int number, const void *value)
{
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = how;
	event.sigev_signo = number;
	event.sigev_value.sival_ptr = (void *)value;
	return raw_notify(queue, &event);
}

static long register_signal(long queue, long value)
{
	return register_for(queue, SIGEV_SIGNAL, SIGUSR1, (void *)value);
}

static long register_silent(long queue)
{
	return register_for(queue, SIGEV_NONE, 0, NULL);
}

/* The signal that has come, or -EAGAIN after `milliseconds`. */
static long fetch(siginfo_t *info, int milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return R(sigtimedwait(&set, info, &time));
}

/* What `f` returns in a child. */
static long in_child(long (*f)(long), long argument)
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit((int)-f(argument));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? -(long)WEXITSTATUS(status) : -1000;
}

static long send_one(long queue)
{
	return raw_send(queue, "m", 1, 0, NULL);
}

static long close_one(long queue)
{
	return R(close(queue));
}

static long withdraw(long queue)
{
	return raw_notify(queue, NULL);
}

static void drain(long queue)
{
	while (raw_receive(queue, buffer, sizeof buffer, NULL, NULL) >= 0)
		;
}

static void is_one_process_registered_at_a_time(void)
{
	OPEN_FRESH(q, "one", 4, 8);
	EXPECT(register_signal(q, 1), 0, "register");
	EXPECT(register_signal(q, 2), -EBUSY, "the owner again");
	EXPECT(in_child(register_silent, q), -EBUSY, "another process");
	EXPECT(in_child(withdraw, q), 0, "taken back by who is not registered: no error");
	EXPECT(register_signal(q, 3), -EBUSY, "still registered");
	EXPECT(withdraw(q), 0, "taken back");
	EXPECT(withdraw(q), 0, "taken back twice is no error");
	EXPECT(in_child(register_silent, q), 0, "another process");
	EXPECT(register_signal(q, 4), 0, "its end has freed the place");
	WITHIN(discard(q, "one"));
}

static void what_arguments_are_refused(void)
{
	OPEN_FRESH(q, "refused", 4, 8);
	int ends[2];
	EXPECT(R(pipe(ends)), 0, "pipe");
	EXPECT(register_for(q, 3, SIGUSR1, NULL), -EINVAL, "no such way");
	EXPECT(register_for(q, SIGEV_THREAD_ID, SIGUSR1, NULL), -EINVAL, "SIGEV_THREAD_ID");
	EXPECT(register_for(q, -1, SIGUSR1, NULL), -EINVAL, "way -1");
	EXPECT(register_for(q, SIGEV_SIGNAL, 65, NULL), -EINVAL, "signal 65");
	EXPECT(register_for(q, SIGEV_SIGNAL, -1, NULL), -EINVAL, "signal -1");
	EXPECT(register_for(q, SIGEV_THREAD, ends[0], buffer), -ENOTSOCK, "a pipe as socket");
	EXPECT(register_for(q, SIGEV_THREAD, q, buffer), -ENOTSOCK, "the queue as socket");
	EXPECT(register_for(q, SIGEV_THREAD, 99, buffer), -EBADF, "no socket");
	for (size_t i = 0; i < BAD_ADDRESSES; i++) {
		EXPECT(raw_notify(q, (void *)bad_addresses[i]), -EFAULT, "the event's address");
		EXPECT(register_for(q, SIGEV_THREAD, 99, (void *)bad_addresses[i]), -EFAULT, "the cookie's address");
	}
	EXPECT(register_for(q, SIGEV_NONE, 65, NULL), 0, "the number is not looked at where there is no signal");
	EXPECT(withdraw(q), 0, "taken back");
	EXPECT(register_for(q, SIGEV_SIGNAL, 64, NULL), 0, "the last signal");
	close(ends[0]);
	close(ends[1]);
	WITHIN(discard(q, "refused"));
}

static void what_descriptors_are_refused(void)
{
	int ends[2];
	EXPECT(R(pipe(ends)), 0, "pipe");
	EXPECT(register_silent(99), -EBADF, "a closed one");
	EXPECT(register_silent(-1), -EBADF, "-1");
	EXPECT(register_silent(ends[0]), -EBADF, "a pipe's");
	EXPECT(withdraw(99), -EBADF, "a closed one, taken back");
	EXPECT(withdraw(ends[1]), -EBADF, "a pipe's, taken back");
	close(ends[0]);
	close(ends[1]);
	OPEN_FRESH(q, "either", 4, 8);
	long reading = raw_open("either", O_RDONLY, 0, NULL), writing = raw_open("either", O_WRONLY, 0, NULL);
	EXPECT(register_silent(reading), 0, "a receiving end may register");
	EXPECT(withdraw(writing), 0, "a sending end takes the same registration back");
	EXPECT(register_silent(writing), 0, "a sending end may register");
	EXPECT(R(close(reading)) | R(close(writing)), 0, "close");
	WITHIN(discard(q, "either"));
}

static void in_which_order_are_faults_found(void)
{
	EXPECT(raw_notify(99, (void *)8), -EFAULT, "the event before the descriptor");
	EXPECT(register_for(99, 3, 0, NULL), -EINVAL, "the way before the descriptor");
	EXPECT(register_for(99, SIGEV_SIGNAL, 65, NULL), -EINVAL, "the signal before the descriptor");
	EXPECT(register_for(99, SIGEV_THREAD, 98, (void *)8), -EFAULT, "the cookie before both descriptors");
	OPEN_FRESH(q, "order", 4, 8);
	EXPECT(register_silent(q), 0, "register");
	EXPECT(register_for(q, SIGEV_THREAD, 98, buffer), -EBADF, "the socket before the registered one");
	EXPECT(register_for(q, 3, 0, NULL), -EINVAL, "the way before the registered one");
	WITHIN(discard(q, "order"));
}

static pid_t *sender;

static long send_as_another_user(long queue)
{
	*sender = getpid();
	if (setresuid(1234, 1234, 1234) != 0)
		return -1;
	return send_one(queue);
}

static void does_the_signal_say_who_sent_it(void)
{
	siginfo_t info;
	OPEN_FRESH(q, "who", 4, 8);
	sender = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(register_signal(q, 0x123456789abc), 0, "register");
	EXPECT(in_child(send_as_another_user, q), 0, "send");
	EXPECT(fetch(&info, 2000), SIGUSR1, "the signal");
	EXPECT(info.si_code, SI_MESGQ, "si_code");
	EXPECT(info.si_errno, 0, "si_errno");
	EXPECT((long)info.si_value.sival_ptr, 0x123456789abc, "si_value");
	EXPECT(info.si_pid, *sender, "si_pid");
	EXPECT(info.si_uid, 1234, "si_uid");
	WITHIN(discard(q, "who"));
}

static void does_only_a_message_to_an_empty_queue_notify_and_once(void)
{
	siginfo_t info;
	OPEN_FRESH(q, "empty", 4, 8);
	EXPECT(send_one(q), 0, "send");
	EXPECT(register_signal(q, 1), 0, "register with a message in the queue");
	EXPECT(send_one(q), 0, "send");
	EXPECT(fetch(&info, 50), -EAGAIN, "the queue was not empty");
	drain(q);
	EXPECT(register_signal(q, 2), -EBUSY, "still registered");
	EXPECT(send_one(q), 0, "send");
	EXPECT(fetch(&info, 2000), SIGUSR1, "the queue was empty");
	drain(q);
	EXPECT(send_one(q), 0, "send");
	EXPECT(fetch(&info, 50), -EAGAIN, "once only");
	EXPECT(register_signal(q, 3), 0, "the place is free");
	WITHIN(discard(q, "empty"));
}

static void *receive_one(void *queue)
{
	return (void *)raw_receive((long)queue, buffer, 8, NULL, NULL);
}

/* Waits until the thread sleeps in its call: its state in /proc. */
static void until_asleep(pid_t tid)
{
	char path[64], text[256];
	for (int i = 0; i < 2000; i++) {
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, text, sizeof text - 1);
		close(fd);
		if (n > 0) {
			text[n] = 0;
			char *state = strrchr(text, ')');
			if (state && state[2] == 'S')
				return;
		}
		usleep(1000);
	}
}

static pid_t receiver;

static void *receive_and_say_who(void *queue)
{
	__atomic_store_n(&receiver, gettid(), __ATOMIC_SEQ_CST);
	return receive_one(queue);
}

static void does_a_waiting_receiver_get_the_message_instead(void)
{
	struct mq_attr blocking = { 0 };
	siginfo_t info;
	pthread_t thread;
	void *received;
	OPEN_FRESH(q, "instead", 4, 8);
	EXPECT(raw_getsetattr(q, &blocking, NULL), 0, "blocking");
	receiver = 0;
	EXPECT(pthread_create(&thread, NULL, receive_and_say_who, (void *)q), 0, "create");
	while (!__atomic_load_n(&receiver, __ATOMIC_SEQ_CST))
		usleep(1000);
	until_asleep(receiver);
	EXPECT(register_signal(q, 1), 0, "register");
	EXPECT(send_one(q), 0, "send");
	pthread_join(thread, &received);
	EXPECT((long)received, 1, "received");
	EXPECT(fetch(&info, 50), -EAGAIN, "no signal");
	EXPECT(register_signal(q, 1), -EBUSY, "still registered");
	EXPECT(send_one(q), 0, "send");
	EXPECT(fetch(&info, 2000), SIGUSR1, "the next message notifies");
	WITHIN(discard(q, "instead"));
}

static void do_silent_registrations_hold_the_place_and_are_used_up(void)
{
	siginfo_t info;
	OPEN_FRESH(q, "silent", 4, 8);
	for (int number = 0; number < 2; number++) {
		EXPECT(register_for(q, number ? SIGEV_NONE : SIGEV_SIGNAL, 0, NULL), 0, "register");
		EXPECT(register_silent(q), -EBUSY, "the place is held");
		EXPECT(send_one(q), 0, "send");
		EXPECT(register_signal(q, 1), 0, "used up");
		EXPECT(withdraw(q), 0, "taken back");
		drain(q);
	}
	EXPECT(fetch(&info, 50), -EAGAIN, "nothing was raised");
	WITHIN(discard(q, "silent"));
}

static void does_any_close_by_the_owner_end_it(void)
{
	OPEN_FRESH(q, "close", 4, 8);
	EXPECT(register_silent(q), 0, "register");
	EXPECT(in_child(close_one, q), 0, "close in a child");
	EXPECT(register_silent(q), -EBUSY, "that is another process");
	EXPECT(R(close(R(dup(q)))), 0, "close of a duplicate");
	EXPECT(register_silent(q), 0, "ended");
	EXPECT(R(close(raw_open("close", O_RDONLY, 0, NULL))), 0, "close of another description");
	EXPECT(register_silent(q), 0, "ended");
	long other = R(dup(q));
	EXPECT(R(dup2(STDOUT_FILENO, other)), other, "a duplicate replaced");
	EXPECT(register_silent(q), 0, "ended");
	close(other);
	EXPECT(register_silent(q), -EBUSY, "what was no queue any more ended nothing");
	WITHIN(discard(q, "close"));
}

static long notification_socket(void)
{
	return R(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
}

static const char cookie[32] = "the cookie of thirty-two bytes.";

static long register_cookie(long queue, long socket)
{
	return register_for(queue, SIGEV_THREAD, socket, cookie);
}

/* The last byte of the cookie that is in the socket. */
static long last_byte(long socket)
{
	memset(buffer, 0, sizeof buffer);
	long n = R(recv(socket, buffer, sizeof buffer, MSG_DONTWAIT));
	if (n != 32)
		return n < 0 ? n : -n;
	return memcmp(buffer, cookie, 31) == 0 ? (unsigned char)buffer[31] : -1000;
}

static void does_a_cookie_say_how_it_ended(void)
{
	OPEN_FRESH(q, "cookie", 4, 8);
	long socket = notification_socket();
	EXPECT_OK(socket, "socket");
	EXPECT(register_cookie(q, socket), 0, "register");
	EXPECT(register_cookie(q, socket), -EBUSY, "again");
	EXPECT(last_byte(socket), -EAGAIN, "nothing yet");
	EXPECT(send_one(q), 0, "send");
	EXPECT(last_byte(socket), 1, "fired");
	drain(q);
	EXPECT(register_cookie(q, socket), 0, "register");
	EXPECT(withdraw(q), 0, "take back");
	EXPECT(last_byte(socket), 2, "taken back");
	EXPECT(register_cookie(q, socket), 0, "register");
	EXPECT(R(close(R(dup(q)))), 0, "close of a duplicate");
	EXPECT(last_byte(socket), 2, "closed");
	EXPECT(register_cookie(q, socket), 0, "register");
	EXPECT(raw_unlink("cookie"), 0, "unlink");
	EXPECT(last_byte(socket), -EAGAIN, "unlinking ends nothing");
	EXPECT(R(close(q)), 0, "close");
	EXPECT(last_byte(socket), 2, "closed");
	EXPECT(last_byte(socket), -EAGAIN, "nothing more");
	close(socket);
}

static void may_the_socket_be_closed_first(void)
{
	OPEN_FRESH(q, "first", 4, 8);
	for (int i = 0; i < 100; i++) {
		long socket = notification_socket();
		EXPECT_OK(socket, "socket");
		EXPECT(register_cookie(q, socket), 0, "register");
		EXPECT(R(close(socket)), 0, "close");
		if (i % 3 == 0)
			EXPECT(withdraw(q), 0, "take back");
		if (i % 3 == 1)
			EXPECT(R(close(R(dup(q)))), 0, "close of a duplicate");
		if (i % 3 == 2)
			EXPECT(send_one(q), 0, "send");
		drain(q);
	}
	WITHIN(discard(q, "first"));
}

static long register_in_a_child(long queue)
{
	return register_cookie(queue, notification_socket());
}

static void does_the_end_of_a_process_end_it(void)
{
	OPEN_FRESH(q, "end", 4, 8);
	for (int i = 0; i < 20; i++) {
		EXPECT(in_child(i % 2 ? register_silent : register_in_a_child, q), 0, "register in a child");
		EXPECT(register_silent(q), 0, "the child has ended");
		EXPECT(withdraw(q), 0, "take back");
	}
	WITHIN(discard(q, "end"));
}

static void does_execve_close_and_so_end_it(void)
{
	int status;
	OPEN_FRESH(q, "execve", 4, 8);
	OPEN_FRESH(kept, "kept", 4, 8);
	int ends[2];
	char byte;
	EXPECT(R(pipe(ends)), 0, "pipe");
	pid_t child = fork();
	if (child == 0) {
		fcntl(kept, F_SETFD, 0);
		register_signal(q, 1);
		register_signal(kept, 1);
		dup2(ends[1], STDOUT_FILENO);
		execl("/proc/self/exe", "mq_notify", "wait", NULL);
		_exit(1);
	}
	EXPECT(read(ends[0], &byte, 1), 1, "the child runs another program");
	EXPECT(register_silent(q), 0, "the closed one is free");
	EXPECT(register_silent(kept), -EBUSY, "the kept one is registered");
	EXPECT(send_one(kept), 0, "send");
	EXPECT(register_silent(kept), 0, "used up");
	usleep(50000);
	/* The old program's signal would end the new one, which does not block it. */
	EXPECT(waitpid(child, &status, WNOHANG), 0, "the new program was not signalled");
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(ends[0]);
	close(ends[1]);
	WITHIN(discard(q, "execve"));
	WITHIN(discard(kept, "kept"));
}

static void what_does_the_socket_take_and_give(void)
{
	OPEN_FRESH(q, "socket", 4, 8);
	EXPECT(R(socket(AF_NETLINK, SOCK_STREAM, 0)), -ESOCKTNOSUPPORT, "a netlink stream");
	EXPECT(R(socket(AF_NETLINK, SOCK_RAW, 99)), -EPROTONOSUPPORT, "protocol 99");
	EXPECT(R(socket(AF_NETLINK, SOCK_RAW | 0x100, 0)), -EINVAL, "an unknown mode");
	EXPECT(R(socket(99, SOCK_RAW, 0)), -EAFNOSUPPORT, "family 99");
	EXPECT(R(socket(AF_NETLINK, 12, 0)), -EINVAL, "type 12");
	long socket = notification_socket();
	EXPECT_OK(socket, "socket");
	EXPECT(R(fcntl(socket, F_GETFD)), FD_CLOEXEC, "close-on-exec");
	struct stat status;
	EXPECT(R(fstat(socket, &status)), 0, "fstat");
	EXPECT(status.st_mode, S_IFSOCK | 0777, "its mode");
	EXPECT(R(lseek(socket, 0, SEEK_SET)), -ESPIPE, "lseek");
	EXPECT(register_cookie(q, socket), 0, "register");
	struct pollfd asked = { .fd = socket, .events = POLLIN | POLLOUT };
	EXPECT(R(poll(&asked, 1, 0)), 1, "poll");
	EXPECT(asked.revents, POLLOUT, "nothing to read");
	EXPECT(send_one(q), 0, "send");
	asked.events = POLLIN;
	EXPECT(R(poll(&asked, 1, 0)), 1, "poll");
	EXPECT(asked.revents, POLLIN, "something to read");
	EXPECT(R(recv(socket, buffer, 8, MSG_PEEK)), 8, "a look at a part");
	EXPECT(R(recv(socket, buffer, 8, MSG_PEEK | MSG_TRUNC)), 32, "and at its length");
	struct sockaddr_nl from;
	socklen_t length = sizeof from;
	memset(&from, 0xff, sizeof from);
	EXPECT(R(recvfrom(socket, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &length)), 32, "all of it");
	EXPECT(length, sizeof from, "the address's length");
	EXPECT(from.nl_family, AF_NETLINK, "its family");
	EXPECT(from.nl_pid, 0, "the kernel's port");
	EXPECT(R(recv(socket, buffer, 8, MSG_DONTWAIT)), -EAGAIN, "nothing more");
	drain(q);
	EXPECT(register_cookie(q, socket), 0, "register");
	EXPECT(send_one(q), 0, "send");
	struct iovec part = { buffer, 8 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	EXPECT(R(recvmsg(socket, &message, 0)), 8, "a part");
	EXPECT(message.msg_flags, MSG_TRUNC, "the rest is lost");
	close(socket);
	WITHIN(discard(q, "socket"));
}

static volatile int calls, value;
static long library_queue;
static void arm(void);

static void called(union sigval with)
{
	value = with.sival_int;
	arm();
	drain(library_queue);
	__sync_fetch_and_add(&calls, 1);
}

static void arm(void)
{
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_THREAD;
	event.sigev_notify_function = called;
	event.sigev_value.sival_int = 4711;
	if (mq_notify(library_queue, &event) != 0)
		calls = 1000;
}

static void does_the_library_call_back_in_a_thread(void)
{
	library_queue = fresh_queue("library", 4, 8);
	EXPECT_OK(library_queue, "a fresh queue");
	arm();
	for (int i = 1; i <= 20; i++) {
		EXPECT(send_one(library_queue), 0, "send");
		for (int k = 0; k < 5000 && calls < i; k++)
			usleep(1000);
		EXPECT(calls, i, "calls so far");
	}
	EXPECT(value, 4711, "value");
	WITHIN(discard(library_queue, "library"));
}

int main(int argc, char **argv)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (argc > 1 && strcmp(argv[1], "wait") == 0) {
		/* After execve(2): SIGUSR1 ends this program. */
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		if (write(STDOUT_FILENO, "x", 1) != 1)
			return 1;
		sleep(100);
		return 0;
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	ASK(is_one_process_registered_at_a_time);
	ASK(what_arguments_are_refused);
	ASK(what_descriptors_are_refused);
	ASK(in_which_order_are_faults_found);
	ASK(does_the_signal_say_who_sent_it);
	ASK(does_only_a_message_to_an_empty_queue_notify_and_once);
	ASK(does_a_waiting_receiver_get_the_message_instead);
	ASK(do_silent_registrations_hold_the_place_and_are_used_up);
	ASK(does_any_close_by_the_owner_end_it);
	ASK(does_a_cookie_say_how_it_ended);
	ASK(may_the_socket_be_closed_first);
	ASK(does_the_end_of_a_process_end_it);
	ASK(does_execve_close_and_so_end_it);
	ASK(what_does_the_socket_take_and_give);
	ASK(does_the_library_call_back_in_a_thread);
	return verdict_status();
}
