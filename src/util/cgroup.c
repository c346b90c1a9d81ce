/* SPDX-License-Identifier: Apache-2.0 */
#include "util/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "util/fd.h"

#define ID_DIGITS   64 /* of a container */
#define UUID_LENGTH 36
#define HASH_DIGITS 32 /* a static pod's uid is a hash */
/* Room for a dozen hierarchies with the paths of containers. A longer text is cut off. */
#define TEXT_MAX 16384

/* A part of a path between slashes. */
struct name {
	const char *at;
	size_t length;
};

bool rbt_cgroup_next(const char **text, struct rbt_cgroup_line *ret)
{
	while (**text != '\0') {
		const char *line = *text, *end = line + strcspn(line, "\n");
		const char *first = memchr(line, ':', (size_t)(end - line));
		const char *second =
			first != NULL ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;

		*text = *end == '\n' ? end + 1 : end;
		if (second != NULL) {
			*ret = (struct rbt_cgroup_line){
				.is_v2 = first == line + 1 && *line == '0' && second == first + 1,
				.path = second + 1,
				.length = (size_t)(end - second - 1),
			};
			return true;
		}
	}
	return false;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static size_t count_hex(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && is_hex(s[i])) {
		i++;
	}
	return i;
}

static bool ends_with(struct name n, const char *tail)
{
	size_t len = strlen(tail);

	return n.length >= len && memcmp(n.at + n.length - len, tail, len) == 0;
}

static struct name without_tail(struct name n, const char *tail)
{
	n.length -= ends_with(n, tail) ? strlen(tail) : 0;
	return n;
}

/*
 * "ID", "docker-ID.scope", "libpod-ID.scope", "cri-containerd-ID.scope", "crio-ID.scope" and
 * containerd's "SLICE:cri-containerd:ID" without its systemd driver.
 */
static void find_container(struct name n, struct rbt_place *ret)
{
	n = without_tail(n, ".scope");
	if (n.length < ID_DIGITS) {
		return;
	}
	const char *id = n.at + n.length - ID_DIGITS;
	if (count_hex(id, ID_DIGITS) == ID_DIGITS &&
		(id == n.at || id[-1] == '-' || id[-1] == ':')) {
		memcpy(ret->container_id, id, ID_DIGITS);
	}
}

/* The length of the pod's uid at the start of the text, or 0. The systemd driver has _ for -. */
static size_t pod_uid_length(const char *s, size_t n)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i = 0;

	if (n >= HASH_DIGITS && count_hex(s, n) == HASH_DIGITS) {
		return HASH_DIGITS;
	}
	while (i < UUID_LENGTH && i < n &&
		(form[i] == 'x' ? is_hex(s[i]) : s[i] == '-' || s[i] == '_')) {
		i++;
	}
	return i == UUID_LENGTH ? UUID_LENGTH : 0;
}

/* "podUID", "kubepods-burstable-podUID.slice", and the latter before containerd's ":". */
static void find_pod(struct name n, struct rbt_place *ret)
{
	for (size_t i = 0; i + 3 < n.length; i++) {
		const char *uid = n.at + i + 3;
		size_t rest = n.length - i - 3;

		if (memcmp(n.at + i, "pod", 3) != 0 || (i > 0 && n.at[i - 1] != '-')) {
			continue;
		}
		size_t len = pod_uid_length(uid, rest);
		if (len == 0 || (rest > len && uid[len] != '.')) {
			continue;
		}
		memset(ret->pod_uid, 0, sizeof(ret->pod_uid));
		for (size_t k = 0; k < len; k++) {
			ret->pod_uid[k] = uid[k] == '_' ? '-' : uid[k];
		}
	}
}

/* "job_42" below a cgroup of slurmd's: "slurm", "slurm_NODE", "slurmstepd.scope",
 * "NODE_slurmstepd.scope". */
static void find_job(struct name n, bool is_in_slurm, struct rbt_place *ret)
{
	size_t digits = n.length > 4 ? n.length - 4 : 0;

	if (!is_in_slurm || digits == 0 || digits >= sizeof(ret->slurm_job) ||
		memcmp(n.at, "job_", 4) != 0 || strspn(n.at + 4, "0123456789") < digits) {
		return;
	}
	memset(ret->slurm_job, 0, sizeof(ret->slurm_job));
	memcpy(ret->slurm_job, n.at + 4, digits);
}

static bool is_slurms(struct name n)
{
	return (n.length >= 5 && memcmp(n.at, "slurm", 5) == 0 &&
		       (n.length == 5 || n.at[5] == '_')) ||
	       ends_with(n, "slurmstepd.scope");
}

static void parse_path(const char *path, size_t length, struct rbt_place *ret)
{
	bool is_in_slurm = false;

	/* Later names are inner ones, and replace what outer ones said. */
	for (size_t at = 0; at < length;) {
		const char *end = memchr(path + at, '/', length - at);
		struct name n = {path + at, end != NULL ? (size_t)(end - path) - at : length - at};

		find_container(n, ret);
		find_pod(n, ret);
		find_job(n, is_in_slurm, ret);
		is_in_slurm = is_in_slurm || is_slurms(n);
		at += n.length + 1;
	}
}

void rbt_place_parse(const char *text, struct rbt_place *ret)
{
	struct rbt_cgroup_line line;

	*ret = (struct rbt_place){0};
	while (rbt_cgroup_next(&text, &line)) {
		struct rbt_place found = {0};

		/* Hierarchies of cgroup v1 may disagree: the first one counts. */
		parse_path(line.path, line.length, &found);
		if (ret->container_id[0] == '\0') {
			memcpy(ret->container_id, found.container_id, sizeof(ret->container_id));
		}
		if (ret->pod_uid[0] == '\0') {
			memcpy(ret->pod_uid, found.pod_uid, sizeof(ret->pod_uid));
		}
		if (ret->slurm_job[0] == '\0') {
			memcpy(ret->slurm_job, found.slurm_job, sizeof(ret->slurm_job));
		}
	}
}

int rbt_place_read(pid_t pid, struct rbt_place *ret)
{
	char path[64], text[TEXT_MAX];

	*ret = (struct rbt_place){0};
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	ssize_t n = rbt_read_file(path, text, sizeof(text));
	if (n < 0) {
		return (int)n;
	}
	/* The last line may have been cut off inside a name. */
	while (n > 0 && text[n - 1] != '\n') {
		text[--n] = '\0';
	}
	rbt_place_parse(text, ret);
	return 0;
}
