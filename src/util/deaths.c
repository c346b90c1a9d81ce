/* SPDX-License-Identifier: Apache-2.0 */
#include "util/deaths.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_MAX_LEN 192

/* Reads the latest deaths, the oldest first. Times of an earlier boot may lie in the future: they
 * are left out. */
static unsigned read_deaths(const char *path, uint64_t now_ns, uint64_t ret_ns[RBT_DEATHS_MAX])
{
	char line[32];
	unsigned n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (f == NULL) {
		if (fd >= 0) {
			close(fd);
		}
		return 0;
	}
	while (fgets(line, sizeof(line), f) != NULL) {
		uint64_t at_ns = strtoull(line, NULL, 10);
		if (at_ns == 0 || at_ns > now_ns) {
			continue;
		}
		if (n == RBT_DEATHS_MAX) {
			memmove(ret_ns, ret_ns + 1, sizeof(*ret_ns) * (RBT_DEATHS_MAX - 1));
			n--;
		}
		ret_ns[n++] = at_ns;
	}
	fclose(f);
	return n;
}

static void make_path(const char *dir, char path[PATH_MAX_LEN])
{
	snprintf(path, PATH_MAX_LEN, "%s/deaths", dir);
}

int rbt_deaths_note(const char *dir, uint64_t now_ns)
{
	uint64_t at_ns[RBT_DEATHS_MAX];
	char path[PATH_MAX_LEN], text[32 * RBT_DEATHS_MAX];

	make_path(dir, path);
	unsigned n = read_deaths(path, now_ns, at_ns);
	int len = 0;
	for (unsigned i = n == RBT_DEATHS_MAX ? 1 : 0; i < n; i++) {
		len += snprintf(text + len, sizeof(text) - (size_t)len, "%" PRIu64 "\n", at_ns[i]);
	}
	len += snprintf(text + len, sizeof(text) - (size_t)len, "%" PRIu64 "\n", now_ns);
	int fd = open(
		path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
	if (fd < 0) {
		return -errno;
	}
	int r = write(fd, text, (size_t)len) == len ? 0 : -ENOSPC;
	close(fd);
	return r;
}

uint64_t rbt_deaths_pause_end(const char *dir, uint64_t now_ns)
{
	uint64_t at_ns[RBT_DEATHS_MAX];
	char path[PATH_MAX_LEN];

	make_path(dir, path);
	if (read_deaths(path, now_ns, at_ns) < RBT_DEATHS_MAX ||
		at_ns[RBT_DEATHS_MAX - 1] - at_ns[0] > RBT_DEATHS_WITHIN_NS) {
		return 0;
	}
	uint64_t end_ns = at_ns[RBT_DEATHS_MAX - 1] + RBT_DEATHS_PAUSE_NS;
	return end_ns > now_ns ? end_ns : 0;
}
