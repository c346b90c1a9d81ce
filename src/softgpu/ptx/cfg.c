/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where diverged lanes meet again: immediate post-dominators, by the method of Cooper, Harvey
 * and Kennedy on the blocks of a function. Lanes that trap, or that a guarded exit ends, meet no
 * other lanes. So neither counts as a way to the end: otherwise one check would keep all other
 * lanes apart.
 */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

#define NONE UINT32_MAX

struct graph {
	uint32_t nblocks; /* the end of the function is one more, its number is this */
	uint32_t *block_of;
	uint32_t *first;     /* by block */
	uint32_t (*next)[2]; /* by block, NONE when there is none */
	uint32_t *pred_start, *preds;
	uint32_t *order;    /* blocks in post-order of the reverse graph, the end last */
	uint32_t *position; /* in order, by block; NONE: the end is not reached */
	uint32_t *ipdom;
	uint32_t *stack;
	uint32_t norder;
};

static bool is_guarded(const struct rbt_ptx_inst *inst)
{
	return inst->guard != RBT_PTX_PRED_TRUE || (inst->flags & RBT_PTX_NEG_GUARD) != 0;
}

static bool is_end(const struct rbt_ptx_inst *inst)
{
	return inst->op == RBT_PTX_RET || inst->op == RBT_PTX_EXIT || inst->op == RBT_PTX_TRAP;
}

static uint32_t mark_leaders(struct rbt_ptx_function *f)
{
	uint32_t count = 0;

	f->insts[0].flags |= RBT_PTX_LEADER;
	for (uint32_t i = 0; i < f->ninsts; i++) {
		if (f->insts[i].op == RBT_PTX_BRA) {
			f->insts[f->insts[i].target].flags |= RBT_PTX_LEADER;
		}
		if ((f->insts[i].op == RBT_PTX_BRA || is_end(&f->insts[i])) && i + 1 < f->ninsts) {
			f->insts[i + 1].flags |= RBT_PTX_LEADER;
		}
	}
	for (uint32_t i = 0; i < f->ninsts; i++) {
		count += (f->insts[i].flags & RBT_PTX_LEADER) != 0;
	}
	return count;
}

static int graph_init(struct graph *g, const struct rbt_ptx_function *f, uint32_t nblocks)
{
	size_t n = (size_t)nblocks + 1;

	*g = (struct graph){
		.nblocks = nblocks,
		.block_of = calloc(f->ninsts, sizeof(uint32_t)),
		.first = calloc(n, sizeof(uint32_t)),
		.next = calloc(n, sizeof(*g->next)),
		.pred_start = calloc(n + 2, sizeof(uint32_t)),
		.preds = calloc(2 * n, sizeof(uint32_t)),
		.order = calloc(n, sizeof(uint32_t)),
		.position = calloc(n, sizeof(uint32_t)),
		.ipdom = calloc(n, sizeof(uint32_t)),
		.stack = calloc(2 * n, sizeof(uint32_t)),
	};
	return g->block_of != NULL && g->first != NULL && g->next != NULL &&
			       g->pred_start != NULL && g->preds != NULL && g->order != NULL &&
			       g->position != NULL && g->ipdom != NULL && g->stack != NULL
		       ? 0
		       : -ENOMEM;
}

static void graph_finish(struct graph *g)
{
	free(g->block_of);
	free(g->first);
	free(g->next);
	free(g->pred_start);
	free(g->preds);
	free(g->order);
	free(g->position);
	free(g->ipdom);
	free(g->stack);
}

static void find_edges(struct graph *g, const struct rbt_ptx_function *f)
{
	uint32_t block = NONE;

	for (uint32_t i = 0; i < f->ninsts; i++) {
		if ((f->insts[i].flags & RBT_PTX_LEADER) != 0) {
			block++;
			g->first[block] = i;
		}
		g->block_of[i] = block;
	}
	for (uint32_t b = 0; b < g->nblocks; b++) {
		uint32_t last = (b + 1 < g->nblocks ? g->first[b + 1] : f->ninsts) - 1;
		const struct rbt_ptx_inst *inst = &f->insts[last];

		g->next[b][0] = is_guarded(inst) || (inst->op != RBT_PTX_BRA && !is_end(inst))
					? b + 1
					: NONE;
		g->next[b][1] = NONE;
		if (inst->op == RBT_PTX_BRA) {
			g->next[b][1] = g->block_of[inst->target];
		} else if (is_end(inst) && inst->op != RBT_PTX_TRAP && !is_guarded(inst)) {
			g->next[b][1] = g->nblocks;
		}
	}
}

static void find_preds(struct graph *g)
{
	for (uint32_t e = 0; e < 2 * g->nblocks; e++) {
		uint32_t to = g->next[e / 2][e % 2];

		if (to != NONE) {
			g->pred_start[to + 2]++;
		}
	}
	for (uint32_t b = 1; b <= g->nblocks + 1; b++) {
		g->pred_start[b + 1] += g->pred_start[b];
	}
	/* pred_start[b + 1] moves from the start of b's to its end, the start of the next. */
	for (uint32_t e = 0; e < 2 * g->nblocks; e++) {
		uint32_t to = g->next[e / 2][e % 2];

		if (to != NONE) {
			g->preds[g->pred_start[to + 1]++] = e / 2;
		}
	}
}

/* From the end backwards, without recursion: the stack holds a block and its next predecessor. */
static void find_order(struct graph *g)
{
	size_t depth = 1;

	for (uint32_t b = 0; b <= g->nblocks; b++) {
		g->position[b] = NONE;
	}
	g->stack[0] = g->nblocks;
	g->stack[1] = g->pred_start[g->nblocks];
	g->position[g->nblocks] = 0;
	while (depth > 0) {
		uint32_t block = g->stack[2 * depth - 2], *at = &g->stack[2 * depth - 1];

		if (*at == g->pred_start[block + 1]) {
			g->position[block] = g->norder;
			g->order[g->norder++] = block;
			depth--;
		} else {
			uint32_t pred = g->preds[(*at)++];

			if (g->position[pred] == NONE) {
				g->position[pred] = 0;
				g->stack[2 * depth] = pred;
				g->stack[2 * depth + 1] = g->pred_start[pred];
				depth++;
			}
		}
	}
}

static uint32_t intersect(const struct graph *g, uint32_t a, uint32_t b, uint64_t *budget)
{
	while (a != b && *budget > 0) {
		(*budget)--;
		if (g->position[a] < g->position[b]) {
			a = g->ipdom[a];
		} else {
			b = g->ipdom[b];
		}
	}
	return a;
}

static uint32_t meet(const struct graph *g, uint32_t block, uint64_t *budget)
{
	uint32_t result = NONE;

	for (unsigned i = 0; i < 2; i++) {
		uint32_t to = g->next[block][i];

		if (to != NONE && g->ipdom[to] != NONE) {
			result = result == NONE ? to : intersect(g, result, to, budget);
		}
	}
	return result;
}

/* False: a graph that was made to be slow has used up its steps. Then no branch gets a meeting
 * point. */
static bool find_ipdoms(struct graph *g)
{
	uint64_t budget = 256 * ((uint64_t)g->nblocks + 64);
	bool changed = true;

	for (uint32_t b = 0; b <= g->nblocks; b++) {
		g->ipdom[b] = NONE;
	}
	g->ipdom[g->nblocks] = g->nblocks;
	while (changed && budget > 0) {
		changed = false;
		for (uint32_t i = g->norder - 1; i-- > 0 && budget > 0;) {
			uint32_t block = g->order[i], found = meet(g, block, &budget);

			budget--;
			changed |= found != g->ipdom[block];
			g->ipdom[block] = found;
		}
	}
	return budget > 0;
}

int ptx_cfg(struct parser *p, struct rbt_ptx_function *f)
{
	uint32_t nblocks = mark_leaders(f);
	struct graph g;

	if (graph_init(&g, f, nblocks) < 0) {
		graph_finish(&g);
		return ptx_fail(p, ENOMEM, "out of memory");
	}
	find_edges(&g, f);
	find_preds(&g);
	find_order(&g);
	if (find_ipdoms(&g)) {
		for (uint32_t i = 0; i < f->ninsts; i++) {
			uint32_t ipdom = g.ipdom[g.block_of[i]];

			if (f->insts[i].op == RBT_PTX_BRA && ipdom != NONE && ipdom != nblocks) {
				f->insts[i].reconv = g.first[ipdom];
			}
		}
	}
	graph_finish(&g);
	return 0;
}
