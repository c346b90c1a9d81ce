/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled policies on both engines at once: the same outputs, the same maps, the same records.
 * Where bpf(2) is refused, the kernel's half says SKIP, unless the test was told that it must not
 * be: in a virtual machine, with `kernel` as its second argument.
 */
#ifndef RBT_TEST_POLICY_PAIR_H
#define RBT_TEST_POLICY_PAIR_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "test_policy_world.h"

static const char *folder;
static bool has_kernel;

/* One policy on all engines that there are. */
struct pair {
	struct rbt_object *o;
	struct rbt_engine *e[RBT_N_ENGINES];
};

static inline struct rbt_object *open_object(const char *name)
{
	size_t size;
	unsigned char *bytes = world_read_file(folder, name, &size);
	struct rbt_object *o = NULL;
	struct rbt_why why = {""};

	if (rbt_object_open(bytes, size, &o, &why) < 0) {
		fprintf(stderr, "%s: %s\n", name, why.text);
		exit(1);
	}
	free(bytes);
	return o;
}

static inline void pair_load(struct pair *p, const struct pair *old)
{
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		struct rbt_why why = {""};
		char *log = NULL;
		p->e[k] = NULL;
		if ((k == RBT_ENGINE_VM || has_kernel) &&
			rbt_engine_open(k, p->o, old != NULL ? old->e[k] : NULL, &p->e[k], &why,
				&log) < 0) {
			fprintf(stderr, "%s\n%s\n", why.text, log != NULL ? log : "");
			exit(1);
		}
		free(log);
	}
}

static inline void pair_open(struct pair *p, const char *name)
{
	p->o = open_object(name);
	pair_load(p, NULL);
}

static inline void pair_close(struct pair *p)
{
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		rbt_engine_close(p->e[k]);
	}
	rbt_object_close(p->o);
}

/* Runs a hook on all engines; what it returned must be equal, and so must the contexts. */
static inline int pair_run(struct pair *p, enum rbt_hook hook, void *ctx)
{
	const size_t size = rbt_hook_ctx_size(hook);
	unsigned char copy[256];
	struct rbt_fault fault = {0}, fault2 = {0};

	memcpy(copy, ctx, size);
	int r = rbt_engine_run(p->e[RBT_ENGINE_VM], hook, ctx, &fault);
	if (has_kernel) {
		CHECK_INT(rbt_engine_run(p->e[RBT_ENGINE_KERNEL], hook, copy, &fault2), r);
		CHECK_INT(fault2.kind, fault.kind);
		CHECK_INT(fault2.value, fault.value);
		CHECK(memcmp(copy, ctx, size) == 0);
	}
	return r < 0 && fault.kind == RBT_FAULT_RETURNED ? (int)fault.value : r;
}

static inline unsigned count_entries(struct rbt_engine *e, unsigned map)
{
	unsigned char key[512];
	unsigned n = 0;

	for (int r = rbt_engine_next_key(e, map, NULL, key); r == 0; n++) {
		r = rbt_engine_next_key(e, map, key, key);
	}
	return n;
}

/* Every entry of the vm is in the kernel's map, and none is there besides. */
static inline void compare_maps(struct pair *p)
{
	struct rbt_engine *vm = p->e[RBT_ENGINE_VM], *kernel = p->e[RBT_ENGINE_KERNEL];
	unsigned char key[512], a[4096], b[4096];

	for (unsigned m = 0; has_kernel && m < p->o->n_maps; m++) {
		if (p->o->maps[m].type == BPF_MAP_TYPE_RINGBUF) {
			continue;
		}
		CHECK_INT(count_entries(vm, m), count_entries(kernel, m));
		for (int r = rbt_engine_next_key(vm, m, NULL, key); r == 0;
			r = rbt_engine_next_key(vm, m, key, key)) {
			CHECK_INT(rbt_engine_lookup(vm, m, key, a), 0);
			CHECK_INT(rbt_engine_lookup(kernel, m, key, b), 0);
			CHECK(memcmp(a, b, p->o->maps[m].value_size) == 0);
		}
	}
}

/* The records of a ring are equal. Returns how many there were; the last one is in `last`. */
static inline unsigned drain(struct pair *p, const char *ring, unsigned char *last, size_t skip)
{
	const unsigned m = (unsigned)rbt_object_find_map(p->o, ring);
	unsigned char a[512], b[512];
	unsigned n = 0;

	for (;; n++) {
		ssize_t size = rbt_engine_read_ring(p->e[RBT_ENGINE_VM], m, a, sizeof(a));
		if (has_kernel) {
			CHECK_INT(rbt_engine_read_ring(p->e[RBT_ENGINE_KERNEL], m, b, sizeof(b)),
				size);
			CHECK(size < (ssize_t)skip ||
				memcmp(a + skip, b + skip, (size_t)size - skip) == 0);
		}
		if (size < 0) {
			CHECK_INT(size, -EAGAIN);
			return n;
		}
		memcpy(last, a, (size_t)size);
	}
}

/* Arguments of a test: the folder of its policies, and `kernel` if that engine must be there. */
static inline void pair_begin(int argc, char **argv)
{
	const char *why = rbt_engine_why_not(RBT_ENGINE_KERNEL);
	bool is_needed = argc == 3 && strcmp(argv[2], "kernel") == 0;

	if (argc < 2 || (argc > 2 && !is_needed)) {
		exit(2);
	}
	folder = argv[1];
	has_kernel = why == NULL;
	if (!has_kernel) {
		printf("%s: the kernel engine: %s\n", is_needed ? "FAILED" : "SKIP", why);
		CHECK(!is_needed);
	}
}

#endif
