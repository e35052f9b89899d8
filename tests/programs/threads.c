/* Threads of the C library, and the futexes below them. */
#include "verdict.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static void *add(void *word)
{
	++*(int *)word;
	return word;
}

static void does_a_thread_run_and_end(void)
{
	for (int i = 0; i < 100; i++) {
		pthread_t thread;
		int word = i;
		void *result;
		EXPECT(pthread_create(&thread, NULL, add, &word), 0, "create");
		EXPECT(pthread_join(thread, &result), 0, "join");
		EXPECT_TRUE(result == &word && word == i + 1, "its work");
	}
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, turns;

static void *alternate(void *me)
{
	for (int i = 0; i < 500; i++) {
		pthread_mutex_lock(&lock);
		while (turn != (int)(long)me)
			pthread_cond_wait(&changed, &lock);
		turn = (turn + 1) % 3;
		turns++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void do_condition_variables_pass_turns(void)
{
	pthread_t threads[3];
	for (long i = 0; i < 3; i++)
		EXPECT(pthread_create(&threads[i], NULL, alternate, (void *)i), 0, "create");
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	EXPECT(turns, 1500, "turns");
}

static void *open_file(void *result)
{
	*(int *)result = open("/dev/null", O_WRONLY);
	return NULL;
}

static void do_threads_share_descriptors(void)
{
	pthread_t thread;
	int file = -1;
	EXPECT(pthread_create(&thread, NULL, open_file, &file), 0, "create");
	pthread_join(thread, NULL);
	EXPECT_TRUE(file >= 0, "opened there");
	EXPECT(R(write(file, "x", 1)), 1, "written here");
	EXPECT(R(close(file)), 0, "closed here");
}

static long wait_for(int *word, int value, long nanoseconds)
{
	struct timespec time = { 0, nanoseconds };
	return R(syscall(SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0));
}

static void what_does_a_futex_say(void)
{
	static int word = 1;
	EXPECT(wait_for(&word, 2, 1000000), -EAGAIN, "another value");
	EXPECT(wait_for(&word, 1, 1000000), -ETIMEDOUT, "nobody wakes");
	EXPECT(wait_for((int *)8, 1, 1000000), -EFAULT, "no memory");
	EXPECT(wait_for((int *)((char *)&word + 1), 1, 1000000), -EINVAL, "not a multiple of four");
	EXPECT(R(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0)), 0, "nobody waits");
}

static void does_a_futex_work_between_processes(void)
{
	int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child = fork();
	if (child == 0) {
		while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
		_exit(*word);
	}
	usleep(20000);
	__atomic_store_n(word, 6, __ATOMIC_SEQ_CST);
	EXPECT(R(syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0)), 1, "one was woken");
	waitpid(child, &status, 0);
	EXPECT(status, 6 << 8, "the child");
}

static pthread_mutex_t robust;

static void *die_with_it(void *nothing)
{
	pthread_mutex_lock(&robust);
	return nothing;
}

static void does_a_robust_lock_outlive_its_owner(void)
{
	pthread_mutexattr_t kind;
	pthread_t thread;
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &kind);
	pthread_create(&thread, NULL, die_with_it, NULL);
	pthread_join(thread, NULL);
	EXPECT(pthread_mutex_lock(&robust), EOWNERDEAD, "its owner has ended");
	EXPECT(pthread_mutex_consistent(&robust), 0, "mended");
	EXPECT(pthread_mutex_unlock(&robust), 0, "unlock");
}

static void *wait_for_ever(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

static void does_exit_end_all_threads(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		pthread_t thread;
		for (int i = 0; i < 3; i++)
			pthread_create(&thread, NULL, wait_for_ever, NULL);
		exit(4);
	}
	EXPECT(R(waitpid(child, &status, 0)), child, "wait");
	EXPECT(status, 4 << 8, "its status");
}

static void do_many_threads_come_and_go(void)
{
	pthread_t threads[40];
	int words[40] = { 0 };
	for (int i = 0; i < 40; i++)
		EXPECT(pthread_create(&threads[i], NULL, add, &words[i]), 0, "create");
	for (int i = 0; i < 40; i++) {
		pthread_join(threads[i], NULL);
		EXPECT(words[i], 1, "its work");
	}
}

int main(void)
{
	ASK(does_a_thread_run_and_end);
	ASK(do_condition_variables_pass_turns);
	ASK(do_threads_share_descriptors);
	ASK(what_does_a_futex_say);
	ASK(does_a_futex_work_between_processes);
	ASK(does_a_robust_lock_outlive_its_owner);
	ASK(does_exit_end_all_threads);
	ASK(do_many_threads_come_and_go);
	return verdict_status();
}
