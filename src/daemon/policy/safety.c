/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/safety.h"

#include "util/time.h"

/*
 * The most that counts of the time between two refusals. A program that wants to run is asked about
 * again after 100 ms, or when its turn comes, but a program that was idle meanwhile was not kept
 * off. So several refusals in a row are needed. A task that has never run waits all the time.
 */
#define STEP_MAX_NS       RBT_NS_PER_S
#define STEPS             4
#define FIRST_STEP_MAX_NS (2 * RBT_NS_PER_S)

bool safety_strike(struct safety *s, uint64_t now_ns)
{
	const uint64_t oldest_ns = s->strikes_ns[(s->next + 1) % POLICY_STRIKES];

	s->strikes_ns[s->next] = now_ns;
	s->next = (s->next + 1) % POLICY_STRIKES;
	return oldest_ns != 0 && now_ns - oldest_ns <= POLICY_STRIKES_IN_NS;
}

bool safety_is_suspect(const struct safety *s, uint64_t now_ns)
{
	return now_ns < s->suspect_until_ns;
}

bool safety_is_late(
	struct safety *s, uint64_t now_ns, uint64_t wall_ns, uint64_t cpu_ns, bool *ret_is_strike)
{
	*ret_is_strike = false;
	if (wall_ns <= POLICY_LATE_NS) {
		return false;
	}
	s->suspect_until_ns = now_ns + POLICY_STRIKES_IN_NS;
	*ret_is_strike = cpu_ns > POLICY_LATE_NS;
	return true;
}

uint64_t safety_timeout_ns(uint32_t timeout_ms)
{
	if (timeout_ms == 0) {
		timeout_ms = POLICY_TIMEOUT_MS;
	}
	timeout_ms = timeout_ms > POLICY_TIMEOUT_MIN_MS ? timeout_ms : POLICY_TIMEOUT_MIN_MS;
	timeout_ms = timeout_ms < POLICY_TIMEOUT_MAX_MS ? timeout_ms : POLICY_TIMEOUT_MAX_MS;
	return timeout_ms * RBT_NS_PER_MS;
}

static uint64_t step_ns(
	const struct refusal *r, bool is_first_run, uint64_t timeout_ns, uint64_t now_ns)
{
	uint64_t most_ns = timeout_ns / STEPS < STEP_MAX_NS ? timeout_ns / STEPS : STEP_MAX_NS;

	most_ns = is_first_run ? FIRST_STEP_MAX_NS : most_ns;
	return now_ns - r->last_ns < most_ns ? now_ns - r->last_ns : most_ns;
}

enum refusal_verdict refusal_judge(struct refusal *r, uint64_t task, bool is_first_run,
	uint64_t timeout_ns, uint64_t now_ns, bool *ret_is_new)
{
	*ret_is_new = false;
	/* The program may not have heard yet that it may run. */
	if (is_first_run && r->overruled == task) {
		return REFUSAL_OVERRULED;
	}
	if (r->ended_ns != 0 && r->ended_ns != now_ns) {
		r->task = 0; /* the program was admitted */
	}
	r->ended_ns = 0;
	r->waited_ns =
		r->task == 0 ? 0 : r->waited_ns + step_ns(r, is_first_run, timeout_ns, now_ns);
	r->task = task;
	r->last_ns = now_ns;
	if (r->waited_ns < timeout_ns) {
		return REFUSAL_STANDS;
	}
	r->task = 0;
	if (!is_first_run) {
		return REFUSAL_EJECTS;
	}
	r->overruled = task;
	*ret_is_new = true;
	return REFUSAL_OVERRULED;
}

void refusal_end(struct refusal *r, uint64_t task, uint64_t now_ns)
{
	/* Each of a program's tasks is asked about, and one refusal keeps off all of them. So only
	 * the refused task can end it, and only if no other task is refused in its place. */
	if (r->task == task && r->ended_ns == 0) {
		r->ended_ns = now_ns;
	} else if (r->task == task && r->ended_ns != now_ns) {
		r->task = r->ended_ns = 0;
	}
}
