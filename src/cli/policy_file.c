/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a policy. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmd_policy.h"
#include "util/fd.h"
#include "util/log.h"

/* Reads until the end of the file, which may grow meanwhile. */
static int read_all(int fd, unsigned char *data, size_t max, size_t *ret_size)
{
	size_t at = 0;

	while (at < max) {
		ssize_t n = read(fd, data + at, max - at);
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		if (n == 0) {
			break;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	*ret_size = at;
	return 0;
}

static int read_plain(int fd, unsigned char **ret_data, size_t *ret_size)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if (!S_ISREG(st.st_mode)) {
		return S_ISDIR(st.st_mode) ? -EISDIR : -EBADF;
	}
	if (st.st_size > RBT_OBJECT_MAX_FILE) {
		return -EFBIG;
	}
	unsigned char *data = malloc((size_t)st.st_size + 1);
	if (data == NULL) {
		return -ENOMEM;
	}
	int r = read_all(fd, data, (size_t)st.st_size, ret_size);
	if (r < 0) {
		free(data);
		return r;
	}
	*ret_data = data;
	return 0;
}

static int read_file(const char *path, unsigned char **ret_data, size_t *ret_size)
{
	/* O_NONBLOCK: a FIFO without a writer would block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		return -errno;
	}
	int r = read_plain(fd, ret_data, ret_size);
	rbt_close(&fd);
	return r;
}

int policy_read_file(
	const struct command *cmd, const char *path, unsigned char **ret_data, size_t *ret_size)
{
	int r = read_file(path, ret_data, ret_size);

	if (r == 0) {
		return EXIT_OK;
	}
	if (r == -EFBIG) {
		rbt_error("%s: %s: the file is larger than %u MiB, so it is no policy", cmd->name,
			path, RBT_OBJECT_MAX_FILE >> 20);
	} else if (r == -EBADF) {
		rbt_error("%s: %s: not a plain file", cmd->name, path);
	} else {
		rbt_error("%s: %s: %s", cmd->name, path, strerror(-r));
	}
	return r == -EACCES || r == -EPERM ? EXIT_NO_PERMISSION : EXIT_FAILED;
}

int policy_open(
	const struct command *cmd, const struct policy_choice *choice, struct rbt_object **ret)
{
	unsigned char *data = NULL;
	size_t size = 0;
	struct rbt_object *o = NULL;
	struct rbt_why why = {""};
	int code = policy_read_file(cmd, choice->file, &data, &size);

	if (code != EXIT_OK) {
		return code;
	}
	int r = rbt_object_open(data, size, &o, &why);
	free(data);
	for (size_t i = 0; r == 0 && i < choice->n_settings; i++) {
		r = rbt_object_set(o, choice->settings[i], &why);
	}
	if (r < 0) {
		rbt_error("%s: %s: %s", cmd->name, choice->file, why.text);
		rbt_object_close(o);
		return EXIT_FAILED;
	}
	*ret = o;
	return EXIT_OK;
}

void policy_put_safely(FILE *out, const char *text, const char *allowed)
{
	for (const char *c = text; *c != '\0'; c++) {
		const bool is_control = (*c >= 0 && *c < ' ') || *c == 0x7f;

		fputc(is_control && strchr(allowed, *c) == NULL ? '?' : *c, out);
	}
}

void policy_print_log(const char *log)
{
	if (log == NULL || log[0] == '\0') {
		return;
	}
	policy_put_safely(stderr, log, "\n\t");
	if (log[strlen(log) - 1] != '\n') {
		fputc('\n', stderr);
	}
}

const char *policy_map_type(uint32_t type)
{
	switch (type) {
	case BPF_MAP_TYPE_HASH:
		return "hash";
	case BPF_MAP_TYPE_ARRAY:
		return "array";
	case BPF_MAP_TYPE_LRU_HASH:
		return "lru_hash";
	case BPF_MAP_TYPE_RINGBUF:
		return "ringbuf";
	default:
		return "unknown";
	}
}
