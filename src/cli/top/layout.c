/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/layout.h"

#include <string.h>

struct column {
	const char *title, *name;
	int brief, full; /* width of its two forms */
	bool is_right;
};

static const struct column columns[TOP_N_COLUMNS] = {
	[TOP_BY_PID] = {"PID", "pid", 7, 7, true},
	[TOP_BY_USER] = {"USER", "user", 6, 10, false},
	[TOP_BY_CLASS] = {"CLASS", "class", 8, 11, false},
	[TOP_BY_PRIORITY] = {"PRI", "priority", 3, 3, true},
	[TOP_BY_STATE] = {"STATE", "state", 5, 14, false},
	[TOP_BY_GPU] = {"GPU", "gpu", 4, 7, false},
	[TOP_BY_SHARE] = {"SHARE%", "share", 6, 6, true},
	[TOP_BY_WAIT] = {"WAIT%", "wait", 5, 5, true},
	[TOP_BY_MEMORY] = {"MEM", "memory", 5, 5, true},
	[TOP_BY_LIMIT] = {"LIMIT", "limit", 7, 7, true},
	[TOP_BY_PENDING] = {"PEND", "pending", 5, 5, true},
	[TOP_BY_REQUESTS] = {"REQ/s", "requests", 6, 6, true},
	[TOP_BY_P99] = {"P99", "p99", 5, 5, true},
	[TOP_BY_OFF] = {">OFF", "off", 5, 5, true},
	[TOP_BY_DONE] = {">DONE", "done", 5, 5, true},
	[TOP_BY_TURNS] = {"TURN/s", "turns", 6, 6, true},
	[TOP_BY_HISTORY] = {"HISTORY", "history", 8, 32, false},
	[TOP_BY_PLACE] = {"PLACE", "place", 12, 16, false},
	[TOP_BY_COMMAND] = {"COMMAND", "command", 12, 40, false},
};

/* From essential to optional. */
static const enum top_by importance[TOP_N_COLUMNS] = {TOP_BY_COMMAND, TOP_BY_PID, TOP_BY_SHARE,
	TOP_BY_CLASS, TOP_BY_STATE, TOP_BY_WAIT, TOP_BY_HISTORY, TOP_BY_P99, TOP_BY_MEMORY,
	TOP_BY_USER, TOP_BY_PLACE, TOP_BY_GPU, TOP_BY_LIMIT, TOP_BY_PRIORITY, TOP_BY_REQUESTS,
	TOP_BY_PENDING, TOP_BY_TURNS, TOP_BY_OFF, TOP_BY_DONE};

/* The same for longer forms. The command gets the rest. */
static const enum top_by lengthening[] = {TOP_BY_CLASS, TOP_BY_STATE, TOP_BY_PLACE, TOP_BY_USER,
	TOP_BY_COMMAND, TOP_BY_HISTORY, TOP_BY_GPU};

const char *top_column_name(enum top_by column)
{
	return columns[column].name;
}

/* Chooses columns in their short forms; returns the width that is left. */
static int choose(int width, uint32_t wanted, int widths[TOP_N_COLUMNS])
{
	int left = width + 1; /* each column but the last has a blank behind it */

	for (size_t i = 0; i < TOP_N_COLUMNS; i++) {
		enum top_by col = importance[i];
		if ((wanted >> col & 1) != 0 && columns[col].brief + 1 <= left) {
			widths[col] = columns[col].brief;
			left -= columns[col].brief + 1;
		}
	}
	return left;
}

static void lengthen(int left, int widths[TOP_N_COLUMNS])
{
	for (size_t i = 0; i < sizeof(lengthening) / sizeof(lengthening[0]); i++) {
		enum top_by col = lengthening[i];
		int more = columns[col].full - columns[col].brief;
		/* A sparkline or a command can be cut to any width; a word cannot. */
		bool any = col == TOP_BY_HISTORY || col == TOP_BY_COMMAND;
		if (any && more > left) {
			more = left;
		}
		if (widths[col] > 0 && more <= left) {
			widths[col] += more;
			left -= more;
		}
	}
	widths[TOP_BY_COMMAND] += widths[TOP_BY_COMMAND] > 0 ? left : 0;
}

size_t top_layout_columns(int width, uint32_t wanted, struct top_place ret[TOP_N_COLUMNS])
{
	int widths[TOP_N_COLUMNS] = {0}, x = 0;
	size_t n = 0;

	lengthen(choose(width, wanted, widths), widths);
	for (int col = 0; col < TOP_N_COLUMNS; col++) {
		if (widths[col] > 0) {
			ret[n++] = (struct top_place){
				.column = (enum top_by)col,
				.x = x,
				.width = widths[col],
				.is_wide = widths[col] >= columns[col].full,
			};
			x += widths[col] + 1;
		}
	}
	return n;
}

/* Columns for which at least one row has a value. */
static uint32_t wanted_columns(const struct top_model *m, int width)
{
	uint32_t wanted = (UINT32_C(1) << TOP_N_COLUMNS) - 1;
	uint32_t valid = 0;
	bool any_memory = false, any_limit = false, any_pending = false, any_place = false;
	const char *kind;

	for (size_t i = 0; i < m->n_rows; i++) {
		valid |= m->rows[i].valid;
		any_memory |= m->rows[i].now.has_memory;
		any_limit |= m->rows[i].now.limit_bytes != 0;
		any_pending |= top_row_has_pending(&m->rows[i]);
		any_place |= top_row_place(&m->rows[i], &kind) != NULL;
	}
	wanted &= ~((valid & TOP_HAS_REQUESTS) == 0 ? UINT32_C(1) << TOP_BY_REQUESTS : 0);
	wanted &= ~((valid & TOP_HAS_P99) == 0 ? UINT32_C(1) << TOP_BY_P99 : 0);
	wanted &= ~((valid & TOP_HAS_OFF) == 0 ? UINT32_C(1) << TOP_BY_OFF : 0);
	wanted &= ~((valid & TOP_HAS_DONE) == 0 ? UINT32_C(1) << TOP_BY_DONE : 0);
	/* A single GPU needs no column for its number. */
	wanted &= ~(m->n_gpus < 2 && width < 120 ? UINT32_C(1) << TOP_BY_GPU : 0);
	wanted &= ~(!any_memory ? UINT32_C(1) << TOP_BY_MEMORY : 0);
	wanted &= ~(!any_limit ? UINT32_C(1) << TOP_BY_LIMIT : 0);
	wanted &= ~(!any_place ? UINT32_C(1) << TOP_BY_PLACE : 0);
	wanted &= ~(!any_pending ? UINT32_C(1) << TOP_BY_PENDING : 0);
	return wanted;
}

static void draw_titles(struct top_canvas *c, int y, const struct top_place *places, size_t n,
	const struct top_order *o)
{
	top_restyle(c, y, TOP_STYLE_HEAD);
	for (size_t i = 0; i < n; i++) {
		const struct column *col = &columns[places[i].column];
		int width = (int)strlen(col->title), room = places[i].width;
		bool is_key = places[i].column == o->by;
		int x = places[i].x + (col->is_right && width < room ? room - width : 0);
		top_put(c, x, y, room, is_key ? TOP_STYLE_KEY : TOP_STYLE_HEAD, col->title);
		/* Beside its title, if there is room. */
		if (is_key && (col->is_right ? x > 0 : width < room)) {
			top_put_char(c, col->is_right ? x - 1 : x + width, y, TOP_STYLE_KEY,
				o->reverse ? 0x2191 : 0x2193, o->reverse ? '^' : 'v');
		}
	}
}

static void draw_table(
	struct top_canvas *c, const struct top_model *m, const struct top_ui *ui, int y, int lines)
{
	struct top_place places[TOP_N_COLUMNS];
	size_t n = top_layout_columns(c->width, wanted_columns(m, c->width), places);

	draw_titles(c, y, places, n, &ui->order);
	for (int i = 0; i + 1 < lines; i++) {
		size_t at = ui->first + (size_t)i;
		if (at >= ui->n_shown) {
			break;
		}
		const struct top_row *row = &m->rows[ui->shown[at]];
		enum top_style style = top_row_style(row);
		for (size_t k = 0; k < n; k++) {
			top_cell_draw(c, y + 1 + i, &places[k], m, row, style);
		}
		if (!ui->plain && at == ui->selected) {
			top_restyle(c, y + 1 + i, TOP_STYLE_SELECT);
		}
	}
	if (ui->n_shown == 0 && lines > 1) {
		top_put(c, 1, y + 1, c->width, TOP_STYLE_DIM,
			m->n_rows > 0 ? "no program matches the filter"
				      : "no program uses a GPU here");
	}
}

int top_screen_height(const struct top_model *m)
{
	size_t rows = m->n_rows > 0 ? m->n_rows : 1;

	return (int)(1 + 2 * m->n_gpus + 1 + rows);
}

void top_screen_draw(
	struct top_canvas *c, const struct top_model *m, struct top_ui *ui, const char *clock)
{
	int footer = ui->plain ? 0 : 1;

	if (c->width < TOP_MIN_WIDTH || c->height < TOP_MIN_HEIGHT) {
		top_put(c, 0, 0, c->width, TOP_STYLE_PLAIN, "too small");
		return;
	}
	if (ui->mode == TOP_MODE_HELP) {
		top_help_draw(c, 0);
		return;
	}
	/* The table gets half of the screen in any case. */
	int most = ui->plain ? c->height - 2 : c->height / 2;
	int y = top_header_draw(c, m, most);
	int lines = c->height - y - footer;
	top_ui_arrange(ui, m, lines > 1 ? (size_t)lines - 1 : 0);
	top_title_draw(c, m, ui, clock);
	draw_table(c, m, ui, y, lines);
	if (ui->mode == TOP_MODE_SORT) {
		top_menu_draw(c, ui, y, lines);
	}
	if (footer > 0) {
		top_footer_draw(c, m, ui, c->height - 1);
	}
}
