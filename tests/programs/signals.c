/* Signals: handlers, what they carry, what they interrupt. */
#include "verdict.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

static volatile int count;
static volatile siginfo_t last;
static char *volatile stack_seen;

static void note(int signal UNUSED, siginfo_t *info, void *context UNUSED)
{
	char here;
	stack_seen = &here;
	last = *info;
	count++;
}

static void handle(int signal, int flags)
{
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | flags };
	sigaction(signal, &action, NULL);
	count = 0;
}

static void does_a_handler_learn_who_sent(void)
{
	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	EXPECT(count, 1, "raise");
	EXPECT(last.si_code, SI_TKILL, "its code");
	kill(getpid(), SIGUSR1);
	EXPECT(count, 2, "kill");
	EXPECT(last.si_code, SI_USER, "its code");
	EXPECT(last.si_pid, getpid(), "the sender");
	sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 77 });
	EXPECT(last.si_code, SI_QUEUE, "sigqueue");
	EXPECT(last.si_value.sival_int, 77, "its value");
}

static void are_real_time_signals_queued(void)
{
	sigset_t set;
	siginfo_t info;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 3; i++) {
		sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i });
		sigqueue(getpid(), SIGUSR2, (union sigval){ .sival_int = i });
	}
	EXPECT(sigwaitinfo(&set, &info), SIGUSR2, "the lowest first");
	EXPECT(info.si_value.sival_int, 0, "the first of the same kind");
	for (int i = 0; i < 3; i++) {
		EXPECT(sigwaitinfo(&set, &info), SIGRTMIN, "real-time");
		EXPECT(info.si_value.sival_int, i, "in order");
	}
	struct timespec moment = { 0, 1000000 };
	EXPECT(R(sigtimedwait(&set, &info, &moment)), -EAGAIN, "no more");
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void skip(int signal UNUSED, siginfo_t *info, void *context)
{
	volatile double overwritten = 1;
	for (int i = 0; i < 50; i++)
		overwritten *= 1.5;
	last = *info;
	count++;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 3;
}

static void does_a_fault_tell_its_address_and_keep_the_registers(void)
{
	struct sigaction action = { .sa_sigaction = skip, .sa_flags = SA_SIGINFO };
	sigaction(SIGSEGV, &action, NULL);
	count = 0;
	unsigned long kept, vector;
	__asm__ volatile("mov $0x1234567, %%r12\n\tmovq %%r12, %%xmm7\n\tmov (%%rax), %%rbx\n\t"
			 "movq %%xmm7, %0\n\tmov %%r12, %1"
			 : "=&r"(vector), "=&r"(kept)
			 : "a"(0x10)
			 : "rbx", "r12", "xmm7", "memory");
	signal(SIGSEGV, SIG_DFL);
	EXPECT(count, 1, "one fault");
	EXPECT((long)last.si_addr, 0x10, "its address");
	EXPECT(last.si_code, SEGV_MAPERR, "its code");
	EXPECT(kept, 0x1234567, "a register");
	EXPECT(vector, 0x1234567, "a vector register");
}

static void does_a_handler_run_on_the_alternate_stack(void)
{
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 }, is;
	EXPECT(R(sigaltstack(&stack, NULL)), 0, "sigaltstack");
	handle(SIGUSR2, SA_ONSTACK);
	raise(SIGUSR2);
	EXPECT_TRUE(stack_seen > (char *)stack.ss_sp && stack_seen < (char *)stack.ss_sp + 65536, "there");
	handle(SIGUSR2, 0);
	raise(SIGUSR2);
	EXPECT_TRUE(stack_seen < (char *)stack.ss_sp || stack_seen > (char *)stack.ss_sp + 65536, "elsewhere");
	EXPECT(R(sigaltstack(NULL, &is)), 0, "ask");
	EXPECT(is.ss_flags, 0, "not in use");
	stack.ss_size = 100;
	EXPECT(R(sigaltstack(&stack, NULL)), -ENOMEM, "too small");
	stack.ss_flags = SS_DISABLE;
	EXPECT(R(sigaltstack(&stack, NULL)), 0, "none again");
}

static void arm(int milliseconds)
{
	struct itimerval timer = { { 0, 0 }, { 0, milliseconds * 1000 } };
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void does_a_handler_interrupt_a_sleep(void)
{
	struct timespec time = { 2, 0 }, rest;
	handle(SIGALRM, SA_RESTART);
	arm(20);
	EXPECT(R(nanosleep(&time, &rest)), -EINTR, "whatever the flags say");
	EXPECT(rest.tv_sec, 1, "what is left");
	EXPECT(count, 1, "the handler");
	arm(20);
	EXPECT(R(pause()), -EINTR, "pause");
	EXPECT(last.si_code, SI_KERNEL, "a timer's code");
}

static void does_wait_go_on_as_the_flags_say(void)
{
	int status;
	for (int restarts = 0; restarts < 2; restarts++) {
		pid_t child = fork();
		if (child == 0) {
			usleep(200000);
			_exit(5);
		}
		handle(SIGALRM, restarts ? SA_RESTART : 0);
		arm(20);
		EXPECT(R(waitpid(child, &status, 0)), restarts ? child : -EINTR, "wait");
		EXPECT(count, 1, "the handler");
		if (!restarts)
			waitpid(child, &status, 0);
		EXPECT(status, 5 << 8, "the child");
	}
}

static void does_a_stop_not_disturb_a_sleep(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		struct timespec time = { 0, 100000000 };
		_exit(nanosleep(&time, NULL) ? 1 : 0);
	}
	usleep(20000);
	kill(child, SIGSTOP);
	waitpid(child, &status, WUNTRACED);
	kill(child, SIGCONT);
	EXPECT(R(waitpid(child, &status, 0)), child, "wait");
	EXPECT(status, 0, "the sleep went on");
}

static void does_sigsuspend_change_the_mask_for_its_length(void)
{
	sigset_t blocked, none, is;
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	EXPECT(count, 0, "blocked");
	sigpending(&is);
	EXPECT(sigismember(&is, SIGUSR1), 1, "pending");
	EXPECT(R(sigsuspend(&none)), -EINTR, "sigsuspend");
	EXPECT(count, 1, "the handler");
	sigprocmask(SIG_BLOCK, NULL, &is);
	EXPECT(sigismember(&is, SIGUSR1), 1, "blocked again");
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
}

static void does_a_timer_signal_carry_its_value(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 99 };
	struct itimerspec setting = { { 0, 0 }, { 0, 10000000 } };
	timer_t timer;
	handle(SIGUSR1, 0);
	EXPECT(R(timer_create(CLOCK_MONOTONIC, &event, &timer)), 0, "timer_create");
	EXPECT(R(timer_settime(timer, 0, &setting, NULL)), 0, "timer_settime");
	while (!count)
		pause();
	EXPECT(last.si_code, SI_TIMER, "its code");
	EXPECT(last.si_value.sival_int, 99, "its value");
	EXPECT(R(timer_delete(timer)), 0, "timer_delete");
}

static void what_may_a_signal_call_not_do(void)
{
	EXPECT(R(kill(getpid(), 65)), -EINVAL, "no signal");
	EXPECT(R(kill(999999, 0)), -ESRCH, "nobody");
	struct sigaction action = { .sa_handler = SIG_IGN };
	EXPECT(R(sigaction(SIGKILL, &action, NULL)), -EINVAL, "SIGKILL cannot be ignored");
	EXPECT(R(sigaction(SIGSTOP, &action, NULL)), -EINVAL, "nor SIGSTOP");
}

int main(void)
{
	ASK(does_a_handler_learn_who_sent);
	ASK(are_real_time_signals_queued);
	ASK(does_a_fault_tell_its_address_and_keep_the_registers);
	ASK(does_a_handler_run_on_the_alternate_stack);
	ASK(does_a_handler_interrupt_a_sleep);
	ASK(does_wait_go_on_as_the_flags_say);
	ASK(does_a_stop_not_disturb_a_sleep);
	ASK(does_sigsuspend_change_the_mask_for_its_length);
	ASK(does_a_timer_signal_carry_its_value);
	ASK(what_may_a_signal_call_not_do);
	return verdict_status();
}
