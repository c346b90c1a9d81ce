/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doubt.h"

#include "util/time.h"

/* A trainer that makes no progress for longer than this is late by an iteration or two. */
#define STILL_MIN_NS (150 * RBT_NS_PER_MS)
#define STILL_MAX_NS (2400 * RBT_NS_PER_MS)
/* A program that sets itself up launches little, and may do nothing at the moment when it is
 * kicked. So it is kicked more than once. */
#define EARLY 8
/* A program without a board is kicked at each resume while it is young, when it is most likely to
 * be overlooked, and this often afterwards. */
#define YOUNG_NS (10 * RBT_NS_PER_S)
#define EVERY_NS (3 * RBT_NS_PER_S)
/* Programs submit ahead: progress just after a resume proves less than later progress. */
#define LATER 4

static void note_moved(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns)
{
	t->seen = *now;
	t->moved_ns = now_ns;
	t->still_ns = 0;
	/* A program that works now and then is not to be kicked after each pause. */
	if (now_ns >= t->kicked_ns + STILL_MAX_NS) {
		t->after_ns = STILL_MIN_NS;
	}
}

static bool kick(struct doubt *t, uint64_t now_ns)
{
	t->still_ns = 0;
	t->kicked_ns = t->moved_ns = now_ns;
	t->check_ns = 0;
	return true;
}

static bool kick_still(struct doubt *t, uint64_t now_ns)
{
	t->after_ns = t->after_ns < STILL_MAX_NS / 2 ? t->after_ns * 2 : STILL_MAX_NS;
	return kick(t, now_ns);
}

void doubt_taken_off(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns)
{
	bool was_on = t->on_ns != 0;

	/* Another client of the program was suspended just before. */
	if (!was_on && t->since_ns != 0) {
		return;
	}
	t->on_ns = t->check_ns = 0;
	t->has_worked = t->has_worked || (now != NULL && now->n_launches != t->seen.n_launches);
	if (now == NULL || !was_on) {
		return;
	}
	if (now->n != t->seen.n) {
		note_moved(t, now, now_ns);
	} else {
		t->still_ns += now_ns - t->moved_ns;
	}
}

void doubt_new_board(struct doubt *t, const struct rbt_board_progress *now)
{
	t->seen.n = now->n; /* not its launches: if there were any, the program has worked */
}

bool doubt_let_back(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns)
{
	bool has_worked = t->has_worked;

	t->has_worked = false;
	t->on_ns = t->moved_ns = now_ns;
	t->since_ns = t->since_ns == 0 ? now_ns : t->since_ns;
	if (now == NULL) {
		t->check_ns = now_ns < t->since_ns + YOUNG_NS ? now_ns : t->kicked_ns + EVERY_NS;
		return t->check_ns <= now_ns && kick(t, now_ns);
	}
	/* Work that was submitted while it was suspended proves nothing. */
	t->seen = *now;
	t->after_ns = t->after_ns == 0 ? STILL_MIN_NS : t->after_ns;
	if (has_worked && t->n_early < EARLY) {
		t->n_early++;
		return kick(t, now_ns);
	}
	if (t->still_ns >= t->after_ns) {
		return kick_still(t, now_ns);
	}
	t->check_ns = now_ns + t->after_ns - t->still_ns;
	return false;
}

bool doubt_check(struct doubt *t, const struct rbt_board_progress *now, uint64_t now_ns)
{
	if (now == NULL || now->n == t->seen.n) {
		return kick_still(t, now_ns);
	}
	uint64_t on_ns = now_ns - t->on_ns;

	t->has_worked = t->has_worked || now->n_launches != t->seen.n_launches;
	note_moved(t, now, now_ns);
	t->check_ns = on_ns < STILL_MAX_NS ? now_ns + LATER * on_ns : 0;
	return false;
}
