/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that is being loaded. The one before it stays in force meanwhile. */
#ifndef RBT_DAEMON_POLICY_LOADING_H
#define RBT_DAEMON_POLICY_LOADING_H

#include "daemon/policy/manager.h"

struct policy_loading {
	struct policy *candidate; /* owned */
	struct source source;     /* of the process that tries it; its fd is load's */
	struct rbt_engine_load *load;
	enum rbt_engine_kind kind; /* that is being tried */
};

/* Reads and checks the object, and starts the process. Takes nothing of the request. 0 or -errno
 * and `why`. */
int loading_start(struct daemon *d, const struct policy_request *request, struct rbt_why *why);
/* Once a second: notices that the process takes too long. */
void loading_tick(struct daemon *d);
/* Ends it, and answers those who wait for it. */
void loading_cancel(struct daemon *d, int error, const char *why);
/* Whether the request is for this policy. */
bool policy_is_same(const struct policy *p, const struct policy_request *request);
/* Accepts NULL. */
void policy_destroy(struct policy *p);

/* manager.c: the candidate has an engine. Takes it, also on failure. 0 or -errno and `why`. */
int policy_install(struct daemon *d, struct policy *candidate, struct rbt_why *why);
/* sources.c: loads the configuration's policy, if it has one. A mistake is one line in the log. */
void policy_load_file(struct daemon *d);
/* sources.c: loads the policy that a user loaded into the last daemon, or the configuration's. */
void policy_load_own(struct daemon *d);
/* manager.c: starts or stops the timer, as needed. */
void policy_arm(struct daemon *d);
/* answers.c: answers all peers that wait for a load. `log` may be NULL. */
void policy_answer_all(struct daemon *d, int error, const char *text, const char *log);

#endif
