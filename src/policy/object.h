/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy's object file, read and checked. Objects come from users and are not trusted: whatever
 * the bytes are, rbt_object_open() refuses them with one line, or returns an object with which
 * these rules hold. Both engines rely on them.
 * - Code consists of functions. Every instruction is known, names existing registers, and jumps
 *   stay within their function and end at the beginning of an instruction.
 * - A call goes to the beginning of a function or to a helper of the allow list (check.c).
 * - A reference to a map or to global data names an existing map, and an offset inside it.
 * - Maps have an allowed type, sensible sizes and no pinning; all together have at most
 *   RBT_OBJECT_MAX_BYTES.
 */
#ifndef RBT_POLICY_OBJECT_H
#define RBT_POLICY_OBJECT_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/hook.h"
#include "policy/typeinfo.h"
#include "policy/why.h"
#include "rubato/policy_abi.h"
#include "util/elfread.h"

#define RBT_OBJECT_MAX_FILE  (16u << 20)
#define RBT_OBJECT_MAX_BYTES (16u << 20) /* all maps of one object together */
#define RBT_OBJECT_MAX_MAPS  64
#define RBT_OBJECT_MAX_CODE  65536 /* instructions */
#define RBT_OBJECT_NAME_SIZE 64

/* The ring of gpu_sched_log(), if the policy has one. */
#define RBT_OBJECT_LOG_RING "gpu_sched_log_ring"

struct rbt_object_map {
	char name[RBT_OBJECT_NAME_SIZE]; /* of global data: its section, such as .bss */
	uint32_t type, key_size, value_size, max_entries, flags;
	uint32_t key_btf, value_btf; /* type ids, or 0 */
	uint64_t bytes;              /* the memory that counts against RBT_OBJECT_MAX_BYTES */
	bool is_data;                /* global data: one value, which begins as `initial` */
	bool is_read_only;           /* .rodata: the policy itself cannot write it */
	unsigned char *initial;      /* value_size bytes; NULL unless is_data */
	unsigned section;            /* where the map is in the file */
	uint64_t offset;
};

struct rbt_object_function {
	char name[RBT_OBJECT_NAME_SIZE];
	char section_name[RBT_OBJECT_NAME_SIZE];
	unsigned section;
	uint32_t in_section; /* its first instruction, counted from the section's beginning */
	uint32_t start, n;   /* its instructions in rbt_object.code */
	enum rbt_hook hook;  /* RBT_N_HOOKS: a subprogram */
};

/*
 * The code of all functions. References are resolved in it:
 * - lddw with src_reg BPF_PSEUDO_MAP_FD: imm is an index into maps;
 * - lddw with src_reg BPF_PSEUDO_MAP_VALUE: the same, and the second imm is an offset;
 * - call with src_reg BPF_PSEUDO_CALL: imm is relative to the next instruction of `code`.
 */
struct rbt_object {
	unsigned char *file; /* a copy, for libbpf */
	size_t size;
	struct rbt_elf elf;
	const Elf64_Sym *symbols; /* in `file` */
	size_t n_symbols;
	const char *names; /* of symbols, in `file`; end with NUL */
	size_t names_size;
	struct rbt_btf btf;
	struct bpf_insn *code;
	uint32_t n_code;
	struct rbt_object_function *functions;
	size_t n_functions;
	struct rbt_object_map maps[RBT_OBJECT_MAX_MAPS];
	size_t n_maps;
	int hooks[RBT_N_HOOKS];   /* index of a function, or -1 */
	struct gpu_sched_ops ops; /* strings end with NUL */
	char license[64];
};

/* Reads an object. The bytes are copied. -ENOMEM, -EINVAL if it is refused, -ENOEXEC if it is no
 * object for BPF at all; `why` then has one line. Otherwise *ret must be closed. */
int rbt_object_open(const void *data, size_t size, struct rbt_object **ret, struct rbt_why *why);
/* Accepts NULL. */
void rbt_object_close(struct rbt_object *o);

/*
 * Sets a `const volatile` variable: "NAME=VALUE", before an engine is opened. VALUE is a number
 * (decimal or 0x…), true or false, or the name of an enumerator. -ENOENT: there is no such
 * variable; -EINVAL or -ERANGE: it cannot have this value.
 */
int rbt_object_set(struct rbt_object *o, const char *assignment, struct rbt_why *why);

/* The index of a map, or -1. */
int rbt_object_find_map(const struct rbt_object *o, const char *name);
/* The function that an instruction of `code` belongs to. */
const struct rbt_object_function *rbt_object_function_at(const struct rbt_object *o, uint32_t at);

/* For the files of this folder. */

/* Bytes of a section; NULL if they are not all in the file. A section without bytes has none. */
const unsigned char *rbt_object_section_bytes(const struct rbt_object *o, unsigned section);
/* Never NULL. */
const char *rbt_object_symbol_name(const struct rbt_object *o, const Elf64_Sym *symbol);
/* A variable of this name in this section, or NULL. */
const Elf64_Sym *rbt_object_find_symbol(
	const struct rbt_object *o, unsigned section, const char *name);
/* maps.c: the maps of the section .maps, and the limit for all of them. */
int rbt_object_read_maps(struct rbt_object *o, unsigned section, struct rbt_why *why);
int rbt_object_check_maps(struct rbt_object *o, struct rbt_why *why);
/* reloc.c: resolves the references. */
int rbt_object_relocate(struct rbt_object *o, struct rbt_why *why);
/* check.c: the rules for code. */
int rbt_object_check_code(const struct rbt_object *o, struct rbt_why *why);

#endif
