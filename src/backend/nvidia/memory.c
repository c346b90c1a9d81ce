/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/nvidia/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "util/time.h"

#define CHUNK_BYTES ((size_t)1 << 20)

/* The kernel joins neighbouring anonymous mappings: a larger one behind a library is more than its
 * .bss. */
#define BSS_MAX_BYTES ((uint64_t)64 << 20)

static bool is_libcuda(const char *path)
{
	const char *base = strrchr(path, '/');

	return base != NULL && strncmp(base + 1, "libcuda.so", strlen("libcuda.so")) == 0;
}

/* The path of a maps line starts at the sixth field and may contain spaces; "": there is none. */
static const char *path_of(char *line)
{
	char *p = line;

	line[strcspn(line, "\n")] = '\0';
	for (int field = 0; field < 5; field++) {
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return p;
}

/* Filesystems of a process's files; one line of mountinfo each. */
#define MAX_MOUNTS 4096

struct filesystem {
	unsigned major, minor;
	bool is_in_user_space;
};

struct parse {
	const char *exe;
	struct filesystem *filesystems; /* owned */
	size_t n_filesystems;
	/* The end of the last mapping (of any kind) of libcuda or the executable, and which of the
	 * two it was. */
	uint64_t image_end;
	enum rbt_nv_place image;
};

/* The place of a mapping, if it is worth reading. False for other files and the stack. */
static bool find_place(
	struct parse *ps, uint64_t start, uint64_t end, const char *path, enum rbt_nv_place *ret)
{
	bool anonymous = path[0] == '\0' || strncmp(path, "[anon", 5) == 0;

	if (is_libcuda(path)) {
		*ret = RBT_NV_PLACE_LIBCUDA;
	} else if (strcmp(path, ps->exe) == 0) {
		*ret = RBT_NV_PLACE_PROGRAM;
	} else if (anonymous && start == ps->image_end && end - start <= BSS_MAX_BYTES) {
		*ret = ps->image; /* .bss: the anonymous region that starts where the data ends */
	} else {
		*ret = anonymous ? RBT_NV_PLACE_OTHER : RBT_NV_PLACE_HEAP;
		return anonymous || strcmp(path, "[heap]") == 0;
	}
	ps->image = *ret;
	ps->image_end = end;
	return true;
}

/* "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS"; names have no spaces. */
static int parse_mounts(struct parse *ps, FILE *mounts)
{
	size_t line_size = 0;
	char *line = NULL;

	ps->filesystems = calloc(MAX_MOUNTS, sizeof(*ps->filesystems));
	if (ps->filesystems == NULL) {
		return -ENOMEM;
	}
	while (ps->n_filesystems < MAX_MOUNTS && getline(&line, &line_size, mounts) > 0) {
		struct filesystem *fs = &ps->filesystems[ps->n_filesystems];
		const char *type = strstr(line, " - ");
		if (type != NULL && sscanf(line, "%*d %*d %u:%u ", &fs->major, &fs->minor) == 2) {
			fs->is_in_user_space = strncmp(type + 3, "fuse", 4) == 0;
			ps->n_filesystems++;
		}
	}
	free(line);
	return 0;
}

/* Files are safe to read if their filesystem is known not to be in user space, or is on a disk: a
 * user without a disk of their own cannot mount one. */
static bool may_read_file(const struct parse *ps, unsigned major, unsigned minor)
{
	bool found = major != 0;

	for (size_t i = 0; i < ps->n_filesystems; i++) {
		const struct filesystem *fs = &ps->filesystems[i];
		if (fs->major == major && fs->minor == minor) {
			if (fs->is_in_user_space) {
				return false;
			}
			found = true;
		}
	}
	return found;
}

/* Whether the line is a region to read; fills it in. */
static bool parse_line(struct parse *ps, char *line, struct rbt_nv_region *ret)
{
	enum rbt_nv_place place;
	unsigned major, minor;
	uint64_t start, end;
	char perms[5];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %x:%x", &start, &end, perms, &major,
		    &minor) != 5 ||
		start >= end) {
		return false;
	}
	const char *path = path_of(line);
	/* Evaluated for unreadable regions too: they may lie between a library's data and its
	 * .bss. */
	if (!find_place(ps, start, end, path, &place) || strncmp(perms, "rw", 2) != 0 ||
		perms[3] != 'p') {
		return false;
	}
	if ((major != 0 || minor != 0) && !may_read_file(ps, major, minor)) {
		return false;
	}
	*ret = (struct rbt_nv_region){.start = start, .end = end, .place = place};
	return true;
}

static int compare_regions(const void *pa, const void *pb)
{
	const struct rbt_nv_region *a = pa, *b = pb;
	uint64_t size_a = a->end - a->start, size_b = b->end - b->start;

	if (a->place != b->place) {
		return a->place < b->place ? -1 : 1;
	}
	if (size_a != size_b) {
		return size_a < size_b ? -1 : 1;
	}
	return a->start < b->start ? -1 : a->start > b->start;
}

int rbt_nv_regions_parse(
	FILE *maps, FILE *mounts, const char *exe, struct rbt_nv_region **ret, size_t *ret_n)
{
	struct parse ps = {.exe = exe};
	struct rbt_nv_region *regions = NULL, region;
	size_t n = 0, capacity = 0, line_size = 0;
	char *line = NULL;
	int r = mounts != NULL ? parse_mounts(&ps, mounts) : 0;

	while (r == 0 && getline(&line, &line_size, maps) > 0) {
		if (!parse_line(&ps, line, &region)) {
			continue;
		}
		if (n == capacity) {
			capacity = capacity == 0 ? 256 : capacity * 2;
			struct rbt_nv_region *grown = realloc(regions, capacity * sizeof(*regions));
			if (grown == NULL) {
				r = -ENOMEM;
				break;
			}
			regions = grown;
		}
		regions[n++] = region;
	}
	free(line);
	free(ps.filesystems);
	if (r < 0) {
		free(regions);
		return r;
	}
	if (n > 0) {
		qsort(regions, n, sizeof(*regions), compare_regions);
	}
	*ret = regions;
	*ret_n = n;
	return 0;
}

int rbt_nv_memory_init(struct rbt_nv_memory *mem, pid_t pid)
{
	char path[64], exe[4096];

	*mem = (struct rbt_nv_memory){.pid = pid};
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	ssize_t len = readlink(path, exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	if (maps == NULL) {
		return errno == ENOENT ? -ESRCH : -errno;
	}
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	FILE *mounts = fopen(path, "re");
	int r = rbt_nv_regions_parse(maps, mounts, exe, &mem->regions, &mem->n_regions);
	fclose(maps);
	if (mounts != NULL) {
		fclose(mounts);
	}
	if (r < 0) {
		return r;
	}
	mem->buf = malloc(CHUNK_BYTES);
	if (mem->buf == NULL) {
		rbt_nv_memory_finish(mem);
		return -ENOMEM;
	}
	return 0;
}

void rbt_nv_memory_finish(struct rbt_nv_memory *mem)
{
	free(mem->regions);
	free(mem->buf);
	*mem = (struct rbt_nv_memory){0};
}

/* Reads one chunk from the region's start and advances the start. A hole (the program unmapped it,
 * or the pages cannot be read) skips the chunk, which is no longer of interest. */
static int scan_chunk(struct rbt_nv_memory *mem, struct rbt_nv_region *region,
	struct rbt_nv_scan *scan, uint64_t *bytes)
{
	size_t size = CHUNK_BYTES;

	if (region->end - region->start < size) {
		size = (size_t)(region->end - region->start);
	}
	struct iovec local = {.iov_base = mem->buf, .iov_len = size};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)region->start, .iov_len = size};
	ssize_t n = process_vm_readv(mem->pid, &local, 1, &remote, 1, 0);
	if (n < 0 && errno != EFAULT) {
		return -errno;
	}
	if (n > 0) {
		rbt_nv_scan_feed(scan, mem->buf, (size_t)n / sizeof(uint32_t),
			region->place == RBT_NV_PLACE_LIBCUDA);
	}
	region->start += size;
	*bytes += size;
	return 0;
}

int rbt_nv_memory_scan(struct rbt_nv_memory *mem, enum rbt_nv_place last, uint64_t max_bytes,
	uint64_t until_cpu_ns, struct rbt_nv_scan *scan)
{
	uint64_t bytes = 0;

	while (mem->at < mem->n_regions && mem->regions[mem->at].place <= last) {
		struct rbt_nv_region *region = &mem->regions[mem->at];
		if (region->start >= region->end) {
			mem->at++;
			continue;
		}
		if (bytes >= max_bytes || rbt_cpu_ns() >= until_cpu_ns) {
			return 0;
		}
		int r = scan_chunk(mem, region, scan, &bytes);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}
