/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where samples come from: the daemons that can be reached, the drivers, and for programs that no
 * daemon knows, a look from outside, as rarely as it is dear.
 */
#ifndef RBT_CLI_TOP_SOURCE_H
#define RBT_CLI_TOP_SOURCE_H

#include "cli/top/model.h"
#include "cli/top/ui.h"

struct top_source;

/* 0, -ENODEV when there is no driver here, or -errno. */
int top_source_create(struct top_source **ret);
void top_source_destroy(struct top_source *s);

/* May take seconds when a daemon does not answer. The caller destroys the sample. 0 or -ENOMEM. */
int top_source_sample(struct top_source *s, struct top_sample **ret);

/* Renices, suspends or resumes, as the commands do. Whether it worked; what to tell the user, in
 * either case, is in `ret_text`. */
bool top_source_act(const struct top_action *a, char *ret_text, size_t size);

#endif
