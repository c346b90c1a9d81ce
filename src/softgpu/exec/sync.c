/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: barriers of the block, and operations that need several lanes of a warp at once. */
#include "softgpu/exec/impl.h"

/*
 * Barriers with a count count whole warps: lanes that have ended, or that a block's last warp never
 * had, count as arrived together with the last of their siblings. Waiting lanes are recognised by
 * their state; for lanes that only arrive, see exec_barrier().
 */
static uint32_t missing_lanes(const struct rbt_exec_block *block, uint32_t id)
{
	uint32_t missing = 0;

	for (uint32_t n = 0; n < block->nwarps; n++) {
		const struct exec_warp *w = &block->warps[n];
		uint32_t waiting = 0;

		for (uint32_t k = 0; k < w->ngroups; k++) {
			if (w->groups[k].state == EXEC_AT_BARRIER && w->groups[k].barrier == id) {
				waiting |= w->groups[k].mask;
			}
		}
		if (waiting && waiting == w->live) {
			missing += EXEC_LANES - (uint32_t)__builtin_popcount(waiting);
		}
	}
	return missing;
}

static bool is_complete(const struct rbt_exec_block *block, uint32_t id)
{
	const struct exec_barrier *barrier = &block->barriers[id];

	if (barrier->arrived == 0) {
		return false;
	}
	if (barrier->expected == 0) {
		return barrier->arrived >= block->live;
	}
	return barrier->arrived >= barrier->expected ||
	       barrier->arrived + missing_lanes(block, id) >= barrier->expected;
}

/* Writes the result of bar.red to the group's own destination, which may differ between groups. */
static void give_result(
	struct exec_warp *w, const struct exec_group *g, const struct exec_barrier *barrier)
{
	struct exec_frame *frame = w->frames[g->frame];
	const struct rbt_ptx_inst *i = &frame->fn->insts[g->pc];
	bool held;

	if (i->op != RBT_PTX_BAR_RED) {
		return;
	}
	if (i->mod == RBT_PTX_BARRED_POPC) {
		for (unsigned l = 0; l < EXEC_LANES; l++) {
			if (g->mask >> l & 1) {
				frame->r32[i->d[0]][l] = barrier->count;
			}
		}
		return;
	}
	held = i->mod == RBT_PTX_BARRED_AND ? barrier->count == barrier->asked : barrier->count > 0;
	frame->pred[i->d[0]] = (frame->pred[i->d[0]] & ~g->mask) | (held ? g->mask : 0);
}

static void release(struct rbt_exec_block *block, uint32_t id)
{
	struct exec_barrier *barrier = &block->barriers[id];

	for (uint32_t n = 0; n < block->nwarps; n++) {
		struct exec_warp *w = &block->warps[n];

		for (uint32_t k = 0; k < w->ngroups; k++) {
			struct exec_group *g = &w->groups[k];

			if (g->state == EXEC_AT_BARRIER && g->barrier == id) {
				give_result(w, g, barrier);
				g->state = EXEC_READY;
				g->pc++;
				w->choose = true;
			}
		}
	}
	*barrier = (struct exec_barrier){0, 0, 0, 0};
}

void exec_barriers_check(struct rbt_exec_block *block)
{
	for (uint32_t id = 0; id < EXEC_BARRIERS; id++) {
		if (is_complete(block, id)) {
			release(block, id);
		}
	}
}

/* The first lane decides for the group: number and count must be the same for all. */
int exec_barrier(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i)
{
	uint32_t lane = (uint32_t)__builtin_ctz(g->mask), id = w->r32[i->a][lane];
	uint32_t expected = i->b == RBT_PTX_NO_SLOT ? 0 : w->r32[i->b][lane];
	struct exec_barrier *barrier;

	if (id >= EXEC_BARRIERS || expected % EXEC_LANES != 0 ||
		(i->op == RBT_PTX_BAR_ARRIVE && expected == 0)) {
		return exec_fault(w, i, RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, lane, 0);
	}
	barrier = &w->block->barriers[id];
	if (barrier->arrived == 0) {
		barrier->expected = expected;
	}
	barrier->arrived += (uint32_t)__builtin_popcount(g->mask);
	if (i->op == RBT_PTX_BAR_RED) {
		uint32_t holds = w->pred[i->c] ^ (i->flags & RBT_PTX_NEG_C ? EXEC_ALL : 0);
		barrier->count += (uint32_t)__builtin_popcount(holds & g->mask);
		barrier->asked += (uint32_t)__builtin_popcount(g->mask);
	}
	if (i->op == RBT_PTX_BAR_ARRIVE) {
		if (g->mask == w->live) {
			barrier->arrived += EXEC_LANES - (uint32_t)__builtin_popcount(g->mask);
		}
		g->pc++;
	} else {
		g->state = EXEC_AT_BARRIER;
		g->barrier = (uint16_t)id;
	}
	exec_barriers_check(w->block);
	return 0;
}

/* The member mask of one lane of a waiting group. */
static uint32_t members(const struct exec_warp *w, const struct exec_group *g, uint32_t lane)
{
	const struct exec_frame *frame = w->frames[g->frame];
	const struct rbt_ptx_inst *i = &frame->fn->insts[g->pc];
	unsigned slot = i->op == RBT_PTX_BAR_WARP_SYNC ? i->a : i->e;

	return slot == RBT_PTX_NO_SLOT ? g->mask : frame->r32[slot][lane];
}

/* Whether two groups can be at the same meeting. Not by pc: they may have come by different
 * paths. */
static bool is_same_meeting(
	const struct exec_warp *w, const struct exec_group *a, const struct exec_group *b)
{
	const struct rbt_ptx_inst *x = &w->frames[a->frame]->fn->insts[a->pc];
	const struct rbt_ptx_inst *y = &w->frames[b->frame]->fn->insts[b->pc];

	return x->op == y->op && x->mod == y->mod && x->type == y->type;
}

/* Lanes that wait at the same meeting as this group, including its own. */
static uint32_t arrived_with(const struct exec_warp *w, const struct exec_group *g)
{
	uint32_t lanes = 0;

	for (uint32_t k = 0; k < w->ngroups; k++) {
		if (w->groups[k].state == EXEC_AT_SYNC && is_same_meeting(w, g, &w->groups[k])) {
			lanes |= w->groups[k].mask;
		}
	}
	return lanes;
}

/* All lanes that this group, or groups it waits with, need, directly or indirectly. */
static uint32_t wanted_by(const struct exec_warp *w, uint32_t lanes)
{
	uint32_t wanted = lanes;

	for (uint32_t k = 0; k < w->ngroups; k++) {
		const struct exec_group *g = &w->groups[k];

		for (uint32_t left = g->state == EXEC_AT_SYNC ? g->mask & lanes : 0; left;
			left &= left - 1) {
			wanted |= members(w, g, (uint32_t)__builtin_ctz(left)) & w->live;
		}
		/* A group meets as a whole. */
		wanted |= g->mask & lanes ? g->mask : 0;
	}
	return wanted;
}

/* The lanes of a complete meeting, starting from one group; 0: a lane is missing. */
static uint32_t complete_meeting(const struct exec_warp *w, const struct exec_group *g)
{
	uint32_t here = arrived_with(w, g), lanes = g->mask;

	for (;;) {
		uint32_t wanted = wanted_by(w, lanes);

		if (wanted & ~here) {
			return 0;
		}
		if (wanted == lanes) {
			return lanes;
		}
		lanes = wanted;
	}
}

static void hold_meeting(struct exec_warp *w, uint32_t lanes)
{
	uint32_t who[EXEC_LANES], count = 0;

	for (uint32_t k = 0; k < w->ngroups; k++) {
		if (w->groups[k].state == EXEC_AT_SYNC && w->groups[k].mask & lanes) {
			who[count++] = k;
		}
	}
	exec_collective(w, who, count);
	for (uint32_t k = 0; k < count; k++) {
		w->groups[who[k]].state = EXEC_READY;
		w->groups[who[k]].pc++;
	}
}

void exec_sync_check(struct exec_warp *w)
{
	for (uint32_t k = 0; k < w->ngroups; k++) {
		if (w->groups[k].state == EXEC_AT_SYNC) {
			uint32_t lanes = complete_meeting(w, &w->groups[k]);

			if (lanes) {
				hold_meeting(w, lanes);
			}
		}
	}
}

void exec_sync(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i)
{
	g->state = EXEC_AT_SYNC;
	exec_sync_check(w);
}
