/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's memory, and maps of it. A kernel keeps the map of the moment when it started. So
 * freed memory goes to limbo, and returns to the arena only when no map contains it any more: no
 * other program gets memory that a kernel may still write to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/device/device_impl.h"

#define PAGE 4096u

/* Of all devices, each of which has a thread. */
static atomic_size_t pins;

/* Index of the first allocation at or after va. */
static size_t lower_bound(const struct rbt_context *ctx, uint64_t va)
{
	size_t low = 0, high = ctx->n_allocs;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ctx->allocs[middle].va < va) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static int grow(struct dev_alloc **list, size_t n, size_t *room)
{
	size_t wanted = *room ? *room * 2 : 16;
	struct dev_alloc *grown;

	if (n < *room) {
		return 0;
	}
	grown = realloc(*list, wanted * sizeof(grown[0]));
	if (!grown) {
		return -ENOMEM;
	}
	*list = grown;
	*room = wanted;
	return 0;
}

/* The current map is out of date; kernels that use it keep it. */
static void change_map(struct rbt_context *ctx)
{
	struct dev_map *map = ctx->map;

	ctx->map = NULL;
	if (map) {
		dev_map_put(ctx, map);
	}
}

static void release(struct rbt_context *ctx, const struct dev_alloc *a)
{
	if (a->reserved) {
		/* Memory that is off the device has only addresses to give back. */
		if (a->saved) {
			munmap(a->saved, a->size);
			ctx->dev->arena.free_bytes -= a->reserved;
		}
		dev_arena_give(&ctx->dev->arena, a->va - GPU_MEMORY_VA, a->reserved);
	} else {
		munmap(a->host, (a->size + PAGE - 1) / PAGE * PAGE);
		ctx->n_pins--;
		atomic_fetch_sub(&pins, 1);
	}
}

/* Releases memory that is in no map any more. */
static void empty_limbo(struct rbt_context *ctx)
{
	uint64_t oldest = DEV_NEVER;
	size_t kept = 0;

	for (const struct dev_map *m = ctx->maps; m; m = m->next) {
		oldest = dev_min(oldest, m->generation);
	}
	for (size_t k = 0; k < ctx->n_limbo; k++) {
		if (ctx->limbo[k].generation >= oldest) {
			ctx->limbo[kept++] = ctx->limbo[k];
		} else {
			release(ctx, &ctx->limbo[k]);
		}
	}
	ctx->n_limbo = kept;
}

struct dev_map *dev_map_get(struct rbt_context *ctx)
{
	struct dev_map *map = ctx->map;

	if (!map) {
		map = malloc(sizeof(*map) + ctx->n_allocs * sizeof(map->windows[0]));
		if (!map) {
			return NULL;
		}
		map->refs = 1;
		map->generation = ++ctx->generation;
		map->n = ctx->n_allocs;
		for (size_t k = 0; k < ctx->n_allocs; k++) {
			const struct dev_alloc *a = &ctx->allocs[k];

			map->windows[k] =
				(struct rbt_exec_window){a->va, a->size, a->host, a->read_only};
		}
		map->next = ctx->maps;
		ctx->maps = map;
		ctx->map = map;
	}
	map->refs++;
	return map;
}

void dev_map_put(struct rbt_context *ctx, struct dev_map *map)
{
	struct dev_map **at = &ctx->maps;

	if (!map || --map->refs > 0) {
		return;
	}
	while (*at != map) {
		at = &(*at)->next;
	}
	*at = map->next;
	free(map);
	empty_limbo(ctx);
}

uint8_t *dev_map_at(const struct dev_map *map, uint64_t va, uint64_t size)
{
	size_t low = 0, high = map->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct rbt_exec_window *w = &map->windows[middle];

		if (va < w->va) {
			high = middle;
		} else if (va - w->va >= w->size) {
			low = middle + 1;
		} else {
			return size <= w->size - (va - w->va) ? (uint8_t *)w->host + (va - w->va)
							      : NULL;
		}
	}
	return NULL;
}

static int add(struct rbt_context *ctx, const struct dev_alloc *a)
{
	size_t at = lower_bound(ctx, a->va);
	int r = grow(&ctx->allocs, ctx->n_allocs, &ctx->allocs_room);

	if (r < 0) {
		return r;
	}
	/* Room in limbo for each allocation, so that freeing cannot fail. */
	while (ctx->limbo_room < ctx->n_limbo + ctx->n_allocs + 1) {
		r = grow(&ctx->limbo, ctx->limbo_room, &ctx->limbo_room);
		if (r < 0) {
			return r;
		}
	}
	memmove(&ctx->allocs[at + 1], &ctx->allocs[at],
		(ctx->n_allocs - at) * sizeof(ctx->allocs[0]));
	ctx->allocs[at] = *a;
	ctx->n_allocs++;
	if (a->reserved) {
		ctx->memory_bytes += a->reserved;
	} else {
		ctx->pinned_bytes += a->size;
	}
	change_map(ctx);
	return 0;
}

int dev_memory_alloc(struct rbt_context *ctx, uint64_t size, uint64_t align, bool read_only,
	bool of_module, uint64_t *ret_va)
{
	struct dev_alloc a = {.size = size, .read_only = read_only, .of_module = of_module};
	uint64_t at;
	int r;

	if (size == 0) {
		return -EINVAL;
	}
	if (ctx->n_allocs >= DEV_MAX_ALLOCS || size >= ctx->dev->config.memory_bytes) {
		return -ENOMEM;
	}
	/* At least one byte behind each allocation stays free, so that an access past its end hits
	 * nothing. */
	a.reserved = (size + GPU_ALIGN) / GPU_ALIGN * GPU_ALIGN;
	r = dev_arena_take(&ctx->dev->arena, a.reserved, align, &at);
	if (r < 0) {
		return r;
	}
	a.va = GPU_MEMORY_VA + at;
	a.host = ctx->dev->arena.base + at;
	r = add(ctx, &a);
	if (r < 0) {
		dev_arena_give(&ctx->dev->arena, at, a.reserved);
		return r;
	}
	*ret_va = a.va;
	return 0;
}

int rbt_context_alloc(struct rbt_context *ctx, uint64_t size, uint64_t *ret_va)
{
	return dev_memory_alloc(ctx, size, GPU_ALIGN, false, false, ret_va);
}

/* Whether the pages are free, below GPU_PINNED_MAX, and not where the arena is. */
static bool pin_fits(const struct rbt_context *ctx, uint64_t address, uint64_t size)
{
	uint64_t arena_end = GPU_MEMORY_VA + ctx->dev->arena.size;
	size_t k = lower_bound(ctx, address);

	if (address == 0 || address % PAGE != 0 || address >= GPU_PINNED_MAX ||
		size > GPU_PINNED_MAX - address) {
		return false;
	}
	if (address < arena_end && address + size > GPU_MEMORY_VA) {
		return false;
	}
	if (k < ctx->n_allocs && ctx->allocs[k].va < address + size) {
		return false;
	}
	return k == 0 || ctx->allocs[k - 1].va + ctx->allocs[k - 1].size <= address;
}

/* Maps zeroed pages at that address, for kernels, and makes them a memfd for the program. */
static int map_pinned(struct rbt_context *ctx, struct dev_alloc *a, int *ret_fd)
{
	void *host;
	int fd, r;

	r = dev_memfd("softgpu-pinned", a->size, &fd, &host);
	if (r < 0) {
		return r;
	}
	a->host = host;
	r = add(ctx, a);
	if (r < 0) {
		munmap(host, a->size);
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

/* Maps pages of the program's own file, for kernels. */
static int map_shared(struct rbt_context *ctx, struct dev_alloc *a, int fd, uint64_t offset)
{
	void *host = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		(off_t)offset);

	if (host == MAP_FAILED) {
		return -errno;
	}
	a->host = host;
	int r = add(ctx, a);

	if (r < 0) {
		munmap(host, a->size);
	}
	return r;
}

/* There is room for another pinned allocation, which is counted. */
static int pin_begin(struct rbt_context *ctx, const struct dev_alloc *a)
{
	if (!pin_fits(ctx, a->va, a->size)) {
		return -EINVAL;
	}
	if (ctx->n_allocs >= DEV_MAX_ALLOCS || ctx->n_pins >= RBT_CONTEXT_MAX_PINS ||
		a->size > DEV_MAX_PINNED - ctx->pinned_bytes) {
		return -ENOMEM;
	}
	if (atomic_fetch_add(&pins, 1) >= RBT_DEVICE_MAX_PINS) {
		atomic_fetch_sub(&pins, 1);
		return -ENOMEM;
	}
	return 0;
}

static int pin_end(struct rbt_context *ctx, int r)
{
	if (r < 0) {
		atomic_fetch_sub(&pins, 1);
		return r;
	}
	ctx->n_pins++;
	return 0;
}

int rbt_context_pin(struct rbt_context *ctx, uint64_t size, uint64_t address, int *ret_fd)
{
	struct dev_alloc a = {.va = address, .size = size};

	if (size == 0 || size > GPU_PINNED_MAX) {
		return -EINVAL;
	}
	a.size = (size + PAGE - 1) / PAGE * PAGE;
	int r = pin_begin(ctx, &a);

	return r < 0 ? r : pin_end(ctx, map_pinned(ctx, &a, ret_fd));
}

int rbt_context_share(
	struct rbt_context *ctx, int fd, uint64_t offset, uint64_t size, uint64_t address)
{
	struct dev_alloc a = {.va = address, .size = size};
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (size == 0 || size > GPU_PINNED_MAX || size % PAGE != 0 || offset % PAGE != 0 ||
		seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) < 0 ||
		offset > (uint64_t)st.st_size || size > (uint64_t)st.st_size - offset) {
		return -EINVAL;
	}
	int r = pin_begin(ctx, &a);

	return r < 0 ? r : pin_end(ctx, map_shared(ctx, &a, fd, offset));
}

int dev_memory_free(struct rbt_context *ctx, uint64_t va, bool of_module)
{
	size_t at = lower_bound(ctx, va);
	struct dev_alloc a;

	if (at >= ctx->n_allocs || ctx->allocs[at].va != va ||
		ctx->allocs[at].of_module != of_module) {
		return -EINVAL;
	}
	a = ctx->allocs[at];
	ctx->n_allocs--;
	memmove(&ctx->allocs[at], &ctx->allocs[at + 1],
		(ctx->n_allocs - at) * sizeof(ctx->allocs[0]));
	if (a.reserved) {
		ctx->memory_bytes -= a.reserved;
	} else {
		ctx->pinned_bytes -= a.size;
	}
	a.generation = ctx->generation;
	ctx->limbo[ctx->n_limbo++] = a;
	change_map(ctx);
	empty_limbo(ctx);
	return 0;
}

int rbt_context_free(struct rbt_context *ctx, uint64_t va)
{
	int r = dev_memory_free(ctx, va, false);

	/* A kernel that has ended must not run again without memory that it had. */
	for (uint32_t k = 0; r == 0 && k < ctx->n_channels; k++) {
		dev_channel_commit(&ctx->channels[k]);
	}
	return r;
}

void dev_memory_finish(struct rbt_context *ctx)
{
	while (ctx->n_allocs > 0) {
		const struct dev_alloc *a = &ctx->allocs[ctx->n_allocs - 1];

		(void)dev_memory_free(ctx, a->va, a->of_module);
	}
	free(ctx->allocs);
	free(ctx->limbo);
	ctx->allocs = NULL;
	ctx->limbo = NULL;
}
