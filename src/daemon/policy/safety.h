/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a policy has done enough harm. Pure: no clock of its own.
 *
 * - A hook that fails, or is late, is a strike; three strikes within 10 s eject the policy. The
 *   daemon's own thread may be kept from running for longer than 1 ms. So lateness by the clock is
 *   only counted, and for the next 10 s the processor time of every call is measured, too: a call
 *   that used more than 1 ms of it is a strike.
 * - A task that has run, and is refused for timeout_ms without being admitted once, ejects the
 *   policy. Turns that the program gets for its min_share do not count: those are not the policy's
 *   doing. Nor does time in which the program was idle, so that at least five refusals are needed.
 * - A task that has never run, and is refused for timeout_ms, is admitted: the policy is overruled,
 *   and stays.
 */
#ifndef RBT_DAEMON_POLICY_SAFETY_H
#define RBT_DAEMON_POLICY_SAFETY_H

#include <stdbool.h>
#include <stdint.h>

#define POLICY_LATE_NS        UINT64_C(1000000)
#define POLICY_STRIKES        3
#define POLICY_STRIKES_IN_NS  UINT64_C(10000000000)
#define POLICY_TIMEOUT_MS     5000 /* unless the policy says otherwise */
#define POLICY_TIMEOUT_MIN_MS 100
#define POLICY_TIMEOUT_MAX_MS 60000

struct safety {
	uint64_t strikes_ns[POLICY_STRIKES]; /* the last ones; 0: none */
	unsigned next;
	uint64_t suspect_until_ns; /* calls are measured in processor time until then */
};

/* Counts a strike. True: that was one too many. */
bool safety_strike(struct safety *s, uint64_t now_ns);
/* Whether the processor time of a call is to be measured. */
bool safety_is_suspect(const struct safety *s, uint64_t now_ns);
/* A call took wall_ns, and cpu_ns of processor time (0 if that was not measured). Returns whether
 * it is late by the clock; *ret_is_strike: also by processor time. */
bool safety_is_late(
	struct safety *s, uint64_t now_ns, uint64_t wall_ns, uint64_t cpu_ns, bool *ret_is_strike);
/* timeout_ms as a policy says it, within the bounds; in nanoseconds. */
uint64_t safety_timeout_ns(uint32_t timeout_ms);

/* Of one program: how long the policy has refused it. Zeroed at first. */
struct refusal {
	uint64_t task; /* that was refused; 0: none */
	uint64_t waited_ns, last_ns;
	uint64_t ended_ns;  /* when that task was admitted; 0: it was not */
	uint64_t overruled; /* the task that was last admitted against the policy */
};

enum refusal_verdict { REFUSAL_STANDS, REFUSAL_OVERRULED, REFUSAL_EJECTS };

/* The policy has refused the task. REFUSAL_OVERRULED: it is admitted all the same; *ret_is_new: and
 * was not before. */
enum refusal_verdict refusal_judge(struct refusal *r, uint64_t task, bool is_first_run,
	uint64_t timeout_ns, uint64_t now_ns, bool *ret_is_new);
/* The policy has admitted the task. If it refuses another one at the same time, that is before the
 * program runs, the refusal goes on. */
void refusal_end(struct refusal *r, uint64_t task, uint64_t now_ns);

#endif
