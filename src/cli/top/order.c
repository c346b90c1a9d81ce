/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/top/model.h"
#include "sched/class.h"

/* The value to compare: text or a number, or unknown. */
struct value {
	bool known;
	const char *text;
	double number;
};

struct sorted {
	size_t index;
	struct value value;
	const struct top_row *row;
	bool falls;
};

static struct value number(bool known, double v)
{
	return (struct value){.known = known, .number = v};
}

static struct value text(const char *s)
{
	return (struct value){.known = s[0] != '\0', .text = s};
}

static struct value place(const struct top_row *r)
{
	const char *kind, *where = top_row_place(r, &kind);

	return text(where != NULL ? where : "");
}

static struct value value_of(const struct top_row *r, enum top_by by)
{
	switch (by) {
	case TOP_BY_USER:
		return text(r->now.user);
	case TOP_BY_COMMAND:
		return text(r->now.command);
	case TOP_BY_PLACE:
		return place(r);
	case TOP_BY_CLASS:
	case TOP_BY_PRIORITY:
		return number(r->now.managed, r->now.priority);
	case TOP_BY_STATE:
		return number(r->state != TOP_STATE_UNKNOWN, -(double)r->state);
	case TOP_BY_GPU:
		/* By the lowest: a program on GPUs 0 and 3 stands with those on 0. */
		return number(r->now.gpus != 0, __builtin_ffs((int)r->now.gpus));
	case TOP_BY_SHARE:
	case TOP_BY_HISTORY:
		return number((r->valid & TOP_HAS_SHARE) != 0, r->share);
	case TOP_BY_WAIT:
		return number((r->valid & TOP_HAS_WAIT) != 0, r->wait);
	case TOP_BY_MEMORY:
		return number(r->now.has_memory, (double)r->now.memory_bytes);
	case TOP_BY_LIMIT:
		return number(r->now.limit_bytes != 0, (double)r->now.limit_bytes);
	case TOP_BY_PENDING:
		return number(top_row_has_pending(r), (double)r->now.account.n_pending);
	case TOP_BY_REQUESTS:
		return number((r->valid & TOP_HAS_REQUESTS) != 0, r->requests_per_s);
	case TOP_BY_P99:
		return number((r->valid & TOP_HAS_P99) != 0, (double)r->p99_ns);
	case TOP_BY_OFF:
		return number((r->valid & TOP_HAS_OFF) != 0, (double)r->off_ns);
	case TOP_BY_DONE:
		return number((r->valid & TOP_HAS_DONE) != 0, (double)r->done_ns);
	case TOP_BY_TURNS:
		return number((r->valid & TOP_HAS_TURNS) != 0, r->turns_per_s);
	default:
		return number(true, r->now.pid);
	}
}

static bool falls(enum top_by by)
{
	return by != TOP_BY_PID && by != TOP_BY_USER && by != TOP_BY_GPU && by != TOP_BY_PLACE &&
	       by != TOP_BY_COMMAND;
}

static int compare(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	int order = 0;

	if (x->value.known != y->value.known) {
		return x->value.known ? -1 : 1;
	}
	if (x->value.known && x->value.text != NULL) {
		order = strcoll(x->value.text, y->value.text);
	} else if (x->value.known) {
		order = (x->value.number > y->value.number) - (x->value.number < y->value.number);
	}
	if (order != 0) {
		return x->falls ? -order : order;
	}
	return (x->row->now.pid > y->row->now.pid) - (x->row->now.pid < y->row->now.pid);
}

size_t top_order_rows(const struct top_model *m, const struct top_order *o, size_t *ret)
{
	struct sorted *sorted = calloc(m->n_rows + 1, sizeof(*sorted));
	size_t n = 0;

	if (sorted == NULL) {
		return 0;
	}
	for (size_t i = 0; i < m->n_rows; i++) {
		if (top_filter_matches(&m->rows[i], o->filter)) {
			sorted[n++] = (struct sorted){
				.index = i,
				.row = &m->rows[i],
				.value = value_of(&m->rows[i], o->by),
				.falls = falls(o->by) != o->reverse,
			};
		}
	}
	qsort(sorted, n, sizeof(*sorted), compare);
	for (size_t i = 0; i < n; i++) {
		ret[i] = sorted[i].index;
	}
	free(sorted);
	return n;
}

static bool contains(const char *where, const char *what)
{
	return strcasestr(where, what) != NULL;
}

bool top_filter_matches(const struct top_row *r, const char *filter)
{
	char pid[16];

	if (filter[0] == '\0') {
		return true;
	}
	snprintf(pid, sizeof(pid), "%d", (int)r->now.pid);
	return contains(r->now.command, filter) || contains(r->now.user, filter) ||
	       contains(pid, filter) || contains(r->now.place.container_id, filter) ||
	       contains(r->now.place.pod_uid, filter) || contains(r->now.place.slurm_job, filter) ||
	       contains(r->now.guest.vm, filter) || contains(r->now.guest.command, filter) ||
	       (r->now.managed && contains(rbt_class_name(rbt_class_of(r->now.priority)), filter));
}
