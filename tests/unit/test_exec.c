/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor on a few lines of PTX: forms that clang does not write yet (bf16 of sm_90), and what
 * must end in a fault or is a hang. The kernels in tests/kernels do the rest.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "softgpu/exec/exec.h"
#include "softgpu/ptx/ptx.h"

#define MEMORY_VA 0x40000000ull
#define WORDS     512

#define HEAD ".version 7.8\n.target sm_90\n.address_size 64\n"
#define REGS                                                                                       \
	".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;"   \
	" .reg .f64 %fd<9>;\n"
#define KERNEL                                                                                     \
	".visible .entry k(.param .u64 x) {" REGS                                                  \
	"ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n"                \
	"add.s64 %rd2, %rd1, %rd2; ld.global.u32 %r2, [%rd2]; ld.global.u32 %r3, [%rd2+256];\n"
/* Each thread's words 0 and 64 are in %r2 and %r3; what it stores to %rd2 replaces word 0. */
#define END "st.global.u32 [%rd2], %r4; ret; }\n"

static _Alignas(16) uint32_t memory[WORDS];
static struct rbt_exec_fault last_fault;

static enum rbt_exec_status run_blocks(const struct rbt_exec_launch *launch)
{
	enum rbt_exec_status status = RBT_EXEC_BUDGET;
	struct rbt_exec_sm *sms[2] = {rbt_exec_sm_create(0, 2), rbt_exec_sm_create(1, 2)};
	struct rbt_exec_block *block = NULL, *moved;
	const uint32_t index[3] = {0, 0, 0};
	unsigned turns = 0;

	CHECK_INT(rbt_exec_block_create(sms[0], launch, index, &block), 0);
	/* Preempted after every instruction, and moved; a hang is seen long before this ends. */
	while (block && status == RBT_EXEC_BUDGET && turns++ < 100000) {
		size_t size;
		void *state;

		status = rbt_exec_run(block, 1);
		if (status != RBT_EXEC_BUDGET) {
			break;
		}
		size = rbt_exec_block_save_size(block);
		state = malloc(size);
		CHECK_INT(rbt_exec_block_save(block, state, size), 0);
		rbt_exec_block_destroy(block);
		block = moved = NULL;
		CHECK_INT(rbt_exec_block_restore(sms[turns % 2], launch, state, size, &moved), 0);
		block = moved;
		free(state);
	}
	last_fault = block ? *rbt_exec_block_fault(block) : (struct rbt_exec_fault){0};
	rbt_exec_block_destroy(block);
	rbt_exec_sm_destroy(sms[0]);
	rbt_exec_sm_destroy(sms[1]);
	return status;
}

/* Runs entry k of the text, one block, with the address of `memory`. */
static enum rbt_exec_status run(const char *text, uint32_t threads)
{
	struct rbt_exec_window window = {MEMORY_VA, sizeof(memory), memory, false};
	struct rbt_ptx_module *module = NULL;
	struct rbt_ptx_error error;
	uint64_t param = MEMORY_VA, variables[4] = {0};
	struct rbt_exec_launch launch = {.grid = {1, 1, 1},
		.block = {threads, 1, 1},
		.params = &param,
		.windows = &window,
		.nwindows = 1,
		.variable_va = variables,
		.stack_size = 1024};
	enum rbt_exec_status status;

	if (rbt_ptx_parse(text, strlen(text), &module, &error) < 0) {
		fprintf(stderr, "%s\n%s\n", error.text, text);
		CHECK(!"parsed");
		return RBT_EXEC_FAULT;
	}
	launch.module = module;
	launch.kernel = rbt_ptx_find_entry(module, "k");
	status = run_blocks(&launch);
	rbt_ptx_module_destroy(module);
	return status;
}

/* The body makes %r4 of %r2 = a and %r3 = b. */
static uint32_t result_of(const char *body, uint32_t a, uint32_t b)
{
	char *text;

	if (asprintf(&text, "%s%s%s%s", HEAD, KERNEL, body, END) < 0) {
		abort();
	}
	for (unsigned k = 0; k < WORDS; k++) {
		memory[k] = k < 64 ? a : b;
	}
	CHECK_INT(run(text, 64), RBT_EXEC_DONE);
	for (unsigned k = 1; k < 64; k++) {
		CHECK_INT(memory[k], memory[0]);
	}
	free(text);
	return memory[0];
}

static uint32_t bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	return bits;
}

#define HALVES "mov.b32 {%h1, %h2}, %r2; mov.b32 {%h3, %h4}, %r3;\n"
#define TO_R4  " mov.b32 %r4, {%h5, %h6};\n"

/* 1.5 and 2.25 above -0.5 and 3.0 in bf16: 3fc0 4010, bf00 4040 */
static void test_bf16(void)
{
	const uint32_t a = 0x3fc0bf00, b = 0x40104040;

	CHECK_INT(result_of("add.rn.bf16x2 %r4, %r2, %r3;", a, b), 0x40704020);
	CHECK_INT(result_of("sub.bf16x2 %r4, %r2, %r3;", a, b), 0xbf40c060u);
	CHECK_INT(result_of("mul.bf16x2 %r4, %r2, %r3;", a, b), 0x4058bfc0);
	CHECK_INT(
		result_of(HALVES "add.bf16 %h5, %h1, %h3; mul.rn.bf16 %h6, %h2, %h4;" TO_R4, a, b),
		0x40584020);
	CHECK_INT(
		result_of(HALVES "cvt.f32.bf16 %f1, %h2; mov.b32 %r4, %f1;", a, b), bits_of(1.5f));
	CHECK_INT(result_of(HALVES "cvt.rni.s32.bf16 %r4, %h1;", a, b), 0);
	CHECK_INT(result_of("cvt.rn.bf16.u32 %h5, %r2; mov.b16 %h6, 0;" TO_R4, 0x01010001, 0),
		0x4b81);
	CHECK_INT(
		result_of("cvt.s64.s32 %rd3, %r2; cvt.rz.bf16.s64 %h5, %rd3; mov.b16 %h6, 0;" TO_R4,
			(uint32_t)-0x01ffffff, 0),
		0xcbff);
	CHECK_INT(
		result_of(HALVES "setp.gt.bf16 %p1, %h2, %h4; selp.u32 %r4, 1, 2, %p1;", a, b), 2);
	CHECK_INT(result_of("setp.lt.bf16x2 %p1|%p2, %r2, %r3; selp.u32 %r4, 1, 2, %p1;"
			    "@%p2 add.u32 %r4, %r4, 4;",
			  0x3fc04040, 0x4010bf00),
		6);
	CHECK_INT(result_of("set.lt.bf16x2.bf16x2 %r4, %r2, %r3;", a, b), 0x3f803f80);
	CHECK_INT(result_of(HALVES
			  "set.ge.bf16.bf16 %h5, %h1, %h3; set.le.u16.bf16 %h6, %h1, %h3;" TO_R4,
			  a, b),
		0xffff0000u);
	CHECK_INT(result_of("ex2.approx.ftz.bf16x2 %r4, %r2;", 0x40404080, 0), 0x41004180);
	CHECK_INT(result_of("tanh.approx.bf16x2 %r4, %r2;", 0x0000ff80, 0), 0x0000bf80);
	/* NaN written by a computation is the same in both formats. */
	CHECK_INT(
		result_of("fma.rn.bf16x2 %r4, %r2, %r3, %r3;", 0x7f800000, 0x00007f80), 0x7fff7fff);
}

/* A part that nobody wants. */
static void test_moves(void)
{
	CHECK_INT(
		result_of("mov.b32 {%h1, _}, %r2; mov.b32 {_, %h2}, %r3; mov.b32 %r4, {%h1, %h2};",
			0x11112222, 0x33334444),
		0x33332222);
	CHECK_INT(result_of("mov.b64 %rd3, {%r2, %r3}; mov.b64 {_, %r4}, %rd3;", 5, 6), 6);
	CHECK_INT(result_of("mov.b64 %rd3, {%r2, %r3}; mov.b64 {%h1, %h2, %h3, _}, %rd3;"
			    "mov.b32 %r4, {%h3, %h1};",
			  0x11112222, 0x33334444),
		0x22224444);
}

/* Minima and maxima that mind NaN and signs; tanh. */
static void test_choices(void)
{
	const uint32_t nan = 0x7fc00000, minus3 = bits_of(-3), two = bits_of(2);

#define WITH_F "mov.b32 %f1, %r2; mov.b32 %f2, %r3; "
#define FROM_F " mov.b32 %r4, %f3;"
	CHECK_INT(result_of(WITH_F "min.f32 %f3, %f1, %f2;" FROM_F, nan, two), two);
	CHECK(isnan((*(float *)(void *)&(uint32_t){
		result_of(WITH_F "min.NaN.f32 %f3, %f1, %f2;" FROM_F, nan, two)})));
	CHECK_INT(
		result_of(WITH_F "max.xorsign.abs.f32 %f3, %f1, %f2;" FROM_F, minus3, two), minus3);
	CHECK_INT(result_of(WITH_F "min.xorsign.abs.f32 %f3, %f1, %f2;" FROM_F, minus3, two),
		bits_of(-2));
	CHECK_INT(result_of(WITH_F "min.xorsign.abs.f32 %f3, %f1, %f2;" FROM_F, minus3, minus3),
		bits_of(3));
	CHECK_INT(result_of(WITH_F "max.ftz.NaN.f32 %f3, %f1, %f2;" FROM_F, 1, 0x80000000), 0);
	/* f16: -3 and 2, and a NaN in the lower half */
	CHECK_INT(result_of("min.xorsign.abs.f16x2 %r4, %r2, %r3;", 0xc2007e00, 0x40003c00),
		0xc0003c00u);
	CHECK_INT(result_of("max.NaN.xorsign.abs.f16x2 %r4, %r2, %r3;", 0xc2007e00, 0x40003c00),
		0xc2007fffu);
	CHECK_INT(result_of("max.bf16x2 %r4, %r2, %r3;", 0x80000000, 0x00008000), 0);
	CHECK_INT(
		result_of(WITH_F "tanh.approx.f32 %f3, %f1;" FROM_F, bits_of(-40), 0), bits_of(-1));
}

/* Both halves of a word, by many threads at once. */
static void test_atomics(void)
{
	memset(memory, 0, sizeof(memory));
	CHECK_INT(run(HEAD KERNEL "mov.b16 %h1, 0x3f80;\n"
				  "red.global.add.noftz.bf16 [%rd1+256], %h1;\n"
				  "red.global.add.noftz.bf16x2 [%rd1+260], 0x4000bf80;\n"
				  "atom.global.add.noftz.bf16 %h2, [%rd1+258], %h1; ret; }",
			  64),
		RBT_EXEC_DONE);
	CHECK_INT(memory[64], 0x42804280);
	CHECK_INT(memory[65], 0x4300c280u);
}

/* Loads and stores that others may see: every width, sign and vector. */
static void test_strong(void)
{
	for (unsigned k = 0; k < WORDS; k++) {
		memory[k] = 0x80f0c0d0;
	}
	CHECK_INT(
		run(HEAD KERNEL
			"ld.volatile.global.s8 %r4, [%rd1]; st.volatile.global.u32 [%rd1+128], %r4;\n"
			"ld.relaxed.gpu.global.u16 %r4, [%rd1]; st.release.gpu.global.u32 [%rd1+132], %r4;\n"
			"ld.acquire.sys.global.s32 %rd3, [%rd1+4]; st.volatile.global.u64 [%rd1+136], %rd3;\n"
			"ld.volatile.global.v2.u16 {%h1, %h2}, [%rd1];\n"
			"st.volatile.global.v4.u8 [%rd1+144], {%h1, %h2, %h1, 7};\n"
			"ld.volatile.global.u64 %rd3, [%rd1]; st.relaxed.sys.u16 [%rd1+150], %rd3; ret; }",
			1),
		RBT_EXEC_DONE);
	CHECK_INT(memory[32], 0xffffffd0u);
	CHECK_INT(memory[33], 0xc0d0);
	CHECK_INT(memory[34], 0x80f0c0d0u);
	CHECK_INT(memory[35], 0xffffffffu);
	CHECK_INT(memory[36], 0x07d0f0d0);
	CHECK_INT(memory[37], 0xc0d0c0d0u);
}

static void goes_wrong(enum rbt_exec_fault_kind kind, uint32_t threads, const char *text)
{
	memset(memory, 0, sizeof(memory));
	CHECK_INT(run(text, threads), RBT_EXEC_FAULT);
	CHECK_INT(last_fault.kind, kind);
}

static void hangs(uint32_t threads, const char *text)
{
	memset(memory, 0, sizeof(memory));
	CHECK_INT(run(text, threads), RBT_EXEC_BLOCKED);
}

static void ends(uint32_t threads, const char *text)
{
	memset(memory, 0, sizeof(memory));
	CHECK_INT(run(text, threads), RBT_EXEC_DONE);
}

#define FUNCTIONS                                                                                  \
	".func (.param .b32 r) one(.param .b32 a) { .reg .b32 %r<3>; ld.param.b32 %r1, [a];\n"     \
	"add.s32 %r1, %r1, 1; st.param.b32 [r], %r1; ret; }\n"                                     \
	".func (.param .b32 r) two(.param .b32 a, .param .b32 b) { .reg .b32 %r<3>;\n"             \
	"ld.param.b32 %r1, [a]; st.param.b32 [r], %r1; ret; }\n"
#define CALL(target)                                                                               \
	"{ .param .b32 arg; .param .b32 back; st.param.b32 [arg], %r1;\n" target                   \
	"p: .callprototype (.param .b32 _) _ (.param .b32 _);\n"                                   \
	"call (back), %rd3, (arg), p; ld.param.b32 %r4, [back]; }\n" END

static void test_calls(void)
{
	ends(40, HEAD FUNCTIONS KERNEL CALL("mov.u64 %rd3, one;"));
	CHECK_INT(memory[39], 40);
	/* What is no function, nothing, the middle of one; and one of another shape. */
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, 40,
		HEAD FUNCTIONS KERNEL CALL("mov.u64 %rd3, %rd1;"));
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, 40,
		HEAD FUNCTIONS KERNEL CALL("mov.u64 %rd3, 0;"));
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, 40,
		HEAD FUNCTIONS KERNEL CALL("mov.u64 %rd3, one+1;"));
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, 40,
		HEAD FUNCTIONS KERNEL CALL("mov.u64 %rd3, two;"));
	/* One lane only: it is that lane's fault. */
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, 40,
		HEAD FUNCTIONS KERNEL CALL(
			"mov.u64 %rd3, one; setp.eq.u32 %p1, %r1, 37; @%p1 mov.u64 %rd3, 64;"));
	CHECK_INT(last_fault.warp, 1);
	CHECK_INT(last_fault.lane, 5);
}

/*
 * A function that calls itself for ever, and has so many registers that its calls would take half a
 * gigabyte for a warp before the stack is full. Counts how often in the first word.
 */
static char *greedy_text(unsigned n_registers)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputs(HEAD ".func f(.param .b64 at) {\n"
		   ".reg .b32 %r<3>; .reg .b64 %rd<65000>; ld.param.b64 %rd1, [at];\n"
		   "ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;\n",
		out);
	for (unsigned k = 2; k < n_registers; k++) {
		fprintf(out, "mov.u64 %%rd%u, %%rd1;\n", k);
	}
	fputs("{ .param .b64 a; st.param.b64 [a], %rd2; call f, (a); }\nret; }\n" KERNEL
	      "{ .param .b64 a; st.param.b64 [a], %rd1; call f, (a); }\nret; }\n",
		out);
	fclose(out);
	return text;
}

static void test_greedy(unsigned n_registers, unsigned most_calls)
{
	struct rbt_exec_sm *sm = rbt_exec_sm_create(0, 1);
	struct rbt_exec_window window = {MEMORY_VA, sizeof(memory), memory, false};
	struct rbt_exec_block *block = NULL;
	struct rbt_ptx_module *module = NULL;
	struct rbt_ptx_error error = {.text = ""};
	char *text = greedy_text(n_registers);
	uint64_t param = MEMORY_VA;
	struct rbt_exec_launch launch = {.grid = {1, 1, 1},
		.block = {32, 1, 1},
		.params = &param,
		.windows = &window,
		.nwindows = 1,
		.stack_size = 1024};

	memset(memory, 0, sizeof(memory));
	CHECK_INT(rbt_ptx_parse(text, strlen(text), &module, &error), 0);
	launch.module = module;
	launch.kernel = rbt_ptx_find_entry(module, "k");
	CHECK_INT(rbt_exec_block_create(sm, &launch, (const uint32_t[3]){0, 0, 0}, &block), 0);
	CHECK_INT(rbt_exec_run(block, 10000000), RBT_EXEC_FAULT);
	CHECK_INT(rbt_exec_block_fault(block)->kind, RBT_EXEC_FAULT_STACK_OVERFLOW);
	CHECK(memory[0] > 1 && memory[0] <= most_calls);
	rbt_exec_block_destroy(block);
	rbt_ptx_module_destroy(module);
	rbt_exec_sm_destroy(sm);
	free(text);
}

/* A formal by its address: in the parameters of the call, and not one byte further. */
#define BY_ADDRESS(offset)                                                                         \
	".func (.param .b32 r) pick(.param .align 4 .b8 s[16], .param .b32 at) {\n"                \
	".reg .b32 %r<3>; .reg .b64 %rd<3>; mov.u64 %rd1, s; ld.param.b32 %r1, [at];\n"            \
	"mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; ld.param.b32 %r2, [%rd1+" offset     \
	"];\nst.param.b32 [r], %r2; ret; }\n" KERNEL                                               \
	"{ .param .align 4 .b8 s[16]; .param .b32 at; .param .b32 back; rem.u32 %r4, %r1, 4;\n"    \
	"st.param.b32 [s], 10; st.param.b32 [s+4], 11; st.param.b32 [s+8], %r1;\n"                 \
	"st.param.b32 [s+12], 13; st.param.b32 [at], %r4; call (back), pick, (s, at);\n"           \
	"ld.param.b32 %r4, [back]; }\n" END

static void test_parameters(void)
{
	ends(40, HEAD BY_ADDRESS("0"));
	CHECK_INT(memory[0], 10);
	CHECK_INT(memory[37], 11);
	CHECK_INT(memory[38], 38);
	CHECK_INT(memory[39], 13);
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_ADDRESS, 40, HEAD BY_ADDRESS("65536"));
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_ADDRESS, 40, HEAD BY_ADDRESS("-64"));
	goes_wrong(RBT_EXEC_FAULT_MISALIGNED_ADDRESS, 40, HEAD BY_ADDRESS("2"));
}

static void test_barriers(void)
{
	/* A third of each warp is gone: the rest are two warps all the same, and 40 threads too. */
	const char *partly =
		HEAD KERNEL "rem.u32 %r4, %r1, 3; setp.eq.u32 %p1, %r4, 1; @%p1 exit;\n"
			    "bar.sync 3, 64; mov.u32 %r4, 5;\n" END;

	memset(memory, 0, sizeof(memory));
	CHECK_INT(run(partly, 64), RBT_EXEC_DONE);
	CHECK_INT(memory[63], 5);
	CHECK_INT(memory[61], 0);
	CHECK_INT(run(partly, 40), RBT_EXEC_DONE);
	CHECK_INT(run(partly, 32), RBT_EXEC_BLOCKED);
	/* The last that one waits for ends instead. */
	ends(64, HEAD KERNEL "setp.gt.u32 %p1, %r1, 40; @%p1 bra W; mov.u32 %r5, 0;\n"
			     "L: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50; @%p2 bra L; exit;\n"
			     "W: bar.sync 0; mov.u32 %r4, 6;\n" END);
	CHECK_INT(memory[41], 6);
	/* arrive by a warp with lanes gone; those have no say in the reduction. */
	ends(64, HEAD KERNEL
		"setp.ge.u32 %p1, %r1, 32; @%p1 bra W; setp.lt.u32 %p2, %r1, 5; @%p2 exit;\n"
		"bar.arrive 2, 64; exit;\n"
		"W: setp.lt.u32 %p2, %r1, 100; bar.red.and.pred %p3, 2, 64, %p2;\n"
		"selp.u32 %r4, 7, 8, %p3;\n" END);
	CHECK_INT(memory[32], 7);
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, 32, HEAD KERNEL "bar.sync 0, 33; ret; }");
	goes_wrong(RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, 32,
		HEAD KERNEL "mov.u32 %r4, 16; bar.sync %r4; ret; }");
	/* Whoever waits for what never comes is seen to. */
	hangs(64, HEAD KERNEL
		"setp.ge.u32 %p1, %r1, 32; @%p1 bra W; bar.sync 0; exit; W: bar.sync 1; ret; }");
	hangs(32, HEAD KERNEL "bar.sync 1, 64; ret; }");
	hangs(32, HEAD KERNEL "setp.ge.u32 %p1, %r1, 16; @%p1 bra W; bar.warp.sync -1; exit;\n"
			      "W: vote.sync.any.pred %p2, %p1, -1; ret; }");
	/* A mask of lanes that have ended asks for nobody. */
	ends(32, HEAD KERNEL
		"setp.ge.u32 %p1, %r1, 16; @%p1 exit; vote.sync.ballot.b32 %r4, %p1, -1;\n" END);
}

int main(void)
{
	test_bf16();
	test_moves();
	test_choices();
	test_atomics();
	test_strong();
	test_calls();
	test_greedy(20000, 3);
	test_greedy(20, 32);
	test_parameters();
	test_barriers();
	return check_result();
}
