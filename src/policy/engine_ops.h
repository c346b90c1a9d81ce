/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine has to do, for engine.c. Arguments have been checked. */
#ifndef RBT_POLICY_ENGINE_OPS_H
#define RBT_POLICY_ENGINE_OPS_H

#include "policy/engine.h"
#include "policy/loader.h"

/* All operations are mandatory. None blocks; all are called on the engine's thread. */
struct rbt_engine_ops {
	enum rbt_engine_kind kind;
	/* 0, or -EFAULT and *fault. The context may be anything after a failure. */
	int (*run)(struct rbt_engine *e, enum rbt_hook hook, void *ctx, struct rbt_fault *fault);
	int (*lookup)(struct rbt_engine *e, unsigned map, const void *key, void *ret_value);
	int (*update)(struct rbt_engine *e, unsigned map, const void *key, const void *value,
		uint64_t flags);
	int (*delete)(struct rbt_engine *e, unsigned map, const void *key);
	int (*next_key)(struct rbt_engine *e, unsigned map, const void *key, void *ret_key);
	ssize_t (*read_ring)(struct rbt_engine *e, unsigned map, void *buf, size_t size);
	void (*close)(struct rbt_engine *e);
};

/* The first member of each engine. */
struct rbt_engine {
	const struct rbt_engine_ops *ops;
	const struct rbt_object *object;
};

/* For each map of the object, the map of the predecessor to be shared, or -1. */
struct rbt_heritage {
	struct rbt_engine *from; /* of the same kind, or NULL */
	int maps[RBT_OBJECT_MAX_MAPS];
};

int rbt_vm_open(const struct rbt_object *o, const struct rbt_heritage *heritage,
	struct rbt_engine **ret, struct rbt_why *why);
int rbt_kernel_open(const struct rbt_object *o, const struct rbt_heritage *heritage,
	struct rbt_engine **ret, struct rbt_why *why, char **ret_log);
/* The same in two steps: the loader's process is at work in between. */
int rbt_kernel_start(struct rbt_loader *l, const struct rbt_object *o,
	const struct rbt_heritage *heritage, bool is_tried, struct rbt_why *why);
int rbt_kernel_end(struct rbt_loader *l, const struct rbt_object *o, int r, struct rbt_engine **ret,
	struct rbt_why *why);
const char *rbt_kernel_why_not(void);

/* engine.c: the maps that an engine of the object takes over from another one, or none (NULL). */
void rbt_heritage_find(
	const struct rbt_object *o, struct rbt_engine *from, struct rbt_heritage *ret);
/* Copies the entries of these maps from an engine of the other kind. -ETIMEDOUT: not all of them by
 * then; UINT64_MAX: however long it takes. */
int rbt_heritage_copy(struct rbt_engine *e, const struct rbt_heritage *heritage, uint64_t until_ns,
	struct rbt_why *why);

#endif
