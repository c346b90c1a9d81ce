/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/engine_ops.h"
#include "util/time.h"

/* Room for every context. */
#define MAX_CTX 256

const char *rbt_engine_kind_name(enum rbt_engine_kind kind)
{
	return kind == RBT_ENGINE_KERNEL ? "kernel" : "vm";
}

const char *rbt_engine_why_not(enum rbt_engine_kind kind)
{
	return kind == RBT_ENGINE_KERNEL ? rbt_kernel_why_not() : NULL;
}

void rbt_fault_format(const struct rbt_fault *fault, char *buf, size_t size)
{
	const char *section = fault->section != NULL ? fault->section : "?";

	switch (fault->kind) {
	case RBT_FAULT_NONE:
		snprintf(buf, size, "no fault");
		break;
	case RBT_FAULT_RETURNED:
		snprintf(buf, size, "section %s: the hook returned %lld", section,
			(long long)fault->value);
		break;
	case RBT_FAULT_SYSTEM:
		snprintf(buf, size, "section %s: %s: %s", section, fault->what,
			strerror((int)-fault->value));
		break;
	default:
		snprintf(buf, size, "section %s: instruction %u: %s", section, fault->pc,
			fault->what);
	}
}

static bool is_same_shape(const struct rbt_object_map *a, const struct rbt_object_map *b)
{
	return !a->is_data && !b->is_data && a->type == b->type && a->key_size == b->key_size &&
	       a->value_size == b->value_size && a->max_entries == b->max_entries &&
	       a->flags == b->flags;
}

void rbt_heritage_find(
	const struct rbt_object *o, struct rbt_engine *from, struct rbt_heritage *ret)
{
	ret->from = from;
	for (size_t i = 0; i < RBT_OBJECT_MAX_MAPS; i++) {
		int j = i < o->n_maps && from != NULL
				? rbt_object_find_map(from->object, o->maps[i].name)
				: -1;
		ret->maps[i] =
			j >= 0 && is_same_shape(&o->maps[i], &from->object->maps[j]) ? j : -1;
	}
}

/* From an engine of the other kind. Keys that vanish meanwhile are not there any more. */
static int copy_entries(struct rbt_engine *from, unsigned from_map, struct rbt_engine *to,
	unsigned to_map, uint64_t until_ns)
{
	const uint32_t key_size = to->object->maps[to_map].key_size;
	const uint32_t value_size = to->object->maps[to_map].value_size;

	char *key = calloc(1, key_size), *value = calloc(1, value_size);
	int r = key == NULL || value == NULL ? -ENOMEM
					     : rbt_engine_next_key(from, from_map, NULL, key);

	while (r == 0) {
		if (rbt_engine_lookup(from, from_map, key, value) == 0) {
			r = rbt_engine_update(to, to_map, key, value, BPF_ANY);
		}
		r = r == 0 && until_ns != UINT64_MAX && rbt_now_ns() > until_ns ? -ETIMEDOUT : r;
		r = r == 0 ? rbt_engine_next_key(from, from_map, key, key) : r;
	}
	free(key);
	free(value);
	return r == -ENOENT ? 0 : r;
}

int rbt_heritage_copy(struct rbt_engine *e, const struct rbt_heritage *heritage, uint64_t until_ns,
	struct rbt_why *why)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < e->object->n_maps; i++) {
		const struct rbt_object_map *m = &e->object->maps[i];
		if (heritage->maps[i] >= 0 && m->type != BPF_MAP_TYPE_RINGBUF) {
			r = copy_entries(
				heritage->from, (unsigned)heritage->maps[i], e, i, until_ns);
		}
	}
	if (r == -ETIMEDOUT) {
		return rbt_why_set(why, r,
			"copying the entries of the old maps to the other engine takes too long; "
			"unload the old policy first");
	}
	return r == 0 ? 0
		      : rbt_why_set(why, r, "the entries of the old maps cannot be copied: %s",
				strerror(-r));
}

int rbt_engine_open(enum rbt_engine_kind kind, const struct rbt_object *o,
	struct rbt_engine *predecessor, struct rbt_engine **ret, struct rbt_why *why,
	char **ret_log)
{
	struct rbt_heritage heritage, nothing;
	struct rbt_engine *e = NULL;
	char *log = NULL;

	rbt_heritage_find(o, predecessor, &heritage);
	rbt_heritage_find(o, NULL, &nothing);
	const bool is_shared = predecessor != NULL && predecessor->ops->kind == kind;
	const struct rbt_heritage *shared = is_shared ? &heritage : &nothing;
	int r = kind == RBT_ENGINE_VM ? rbt_vm_open(o, shared, &e, why)
				      : rbt_kernel_open(o, shared, &e, why, &log);
	if (r == 0 && predecessor != NULL && !is_shared) {
		r = rbt_heritage_copy(e, &heritage, UINT64_MAX, why);
		if (r < 0) {
			rbt_engine_close(e);
		}
	}
	if (ret_log != NULL) {
		*ret_log = log;
	} else {
		free(log);
	}
	if (r == 0) {
		*ret = e;
	}
	return r;
}

void rbt_engine_close(struct rbt_engine *e)
{
	if (e != NULL) {
		e->ops->close(e);
	}
}

enum rbt_engine_kind rbt_engine_kind(const struct rbt_engine *e)
{
	return e->ops->kind;
}

bool rbt_engine_has_hook(const struct rbt_engine *e, enum rbt_hook hook)
{
	return e->object->hooks[hook] >= 0;
}

int rbt_engine_run(struct rbt_engine *e, enum rbt_hook hook, void *ctx, struct rbt_fault *ret_fault)
{
	const size_t size = rbt_hook_ctx_size(hook);
	uint64_t copy[MAX_CTX / sizeof(uint64_t)];

	assert(size <= sizeof(copy));
	if (!rbt_engine_has_hook(e, hook)) {
		return -ENOENT;
	}
	memcpy(copy, ctx, size);
	struct rbt_fault fault = {
		.section = e->object->functions[e->object->hooks[hook]].section_name};
	int r = e->ops->run(e, hook, copy, &fault);
	if (r < 0) {
		*ret_fault = fault;
		return r;
	}
	memcpy(ctx, copy, size);
	return 0;
}

static bool has_entries(const struct rbt_engine *e, unsigned map)
{
	return map < e->object->n_maps && e->object->maps[map].type != BPF_MAP_TYPE_RINGBUF;
}

int rbt_engine_lookup(struct rbt_engine *e, unsigned map, const void *key, void *ret_value)
{
	return has_entries(e, map) ? e->ops->lookup(e, map, key, ret_value) : -EINVAL;
}

int rbt_engine_update(
	struct rbt_engine *e, unsigned map, const void *key, const void *value, uint64_t flags)
{
	if (!has_entries(e, map)) {
		return -EINVAL;
	}
	return e->object->maps[map].is_read_only ? -EPERM
						 : e->ops->update(e, map, key, value, flags);
}

int rbt_engine_delete(struct rbt_engine *e, unsigned map, const void *key)
{
	if (!has_entries(e, map)) {
		return -EINVAL;
	}
	return e->object->maps[map].is_read_only ? -EPERM : e->ops->delete (e, map, key);
}

int rbt_engine_next_key(struct rbt_engine *e, unsigned map, const void *key, void *ret_key)
{
	return has_entries(e, map) ? e->ops->next_key(e, map, key, ret_key) : -EINVAL;
}

ssize_t rbt_engine_read_ring(struct rbt_engine *e, unsigned map, void *buf, size_t size)
{
	if (map >= e->object->n_maps || e->object->maps[map].type != BPF_MAP_TYPE_RINGBUF) {
		return -EINVAL;
	}
	return e->ops->read_ring(e, map, buf, size);
}
