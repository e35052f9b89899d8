/* The least that a program can be that says something. */
#include <stdio.h>

int main(void)
{
	puts("hello");
	return 0;
}
