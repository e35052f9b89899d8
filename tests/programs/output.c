/* Writes every byte value, then more than any buffer holds, then prints its arguments, each between brackets.
 *
 * What comes out at the other end must be these bytes and no others.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static unsigned char all[256], many[100000];
	for (int i = 0; i < 256; i++)
		all[i] = i;
	for (int i = 0; i < 100000; i++)
		many[i] = 'a' + i % 26;
	if (write(STDOUT_FILENO, all, 256) != 256)
		return 3;
	if (write(STDOUT_FILENO, many, sizeof many) != sizeof many)
		return 4;
	if (write(STDOUT_FILENO, many, 0) != 0)
		return 5;
	for (int i = 1; i < argc; i++)
		printf("[%s]", argv[i]);
	if (fflush(stdout) != 0)
		return 6;
	fprintf(stderr, "[standard error]");
	return 0;
}
