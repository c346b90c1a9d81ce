/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users with subordinate uids: /etc/subuid gives a user 65536 more uids, for containers. Shares
 * between users are shares between the owners of the uids. Otherwise a user could get one share per
 * subordinate uid.
 */
#include "daemon/peers/owners.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "util/fd.h"
#include "util/parse.h"

#define SUBUID     "/etc/subuid"
#define MAX_OWNERS 65536

/* If root owns the range, its first uid stands for the owner, because root itself has no limits. */
static uid_t bucket(const char *name, uid_t first)
{
	const struct passwd *pw = NULL;
	uint64_t uid;

	if (rbt_parse_u64(name, 0, UINT32_MAX - 1, &uid) < 0) {
		pw = getpwnam(name);
		uid = pw != NULL ? pw->pw_uid : first;
	}
	return uid != 0 ? (uid_t)uid : first;
}

static bool parse(char *line, struct owner *ret)
{
	char *rest = line;
	const char *name = strsep(&rest, ":"), *first = strsep(&rest, ":");
	uint64_t start, n;

	if (rest == NULL || rbt_parse_u64(first, 0, UINT32_MAX - 1, &start) < 0 ||
		rbt_parse_u64(rest, 1, UINT32_MAX, &n) < 0) {
		return false;
	}
	ret->first = (uid_t)start;
	ret->last = start + n - 1 < UINT32_MAX - 1 ? (uid_t)(start + n - 1) : UINT32_MAX - 1;
	ret->uid = bucket(name, ret->first);
	return true;
}

void owners_read(struct daemon *d)
{
	char line[256];
	FILE *f = NULL;

	owners_forget(d);
	(void)rbt_fopen_plain(SUBUID, false, &f);
	while (f != NULL && d->owners.n < MAX_OWNERS && fgets(line, sizeof(line), f) != NULL) {
		struct owner owner;
		line[strcspn(line, "\n")] = '\0';
		if (!parse(line, &owner)) {
			continue;
		}
		struct owner *more =
			realloc(d->owners.list, (d->owners.n + 1) * sizeof(struct owner));
		if (more == NULL) {
			break;
		}
		d->owners.list = more;
		d->owners.list[d->owners.n++] = owner;
	}
	if (f != NULL) {
		fclose(f);
	}
}

uid_t owners_find(const struct daemon *d, uid_t uid)
{
	for (size_t i = 0; i < d->owners.n; i++) {
		if (uid >= d->owners.list[i].first && uid <= d->owners.list[i].last) {
			return d->owners.list[i].uid;
		}
	}
	return uid;
}

void owners_forget(struct daemon *d)
{
	free(d->owners.list);
	d->owners.list = NULL;
	d->owners.n = 0;
}
