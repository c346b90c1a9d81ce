/* SPDX-License-Identifier: Apache-2.0 */
#include "util/lost.h"

#include <stddef.h>
#include <sys/wait.h>

#define MAX_PER_USER 2

static bool is_in_force(const struct rbt_lost *l, size_t i, uint64_t now_ns)
{
	return l->looks[i].child > 0 || now_ns < l->looks[i].until_ns;
}

void rbt_lost_note(
	struct rbt_lost *l, pid_t child, struct rbt_inspected at, uint64_t now_ns, uint64_t rest_ns)
{
	size_t place = RBT_MAX_LOST;

	for (size_t i = 0; i < RBT_MAX_LOST; i++) {
		/* Replaces an entry that is no longer in force, or else one without a hanging
		 * child. */
		if (l->looks[i].child == 0 &&
			(place == RBT_MAX_LOST || !is_in_force(l, i, now_ns))) {
			place = i;
		}
	}
	if (place < RBT_MAX_LOST) {
		l->looks[place].child = child;
		l->looks[place].at = at;
		l->looks[place].until_ns = now_ns + rest_ns;
	}
}

bool rbt_lost_is_shunned(const struct rbt_lost *l, struct rbt_inspected who, uint64_t now_ns)
{
	unsigned n = 0;

	for (size_t i = 0; i < RBT_MAX_LOST; i++) {
		const struct rbt_inspected *at = &l->looks[i].at;
		if (at->pid == 0 || !is_in_force(l, i, now_ns)) {
			continue;
		}
		if (at->pid == who.pid && at->start_time == who.start_time) {
			return true;
		}
		n += at->uid == who.uid;
	}
	return n >= MAX_PER_USER;
}

bool rbt_lost_are_too_many(struct rbt_lost *l)
{
	unsigned n = 0;

	for (size_t i = 0; i < RBT_MAX_LOST; i++) {
		if (l->looks[i].child > 0 && waitpid(l->looks[i].child, NULL, WNOHANG) != 0) {
			l->looks[i].child = 0;
		}
		n += l->looks[i].child > 0;
	}
	return n >= RBT_MAX_LOST / 2;
}
