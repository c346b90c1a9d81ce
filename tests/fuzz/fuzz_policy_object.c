/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a policy is not trusted. What the reader accepts is run by the vm, too. */
#include <stdlib.h>
#include <string.h>

#include "policy/engine.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_hooks(struct rbt_engine *e)
{
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		union {
			struct bpf_gpu_work_ctx work;
			unsigned char bytes[256];
		} ctx = {.work = {.task = 5, .count = 3, .timestamp = 1000}}, before = ctx;
		struct rbt_fault fault = {0};
		char text[64];
		int r = rbt_engine_run(e, hook, &ctx, &fault);
		if (r < 0 && rbt_engine_has_hook(e, hook)) {
			REQUIRE(fault.kind != RBT_FAULT_NONE);
			REQUIRE(memcmp(&ctx, &before, sizeof(ctx)) == 0);
			rbt_fault_format(&fault, text, sizeof(text));
		}
	}
}

static void read_maps(struct rbt_engine *e, const struct rbt_object *o)
{
	for (unsigned i = 0; i < o->n_maps; i++) {
		unsigned char record[512];
		char text[64];
		ssize_t n = rbt_engine_read_ring(e, i, record, sizeof(record));
		if (n >= 0) {
			rbt_log_format(record, (size_t)n, text, sizeof(text));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rbt_object *o = NULL;
	struct rbt_engine *e = NULL, *next = NULL;
	struct rbt_why why = {""};

	if (rbt_object_open(data, size, &o, &why) < 0) {
		REQUIRE(why.text[0] != '\0' && strchr(why.text, '\n') == NULL);
		return 0;
	}
	rbt_object_set(o, "slice_us=7", &why);
	rbt_object_set(o, "rule=SECOND", &why);
	rbt_object_set(o, "refuse=true", &why);
	if (rbt_engine_open(RBT_ENGINE_VM, o, NULL, &e, &why, NULL) == 0) {
		run_hooks(e);
		if (rbt_engine_open(RBT_ENGINE_VM, o, e, &next, &why, NULL) == 0) {
			run_hooks(next);
		}
		rbt_engine_close(e);
		if (next != NULL) {
			read_maps(next, o);
		}
		rbt_engine_close(next);
	}
	rbt_object_close(o);
	return 0;
}
