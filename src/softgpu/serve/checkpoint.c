/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoint calls, by which one process takes another off the device: lock, checkpoint, restore,
 * unlock. The results are those of driver 580.159.04 on an H200, or were reported by others:
 *
 *   - Lock waits for submitted work. If that takes longer than the timeout, as with a suspended
 *     program, the result is NOT_READY, and the program goes on.
 *   - The target's own thread does the work, so a call on a stopped program hangs.
 *   - A restore that finds too little memory loses the program: no later one succeeds.
 *   - If the caller dies inside a call, the call goes on without it. The next call on that target
 *     is answered with ILLEGAL_STATE and does nothing, because the two ends are out of step.
 *   - Only the same user and root may make these calls.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/abi.h"
#include "softgpu/serve/gpus_impl.h"
#include "util/fd.h"
#include "util/time.h"

#define POLL_NS     RBT_NS_PER_MS
#define PIECE_BYTES (8u << 20) /* moved between two looks at other connections */

/* A process that is not just running. */
struct target {
	struct target *next;
	int pid;
	enum CUprocessState state;
	bool is_out_of_step;
	/* The call under way. */
	uint32_t action;     /* 0: none */
	struct conn *caller; /* NULL: has died */
	uint64_t cookie;
	uint64_t begin_ns, deadline_ns; /* deadline of a lock; 0: none */
	uint64_t total_bytes, moved_bytes;
};

static void answer(struct conn *c, uint64_t cookie, CUresult result, enum CUprocessState state)
{
	struct gpu_reply reply = {.h = link_header(GPU_REPLY, cookie),
		.value = (uint64_t)result,
		.n_sms = (uint32_t)state};

	gpus_reply(c, &reply, sizeof(reply), NULL, 0);
}

/* The connection of a program of that pid; NULL: it uses no GPU here. */
static struct conn *program_of(const struct gpus *g, int pid)
{
	for (struct conn *c = g->server->conns; c != NULL; c = c->next) {
		if (c->is_program && !c->broken && c->pid == pid) {
			return c;
		}
	}
	return NULL;
}

static bool is_of(const struct bound *b, const struct target *t)
{
	return b->conn->pid == t->pid;
}

static bool is_stopped(int pid)
{
	char path[64], buf[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (rbt_read_file(path, buf, sizeof(buf)) < 0) {
		return false;
	}
	const char *state = strrchr(buf, ')');

	return state != NULL && strlen(state) > 2 && (state[2] == 'T' || state[2] == 't');
}

static void hold(struct gpus *g, struct target *t, bool is_held)
{
	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		if (is_of(b, t)) {
			card_lock(b->card);
			rbt_context_hold(b->ctx, is_held);
			card_unlock(b->card);
		}
	}
}

static void freeze(struct gpus *g, struct target *t, bool is_frozen)
{
	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		if (is_of(b, t)) {
			bound_freeze(b, is_frozen);
		}
	}
	for (struct conn *c = g->server->conns; c != NULL; c = c->next) {
		if (c->is_program && c->pid == t->pid) {
			c->is_held = is_frozen;
		}
	}
}

static bool is_quiet(struct gpus *g, const struct target *t)
{
	bool quiet = true;

	for (struct bound *b = g->contexts; b != NULL && quiet; b = b->next) {
		if (is_of(b, t)) {
			card_lock(b->card);
			quiet = rbt_context_is_quiet(b->ctx);
			card_unlock(b->card);
		}
	}
	return quiet;
}

static void finish(struct target *t, CUresult result)
{
	if (t->caller != NULL) {
		answer(t->caller, t->cookie, result, t->state);
	} else {
		t->is_out_of_step = true;
	}
	t->action = 0;
	t->caller = NULL;
}

static void go_on_locking(struct gpus *g, struct target *t, uint64_t now_ns)
{
	if (now_ns - t->begin_ns < g->delay_us[t->action] * RBT_NS_PER_US) {
		return;
	}
	if (is_quiet(g, t)) {
		t->state = CU_PROCESS_STATE_LOCKED;
		freeze(g, t, true);
		finish(t, CUDA_SUCCESS);
	} else if (t->deadline_ns != 0 && now_ns >= t->deadline_ns) {
		hold(g, t, false);
		finish(t, CUDA_ERROR_NOT_READY);
	}
}

/* How many bytes may have been moved by now: a fault makes calls slow. */
static uint64_t due_bytes(const struct gpus *g, const struct target *t, uint64_t now_ns)
{
	uint64_t delay_ns = g->delay_us[t->action] * RBT_NS_PER_US, gone_ns = now_ns - t->begin_ns;

	return gone_ns >= delay_ns ? UINT64_MAX : t->total_bytes / delay_ns * gone_ns;
}

/* Moves a piece of one context. 0: nothing is left to move; 1: there is more; -ENOMEM. */
static int move_piece(struct gpus *g, struct target *t)
{
	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		if (!is_of(b, t)) {
			continue;
		}
		card_lock(b->card);
		uint64_t before = rbt_context_saved_bytes(b->ctx);
		int r = t->action == GPU_PROCESS_RESTORE ? rbt_context_restore(b->ctx, PIECE_BYTES)
							 : rbt_context_save(b->ctx, PIECE_BYTES);
		uint64_t after = rbt_context_saved_bytes(b->ctx);
		card_unlock(b->card);
		t->moved_bytes += before > after ? before - after : after - before;
		if (r != 0) {
			return r;
		}
	}
	return 0;
}

/* Whether the devices have room for all of it. */
static bool has_room(struct gpus *g, const struct target *t)
{
	uint64_t needed[NV_MAX_GPUS] = {0}, free_bytes, total;

	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		if (!is_of(b, t)) {
			continue;
		}
		card_lock(b->card);
		needed[b->gpu] += rbt_context_saved_bytes(b->ctx);
		rbt_device_memory(b->card->dev, &free_bytes, &total);
		card_unlock(b->card);
		if (needed[b->gpu] > free_bytes) {
			return false;
		}
	}
	return true;
}

static void go_on_moving(struct gpus *g, struct target *t, uint64_t now_ns)
{
	bool is_restore = t->action == GPU_PROCESS_RESTORE;

	if (t->moved_bytes >= due_bytes(g, t, now_ns)) {
		return;
	}
	bool is_first = is_restore && t->moved_bytes == 0;
	int r = is_first && !has_room(g, t) ? -ENOMEM : move_piece(g, t);
	if (r > 0 || (r == 0 && due_bytes(g, t, now_ns) != UINT64_MAX)) {
		return;
	}
	if (r < 0) {
		t->state = is_restore ? CU_PROCESS_STATE_FAILED : t->state;
		finish(t, CUDA_ERROR_OUT_OF_MEMORY);
		return;
	}
	t->state = is_restore ? CU_PROCESS_STATE_LOCKED : CU_PROCESS_STATE_CHECKPOINTED;
	rbt_rm_set_off(g->server->rm, t->pid, !is_restore);
	gpus_refresh(g);
	finish(t, CUDA_SUCCESS);
}

static uint64_t bytes_of(struct gpus *g, const struct target *t)
{
	uint64_t sum = 0;

	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		struct rbt_context_stats stats;

		if (is_of(b, t)) {
			card_lock(b->card);
			rbt_context_get_stats(b->ctx, &stats);
			card_unlock(b->card);
			sum += stats.memory_bytes;
		}
	}
	return sum;
}

uint64_t gpus_run(struct gpus *g, uint64_t now_ns)
{
	bool is_busy = false;

	for (struct target *t = g->targets; t != NULL; t = t->next) {
		if (t->action != 0 && !is_stopped(t->pid)) {
			if (t->action == GPU_PROCESS_LOCK) {
				go_on_locking(g, t, now_ns);
			} else {
				go_on_moving(g, t, now_ns);
			}
		}
		is_busy = is_busy || t->action != 0;
	}
	return is_busy ? now_ns + POLL_NS : UINT64_MAX;
}

int gpus_delay(struct gpus *g, uint32_t action, uint64_t delay_us)
{
	if (action >= GPU_N_PROCESS_ACTIONS) {
		return -EINVAL;
	}
	g->delay_us[action] = delay_us;
	return 0;
}

/* NULL: no memory. */
static struct target *target_obtain(struct gpus *g, int pid)
{
	struct target *t = g->targets;

	while (t != NULL && t->pid != pid) {
		t = t->next;
	}
	if (t == NULL && (t = calloc(1, sizeof(*t))) != NULL) {
		t->pid = pid;
		t->next = g->targets;
		g->targets = t;
	}
	return t;
}

/* The call can begin: 0; otherwise its result. */
static CUresult check(const struct target *t, uint32_t action)
{
	static const enum CUprocessState from[GPU_N_PROCESS_ACTIONS] = {
		[GPU_PROCESS_LOCK] = CU_PROCESS_STATE_RUNNING,
		[GPU_PROCESS_CHECKPOINT] = CU_PROCESS_STATE_LOCKED,
		[GPU_PROCESS_RESTORE] = CU_PROCESS_STATE_CHECKPOINTED,
		[GPU_PROCESS_UNLOCK] = CU_PROCESS_STATE_LOCKED,
	};

	if (t->action != 0) {
		return CUDA_ERROR_NOT_READY;
	}
	if (action == GPU_PROCESS_RESTORE && t->state == CU_PROCESS_STATE_FAILED) {
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	return t->state == from[action] ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

static void begin(struct gpus *g, struct target *t, struct conn *c, const struct gpu_process *m)
{
	uint64_t now_ns = rbt_now_ns();

	t->action = m->action;
	t->caller = c;
	t->cookie = m->h.cookie;
	t->begin_ns = now_ns;
	t->deadline_ns = m->timeout_ms > 0 ? now_ns + m->timeout_ms * RBT_NS_PER_MS : 0;
	t->total_bytes = bytes_of(g, t);
	t->moved_bytes = 0;
	if (m->action == GPU_PROCESS_LOCK) {
		hold(g, t, true);
	}
}

static void unlock(struct gpus *g, struct target *t)
{
	t->state = CU_PROCESS_STATE_RUNNING;
	freeze(g, t, false);
	hold(g, t, false);
}

void checkpoint_handle(struct gpus *g, struct conn *c, const uint8_t *msg)
{
	struct gpu_process m;
	CUresult r = CUDA_SUCCESS;

	memcpy(&m, msg, sizeof(m));
	const struct conn *program = program_of(g, m.pid);
	struct target *t = program != NULL ? target_obtain(g, m.pid) : NULL;
	if (program == NULL || t == NULL || m.action >= GPU_N_PROCESS_ACTIONS) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (c->uid != 0 && c->uid != program->uid) {
		r = CUDA_ERROR_OPERATING_SYSTEM;
	} else if (t->is_out_of_step && t->action == 0) {
		t->is_out_of_step = false;
		r = CUDA_ERROR_ILLEGAL_STATE;
	} else if (m.action != GPU_PROCESS_STATE) {
		r = check(t, m.action);
	}
	if (r != CUDA_SUCCESS || m.action == GPU_PROCESS_STATE) {
		answer(c, m.h.cookie, r, t != NULL ? t->state : CU_PROCESS_STATE_RUNNING);
	} else if (m.action == GPU_PROCESS_UNLOCK) {
		unlock(g, t);
		answer(c, m.h.cookie, r, t->state);
	} else {
		begin(g, t, c, &m);
	}
}

void checkpoint_forget(struct gpus *g, const struct conn *c)
{
	for (struct target **p = &g->targets; *p != NULL;) {
		struct target *t = *p;

		t->caller = t->caller == c ? NULL : t->caller;
		/* The connection that ends is still on the list, but broken. */
		if (c->is_program && c->pid == t->pid && program_of(g, t->pid) == NULL) {
			if (t->caller != NULL) {
				answer(t->caller, t->cookie, CUDA_ERROR_OPERATING_SYSTEM, t->state);
			}
			*p = t->next;
			free(t);
		} else {
			p = &t->next;
		}
	}
}
