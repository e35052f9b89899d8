/* What the programs about POSIX message queues share: raw calls, a fresh queue, addresses that no program may touch. */
#ifndef QUEUE_H
#define QUEUE_H

#include "verdict.h"

#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* The kernel's own calls: names without the library's slash, no cancellation points, no checks before the kernel's. */
static inline UNUSED long raw_open(const void *name, int flags, unsigned mode, const void *attributes)
{
	return R(syscall(SYS_mq_open, name, flags, mode, attributes));
}
static inline UNUSED long raw_unlink(const void *name)
{
	return R(syscall(SYS_mq_unlink, name));
}
static inline UNUSED long raw_send(long queue, const void *message, size_t length, unsigned priority, const void *deadline)
{
	return R(syscall(SYS_mq_timedsend, queue, message, length, priority, deadline));
}
static inline UNUSED long raw_receive(long queue, void *buffer, size_t length, void *priority, const void *deadline)
{
	return R(syscall(SYS_mq_timedreceive, queue, buffer, length, priority, deadline));
}
static inline UNUSED long raw_getsetattr(long queue, const void *new, void *old)
{
	return R(syscall(SYS_mq_getsetattr, queue, new, old));
}

/* A new, empty, non-blocking queue under `name` (without a slash), whatever stood there; a failure is returned. */
static inline UNUSED long fresh_queue(const char *name, long length, long size)
{
	struct mq_attr attributes = { .mq_maxmsg = length, .mq_msgsize = size };
	raw_unlink(name);
	return raw_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attributes);
}

/* Takes the queue away again: descriptor and name. */
static inline UNUSED void discard(long queue, const char *name)
{
	EXPECT(R(close(queue)), 0, "close");
	EXPECT(raw_unlink(name), 0, "unlink");
}

static inline UNUSED long queued(long queue)
{
	struct mq_attr attributes;
	long result = raw_getsetattr(queue, NULL, &attributes);
	return result < 0 ? result : attributes.mq_curmsgs;
}

/* Opens the question's queue into `queue`, ending the question if that fails. */
#define OPEN_FRESH(queue, name, length, size)             \
	long queue = fresh_queue(name, length, size);     \
	EXPECT_OK(queue, "a fresh queue " name)

/* Addresses that a program cannot use: one below the first page, one of the kernel's half, one that is no address at
 * all, the last byte there is. */
static const uintptr_t bad_addresses[] UNUSED = {
	8, 0xffffffff80200000, 0xffff800000000000, 0x4141414141414141, ~(uintptr_t)0,
};
#define BAD_ADDRESSES (sizeof bad_addresses / sizeof *bad_addresses)

enum { PAGE = 4096 };

/* `pages` pages that may be read and written, with one behind them that may not be touched; NULL if there is none. */
static inline UNUSED char *pages_before_a_hole(size_t pages)
{
	char *p = mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || munmap(p + pages * PAGE, PAGE) != 0)
		return NULL;
	return p;
}

#endif
