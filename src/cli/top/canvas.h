/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A screen in memory: cells with a character and a style each. Everything is drawn here, and then
 * shown by draw.c or printed by print.c. Pure, except for wcwidth(3), which depends on the locale.
 *
 * Text from outside (command lines, names) can do no harm here: invalid bytes, and characters that
 * move the cursor or change direction, are replaced or omitted.
 */
#ifndef RBT_CLI_TOP_CANVAS_H
#define RBT_CLI_TOP_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

/* The first three are in the order of enum rbt_class. */
enum top_style {
	TOP_STYLE_BEST_EFFORT,
	TOP_STYLE_NORMAL,
	TOP_STYLE_LATENCY,
	TOP_STYLE_PLAIN,
	TOP_STYLE_DIM,
	TOP_STYLE_BOLD,
	TOP_STYLE_HEAD,   /* the table's head, and the line of keys */
	TOP_STYLE_KEY,    /* the sort column; a key in the line of keys */
	TOP_STYLE_ALERT,  /* refusals, a lost daemon, suspended programs */
	TOP_STYLE_SELECT, /* the selected row */
	TOP_N_STYLES,
};

struct top_cell {
	wchar_t ch; /* 0: the right half of the wide character before it */
	unsigned char style;
};

struct top_canvas {
	int width, height;
	bool utf8;              /* the terminal shows more than ASCII */
	struct top_cell *cells; /* owned; rows of `width` */
	int cursor_x, cursor_y; /* the terminal's cursor; -1: hidden */
};

/* 0, or -ENOMEM. All cells are blank. Free with top_canvas_finish(). */
int top_canvas_init(struct top_canvas *c, int width, int height, bool utf8);
void top_canvas_finish(struct top_canvas *c);

/* Writes UTF-8 from column x on, in at most `room` columns and never over the edge; if `cut` is
 * set, shortened text ends with an ellipsis. Returns the columns used. */
int top_put(struct top_canvas *c, int x, int y, int room, enum top_style style, const char *s);
int top_put_cut(struct top_canvas *c, int x, int y, int room, enum top_style style, const char *s);
int top_putf(struct top_canvas *c, int x, int y, int room, enum top_style style, const char *fmt,
	...) __attribute__((format(printf, 6, 7)));
/* Writes one character of our own; `ascii` if the terminal shows nothing else. */
void top_put_char(struct top_canvas *c, int x, int y, enum top_style style, wchar_t ch, char ascii);
/* Gives a whole line this style, from x on. */
void top_restyle(struct top_canvas *c, int y, enum top_style style);

/* The width of the text in columns, if there is room. */
int top_text_width(const struct top_canvas *c, const char *s);

/* The line as UTF-8, without trailing blanks. `buf` has room for 4 bytes per column and a NUL. */
void top_canvas_line(const struct top_canvas *c, int y, char *buf);

#endif
