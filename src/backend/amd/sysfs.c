/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/amd/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fd.h"
#include "util/parse.h"

#define MAX_PATH 512

/* A number, with or without a newline. */
static int read_number(const char *path, uint64_t *ret)
{
	char text[64];
	ssize_t n = rbt_read_file(path, text, sizeof(text));

	if (n < 0) {
		return (int)n;
	}
	text[strcspn(text, "\n")] = '\0';
	return rbt_parse_u64(text, 0, UINT64_MAX, ret) < 0 ? -EBADMSG : 0;
}

static bool is_number(const char *name, uint64_t max, uint64_t *ret)
{
	return rbt_parse_u64(name, 0, max, ret) == 0;
}

static uint32_t clip(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

void rbt_amd_parse_properties(const char *text, struct rbt_amd_gpu *gpu)
{
	uint64_t location = 0, domain = 0, minor = 0;

	for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
		char name[64];
		unsigned long long v;
		line += *line == '\n';
		if (sscanf(line, "%63s %llu", name, &v) != 2) {
			continue;
		}
		if (strcmp(name, "simd_count") == 0) {
			gpu->simd_count = clip(v);
		} else if (strcmp(name, "gfx_target_version") == 0) {
			gpu->gfx_target_version = clip(v);
		} else if (strcmp(name, "capability") == 0) {
			gpu->capability = clip(v);
		} else if (strcmp(name, "cwsr_size") == 0) {
			gpu->cwsr_size = clip(v);
		} else if (strcmp(name, "local_mem_size") == 0) {
			gpu->memory_bytes = v;
		} else if (strcmp(name, "unique_id") == 0) {
			gpu->unique_id = v;
		} else if (strcmp(name, "location_id") == 0) {
			location = v;
		} else if (strcmp(name, "domain") == 0) {
			domain = v;
		} else if (strcmp(name, "drm_render_minor") == 0) {
			minor = v;
		}
	}
	if (minor >= KFD_FIRST_RENDER_MINOR) {
		gpu->number = clip(minor) - KFD_FIRST_RENDER_MINOR;
	}
	snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.%x", (unsigned)(domain & 0xffff),
		(unsigned)(location >> 8 & 0xff), (unsigned)(location >> 3 & 0x1f),
		(unsigned)(location & 7));
}

/* 1 if the node is a GPU, 0 if it is not, or -errno. */
static int read_node(const char *root, uint32_t node, struct rbt_amd_gpu *ret)
{
	struct rbt_amd_gpu gpu = {.node = node, .number = node};
	char path[MAX_PATH], text[8192];
	uint64_t id = 0;

	snprintf(path, sizeof(path), "%s/topology/nodes/%u/gpu_id", root, node);
	int r = read_number(path, &id);
	if (r < 0 || id == 0 || id > UINT32_MAX) {
		return r;
	}
	gpu.gpu_id = (uint32_t)id;
	snprintf(path, sizeof(path), "%s/topology/nodes/%u/properties", root, node);
	ssize_t n = rbt_read_file(path, text, sizeof(text));
	/* In a container, the nodes of other containers' GPUs exist but cannot be read. */
	if (n < 0) {
		return n == -EPERM || n == -EACCES ? 0 : (int)n;
	}
	rbt_amd_parse_properties(text, &gpu);
	snprintf(path, sizeof(path), "%s/topology/nodes/%u/name", root, node);
	if (rbt_read_file(path, text, sizeof(text)) > 0) {
		snprintf(gpu.name, sizeof(gpu.name), "%.*s", (int)strcspn(text, "\n"), text);
	}
	*ret = gpu;
	return 1;
}

static int by_number(const void *a, const void *b)
{
	const struct rbt_amd_gpu *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

int rbt_amd_topology_read(const char *root, struct rbt_amd_topology *ret)
{
	char path[MAX_PATH];
	struct dirent *e;
	int r = 0;

	snprintf(path, sizeof(path), "%s/topology/nodes", root);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return errno == ENOENT || errno == ENOTDIR ? -ENODEV : -errno;
	}
	struct rbt_amd_topology *t = calloc(1, sizeof(*t));
	while (t != NULL && r >= 0 && t->n < RBT_AMD_MAX_GPUS && (e = readdir(dir)) != NULL) {
		uint64_t node;
		if (is_number(e->d_name, UINT32_MAX, &node)) {
			r = read_node(root, (uint32_t)node, &t->gpus[t->n]);
			t->n += r == 1;
		}
	}
	closedir(dir);
	if (t == NULL || r < 0) {
		free(t);
		return t == NULL ? -ENOMEM : r;
	}
	qsort(t->gpus, t->n, sizeof(t->gpus[0]), by_number);
	*ret = *t;
	free(t);
	return 0;
}

const struct rbt_amd_gpu *rbt_amd_topology_find(
	const struct rbt_amd_topology *topology, uint32_t gpu_id)
{
	for (uint32_t i = 0; i < topology->n; i++) {
		if (topology->gpus[i].gpu_id == gpu_id) {
			return &topology->gpus[i];
		}
	}
	return NULL;
}

/* False: the queue is gone meanwhile. */
static bool read_queue(const char *root, pid_t pid, uint32_t id, struct rbt_amd_queue *ret)
{
	static const char *const names[] = {"gpuid", "size", "type"};
	uint64_t v[3];

	for (int i = 0; i < 3; i++) {
		char path[MAX_PATH];
		snprintf(path, sizeof(path), "%s/proc/%d/queues/%u/%s", root, (int)pid, id,
			names[i]);
		if (read_number(path, &v[i]) < 0) {
			return false;
		}
	}
	*ret = (struct rbt_amd_queue){
		.id = id, .gpu_id = clip(v[0]), .size = clip(v[1]), .type = clip(v[2])};
	return true;
}

static int by_id(const void *a, const void *b)
{
	const struct rbt_amd_queue *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* The list is sorted. */
static bool is_known(const struct rbt_amd_queue *known, size_t n, uint32_t id, uint64_t inode,
	struct rbt_amd_queue *ret)
{
	struct rbt_amd_queue key = {.id = id};
	const struct rbt_amd_queue *q = n > 0 ? bsearch(&key, known, n, sizeof(key), by_id) : NULL;

	if (q == NULL || q->inode != inode) {
		return false;
	}
	*ret = *q;
	return true;
}

void rbt_amd_follow_finish(struct rbt_amd_follow *f)
{
	if (f->dir != NULL) {
		closedir(f->dir);
	}
	free(f->known);
	*f = (struct rbt_amd_follow){0};
}

int rbt_amd_queues_read(const char *root, pid_t pid, struct rbt_amd_queue **ret, size_t *ret_n)
{
	struct rbt_amd_follow f = {0};
	int r = rbt_amd_follow(root, pid, &f);

	if (r == 0) {
		*ret = f.known;
		*ret_n = f.n_known;
		f.known = NULL;
	}
	rbt_amd_follow_finish(&f);
	return r;
}

static int open_queues(const char *root, pid_t pid, struct rbt_amd_follow *f)
{
	char path[MAX_PATH];

	snprintf(path, sizeof(path), "%s/proc/%d/queues", root, (int)pid);
	if (f->dir != NULL) {
		closedir(f->dir);
	}
	f->dir = opendir(path);
	if (f->dir == NULL) {
		return errno == ENOENT || errno == ENOTDIR ? -ENXIO : -errno;
	}
	if (f->pid != pid) {
		f->pid = pid;
		f->n_known = 0;
	}
	return 0;
}

static size_t list_queues(
	const char *root, const struct rbt_amd_follow *f, struct rbt_amd_queue *list)
{
	struct dirent *e;
	size_t n = 0;

	while (n < KFD_MAX_QUEUES && (e = readdir(f->dir)) != NULL) {
		uint64_t id;
		if (!is_number(e->d_name, KFD_QUEUE_ID_MASK, &id)) {
			continue;
		}
		if (is_known(f->known, f->n_known, (uint32_t)id, e->d_ino, &list[n])) {
			n++;
		} else if (read_queue(root, f->pid, (uint32_t)id, &list[n])) {
			list[n++].inode = e->d_ino;
		}
	}
	return n;
}

int rbt_amd_follow(const char *root, pid_t pid, struct rbt_amd_follow *f)
{
	struct rbt_amd_queue *list = malloc(KFD_MAX_QUEUES * sizeof(*list));
	size_t n = 0;
	int r = list == NULL ? -ENOMEM : 0;

	if (r == 0 && f->dir != NULL && f->pid == pid) {
		rewinddir(f->dir);
		n = list_queues(root, f, list);
	}
	/* An empty list may also be the directory of a process that is gone. */
	if (r == 0 && n == 0) {
		r = open_queues(root, pid, f);
		n = r == 0 ? list_queues(root, f, list) : 0;
	}
	if (r < 0) {
		free(list);
		return r;
	}
	qsort(list, n, sizeof(*list), by_id);
	free(f->known);
	f->known = list;
	f->n_known = n;
	return 0;
}

/* By opening it, not by access(): the software GPU answers opens only. */
bool rbt_amd_process_exists(const char *root, pid_t pid)
{
	char path[MAX_PATH];

	snprintf(path, sizeof(path), "%s/proc/%d", root, (int)pid);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return false;
	}
	closedir(dir);
	return true;
}

int rbt_amd_each_process(const char *root, int (*fn)(pid_t pid, void *data), void *data)
{
	char path[MAX_PATH];
	struct dirent *e;
	int r = 0;

	snprintf(path, sizeof(path), "%s/proc", root);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return errno == ENOENT || errno == ENOTDIR ? -ENODEV : -errno;
	}
	while (r == 0 && (e = readdir(dir)) != NULL) {
		uint64_t pid;
		if (is_number(e->d_name, INT32_MAX, &pid) && pid > 0) {
			r = fn((pid_t)pid, data);
		}
	}
	closedir(dir);
	return r;
}

int rbt_amd_vram_read(const char *root, pid_t pid, uint32_t gpu_id, uint64_t *ret)
{
	char path[MAX_PATH];

	snprintf(path, sizeof(path), "%s/proc/%d/vram_%u", root, (int)pid, gpu_id);
	return read_number(path, ret);
}
