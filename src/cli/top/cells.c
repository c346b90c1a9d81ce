/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/top/layout.h"
#include "sched/class.h"

void top_format_bytes(uint64_t bytes, char *buf, size_t size)
{
	static const char units[] = "KMGTPE";
	double v = (double)bytes / 1024;
	unsigned unit = 0;

	while (v >= 999.5 && units[unit + 1] != '\0') {
		v /= 1024;
		unit++;
	}
	if (unit > 0 && v < 99.95) {
		snprintf(buf, size, "%.1f%c", v, units[unit]);
	} else {
		snprintf(buf, size, "%.0f%c", v, units[unit]);
	}
}

void top_format_ns(uint64_t ns, char *buf, size_t size)
{
	double us = (double)ns / 1e3;

	if (us < 999.5) {
		snprintf(buf, size, "%.0fus", us);
	} else if (us < 9950) {
		snprintf(buf, size, "%.1fms", us / 1e3);
	} else if (us < 999.5e3) {
		snprintf(buf, size, "%.0fms", us / 1e3);
	} else if (us < 99.5e6) {
		snprintf(buf, size, "%.1fs", us / 1e6);
	} else {
		snprintf(buf, size, "%.0fs", us / 1e6);
	}
}

enum top_style top_row_style(const struct top_row *r)
{
	if (r->state == TOP_STATE_SUSPENDED || r->state == TOP_STATE_PARKED) {
		return TOP_STYLE_ALERT;
	}
	if (!r->now.managed) {
		return TOP_STYLE_PLAIN;
	}
	return (enum top_style)rbt_class_of(r->now.priority);
}

static const char *class_text(const struct top_row *r, bool is_wide)
{
	if (!r->now.managed) {
		return NULL;
	}
	enum rbt_class cls = rbt_class_of(r->now.priority);
	return cls == RBT_CLASS_BEST_EFFORT && !is_wide ? "best-eff" : rbt_class_name(cls);
}

static const char *state_text(const struct top_row *r, bool is_wide, char *buf, size_t size)
{
	static const char *const brief[] = {[TOP_STATE_RUNNING] = "run",
		[TOP_STATE_TURN] = "turn",
		[TOP_STATE_RESERVES] = "resv",
		[TOP_STATE_WAITING] = "wait",
		[TOP_STATE_SUSPENDED] = "susp",
		[TOP_STATE_PARKED] = "park"};
	static const char *const full[] = {[TOP_STATE_RUNNING] = "running",
		[TOP_STATE_TURN] = "has its turn",
		[TOP_STATE_RESERVES] = "reserves",
		[TOP_STATE_WAITING] = "waiting",
		[TOP_STATE_SUSPENDED] = "suspended",
		[TOP_STATE_PARKED] = "parked"};
	/* The mark means that there is a note, which the last line shows if the row is selected. */
	const char *mark = r->now.note[0] != '\0' ? "!" : "";

	if (r->state == TOP_STATE_UNKNOWN) {
		return NULL;
	}
	if (is_wide && r->state == TOP_STATE_SUSPENDED && r->now.suspended_left_ms > 0) {
		snprintf(buf, size, "suspended %" PRIu64 "s%s",
			(r->now.suspended_left_ms + 999) / 1000, mark);
	} else {
		snprintf(buf, size, "%s%s", (is_wide ? full : brief)[r->state], mark);
	}
	return buf;
}

static const char *gpus_text(
	const struct top_model *m, const struct top_row *r, char *buf, size_t size)
{
	char name[RBT_GPU_NAME_MAX];
	size_t at = 0;

	for (uint32_t gpu = 0; gpu < m->table.n && at + RBT_GPU_NAME_MAX < size; gpu++) {
		if ((r->now.gpus >> gpu & 1) != 0) {
			int n = snprintf(buf + at, size - at, "%s%s", at > 0 ? "," : "",
				rbt_gpu_name(rbt_gpu_of_index(&m->table, gpu), name));
			at += n > 0 ? (size_t)n : 0;
		}
	}
	return at > 0 ? buf : NULL;
}

static const char *number_text(bool known, const char *prefix, double v, char *buf, size_t size)
{
	if (!known) {
		return NULL;
	}
	snprintf(buf, size, v < 9999.95 ? "%s%.1f" : "%s%.0f", prefix, v);
	return buf;
}

static const char *time_text(bool known, uint64_t ns, char *buf, size_t size)
{
	top_format_ns(ns, buf, size);
	return known ? buf : NULL;
}

/* In brackets if it is not enforced. */
static const char *limit_text(const struct top_row *r, char *buf, size_t size)
{
	char text[16];

	if (r->now.limit_bytes == 0) {
		return NULL;
	}
	top_format_bytes(r->now.limit_bytes, text, sizeof(text));
	snprintf(buf, size, r->now.is_bound ? "%s" : "(%s)", text);
	return buf;
}

/* Identifiers are cut: their first digits are enough to tell them apart. */
static const char *place_text(const struct top_row *r, bool is_wide, char *buf, size_t size)
{
	const char *kind, *place = top_row_place(r, &kind);

	if (place == NULL) {
		return NULL;
	}
	snprintf(buf, size, "%s %.*s", kind, is_wide ? 12 : 8, place);
	return buf;
}

/* A cell's text; NULL when it is not known. */
static const char *cell_text(const struct top_model *m, const struct top_row *r,
	const struct top_place *p, char *buf, size_t size)
{
	const char *about = (r->valid & TOP_SHARE_IS_ALLOWED) != 0 ? "~" : "";

	switch (p->column) {
	case TOP_BY_PID:
		snprintf(buf, size, "%d", (int)r->now.pid);
		return buf;
	case TOP_BY_USER:
		return r->now.user;
	case TOP_BY_CLASS:
		return class_text(r, p->is_wide);
	case TOP_BY_PRIORITY:
		snprintf(buf, size, "%u", r->now.priority);
		return r->now.managed ? buf : NULL;
	case TOP_BY_STATE:
		return state_text(r, p->is_wide, buf, size);
	case TOP_BY_GPU:
		return gpus_text(m, r, buf, size);
	case TOP_BY_SHARE:
		return number_text(
			(r->valid & TOP_HAS_SHARE) != 0, about, 100 * r->share, buf, size);
	case TOP_BY_WAIT:
		return number_text((r->valid & TOP_HAS_WAIT) != 0, "", 100 * r->wait, buf, size);
	case TOP_BY_MEMORY:
		top_format_bytes(r->now.memory_bytes, buf, size);
		return r->now.has_memory ? buf : NULL;
	case TOP_BY_LIMIT:
		return limit_text(r, buf, size);
	case TOP_BY_PENDING:
		snprintf(buf, size, "%" PRIu64, r->now.account.n_pending);
		return top_row_has_pending(r) ? buf : NULL;
	case TOP_BY_REQUESTS:
		return number_text(
			(r->valid & TOP_HAS_REQUESTS) != 0, "", r->requests_per_s, buf, size);
	case TOP_BY_P99:
		return time_text((r->valid & TOP_HAS_P99) != 0, r->p99_ns, buf, size);
	case TOP_BY_OFF:
		return time_text((r->valid & TOP_HAS_OFF) != 0, r->off_ns, buf, size);
	case TOP_BY_DONE:
		return time_text((r->valid & TOP_HAS_DONE) != 0, r->done_ns, buf, size);
	case TOP_BY_TURNS:
		return number_text((r->valid & TOP_HAS_TURNS) != 0, "", r->turns_per_s, buf, size);
	case TOP_BY_PLACE:
		return place_text(r, p->is_wide, buf, size);
	default:
		return r->now.command;
	}
}

/* The newest value is on the right. */
static void draw_history(struct top_canvas *c, int y, const struct top_place *p,
	const struct top_row *r, enum top_style style)
{
	static const char ascii[] = "_.-:=+*#";

	for (int i = 0; i < p->width; i++) {
		float v = top_row_history(r, (unsigned)(p->width - 1 - i));
		if (v >= 0) {
			int level = v < 1 ? (int)(v * 8) : 7;
			top_put_char(c, p->x + i, y, style, 0x2581 + level, ascii[level]);
		}
	}
}

void top_cell_draw(struct top_canvas *c, int y, const struct top_place *p,
	const struct top_model *m, const struct top_row *r, enum top_style style)
{
	bool is_text = p->column == TOP_BY_USER || p->column == TOP_BY_CLASS ||
		       p->column == TOP_BY_STATE || p->column == TOP_BY_GPU ||
		       p->column == TOP_BY_PLACE || p->column == TOP_BY_COMMAND;
	char buf[64];

	if (p->column == TOP_BY_HISTORY) {
		draw_history(c, y, p, r, style);
		return;
	}
	const char *text = cell_text(m, r, p, buf, sizeof(buf));
	if (text == NULL) {
		top_put_char(
			c, is_text ? p->x : p->x + p->width - 1, y, TOP_STYLE_DIM, 0x2013, '-');
		return;
	}
	int width = top_text_width(c, text);
	if (p->column == TOP_BY_COMMAND && width > p->width) {
		text = top_short_command(text);
	}
	int x = p->x + (!is_text && width < p->width ? p->width - width : 0);
	top_put_cut(c, x, y, p->width, style, text);
}
