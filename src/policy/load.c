/* SPDX-License-Identifier: Apache-2.0 */
/* Loading an object without waiting for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/engine_ops.h"
#include "policy/trial.h"
#include "util/time.h"

/* All hooks together have at most RBT_N_HOOKS * RBT_ENGINE_FUEL instructions, some milliseconds. */
#define VM_TIMEOUT_NS (10 * RBT_NS_PER_S)

struct rbt_engine_load {
	enum rbt_engine_kind kind;
	const struct rbt_object *o;
	struct rbt_loader loader;
};

/* The process for the vm: it only tries the object. */
static void try_vm(int sock, void *data)
{
	const struct rbt_object *o = data;
	struct rbt_heritage nothing;
	struct rbt_engine *e = NULL;
	struct rbt_why why = {""};

	rbt_heritage_find(o, NULL, &nothing);
	int r = rbt_vm_open(o, &nothing, &e, &why);
	r = r == 0 ? rbt_trial_run(e, &why) : r;
	rbt_loader_send(sock, RBT_LOAD_DONE, 0, r, why.text, strlen(why.text), -1);
}

static void find_shared(enum rbt_engine_kind kind, const struct rbt_object *o,
	struct rbt_engine *predecessor, struct rbt_heritage *ret)
{
	const bool is_shared = predecessor != NULL && predecessor->ops->kind == kind;

	rbt_heritage_find(o, is_shared ? predecessor : NULL, ret);
}

int rbt_engine_load_start(enum rbt_engine_kind kind, const struct rbt_object *o,
	struct rbt_engine *predecessor, struct rbt_engine_load **ret, struct rbt_why *why)
{
	struct rbt_engine_load *load = calloc(1, sizeof(*load));
	struct rbt_heritage shared;

	if (load == NULL) {
		return rbt_why_set(why, -ENOMEM, "out of memory");
	}
	load->kind = kind;
	load->o = o;
	find_shared(kind, o, predecessor, &shared);
	int r = kind == RBT_ENGINE_VM ? rbt_loader_start(&load->loader, try_vm,
						(void *)(uintptr_t)o, NULL, 0, VM_TIMEOUT_NS, why)
				      : rbt_kernel_start(&load->loader, o, &shared, true, why);
	if (r < 0) {
		free(load);
		return r;
	}
	*ret = load;
	return 0;
}

int rbt_engine_load_fd(const struct rbt_engine_load *load)
{
	return load->loader.sock;
}

static int finish_vm(struct rbt_engine_load *load, struct rbt_engine *predecessor, int r,
	struct rbt_engine **ret, struct rbt_why *why)
{
	struct rbt_heritage shared;

	find_shared(RBT_ENGINE_VM, load->o, predecessor, &shared);
	return r < 0 ? r : rbt_vm_open(load->o, &shared, ret, why);
}

int rbt_engine_load_step(struct rbt_engine_load *load, struct rbt_engine *predecessor,
	struct rbt_engine **ret, struct rbt_why *why, char **ret_log)
{
	int r = rbt_loader_step(&load->loader, why);

	*ret_log = NULL;
	if (r == -EAGAIN) {
		return r;
	}
	r = load->kind == RBT_ENGINE_VM ? finish_vm(load, predecessor, r, ret, why)
					: rbt_kernel_end(&load->loader, load->o, r, ret, why);
	if (r < 0) {
		*ret_log = load->loader.log;
		load->loader.log = NULL;
	}
	return r;
}

int rbt_engine_inherit(struct rbt_engine *e, struct rbt_engine *predecessor, uint64_t limit_ns,
	struct rbt_why *why)
{
	struct rbt_heritage heritage;

	if (predecessor == NULL || predecessor->ops->kind == e->ops->kind) {
		return 0;
	}
	rbt_heritage_find(e->object, predecessor, &heritage);
	return rbt_heritage_copy(e, &heritage, rbt_now_ns() + limit_ns, why);
}

pid_t rbt_engine_load_end(struct rbt_engine_load *load)
{
	pid_t lost = 0;

	if (load != NULL) {
		lost = rbt_loader_finish(&load->loader);
		free(load);
	}
	return lost;
}
