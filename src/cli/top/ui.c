/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/ui.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class.h"
#include "util/parse.h"

#define STATUS_SAMPLES 8

void top_ui_init(struct top_ui *ui)
{
	*ui = (struct top_ui){
		.order = {.by = TOP_BY_SHARE},
		.delay_ms = TOP_DELAY_DEFAULT_MS,
	};
}

void top_ui_finish(struct top_ui *ui)
{
	free(ui->shown);
	ui->shown = NULL;
}

void top_ui_say(struct top_ui *ui, bool is_bad, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ui->status, sizeof(ui->status), fmt, ap);
	va_end(ap);
	ui->status_is_bad = is_bad;
	ui->status_left = STATUS_SAMPLES;
}

void top_ui_tick(struct top_ui *ui)
{
	if (ui->status_left > 0 && --ui->status_left == 0) {
		ui->status[0] = '\0';
	}
}

static void select_place(struct top_ui *ui, const struct top_model *m, size_t place)
{
	if (ui->n_shown == 0) {
		ui->selected_pid = 0;
		ui->selected = 0;
		return;
	}
	ui->selected = place < ui->n_shown ? place : ui->n_shown - 1;
	const struct top_reading *r = &m->rows[ui->shown[ui->selected]].now;
	ui->selected_pid = r->pid;
	ui->selected_start = r->start_time;
}

static bool find_selected(struct top_ui *ui, const struct top_model *m)
{
	for (size_t i = 0; i < ui->n_shown; i++) {
		const struct top_reading *r = &m->rows[ui->shown[i]].now;
		if (r->pid == ui->selected_pid && r->start_time == ui->selected_start) {
			ui->selected = i;
			return true;
		}
	}
	return false;
}

void top_ui_arrange(struct top_ui *ui, const struct top_model *m, size_t page)
{
	if (m->n_rows > ui->shown_capacity) {
		size_t *shown = realloc(ui->shown, m->n_rows * sizeof(*shown));
		if (shown == NULL) {
			ui->n_shown = 0;
			return;
		}
		ui->shown = shown;
		ui->shown_capacity = m->n_rows;
	}
	ui->n_shown = m->n_rows > 0 ? top_order_rows(m, &ui->order, ui->shown) : 0;
	if (!ui->has_chosen) {
		select_place(ui, m, 0);
	} else if (ui->selected_pid == 0 || !find_selected(ui, m)) {
		/* The selected program has ended: the one in its place is selected. */
		select_place(ui, m, ui->selected);
	}
	ui->page = page;
	if (ui->selected < ui->first) {
		ui->first = ui->selected;
	}
	if (page > 0 && ui->selected >= ui->first + page) {
		ui->first = ui->selected - page + 1;
	}
	if (ui->first + page > ui->n_shown) {
		ui->first = ui->n_shown > page ? ui->n_shown - page : 0;
	}
}

const struct top_row *top_ui_selected(const struct top_ui *ui, const struct top_model *m)
{
	if (ui->selected >= ui->n_shown || ui->shown[ui->selected] >= m->n_rows) {
		return NULL;
	}
	return &m->rows[ui->shown[ui->selected]];
}

int top_parse_priority(const char *s, unsigned *ret)
{
	uint64_t priority;
	size_t len = strlen(s);

	if (rbt_parse_u64(s, 0, RBT_PRIORITY_MAX, &priority) == 0) {
		*ret = (unsigned)priority;
		return 0;
	}
	for (int cls = RBT_CLASS_BEST_EFFORT; cls <= RBT_CLASS_LATENCY && len > 0; cls++) {
		if (strncasecmp(s, rbt_class_name((enum rbt_class)cls), len) == 0) {
			*ret = rbt_class_priority((enum rbt_class)cls);
			return 0;
		}
	}
	return -EINVAL;
}

static void move(struct top_ui *ui, const struct top_model *m, long by)
{
	long place = (long)ui->selected + by;

	select_place(ui, m, place > 0 ? (size_t)place : 0);
}

static struct top_action asked(const struct top_ui *ui, enum top_wish wish)
{
	return (struct top_action){
		.wish = wish, .pid = ui->asked_pid, .start_time = ui->asked_start};
}

static bool move_key(struct top_ui *ui, const struct top_model *m, uint32_t key)
{
	long page = ui->page > 1 ? (long)ui->page - 1 : 1;
	bool had_chosen = ui->has_chosen;

	ui->has_chosen = true;
	switch (key) {
	case TOP_INPUT_UP:
	case 'k':
		move(ui, m, -1);
		return true;
	case TOP_INPUT_DOWN:
	case 'j':
		move(ui, m, 1);
		return true;
	case TOP_INPUT_PAGE_UP:
		move(ui, m, -page);
		return true;
	case TOP_INPUT_PAGE_DOWN:
		move(ui, m, page);
		return true;
	case TOP_INPUT_HOME:
		select_place(ui, m, 0);
		return true;
	case TOP_INPUT_END:
		select_place(ui, m, ui->n_shown);
		return true;
	default:
		ui->has_chosen = had_chosen;
		return false;
	}
}

static enum top_by next_column(enum top_by by, int step)
{
	do {
		by = (enum top_by)((by + TOP_N_COLUMNS + step) % TOP_N_COLUMNS);
	} while (by == TOP_BY_HISTORY);
	return by;
}

static void sort_by(struct top_ui *ui, enum top_by by)
{
	/* As in other tops, the same key again reverses the order. */
	ui->order.reverse = ui->order.by == by && !ui->order.reverse;
	ui->order.by = by;
}

static void sort_key(struct top_ui *ui, uint32_t key)
{
	static const struct {
		char key;
		enum top_by by;
	} direct[] = {{'P', TOP_BY_SHARE}, {'M', TOP_BY_MEMORY}, {'W', TOP_BY_WAIT},
		{'T', TOP_BY_TURNS}, {'N', TOP_BY_PID}, {'L', TOP_BY_P99}};

	for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++) {
		if (key == (uint32_t)direct[i].key) {
			sort_by(ui, direct[i].by);
			return;
		}
	}
	switch (key) {
	case '<':
	case ',':
	case TOP_INPUT_LEFT:
		ui->order.by = next_column(ui->order.by, -1);
		break;
	case '>':
	case '.':
	case TOP_INPUT_RIGHT:
		ui->order.by = next_column(ui->order.by, 1);
		break;
	case 'R':
	case 'I':
		ui->order.reverse = !ui->order.reverse;
		return;
	case TOP_INPUT_F6:
		ui->mode = TOP_MODE_SORT;
		ui->menu = ui->order.by;
		return;
	default:
		return;
	}
	ui->order.reverse = false;
}

static void change_delay(struct top_ui *ui, bool longer)
{
	static const uint64_t steps_ms[] = {
		100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 600000, 3600000};
	const size_t n = sizeof(steps_ms) / sizeof(steps_ms[0]);
	uint64_t ms = ui->delay_ms;

	for (size_t i = 0; i < n; i++) {
		size_t k = longer ? i : n - 1 - i;
		if (longer ? steps_ms[k] > ui->delay_ms : steps_ms[k] < ui->delay_ms) {
			ms = steps_ms[k];
			break;
		}
	}
	ui->delay_ms = ms;
	top_ui_say(ui, false, "delay %.1f s", (double)ms / 1000);
}

static void ask(struct top_ui *ui, enum top_mode mode, const char *input)
{
	ui->mode = mode;
	ui->status[0] = '\0';
	snprintf(ui->input, sizeof(ui->input), "%s", input);
}

/* Keys that act on the selected program; most of them ask first. */
static struct top_action act_key(struct top_ui *ui, const struct top_model *m, uint32_t key)
{
	const struct top_row *row = top_ui_selected(ui, m);
	struct top_action none = {.wish = TOP_WISH_NOTHING};
	char text[16] = "";

	if (row == NULL) {
		top_ui_say(ui, true, "no program is selected");
		return none;
	}
	ui->asked_pid = row->now.pid;
	ui->asked_start = row->now.start_time;
	const char *name = top_short_command(row->now.command);
	snprintf(ui->asked_name, sizeof(ui->asked_name), "%.*s", (int)strcspn(name, " "), name);
	if (key == 'r') {
		return asked(ui, TOP_WISH_RESUME);
	}
	if (key == 's') {
		ask(ui, TOP_MODE_SUSPEND, "");
		return none;
	}
	unsigned priority = row->now.managed ? row->now.priority : RBT_PRIORITY_NORMAL;
	if (key == TOP_INPUT_F7) {
		priority += priority < RBT_PRIORITY_MAX;
	} else if (key == TOP_INPUT_F8) {
		priority -= priority > 0;
	}
	if (key != 'n') {
		snprintf(text, sizeof(text), "%u", priority);
	}
	ask(ui, TOP_MODE_RENICE, text);
	return none;
}

/* Keys that change what is shown, and how often. */
static bool view_key(struct top_ui *ui, uint32_t key)
{
	switch (key) {
	case 'h':
	case '?':
	case TOP_INPUT_F1:
		ui->mode = TOP_MODE_HELP;
		return true;
	case '/':
	case TOP_INPUT_F4:
		ask(ui, TOP_MODE_FILTER, ui->order.filter);
		return true;
	case TOP_INPUT_ESCAPE:
		ui->order.filter[0] = '\0';
		ui->status[0] = '\0';
		return true;
	case 'd':
		ask(ui, TOP_MODE_DELAY, "");
		return true;
	case '+':
	case '=':
	case '-':
		change_delay(ui, key != '-');
		return true;
	case ' ':
		ui->paused = !ui->paused;
		return true;
	default:
		return false;
	}
}

static struct top_action table_key(struct top_ui *ui, const struct top_model *m, uint32_t key)
{
	struct top_action action = {.wish = TOP_WISH_NOTHING};

	switch (key) {
	case 'q':
	case TOP_INPUT_F10:
	case 3: /* Ctrl-C, if the terminal does not turn it into a signal */
		action.wish = TOP_WISH_QUIT;
		break;
	case TOP_INPUT_F5:
	case TOP_INPUT_ENTER:
		action.wish = TOP_WISH_REFRESH;
		break;
	case 'n':
	case 's':
	case 'r':
	case TOP_INPUT_F7:
	case TOP_INPUT_F8:
		return act_key(ui, m, key);
	default:
		if (!view_key(ui, key) && !move_key(ui, m, key)) {
			sort_key(ui, key);
		}
	}
	return action;
}

static void menu_key(struct top_ui *ui, uint32_t key)
{
	switch (key) {
	case TOP_INPUT_UP:
	case 'k':
		ui->menu = next_column(ui->menu, -1);
		break;
	case TOP_INPUT_DOWN:
	case 'j':
		ui->menu = next_column(ui->menu, 1);
		break;
	case TOP_INPUT_ENTER:
		ui->order.reverse = false;
		ui->order.by = ui->menu;
		ui->mode = TOP_MODE_TABLE;
		break;
	case TOP_INPUT_ESCAPE:
	case TOP_INPUT_F6:
	case TOP_INPUT_F10:
	case 'q':
		ui->mode = TOP_MODE_TABLE;
		break;
	default:
		break;
	}
}

/* Adds or removes a character of the input line. */
static void edit(struct top_ui *ui, uint32_t key)
{
	size_t len = strlen(ui->input);

	if (key == TOP_INPUT_BACKSPACE) {
		/* Removes a whole character: its first byte and all that follow. */
		while (len > 0 && ((unsigned char)ui->input[--len] & 0xc0) == 0x80) {
		}
		ui->input[len] = '\0';
	} else if (key == 21) { /* Ctrl-U */
		ui->input[0] = '\0';
	} else if (key >= ' ' && key < 0x7f && len + 1 < sizeof(ui->input)) {
		ui->input[len] = (char)key;
		ui->input[len + 1] = '\0';
	} else if (key >= 0xa0 && key < 0x110000 && len + 4 < sizeof(ui->input)) {
		size_t n = key < 0x800 ? 2 : key < 0x10000 ? 3 : 4;
		for (size_t i = n - 1; i > 0; i--, key >>= 6) {
			ui->input[len + i] = (char)(0x80 | (key & 0x3f));
		}
		ui->input[len] = (char)((0xf00u >> n & 0xf0) | key);
		ui->input[len + n] = '\0';
	}
}

static struct top_action answer(struct top_ui *ui)
{
	struct top_action action = asked(ui, TOP_WISH_NOTHING);
	enum top_mode mode = ui->mode;

	ui->mode = TOP_MODE_TABLE;
	if (mode == TOP_MODE_RENICE && ui->input[0] != '\0') {
		if (top_parse_priority(ui->input, &action.priority) < 0) {
			top_ui_say(ui, true,
				"'%s' is no class (latency, normal, best-effort) and no priority (0 to 15)",
				ui->input);
		} else {
			action.wish = TOP_WISH_RENICE;
		}
	} else if (mode == TOP_MODE_DELAY && ui->input[0] != '\0') {
		uint64_t ms;
		if (rbt_parse_seconds(ui->input, TOP_DELAY_MAX_MS, &ms) < 0) {
			top_ui_say(ui, true, "'%s' is no number of seconds", ui->input);
		} else {
			ui->delay_ms = ms > TOP_DELAY_MIN_MS ? ms : TOP_DELAY_MIN_MS;
		}
	}
	return action;
}

static struct top_action line_key(struct top_ui *ui, uint32_t key)
{
	if (key == TOP_INPUT_ENTER) {
		return answer(ui);
	}
	if (key == TOP_INPUT_ESCAPE || key == 3) {
		if (ui->mode == TOP_MODE_FILTER) {
			ui->order.filter[0] = '\0';
		}
		ui->mode = TOP_MODE_TABLE;
	} else {
		edit(ui, key);
	}
	/* The filter applies while one types. */
	if (ui->mode == TOP_MODE_FILTER) {
		memcpy(ui->order.filter, ui->input, sizeof(ui->order.filter));
	}
	return (struct top_action){.wish = TOP_WISH_NOTHING};
}

struct top_action top_ui_key(struct top_ui *ui, const struct top_model *m, uint32_t key)
{
	struct top_action none = {.wish = TOP_WISH_NOTHING};

	switch (ui->mode) {
	case TOP_MODE_TABLE:
		return table_key(ui, m, key);
	case TOP_MODE_HELP:
		ui->mode = TOP_MODE_TABLE;
		return none;
	case TOP_MODE_SORT:
		menu_key(ui, key);
		return none;
	case TOP_MODE_SUSPEND:
		ui->mode = TOP_MODE_TABLE;
		if (key == 'y' || key == 'Y') {
			return asked(ui, TOP_WISH_SUSPEND);
		}
		return none;
	default:
		return line_key(ui, key);
	}
}
