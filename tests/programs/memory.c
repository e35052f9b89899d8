/* brk(2), mmap(2), munmap(2), mprotect(2) for anonymous memory: what is given, what is refused. */
#include "verdict.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };
#define MIB (1L << 20)

static long map(void *at, size_t length, int protection, int flags)
{
	return R(syscall(SYS_mmap, at, length, protection, flags, -1, 0));
}

static long map_private(size_t pages)
{
	return map(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

static long brk_to(long address)
{
	return syscall(SYS_brk, address);
}

static void does_brk_move_the_end_of_the_heap(void)
{
	long start = brk_to(0);
	EXPECT_TRUE(start > PAGE, "where it is");
	EXPECT(brk_to(start + 3 * MIB + 5), start + 3 * MIB + 5, "up, to the byte");
	unsigned char *heap = (unsigned char *)start;
	for (long i = 0; i < 3 * MIB; i += 1000)
		EXPECT(heap[i], 0, "fresh memory is zero");
	memset(heap, 0xaa, 3 * MIB + 5);
	EXPECT(brk_to(start + PAGE), start + PAGE, "down");
	EXPECT(brk_to(start + 2 * MIB), start + 2 * MIB, "up again");
	EXPECT(heap[0], 0xaa, "what stayed is as it was");
	EXPECT(heap[MIB], 0, "what was given back comes back as zeros");
	EXPECT(brk_to(start), start, "back to the start");
}

static void does_brk_answer_where_it_is_when_it_refuses(void)
{
	long at = brk_to(0);
	EXPECT(brk_to(1), at, "below the heap");
	EXPECT(brk_to(-1), at, "the last byte there is");
	EXPECT(brk_to(0x800000000000), at, "the end of the program's half");
	EXPECT(brk_to(at + (1L << 46)), at, "more than there can be");
	EXPECT(brk_to(0), at, "it has not moved");
}

static void is_fresh_memory_zero_and_writable(void)
{
	long p = map_private(100);
	EXPECT_OK(p, "mmap");
	EXPECT(p % PAGE, 0, "aligned to a page");
	unsigned char *memory = (unsigned char *)p;
	for (int i = 0; i < 100 * PAGE; i++)
		EXPECT(memory[i], 0, "zero");
	memset(memory, 1, 100 * PAGE);
	EXPECT(R(munmap(memory, 100 * PAGE)), 0, "munmap");
}

/* Memory that is given back and taken again never shows what it held. */
static void does_memory_come_back_clean(void)
{
	for (int round = 0; round < 50; round++) {
		long p = map_private(64);
		EXPECT_OK(p, "mmap");
		for (int i = 0; i < 64 * PAGE; i += 8)
			EXPECT(*(long *)(p + i), 0, "zero");
		memset((void *)p, 0xee, 64 * PAGE);
		EXPECT(R(munmap((void *)p, 64 * PAGE)), 0, "munmap");
	}
}

static void what_mappings_are_refused(void)
{
	int rw = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
	EXPECT(map(NULL, 0, rw, anonymous), -EINVAL, "no length");
	EXPECT(map(NULL, PAGE, rw, MAP_ANONYMOUS), -EINVAL, "neither shared nor private");
	EXPECT(map((void *)0x10000001, PAGE, rw, anonymous | MAP_FIXED), -EINVAL, "an odd fixed address");
	EXPECT(map(NULL, SIZE_MAX, rw, anonymous), -ENOMEM, "a length that wraps to none");
	EXPECT(map(NULL, 1L << 62, rw, anonymous), -ENOMEM, "more than there are addresses");
	EXPECT(map(NULL, 0x800000000000, rw, anonymous), -ENOMEM, "all of the program's half");
	EXPECT(map((void *)0xffffffff80000000, PAGE, rw, anonymous | MAP_FIXED), -ENOMEM, "the kernel's half");
	EXPECT(map((void *)0xfffffffffffff000, PAGE, rw, anonymous | MAP_FIXED), -ENOMEM, "the last page there is");
	EXPECT(R(syscall(SYS_mmap, NULL, PAGE, rw, anonymous, -1, 1)), -EINVAL, "an odd offset");
	EXPECT(R(syscall(SYS_mmap, NULL, PAGE, rw, MAP_PRIVATE, -1, 0)), -EBADF, "a file that is none");
	EXPECT(R(syscall(SYS_mmap, NULL, PAGE, rw, MAP_PRIVATE, 999, 0)), -EBADF, "a file that is not open");
}

static void does_a_fixed_mapping_take_the_place_of_another(void)
{
	long p = map_private(8);
	EXPECT_OK(p, "mmap");
	memset((void *)p, 7, 8 * PAGE);
	int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	EXPECT(map((void *)(p + 3 * PAGE), 2 * PAGE, PROT_READ | PROT_WRITE, fixed), p + 3 * PAGE, "the middle of it");
	EXPECT(*(char *)(p + 3 * PAGE - 1), 7, "the page before");
	EXPECT(*(char *)(p + 3 * PAGE), 0, "the new first page");
	EXPECT(*(char *)(p + 4 * PAGE), 0, "the new second page");
	EXPECT(*(char *)(p + 5 * PAGE), 7, "the page behind");
	int careful = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	EXPECT(map((void *)(p + 7 * PAGE), 2 * PAGE, PROT_READ, careful), -EEXIST, "where something is, not replacing");
	EXPECT(*(char *)(p + 7 * PAGE), 7, "it is still there");
	EXPECT(R(munmap((void *)p, 8 * PAGE)), 0, "munmap");
	EXPECT(map((void *)(p + 2 * PAGE), PAGE, PROT_READ, careful), p + 2 * PAGE, "where nothing is");
	EXPECT(R(munmap((void *)(p + 2 * PAGE), PAGE)), 0, "munmap");
}

static void is_an_address_only_a_hint_unless_fixed(void)
{
	long p = map_private(1);
	EXPECT_OK(p, "mmap");
	long q = map((void *)p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS);
	EXPECT_OK(q, "where something is already");
	EXPECT_TRUE(p != q, "goes elsewhere");
	EXPECT(R(munmap((void *)p, PAGE)), 0, "munmap");
	EXPECT(R(munmap((void *)q, PAGE)), 0, "munmap");
}

static void can_a_part_of_a_mapping_be_given_back(void)
{
	long p = map_private(5);
	EXPECT_OK(p, "mmap");
	memset((void *)p, 5, 5 * PAGE);
	EXPECT(R(munmap((void *)(p + 2 * PAGE), PAGE)), 0, "the middle page");
	EXPECT(*(char *)(p + PAGE), 5, "before it");
	EXPECT(*(char *)(p + 3 * PAGE), 5, "behind it");
	EXPECT(R(syscall(SYS_getrandom, p + 2 * PAGE, 1, 0)), -EFAULT, "it itself");
	EXPECT(R(munmap((void *)p, 5 * PAGE)), 0, "the rest, hole included");
	EXPECT(R(syscall(SYS_getrandom, p, 1, 0)), -EFAULT, "all is gone");
}

static void what_may_be_unmapped(void)
{
	long p = map_private(1);
	EXPECT_OK(p, "mmap");
	EXPECT(R(munmap((void *)(p + 1), PAGE)), -EINVAL, "an odd address");
	EXPECT(R(munmap((void *)p, 0)), -EINVAL, "no length");
	EXPECT(R(munmap((void *)p, SIZE_MAX)), -EINVAL, "a length that wraps around");
	EXPECT(R(munmap((void *)0xffff800000000000, PAGE)), -EINVAL, "the kernel's half");
	EXPECT(R(munmap((void *)p, 1)), 0, "one byte is a page");
	EXPECT(R(munmap((void *)p, PAGE)), 0, "nothing is there, and that is no error");
}

static void does_mprotect_change_what_may_be_done(void)
{
	long p = map_private(3);
	EXPECT_OK(p, "mmap");
	*(long *)p = 1;
	*(long *)(p + PAGE) = 2;
	EXPECT(R(mprotect((void *)(p + PAGE), PAGE, PROT_NONE)), 0, "none");
	EXPECT(R(syscall(SYS_getrandom, p + PAGE, 1, 0)), -EFAULT, "not even the kernel may write there for us");
	EXPECT(R(syscall(SYS_getrandom, p, 1, 0)), 1, "before it, it may");
	EXPECT(R(mprotect((void *)(p + PAGE), PAGE, PROT_READ)), 0, "reading");
	EXPECT(*(long *)(p + PAGE), 2, "the contents are still there");
	EXPECT(R(syscall(SYS_getrandom, p + PAGE, 1, 0)), -EFAULT, "but not writing");
	EXPECT(R(mprotect((void *)p, 3 * PAGE, PROT_READ | PROT_WRITE)), 0, "all again");
	EXPECT(R(syscall(SYS_getrandom, p + PAGE, 1, 0)), 1, "writing");
	EXPECT(R(munmap((void *)p, 3 * PAGE)), 0, "munmap");
}

static void can_a_mapping_change_its_length(void)
{
	long p = map_private(4);
	EXPECT_OK(p, "mmap");
	for (int i = 0; i < 4; i++)
		*(int *)(p + i * PAGE) = i + 1;
	EXPECT(R(syscall(SYS_mremap, p, 4 * PAGE, 2 * PAGE, 0)), p, "shorter, in place");
	EXPECT(R(syscall(SYS_getrandom, p + 2 * PAGE, 1, 0)), -EFAULT, "the rest is gone");
	long q = R(syscall(SYS_mremap, p, 2 * PAGE, 600 * PAGE, MREMAP_MAYMOVE));
	EXPECT_OK(q, "longer, wherever it fits");
	EXPECT(*(int *)q, 1, "the first page");
	EXPECT(*(int *)(q + PAGE), 2, "the second page");
	EXPECT(*(int *)(q + 2 * PAGE), 0, "the new pages are zero");
	if (q != p)
		EXPECT(R(syscall(SYS_getrandom, p, 1, 0)), -EFAULT, "the old place is gone");
	EXPECT(R(munmap((void *)q, 600 * PAGE)), 0, "munmap");
}

static void what_does_mremap_refuse(void)
{
	long p = map_private(2);
	EXPECT_OK(p, "mmap");
	EXPECT(R(syscall(SYS_mremap, p + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE)), -EINVAL, "an odd address");
	EXPECT(R(syscall(SYS_mremap, p, PAGE, 0, MREMAP_MAYMOVE)), -EINVAL, "no new length");
	EXPECT(R(syscall(SYS_mremap, p, PAGE, PAGE, 0x100)), -EINVAL, "flags that are none");
	EXPECT(R(syscall(SYS_mremap, p, 100 * PAGE, 200 * PAGE, MREMAP_MAYMOVE)), -EFAULT, "more than there is");
	EXPECT(R(munmap((void *)p, 2 * PAGE)), 0, "munmap");
	EXPECT(R(syscall(SYS_mremap, p, PAGE, 2 * PAGE, MREMAP_MAYMOVE)), -EFAULT, "nothing there");
}

static void can_code_be_written_and_then_run(void)
{
	static const unsigned char code[] = { 0x8d, 0x04, 0x37, 0xc3 }; /* lea (%rdi,%rsi), %eax; ret */
	long p = map_private(1);
	EXPECT_OK(p, "mmap");
	memcpy((void *)p, code, sizeof code);
	EXPECT(R(mprotect((void *)p, PAGE, PROT_READ | PROT_EXEC)), 0, "mprotect");
	int (*add)(int, int) = (int (*)(int, int))p;
	EXPECT(add(40, 2), 42, "run");
	EXPECT(R(munmap((void *)p, PAGE)), 0, "munmap");
}

static void what_does_mprotect_refuse(void)
{
	long p = map_private(3);
	EXPECT_OK(p, "mmap");
	EXPECT(R(mprotect((void *)(p + 1), PAGE, PROT_READ)), -EINVAL, "an odd address");
	EXPECT(R(mprotect((void *)p, PAGE, 0x100)), -EINVAL, "a protection that is none");
	EXPECT(R(mprotect((void *)p, 0, PROT_READ)), 0, "no length is nothing to do");
	EXPECT(R(munmap((void *)(p + PAGE), PAGE)), 0, "a hole in the middle");
	EXPECT(R(mprotect((void *)(p + PAGE), PAGE, PROT_READ)), -ENOMEM, "the hole");
	EXPECT(R(mprotect((void *)p, 3 * PAGE, PROT_READ | PROT_WRITE)), -ENOMEM, "over the hole");
	EXPECT(R(mprotect((void *)0xffffffff80000000, PAGE, PROT_READ)), -ENOMEM, "the kernel's half");
	EXPECT(R(mprotect((void *)p, SIZE_MAX - PAGE, PROT_READ)), -ENOMEM, "a length that wraps around");
	EXPECT(R(munmap((void *)p, 3 * PAGE)), 0, "munmap");
}

static void does_much_more_memory_than_there_is_cost_nothing_untouched(void)
{
	long length = 1L << 36, p = map(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	EXPECT_OK(p, "64 GiB that may not be touched");
	EXPECT(R(mprotect((void *)(p + length / 2), PAGE, PROT_READ | PROT_WRITE)), 0, "one page of it");
	*(char *)(p + length / 2) = 1;
	EXPECT(R(munmap((void *)p, length)), 0, "munmap");
}

/* Each round needs two page tables of its own: together more than the machine's memory. */
static void does_unmapping_give_page_tables_back(void)
{
	enum { ROUNDS = 40000 };
	const uintptr_t base = 0x100000000000, step = 1024 * MIB;
	long failed = 0;
	for (long round = 1; round <= ROUNDS; round++) {
		char *p = mmap((void *)(base + round * step), PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (p == MAP_FAILED) {
			failed++;
			continue;
		}
		*p = 1;
		munmap(p, PAGE);
	}
	EXPECT(failed, 0, "mappings refused");
}

static int depth(int levels)
{
	volatile char frame[2 * PAGE];
	frame[0] = frame[2 * PAGE - 1] = levels;
	return levels == 0 ? 0 : depth(levels - 1) + (frame[0] == (char)levels);
}

static void does_the_stack_grow(void)
{
	struct rlimit stack;
	EXPECT(R(getrlimit(RLIMIT_STACK, &stack)), 0, "getrlimit");
	EXPECT(stack.rlim_cur, 8 * MIB, "8 MiB are allowed");
	EXPECT(depth(800), 800, "and 6 MiB of it used");
}

int main(void)
{
	ASK(does_brk_move_the_end_of_the_heap);
	ASK(does_brk_answer_where_it_is_when_it_refuses);
	ASK(is_fresh_memory_zero_and_writable);
	ASK(does_memory_come_back_clean);
	ASK(what_mappings_are_refused);
	ASK(does_a_fixed_mapping_take_the_place_of_another);
	ASK(is_an_address_only_a_hint_unless_fixed);
	ASK(can_a_part_of_a_mapping_be_given_back);
	ASK(what_may_be_unmapped);
	ASK(does_mprotect_change_what_may_be_done);
	ASK(can_a_mapping_change_its_length);
	ASK(what_does_mremap_refuse);
	ASK(can_code_be_written_and_then_run);
	ASK(what_does_mprotect_refuse);
	ASK(does_much_more_memory_than_there_is_cost_nothing_untouched);
	ASK(does_unmapping_give_page_tables_back);
	ASK(does_the_stack_grow);
	return verdict_status();
}
