/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs decoded PTX (softgpu/ptx/ir.h), one warp instruction at a time. Pure: no I/O, no threads, no
 * clock; the caller decides which block runs on which SM and for how many instructions. The same
 * blocks with the same budgets always give the same result. A block that is taken off its SM
 * between any two instructions and put on another gives the same result as an undisturbed one.
 *
 * An SM object and the blocks on it belong to one thread at a time. Different SMs may run on
 * different threads over the same memory: atomic operations of kernels are atomic between them.
 */
#ifndef RBT_SOFTGPU_EXEC_EXEC_H
#define RBT_SOFTGPU_EXEC_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/ptx/ir.h"

/* Generic addresses of a block's shared and a thread's local memory; windows end below these. */
#define RBT_EXEC_SHARED_VA  0xfe0000000000ull
#define RBT_EXEC_LOCAL_VA   0xff0000000000ull
#define RBT_EXEC_SHARED_MAX (1u << 20)
#define RBT_EXEC_LOCAL_MAX  (1u << 20) /* a thread */

/* Memory that a context may access: size bytes at device address va are those at host. */
struct rbt_exec_window {
	uint64_t va, size;
	void *host;     /* aligned to 16 if va is */
	bool read_only; /* a store is an illegal access */
};

/* A grid. The caller keeps it, and all it points to, until the last of its blocks is destroyed. */
struct rbt_exec_launch {
	const struct rbt_ptx_module *module;
	const struct rbt_ptx_function *kernel;
	uint32_t grid[3], block[3];            /* block: at most 1024 threads */
	uint32_t dynamic_shared;               /* bytes */
	const void *params;                    /* kernel->param_size bytes, aligned to 8 */
	const struct rbt_exec_window *windows; /* sorted by va, not overlapping */
	size_t nwindows;
	const uint64_t *variable_va; /* of each variable of the module */
	uint32_t stack_size;         /* per thread, for calls; the kernel's local memory is extra */
	uint64_t grid_id;
	/* Callbacks for a kernel's formatted output and for failed assertions; NULL: dropped.
	 * Called inside rbt_exec_run. */
	void (*print)(void *user, const char *text, size_t size);
	void (*complain)(void *user, const char *text, size_t size);
	void *user;
};

struct rbt_exec_sm;
struct rbt_exec_block;

enum rbt_exec_status {
	RBT_EXEC_DONE,    /* every thread has ended */
	RBT_EXEC_BUDGET,  /* the budget is used up; call again at any time */
	RBT_EXEC_BLOCKED, /* every live thread waits for another: a hang */
	RBT_EXEC_FAULT,   /* see rbt_exec_block_fault(); the block cannot be used any more */
};

enum rbt_exec_fault_kind {
	RBT_EXEC_FAULT_NONE = 0,
	RBT_EXEC_FAULT_ILLEGAL_ADDRESS,
	RBT_EXEC_FAULT_MISALIGNED_ADDRESS,
	RBT_EXEC_FAULT_TRAP,
	RBT_EXEC_FAULT_ASSERT,
	RBT_EXEC_FAULT_STACK_OVERFLOW,
	RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, /* also a call to an invalid function address, or a bad
	                                     * barrier */
	RBT_EXEC_FAULT_NO_MEMORY,           /* the host's, for a call's registers */
};

struct rbt_exec_fault {
	enum rbt_exec_fault_kind kind;
	uint32_t block[3], thread[3];
	uint32_t warp, lane;
	uint64_t address; /* for the two kinds about addresses; generic */
	const char *function;
	uint32_t pc, line;
};

/* A device's counters; may be read at any time. */
struct rbt_exec_counters {
	uint64_t instructions; /* warp instructions */
	uint64_t saves, restores;
	uint64_t saved_bytes, restored_bytes;
};

/* `count` SMs are on the device, this is number `id`. NULL without memory. */
struct rbt_exec_sm *rbt_exec_sm_create(uint32_t id, uint32_t count);
void rbt_exec_sm_destroy(struct rbt_exec_sm *sm);
const struct rbt_exec_counters *rbt_exec_sm_counters(const struct rbt_exec_sm *sm);
/* For which vector instructions operations are compiled: the host's best, unless a test asks. */
enum rbt_exec_level { RBT_EXEC_LEVEL_BASE, RBT_EXEC_LEVEL_V3 };
/* -ENOTSUP: the host cannot; then nothing changes. */
int rbt_exec_sm_set_level(struct rbt_exec_sm *sm, enum rbt_exec_level level);
/* The device's time now, for %globaltimer; an instruction adds 1 ns until the next call. */
void rbt_exec_sm_set_time(struct rbt_exec_sm *sm, uint64_t now_ns);

/* -EINVAL: a launch that is impossible on any device; -ENOMEM. */
int rbt_exec_launch_check(const struct rbt_exec_launch *launch);
/* Shared memory of a block of this launch, static and dynamic. */
uint32_t rbt_exec_launch_shared(const struct rbt_exec_launch *launch);

/* A block at its first instruction. -EINVAL, -ENOMEM. */
int rbt_exec_block_create(struct rbt_exec_sm *sm, const struct rbt_exec_launch *launch,
	const uint32_t index[3], struct rbt_exec_block **ret_block);
void rbt_exec_block_destroy(struct rbt_exec_block *block);

/* Runs at most `budget` warp instructions of a block on the SM that it was made or restored for. */
enum rbt_exec_status rbt_exec_run(struct rbt_exec_block *block, uint64_t budget);

/* Warp instructions of this block so far, on all its SMs. */
uint64_t rbt_exec_block_instructions(const struct rbt_exec_block *block);
const struct rbt_exec_fault *rbt_exec_block_fault(const struct rbt_exec_block *block);
const char *rbt_exec_fault_text(enum rbt_exec_fault_kind kind);

/*
 * The whole state of a block between two instructions, as bytes without pointers: registers,
 * predicates, divergence, call stacks, barriers, shared and local memory. save() does not change
 * the block and needs save_size() bytes; restore() makes a block that continues from there, for the
 * same launch, on any SM. -EINVAL: not a state of this launch; -ENOSPC; -ENOMEM.
 */
size_t rbt_exec_block_save_size(const struct rbt_exec_block *block);
int rbt_exec_block_save(const struct rbt_exec_block *block, void *buffer, size_t size);
int rbt_exec_block_restore(struct rbt_exec_sm *sm, const struct rbt_exec_launch *launch,
	const void *buffer, size_t size, struct rbt_exec_block **ret_block);

#endif
