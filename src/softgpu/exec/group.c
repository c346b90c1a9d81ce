/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of lanes: how they split, merge and take turns. A warp runs the group in the deepest call
 * at the lowest pc, where diverged lanes usually meet again. That alone could starve a group for
 * which another one spins. So every other turn goes to the group that has waited longest.
 */
#include <string.h>

#include "softgpu/exec/impl.h"

/* Makes a group of some of a group's lanes, at the same place. There are never too many, because
 * each has at least one lane. */
struct exec_group *exec_group_split(struct exec_warp *w, struct exec_group *g, uint32_t mask)
{
	struct exec_group *other = &w->groups[w->ngroups++];

	*other = *g;
	other->mask = mask;
	g->mask &= ~mask;
	return other;
}

void exec_group_remove(struct exec_warp *w, uint32_t index)
{
	memmove(&w->groups[index], &w->groups[index + 1],
		(w->ngroups - index - 1) * sizeof(w->groups[0]));
	w->ngroups--;
	if (w->current > index) {
		w->current--;
	}
}

bool exec_group_merge(struct exec_warp *w)
{
	bool merged = false;

	for (uint32_t k = w->ngroups; k-- > 0;) {
		struct exec_group *g = &w->groups[w->current], *other = &w->groups[k];

		if (k != w->current && other->state == EXEC_READY && other->pc == g->pc &&
			other->frame == g->frame && g->state == EXEC_READY) {
			g->mask |= other->mask;
			exec_group_remove(w, k);
			merged = true;
		}
	}
	return merged;
}

static bool is_before(
	const struct exec_warp *w, const struct exec_group *a, const struct exec_group *b)
{
	uint32_t depth_a = w->frames[a->frame]->depth, depth_b = w->frames[b->frame]->depth;

	return depth_a != depth_b ? depth_a > depth_b : a->pc < b->pc;
}

static uint32_t find_next(const struct exec_warp *w, bool oldest)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t k = 0; k < w->ngroups; k++) {
		const struct exec_group *g = &w->groups[k];

		if (g->state != EXEC_READY) {
			continue;
		}
		if (best == UINT32_MAX || (oldest ? g->stamp < w->groups[best].stamp
						  : is_before(w, g, &w->groups[best]))) {
			best = k;
		}
	}
	return best;
}

bool exec_group_choose(struct exec_warp *w)
{
	bool stays = w->current < w->ngroups && w->groups[w->current].state == EXEC_READY;
	bool new_turn = w->turn_left == 0;
	uint32_t next;

	if (new_turn) {
		w->turn_forced = !w->turn_forced;
		w->turn_left = EXEC_TURN;
		w->turns++;
	}
	if (w->turn_forced && stays && !new_turn) {
		next = w->current;
	} else {
		next = find_next(w, w->turn_forced && new_turn);
	}
	if (next == UINT32_MAX) {
		return false;
	}
	w->groups[next].stamp = w->turns;
	w->choose = false;
	exec_warp_use(w, next);
	return true;
}

void exec_exit(struct exec_warp *w, struct exec_group *g)
{
	uint32_t mask = g->mask, index = (uint32_t)(g - w->groups);

	exec_frame_leave(w, g->frame, mask, true);
	w->live &= ~mask;
	w->block->live -= (uint32_t)__builtin_popcount(mask);
	exec_group_remove(w, index);
	/* Groups that waited for these lanes may go on without them. */
	exec_sync_check(w);
	exec_barriers_check(w->block);
}
