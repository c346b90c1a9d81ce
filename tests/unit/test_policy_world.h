/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes objects of policies without a compiler: one hook, one subprogram, maps with their BTF, and
 * the relocations between them. Tests change what they want to be wrong, before or after the object
 * has been built.
 */
#ifndef RBT_TEST_POLICY_WORLD_H
#define RBT_TEST_POLICY_WORLD_H

#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/engine.h"

#define INSN(c, d, s, o, i)                                                                        \
	((struct bpf_insn){.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)})
#define ALU64_K(op, d, i) INSN(BPF_ALU64 | (op) | BPF_K, d, 0, 0, i)
#define ALU64_X(op, d, s) INSN(BPF_ALU64 | (op) | BPF_X, d, s, 0, 0)
#define ALU32_K(op, d, i) INSN(BPF_ALU | (op) | BPF_K, d, 0, 0, i)
#define ALU32_X(op, d, s) INSN(BPF_ALU | (op) | BPF_X, d, s, 0, 0)
#define MOV(d, i)         ALU64_K(BPF_MOV, d, i)
#define MOVX(d, s)        ALU64_X(BPF_MOV, d, s)
#define LDDW(d, s, lo, hi)                                                                         \
	INSN(BPF_LD | BPF_IMM | BPF_DW, d, s, 0, (int32_t)(lo)), INSN(0, 0, 0, 0, (int32_t)(hi))
#define LOAD(sz, d, s, o)       INSN(BPF_LDX | BPF_MEM | (sz), d, s, o, 0)
#define STORE(sz, d, s, o)      INSN(BPF_STX | BPF_MEM | (sz), d, s, o, 0)
#define STORE_K(sz, d, o, i)    INSN(BPF_ST | BPF_MEM | (sz), d, 0, o, i)
#define ATOMIC(sz, op, d, s, o) INSN(BPF_STX | BPF_ATOMIC | (sz), d, s, o, op)
#define JUMP_K(op, d, i, o)     INSN(BPF_JMP | (op) | BPF_K, d, 0, o, i)
#define JUMP_X(op, d, s, o)     INSN(BPF_JMP | (op) | BPF_X, d, s, o, 0)
#define JUMP32_K(op, d, i, o)   INSN(BPF_JMP32 | (op) | BPF_K, d, 0, o, i)
#define JUMP32_X(op, d, s, o)   INSN(BPF_JMP32 | (op) | BPF_X, d, s, o, 0)
#define GOTO(o)                 JUMP_K(BPF_JA, 0, 0, o)
#define HELPER(id)              INSN(BPF_JMP | BPF_CALL, 0, 0, 0, id)
#define CALL(i)                 INSN(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, i)
#define EXIT()                  INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* Sections of the file, by number. */
enum {
	WORLD_STRTAB = 1,
	WORLD_CODE,
	WORLD_REL,
	WORLD_TEXT,
	WORLD_RODATA,
	WORLD_DATA,
	WORLD_MAPS,
	WORLD_LICENSE,
	WORLD_BTF,
	WORLD_SYMTAB,
	WORLD_N_SECTIONS
};

/* Symbols, by number; those of maps follow. */
enum {
	WORLD_SYM_HOOK = 1,
	WORLD_SYM_SUB,
	WORLD_SYM_ABI,
	WORLD_SYM_DATA,
	WORLD_SYM_EXTERN,
	WORLD_SYM_TEXT,     /* the section */
	WORLD_SYM_CONSTANT, /* the 8 bytes behind the ABI */
	WORLD_SYM_MAP
};

#define WORLD_MAX_CODE 512
#define WORLD_MAX_MAPS 70

struct world_map {
	const char *name;
	uint32_t type, key_size, value_size, max_entries, flags;
	const char *extra; /* one more attribute, with the value 1 */
};

struct world_rel {
	uint32_t insn, symbol, type;
};

struct world {
	const char *section; /* of the hook */
	struct bpf_insn code[WORLD_MAX_CODE], text[64];
	size_t n_code, n_text;
	struct world_rel rels[16];
	size_t n_rels;
	struct world_map maps[WORLD_MAX_MAPS];
	size_t n_maps;
	uint32_t abi;
	bool has_extern; /* WORLD_SYM_EXTERN is not defined; libbpf minds even if it is unused */
	uint64_t data;   /* the variable in .data */
	uint64_t n_data; /* bytes of .data */
	uint32_t btf_wrong_type; /* 0, or the type of the first map's variable */
};

/* A hook in gpu_sched/task_init that does nothing, and one map of each type. */
void world_init(struct world *w);
/* Sets the hook's code. */
void world_code(struct world *w, const struct bpf_insn *code, size_t n);
/* The instruction `insn` refers to a symbol: type 1 an address, 10 a call. */
void world_rel(struct world *w, uint32_t insn, uint32_t symbol, uint32_t type);

struct world_file {
	unsigned char bytes[131072];
	size_t size;
};
void world_build(const struct world *w, struct world_file *ret);
/* The header of a section in a file that was built. */
void *world_section(struct world_file *f, unsigned section);
/* The first byte of its contents. */
void *world_bytes(struct world_file *f, unsigned section);

/* Builds and opens; NULL and `why` if it is refused. */
struct rbt_object *world_open(const struct world *w, struct rbt_why *why);

/* Reads a whole file; exits if it cannot. The caller frees it. */
unsigned char *world_read_file(const char *folder, const char *name, size_t *ret_size);

#endif
