/* What the C library finds when a program starts: arguments, environment, auxiliary vector, standard output; and
 * constructors, thread-local storage and the library's own use of the kernel behind it.
 *
 * The program expects to be started with the arguments "one" and "two words", and with one variable at least.
 */
#include "verdict.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static int argument_count;
static char **arguments;
static int constructed;
static __thread int thread_local_zero, thread_local_seven = 7;
extern char **environ;
extern char _start[], etext[];

__attribute__((constructor)) static void construct(void)
{
	constructed = 42;
}

/* The auxiliary vector as the kernel wrote it: getauxval(3) answers some keys with what the library made of them. */
static unsigned long auxiliary(unsigned long key)
{
	char **end = environ;
	while (*end)
		end++;
	for (Elf64_auxv_t *aux = (Elf64_auxv_t *)(end + 1); aux->a_type != AT_NULL; aux++)
		if (aux->a_type == key)
			return aux->a_un.a_val;
	return 0;
}

static void are_the_arguments_as_given(void)
{
	EXPECT(argument_count, 3, "argc");
	EXPECT_TRUE(strstr(arguments[0], "libc_start"), "argv[0] names the program");
	EXPECT(strcmp(arguments[1], "one"), 0, "argv[1]");
	EXPECT(strcmp(arguments[2], "two words"), 0, "argv[2]");
	EXPECT_TRUE(arguments[3] == NULL, "argv ends in a null");
}

/* The ABI's order: argv, its null, envp, its null, auxv. */
static void do_the_three_lists_follow_each_other(void)
{
	EXPECT_TRUE(environ == arguments + argument_count + 1, "envp follows argv");
	char **end = environ;
	while (*end)
		end++;
	EXPECT_TRUE(end > environ, "there is an environment");
	Elf64_auxv_t *aux = (Elf64_auxv_t *)(end + 1);
	int entries = 0;
	for (; aux->a_type != AT_NULL && entries < 100; aux++)
		entries++;
	EXPECT_TRUE(entries > 5 && entries < 100, "auxv follows envp and ends");
	EXPECT((uintptr_t)(arguments - 1) % 16, 0, "the stack was aligned to 16 at the start");
}

static void does_the_environment_hold_pairs(void)
{
	for (char **e = environ; *e; e++)
		EXPECT_TRUE(strchr(*e, '='), "NAME=value");
	EXPECT_TRUE(getenv("HOME"), "HOME is set");
}

static void does_the_auxiliary_vector_describe_the_program(void)
{
	EXPECT(auxiliary(AT_PAGESZ), 4096, "AT_PAGESZ");
	EXPECT(auxiliary(AT_ENTRY), (long)_start, "AT_ENTRY is where the program starts");
	EXPECT(auxiliary(AT_PHENT), sizeof(Elf64_Phdr), "AT_PHENT");
	Elf64_Phdr *headers = (Elf64_Phdr *)auxiliary(AT_PHDR);
	unsigned long count = auxiliary(AT_PHNUM), loaded = 0;
	EXPECT_TRUE(headers && count > 0 && count < 32, "AT_PHDR and AT_PHNUM");
	for (unsigned long i = 0; i < count; i++)
		loaded += headers[i].p_type == PT_LOAD;
	EXPECT_TRUE(loaded > 0, "the program headers are in memory, and some are loaded");
	EXPECT(auxiliary(AT_CLKTCK), 100, "AT_CLKTCK");
	EXPECT(auxiliary(AT_SECURE), 0, "AT_SECURE");
	EXPECT(auxiliary(AT_UID), getuid(), "AT_UID");
	EXPECT(auxiliary(AT_EUID), geteuid(), "AT_EUID");
	EXPECT(auxiliary(AT_GID), getgid(), "AT_GID");
	EXPECT(auxiliary(AT_EGID), getegid(), "AT_EGID");
	EXPECT_TRUE(auxiliary(AT_HWCAP) & 1 << 25, "AT_HWCAP is the feature word of CPUID: SSE is there");
	char *platform = (char *)auxiliary(AT_PLATFORM), *file = (char *)auxiliary(AT_EXECFN);
	EXPECT_TRUE(platform && strcmp(platform, "x86_64") == 0, "AT_PLATFORM");
	EXPECT_TRUE(file && strstr(file, "libc_start"), "AT_EXECFN");
}

static void are_sixteen_random_bytes_given(void)
{
	unsigned char *random = (unsigned char *)auxiliary(AT_RANDOM);
	int set = 0;
	EXPECT_TRUE(random, "AT_RANDOM");
	for (int i = 0; i < 16; i++)
		set += random[i] != 0;
	EXPECT_TRUE(set > 4, "not all zero");
}

static void have_constructors_and_thread_local_storage_been_set_up(void)
{
	EXPECT(constructed, 42, "the constructor ran before main");
	EXPECT(thread_local_zero, 0, "a thread-local zero");
	EXPECT(thread_local_seven, 7, "a thread-local seven");
	void *self;
	__asm__ volatile("mov %%fs:0, %0" : "=r"(self));
	EXPECT(*(void **)self == self, 1, "fs points at the thread's own block");
}

static void does_formatted_output_work(void)
{
	char text[128];
	snprintf(text, sizeof text, "%d %x %s %.3f %c %5ld|%-5d|", -5, 0xbeefu, "text", 3.14159, 'c', 42L, 7);
	EXPECT(strcmp(text, "-5 beef text 3.142 c    42|7    |"), 0, text);
	EXPECT(printf("printed %d\n", 1), 10, "printf");
	EXPECT(fflush(stdout), 0, "fflush");
	EXPECT(fprintf(stderr, "%s", ""), 0, "standard error");
}

static void does_malloc_give_memory_small_and_big(void)
{
	enum { COUNT = 2000 };
	static unsigned char *block[COUNT];
	for (int i = 0; i < COUNT; i++) {
		size_t size = 1 + (i * 7919u) % 3000;
		block[i] = malloc(size);
		EXPECT_TRUE(block[i], "a small block");
		EXPECT((uintptr_t)block[i] % 16, 0, "aligned");
		memset(block[i], i, size);
	}
	for (int i = 0; i < COUNT; i++) {
		size_t size = 1 + (i * 7919u) % 3000;
		EXPECT(block[i][0], (unsigned char)i, "first byte");
		EXPECT(block[i][size - 1], (unsigned char)i, "last byte");
		free(block[i]);
	}
	for (size_t size = 1 << 16; size <= 1 << 26; size *= 4) {
		unsigned char *big = malloc(size);
		EXPECT_TRUE(big, "a big block");
		big[0] = 1;
		big[size - 1] = 2;
		big = realloc(big, 2 * size);
		EXPECT_TRUE(big, "grown");
		EXPECT(big[0] + big[size - 1], 3, "with its contents");
		free(big);
	}
	unsigned char *zero = calloc(1 << 20, 1);
	EXPECT_TRUE(zero, "calloc");
	for (int i = 0; i < 1 << 20; i++)
		EXPECT(zero[i], 0, "zero");
	free(zero);
	EXPECT_TRUE(malloc((size_t)1 << 60) == NULL, "more than there can be");
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void does_the_rest_of_the_library_work(void)
{
	static int numbers[5000];
	for (int i = 0; i < 5000; i++)
		numbers[i] = (i * 7919) % 5003;
	qsort(numbers, 5000, sizeof *numbers, compare);
	for (int i = 1; i < 5000; i++)
		EXPECT_TRUE(numbers[i - 1] <= numbers[i], "sorted");
	EXPECT(strtol("-123abc", NULL, 10), -123, "strtol");
	EXPECT((long)(strtod("2.5e3", NULL) * 4), 10000, "strtod");
	struct tm *day = gmtime(&(time_t){ 86400L * 365 });
	EXPECT_TRUE(day && day->tm_year == 71 && day->tm_yday == 0, "gmtime");
}

int main(int argc, char **argv)
{
	argument_count = argc;
	arguments = argv;
	ASK(are_the_arguments_as_given);
	ASK(do_the_three_lists_follow_each_other);
	ASK(does_the_environment_hold_pairs);
	ASK(does_the_auxiliary_vector_describe_the_program);
	ASK(are_sixteen_random_bytes_given);
	ASK(have_constructors_and_thread_local_storage_been_set_up);
	ASK(does_formatted_output_work);
	ASK(does_malloc_give_memory_small_and_big);
	ASK(does_the_rest_of_the_library_work);
	return verdict_status();
}
