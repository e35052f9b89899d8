/* One fault a run: what a program may not do, named by the first argument. The program says which one it is about to
 * commit; after it there must be nothing, and the parent sees the signal. Status 99: nothing happened; 2: no such name.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };
#define KERNEL 0xffffffff80200000

static void load(uintptr_t at)
{
	__asm__ volatile("mov (%0), %%al" :: "r"(at) : "rax", "memory");
}

static void store(uintptr_t at)
{
	__asm__ volatile("movb $1, (%0)" :: "r"(at) : "memory");
}

static void jump(uintptr_t at)
{
	__asm__ volatile("jmp *%0" :: "r"(at) : "memory");
}

static uintptr_t page(int protection)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		exit(3);
	memset(p, 0xc3, PAGE); /* ret, should it ever run */
	if (mprotect(p, PAGE, protection) != 0)
		exit(3);
	return (uintptr_t)p;
}

static const char constant[64] = "read-only";
static char variable[64] = { (char)0xc3 };

static void null_load(void) { load(0); }
static void null_store(void) { store(0); }
static void null_jump(void) { jump(0); }
static void noncanonical_load(void) { load(0x4141414141414141); }
static void noncanonical_store(void) { store(0x800000000000); }
static void noncanonical_jump(void) { jump(0x800000000000); }
static void kernel_load(void) { load(KERNEL); }
static void kernel_store(void) { store(KERNEL); }
static void kernel_jump(void) { jump(KERNEL); }
static void text_store(void) { store((uintptr_t)load); }
static void constant_store(void) { store((uintptr_t)constant); }
static void read_only_store(void) { store(page(PROT_READ)); }
static void no_access_load(void) { load(page(PROT_NONE)); }
static void data_run(void) { jump((uintptr_t)variable); }
static void mapping_run(void) { jump(page(PROT_READ | PROT_WRITE)); }

static void stack_run(void)
{
	volatile char code[16] = { (char)0xc3 };
	jump((uintptr_t)code);
}

static void unmapped_load(void)
{
	uintptr_t p = page(PROT_READ);
	munmap((void *)p, PAGE);
	load(p);
}

static int recurse(volatile char *up)
{
	volatile char frame[8192];
	frame[0] = up[0] + 1;
	return up == NULL ? 0 : recurse(frame) + frame[0]; /* never NULL: for the compiler's peace */
}

static void stack_overflow(void)
{
	char first = 0;
	exit(recurse(&first));
}

static void bad_stack_push(void) { __asm__ volatile("mov $64, %%rsp\n push %%rax" ::: "memory"); }
static void interrupts_off(void) { __asm__ volatile("cli"); }
static void halt(void) { __asm__ volatile("hlt"); }
static void port_in(void) { __asm__ volatile("in $0x64, %%al" ::: "rax"); }
static void port_out(void) { __asm__ volatile("mov $0xf4, %%dx\n mov $0x10, %%al\n out %%al, %%dx" ::: "rax", "rdx"); }
static void msr_read(void) { __asm__ volatile("rdmsr" :: "c"(0xc0000082) : "rax", "rdx"); }
static void msr_write(void) { __asm__ volatile("wrmsr" :: "c"(0xc0000082), "a"(0), "d"(0)); }
static void page_table_load(void) { __asm__ volatile("mov %0, %%cr3" :: "r"(0x1000ul)); }
static void gs_swap(void) { __asm__ volatile("swapgs"); }
static void kernel_return(void) { __asm__ volatile("sysretq" :: "c"(load)); }
static void software_interrupt(void) { __asm__ volatile("int $0x20"); }
static void double_fault_gate(void) { __asm__ volatile("int $8"); }

/* Far returns read the stack with the kernel's rights in some emulators, so that a page fault comes of them that says
 * 'kernel' and came from a program: it is the program that must end. */
static void kernel_segment(void) { __asm__ volatile("push $8\n push %0\n lretq" :: "r"(load)); }
static void bad_segment(void) { __asm__ volatile("mov %0, %%ds" :: "r"(0xfff8)); }
static void bad_interrupt_return(void)
{
	__asm__ volatile("push $0\n push $0\n push $0\n push $0xfff8\n push $0\n iretq");
}
static void undefined(void) { __asm__ volatile("ud2"); }
static void lock_prefix(void) { __asm__ volatile(".byte 0xf0, 0x90"); }
static void divide_by_zero(void) { __asm__ volatile("div %%ecx" :: "a"(1), "d"(0), "c"(0)); }
static void divide_overflow(void) { __asm__ volatile("idiv %%ecx" :: "a"(INT32_MIN), "d"(-1), "c"(-1)); }
static void x87_exception(void)
{
	unsigned short unmasked = 0x372;
	__asm__ volatile("fldcw %0\n fldz\n fld1\n fdiv %%st(1), %%st\n fwait" :: "m"(unmasked));
}
static void breakpoint(void) { __asm__ volatile("int3"); }
static void single_step(void) { __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq\n nop\n nop" ::: "cc", "memory"); }
static void single_step_into_call(void)
{
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n mov %0, %%eax\n popfq\n syscall\n nop\n nop"
			 :: "i"(SYS_getppid) : "rax", "rcx", "r11", "cc", "memory");
}

#define FAULT(name) { #name, name }

static const struct {
	const char *name;
	void (*commit)(void);
} faults[] = {
	FAULT(null_load), FAULT(null_store), FAULT(null_jump), FAULT(noncanonical_load), FAULT(noncanonical_store),
	FAULT(noncanonical_jump), FAULT(kernel_load), FAULT(kernel_store), FAULT(kernel_jump), FAULT(text_store),
	FAULT(constant_store), FAULT(read_only_store), FAULT(no_access_load), FAULT(data_run), FAULT(mapping_run),
	FAULT(stack_run), FAULT(unmapped_load), FAULT(stack_overflow), FAULT(bad_stack_push), FAULT(interrupts_off),
	FAULT(halt), FAULT(port_in), FAULT(port_out), FAULT(msr_read), FAULT(msr_write), FAULT(page_table_load),
	FAULT(gs_swap), FAULT(kernel_return), FAULT(software_interrupt), FAULT(double_fault_gate), FAULT(kernel_segment),
	FAULT(bad_segment), FAULT(bad_interrupt_return), FAULT(undefined), FAULT(lock_prefix), FAULT(divide_by_zero),
	FAULT(divide_overflow), FAULT(x87_exception), FAULT(breakpoint), FAULT(single_step), FAULT(single_step_into_call),
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof faults / sizeof *faults; i++)
		if (strcmp(faults[i].name, argv[1]) == 0) {
			dprintf(STDOUT_FILENO, "about to commit %s\n", argv[1]);
			faults[i].commit();
			dprintf(STDOUT_FILENO, "survived %s\n", argv[1]);
			return 99;
		}
	return 2;
}
