/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_CLI_TOP_SCREEN_H
#define RBT_CLI_TOP_SCREEN_H

#include "cli/top/source.h"
#include "cli/top/ui.h"

/* The interactive `rubato top`: until the user quits, or after `count` samples (0: no limit). Takes
 * ownership of `source`. Returns an exit code, after an error message. */
int top_screen_run(struct top_source *source, struct top_ui *ui, uint64_t count, bool with_colours);

/* The time of day, HH:MM:SS; `buf` has room for it. */
void top_clock(char buf[16]);
/* Whether the locale's characters are UTF-8. */
bool top_is_utf8(void);

#endif
