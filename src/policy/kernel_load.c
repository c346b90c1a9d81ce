/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/kernel_load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/aside.h"
#include "util/time.h"

/* The verifier may need seconds for an object that it refuses in the end. */
#define LOAD_TIMEOUT_NS (10 * RBT_NS_PER_S)

/* What the loading process needs. It has a copy of our memory. */
struct job {
	const struct rbt_object *o;
	const int *shared;
	int kept[RBT_OBJECT_MAX_MAPS]; /* the shared files, in ascending order */
	size_t n_kept;
	bool is_tried;
};

static void child(int sock, void *data)
{
	const struct job *job = data;
	int files[RBT_OBJECT_MAX_MAPS];

	for (size_t i = 0; i < RBT_OBJECT_MAX_MAPS; i++) {
		files[i] = -1;
		for (size_t j = 0; job->shared[i] >= 0 && j < job->n_kept; j++) {
			if (job->kept[j] == job->shared[i]) {
				files[i] = RBT_ASIDE_KEPT + (int)j;
			}
		}
	}
	rbt_libbpf_load(sock, job->o, files, job->is_tried);
}

/* The engine relies on a file for each hook and map. */
static bool is_complete(const struct rbt_object *o, const struct rbt_kernel_files *files)
{
	for (size_t i = 0; i < RBT_N_HOOKS; i++) {
		if (o->hooks[i] >= 0 && files->programs[i] < 0) {
			return false;
		}
	}
	for (size_t i = 0; i < o->n_maps; i++) {
		if (files->maps[i] < 0) {
			return false;
		}
	}
	return true;
}

int rbt_kernel_load_start(struct rbt_loader *l, const struct rbt_object *o,
	const int shared[RBT_OBJECT_MAX_MAPS], bool is_tried, struct rbt_why *why)
{
	struct job job = {.o = o, .shared = shared, .is_tried = is_tried};

	for (size_t i = 0; i < o->n_maps; i++) {
		if (shared[i] >= 0) {
			job.kept[job.n_kept++] = shared[i];
		}
	}
	return rbt_loader_start(l, child, &job, job.kept, job.n_kept,
		is_tried ? 2 * LOAD_TIMEOUT_NS : LOAD_TIMEOUT_NS, why);
}

int rbt_kernel_load_end(struct rbt_loader *l, const struct rbt_object *o, int r,
	struct rbt_kernel_files *ret, struct rbt_why *why)
{
	if (r < 0) {
		struct rbt_why plain = *why;

		return rbt_why_set(why, r, "kernel: %.240s", plain.text);
	}
	if (!is_complete(o, &l->files)) {
		return rbt_why_set(why, -EINVAL, "kernel: libbpf failed on this object");
	}
	*ret = l->files;
	rbt_kernel_files_init(&l->files);
	return 0;
}
