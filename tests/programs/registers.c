/* What a program finds in its registers: at its first instruction, behind a system call, and across timer interrupts.
 *
 * Linked with -Wl,-e,record_entry: the program starts there, notes what it finds, and goes on to the C library's start.
 */
#include "verdict.h"

#include <asm/prctl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* In the order in which record_entry and the calls below store them. */
enum { RAX, RBX, RCX, RDX, RSI, RDI, RBP, R8, R9, R10, R11, R12, R13, R14, R15, RSP, RFLAGS, REGISTERS };

uint64_t entry_registers[REGISTERS];
struct {
	uint16_t control, status;
	uint32_t rest;
	uint64_t pointers[2];
	uint32_t mxcsr, mask;
	uint8_t x87[8][16], xmm[16][16], unused[96];
} entry_vectors __attribute__((aligned(16)));

__asm__(".globl record_entry\n"
	"record_entry:\n"
	"	mov %rax, entry_registers(%rip)\n"
	"	mov %rbx, entry_registers+8(%rip)\n"
	"	mov %rcx, entry_registers+16(%rip)\n"
	"	mov %rdx, entry_registers+24(%rip)\n"
	"	mov %rsi, entry_registers+32(%rip)\n"
	"	mov %rdi, entry_registers+40(%rip)\n"
	"	mov %rbp, entry_registers+48(%rip)\n"
	"	mov %r8, entry_registers+56(%rip)\n"
	"	mov %r9, entry_registers+64(%rip)\n"
	"	mov %r10, entry_registers+72(%rip)\n"
	"	mov %r11, entry_registers+80(%rip)\n"
	"	mov %r12, entry_registers+88(%rip)\n"
	"	mov %r13, entry_registers+96(%rip)\n"
	"	mov %r14, entry_registers+104(%rip)\n"
	"	mov %r15, entry_registers+112(%rip)\n"
	"	mov %rsp, entry_registers+120(%rip)\n"
	"	pushfq\n"
	"	popq entry_registers+128(%rip)\n"
	"	fxsave entry_vectors(%rip)\n"
	"	jmp _start\n");

static void are_the_registers_clear_at_the_start(void)
{
	for (int r = RAX; r <= R15; r++)
		EXPECT(entry_registers[r], 0, "a general register");
	EXPECT(entry_registers[RSP] % 16, 0, "the stack is aligned to 16");
	EXPECT(entry_registers[RFLAGS] & ~0x2ul, 0x200, "flags: interrupts on and nothing else");
}

static void are_the_vector_registers_clear_at_the_start(void)
{
	EXPECT(entry_vectors.control, 0x37f, "x87 control word");
	EXPECT(entry_vectors.status, 0, "x87 status word");
	EXPECT(entry_vectors.mxcsr, 0x1f80, "mxcsr");
	for (int r = 0; r < 16; r++)
		for (int i = 0; i < 16; i++)
			EXPECT(entry_vectors.xmm[r][i], 0, "a vector register");
}

/* Makes call `number` with `in` in all registers but rcx and r11, on the stack pointer `stack` if it is not 0, with
 * `flags` or-ed into the flags, and stores all registers into `out`. The return address of the call must come back in
 * rcx and the flags in r11: they are what sysret takes, and what Linux leaves. */
static void call_with(uint64_t number, const uint64_t *in, uint64_t stack, uint64_t flags, uint64_t *out, uint64_t *behind)
{
	static uint64_t number_, stack_, flags_, saved, behind_;
	static const uint64_t *in_;
	static uint64_t out_[REGISTERS];
	number_ = number, stack_ = stack, flags_ = flags, in_ = in;
	__asm__ volatile("push %%rbp\n"
			 "push %%rbx\n"
			 "mov %%rsp, %[saved]\n"
			 "pushfq\n"
			 "mov %[flags], %%rax\n"
			 "or %%rax, (%%rsp)\n"
			 "mov %[in], %%rax\n"
			 "mov 8(%%rax), %%rbx\n"
			 "mov 24(%%rax), %%rdx\n"
			 "mov 32(%%rax), %%rsi\n"
			 "mov 40(%%rax), %%rdi\n"
			 "mov 48(%%rax), %%rbp\n"
			 "mov 56(%%rax), %%r8\n"
			 "mov 64(%%rax), %%r9\n"
			 "mov 72(%%rax), %%r10\n"
			 "mov 88(%%rax), %%r12\n"
			 "mov 96(%%rax), %%r13\n"
			 "mov 104(%%rax), %%r14\n"
			 "mov 112(%%rax), %%r15\n"
			 "lea 1f(%%rip), %%rax\n"
			 "mov %%rax, %[behind]\n"
			 "popfq\n"
			 "mov %[stack], %%rcx\n"
			 "jrcxz 2f\n"
			 "mov %%rcx, %%rsp\n"
			 "2: mov %[number], %%rax\n"
			 "syscall\n"
			 "1: mov %%rax, %[out]\n"
			 "mov %%rbx, 8+%[out]\n"
			 "mov %%rcx, 16+%[out]\n"
			 "mov %%rdx, 24+%[out]\n"
			 "mov %%rsi, 32+%[out]\n"
			 "mov %%rdi, 40+%[out]\n"
			 "mov %%rbp, 48+%[out]\n"
			 "mov %%r8, 56+%[out]\n"
			 "mov %%r9, 64+%[out]\n"
			 "mov %%r10, 72+%[out]\n"
			 "mov %%r11, 80+%[out]\n"
			 "mov %%r12, 88+%[out]\n"
			 "mov %%r13, 96+%[out]\n"
			 "mov %%r14, 104+%[out]\n"
			 "mov %%r15, 112+%[out]\n"
			 "mov %%rsp, 120+%[out]\n"
			 "mov %[saved], %%rsp\n"
			 "pushfq\n"
			 "popq 128+%[out]\n"
			 "cld\n"
			 "pushfq\n"
			 "andq $~0x4000, (%%rsp)\n"
			 "popfq\n"
			 "pop %%rbx\n"
			 "pop %%rbp\n"
			 : [out] "=m"(out_), [saved] "+m"(saved), [behind] "=m"(behind_)
			 : [in] "m"(in_), [number] "m"(number_), [stack] "m"(stack_), [flags] "m"(flags_)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc",
			   "memory");
	memcpy(out, out_, sizeof out_);
	*behind = behind_;
}

static void garbage(uint64_t *registers)
{
	static uint64_t state = 88172645463325252;
	for (int r = 0; r < REGISTERS; r++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		registers[r] = r % 4 == 0 ? state : r % 4 == 1 ? state | 0xffff800000000000 : r % 4 == 2 ? (uint32_t)state : ~state;
	}
}

static void expect_kept(const uint64_t *in, const uint64_t *out, uint64_t behind)
{
	for (int r = RBX; r <= R15; r++)
		if (r != RCX && r != R11)
			EXPECT(out[r], in[r], "a register that a call keeps");
	EXPECT(out[RCX], behind, "rcx is the address behind the call");
	EXPECT(out[R11] & ~0x10000ul, out[RFLAGS], "r11 is the flags");
}

static void does_a_call_keep_every_register_but_rax_rcx_and_r11(void)
{
	uint64_t in[REGISTERS], out[REGISTERS], behind;
	for (int i = 0; i < 1000; i++) {
		garbage(in);
		call_with(SYS_getpid, in, 0, 0, out, &behind);
		EXPECT(out[RAX], syscall(SYS_getpid), "getpid");
		WITHIN(expect_kept(in, out, behind));
	}
}

static void does_a_call_that_fails_keep_them_too(void)
{
	static const uint64_t numbers[] = { SYS_mq_timedsend, SYS_mq_timedreceive, SYS_write, SYS_mq_unlink, 9999, ~0ul };
	uint64_t in[REGISTERS], out[REGISTERS], behind;
	for (int i = 0; i < 600; i++) {
		garbage(in);
		in[RDI] |= 0x40000000; /* no open descriptor, no address */
		call_with(numbers[i % 6], in, 0, 0, out, &behind);
		EXPECT_TRUE((int64_t)out[RAX] < 0 && (int64_t)out[RAX] >= -4095, "an error");
		WITHIN(expect_kept(in, out, behind));
	}
}

/* Direction, nested task and identification: a program may have them set, and the kernel must neither trip over them
 * nor lose them. */
static void does_a_call_keep_the_flags(void)
{
	static const uint64_t flags[] = { 0x400, 0x4000, 0x200000, 0x204400, 0x8d5 };
	uint64_t in[REGISTERS] = { 0 }, out[REGISTERS], behind;
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		call_with(SYS_getpid, in, 0, flags[i], out, &behind);
		EXPECT(out[RAX], syscall(SYS_getpid), "getpid");
		EXPECT(out[RFLAGS] & flags[i], flags[i], "the flags");
		WITHIN(expect_kept(in, out, behind));
	}
}

/* With the direction flag set, a kernel that copies would copy backwards. */
static void does_a_copy_run_forward_whatever_the_direction_flag_says(void)
{
	static char random[600];
	uint64_t in[REGISTERS] = { [RDI] = (uintptr_t)(random + 200), [RSI] = 200 }, out[REGISTERS], behind;
	call_with(SYS_getrandom, in, 0, 0x400, out, &behind);
	EXPECT(out[RAX], 200, "getrandom");
	int set = 0;
	for (int i = 0; i < 600; i++) {
		set += i >= 200 && i < 400 && random[i] != 0;
		if (i < 200 || i >= 400)
			EXPECT(random[i], 0, "a byte outside the buffer");
	}
	EXPECT_TRUE(set > 150, "the buffer is filled");
}

static void does_a_call_work_on_any_stack_pointer(void)
{
	static const uint64_t stacks[] = {
		1, 8, 0x7fffffffffff, 0x800000000000, 0xffff800000000000, 0xffffffff80200000, 0x4141414141414141, ~0ul, ~7ul,
	};
	uint64_t in[REGISTERS] = { 0 }, out[REGISTERS], behind;
	for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
		call_with(SYS_getpid, in, stacks[i], 0, out, &behind);
		EXPECT(out[RAX], syscall(SYS_getpid), "getpid");
		EXPECT(out[RSP], stacks[i], "the stack pointer");
	}
}

/* Some thirty ticks of a 1 kHz timer on a processor of 1 GHz; half a dozen on a fast one. */
static inline __attribute__((always_inline)) void spin(void)
{
	for (uint64_t start = __rdtsc(); __rdtsc() - start < 30000000;)
		;
}

static void do_vector_registers_survive_the_timer(void)
{
	static uint8_t in[16][16] __attribute__((aligned(16))), out[16][16] __attribute__((aligned(16)));
	for (int i = 0; i < 256; i++)
		in[i / 16][i % 16] = 255 - i;
#define LOAD(n) "movdqa " #n "*16(%[in]), %%xmm" #n "\n"
#define STORE(n) "movdqa %%xmm" #n ", " #n "*16(%[out])\n"
#define ALL(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(14) do(15)
#define XMM "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
	"xmm13", "xmm14", "xmm15"
	__asm__ volatile(ALL(LOAD)
			 "rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n mov %%rax, %%rcx\n add $30000000, %%rcx\n"
			 "1: rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n cmp %%rcx, %%rax\n jb 1b\n"
			 ALL(STORE)
			 :: [in] "r"(in), [out] "r"(out) : "rax", "rcx", "rdx", "cc", "memory", XMM);
	EXPECT(memcmp(in, out, sizeof in), 0, "xmm0 to xmm15");
}

static void do_vector_registers_survive_calls(void)
{
	static uint8_t in[16][16] __attribute__((aligned(16))), out[16][16] __attribute__((aligned(16)));
	static char random[9000];
	for (int i = 0; i < 256; i++)
		in[i / 16][i % 16] = i ^ 0x5a;
	long result = SYS_getrandom;
	__asm__ volatile(ALL(LOAD)
			 "syscall\n"
			 ALL(STORE)
			 : "+a"(result) : [in] "r"(in), [out] "r"(out), "D"(random), "S"(sizeof random), "d"(0L)
			 : "rcx", "r11", "memory", XMM);
	EXPECT(result, sizeof random, "getrandom");
	EXPECT(memcmp(in, out, sizeof in), 0, "xmm0 to xmm15");
}

/* Whether the kernel lets programs use AVX: the processor has it and the kernel has switched its state on. */
static int avx_is_on(void)
{
	uint32_t a = 1, b, c = 0, d;
	__asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (!(c & 1 << 27) || !(c & 1 << 28))
		return 0;
	__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return (a & 6) == 6;
}

/* If the kernel lets programs use the upper halves, it must keep them. */
static void do_the_upper_halves_survive_too_if_they_may_be_used(void)
{
	static uint8_t in[16][32], out[16][32];
	if (!avx_is_on())
		return;
	for (int i = 0; i < 512; i++)
		in[i / 32][i % 32] = i * 7;
#define LOAD_Y(n) "vmovdqu " #n "*32(%[in]), %%ymm" #n "\n"
#define STORE_Y(n) "vmovdqu %%ymm" #n ", " #n "*32(%[out])\n"
	__asm__ volatile(ALL(LOAD_Y)
			 "rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n mov %%rax, %%rcx\n add $30000000, %%rcx\n"
			 "1: rdtsc\n shl $32, %%rdx\n or %%rdx, %%rax\n cmp %%rcx, %%rax\n jb 1b\n"
			 ALL(STORE_Y) "vzeroupper\n"
			 :: [in] "r"(in), [out] "r"(out) : "rax", "rcx", "rdx", "cc", "memory", XMM);
	EXPECT(memcmp(in, out, sizeof in), 0, "ymm0 to ymm15");
}

static void do_floating_point_modes_survive(void)
{
	uint32_t mxcsr = 0x1f80 | 0x6000 | 0x8000, mxcsr_after; /* round to zero, flush to zero */
	uint16_t control = 0x0f7f, control_after, usual = 0x37f;
	long double pushed = 1.25L, popped = 0;
	__asm__ volatile("ldmxcsr %0\n fldcw %1\n fldt %2" :: "m"(mxcsr), "m"(control), "m"(pushed) : "st");
	spin();
	syscall(SYS_getppid);
	__asm__ volatile("fstpt %0\n stmxcsr %1\n fnstcw %2" : "=m"(popped), "=m"(mxcsr_after), "=m"(control_after) :: "st");
	_mm_setcsr(0x1f80);
	__asm__ volatile("fldcw %0" :: "m"(usual));
	EXPECT(mxcsr_after, mxcsr, "mxcsr");
	EXPECT(control_after, control, "x87 control word");
	EXPECT_TRUE(popped == pushed, "the x87 stack");
}

/* gs belongs to the program, whatever the kernel keeps there while it runs. */
static void does_the_gs_base_survive(void)
{
	static uint64_t block[2] = { 0x1122334455667788, 0x99aabbccddeeff00 };
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_SET_GS, block)), 0, "ARCH_SET_GS");
	for (int i = 0; i < 3; i++) {
		uint64_t word;
		spin();
		for (int k = 0; k < 100; k++)
			syscall(SYS_getppid);
		__asm__ volatile("mov %%gs:8, %0" : "=r"(word));
		EXPECT(word, block[1], "a word through gs");
	}
	EXPECT(R(syscall(SYS_arch_prctl, ARCH_SET_GS, 0)), 0, "ARCH_SET_GS");
}

/* The data segments mean nothing to a 64-bit program but may be loaded by it, gs among them. */
static void may_the_segment_registers_be_cleared(void)
{
	uint64_t fs_before, fs_after;
	__asm__ volatile("mov %%fs:0, %0" : "=r"(fs_before));
	__asm__ volatile("mov %0, %%ds\n mov %0, %%es\n mov %0, %%gs" :: "r"(0));
	spin();
	syscall(SYS_getppid);
	__asm__ volatile("mov %%fs:0, %0" : "=r"(fs_after));
	EXPECT_TRUE(fs_before == fs_after, "fs still points at the thread's block");
}

int main(void)
{
	ASK(are_the_registers_clear_at_the_start);
	ASK(are_the_vector_registers_clear_at_the_start);
	ASK(does_a_call_keep_every_register_but_rax_rcx_and_r11);
	ASK(does_a_call_that_fails_keep_them_too);
	ASK(does_a_call_keep_the_flags);
	ASK(does_a_copy_run_forward_whatever_the_direction_flag_says);
	ASK(does_a_call_work_on_any_stack_pointer);
	ASK(do_vector_registers_survive_the_timer);
	ASK(do_vector_registers_survive_calls);
	ASK(do_the_upper_halves_survive_too_if_they_may_be_used);
	ASK(do_floating_point_modes_survive);
	ASK(does_the_gs_base_survive);
	ASK(may_the_segment_registers_be_cleared);
	return verdict_status();
}
