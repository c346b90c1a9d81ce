/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_CLI_TOP_SCREEN_H
#define RBT_CLI_TOP_SCREEN_H

#include "cli/top/source.h"
#include "cli/top/ui.h"

/* `rubato top` as one sees it: until the user has enough, or after `count` samples (0: no end).
 * Takes ownership of `source`. Returns an exit code, an error said. */
int top_screen_run(struct top_source *source, struct top_ui *ui, uint64_t count, bool with_colours);

/* The time of day, HH:MM:SS; `buf` has room for it. */
void top_clock(char buf[16]);
/* Whether the locale's characters are UTF-8. */
bool top_is_utf8(void);

#endif
