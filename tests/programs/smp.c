/* Several CPUs: where tasks run, what one CPU's change of memory means to the others, and that nothing is lost between
 * them. Every question holds with one CPU too. */
#include "verdict.h"

#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE 4096
#define MOST 16

static int cpus;
static cpu_set_t all;

static void only(cpu_set_t *set, int cpu)
{
	CPU_ZERO(set);
	CPU_SET(cpu, set);
}

/* The numbers of the CPUs that this process may use. */
static int cpu_number(int nth)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && nth-- == 0)
			return cpu;
	return -1;
}

static void pass_time(void)
{
	struct timespec moment = {0, 1000000};
	nanosleep(&moment, NULL);
}

/* ---- where tasks run ---- */

static void does_a_task_go_where_its_affinity_says(void)
{
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < cpus; i++) {
			cpu_set_t set;
			only(&set, cpu_number(i));
			EXPECT_OK(R(sched_setaffinity(0, sizeof set, &set)), "to one CPU");
			EXPECT(sched_getcpu(), cpu_number(i), "at once");
			sched_yield();
			EXPECT(sched_getcpu(), cpu_number(i), "and still");
			cpu_set_t got;
			EXPECT_OK(R(sched_getaffinity(0, sizeof got, &got)), "read");
			EXPECT_TRUE(CPU_EQUAL(&set, &got), "as it was set");
		}
	EXPECT_OK(R(sched_setaffinity(0, sizeof all, &all)), "everywhere");
}

static void is_affinity_inherited(void)
{
	cpu_set_t set;
	int last = cpu_number(cpus - 1);
	only(&set, last);
	EXPECT_OK(R(sched_setaffinity(0, sizeof set, &set)), "to the last CPU");
	pid_t child = fork();
	if (child == 0)
		_exit(sched_getcpu() == last ? 0 : 1);
	int status;
	waitpid(child, &status, 0);
	EXPECT_OK(R(sched_setaffinity(0, sizeof all, &all)), "everywhere");
	EXPECT(status, 0, "the child's CPU");
}

static void what_affinities_are_refused(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	EXPECT(R(sched_setaffinity(0, sizeof set, &set)), -EINVAL, "nowhere");
	EXPECT(R(sched_setaffinity(0x7ffffff0, sizeof all, &all)), -ESRCH, "of nobody");
	EXPECT(R(syscall(SYS_sched_setaffinity, -1, sizeof all, &all)), -ESRCH, "of a negative number");
	EXPECT(R(syscall(SYS_sched_setaffinity, 0, sizeof all, NULL)), -EFAULT, "from nowhere");
	EXPECT(R(syscall(SYS_sched_getaffinity, 0, 1, &set)), -EINVAL, "into too little");
	EXPECT(R(syscall(SYS_sched_getaffinity, 0, 12, &set)), -EINVAL, "into half a word");
	EXPECT(R(syscall(SYS_sched_getaffinity, 0x7ffffff0, sizeof set, &set)), -ESRCH, "of nobody, read");
}

static atomic_int arrived;
static atomic_int seen[CPU_SETSIZE];

/* All threads have to be there at the same time, so no CPU may be left out for long. */
static void *meet(void *count)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < (int)(long)count)
		sched_yield();
	atomic_store(&seen[sched_getcpu()], 1);
	return NULL;
}

static void do_threads_meet(void)
{
	pthread_t threads[MOST];
	for (int round = 0; round < 8; round++) {
		atomic_store(&arrived, 0);
		for (int i = 0; i < MOST; i++)
			EXPECT(pthread_create(&threads[i], NULL, meet, (void *)(long)MOST), 0, "create");
		for (int i = 0; i < MOST; i++)
			pthread_join(threads[i], NULL);
	}
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		EXPECT_TRUE(!atomic_load(&seen[cpu]) || CPU_ISSET(cpu, &all), "only on CPUs that are there");
}

static atomic_int stop;
static atomic_int busy[MOST];

static void *spin(void *number)
{
	while (!atomic_load(&stop)) {
		atomic_store(&busy[(long)number], sched_getcpu() + 1);
		for (volatile int i = 0; i < 1000; i++)
			;
	}
	return NULL;
}

static void do_busy_threads_spread_over_the_cpus(void)
{
	pthread_t threads[MOST];
	atomic_store(&stop, 0);
	for (long i = 0; i < cpus && i < MOST; i++)
		EXPECT(pthread_create(&threads[i], NULL, spin, (void *)i), 0, "create");
	/* Within a second each CPU has had one of them; this thread sleeps. */
	cpu_set_t used;
	CPU_ZERO(&used);
	for (int i = 0; i < 1000 && CPU_COUNT(&used) < cpus; i++) {
		pass_time();
		for (int t = 0; t < cpus && t < MOST; t++)
			if (atomic_load(&busy[t]))
				CPU_SET(atomic_load(&busy[t]) - 1, &used);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < cpus && i < MOST; i++)
		pthread_join(threads[i], NULL);
	EXPECT(CPU_COUNT(&used), cpus < MOST ? cpus : MOST, "CPUs used");
}

/* ---- priorities ---- */

static void what_policies_are_refused(void)
{
	struct sched_param param = {.sched_priority = 0};
	EXPECT(R(sched_setscheduler(0, SCHED_FIFO, &param)), -EINVAL, "FIFO without a priority");
	param.sched_priority = 100;
	EXPECT(R(sched_setscheduler(0, SCHED_RR, &param)), -EINVAL, "RR above 99");
	param.sched_priority = 1;
	EXPECT(R(sched_setscheduler(0, SCHED_OTHER, &param)), -EINVAL, "OTHER with one");
	EXPECT(R(sched_setscheduler(0, 99, &param)), -EINVAL, "no policy");
	EXPECT(R(sched_setscheduler(0, -1, &param)), -EINVAL, "a negative policy");
	EXPECT(R(sched_setscheduler(0x7ffffff0, SCHED_FIFO, &param)), -ESRCH, "nobody's");
	EXPECT(R(syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, NULL)), -EINVAL, "no parameter");
	EXPECT(R(syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, 8)), -EFAULT, "a parameter that is not there");
	EXPECT(R(syscall(SYS_sched_setparam, 0, NULL)), -EINVAL, "no parameter for setparam");
	EXPECT(R(sched_setparam(0, &param)), -EINVAL, "a priority for OTHER");
}

static void is_a_policy_kept_and_inherited(void)
{
	struct sched_param param = {.sched_priority = 7}, got;
	EXPECT_OK(R(sched_setscheduler(0, SCHED_RR, &param)), "RR at 7");
	EXPECT(sched_getscheduler(0), SCHED_RR, "the policy");
	EXPECT_OK(R(sched_getparam(0, &got)), "getparam");
	EXPECT(got.sched_priority, 7, "the priority");
	param.sched_priority = 9;
	EXPECT_OK(R(sched_setparam(0, &param)), "to 9");
	struct timespec slice;
	EXPECT_OK(R(sched_rr_get_interval(0, &slice)), "its slice");
	EXPECT(slice.tv_sec * 1000 + slice.tv_nsec / 1000000, 100, "its length in ms");
	pid_t child = fork();
	if (child == 0) {
		sched_getparam(0, &got);
		_exit(sched_getscheduler(0) == SCHED_RR && got.sched_priority == 9 ? 0 : 1);
	}
	int status;
	waitpid(child, &status, 0);
	EXPECT(status, 0, "the child's");
	EXPECT_OK(R(sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param)), "reset on fork");
	EXPECT(sched_getscheduler(0), SCHED_RR | SCHED_RESET_ON_FORK, "says so");
	child = fork();
	if (child == 0)
		_exit(sched_getscheduler(0) == SCHED_OTHER ? 0 : 1);
	waitpid(child, &status, 0);
	param.sched_priority = 0;
	EXPECT_OK(R(sched_setscheduler(0, SCHED_OTHER, &param)), "back");
	EXPECT(status, 0, "the child's after a reset");
	EXPECT_OK(R(sched_rr_get_interval(0, &slice)), "the slice of OTHER");
}

static atomic_long steps[3];

static void *count_up(void *number)
{
	while (!atomic_load(&stop))
		atomic_fetch_add(&steps[(long)number], 1);
	return NULL;
}

/* On one CPU: the highest priority that wants to run does, and nobody below it. */
static void does_a_fifo_thread_keep_lower_ones_away(void)
{
	cpu_set_t set;
	only(&set, cpu_number(0));
	struct sched_param high = {.sched_priority = 50}, low = {.sched_priority = 10}, normal = {.sched_priority = 0};
	EXPECT_OK(R(sched_setaffinity(0, sizeof set, &set)), "to one CPU");
	EXPECT_OK(R(sched_setscheduler(0, SCHED_FIFO, &high)), "FIFO at 50");
	pthread_t fifo, other;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &low);
	atomic_store(&stop, 0);
	for (int i = 0; i < 3; i++)
		atomic_store(&steps[i], 0);
	EXPECT(pthread_create(&fifo, &attr, count_up, (void *)0), 0, "FIFO at 10");
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &normal);
	EXPECT(pthread_create(&other, &attr, count_up, (void *)1), 0, "OTHER");
	/* Neither has had the CPU while this thread runs. */
	for (volatile int i = 0; i < 3000000; i++)
		;
	long early[2] = {atomic_load(&steps[0]), atomic_load(&steps[1])};
	/* While it sleeps the FIFO thread has it, and not the other. Linux's throttle would let that one in after 950 ms. */
	struct timespec moment = {0, 30000000};
	nanosleep(&moment, NULL);
	long late[2] = {atomic_load(&steps[0]), atomic_load(&steps[1])};
	atomic_store(&stop, 1);
	sched_setscheduler(0, SCHED_OTHER, &normal);
	pthread_join(fifo, NULL);
	pthread_join(other, NULL);
	sched_setaffinity(0, sizeof all, &all);
	EXPECT(early[0], 0, "steps of the lower FIFO thread while this one runs");
	EXPECT(early[1], 0, "steps of the ordinary thread while this one runs");
	EXPECT_TRUE(late[0] > 0, "the lower FIFO thread runs while this one sleeps");
	EXPECT(late[1], 0, "steps of the ordinary thread while a FIFO thread runs");
}

/* ---- memory ---- */

static sigjmp_buf back;
static _Thread_local volatile int faults;

static void on_fault(int signal)
{
	(void)signal;
	faults++;
	siglongjmp(back, 1);
}

static char *volatile page;
static atomic_int ready, go;

/* Reads the page for ever, until it is gone: then the fault says so. */
static void *read_until_gone(void *unused)
{
	(void)unused;
	if (sigsetjmp(back, 1) == 0)
		for (;;) {
			if (*(volatile char *)page != 1)
				return (void *)2;
			atomic_store(&ready, 1);
		}
	return (void *)1;
}

static void does_an_unmapped_page_go_on_every_cpu(void)
{
	signal(SIGSEGV, on_fault);
	for (int round = 0; round < 20; round++) {
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*page = 1;
		atomic_store(&ready, 0);
		pthread_t thread;
		EXPECT(pthread_create(&thread, NULL, read_until_gone, NULL), 0, "create");
		while (!atomic_load(&ready))
			sched_yield();
		EXPECT_OK(R(munmap(page, PAGE)), "munmap");
		/* The frame goes to somebody else, who writes to it: the reader must not see that. */
		char *other = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		other = other == MAP_FAILED ? NULL : other;
		char *elsewhere = mmap((void *)0x600000000000, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		memset(elsewhere, 7, 16 * PAGE);
		void *result;
		pthread_join(thread, &result);
		if (other)
			munmap(other, 16 * PAGE);
		munmap(elsewhere, 16 * PAGE);
		EXPECT((long)result, 1, "the reader ended by a fault");
	}
	signal(SIGSEGV, SIG_DFL);
}

static void *write_until_refused(void *unused)
{
	(void)unused;
	if (sigsetjmp(back, 1) == 0)
		for (;;) {
			*(volatile char *)page += 1;
			atomic_store(&ready, 1);
		}
	atomic_store(&go, 1);
	return NULL;
}

static void does_a_lost_right_hold_on_every_cpu(void)
{
	signal(SIGSEGV, on_fault);
	for (int round = 0; round < 20; round++) {
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		atomic_store(&ready, 0);
		atomic_store(&go, 0);
		pthread_t thread;
		EXPECT(pthread_create(&thread, NULL, write_until_refused, NULL), 0, "create");
		while (!atomic_load(&ready))
			sched_yield();
		EXPECT_OK(R(mprotect(page, PAGE, PROT_READ)), "mprotect");
		char after = *page;
		for (volatile int i = 0; i < 10000; i++)
			;
		EXPECT(*page, after, "what nobody may change any more");
		pthread_join(thread, NULL);
		EXPECT(atomic_load(&go), 1, "the writer met a fault");
		munmap(page, PAGE);
	}
	signal(SIGSEGV, SIG_DFL);
}

struct pair {
	atomic_long first;
	char gap[PAGE];
	atomic_long second;
};
static struct pair *pair;

/* The first count is never behind the second. */
static void *count_pair(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		atomic_fetch_add(&pair->first, 1);
		atomic_fetch_add(&pair->second, 1);
	}
	return NULL;
}

static void is_a_childs_memory_of_one_moment(void)
{
	pair = mmap(NULL, sizeof *pair, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	atomic_store(&stop, 0);
	pthread_t thread;
	EXPECT(pthread_create(&thread, NULL, count_pair, NULL), 0, "create");
	int wrong = 0;
	for (int round = 0; round < 40; round++) {
		pid_t child = fork();
		if (child == 0) {
			long first = atomic_load(&pair->first), second = atomic_load(&pair->second);
			for (volatile int i = 0; i < 1000; i++)
				;
			int still = first == atomic_load(&pair->first) && second == atomic_load(&pair->second);
			_exit(still ? 0 : 1);
		}
		int status;
		waitpid(child, &status, 0);
		wrong += status != 0;
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	EXPECT(wrong, 0, "children that saw their parent's later writes");
	long first = atomic_load(&pair->first), second = atomic_load(&pair->second);
	EXPECT(first, second, "no step of the parent's was lost in a copied page");
	munmap(pair, sizeof *pair);
}

static char *area;
static atomic_int misses;

/* Each thread maps, writes, reads and unmaps on its own, all in one address space. */
static void *map_and_unmap(void *number)
{
	unsigned char mine = (unsigned char)(1 + (long)number);
	for (int i = 0; i < 150; i++) {
		size_t length = (1 + (i * 7 + mine) % 40) * PAGE;
		unsigned char *part = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (part == MAP_FAILED) {
			atomic_fetch_add(&misses, 1);
			continue;
		}
		for (size_t at = 0; at < length; at += PAGE)
			if (part[at] != 0)
				atomic_fetch_add(&misses, 1);
		memset(part, mine, length);
		if (i % 3 == 0)
			mprotect(part, length, PROT_READ);
		for (size_t at = 0; at < length; at += 512)
			if (part[at] != mine)
				atomic_fetch_add(&misses, 1);
		munmap(part, length);
	}
	return NULL;
}

static void do_threads_map_memory_side_by_side(void)
{
	pthread_t threads[8];
	(void)area;
	atomic_store(&misses, 0);
	for (long i = 0; i < 8; i++)
		EXPECT(pthread_create(&threads[i], NULL, map_and_unmap, (void *)i), 0, "create");
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	EXPECT(atomic_load(&misses), 0, "pages with somebody else's bytes");
}

/* ---- signals ---- */

static atomic_int handled;

static void on_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

static void does_a_signal_reach_a_thread_that_never_calls_the_kernel(void)
{
	signal(SIGUSR1, on_signal);
	pthread_t thread;
	atomic_store(&stop, 0);
	atomic_store(&steps[2], 0);
	EXPECT(pthread_create(&thread, NULL, count_up, (void *)2), 0, "create");
	while (atomic_load(&steps[2]) == 0)
		sched_yield();
	for (int i = 0; i < 100; i++) {
		int before = atomic_load(&handled);
		EXPECT(pthread_kill(thread, SIGUSR1), 0, "pthread_kill");
		while (atomic_load(&handled) == before)
			sched_yield();
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	EXPECT(atomic_load(&handled), 100, "signals handled");
	signal(SIGUSR1, SIG_DFL);
}

static void does_exit_end_threads_on_other_cpus(void)
{
	for (int round = 0; round < 8; round++) {
		pid_t child = fork();
		if (child == 0) {
			atomic_store(&stop, 0);
			for (long i = 0; i < 6; i++) {
				pthread_t thread;
				if (pthread_create(&thread, NULL, spin, (void *)i))
					_exit(1);
			}
			pass_time();
			exit(42);
		}
		int status;
		EXPECT(waitpid(child, &status, 0), child, "wait");
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42, 1, "its status");
	}
}

/* ---- wake-ups ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long guarded;

static void *add_guarded(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3000; i++) {
		pthread_mutex_lock(&mutex);
		guarded++;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void does_a_mutex_lose_nothing(void)
{
	pthread_t threads[8];
	guarded = 0;
	for (int i = 0; i < 8; i++)
		EXPECT(pthread_create(&threads[i], NULL, add_guarded, NULL), 0, "create");
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	EXPECT(guarded, 8 * 3000, "steps");
}

static pthread_barrier_t barrier;

static void *pass_barrier(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100; i++)
		pthread_barrier_wait(&barrier);
	return NULL;
}

static void does_everybody_pass_a_barrier(void)
{
	pthread_t threads[6];
	pthread_barrier_init(&barrier, NULL, 6);
	for (int i = 0; i < 6; i++)
		EXPECT(pthread_create(&threads[i], NULL, pass_barrier, NULL), 0, "create");
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
}

static void do_pipes_carry_a_token_around_a_ring(void)
{
	enum { RING = 6, ROUNDS = 100 };
	int pipes[RING][2];
	for (int i = 0; i < RING; i++)
		EXPECT_OK(R(pipe(pipes[i])), "pipe");
	for (int i = 1; i < RING; i++)
		if (fork() == 0) {
			int token;
			for (int round = 0; round < ROUNDS; round++) {
				if (read(pipes[i - 1][0], &token, sizeof token) != sizeof token)
					_exit(1);
				token++;
				if (write(pipes[i][1], &token, sizeof token) != sizeof token)
					_exit(1);
			}
			_exit(0);
		}
	int token = 0, wrong = 0;
	for (int round = 0; round < ROUNDS; round++) {
		token = round;
		EXPECT(write(pipes[0][1], &token, sizeof token), sizeof token, "write");
		EXPECT(read(pipes[RING - 1][0], &token, sizeof token), sizeof token, "read");
		wrong += token != round + RING - 1;
	}
	for (int i = 1; i < RING; i++) {
		int status;
		wait(&status);
		wrong += status != 0;
	}
	for (int i = 0; i < RING; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	EXPECT(wrong, 0, "tokens");
}

enum { SENDERS = 4, EACH = 600 };
static mqd_t queue;
static atomic_int received[SENDERS][EACH];

static void *send_all(void *number)
{
	for (int i = 0; i < EACH; i++) {
		int message[2] = {(int)(long)number, i};
		if (mq_send(queue, (char *)message, sizeof message, i % 3) != 0)
			return (void *)1;
	}
	return NULL;
}

static void *receive_share(void *unused)
{
	(void)unused;
	for (int i = 0; i < EACH; i++) {
		int message[2];
		if (mq_receive(queue, (char *)message, sizeof message, NULL) != sizeof message)
			return (void *)1;
		atomic_fetch_add(&received[message[0]][message[1]], 1);
	}
	return NULL;
}

static void does_a_queue_lose_or_double_nothing(void)
{
	struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 2 * sizeof(int)};
	queue = mq_open("/smp", O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
	EXPECT_TRUE(queue != (mqd_t)-1, "mq_open");
	mq_unlink("/smp");
	pthread_t threads[2 * SENDERS];
	for (long i = 0; i < SENDERS; i++) {
		EXPECT(pthread_create(&threads[2 * i], NULL, send_all, (void *)i), 0, "create");
		EXPECT(pthread_create(&threads[2 * i + 1], NULL, receive_share, NULL), 0, "create");
	}
	long failed = 0;
	for (int i = 0; i < 2 * SENDERS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		failed += (long)result;
	}
	mq_close(queue);
	EXPECT(failed, 0, "calls that failed");
	for (int s = 0; s < SENDERS; s++)
		for (int i = 0; i < EACH; i++)
			EXPECT(atomic_load(&received[s][i]), 1, "times that a message came");
}

/* ---- the end leaves nothing ---- */

static void can_many_processes_come_and_go(void)
{
	char *const argv[] = {(char *)"/proc/self/exe", (char *)"end", NULL};
	int wrong = 0;
	for (int round = 0; round < 10; round++) {
		pid_t children[8];
		for (int i = 0; i < 8; i++) {
			children[i] = fork();
			if (children[i] == 0) {
				execv("/proc/self/exe", argv);
				_exit(1);
			}
		}
		for (int i = 0; i < 8; i++) {
			int status;
			waitpid(children[i], &status, 0);
			wrong += status != 0;
		}
	}
	EXPECT(wrong, 0, "children that failed");
}

static void *end_at_once(void *unused)
{
	return unused;
}

static void can_many_threads_come_and_go(void)
{
	for (int round = 0; round < 20; round++) {
		pthread_t threads[8];
		for (int i = 0; i < 8; i++)
			EXPECT(pthread_create(&threads[i], NULL, end_at_once, NULL), 0, "create");
		for (int i = 0; i < 8; i++)
			EXPECT(pthread_join(threads[i], NULL), 0, "join");
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "end") == 0)
		return 0;
	sched_getaffinity(0, sizeof all, &all);
	cpus = CPU_COUNT(&all);
	ASK(does_a_task_go_where_its_affinity_says);
	ASK(is_affinity_inherited);
	ASK(what_affinities_are_refused);
	ASK(do_threads_meet);
	ASK(do_busy_threads_spread_over_the_cpus);
	ASK(what_policies_are_refused);
	ASK(is_a_policy_kept_and_inherited);
	ASK(does_a_fifo_thread_keep_lower_ones_away);
	ASK(does_an_unmapped_page_go_on_every_cpu);
	ASK(does_a_lost_right_hold_on_every_cpu);
	ASK(is_a_childs_memory_of_one_moment);
	ASK(do_threads_map_memory_side_by_side);
	ASK(does_a_signal_reach_a_thread_that_never_calls_the_kernel);
	ASK(does_exit_end_threads_on_other_cpus);
	ASK(does_a_mutex_lose_nothing);
	ASK(does_everybody_pass_a_barrier);
	ASK(do_pipes_carry_a_token_around_a_ring);
	ASK(does_a_queue_lose_or_double_nothing);
	ASK(can_many_processes_come_and_go);
	ASK(can_many_threads_come_and_go);
	return verdict_status();
}
