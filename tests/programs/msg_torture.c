/* System V queues under everything at once: many tasks that send, receive, look, change and remove at random, and are
 * signalled and killed meanwhile. No message may be lost or come twice, and when all is quiet the totals are the sum over
 * the queues.
 *
 *     msg_torture [TASKS [MILLISECONDS [SEED]]]
 *
 * Four queues are never removed: of each one is known what was sent, what was received, and what was under way in a task
 * that was killed. Four others come and go. */
#include "msg.h"

#include <sched.h>

enum { QUEUES = 8, STABLE = 4, MAX_TASKS = 256, MESSAGES = 1 << 20, STRANGER = 1000 };

struct task {
	volatile int sending, receiving; /* the queue plus 1 while a call on it is under way */
	volatile unsigned long done;
};

static struct shared {
	volatile int stop;
	volatile int id[QUEUES];
	unsigned long next;
	unsigned long sent[QUEUES], received[QUEUES];
	volatile int bad;
	volatile unsigned long twice, torn;
	struct task task[MAX_TASKS];
	unsigned char seen[MESSAGES];
} *all;

static int tasks = 64, milliseconds = 2000;
static unsigned long seed = 1;
static pid_t pids[MAX_TASKS];
/* What killed tasks may have sent without saying so, and received. */
static long unsaid_sent[QUEUES], unsaid_received[QUEUES];
static unsigned long kills, signals;

static unsigned long roll(unsigned long *dice, unsigned long below)
{
	*dice ^= *dice << 13;
	*dice ^= *dice >> 7;
	*dice ^= *dice << 17;
	return (*dice >> 11) % below;
}

struct numbered {
	long type;
	unsigned long number;
	char text[2000];
};

static char letter(unsigned long number, size_t at)
{
	return number * 31 + at;
}

static void check(const struct numbered *m, size_t length)
{
	if (length < sizeof m->number || m->number >= MESSAGES) {
		all->torn++;
		return;
	}
	for (size_t at = 0; at < length - sizeof m->number; at++)
		if (m->text[at] != letter(m->number, at)) {
			all->torn++;
			return;
		}
	if (__atomic_fetch_add(&all->seen[m->number], 1, __ATOMIC_RELAXED) != 0)
		all->twice++;
}

static void send_one(struct task *task, unsigned long *dice, int q)
{
	static struct numbered m;
	size_t length = roll(dice, 16) ? roll(dice, 60) : roll(dice, sizeof m.text);
	m.type = 1 + roll(dice, 5);
	m.number = __atomic_fetch_add(&all->next, 1, __ATOMIC_RELAXED);
	if (m.number >= MESSAGES) {
		all->stop = 1;
		return;
	}
	for (size_t at = 0; at < length; at++)
		m.text[at] = letter(m.number, at);
	task->sending = q + 1;
	long result = snd(all->id[q], &m, sizeof m.number + length, roll(dice, 2) ? IPC_NOWAIT : 0);
	if (result == 0)
		__atomic_fetch_add(&all->sent[q], 1, __ATOMIC_RELAXED);
	else if (result != -EAGAIN && result != -EINTR && result != -EACCES && (q < STABLE || (result != -EIDRM && result != -EINVAL)))
		all->bad = result;
	task->sending = 0;
}

static void receive_one(struct task *task, unsigned long *dice, int q)
{
	static struct numbered m;
	long type = (long)roll(dice, 13) - 6;
	int flags = (roll(dice, 2) ? IPC_NOWAIT : 0) | (roll(dice, 3) ? 0 : MSG_EXCEPT);
	size_t room = roll(dice, 4) ? sizeof m - sizeof m.type : 40;
	task->receiving = q + 1;
	long result = rcv(all->id[q], &m, room, type, flags);
	if (result >= 0) {
		check(&m, result);
		__atomic_fetch_add(&all->received[q], 1, __ATOMIC_RELAXED);
	} else if (result != -ENOMSG && result != -EINTR && result != -EACCES && result != -E2BIG &&
		   (q < STABLE || (result != -EIDRM && result != -EINVAL))) {
		all->bad = result;
	}
	task->receiving = 0;
}

static void change(unsigned long *dice, int q)
{
	static const int modes[] = { 0666, 0666, 0666, 0600, 0644, 0 };
	struct msqid_ds status;
	if (ctl(all->id[q], IPC_STAT, &status) != 0)
		return;
	status.msg_perm.mode = modes[roll(dice, 6)];
	status.msg_qbytes = roll(dice, 3) ? 16384 : 100 + roll(dice, 3000);
	ctl(all->id[q], IPC_SET, &status);
}

static void look(unsigned long *dice, int q)
{
	static struct text m;
	struct msginfo info;
	struct msqid_ds status;
	switch (roll(dice, 4)) {
	case 0:
		ctl(all->id[q], IPC_STAT, &status);
		break;
	case 1:
		if (ctl(0, MSG_INFO, &info) < 0 || info.msgmap < 0 || info.msgtql < 0)
			all->bad = -1;
		break;
	case 2:
		ctl(roll(dice, 70), MSG_STAT_ANY, &status);
		break;
	default:
		rcv(all->id[q], &m, sizeof m.text, roll(dice, 5), MSG_COPY | IPC_NOWAIT);
	}
}

static void new_queue(int q)
{
	all->id[q] = get(IPC_PRIVATE, 0666);
}

static void handle(int signal)
{
	(void)signal;
}

static void work(int number, unsigned long dice)
{
	struct task *task = &all->task[number];
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	sigaction(SIGUSR1, &action, NULL);
	if (number % 4 == 3 && become(STRANGER))
		_exit(1);
	while (!all->stop) {
		int q = roll(&dice, QUEUES);
		unsigned long what = roll(&dice, 100);
		if (what < 45)
			send_one(task, &dice, q);
		else if (what < 92)
			receive_one(task, &dice, q);
		else if (what < 94)
			change(&dice, q);
		else if (what < 99)
			look(&dice, q);
		else if (q >= STABLE && ctl(all->id[q], IPC_RMID, NULL) == 0)
			new_queue(q);
		task->done++;
	}
	_exit(0);
}

static int start(int number, unsigned long dice)
{
	all->task[number].sending = all->task[number].receiving = 0;
	pids[number] = fork();
	if (pids[number] == 0)
		work(number, dice | 1);
	return pids[number] > 0;
}

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What a task that has gone had under way. */
static void note(int number)
{
	struct task *task = &all->task[number];
	if (task->sending)
		unsaid_sent[task->sending - 1]++;
	if (task->receiving)
		unsaid_received[task->receiving - 1]++;
}

static void does_everything_go_on_under_signals_and_kills(void)
{
	EXPECT(R(unshare(CLONE_NEWIPC)), 0, "a namespace of our own");
	all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT_TRUE(all != MAP_FAILED, "shared memory");
	for (int q = 0; q < QUEUES; q++)
		new_queue(q);
	unsigned long dice = seed * 0x9e3779b97f4a7c15 | 1;
	for (int i = 0; i < tasks; i++)
		EXPECT_TRUE(start(i, roll(&dice, 1ul << 50)), "fork");
	long end = now() + milliseconds;
	struct msqid_ds status;
	while (now() < end && !all->stop) {
		pause_ms(1);
		int victim = roll(&dice, tasks);
		if (roll(&dice, 8) == 0) {
			kill(pids[victim], SIGKILL);
			EXPECT(said(pids[victim]), -1, "killed");
			note(victim);
			kills++;
			EXPECT_TRUE(start(victim, roll(&dice, 1ul << 50)), "fork");
		} else {
			kill(pids[victim], SIGUSR1);
			signals++;
		}
		/* One that removed a queue may have been killed before it made the next. */
		for (int q = STABLE; q < QUEUES; q++)
			if (ctl(all->id[q], IPC_STAT, &status) == -EINVAL)
				new_queue(q);
	}
	all->stop = 1;
	for (int i = 0; i < tasks; i++) {
		int result;
		/* A signal may come just before the call that is to be interrupted. */
		while (waitpid(pids[i], &result, WNOHANG) == 0) {
			kill(pids[i], SIGUSR1);
			pause_ms(1);
		}
		EXPECT(result, 0, "a task's end");
	}
	EXPECT(all->bad, 0, "an unexpected error");
	EXPECT(all->torn, 0, "torn messages");
	unsigned long done = 0;
	for (int i = 0; i < tasks; i++) {
		EXPECT_TRUE(all->task[i].done > 0, "every task did something");
		done += all->task[i].done;
	}
	char line[160];
	verdict_write(line, snprintf(line, sizeof line, "%lu operations, %lu messages, %lu kills, %lu signals\n", done, all->next,
				     kills, signals));
}

static void are_the_totals_the_sum_of_the_queues(void)
{
	struct msginfo info;
	struct msqid_ds status;
	long queues = 0, messages = 0, bytes = 0, highest = ctl(0, MSG_INFO, &info);
	EXPECT_OK(highest, "totals");
	for (long index = 0; index <= highest; index++)
		if (ctl(index, MSG_STAT_ANY, &status) >= 0) {
			queues++;
			messages += status.msg_qnum;
			bytes += status.__msg_cbytes;
		}
	EXPECT(info.msgpool, queues, "queues");
	EXPECT(info.msgmap, messages, "messages");
	EXPECT(info.msgtql, bytes, "bytes");
}

static void is_no_message_lost_or_doubled(void)
{
	for (int q = 0; q < STABLE; q++) {
		static struct numbered m;
		long left = 0, result;
		while ((result = rcv(all->id[q], &m, sizeof m - sizeof m.type, 0, IPC_NOWAIT)) >= 0) {
			check(&m, result);
			left++;
		}
		EXPECT(result, -ENOMSG, "drained");
		long missing = (long)all->sent[q] - (long)all->received[q] - left;
		EXPECT_TRUE(all->sent[q] > 0 && all->received[q] > 0, "the queue was used");
		EXPECT_TRUE(missing >= -unsaid_sent[q], "more came out than went in");
		EXPECT_TRUE(missing <= unsaid_received[q], "less came out than went in");
	}
	EXPECT(all->twice, 0, "messages that came twice");
	EXPECT(all->torn, 0, "torn messages");
}

static void is_nothing_left(void)
{
	struct msginfo info;
	struct msqid_ds status;
	long highest = ctl(0, MSG_INFO, &info);
	for (long index = 0; index <= highest; index++) {
		long id = ctl(index, MSG_STAT_ANY, &status);
		if (id >= 0)
			REMOVE(id);
	}
	EXPECT(ctl(0, MSG_INFO, &info), 0, "the highest index");
	EXPECT(info.msgpool, 0, "queues");
	EXPECT(info.msgmap, 0, "messages");
	EXPECT(info.msgtql, 0, "bytes");
}

int main(int count, char **arguments)
{
	if (count > 1)
		tasks = atoi(arguments[1]);
	if (count > 2)
		milliseconds = atoi(arguments[2]);
	if (count > 3)
		seed = strtoul(arguments[3], NULL, 10);
	if (tasks < 1 || tasks > MAX_TASKS)
		return 2;
	ASK(does_everything_go_on_under_signals_and_kills);
	if (verdict_status())
		return 1;
	ASK(are_the_totals_the_sum_of_the_queues);
	ASK(is_no_message_lost_or_doubled);
	ASK(is_nothing_left);
	return verdict_status();
}
