/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's memory and a few SMs in this process: loads a module, gives its variables and a case's
 * buffers device addresses, and runs grids in ways that differ only in where blocks are stopped.
 */
#ifndef RBT_TESTS_KERNELS_WORLD_H
#define RBT_TESTS_KERNELS_WORLD_H

#include "cases.h"
#include "softgpu/exec/exec.h"
#include "softgpu/ptx/ptx.h"

#define WORLD_SMS     4
#define WORLD_WINDOWS (KCASE_BUFFERS + 1)

struct world {
	struct rbt_ptx_module *module;
	uint64_t *variable_va;
	uint8_t *variables; /* behind the first window, when the module has any */
	struct rbt_exec_window windows[WORLD_WINDOWS];
	uint64_t buffer_va[KCASE_BUFFERS];
	uint8_t params[512];
	struct rbt_exec_launch launch;
	struct rbt_exec_sm *sms[WORLD_SMS];
	char printed[8192];
	size_t printed_size;
	uint64_t random;
};

/* How blocks are stopped. */
enum world_mode {
	WORLD_PLAIN,      /* each to its end, one after the other */
	WORLD_EVERY,      /* saved, destroyed and restored elsewhere after each instruction */
	WORLD_RANDOM,     /* the same after random counts */
	WORLD_INTERLEAVED /* all at once, by turns of random counts, restored elsewhere at random */
};

struct world_result {
	enum rbt_exec_status status; /* of the last block that ran */
	struct rbt_exec_fault fault;
	uint64_t instructions;
	uint64_t moves; /* how often a block was saved and restored */
	size_t state_max;
};

/* Reads DIR/<module>.ptx; says on stderr what is wrong with it. 0 or negative errno. */
int world_load(struct world *world, const char *directory, const char *module);
void world_finish(struct world *world);
/* Puts variables to their first values, and the buffers of a case at their addresses. */
int world_prepare(struct world *world, const struct kcase *kase, void *const *buffers);
int world_run(struct world *world, enum world_mode mode, struct world_result *ret_result);

#endif
