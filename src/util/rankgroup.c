/* SPDX-License-Identifier: Apache-2.0 */
#include "util/rankgroup.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* Launchers, inner ones first: torchrun may run in a Slurm step. All variables of an entry must be
 * set. */
static const struct {
	const char *prefix;
	const char *variables[2];
} launchers[] = {
	/* The run id may be "none" for all jobs, but each job has a port of its own on a
	 * machine. */
	{"torch:", {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
	{"pmix:", {"PMIX_NAMESPACE", NULL}},
	{"ompi:", {"OMPI_MCA_ess_base_jobid", NULL}},
	{"slurm:", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

static bool is_name_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '.' || c == '-' || c == '_';
}

bool rbt_rankgroup_is_name(const char *name)
{
	size_t n = 0;

	while (is_name_char(name[n])) {
		n++;
	}
	return n > 0 && n < RBT_GROUP_NAME_MAX && name[n] == '\0';
}

/* A name under construction; text that does not fit goes into the hash only. */
struct text {
	char *buf;
	size_t n;
	uint64_t hash;
	bool is_cut;
};

static void append(struct text *t, const char *s, bool is_ours)
{
	for (; *s != '\0'; s++) {
		/* FNV-1a */
		t->hash = (t->hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
		if (t->n == RBT_GROUP_NAME_MAX - 1) {
			t->is_cut = true;
		} else if (is_ours || is_name_char(*s)) {
			t->buf[t->n++] = *s;
		} else {
			t->buf[t->n++] = '_';
		}
	}
}

static void finish(struct text *t)
{
	if (t->is_cut) {
		for (int i = 0; i < 16; i++) {
			t->buf[t->n - 16 + (size_t)i] = "0123456789abcdef"[t->hash >> (4 * i) & 15];
		}
	}
	t->buf[t->n] = '\0';
}

int rbt_rankgroup_find(
	const char *(*get)(void *ctx, const char *name), void *ctx, char ret[RBT_GROUP_NAME_MAX])
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		struct text t = {.buf = ret, .hash = UINT64_C(0xcbf29ce484222325)};
		const char *first = get(ctx, launchers[i].variables[0]);
		const char *second = launchers[i].variables[1] != NULL
					     ? get(ctx, launchers[i].variables[1])
					     : "";

		if (first == NULL || first[0] == '\0' || second == NULL) {
			continue;
		}
		append(&t, launchers[i].prefix, true);
		append(&t, first, false);
		append(&t, second[0] != '\0' ? "." : "", true);
		append(&t, second, false);
		finish(&t);
		return 0;
	}
	return -ENOENT;
}
