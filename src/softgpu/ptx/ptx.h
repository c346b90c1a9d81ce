/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses PTX text, as clang writes it, to its decoded form (ir.h). The text is untrusted: parsing
 * any text takes time and memory linear in its size and ends with a module or one message.
 */
#ifndef RBT_SOFTGPU_PTX_PTX_H
#define RBT_SOFTGPU_PTX_PTX_H

#include <stdio.h>

#include "softgpu/ptx/ir.h"

struct rbt_ptx_error {
	unsigned line;  /* 0: not about a line */
	char text[192]; /* "line N: what is wrong or not supported", without a newline */
};

/*
 * `text` need not end with a NUL, but a NUL ends it; it is not kept. `error` may be NULL. -EINVAL:
 * not PTX, -ENOTSUP: PTX that is not supported, -E2BIG: over a limit, -ENOMEM.
 */
int rbt_ptx_parse(const char *text, size_t size, struct rbt_ptx_module **ret_module,
	struct rbt_ptx_error *error);
void rbt_ptx_module_destroy(struct rbt_ptx_module *module);

/* By name; NULL or RBT_PTX_NO_INDEX: there is none. An entry always has a body. */
const struct rbt_ptx_function *rbt_ptx_find_entry(
	const struct rbt_ptx_module *module, const char *name);
uint32_t rbt_ptx_find_variable(const struct rbt_ptx_module *module, const char *name);

/* The function at an address made by RBT_PTX_FUNC_ADDRESS, or NULL. */
const struct rbt_ptx_function *rbt_ptx_function_at(
	const struct rbt_ptx_module *module, uint64_t address);

unsigned rbt_ptx_type_bits(enum rbt_ptx_type type);
const char *rbt_ptx_op_name(unsigned op);

/*
 * The register file of the fields d[0] to d[3], a, b, c, e: 'w' 32 bits, 'q' 64 bits, 'p' a
 * predicate, '-' not a slot, or none. Slow: for dumps and for checks.
 */
void rbt_ptx_files(const struct rbt_ptx_inst *inst, char ret_files[8]);

/* One line per instruction, for tests and for reading. */
void rbt_ptx_dump(const struct rbt_ptx_module *module, FILE *file);
void rbt_ptx_dump_inst(const struct rbt_ptx_function *function, uint32_t index, FILE *file);

#endif
