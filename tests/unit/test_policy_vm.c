/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single instructions and faults. Where the kernel runs policies, too, instructions give the same
 * results there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "test_policy_world.h"

#define MAX_CODE 64
#define N(a)     (sizeof(a) / sizeof(*(a)))

static bool has_kernel;

/* Opens and runs once; the engine and object are closed. */
static int run_on(enum rbt_engine_kind kind, const struct world *w, struct bpf_gpu_task_ctx *ctx,
	struct rbt_fault *fault)
{
	static char section[64];
	struct rbt_why why = {""};
	struct rbt_object *o = world_open(w, &why);
	struct rbt_engine *e = NULL;
	char *log = NULL;

	if (o == NULL) {
		fprintf(stderr, "refused: %s\n", why.text);
		return -EINVAL;
	}
	int r = rbt_engine_open(kind, o, NULL, &e, &why, &log);
	if (r == 0) {
		r = rbt_engine_run(e, RBT_HOOK_TASK_INIT, ctx, fault);
		snprintf(section, sizeof(section), "%s",
			fault->section != NULL ? fault->section : "");
		fault->section = section;
		rbt_engine_close(e);
	} else {
		fprintf(stderr, "%s\n%s\n", why.text, log != NULL ? log : "");
	}
	free(log);
	rbt_object_close(o);
	return r;
}

/* The value that the code leaves in r0, on both engines. It may use r6 as the context. */
#define RESULT(...)                                                                                \
	result((const struct bpf_insn[]){__VA_ARGS__},                                             \
		sizeof((const struct bpf_insn[]){__VA_ARGS__}) / sizeof(struct bpf_insn),          \
		__LINE__)
static uint64_t result(const struct bpf_insn *code, size_t n, int line)
{
	struct bpf_insn all[MAX_CODE] = {MOVX(6, 1)};
	const struct bpf_insn tail[] = {
		STORE(BPF_DW, 6, 0, offsetof(struct bpf_gpu_task_ctx, timeslice)), MOV(0, 0),
		EXIT()};
	struct bpf_gpu_task_ctx ctx[2] = {
		{.task = 0x1122334455667788}, {.task = 0x1122334455667788}};
	struct rbt_fault fault = {0};
	static struct world w;

	world_init(&w);
	memcpy(all + 1, code, n * sizeof(*code));
	memcpy(all + 1 + n, tail, sizeof(tail));
	world_code(&w, all, 1 + n + N(tail));
	int r = run_on(RBT_ENGINE_VM, &w, &ctx[0], &fault);
	if (r < 0) {
		fprintf(stderr, "line %d: %d %s\n", line, r, fault.what != NULL ? fault.what : "");
		CHECK_INT(r, 0);
	}
	if (has_kernel) {
		r = run_on(RBT_ENGINE_KERNEL, &w, &ctx[1], &fault);
		if (r < 0 || ctx[0].timeslice != ctx[1].timeslice) {
			fprintf(stderr, "line %d: kernel: %d, %llx, not %llx\n", line, r,
				ctx[1].timeslice, ctx[0].timeslice);
			CHECK(!"both engines agree");
		}
	}
	return ctx[0].timeslice;
}

static void test_alu64(void)
{
	CHECK_INT(RESULT(MOV(0, -1)), -1);
	CHECK_INT(RESULT(MOV(0, 7), ALU64_K(BPF_ADD, 0, -9)), -2);
	CHECK_INT(RESULT(MOV(0, 7), MOV(2, 9), ALU64_X(BPF_SUB, 0, 2)), -2);
	CHECK_INT(RESULT(MOV(0, -7), ALU64_K(BPF_MUL, 0, 6)), -42);
	CHECK_INT(RESULT(MOV(0, -7), ALU64_K(BPF_DIV, 0, 2)), (uint64_t)-7 / 2);
	CHECK_INT(RESULT(MOV(0, 7), MOV(2, 0), ALU64_X(BPF_DIV, 0, 2)), 0);
	CHECK_INT(RESULT(MOV(0, 7), MOV(2, 0), ALU64_X(BPF_MOD, 0, 2)), 7);
	CHECK_INT(RESULT(MOV(0, -7), ALU64_K(BPF_MOD, 0, 10)), (uint64_t)-7 % 10);
	CHECK_INT(RESULT(MOV(0, 0x0f), ALU64_K(BPF_OR, 0, 0xf0)), 0xff);
	CHECK_INT(RESULT(MOV(0, 0xff), ALU64_K(BPF_AND, 0, -16)), 0xf0);
	CHECK_INT(RESULT(MOV(0, 1), ALU64_K(BPF_LSH, 0, 63)), INT64_MIN);
	CHECK_INT(RESULT(MOV(0, 1), MOV(2, 65), ALU64_X(BPF_LSH, 0, 2)), 2);
	CHECK_INT(RESULT(MOV(0, -1), ALU64_K(BPF_RSH, 0, 60)), 15);
	CHECK_INT(RESULT(MOV(0, -16), ALU64_K(BPF_ARSH, 0, 2)), -4);
	CHECK_INT(RESULT(MOV(0, 5), ALU64_K(BPF_NEG, 0, 0)), -5);
	CHECK_INT(RESULT(MOV(0, 5), ALU64_K(BPF_XOR, 0, -1)), -6);
	CHECK_INT(RESULT(LDDW(0, 0, 0x89abcdef, 0x01234567)), 0x0123456789abcdef);
}

static void test_alu32(void)
{
	CHECK_INT(RESULT(ALU32_K(BPF_MOV, 0, -1)), 0xffffffff);
	CHECK_INT(RESULT(MOV(0, -1), ALU32_K(BPF_ADD, 0, 2)), 1);
	CHECK_INT(RESULT(MOV(0, 1), MOV(2, -2), ALU32_X(BPF_SUB, 0, 2)), 3);
	CHECK_INT(RESULT(MOV(0, -1), ALU32_K(BPF_MUL, 0, 3)), 0xfffffffd);
	CHECK_INT(RESULT(MOV(0, -8), ALU32_K(BPF_DIV, 0, 2)), 0x7ffffffc);
	CHECK_INT(RESULT(MOV(0, -8), MOV(2, 0), ALU32_X(BPF_DIV, 0, 2)), 0);
	CHECK_INT(RESULT(MOV(0, -8), MOV(2, 0), ALU32_X(BPF_MOD, 0, 2)), 0xfffffff8);
	CHECK_INT(RESULT(MOV(0, -1), ALU32_K(BPF_LSH, 0, 31)), 0x80000000);
	CHECK_INT(RESULT(MOV(0, 1), MOV(2, 33), ALU32_X(BPF_LSH, 0, 2)), 2);
	CHECK_INT(RESULT(MOV(0, -1), ALU32_K(BPF_RSH, 0, 28)), 15);
	CHECK_INT(RESULT(MOV(0, -16), ALU32_K(BPF_ARSH, 0, 2)), 0xfffffffc);
	CHECK_INT(RESULT(MOV(0, 5), ALU32_K(BPF_NEG, 0, 0)), 0xfffffffb);
	CHECK_INT(RESULT(MOV(0, -1), ALU32_K(BPF_XOR, 0, 1)), 0xfffffffe);
	CHECK_INT(RESULT(MOV(0, -1), ALU32_K(BPF_AND, 0, -2)), 0xfffffffe);
	CHECK_INT(RESULT(MOV(0, 0), ALU32_K(BPF_OR, 0, -2)), 0xfffffffe);
}

static void test_byte_order(void)
{
#define SWAP(to, bits) INSN(BPF_ALU | BPF_END | (to), 0, 0, 0, bits)
#define PATTERN        LDDW(0, 0, 0x05060708, 0x01020304)
	CHECK_INT(RESULT(PATTERN, SWAP(BPF_TO_BE, 16)), 0x0807);
	CHECK_INT(RESULT(PATTERN, SWAP(BPF_TO_BE, 32)), 0x08070605);
	CHECK_INT(RESULT(PATTERN, SWAP(BPF_TO_BE, 64)), 0x0807060504030201);
	CHECK_INT(RESULT(PATTERN, SWAP(BPF_TO_LE, 16)), 0x0708);
	CHECK_INT(RESULT(PATTERN, SWAP(BPF_TO_LE, 32)), 0x05060708);
	CHECK_INT(RESULT(PATTERN, SWAP(BPF_TO_LE, 64)), 0x0102030405060708);
}

/* 1 if the jump is taken. */
#define TAKEN(a, jump)     RESULT(MOV(2, a), MOV(0, 1), jump, MOV(0, 0))
#define TAKEN2(a, b, jump) RESULT(MOV(2, a), MOV(3, b), MOV(0, 1), jump, MOV(0, 0))

static void test_jumps(void)
{
	static const struct {
		int op, a, b, is_taken, is_taken32;
	} cases[] = {{BPF_JEQ, 5, 5, 1, 1}, {BPF_JEQ, 5, 6, 0, 0}, {BPF_JNE, 5, 6, 1, 1},
		{BPF_JNE, 5, 5, 0, 0}, {BPF_JGT, -1, 5, 1, 1}, {BPF_JGT, 5, 5, 0, 0},
		{BPF_JGE, 5, 5, 1, 1}, {BPF_JGE, 4, 5, 0, 0}, {BPF_JLT, 5, -1, 1, 1},
		{BPF_JLT, 5, 5, 0, 0}, {BPF_JLE, 5, 5, 1, 1}, {BPF_JLE, -1, 5, 0, 0},
		{BPF_JSGT, 5, -1, 1, 1}, {BPF_JSGT, -1, 5, 0, 0}, {BPF_JSGE, -1, -1, 1, 1},
		{BPF_JSGE, -2, -1, 0, 0}, {BPF_JSLT, -1, 5, 1, 1}, {BPF_JSLT, 5, -1, 0, 0},
		{BPF_JSLE, -1, -1, 1, 1}, {BPF_JSLE, 5, -1, 0, 0}, {BPF_JSET, 6, 2, 1, 1},
		{BPF_JSET, 6, 1, 0, 0}};

	for (size_t i = 0; i < N(cases); i++) {
		const int op = cases[i].op, a = cases[i].a, b = cases[i].b;
		CHECK_INT(TAKEN(a, JUMP_K(op, 2, b, 1)), cases[i].is_taken);
		CHECK_INT(TAKEN2(a, b, JUMP_X(op, 2, 3, 1)), cases[i].is_taken);
		CHECK_INT(TAKEN(a, JUMP32_K(op, 2, b, 1)), cases[i].is_taken32);
		CHECK_INT(TAKEN2(a, b, JUMP32_X(op, 2, 3, 1)), cases[i].is_taken32);
	}
	/* The upper half counts in 64 bits only. */
	CHECK_INT(RESULT(LDDW(2, 0, 5, 1), MOV(0, 1), JUMP_K(BPF_JEQ, 2, 5, 1), MOV(0, 0)), 0);
	CHECK_INT(RESULT(LDDW(2, 0, 5, 1), MOV(0, 1), JUMP32_K(BPF_JEQ, 2, 5, 1), MOV(0, 0)), 1);
	/* Backwards, ten times. */
	CHECK_INT(RESULT(MOV(0, 0), MOV(2, 10), ALU64_K(BPF_ADD, 0, 3), ALU64_K(BPF_SUB, 2, 1),
			  JUMP_K(BPF_JNE, 2, 0, -3)),
		30);
	CHECK_INT(RESULT(MOV(0, 1), JUMP_K(BPF_JEQ, 0, 0, 1), GOTO(1), MOV(0, 2)), 1);
}

static void test_memory(void)
{
	CHECK_INT(RESULT(LOAD(BPF_DW, 0, 6, 0)), 0x1122334455667788);
	CHECK_INT(RESULT(STORE_K(BPF_DW, 10, -8, -2), LOAD(BPF_DW, 0, 10, -8)), -2);
	CHECK_INT(RESULT(STORE_K(BPF_DW, 10, -8, -2), LOAD(BPF_W, 0, 10, -8)), 0xfffffffe);
	CHECK_INT(RESULT(STORE_K(BPF_DW, 10, -8, -2), LOAD(BPF_H, 0, 10, -8)), 0xfffe);
	CHECK_INT(RESULT(STORE_K(BPF_DW, 10, -8, -2), LOAD(BPF_B, 0, 10, -8)), 0xfe);
	CHECK_INT(RESULT(STORE_K(BPF_DW, 10, -512, 0), STORE_K(BPF_W, 10, -508, -1),
			  LOAD(BPF_DW, 0, 10, -512)),
		(int64_t)0xffffffff00000000);
	CHECK_INT(RESULT(STORE_K(BPF_DW, 10, -8, 0), STORE_K(BPF_H, 10, -6, -1),
			  STORE_K(BPF_B, 10, -1, 1), LOAD(BPF_DW, 0, 10, -8)),
		0x01000000ffff0000);
	CHECK_INT(
		RESULT(MOV(2, -1), STORE_K(BPF_DW, 10, -8, 0), STORE(BPF_B, 10, 2, -8),
			STORE(BPF_H, 10, 2, -6), STORE(BPF_W, 10, 2, -4), LOAD(BPF_DW, 0, 10, -8)),
		(int64_t)0xffffffffffff00ff);
}

/* An atomic operation on a word of the stack, whose old value is 0xf0: the new value and r2. */
#define ATOMIC_NEW(sz, op)                                                                         \
	RESULT(STORE_K(BPF_DW, 10, -8, 0xf0), MOV(2, 0x3c), MOV(0, 0xf0),                          \
		ATOMIC(sz, op, 10, 2, -8), LOAD(BPF_DW, 0, 10, -8))
#define ATOMIC_OLD(sz, op)                                                                         \
	RESULT(STORE_K(BPF_DW, 10, -8, 0xf0), MOV(2, 0x3c), ATOMIC(sz, op, 10, 2, -8), MOVX(0, 2))

static void test_atomics(void)
{
	static const uint8_t sizes[] = {BPF_W, BPF_DW};

	for (size_t i = 0; i < N(sizes); i++) {
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_ADD), 0x12c);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_OR), 0xfc);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_AND), 0x30);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_XOR), 0xcc);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_ADD | BPF_FETCH), 0x12c);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_OR | BPF_FETCH), 0xfc);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_AND | BPF_FETCH), 0x30);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_XOR | BPF_FETCH), 0xcc);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_XCHG), 0x3c);
		CHECK_INT(ATOMIC_NEW(sizes[i], BPF_CMPXCHG), 0x3c);
		CHECK_INT(ATOMIC_OLD(sizes[i], BPF_ADD), 0x3c);
		CHECK_INT(ATOMIC_OLD(sizes[i], BPF_ADD | BPF_FETCH), 0xf0);
		CHECK_INT(ATOMIC_OLD(sizes[i], BPF_XCHG), 0xf0);
		CHECK_INT(RESULT(STORE_K(BPF_DW, 10, -8, 5), MOV(0, 6), MOV(2, 7),
				  ATOMIC(sizes[i], BPF_CMPXCHG, 10, 2, -8)),
			5);
	}
	/* 32 bits do not carry. */
	CHECK_INT(RESULT(STORE_K(BPF_W, 10, -8, -1), STORE_K(BPF_W, 10, -4, 1), MOV(2, 1),
			  ATOMIC(BPF_W, BPF_ADD, 10, 2, -8), LOAD(BPF_DW, 0, 10, -8)),
		0x100000000);
}

static void test_calls(void)
{
	static struct world w;
	struct bpf_gpu_task_ctx ctx = {.task = 20};
	struct rbt_fault fault = {0};
	const struct bpf_insn code[] = {MOVX(6, 1), MOV(7, 1000), STORE_K(BPF_DW, 10, -8, 3),
		LOAD(BPF_DW, 1, 6, 0), MOVX(2, 10), ALU64_K(BPF_ADD, 2, -8), CALL(-1),
		ALU64_X(BPF_ADD, 0, 7), STORE(BPF_DW, 6, 0, 80), MOV(0, 0), EXIT()};
	/* Uses the caller's stack, a stack and registers of its own. */
	const struct bpf_insn text[] = {MOV(7, 5), STORE_K(BPF_DW, 10, -8, 100),
		LOAD(BPF_DW, 0, 2, 0), ALU64_X(BPF_ADD, 0, 1), LOAD(BPF_DW, 3, 10, -8),
		ALU64_X(BPF_ADD, 0, 3), EXIT()};

	world_init(&w);
	world_code(&w, code, N(code));
	memcpy(w.text, text, sizeof(text));
	w.n_text = N(text);
	world_rel(&w, 6, WORLD_SYM_SUB, 10);
	CHECK_INT(run_on(RBT_ENGINE_VM, &w, &ctx, &fault), 0);
	CHECK_INT(ctx.timeslice, 1123);
	w.rels[0].symbol = WORLD_SYM_TEXT; /* the section: the place is in the instruction */
	ctx.timeslice = 0;
	CHECK_INT(run_on(RBT_ENGINE_VM, &w, &ctx, &fault), 0);
	CHECK_INT(ctx.timeslice, 1123);
}

/* Runs code that ends with a fault; returns its instruction. */
#define FAULT_AT(kind, ...)                                                                        \
	fault_at(kind, (const struct bpf_insn[]){__VA_ARGS__},                                     \
		sizeof((const struct bpf_insn[]){__VA_ARGS__}) / sizeof(struct bpf_insn), -1, 0)
#define FAULT_REL(kind, insn, symbol, ...)                                                         \
	fault_at(kind, (const struct bpf_insn[]){__VA_ARGS__},                                     \
		sizeof((const struct bpf_insn[]){__VA_ARGS__}) / sizeof(struct bpf_insn), insn,    \
		symbol)
static int64_t fault_at(
	enum rbt_fault_kind kind, const struct bpf_insn *code, size_t n, int insn, unsigned symbol)
{
	struct bpf_gpu_task_ctx ctx = {.task = 7}, before = ctx;
	struct rbt_fault fault = {0};
	static struct world w;

	world_init(&w);
	world_code(&w, code, n);
	if (insn >= 0) {
		world_rel(&w, (uint32_t)insn, symbol, 1);
	}
	CHECK_INT(run_on(RBT_ENGINE_VM, &w, &ctx, &fault), -EFAULT);
	CHECK_INT(fault.kind, kind);
	CHECK(memcmp(&ctx, &before, sizeof(ctx)) == 0);
	CHECK(strcmp(fault.section, "gpu_sched/task_init") == 0);
	return fault.pc;
}

#define END MOV(0, 0), EXIT()

static void test_access_faults(void)
{
	const enum rbt_fault_kind f = RBT_FAULT_ACCESS;

	CHECK_INT(FAULT_AT(f, MOV(2, 0), LOAD(BPF_B, 0, 2, 0), END), 1);
	CHECK_INT(FAULT_AT(f, MOV(2, -1), LOAD(BPF_B, 0, 2, 0), END), 1);
	CHECK_INT(FAULT_AT(f, LOAD(BPF_DW, 0, 1, 97), END), 0);
	CHECK_INT(FAULT_AT(f, LOAD(BPF_B, 0, 1, 104), END), 0);
	CHECK_INT(FAULT_AT(f, LOAD(BPF_B, 0, 1, -1), END), 0);
	CHECK_INT(FAULT_AT(f, STORE_K(BPF_B, 1, 104, 0), END), 0);
	CHECK_INT(FAULT_AT(f, LOAD(BPF_B, 0, 10, 0), END), 0);
	CHECK_INT(FAULT_AT(f, LOAD(BPF_DW, 0, 10, -7), END), 0);
	CHECK_INT(FAULT_AT(f, LOAD(BPF_B, 0, 10, -513), END), 0);
	CHECK_INT(FAULT_AT(f, STORE_K(BPF_DW, 10, -513, 1), END), 0);
	/* The frame of a function that is not running. */
	CHECK_INT(FAULT_AT(f, LDDW(2, 0, 0, 2), LOAD(BPF_B, 0, 2, 0), END), 2);
	/* Addresses of this process. */
	CHECK_INT(FAULT_AT(f, LDDW(2, 0, 0x00400000, 0), LOAD(BPF_B, 0, 2, 0), END), 2);
	CHECK_INT(FAULT_AT(f, LDDW(2, 0, 0, 0x7fff), LOAD(BPF_B, 0, 2, 0), END), 2);
	CHECK_INT(FAULT_AT(f, MOV(2, 1), ATOMIC(BPF_DW, BPF_ADD, 10, 2, -12), END), 1);
	/* A map itself is no memory, and constants cannot be written. */
	CHECK_INT(FAULT_REL(f, 0, WORLD_SYM_MAP, LDDW(2, 0, 0, 0), LOAD(BPF_B, 0, 2, 0), END), 2);
	CHECK_INT(
		FAULT_REL(f, 0, WORLD_SYM_ABI, LDDW(2, 0, 0, 0), STORE_K(BPF_W, 2, 0, 9), END), 2);
	CHECK_INT(FAULT_REL(f, 0, WORLD_SYM_DATA, LDDW(2, 0, 0, 0), LOAD(BPF_B, 0, 2, 8), END), 2);
	CHECK_INT(FAULT_REL(f, 0, WORLD_SYM_DATA, LDDW(2, 0, 0, 0), LOAD(BPF_B, 0, 2, -1), END), 2);
}

/* r0 = the second element of the array, which has 12 bytes. */
#define SECOND_ELEMENT                                                                             \
	LDDW(1, 0, 0, 0), STORE_K(BPF_W, 10, -4, 1), MOVX(2, 10), ALU64_K(BPF_ADD, 2, -4),         \
		HELPER(BPF_FUNC_map_lookup_elem)

static void test_element_faults(void)
{
	const enum rbt_fault_kind f = RBT_FAULT_ACCESS;
	const unsigned array = WORLD_SYM_MAP;

	CHECK_INT(FAULT_REL(f, 0, array, SECOND_ELEMENT, LOAD(BPF_W, 3, 0, 12), END), 6);
	CHECK_INT(FAULT_REL(f, 0, array, SECOND_ELEMENT, LOAD(BPF_DW, 3, 0, 5), END), 6);
	CHECK_INT(FAULT_REL(f, 0, array, SECOND_ELEMENT, LOAD(BPF_B, 3, 0, -1), END), 6);
	CHECK_INT(FAULT_REL(f, 0, array, SECOND_ELEMENT, STORE_K(BPF_B, 0, 15, 0), END), 6);
	/* The fifth element of four. */
	CHECK_INT(FAULT_REL(f, 0, array, SECOND_ELEMENT, LOAD(BPF_B, 3, 0, 48), END), 6);
}

static void test_helper_faults(void)
{
	const enum rbt_fault_kind f = RBT_FAULT_ACCESS;
	const unsigned array = WORLD_SYM_MAP, ring = WORLD_SYM_MAP + 3;

	CHECK_INT(FAULT_AT(f, MOVX(2, 1), HELPER(BPF_FUNC_map_lookup_elem), END), 1);
	CHECK_INT(FAULT_REL(f, 0, array, LDDW(1, 0, 0, 0), MOV(2, 0),
			  HELPER(BPF_FUNC_map_lookup_elem), END),
		3);
	CHECK_INT(FAULT_REL(f, 0, array, LDDW(1, 0, 0, 0), MOVX(2, 10), ALU64_K(BPF_ADD, 2, -3),
			  HELPER(BPF_FUNC_map_delete_elem), END),
		4);
	CHECK_INT(FAULT_REL(f, 0, array, LDDW(1, 0, 0, 0), ALU64_K(BPF_ADD, 1, 8), MOVX(2, 10),
			  ALU64_K(BPF_ADD, 2, -8), HELPER(BPF_FUNC_map_lookup_elem), END),
		5);
	CHECK_INT(FAULT_REL(f, 0, array, LDDW(1, 0, 0, 0), MOVX(2, 10), ALU64_K(BPF_ADD, 2, -8),
			  MOVX(3, 2), MOV(4, 0), HELPER(BPF_FUNC_map_update_elem), END),
		6);
	CHECK_INT(FAULT_REL(f, 0, ring, LDDW(1, 0, 0, 0), MOVX(2, 10), ALU64_K(BPF_ADD, 2, -8),
			  HELPER(BPF_FUNC_map_lookup_elem), END),
		4);
	CHECK_INT(FAULT_REL(f, 0, array, LDDW(1, 0, 0, 0), MOV(2, 8), MOV(3, 0),
			  HELPER(BPF_FUNC_ringbuf_reserve), END),
		4);
	CHECK_INT(FAULT_REL(f, 0, ring, LDDW(1, 0, 0, 0), MOVX(2, 10), ALU64_K(BPF_ADD, 2, -8),
			  MOV(3, 9), MOV(4, 0), HELPER(BPF_FUNC_ringbuf_output), END),
		6);
	CHECK_INT(FAULT_AT(f, MOV(2, 0), HELPER(BPF_FUNC_ringbuf_submit), END), 1);
	/* A reserved record that is left, and one whose end is passed. */
	CHECK_INT(FAULT_REL(f, 0, ring, LDDW(1, 0, 0, 0), MOV(2, 8), MOV(3, 0),
			  HELPER(BPF_FUNC_ringbuf_reserve), END),
		6);
	CHECK_INT(FAULT_REL(f, 0, ring, LDDW(1, 0, 0, 0), MOV(2, 8), MOV(3, 0),
			  HELPER(BPF_FUNC_ringbuf_reserve), STORE_K(BPF_DW, 0, 1, 0), END),
		5);
}

static void test_limits(void)
{
	static struct world w;
	struct bpf_gpu_task_ctx ctx = {.task = 20};
	struct rbt_fault fault = {0};
	const struct bpf_insn code[] = {CALL(-1), EXIT()}, text[] = {CALL(-1), EXIT()};
	char line[128];

	FAULT_AT(RBT_FAULT_FUEL, GOTO(-1), END);
	CHECK_INT(FAULT_AT(RBT_FAULT_RETURNED, MOV(0, -7), EXIT()), 0);
	world_init(&w);
	world_code(&w, code, N(code));
	memcpy(w.text, text, sizeof(text));
	w.n_text = N(text);
	world_rel(&w, 0, WORLD_SYM_SUB, 10);
	CHECK_INT(run_on(RBT_ENGINE_VM, &w, &ctx, &fault), -EFAULT);
	CHECK_INT(fault.kind, RBT_FAULT_ACCESS);
	CHECK(strcmp(fault.section, ".text") == 0);
	rbt_fault_format(&fault, line, sizeof(line));
	CHECK(strcmp(line, "section .text: instruction 0: calls are nested too deeply") == 0);
}

/* An engine works after a fault as before it. */
static void test_after_fault(void)
{
	static struct world w;
	char line[16];
	struct rbt_fault fault = {0};
	struct rbt_why why = {""};
	const struct bpf_insn code[] = {LOAD(BPF_DW, 2, 1, 0), MOVX(6, 1),
		STORE_K(BPF_DW, 10, -8, 9), JUMP_K(BPF_JEQ, 2, 1, 2), MOV(0, 0), EXIT(),
		LDDW(1, 0, 0, 0), MOV(2, 8), MOV(3, 0), HELPER(BPF_FUNC_ringbuf_reserve),
		LOAD(BPF_DW, 0, 10, 0), EXIT()};

	world_init(&w);
	world_code(&w, code, N(code));
	world_rel(&w, 6, WORLD_SYM_MAP + 3, 1);
	struct rbt_object *o = world_open(&w, &why);
	struct rbt_engine *e = NULL;
	CHECK(o != NULL && rbt_engine_open(RBT_ENGINE_VM, o, NULL, &e, &why, NULL) == 0);
	if (e == NULL) {
		return;
	}
	for (int i = 0; i < 1000; i++) {
		struct bpf_gpu_task_ctx ctx = {.task = (uint64_t)i & 1};
		CHECK_INT(rbt_engine_run(e, RBT_HOOK_TASK_INIT, &ctx, &fault), i & 1 ? -EFAULT : 0);
		/* The record that was reserved has been discarded. */
		CHECK_INT(rbt_engine_read_ring(
				  e, (unsigned)rbt_object_find_map(o, "ring"), line, sizeof(line)),
			-EAGAIN);
	}
	CHECK_INT(rbt_engine_run(e, RBT_HOOK_TICK, &w, &fault), -ENOENT);
	rbt_engine_close(e);
	rbt_object_close(o);
}

int main(void)
{
	const char *why = rbt_engine_why_not(RBT_ENGINE_KERNEL);

	has_kernel = why == NULL;
	if (!has_kernel) {
		printf("SKIP: the kernel engine: %s\n", why);
	}
	test_alu64();
	test_alu32();
	test_byte_order();
	test_jumps();
	test_memory();
	test_atomics();
	test_calls();
	test_access_faults();
	test_element_faults();
	test_helper_faults();
	test_limits();
	test_after_fault();
	return check_result();
}
