/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a policy is not trusted. What the reader accepts is run by the vm, and the entries of
 * its maps are printed and parsed by their types, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/engine.h"
#include "policy/value.h"
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

static void use_part(
	const struct rbt_object *o, const struct rbt_object_map *m, enum rbt_value_part part)
{
	static const char *const texts[] = {
		"1", "SECOND", "{submits=1,last_ns=2}", "scale=1", "[1,2]", "\"a\"", "hex:00"};
	const size_t size = part == RBT_VALUE_KEY ? m->key_size : m->value_size;
	char *text = NULL;
	size_t n_text = 0;
	struct rbt_why why;
	struct rbt_json j;

	if (size == 0 || size > 65536) {
		return;
	}
	void *bytes = calloc(1, size);
	FILE *out = open_memstream(&text, &n_text);
	REQUIRE(bytes != NULL && out != NULL);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		(void)rbt_value_parse(o, m, part, texts[i], bytes, &why);
	}
	rbt_value_print(out, o, m, part, bytes);
	rbt_json_init(&j, out);
	rbt_value_json(&j, NULL, o, m, part, bytes);
	fclose(out);
	free(text);
	free(bytes);
}

/* What tools print of a map's entry, they can read again; the types are the object's own. */
static void convert(
	const struct rbt_object *o, const struct rbt_object_map *m, enum rbt_value_part part)
{
	const size_t size = part == RBT_VALUE_KEY ? m->key_size : m->value_size;
	struct rbt_why why = {""};
	char *text = NULL;
	size_t n;

	if (size == 0 || size > 4096) {
		return;
	}
	unsigned char *bytes = malloc(size); /* so that a sanitizer sees what is behind */
	FILE *out = open_memstream(&text, &n);
	REQUIRE(bytes != NULL && out != NULL);
	for (size_t i = 0; i < size; i++) {
		bytes[i] = (unsigned char)(i * 37 + 1);
	}
	rbt_value_print(out, o, m, part, bytes);
	REQUIRE(fclose(out) == 0);
	int r = rbt_value_parse(o, m, part, text, bytes, &why);
	REQUIRE(r == 0 || why.text[0] != '\0');
	free(text);
	free(bytes);
}

static void convert_all(const struct rbt_object *o)
{
	for (size_t i = 0; i < o->n_maps; i++) {
		convert(o, &o->maps[i], RBT_VALUE_KEY);
		convert(o, &o->maps[i], RBT_VALUE_VALUE);
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
	for (size_t i = 0; i < o->n_maps; i++) {
		use_part(o, &o->maps[i], RBT_VALUE_KEY);
		use_part(o, &o->maps[i], RBT_VALUE_VALUE);
	}
	convert_all(o);
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
