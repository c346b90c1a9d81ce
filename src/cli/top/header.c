/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/top/layout.h"
#include "sched/class.h"

/* From left to right in a bar, and in words. */
static const enum rbt_class classes[] = {
	RBT_CLASS_LATENCY, RBT_CLASS_NORMAL, RBT_CLASS_BEST_EFFORT};
#define N_CLASSES (sizeof(classes) / sizeof(classes[0]))

/* Distinguishable also without colours. */
static const struct {
	wchar_t ch;
	char ascii;
} marks[] = {[RBT_CLASS_LATENCY] = {0x2588, '#'},
	[RBT_CLASS_NORMAL] = {0x2593, '='},
	[RBT_CLASS_BEST_EFFORT] = {0x2592, '-'}};

static int draw_states(
	struct top_canvas *c, int x, int y, const struct top_model *m, const struct top_ui *ui)
{
	size_t n_waiting = top_model_count(m, TOP_STATE_WAITING);
	size_t n_suspended = top_model_count(m, TOP_STATE_SUSPENDED);
	size_t n_parked = top_model_count(m, TOP_STATE_PARKED);
	int used = 0;

	if (ui->order.filter[0] != '\0') {
		used = top_putf(c, x, y, c->width, TOP_STYLE_PLAIN, "%zu of ", ui->n_shown);
	}
	used += top_putf(c, x + used, y, c->width, TOP_STYLE_PLAIN, "%zu program%s", m->n_rows,
		m->n_rows == 1 ? "" : "s");
	if (n_waiting > 0) {
		used += top_putf(
			c, x + used, y, c->width, TOP_STYLE_PLAIN, ", %zu waiting", n_waiting);
	}
	if (n_suspended > 0) {
		used += top_putf(
			c, x + used, y, c->width, TOP_STYLE_PLAIN, ", %zu suspended", n_suspended);
	}
	if (n_parked > 0) {
		used += top_putf(
			c, x + used, y, c->width, TOP_STYLE_PLAIN, ", %zu parked", n_parked);
	}
	return used;
}

void top_title_draw(
	struct top_canvas *c, const struct top_model *m, const struct top_ui *ui, const char *clock)
{
	const char *policy = top_model_policy(m);
	int x = top_put(c, 0, 0, c->width, TOP_STYLE_BOLD, "rubato top");

	x += top_putf(c, x, 0, c->width, TOP_STYLE_PLAIN, " %s  ", clock);
	x += draw_states(c, x, 0, m, ui);
	if (m->daemon == TOP_DAEMON_RUNS) {
		if (policy != NULL) {
			x += top_putf(c, x, 0, c->width, TOP_STYLE_PLAIN, "  policy %s", policy);
		}
	} else {
		x += top_put(c, x, 0, c->width, TOP_STYLE_ALERT,
			m->daemon == TOP_DAEMON_NONE ? "  no daemon"
						     : "  the daemon does not answer");
	}
	x += top_putf(
		c, x, 0, c->width, TOP_STYLE_PLAIN, "  every %.1f s", (double)ui->delay_ms / 1000);
	if (ui->paused) {
		x += top_put(c, x, 0, c->width, TOP_STYLE_ALERT, "  paused");
	}
	if (ui->order.filter[0] != '\0') {
		top_putf(c, x, 0, c->width, TOP_STYLE_ALERT, "  filter: %s", ui->order.filter);
	}
}

static double sum_of(const struct top_use *u, bool *ret_known)
{
	double sum = 0;

	*ret_known = false;
	for (size_t i = 0; i < N_CLASSES; i++) {
		sum += u->share[i];
		*ret_known |= u->has_share[i];
	}
	return sum;
}

/* More than all of a GPU is shown as all of it. */
static double percent(double share)
{
	return share < 1 ? 100 * share : 100;
}

/* Programs that share by slice use the GPU at the same time: then the bar is full, in
 * proportion. */
static void draw_bar(struct top_canvas *c, int x, int y, int width, const struct top_use *u)
{
	bool known;
	double sum = sum_of(u, &known), scale = sum > 1 ? 1 / sum : 1, end = 0;
	int at = 0;

	top_put_char(c, x, y, TOP_STYLE_PLAIN, L'[', '[');
	for (size_t i = 0; i < N_CLASSES; i++) {
		enum rbt_class cls = classes[i];
		end += u->share[cls] * scale * (width - 2);
		/* A class that has used the GPU at all is visible. */
		int until = u->share[cls] > 0 && (int)(end + 0.5) == at ? at + 1 : (int)(end + 0.5);
		for (; at < until && at < width - 2; at++) {
			top_put_char(c, x + 1 + at, y, (enum top_style)cls, marks[cls].ch,
				marks[cls].ascii);
		}
	}
	top_put_char(c, x + width - 1, y, TOP_STYLE_PLAIN, L']', ']');
	if (!known) {
		top_put_char(c, x + 1, y, TOP_STYLE_DIM, L'?', '?');
	}
}

static int draw_memory(
	struct top_canvas *c, int x, int y, const struct top_gpu *gpu, const struct top_use *u)
{
	char used[16] = "-", total[16];

	if (!u->has_memory && !gpu->has_memory) {
		return 0;
	}
	if (u->has_memory) {
		top_format_bytes(u->memory_bytes, used, sizeof(used));
	}
	if (!gpu->has_memory) {
		return top_putf(c, x, y, c->width, TOP_STYLE_PLAIN, "  mem %s", used);
	}
	top_format_bytes(gpu->memory_bytes, total, sizeof(total));
	return top_putf(c, x, y, c->width, TOP_STYLE_PLAIN, "  mem %s of %s", used, total);
}

/* The width of the GPUs' names. */
static int name_width(const struct top_model *m)
{
	char name[RBT_GPU_NAME_MAX];
	int width = 2;

	for (size_t i = 0; i < m->n_gpus; i++) {
		struct rbt_gpu gpu = rbt_gpu_of_index(&m->table, m->gpus[i].index);
		int n = (int)strlen(rbt_gpu_name(gpu, name));
		width = n > width ? n : width;
	}
	return width;
}

static void draw_gpu(struct top_canvas *c, int y, const struct top_model *m,
	const struct top_gpu *gpu, const struct top_use *u)
{
	char name[RBT_GPU_NAME_MAX];
	bool known;
	double sum = sum_of(u, &known);
	int width = c->width / 3 < 12 ? 12 : c->width / 3;
	int x = top_putf(c, 0, y, c->width, TOP_STYLE_BOLD, "GPU %-*s", name_width(m),
		rbt_gpu_name(rbt_gpu_of_index(&m->table, gpu->index), name));

	draw_bar(c, x + 1, y, width, u);
	x += 1 + width;
	if (known) {
		x += top_putf(c, x, y, c->width, TOP_STYLE_PLAIN, " %s%3.0f%%",
			u->is_allowed ? "~" : "", percent(sum));
	}
	x += draw_memory(c, x, y, gpu, u);
	x += 2 + top_put_cut(c, x + 2, y, c->width, TOP_STYLE_PLAIN, gpu->name);
	/* Half a version number is worse than none. */
	if (x + 2 + top_text_width(c, gpu->driver) <= c->width) {
		top_put(c, x + 2, y, c->width, TOP_STYLE_DIM, gpu->driver);
	}
}

static int draw_who(struct top_canvas *c, int x, int y, const char *what, const struct top_row *r)
{
	int used = 0;

	if (r == NULL) {
		return 0;
	}
	used += top_putf(c, x, y, c->width, TOP_STYLE_PLAIN, "%s %d", what, (int)r->now.pid);
	/* If there is room for more than a number. */
	if (c->width >= 120) {
		used += 1;
		used += top_put_cut(c, x + used, y, c->width / 5, top_row_style(r),
			top_short_command(r->now.command));
	}
	return used + 2;
}

static void draw_legend(struct top_canvas *c, int x, int y, const struct top_use *u)
{
	char reserve[32];

	for (size_t i = 0; i < N_CLASSES; i++) {
		enum rbt_class cls = classes[i];
		if (u->has_share[cls]) {
			top_put_char(c, x, y, (enum top_style)cls, marks[cls].ch, marks[cls].ascii);
			x += 2 + top_putf(c, x + 2, y, c->width, TOP_STYLE_PLAIN, "%s %.0f%%  ",
					 rbt_class_name(cls), percent(u->share[cls]));
		}
	}
	x += draw_who(c, x, y, "turn:", u->turn);
	if (u->reserve != NULL) {
		snprintf(reserve, sizeof(reserve), "reserve %.0f%%:", 100 * u->reserve->reserved);
		draw_who(c, x, y, reserve, u->reserve);
	}
}

int top_header_draw(struct top_canvas *c, const struct top_model *m, int lines)
{
	int n_gpus = (int)m->n_gpus, y = 1;
	int each = 1 + 2 * n_gpus <= lines ? 2 : 1;

	for (int i = 0; i < n_gpus && y < lines; i++) {
		struct top_use use;
		/* On the last line, with more than one GPU left. */
		if (y + 1 == lines && i + 1 < n_gpus) {
			top_putf(c, 0, y, c->width, TOP_STYLE_DIM, "and %d more GPUs", n_gpus - i);
			return y + 1;
		}
		top_model_use(m, m->gpus[i].index, &use);
		draw_gpu(c, y, m, &m->gpus[i], &use);
		if (each == 2) {
			draw_legend(c, 5 + name_width(m), y + 1, &use);
		}
		y += each;
	}
	if (n_gpus == 0 && y < lines) {
		top_put(c, 0, y++, c->width, TOP_STYLE_ALERT,
			"no GPU that can be read; see `rubato doctor`");
	}
	return y;
}
