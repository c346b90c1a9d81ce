/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/canvas.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xfffd
#define ELLIPSIS    0x2026

int top_canvas_init(struct top_canvas *c, int width, int height, bool utf8)
{
	size_t n = (size_t)width * (size_t)height;
	struct top_cell *cells = calloc(n + 1, sizeof(*cells));

	if (cells == NULL) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		cells[i] = (struct top_cell){.ch = L' ', .style = TOP_STYLE_PLAIN};
	}
	*c = (struct top_canvas){
		.width = width,
		.height = height,
		.utf8 = utf8,
		.cells = cells,
		.cursor_x = -1,
		.cursor_y = -1,
	};
	return 0;
}

void top_canvas_finish(struct top_canvas *c)
{
	free(c->cells);
	c->cells = NULL;
}

static size_t sequence_length(unsigned char first)
{
	return first < 0x80   ? 1
	       : first < 0xc2 ? 0
	       : first < 0xe0 ? 2
	       : first < 0xf0 ? 3
	       : first < 0xf5 ? 4
			      : 0;
}

/* Decodes the character at `p`, with its length in *ret_len; invalid bytes give the replacement
 * character. */
static uint32_t decode(const char *p, size_t *ret_len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = sequence_length((unsigned char)p[0]);
	uint32_t ch = len > 1 ? (unsigned char)p[0] & (0x7fu >> len) : (unsigned char)p[0];

	*ret_len = 1;
	for (size_t i = 1; i < len; i++) {
		if (((unsigned char)p[i] & 0xc0) != 0x80) {
			return REPLACEMENT;
		}
		ch = ch << 6 | ((unsigned char)p[i] & 0x3f);
	}
	if (len == 0 || ch < least[len] || ch > 0x10ffff || (ch >= 0xd800 && ch < 0xe000)) {
		return REPLACEMENT;
	}
	*ret_len = len;
	return ch;
}

/* The character to show, and its width in columns; width 0: it is omitted. */
static wchar_t harmless(const struct top_canvas *c, uint32_t ch, int *ret_width)
{
	*ret_width = 1;
	if (ch < 0x80) {
		return ch >= ' ' && ch < 0x7f ? (wchar_t)ch : L'?';
	}
	if (!c->utf8) {
		return L'?';
	}
	int width = wcwidth((wchar_t)ch);
	if (width < 0 || (ch >= 0xe000 && ch < 0xf900) || ch >= 0xf0000) {
		return REPLACEMENT;
	}
	*ret_width = width;
	return (wchar_t)ch;
}

static struct top_cell *cell_at(struct top_canvas *c, int x, int y)
{
	return &c->cells[(size_t)y * (size_t)c->width + (size_t)x];
}

/* Half a wide character cannot be shown: if one half is overwritten, the other becomes a blank. */
static void set_cell(struct top_canvas *c, int x, int y, wchar_t ch, enum top_style style)
{
	if (cell_at(c, x, y)->ch == 0 && ch != 0 && x > 0) {
		cell_at(c, x - 1, y)->ch = L' ';
	}
	if (x + 1 < c->width && cell_at(c, x + 1, y)->ch == 0) {
		cell_at(c, x + 1, y)->ch = L' ';
	}
	*cell_at(c, x, y) = (struct top_cell){.ch = ch, .style = (unsigned char)style};
}

static int clip(const struct top_canvas *c, int x, int y, int room)
{
	if (x < 0 || y < 0 || x >= c->width || y >= c->height) {
		return 0;
	}
	return room < c->width - x ? room : c->width - x;
}

int top_text_width(const struct top_canvas *c, const char *s)
{
	int width, total = 0;
	size_t len;

	for (; *s != '\0'; s += len) {
		harmless(c, decode(s, &len), &width);
		total += width;
	}
	return total;
}

int top_put(struct top_canvas *c, int x, int y, int room, enum top_style style, const char *s)
{
	int width, used = 0;
	size_t len;

	room = clip(c, x, y, room);
	for (; *s != '\0'; s += len) {
		wchar_t ch = harmless(c, decode(s, &len), &width);
		if (width == 0) {
			continue;
		}
		if (used + width > room) {
			break;
		}
		set_cell(c, x + used, y, ch, style);
		if (width == 2) {
			set_cell(c, x + used + 1, y, 0, style);
		}
		used += width;
	}
	return used;
}

int top_put_cut(struct top_canvas *c, int x, int y, int room, enum top_style style, const char *s)
{
	room = clip(c, x, y, room);
	if (room < 3 || top_text_width(c, s) <= room) {
		return top_put(c, x, y, room, style, s);
	}
	int used = top_put(c, x, y, room - 1, style, s);
	set_cell(c, x + used, y, c->utf8 ? ELLIPSIS : L'+', style);
	return used + 1;
}

int top_putf(
	struct top_canvas *c, int x, int y, int room, enum top_style style, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return top_put(c, x, y, room, style, text);
}

void top_put_char(struct top_canvas *c, int x, int y, enum top_style style, wchar_t ch, char ascii)
{
	if (clip(c, x, y, 1) == 1) {
		set_cell(c, x, y, c->utf8 ? ch : (wchar_t)ascii, style);
	}
}

void top_restyle(struct top_canvas *c, int y, enum top_style style)
{
	for (int x = 0; y >= 0 && y < c->height && x < c->width; x++) {
		cell_at(c, x, y)->style = (unsigned char)style;
	}
}

static size_t encode(uint32_t ch, char *buf)
{
	if (ch < 0x80) {
		buf[0] = (char)ch;
		return 1;
	}
	size_t len = ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;
	for (size_t i = len - 1; i > 0; i--) {
		buf[i] = (char)(0x80 | (ch & 0x3f));
		ch >>= 6;
	}
	buf[0] = (char)((0xf00u >> len & 0xf0) | ch);
	return len;
}

void top_canvas_line(const struct top_canvas *c, int y, char *buf)
{
	const struct top_cell *line = &c->cells[(size_t)y * (size_t)c->width];
	int end = c->width;
	size_t at = 0;

	while (end > 0 && line[end - 1].ch == L' ') {
		end--;
	}
	for (int x = 0; x < end; x++) {
		if (line[x].ch != 0) {
			at += encode((uint32_t)line[x].ch, buf + at);
		}
	}
	buf[at] = '\0';
}
