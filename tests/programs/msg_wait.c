/* msgsnd(2) and msgrcv(2) that wait: who is served, by whom, and what ends a wait. */
#include "msg.h"

static void does_a_message_go_to_the_first_receiver_that_wants_it(void)
{
	FRESH(id);
	pid_t low = receiver(id, 8, -5, 0), other = receiver(id, 8, 9, MSG_EXCEPT);
	pid_t first = receiver(id, 8, 9, 0), second = receiver(id, 8, 9, 0);
	EXPECT(put(id, 9, 'a', 1), 0, "send");
	EXPECT(said(first), 'a', "the first of two");
	EXPECT(put(id, 6, 'b', 1), 0, "send");
	EXPECT(said(other), 'b', "the one that avoids a type");
	EXPECT(put(id, 6, 'c', 1), 0, "send");
	EXPECT(queued(id), 1, "nobody wants that");
	EXPECT(put(id, 5, 'd', 1), 0, "send");
	EXPECT(said(low), 'd', "at the bound");
	EXPECT_TRUE(still_there(second), "one still waits");
	EXPECT(put(id, 9, 'e', 1), 0, "send");
	EXPECT(said(second), 'e', "the second of two");
	EXPECT(queued(id), 1, "what nobody wanted");
	REMOVE(id);
}

static void is_a_message_handed_over_noted_as_received(void)
{
	struct msqid_ds status;
	FRESH(id);
	pid_t pid = receiver(id, 8, 0, 0);
	EXPECT(put(id, 3, 'a', 5), 0, "send");
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_lrpid, pid, "receiver");
	EXPECT(status.msg_lspid, getpid(), "sender");
	EXPECT(status.msg_qnum + status.__msg_cbytes, 0, "it was never in the queue");
	EXPECT_TRUE(status.msg_rtime > 0, "time");
	EXPECT(said(pid), 'a', "the message");
	REMOVE(id);
}

static void is_a_waiting_receiver_without_room_told(void)
{
	struct msqid_ds status;
	FRESH(id);
	pid_t small = receiver(id, 4, 0, 0), cuts = receiver(id, 4, 0, MSG_NOERROR);
	EXPECT(put(id, 1, 'a', 5), 0, "send");
	EXPECT(said(small), SAYS(E2BIG), "the first has no room");
	EXPECT(said(cuts), 'a', "the next cuts");
	small = receiver(id, 4, 0, 0);
	EXPECT(put(id, 1, 'b', 5), 0, "send");
	EXPECT(said(small), SAYS(E2BIG), "no room");
	EXPECT(queued(id), 1, "the message stays");
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(status.msg_lrpid, cuts, "who was told has not received");
	REMOVE(id);
}

static void is_a_waiting_senders_message_let_in(void)
{
	struct msqid_ds status;
	static struct text m;
	FRESH(id);
	EXPECT(set_room(id, 10), 0, "room for ten");
	EXPECT(put(id, 1, 'a', 10), 0, "fill");
	pid_t first = sender(id, 2, 'b', 6), second = sender(id, 3, 'c', 3);
	EXPECT_TRUE(still_there(first) && still_there(second), "both wait");
	EXPECT(queued(id), 1, "one message");
	EXPECT(rcv(id, &m, 10, 0, 0), 10, "receive");
	EXPECT(said(first), 0, "the first");
	EXPECT(said(second), 0, "the second");
	EXPECT(queued(id), 2, "both are in");
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT_TRUE(status.msg_lspid == first || status.msg_lspid == second, "last sender");
	EXPECT(status.__msg_cbytes, 9, "bytes");
	REMOVE(id);
}

static void does_a_long_message_wait_while_short_ones_pass(void)
{
	static struct text m;
	FRESH(id);
	EXPECT(set_room(id, 10), 0, "room for ten");
	EXPECT(put(id, 1, 'a', 4) + put(id, 1, 'b', 6), 0, "fill");
	pid_t longer = sender(id, 2, 'c', 9), shorter = sender(id, 3, 'd', 4);
	EXPECT(rcv(id, &m, 10, 0, 0), 4, "receive");
	EXPECT(said(shorter), 0, "what fits is in");
	EXPECT_TRUE(still_there(longer), "what does not, waits");
	EXPECT(put(id, 4, 'e', 0), 0, "new ones pass too");
	EXPECT(rcv(id, &m, 10, 1, 0) + rcv(id, &m, 10, 3, 0), 10, "receive");
	EXPECT(said(longer), 0, "now it fits");
	EXPECT(queued(id), 2, "queued");
	REMOVE(id);
}

static void does_removal_wake_everybody(void)
{
	FRESH(id);
	pid_t pids[6];
	EXPECT(set_room(id, 4), 0, "little room");
	EXPECT(put(id, 1, 'a', 4), 0, "fill");
	for (int i = 0; i < 6; i++)
		pids[i] = i % 2 ? sender(id, 1, 'b', 4) : receiver(id, 8, 7, 0);
	REMOVE(id);
	for (int i = 0; i < 6; i++)
		EXPECT(said(pids[i]), SAYS(EIDRM), i % 2 ? "a sender" : "a receiver");
	struct msginfo info;
	EXPECT_OK(ctl(0, MSG_INFO, &info), "totals");
	EXPECT(info.msgmap + info.msgtql, 0, "nothing is left");
}

static void does_more_room_let_waiting_senders_in(void)
{
	FRESH(id);
	EXPECT(set_room(id, 4), 0, "little room");
	EXPECT(put(id, 1, 'a', 4), 0, "fill");
	pid_t pid = sender(id, 1, 'b', 4);
	EXPECT(set_room(id, 7), 0, "not enough");
	pause_ms(20);
	EXPECT_TRUE(still_there(pid), "it waits");
	EXPECT(set_room(id, 8), 0, "enough");
	EXPECT(said(pid), 0, "it is in");
	EXPECT(queued(id), 2, "queued");
	REMOVE(id);
}

/* A child of user 1000 that waits at a queue. */
static pid_t stranger(long id, int sends)
{
	pid_t pid = fork();
	if (pid == 0) {
		static struct text m = { 1, "x" };
		if (become(1000))
			_exit(1);
		long n = sends ? snd(id, &m, 4, 0) : rcv(id, &m, 4, 9, 0);
		_exit(n < 0 ? 128 - n : 0);
	}
	asleep(pid);
	return pid;
}

static void does_a_lost_right_end_a_wait(void)
{
	struct msqid_ds status;
	long id = get(IPC_PRIVATE, 0666);
	EXPECT_OK(id, "a queue");
	EXPECT(set_room(id, 4), 0, "little room");
	EXPECT(put(id, 1, 'a', 4), 0, "fill");
	pid_t receives = stranger(id, 0), sends = stranger(id, 1);
	EXPECT(ctl(id, IPC_STAT, &status), 0, "status");
	EXPECT(ctl(id, IPC_SET, &status), 0, "a change that changes nothing");
	pause_ms(20);
	EXPECT_TRUE(still_there(receives) && still_there(sends), "both wait on");
	status.msg_perm.mode = 0600;
	EXPECT(ctl(id, IPC_SET, &status), 0, "take the right");
	EXPECT(said(receives), SAYS(EACCES), "the receiver");
	pause_ms(20);
	EXPECT_TRUE(still_there(sends), "the sender does not look before there is room");
	static struct text m;
	EXPECT(rcv(id, &m, 4, 0, 0), 4, "make room");
	EXPECT(said(sends), SAYS(EACCES), "the sender");
	EXPECT(queued(id), 0, "nothing came in");
	REMOVE(id);
}

static volatile int handled;
static void handle(int signal)
{
	(void)signal;
	handled++;
}

static void does_a_handler_end_a_wait_for_good(void)
{
	FRESH(id);
	for (int restart = 0; restart < 2; restart++) {
		struct sigaction action = { .sa_handler = handle, .sa_flags = restart ? SA_RESTART : 0 };
		EXPECT(sigaction(SIGUSR1, &action, NULL), 0, "handler");
		for (int sends = 0; sends < 2; sends++) {
			EXPECT(set_room(id, sends ? 0 : 100), 0, "room");
			handled = 0;
			pid_t parent = getpid(), pid = fork();
			if (pid == 0) {
				asleep(parent);
				_exit(kill(parent, SIGUSR1) != 0);
			}
			static struct text m = { 1, "x" };
			long result = sends ? snd(id, &m, 1, 0) : rcv(id, &m, 1, 0, 0);
			EXPECT(result, -EINTR, "whatever SA_RESTART says");
			EXPECT(handled, 1, "the handler has run");
			EXPECT(said(pid), 0, "the child");
			EXPECT(queued(id), 0, "nothing was sent");
		}
	}
	signal(SIGUSR1, SIG_DFL);
	REMOVE(id);
}

static void does_a_stop_not_end_a_wait(void)
{
	FRESH(id);
	pid_t pid = receiver(id, 8, 0, 0);
	EXPECT(kill(pid, SIGSTOP), 0, "stop");
	pause_ms(20);
	EXPECT(kill(pid, SIGCONT), 0, "continue");
	pause_ms(20);
	EXPECT_TRUE(still_there(pid), "it waits on");
	EXPECT(put(id, 1, 'a', 1), 0, "send");
	EXPECT(said(pid), 'a', "it is served");
	REMOVE(id);
}

static void does_a_killed_waiter_leave_its_place(void)
{
	static struct text m;
	FRESH(id);
	pid_t pid = receiver(id, 8, 0, 0), next = receiver(id, 8, 0, 0);
	EXPECT(kill(pid, SIGKILL), 0, "kill the first receiver");
	EXPECT(said(pid), -1, "it is gone");
	EXPECT(put(id, 1, 'a', 1), 0, "send");
	EXPECT(said(next), 'a', "the next one is served");
	EXPECT(set_room(id, 4), 0, "little room");
	EXPECT(put(id, 1, 'b', 4), 0, "fill");
	pid = sender(id, 1, 'c', 4);
	EXPECT(kill(pid, SIGKILL), 0, "kill a sender");
	EXPECT(said(pid), -1, "it is gone");
	EXPECT(rcv(id, &m, 8, 0, 0), 4, "receive");
	EXPECT(queued(id), 0, "its message came not in");
	REMOVE(id);
}

int main(void)
{
	ASK(does_a_message_go_to_the_first_receiver_that_wants_it);
	ASK(is_a_message_handed_over_noted_as_received);
	ASK(is_a_waiting_receiver_without_room_told);
	ASK(is_a_waiting_senders_message_let_in);
	ASK(does_a_long_message_wait_while_short_ones_pass);
	ASK(does_removal_wake_everybody);
	ASK(does_more_room_let_waiting_senders_in);
	ASK(does_a_lost_right_end_a_wait);
	ASK(does_a_handler_end_a_wait_for_good);
	ASK(does_a_stop_not_end_a_wait);
	ASK(does_a_killed_waiter_leave_its_place);
	return verdict_status();
}
