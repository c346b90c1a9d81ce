/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's policy manager: loads a policy in eBPF (src/policy), lets it read the events of
 * sched/event.h, and ejects it if it does harm. At most one policy is loaded. It is on top of a
 * built-in policy, its base, which is in force alone before, after, and whenever a hook fails.
 *
 *     peer, file of the last daemon, `policy = FILE`
 *       │ object, settings, engine
 *       ▼
 *     loading.c ── a process tries the object ──► manager.c
 *                                                   │ schedule_configure(), events_set_policy()
 *     hooks.c ◄── events ── call.c ◄────────────────┘
 *
 * Nothing here waits: an object is tried, and loaded into the kernel, by a process of its own, and
 * the policy before it stays in force until that has ended well.
 *
 * Refusals. Every question whether a task may run is an RBT_MOMENT_SCHEDULE event, and the return
 * value of the reader is final: it is true if the policy's refusal is overruled. The asker
 * only has to set is_first_run in the event. See safety.h for the rules.
 */
#ifndef RBT_DAEMON_POLICY_MANAGER_H
#define RBT_DAEMON_POLICY_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop.h"
#include "daemon/policy/lines.h"
#include "daemon/policy/safety.h"
#include "policy/engine.h"
#include "proto/policy.h"
#include "sched/event.h"

struct config;
struct daemon;
struct peer;
struct policy_loading;
struct program;

/* Where the policy comes from. A user's policy goes before the configuration's, and the next daemon
 * loads it again, unless it is in the foreground. */
enum policy_origin { POLICY_BY_USER, POLICY_BY_CONFIG };

/* What is to be loaded. */
struct policy_request {
	const void *bytes; /* the object file */
	size_t size;
	struct rbt_policy_load load; /* engine, flags, label, settings */
	enum policy_origin origin;
	bool is_kept;      /* it was the last daemon's */
	struct peer *peer; /* that asked, and gets the answer; NULL: the log gets it */
};

/* A policy that is loaded, was ejected, or is being loaded. */
struct policy {
	struct daemon *daemon;
	struct rbt_object *object; /* its file has the bytes that were sent */
	struct rbt_engine *engine; /* NULL: ejected, or not loaded yet */
	enum policy_origin origin;
	bool is_kept;   /* it was the last daemon's */
	uint32_t flags; /* RBT_POLICY_FOREGROUND */
	enum rbt_policy_engine engine_asked;
	enum rbt_engine_kind engine_used;
	char name[GPU_SCHED_NAME_SIZE];
	char label[RBT_POLICY_LABEL_SIZE];
	char *settings; /* strings one behind the other, each with its NUL */
	size_t settings_size;
	uint32_t number; /* of the load */
	uint64_t loaded_ns;
	char other[sizeof(((struct rbt_msg_policy *)0)->other)]; /* why not the other engine */

	/* The core's view. Two, because the one in force must not change under the core. */
	struct rbt_sched_policy sched[2];
	unsigned at; /* the one in force */
	struct rbt_event_reader reader;

	struct rbt_policy_hook stats[RBT_N_HOOKS];
	struct safety safety;
	uint64_t timeout_ns;
	uint32_t n_overruled;
	bool is_condemned; /* to be ejected by the loop; no hook is called any more */
	char reason[sizeof(((struct rbt_msg_policy *)0)->reason)];
	int log_map; /* of gpu_sched_log(), or -1 */
};

/* In struct daemon. Zeroed at first, but for timer.fd, which is -1. */
struct policies {
	struct policy *current; /* loaded or ejected; NULL: none */
	struct policy_loading *loading;
	const struct rbt_sched_policy *configured; /* the built-in policy; NULL: the default */
	char file[512];                            /* `policy = FILE`; empty: none */
	struct source timer; /* while a policy has something to do every second */
	struct policy_lines lines;
	uint32_t n_loads;
	uint64_t n_ejections, n_overruled; /* since the daemon started */
	bool is_unwanted;                  /* the last connection that held it has ended */
	/* The load of the last daemon's or the configuration's policy has given way to a user's. */
	bool is_own_due;
};

/* Before peers can connect: loads the policy of the last daemon, or the configuration's. */
void policy_start(struct daemon *d, const struct config *config);
/* Takes another configuration, also for the core. 0 or -errno with nothing changed. */
int policy_configure(struct daemon *d, const struct config *config);
/* Calls the policy's `exit`. What is kept for the next daemon stays. */
void policy_stop(struct daemon *d);

/*
 * Starts to load a policy, in place of the one there is. 0: the peer is answered when that has
 * ended. Otherwise -errno and one line in `why`, and nothing has changed; -EBUSY: another one is
 * being loaded, or (RBT_POLICY_JOIN) is loaded.
 */
int policy_load(struct daemon *d, const struct policy_request *request, struct rbt_why *why);
/* Unloads it, or forgets an ejected one; gives up a load. -ENOENT: there is none. */
int policy_unload(struct daemon *d);
/* Before the peer goes: it does not want its foreground policy any more. */
void policy_forget_peer(struct daemon *d, struct peer *peer);

/* From the loop, after each event: ejects or unloads, if that is due. Returns whether it did. */
bool policy_run(struct daemon *d);

/* For `rubato policy show`, metrics and doctor. */
void policy_fill(const struct daemon *d, struct rbt_msg_policy *ret);
/* Whether a policy is in force, and whether a user has loaded it. The daemon does not end by itself
 * then, because the entries of its maps would be lost. */
bool policy_is_loaded(const struct daemon *d);
bool policy_is_users(const struct daemon *d);
/* The runtime directory was removed and made again. */
void policy_keep_again(struct daemon *d);

/* For the files of this folder. */

/* call.c: prepares the reader of a policy. */
void policy_call_init(struct policy *p);
/* Calls init, exit or tick. 0 if the policy does not have it; -EFAULT: it failed. */
int policy_call_plain(struct policy *p, enum rbt_hook hook);
/* Puts what the policy has logged into the list of lines. */
void policy_drain(struct policy *p);
/* The policy is to be ejected; the loop does it. One line. */
void policy_condemn(struct policy *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
