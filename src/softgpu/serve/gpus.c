/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/serve/gpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softgpu/ptx/ptx.h"
#include "softgpu/serve/gpu_link.h"
#include "softgpu/serve/gpus_impl.h"
#include "util/fd.h"
#include "util/time.h"

#define MAX_CONTEXTS 256 /* of one connection */

struct gpus *gpus_create(struct server *s)
{
	struct gpus *g = calloc(1, sizeof(*g));

	if (g == NULL) {
		return NULL;
	}
	g->server = s;
	g->next_id = 1;
	for (size_t i = 0; i < NV_MAX_GPUS; i++) {
		pthread_mutex_init(&g->cards[i].lock, NULL);
	}
	return g;
}

/* A program waits for its only answer: if that does not fit into the socket, the program is not our
 * libcuda. */
void gpus_reply(
	struct conn *c, const struct gpu_reply *answer, size_t size, const int *fds, size_t n_fds)
{
	if (rbt_send(c->fd, answer, size, fds, n_fds, MSG_DONTWAIT) < 0) {
		c->broken = true;
	}
}

static struct gpu_reply answer_to(const uint8_t *msg)
{
	struct link_header h;

	memcpy(&h, msg, sizeof(h));
	return (struct gpu_reply){.h = link_header(GPU_REPLY, h.cookie)};
}

static void handle_hello(struct gpus *g, struct conn *c, const uint8_t *msg)
{
	struct gpu_reply answer = answer_to(msg);
	struct gpu_hello m;
	int fds[2] = {-1, -1};

	memcpy(&m, msg, sizeof(m));
	if (m.version != GPU_ABI_VERSION) {
		answer.error = -EPROTO;
	} else if (m.gpu >= g->server->config.rm.n_gpus) {
		answer.error = -ENODEV;
	} else if (g->cards[m.gpu].dev == NULL) {
		answer.error = card_start(&g->cards[m.gpu], g->server);
	}
	if (answer.error == 0) {
		struct rbt_device *dev = g->cards[m.gpu].dev;
		fds[0] = rbt_device_arena_fd(dev);
		fds[1] = rbt_device_bell_fd(dev);
		answer.n_sms = rbt_device_config(dev)->n_sms;
		answer.memory_bytes = rbt_device_config(dev)->memory_bytes;
		answer.value = rbt_device_arena_bytes(dev);
		c->is_program = true;
	}
	gpus_reply(c, &answer, sizeof(answer), fds, answer.error == 0 ? 2 : 0);
}

static struct rbt_context_schedule schedule_of(const struct rbt_rm_group *group, bool is_frozen)
{
	uint64_t us = group->timeslice_us;

	return (struct rbt_context_schedule){
		.timeslice_ns = us < UINT64_MAX / RBT_NS_PER_US ? us * RBT_NS_PER_US : UINT64_MAX,
		.interleave = group->interleave,
		.scheduled = group->scheduled && !is_frozen,
		.copies_wait = group->copies_wait,
		.enabled = group->enabled,
	};
}

static size_t count_contexts(const struct gpus *g, const struct conn *c)
{
	size_t n = 0;

	for (const struct bound *b = g->contexts; b != NULL; b = b->next) {
		n += b->conn == c;
	}
	return n;
}

/* The objects must belong to the process that asks: handles can be guessed. */
static int bind_context(
	struct gpus *g, struct conn *c, const struct gpu_context *m, struct bound *b)
{
	struct rbt_context_schedule schedule;

	if (m->n_channels == 0 || m->n_channels > GPU_MAX_CHANNELS) {
		return -EINVAL;
	}
	*b = (struct bound){
		.conn = c, .client = m->client, .tsg = m->tsg, .n_channels = m->n_channels};
	memcpy(b->channels, m->channels, sizeof(b->channels));
	int r = rbt_rm_get_group(
		g->server->rm, b->client, b->tsg, b->channels, b->n_channels, &b->seen);
	if (r < 0) {
		return r;
	}
	b->card = &g->cards[b->seen.gpu];
	if (b->seen.open_pid != c->pid || b->seen.engine != RBT_RM_ENGINE_COMPUTE ||
		b->card->dev == NULL) {
		return -EPERM;
	}
	if (count_contexts(g, c) >= MAX_CONTEXTS) {
		return -ENOSPC;
	}
	schedule = schedule_of(&b->seen, false);
	card_lock(b->card);
	r = rbt_context_create(b->card->dev, b->n_channels, (uint64_t)c->pid, &b->ctx);
	if (r == 0) {
		rbt_context_set_schedule(b->ctx, &schedule);
	}
	card_unlock(b->card);
	return r;
}

static void handle_context(struct gpus *g, struct conn *c, const uint8_t *msg)
{
	struct gpu_reply answer = answer_to(msg);
	struct gpu_context m;
	struct bound *b = calloc(1, sizeof(*b));
	int fd = -1;

	memcpy(&m, msg, sizeof(m));
	answer.error = b != NULL ? bind_context(g, c, &m, b) : -ENOMEM;
	if (answer.error < 0) {
		free(b);
	} else {
		b->id = g->next_id++;
		b->gpu = b->seen.gpu;
		b->next = g->contexts;
		g->contexts = b;
		answer.value = b->id;
		fd = rbt_context_room_fd(b->ctx);
	}
	gpus_reply(c, &answer, sizeof(answer), &fd, fd >= 0 ? 1 : 0);
}

static void bound_destroy(struct bound *b)
{
	card_lock(b->card);
	rbt_context_destroy(b->ctx);
	card_unlock(b->card);
	free(b);
}

/* NULL unless it belongs to this connection. */
static struct bound **find(struct gpus *g, const struct conn *c, uint32_t id)
{
	for (struct bound **p = &g->contexts; *p != NULL; p = &(*p)->next) {
		if ((*p)->conn == c && (*p)->id == id) {
			return p;
		}
	}
	return NULL;
}

static void handle_memory(struct gpus *g, struct conn *c, uint32_t type, const uint8_t *msg)
{
	struct gpu_reply answer = answer_to(msg);
	struct gpu_memory m;
	int fd = -1;

	memcpy(&m, msg, sizeof(m));
	struct bound **p = find(g, c, m.context);
	if (p == NULL) {
		answer.error = -ENOENT;
	} else {
		card_lock((*p)->card);
		if (type == GPU_ALLOC) {
			answer.error = rbt_context_alloc((*p)->ctx, m.size, &answer.value);
		} else if (type == GPU_PIN) {
			answer.error = rbt_context_pin((*p)->ctx, m.size, m.address, &fd);
		} else {
			answer.error = rbt_context_free((*p)->ctx, m.address);
		}
		card_unlock((*p)->card);
	}
	gpus_reply(c, &answer, sizeof(answer), &fd, fd >= 0 ? 1 : 0);
	rbt_close(&fd);
}

static void handle_share(struct gpus *g, struct conn *c, const uint8_t *msg, int fd)
{
	struct gpu_reply answer = answer_to(msg);
	struct gpu_share m;

	memcpy(&m, msg, sizeof(m));
	struct bound **p = find(g, c, m.context);
	if (p == NULL || fd < 0) {
		answer.error = p == NULL ? -ENOENT : -EINVAL;
	} else {
		card_lock((*p)->card);
		answer.error = rbt_context_share((*p)->ctx, fd, m.offset, m.size, m.address);
		card_unlock((*p)->card);
	}
	gpus_reply(c, &answer, sizeof(answer), NULL, 0);
}

/* The file is the program's and may change or shrink: it is read, never mapped. It must be in
 * memory (only such files have seals): otherwise reading it might hang. */
static int read_text(int fd, uint64_t size, char **ret)
{
	if (fd < 0 || size == 0 || size > GPU_MAX_TEXT || fcntl(fd, F_GET_SEALS) < 0) {
		return -EINVAL;
	}
	char *text = malloc(size + 1);
	if (text == NULL) {
		return -ENOMEM;
	}
	for (uint64_t at = 0; at < size;) {
		ssize_t n = pread(fd, text + at, size - at, (off_t)at);
		if (n <= 0) {
			int err = n < 0 ? errno : EINVAL;
			free(text);
			return -err;
		}
		at += (uint64_t)n;
	}
	text[size] = '\0';
	*ret = text;
	return 0;
}

/* Parsing happens under the lock, too: the device stops meanwhile, as for any other call. */
static void load(struct bound *b, const struct gpu_module *m, int fd, struct gpu_reply *answer,
	uint64_t *vas)
{
	struct rbt_ptx_error error = {0};
	size_t n = 0;
	uint32_t module = 0;
	char *text = NULL;

	answer->error = read_text(fd, m->size, &text);
	if (answer->error < 0) {
		return;
	}
	card_lock(b->card);
	answer->error = rbt_context_load(
		b->ctx, text, m->size, &module, vas, GPU_MAX_VARIABLES, &n, &error);
	if (answer->error == 0 && n > GPU_MAX_VARIABLES) {
		(void)rbt_context_unload(b->ctx, module);
		answer->error = -E2BIG;
	}
	card_unlock(b->card);
	free(text);
	if (answer->error == 0) {
		answer->value = module;
		answer->count = (uint32_t)n;
	} else {
		memcpy(answer->text, error.text, sizeof(answer->text) - 1);
	}
}

static void handle_module(struct gpus *g, struct conn *c, const uint8_t *msg, int fd)
{
	static struct {
		struct gpu_reply answer;
		uint64_t vas[GPU_MAX_VARIABLES];
	} out;
	struct gpu_module m;

	memcpy(&m, msg, sizeof(m));
	out.answer = answer_to(msg);
	struct bound **p = find(g, c, m.context);
	if (p == NULL) {
		out.answer.error = -ENOENT;
	} else {
		load(*p, &m, fd, &out.answer, out.vas);
	}
	gpus_reply(
		c, &out.answer, sizeof(out.answer) + out.answer.count * sizeof(uint64_t), NULL, 0);
}

static void handle_object(struct gpus *g, struct conn *c, uint32_t type, const uint8_t *msg)
{
	struct gpu_reply answer = answer_to(msg);
	struct gpu_object m;
	uint64_t total = 0;

	memcpy(&m, msg, sizeof(m));
	struct bound **p = find(g, c, m.context);
	if (p == NULL) {
		answer.error = -ENOENT;
	} else if (type == GPU_CONTEXT_END) {
		struct bound *b = *p;
		*p = b->next;
		bound_destroy(b);
	} else {
		card_lock((*p)->card);
		if (type == GPU_UNLOAD) {
			answer.error = rbt_context_unload((*p)->ctx, m.object);
		} else {
			rbt_device_memory((*p)->card->dev, &answer.value, &total);
			answer.count = 0;
			answer.memory_bytes = total;
		}
		card_unlock((*p)->card);
	}
	gpus_reply(c, &answer, sizeof(answer), NULL, 0);
}

static size_t size_of(uint32_t type)
{
	switch (type) {
	case GPU_HELLO:
		return sizeof(struct gpu_hello);
	case GPU_CONTEXT:
		return sizeof(struct gpu_context);
	case GPU_ALLOC:
	case GPU_PIN:
	case GPU_FREE:
		return sizeof(struct gpu_memory);
	case GPU_SHARE:
		return sizeof(struct gpu_share);
	case GPU_MODULE:
		return sizeof(struct gpu_module);
	case GPU_PROCESS:
		return sizeof(struct gpu_process);
	case GPU_CONTEXT_END:
	case GPU_UNLOAD:
	case GPU_MEMORY:
		return sizeof(struct gpu_object);
	default:
		return 0;
	}
}

bool gpus_handle(struct gpus *g, struct conn *c, const uint8_t *msg, size_t size, int fd)
{
	struct link_header h;

	memcpy(&h, msg, sizeof(h));
	if (size_of(h.type) != size) {
		return false;
	}
	switch (h.type) {
	case GPU_HELLO:
		handle_hello(g, c, msg);
		break;
	case GPU_CONTEXT:
		handle_context(g, c, msg);
		break;
	case GPU_MODULE:
		handle_module(g, c, msg, fd);
		break;
	case GPU_PROCESS:
		checkpoint_handle(g, c, msg);
		break;
	case GPU_SHARE:
		handle_share(g, c, msg, fd);
		break;
	case GPU_ALLOC:
	case GPU_PIN:
	case GPU_FREE:
		handle_memory(g, c, h.type, msg);
		break;
	default:
		handle_object(g, c, h.type, msg);
		break;
	}
	return true;
}

void gpus_forget(struct gpus *g, const struct conn *c)
{
	checkpoint_forget(g, c);
	for (struct bound **p = &g->contexts; *p != NULL;) {
		struct bound *b = *p;
		if (b->conn == c) {
			*p = b->next;
			bound_destroy(b);
		} else {
			p = &b->next;
		}
	}
}

/* Its group was freed, or the file on which it was made was closed. */
static void orphan(struct bound *b)
{
	card_lock(b->card);
	rbt_context_kill(b->ctx, GPU_ERROR_LAUNCH_FAILED);
	card_unlock(b->card);
	b->client = 0;
}

static void carry_over(struct bound *b, const struct rbt_rm_group *now)
{
	struct rbt_context_schedule schedule = schedule_of(now, b->is_frozen);
	bool preempt = now->n_preempts != b->seen.n_preempts ||
		       (now->disabled_full & ~b->seen.disabled_full) != 0;

	card_lock(b->card);
	rbt_context_set_schedule(b->ctx, &schedule);
	if (preempt) {
		rbt_context_preempt(b->ctx);
	}
	card_unlock(b->card);
	b->seen = *now;
}

void bound_freeze(struct bound *b, bool is_frozen)
{
	struct rbt_context_schedule schedule = schedule_of(&b->seen, is_frozen);

	b->is_frozen = is_frozen;
	card_lock(b->card);
	rbt_context_set_schedule(b->ctx, &schedule);
	card_unlock(b->card);
}

/* Compares the fields that can change, one by one because of padding. */
static bool is_same(const struct rbt_rm_group *a, const struct rbt_rm_group *b)
{
	return a->timeslice_us == b->timeslice_us && a->n_preempts == b->n_preempts &&
	       a->interleave == b->interleave && a->scheduled == b->scheduled &&
	       a->copies_wait == b->copies_wait && a->enabled == b->enabled &&
	       a->disabled_full == b->disabled_full;
}

void gpus_refresh(struct gpus *g)
{
	for (struct bound *b = g->contexts; b != NULL; b = b->next) {
		struct rbt_rm_group now = {0};
		if (b->client == 0) {
			continue;
		}
		if (rbt_rm_get_group(g->server->rm, b->client, b->tsg, b->channels, b->n_channels,
			    &now) < 0) {
			orphan(b);
		} else if (!is_same(&now, &b->seen)) {
			carry_over(b, &now);
		}
	}
}
