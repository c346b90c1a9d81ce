/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal. Nothing else of `rubato top` knows of ncurses; everything here is for the main
 * thread.
 */
#ifndef RBT_CLI_TOP_DRAW_H
#define RBT_CLI_TOP_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/top/canvas.h"

/* Takes the terminal over: NULL, or what is wrong with it, in words. */
const char *top_draw_open(bool with_colours);
/* Gives it back as it was. May be called twice. */
void top_draw_close(void);

/* Asks the terminal how large it is now. */
void top_draw_resize(int *ret_width, int *ret_height);
void top_draw_show(const struct top_canvas *c);
/* The next key that was pressed: a character or an enum top_input; 0 when there is none. */
uint32_t top_draw_key(void);

#endif
