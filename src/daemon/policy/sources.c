/* SPDX-License-Identifier: Apache-2.0 */
/* Policies that no tool sends: the last daemon's, and the configuration's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/policy/keep.h"
#include "daemon/policy/loading.h"
#include "util/fd.h"
#include "util/log.h"

static int read_bytes(int fd, size_t size, char **ret)
{
	char *bytes = malloc(size + 1);
	size_t at = 0;

	if (bytes == NULL) {
		return -ENOMEM;
	}
	while (at < size) {
		ssize_t n = read(fd, bytes + at, size - at);
		if (n <= 0) {
			free(bytes);
			return n < 0 ? -errno : -EIO;
		}
		at += (size_t)n;
	}
	*ret = bytes;
	return 0;
}

/* Reads an object file. Unlike the runtime directory, its folder may have links. */
static int read_object(const char *path, char **ret, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0) {
		return -errno;
	}
	int r = fstat(fd, &st) < 0 ? -errno : !S_ISREG(st.st_mode) ? -EBADF : 0;
	if (r == 0 && st.st_size > RBT_OBJECT_MAX_FILE) {
		r = -EFBIG;
	}
	r = r < 0 ? r : read_bytes(fd, (size_t)st.st_size, ret);
	close(fd);
	if (r == 0) {
		*ret_size = (size_t)st.st_size;
	}
	return r;
}

void policy_load_file(struct daemon *d)
{
	const char *slash = strrchr(d->policy.file, '/');
	struct policy_request request = {.origin = POLICY_BY_CONFIG};
	struct rbt_why why = {""};
	char *bytes = NULL;

	if (slash == NULL) {
		return;
	}
	int r = read_object(d->policy.file, &bytes, &request.size);
	if (r < 0) {
		rbt_why_set(&why, r, "%s", strerror(-r));
	} else {
		request.bytes = bytes;
		request.load.label = slash + 1;
		r = policy_load(d, &request, &why);
	}
	if (r < 0) {
		rbt_error("policy %s is not loaded: %s", d->policy.file, why.text);
	}
	free(bytes);
}

/* False: there is none. */
static bool load_kept(struct daemon *d)
{
	struct rbt_why why = {"its file is damaged"};
	struct kept kept = {0};
	int r = keep_read(d, &kept);

	if (r == -ENOENT) {
		return false;
	}
	if (r == 0) {
		kept.request.is_kept = true;
		r = policy_load(d, &kept.request, &why);
	}
	if (r < 0) {
		rbt_error("the policy of the last rubatod is not loaded: %s", why.text);
		keep_remove(d);
	}
	keep_finish(&kept);
	return r == 0;
}

void policy_load_own(struct daemon *d)
{
	if (!load_kept(d)) {
		policy_load_file(d);
	}
}
