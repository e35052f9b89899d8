/* Questions and verdicts of the conformance programs.
 *
 * A program is a list of questions; each is a function named as the question that it answers, and each leaves one line:
 *
 *     PASS does_a_full_queue_refuse_a_message
 *     FAIL does_a_full_queue_refuse_a_message: got -9 want -11 (send to a full queue)
 *
 * A question ends at its first wrong answer; the others still run. The program's status is 0 if all passed, else 1.
 * The lines are written by write(2) alone, so that a verdict needs no more of the kernel than what it judges.
 */
#ifndef VERDICT_H
#define VERDICT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

static const char *verdict_question;
static int verdict_failed, verdict_any_failed;

static inline void verdict_write(const char *line, int length)
{
	while (length > 0) {
		ssize_t n = write(STDOUT_FILENO, line, length);
		if (n <= 0)
			_exit(2);
		line += n;
		length -= n;
	}
}

static inline void verdict_fail(long got, long want, const char *what)
{
	char line[512];
	int n = snprintf(line, sizeof line, "FAIL %s: got %ld want %ld (%s)\n", verdict_question, got, want, what);
	verdict_write(line, n);
	verdict_failed = verdict_any_failed = 1;
}

/* Ends the question where `got` is not `want`. Only in functions that return nothing. */
#define EXPECT(got, want, what)                                     \
	do {                                                        \
		long got_ = (long)(got), want_ = (long)(want);      \
		if (got_ != want_) {                                \
			verdict_fail(got_, want_, what);            \
			return;                                     \
		}                                                   \
	} while (0)

/* Ends the question where `holds` is false. */
#define EXPECT_TRUE(holds, what) EXPECT(!!(holds), 1, what)

/* Ends the question where `result` is an error number negated. */
#define EXPECT_OK(result, what)                                     \
	do {                                                        \
		long got_ = (long)(result);                         \
		if (got_ < 0) {                                     \
			verdict_fail(got_, 0, what);                \
			return;                                     \
		}                                                   \
	} while (0)

/* Calls a function that holds expectations of its own, and ends the question if one was not met. */
#define WITHIN(call)                        \
	do {                                \
		call;                       \
		if (verdict_failed)         \
			return;             \
	} while (0)

/* The value of a call of the C library, or its error number negated, as the kernel itself returns it. */
#define R(call)                                               \
	({                                                    \
		errno = 0;                                    \
		long result_ = (long)(call);                  \
		result_ == -1 && errno ? -(long)errno : result_; \
	})

#define ASK(question) verdict_ask(#question, question)

static inline void verdict_ask(const char *name, void (*question)(void))
{
	char line[256];
	verdict_question = name;
	verdict_failed = 0;
	question();
	if (!verdict_failed)
		verdict_write(line, snprintf(line, sizeof line, "PASS %s\n", name));
}

static inline int verdict_status(void)
{
	return verdict_any_failed;
}

#endif
