/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the executor. A block has warps, a warp has frames and groups. A frame is one call:
 * the registers of all its lanes. A group is lanes of one frame at one pc, with a state of its own.
 * So lanes may take any path, and wait at barriers separately. Groups of the same frame that meet
 * at the same pc become one again.
 */
#ifndef RBT_SOFTGPU_EXEC_IMPL_H
#define RBT_SOFTGPU_EXEC_IMPL_H

#include "softgpu/exec/exec.h"

#define EXEC_LANES      32
#define EXEC_ALL        UINT32_MAX
#define EXEC_MAX_WARPS  32
#define EXEC_BARRIERS   16
#define EXEC_NO_FRAME   UINT32_MAX
#define EXEC_MAX_FRAMES 4096 /* of a warp */
/*
 * Limits of the host's memory for registers of called functions, however many registers a function
 * declares and however deep the calls are: the stack's size limits the number of calls, these limit
 * their memory. The limit per warp makes the same kernel always end in the same way. The limit per
 * SM is only reached by kernels that are made to reach it.
 */
#define EXEC_MAX_CALL_BYTES    (16u << 20)
#define EXEC_MAX_SM_CALL_BYTES (256u << 20)

/* Instructions of one warp before the turn of another. */
#define EXEC_QUANTUM 64
/*
 * Instructions of a warp with several groups before another group must get its turn: long enough
 * for lanes to meet again in most loops, short enough that a lane which spins for a sibling causes
 * no visible delay.
 */
#define EXEC_TURN 512

struct exec_frame {
	const struct rbt_ptx_function *fn;
	uint32_t (*r32)[EXEC_LANES]; /* registers, then constants */
	uint64_t (*r64)[EXEC_LANES];
	uint32_t *pred;
	uint8_t *params; /* frame_size bytes per lane, one lane after the other */
	uint32_t parent; /* index in the warp's frames */
	uint32_t return_pc, call;
	uint32_t lanes; /* lanes in it or in functions that it called */
	uint32_t depth;
	uint32_t local_base, local_end; /* in the thread's local memory */
	uint32_t stack_used;
	uint32_t bytes; /* bytes of the host's memory */
};

enum exec_group_state {
	EXEC_READY,
	EXEC_AT_BARRIER, /* at a barrier of the block: arrived, and counted */
	EXEC_AT_SYNC,    /* at an instruction that needs other lanes of the warp */
};

struct exec_group {
	uint32_t mask;
	uint32_t pc; /* of the instruction that it waits at, if it waits */
	uint32_t frame;
	uint16_t state;
	uint16_t barrier;
	uint64_t stamp; /* when it last ran, in turns of the warp */
};

struct exec_warp {
	/* Of the current group's frame, so that operations need not search for them. */
	uint32_t (*r32)[EXEC_LANES];
	uint64_t (*r64)[EXEC_LANES];
	uint32_t *pred;
	struct exec_frame *frame;

	struct rbt_exec_block *block;
	uint32_t index;
	uint32_t lanes; /* lanes that exist; a block's last warp may have fewer than 32 */
	uint32_t live;  /* lanes that have not ended */
	uint32_t carry;
	uint32_t current, ngroups;
	struct exec_group groups[EXEC_LANES];

	uint32_t turn_left;
	uint32_t turn_forced; /* true: the turn of the group that waited longest */
	/* true: groups split, ended, met or jumped: choose one before the next instruction */
	uint32_t choose;
	uint64_t turns;

	struct exec_frame **frames; /* by index; NULL: free */
	uint32_t nframes, frames_room;
	uint64_t call_bytes; /* of all frames but the kernel's */
	uint8_t *local;      /* local_size bytes per lane; NULL: no frame needed any yet */
	uint32_t local_high; /* the highest end of any frame so far */
};

struct exec_barrier {
	uint32_t arrived;  /* threads */
	uint32_t expected; /* 0: all live threads of the block */
	uint32_t asked;    /* threads that brought a predicate, by bar.red */
	uint32_t count;    /* threads for which the predicate held */
};

struct rbt_exec_block {
	struct rbt_exec_sm *sm;
	const struct rbt_exec_launch *launch;
	uint32_t index[3];
	uint32_t threads, nwarps;
	uint32_t live; /* threads */
	uint32_t warp; /* the warp whose turn it is */
	uint32_t quantum_left;
	uint64_t instructions;
	uint64_t clock_offset; /* so that clock64 continues on any SM */
	struct exec_barrier barriers[EXEC_BARRIERS];
	struct rbt_exec_fault fault;
	uint8_t *shared;
	uint32_t shared_size, local_size;
	uint32_t last_window; /* window of the last access; a hint */
	struct exec_warp *warps;
};

typedef int (*exec_op)(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask);

struct rbt_exec_sm {
	uint32_t id, count;
	uint64_t cycles;
	uint64_t timer_offset_ns;
	struct rbt_exec_counters counters;
	uint64_t call_bytes; /* of the blocks on it */
	const exec_op *ops;
};

/* An operation returns 0, or this after it has noted the fault. */
#define EXEC_FAULTED 1

/* The tables of operations for the capabilities of the host's processor: lanes.h says how they are
 * made. */
const exec_op *exec_ops_best(void);

/* exec.c: a block with its memory, without frames; checks the launch */
int exec_block_alloc(struct rbt_exec_sm *sm, const struct rbt_exec_launch *launch,
	struct rbt_exec_block **ret_block);

/* frame.c */
/* A frame of zeros and constants, with local memory from local_base on; NULL: no memory. */
struct exec_frame *exec_frame_create(const struct rbt_exec_launch *launch,
	const struct rbt_ptx_function *fn, uint32_t local_base);
/* Makes it frame `index` of the warp, which takes ownership, and makes its local memory usable. */
int exec_frame_attach(struct exec_warp *w, struct exec_frame *frame, uint32_t index);
void exec_frame_destroy(struct exec_warp *w, struct exec_frame *frame); /* attached, or NULL */
/* The first frame, for all lanes. */
int exec_frame_enter(struct exec_warp *w);
void exec_warp_use(struct exec_warp *w, uint32_t group);
/* Does a call hand over what the function takes? Counts and sizes; else it must not be made. */
bool exec_call_agrees(const struct rbt_ptx_call *call, const struct rbt_ptx_function *fn);
/* Pushes a call for `mask`, which is the whole group. 0 or EXEC_FAULTED. */
int exec_call(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i);
void exec_ret(struct exec_warp *w, struct exec_group *g);
/* The lanes have left this frame; with `up`, all its callers too. */
void exec_frame_leave(struct exec_warp *w, uint32_t frame, uint32_t lanes, bool up);

/* group.c */
struct exec_group *exec_group_split(struct exec_warp *w, struct exec_group *g, uint32_t mask);
void exec_group_remove(struct exec_warp *w, uint32_t index);
/* Ready siblings at the current group's place become part of it. */
bool exec_group_merge(struct exec_warp *w);
/* Chooses which group runs next; false: none is ready. */
bool exec_group_choose(struct exec_warp *w);
void exec_exit(struct exec_warp *w, struct exec_group *g);

/* sync.c: called when the whole group executes a barrier or a warp-wide operation */
int exec_barrier(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i);
void exec_barriers_check(struct rbt_exec_block *block);
void exec_sync(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i);
void exec_sync_check(struct exec_warp *w);

/* collective.c: a warp-wide operation of all lanes that arrived, each with its own instruction */
void exec_collective(struct exec_warp *w, const uint32_t *groups, uint32_t ngroups);

/*
 * address.c: where the active lanes' accesses are in the host's memory. Usually near each other: at
 * base + offset[lane]. Else scattered: at[lane].
 */
struct exec_span {
	uintptr_t base;
	uint32_t offset[EXEC_LANES];
	bool scattered;
	uintptr_t at[EXEC_LANES];
};
/* The window of an address, or NULL. It is remembered, because the next access is often in the same
 * one. */
const struct rbt_exec_window *exec_window_at(struct rbt_exec_block *block, uint64_t va);
int exec_resolve(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask, uint32_t size,
	bool store, struct exec_span *ret_span);
/* Bytes from a generic address to the end of its memory; 0: it is invalid. */
uint64_t exec_generic_room(struct exec_warp *w, uint32_t lane, uint64_t va, const void **ret_at);

/* sreg.c, fault.c */
int exec_sreg(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask);
void exec_thread_index(const struct rbt_exec_block *block, uint32_t thread, uint32_t ret_index[3]);
int exec_fault(struct exec_warp *w, const struct rbt_ptx_inst *i, enum rbt_exec_fault_kind kind,
	uint32_t lane, uint64_t address);

/* round.c: floats with flags or rounding modes that the fast operations lack */
int exec_slow_f32(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask);
int exec_slow_f64(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask);
int exec_slow_cvt(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask);

/* atom.c, print.c */
int exec_atom(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask);
/* Loads and stores with flag STRONG: other SMs may access the same words meanwhile. */
void exec_load_strong(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	const struct exec_span *span);
void exec_store_strong(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	const struct exec_span *span);
int exec_builtin(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i,
	const struct rbt_ptx_call *call, const struct rbt_ptx_function *fn);

#endif
