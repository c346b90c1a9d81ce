/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at a process can be the end of who looks: memory of a file system in user space is read
 * when its owner lets it be, or never, and who waits for it cannot even be killed. Such a process
 * is not looked at again for a while, nor as long as somebody still hangs in it; and of users who
 * have several of them, none.
 */
#include <sys/wait.h>

#include "daemon/daemon.h"
#include "util/time.h"

#define MAX_PER_USER 2

static bool is_in_force(const struct lost *l, uint64_t now_ns)
{
	return l->child > 0 || now_ns < l->until_ns;
}

void lost_note(struct daemon *d, pid_t child, const struct scan_report *culprit, uint64_t until_ns)
{
	uint64_t now_ns = rbt_now_ns();
	struct lost *at = NULL;

	for (size_t i = 0; i < MAX_LOST; i++) {
		struct lost *l = &d->lost[i];
		/* The place of one that is over, or else of one that at least hangs no more. */
		if (l->child == 0 && (at == NULL || !is_in_force(l, now_ns))) {
			at = l;
		}
	}
	if (at != NULL) {
		*at = (struct lost){.child = child, .until_ns = until_ns};
	}
	if (at != NULL && culprit != NULL) {
		at->pid = culprit->pid;
		at->start_time = culprit->start_time;
		at->uid = culprit->uid;
	}
}

bool lost_is_shunned(const struct daemon *d, const struct scan_report *who, uint64_t now_ns)
{
	unsigned n = 0;

	for (size_t i = 0; i < MAX_LOST; i++) {
		const struct lost *l = &d->lost[i];
		if (l->pid == 0 || !is_in_force(l, now_ns)) {
			continue;
		}
		if (l->pid == who->pid && l->start_time == who->start_time) {
			return true;
		}
		n += l->uid == who->uid;
	}
	return n >= MAX_PER_USER;
}

bool lost_are_too_many(struct daemon *d)
{
	unsigned n = 0;

	for (size_t i = 0; i < MAX_LOST; i++) {
		struct lost *l = &d->lost[i];
		if (l->child > 0 && waitpid(l->child, NULL, WNOHANG) != 0) {
			l->child = 0;
		}
		n += l->child > 0;
	}
	return n >= MAX_LOST / 2;
}
