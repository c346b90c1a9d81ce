/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal. Only this file uses ncurses; everything here is for the main thread. */
#ifndef RBT_CLI_TOP_DRAW_H
#define RBT_CLI_TOP_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/top/canvas.h"

/* Takes over the terminal: NULL, or an error message. */
const char *top_draw_open(bool with_colours);
/* Restores the terminal. May be called twice. */
void top_draw_close(void);

/* The terminal's current size. */
void top_draw_resize(int *ret_width, int *ret_height);
void top_draw_show(const struct top_canvas *c);
/* The next pressed key: a character or an enum top_input; 0: none. */
uint32_t top_draw_key(void);

#endif
