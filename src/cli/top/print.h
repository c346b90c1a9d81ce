/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_CLI_TOP_PRINT_H
#define RBT_CLI_TOP_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/top/model.h"
#include "cli/top/ui.h"

/* Prints a plain screen of that width; height 0: one line per program. 0 or -ENOMEM. */
int top_print_screen(FILE *out, const struct top_model *m, struct top_ui *ui, int width, int height,
	bool utf8, const char *clock);
/* Prints everything as one object, indented or on one line. 0 or -ENOMEM. */
int top_print_json(FILE *out, const struct top_model *m, const struct top_order *order,
	uint64_t time_ms, bool one_line);

#endif
