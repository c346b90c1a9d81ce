/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes samples and carries out actions on a thread of its own, so that keys are answered while a
 * daemon is slow. Only this thread talks to daemons and devices.
 */
#ifndef RBT_CLI_TOP_WORKER_H
#define RBT_CLI_TOP_WORKER_H

#include "cli/top/source.h"

struct top_worker;

struct top_answer {
	bool is_good;
	char text[256];
};

/* Takes ownership of `source`, also on failure. 0 or -errno. */
int top_worker_create(struct top_source *source, struct top_worker **ret);
/* Does not wait for long: a worker that waits for a daemon is left to the end of the process. */
void top_worker_destroy(struct top_worker *w);

/* Readable if there is a result to take. */
int top_worker_fd(const struct top_worker *w);

/* Asks for a sample, unless one is on its way. */
void top_worker_sample(struct top_worker *w);
/* False while an earlier action is still being carried out. A sample follows each action. */
bool top_worker_act(struct top_worker *w, const struct top_action *a);

/* Takes the results: a sample that the caller destroys, or NULL; and whether there is an answer. */
struct top_sample *top_worker_take(struct top_worker *w, struct top_answer *ret, bool *ret_answer);

#endif
