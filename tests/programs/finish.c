/* Ends as its arguments say: HOW STATUS. What it prints before is buffered by the library, which must flush it where
 * the end is one that flushes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void at_exit(void)
{
	printf("at exit\n");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int status = atoi(argv[2]);
	atexit(at_exit);
	printf("buffered;");
	if (strcmp(argv[1], "return") == 0)
		return status;
	if (strcmp(argv[1], "exit") == 0)
		exit(status);
	if (strcmp(argv[1], "group") == 0)
		syscall(SYS_exit_group, status);
	if (strcmp(argv[1], "thread") == 0)
		syscall(SYS_exit, status);
	return 2;
}
