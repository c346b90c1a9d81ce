/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doubt: whether a program that was let back does run. A device may overlook it, until it is
 * roused. That takes as long as a suspend and a resume, and most need it never: so it is done to
 * those alone who do nothing that their boards would show, for longer and longer times while that
 * is so (what they submitted may be long). Of whom nothing is known, all is doubted, now and then.
 */
#ifndef RBT_DAEMON_DOUBT_H
#define RBT_DAEMON_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

/* Of a program without a board. */
#define DOUBT_UNKNOWN UINT64_MAX

/* Zeroed at first. */
struct doubt {
	bool is_off;
	uint64_t since_ns;  /* first let back */
	uint64_t on_ns;     /* last let back */
	uint64_t progress;  /* as of moved_ns */
	uint64_t moved_ns;  /* last let back, roused, or found to have moved */
	uint64_t still_ns;  /* on, all together, since there was any */
	uint64_t after_ns;  /* and after so much of that it is roused; 0: not said yet */
	uint64_t roused_ns; /* 0: never */
	uint64_t
		look_ns; /* when to look whether it runs; 0: no more until it is off and on again */
};

/* `progress` grows while the program does something, or is DOUBT_UNKNOWN. */
void doubt_taken_off(struct doubt *t, uint64_t progress, uint64_t now_ns);

/* Those below return whether it is to be roused now. */
bool doubt_let_back(struct doubt *t, uint64_t progress, uint64_t now_ns);
/* Not before look_ns. */
bool doubt_look(struct doubt *t, uint64_t progress, uint64_t now_ns);

#endif
