/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a screen of any size. Pure: it draws a model, with the user's choices, on a canvas.
 */
#ifndef RBT_CLI_TOP_LAYOUT_H
#define RBT_CLI_TOP_LAYOUT_H

#include "cli/top/canvas.h"
#include "cli/top/model.h"
#include "cli/top/ui.h"

/* Smaller screens show nothing useful. */
#define TOP_MIN_WIDTH  20
#define TOP_MIN_HEIGHT 5

struct top_place {
	enum top_by column;
	int x, width;
	bool is_wide; /* gets its longer form */
};

/* Chooses the columns that fit into `width`, from left to right: the more important ones first,
 * each in its short form, then longer forms. `wanted` has a bit (1 << enum top_by) for each column
 * with something to show. Returns their number. */
size_t top_layout_columns(int width, uint32_t wanted, struct top_place ret[TOP_N_COLUMNS]);

const char *top_column_name(enum top_by column); /* in words, for menu and JSON */

/* cells.c: one cell of the table, of one of the model's rows. */
void top_cell_draw(struct top_canvas *c, int y, const struct top_place *p,
	const struct top_model *m, const struct top_row *r, enum top_style style);
/* "512K", "32.0G": at most 5 columns. */
void top_format_bytes(uint64_t bytes, char *buf, size_t size);
/* "290us", "1.8ms", "12s": at most 5 columns. */
void top_format_ns(uint64_t ns, char *buf, size_t size);
/* The style of a program's row. */
enum top_style top_row_style(const struct top_row *r);

/* header.c: the first line, for rows that are arranged already. */
void top_title_draw(struct top_canvas *c, const struct top_model *m, const struct top_ui *ui,
	const char *clock);
/* GPUs, from the second line on; returns the lines used with the first, at most `lines`. */
int top_header_draw(struct top_canvas *c, const struct top_model *m, int lines);

/* panels.c: panels over the table, and the last line. */
void top_help_draw(struct top_canvas *c, int y);
void top_menu_draw(struct top_canvas *c, const struct top_ui *ui, int y, int lines);
void top_footer_draw(
	struct top_canvas *c, const struct top_model *m, const struct top_ui *ui, int y);

/* The height of a plain screen with all programs. */
int top_screen_height(const struct top_model *m);
/* Draws everything. Adjusts the ui's selection and scrolling to the height. */
void top_screen_draw(
	struct top_canvas *c, const struct top_model *m, struct top_ui *ui, const char *clock);

#endif
