/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/survive/home.h"
#include "util/fd.h"
#include "util/log.h"

#define KEEP_MAGIC 0x31796c70u /* "ply1" */

/* The file: this, then a POLICY_LOAD as a tool sends it, then the object. */
struct head {
	uint32_t magic;
	uint32_t load_size;
	uint64_t object_size;
};
static_assert(sizeof(struct head) == 16, "file");

#define KEEP_MAX (sizeof(struct head) + RBT_MSG_MAX + RBT_OBJECT_MAX_FILE)

static void path_of(const struct daemon *d, char path[160])
{
	snprintf(path, 160, "%s/policy", d->home.dir);
}

static void list_settings(const struct policy *p, struct rbt_policy_load *ret)
{
	for (size_t at = 0; at < p->settings_size && ret->n_settings < RBT_POLICY_MAX_SETTINGS;) {
		ret->settings[ret->n_settings++] = p->settings + at;
		at += strlen(p->settings + at) + 1;
	}
}

static int write_all(const struct policy *p, FILE *f)
{
	static char buf[RBT_MSG_MAX];
	struct rbt_policy_load load = {.engine = p->engine_asked, .label = p->label};

	list_settings(p, &load);
	ssize_t n = rbt_policy_load_encode(&load, buf, sizeof(buf));
	if (n < 0) {
		return (int)n;
	}
	struct head head = {
		.magic = KEEP_MAGIC, .load_size = (uint32_t)n, .object_size = p->object->size};
	return fwrite(&head, sizeof(head), 1, f) == 1 && fwrite(buf, (size_t)n, 1, f) == 1 &&
			       fwrite(p->object->file, p->object->size, 1, f) == 1
		       ? 0
		       : -EIO;
}

void keep_write(struct daemon *d, const struct policy *p)
{
	char path[160], tmp[168];
	FILE *f = NULL;

	if (!home_is_ours(d)) {
		return;
	}
	path_of(d, path);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	int r = rbt_fopen_plain(tmp, true, &f);
	if (r == 0 && fchmod(fileno(f), 0600) < 0) {
		r = -errno;
	}
	r = r < 0 ? r : write_all(p, f);
	if (f != NULL && fclose(f) != 0) {
		r = -errno;
	}
	if (r == 0 && rename(tmp, path) == 0) {
		return;
	}
	rbt_warn("%s cannot be written: the policy is lost if rubatod ends", path);
	/* No file is better than that of an earlier policy. */
	unlink(tmp);
	unlink(path);
}

void keep_remove(struct daemon *d)
{
	char path[160];

	if (home_is_ours(d)) {
		path_of(d, path);
		unlink(path);
	}
}

int keep_decode(char *bytes, size_t size, struct kept *ret)
{
	struct head head;
	struct kept kept = {.bytes = bytes};
	int r = -EBADMSG;

	if (size >= sizeof(head)) {
		memcpy(&head, bytes, sizeof(head));
		if (head.magic == KEEP_MAGIC && head.load_size <= size - sizeof(head) &&
			head.object_size == size - sizeof(head) - head.load_size) {
			kept.request.bytes = bytes + sizeof(head) + head.load_size;
			kept.request.size = (size_t)head.object_size;
			r = rbt_policy_load_decode(
				bytes + sizeof(head), head.load_size, &kept.request.load);
		}
	}
	if (r < 0) {
		free(bytes);
		return r;
	}
	kept.request.load.flags = 0;
	*ret = kept;
	return 0;
}

/* Reads the whole file. */
static int read_all(FILE *f, char **ret, size_t *ret_size)
{
	struct stat st;

	if (fstat(fileno(f), &st) < 0) {
		return -errno;
	}
	/* Another user's file is not ours to trust. */
	if (st.st_uid != geteuid() || st.st_size <= 0 || (uint64_t)st.st_size > KEEP_MAX) {
		return -EBADMSG;
	}
	char *bytes = malloc((size_t)st.st_size);
	if (bytes == NULL) {
		return -ENOMEM;
	}
	if (fread(bytes, (size_t)st.st_size, 1, f) != 1) {
		free(bytes);
		return -EIO;
	}
	*ret = bytes;
	*ret_size = (size_t)st.st_size;
	return 0;
}

int keep_read(const struct daemon *d, struct kept *ret)
{
	char path[160], *bytes = NULL;
	size_t size = 0;
	FILE *f = NULL;

	path_of(d, path);
	int r = rbt_fopen_plain(path, false, &f);
	if (r < 0) {
		return r;
	}
	r = read_all(f, &bytes, &size);
	fclose(f);
	return r < 0 ? r : keep_decode(bytes, size, ret);
}

void keep_finish(struct kept *kept)
{
	free(kept->bytes);
	*kept = (struct kept){0};
}
