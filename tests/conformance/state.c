/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the software GPU says of itself. The text is written by our own tool, one object a
 * channel group or queue; members are found by name between one "handle" and the next.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

static char text[1 << 20];

static int run(const char *command)
{
	FILE *p = popen(command, "re");

	if (p == NULL) {
		return -errno;
	}
	size_t n = fread(text, 1, sizeof(text) - 1, p);
	text[n] = '\0';
	return pclose(p) == 0 && n > 0 ? 0 : -EIO;
}

/* The number after "key": between from and to; false when it is not there. */
static bool member(const char *from, const char *to, const char *key, uint64_t *ret)
{
	char quoted[64];

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	const char *p = strstr(from, quoted);
	if (p == NULL || (to != NULL && p >= to)) {
		return false;
	}
	*ret = strtoull(p + strlen(quoted), NULL, 10);
	return true;
}

static bool is_ours(const struct rbt_record *records, size_t n, uint64_t client, uint64_t handle)
{
	for (size_t i = 0; i < n; i++) {
		for (uint32_t t = 0; records[i].client == client && t < records[i].n_tasks; t++) {
			if (records[i].tasks[t].handle == handle) {
				return true;
			}
		}
	}
	return false;
}

static bool add_group(const char *from, const char *to, struct state *sum)
{
	uint64_t channels, enabled, full, scheduling;

	if (!member(from, to, "channels", &channels) || !member(from, to, "enabled", &enabled) ||
		!member(from, to, "disabled_full", &full) ||
		!member(from, to, "disabled_scheduling", &scheduling) ||
		!member(from, to, "timeslice_us", &sum->timeslice_us)) {
		return false;
	}
	sum->channels += channels;
	sum->enabled += enabled;
	sum->disabled_full += full;
	sum->disabled_scheduling += scheduling;
	return true;
}

int state_read(
	const struct options *opt, const struct rbt_record *records, size_t n, struct state *ret)
{
	struct state sum = {0};
	int r = run(opt->state);
	const char *tsgs = strstr(text, "\"tsgs\":"), *counters = strstr(text, "\"counters\":");

	if (r < 0) {
		return r;
	}
	if (tsgs == NULL || counters == NULL ||
		!member(counters, NULL, "log_lines", &sum.log_lines)) {
		return -EBADMSG;
	}
	/* "client" is each object's first member, "handle" its second. */
	for (const char *p = strstr(tsgs, "\"client\":"); p != NULL;) {
		const char *next = strstr(p + 1, "\"client\":");
		uint64_t client, handle;
		if (!member(p, next, "client", &client) || !member(p, next, "handle", &handle)) {
			return -EBADMSG;
		}
		if (is_ours(records, n, client, handle) && !add_group(p, next, &sum)) {
			return -EBADMSG;
		}
		p = next;
	}
	*ret = sum;
	return 0;
}
