/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at a process can be the end of who looks: memory of a file system in user space is read
 * when its owner lets it be, or never, and who waits for it cannot even be killed. Such a process
 * is not looked at again for a while, nor as long as somebody still hangs in it; and of users who
 * have several of them, none.
 */
#ifndef RBT_UTIL_LOST_H
#define RBT_UTIL_LOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Nobody is looked at for longer. */
#define RBT_LOOK_S 5

/* Who is looked at. */
struct rbt_looked {
	pid_t pid; /* 0: nobody in particular */
	uint64_t start_time;
	uid_t uid;
};

#define RBT_MAX_LOST 16
/* The looks that were not survived. All zeroes: none. */
struct rbt_lost {
	struct {
		pid_t child; /* who looked, and hangs still; 0: it has ended */
		struct rbt_looked at;
		uint64_t until_ns; /* how long it is not looked at again */
	} looks[RBT_MAX_LOST];
};

/* One was killed (child: and has not ended; 0: it has) that looked at `at`, which is to be left
 * alone for that long. */
void rbt_lost_note(
	struct rbt_lost *l, pid_t child, struct rbt_looked at, uint64_t now_ns, uint64_t rest_ns);
/* Whether a process is not to be looked at, for what it or others of its user have done. */
bool rbt_lost_is_shunned(const struct rbt_lost *l, struct rbt_looked who, uint64_t now_ns);
/* Reaps those that have ended; whether so many hang that no more are to be sent. */
bool rbt_lost_are_too_many(struct rbt_lost *l);

#endif
