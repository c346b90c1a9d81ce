/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of samples: the daemons that can be reached, the drivers, and for programs that no
 * daemon knows, inspection from outside, polled less often the more it costs.
 */
#ifndef RBT_CLI_TOP_SOURCE_H
#define RBT_CLI_TOP_SOURCE_H

#include "cli/top/model.h"
#include "cli/top/ui.h"

struct top_source;

/* 0, -ENODEV if there is no driver, or -errno. */
int top_source_create(struct top_source **ret);
void top_source_destroy(struct top_source *s);

/* May take seconds if a daemon does not answer. The caller destroys the sample. 0 or -ENOMEM. */
int top_source_sample(struct top_source *s, struct top_sample **ret);

/* Renices, suspends or resumes, as the commands do. Returns whether it worked; `ret_text` is the
 * message for the user in both cases. */
bool top_source_act(const struct top_action *a, char *ret_text, size_t size);

#endif
