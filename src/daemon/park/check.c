/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/park/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fd.h"

#define CGROUPS "/sys/fs/cgroup"
/* libcuda itself has some mappings of this node in every program. */
#define UVM_NODE      "/dev/nvidia-uvm"
#define UVM_OWN_BYTES (32ull << 20)

/* The number after a key at the beginning of a line; 0: not there. */
static uint64_t number_after(const char *text, const char *key)
{
	const char *at = text;
	size_t size = strlen(key);

	while (at != NULL && strncmp(at, key, size) != 0) {
		at = strchr(at, '\n');
		at = at != NULL ? at + 1 : NULL;
	}
	return at != NULL ? strtoull(at + size, NULL, 10) : 0;
}

/* The directory of the process's cgroup (version 2). */
static bool cgroup_of(pid_t pid, char *buf, size_t size)
{
	char path[64], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (rbt_read_file(path, text, sizeof(text)) < 0) {
		return false;
	}
	const char *at = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (at == NULL) {
		return false;
	}
	at = strchr(at, '/');
	int n = at != NULL ? snprintf(buf, size, "%s%.*s", CGROUPS, (int)strcspn(at, "\n"), at)
			   : -1;
	return n > 0 && (size_t)n < size;
}

static bool is_frozen(pid_t pid)
{
	char dir[2048], path[2112], text[512];

	if (!cgroup_of(pid, dir, sizeof(dir))) {
		return false;
	}
	snprintf(path, sizeof(path), "%s/cgroup.events", dir);
	return rbt_read_file(path, text, sizeof(text)) >= 0 && number_after(text, "frozen ") != 0;
}

bool check_is_stopped(pid_t pid)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (rbt_read_file(path, text, sizeof(text)) < 0) {
		return false;
	}
	/* The name may contain anything, the state comes after it. */
	const char *state = strrchr(text, ')');

	return (state != NULL && strlen(state) > 2 && (state[2] == 'T' || state[2] == 't')) ||
	       is_frozen(pid);
}

/* What one cgroup leaves; UINT64_MAX: no limit. */
static uint64_t room_in(const char *dir)
{
	char path[2112], limit[64], now[64];

	snprintf(path, sizeof(path), "%s/memory.max", dir);
	if (rbt_read_file(path, limit, sizeof(limit)) < 0 || strncmp(limit, "max", 3) == 0) {
		return UINT64_MAX;
	}
	snprintf(path, sizeof(path), "%s/memory.current", dir);
	if (rbt_read_file(path, now, sizeof(now)) < 0) {
		return UINT64_MAX;
	}
	uint64_t most = strtoull(limit, NULL, 10), used = strtoull(now, NULL, 10);

	return used < most ? most - used : 0;
}

uint64_t check_host_memory(pid_t pid)
{
	char text[8192], dir[2048];
	uint64_t room = UINT64_MAX;

	if (rbt_read_file("/proc/meminfo", text, sizeof(text)) >= 0) {
		room = number_after(text, "MemAvailable:") << 10;
	}
	if (!cgroup_of(pid, dir, sizeof(dir))) {
		return room;
	}
	/* The limits of all cgroups above it count, too. */
	while (strlen(dir) > sizeof(CGROUPS)) {
		uint64_t here = room_in(dir);
		room = here < room ? here : room;
		*strrchr(dir, '/') = '\0';
	}
	return room;
}

uint64_t check_managed_bytes(pid_t pid)
{
	char path[64], line[1024];
	uint64_t sum = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		uint64_t from, to;
		if (strstr(line, UVM_NODE) != NULL &&
			sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2) {
			sum += to - from;
		}
	}
	if (f != NULL) {
		fclose(f);
	}
	return sum > UVM_OWN_BYTES ? sum : 0;
}

uint64_t check_resident_bytes(pid_t pid)
{
	char path[64], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (rbt_read_file(path, text, sizeof(text)) < 0) {
		return 0;
	}
	return (number_after(text, "VmRSS:") + number_after(text, "VmSwap:")) << 10;
}
