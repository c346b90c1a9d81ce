/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doubt.h"

#include "util/time.h"

/* A trainer of which nothing is heard for longer than this is late by an iteration or two. */
#define STILL_MIN_NS (150 * RBT_NS_PER_MS)
#define STILL_MAX_NS (2400 * RBT_NS_PER_MS)
/* Of whom nothing is known: each time while it is young, when it is likeliest to be overlooked; and
 * this often afterwards. */
#define YOUNG_NS (10 * RBT_NS_PER_S)
#define EVERY_NS (3 * RBT_NS_PER_S)
/* It submits ahead: what it does just after it was let back proves less than what it does later. */
#define LATER 4

static void note_still(struct doubt *t, uint64_t progress, uint64_t now_ns)
{
	if (progress != t->progress || t->after_ns == 0) {
		t->progress = progress;
		t->still_ns = 0;
		t->after_ns = STILL_MIN_NS;
	} else {
		t->still_ns += now_ns - t->moved_ns;
	}
}

static bool rouse(struct doubt *t, uint64_t now_ns)
{
	t->still_ns = 0;
	t->after_ns = t->after_ns < STILL_MAX_NS / 2 ? t->after_ns * 2 : STILL_MAX_NS;
	t->roused_ns = t->moved_ns = now_ns;
	t->look_ns = 0;
	return true;
}

void doubt_taken_off(struct doubt *t, uint64_t progress, uint64_t now_ns)
{
	t->is_off = true;
	t->look_ns = 0;
	if (progress != DOUBT_UNKNOWN && t->on_ns != 0) {
		note_still(t, progress, now_ns);
	}
}

bool doubt_let_back(struct doubt *t, uint64_t progress, uint64_t now_ns)
{
	t->is_off = false;
	t->on_ns = t->moved_ns = now_ns;
	t->since_ns = t->since_ns == 0 ? now_ns : t->since_ns;
	/* What it has submitted meanwhile proves nothing. */
	t->progress = progress;
	if (progress == DOUBT_UNKNOWN) {
		t->look_ns = now_ns < t->since_ns + YOUNG_NS ? now_ns : t->roused_ns + EVERY_NS;
		return t->look_ns <= now_ns && rouse(t, now_ns);
	}
	t->after_ns = t->after_ns == 0 ? STILL_MIN_NS : t->after_ns;
	t->look_ns = now_ns + t->after_ns - t->still_ns;
	return t->still_ns >= t->after_ns && rouse(t, now_ns);
}

bool doubt_look(struct doubt *t, uint64_t progress, uint64_t now_ns)
{
	if (progress == DOUBT_UNKNOWN || progress == t->progress) {
		return rouse(t, now_ns);
	}
	uint64_t on_ns = now_ns - t->on_ns;

	t->progress = progress;
	t->moved_ns = now_ns;
	t->still_ns = 0;
	t->after_ns = STILL_MIN_NS;
	t->look_ns = on_ns < STILL_MAX_NS ? now_ns + LATER * on_ns : 0;
	return false;
}
