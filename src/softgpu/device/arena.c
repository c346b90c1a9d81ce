/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: a sparse file, and the list of its free parts. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/device/device_impl.h"

/* Smaller parts keep their pages: releasing them costs a system call. */
#define PUNCH_MIN (256u << 10)
#define PAGE      4096u

int dev_memfd(const char *name, uint64_t size, int *ret_fd, void **ret_at)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), r;
	void *at;

	if (fd < 0) {
		return -errno;
	}
	if (ftruncate(fd, (off_t)size) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (at == MAP_FAILED) {
		r = -errno;
		close(fd);
		return r;
	}
	*ret_fd = fd;
	*ret_at = at;
	return 0;
}

int dev_arena_init(struct dev_arena *arena, uint64_t size, uint64_t memory)
{
	void *base = NULL;
	int r = dev_memfd("softgpu-arena", size, &arena->fd, &base);

	if (r < 0) {
		return r;
	}
	arena->base = base;
	arena->size = size;
	arena->free_bytes = memory;
	arena->room = 64;
	arena->free = malloc(arena->room * sizeof(arena->free[0]));
	if (!arena->free) {
		dev_arena_finish(arena);
		return -ENOMEM;
	}
	arena->free[0] = (struct dev_extent){0, size};
	arena->n = 1;
	return 0;
}

void dev_arena_finish(struct dev_arena *arena)
{
	if (arena->base) {
		munmap(arena->base, arena->size);
		close(arena->fd);
	}
	free(arena->free);
	*arena = (struct dev_arena){.fd = -1};
}

static void remove_extent(struct dev_arena *arena, size_t k)
{
	arena->n--;
	memmove(&arena->free[k], &arena->free[k + 1], (arena->n - k) * sizeof(arena->free[0]));
}

/* There is room: see reserve_extents(). */
static void insert_extent(struct dev_arena *arena, size_t k, struct dev_extent e)
{
	memmove(&arena->free[k + 1], &arena->free[k], (arena->n - k) * sizeof(arena->free[0]));
	arena->free[k] = e;
	arena->n++;
}

/*
 * Free parts are never adjacent, so there is at most one more than there are used parts. Room for
 * them is made when a part is taken, so that releasing it cannot fail.
 */
static int reserve_extents(struct dev_arena *arena)
{
	size_t room = arena->room * 2;
	struct dev_extent *grown;

	if (arena->room > arena->used + 2) {
		return 0;
	}
	grown = realloc(arena->free, room * sizeof(grown[0]));
	if (!grown) {
		return -ENOMEM;
	}
	arena->free = grown;
	arena->room = room;
	return 0;
}

int dev_arena_take(struct dev_arena *arena, uint64_t reserved, uint64_t align, uint64_t *ret_at)
{
	if (reserved > arena->free_bytes || reserve_extents(arena) < 0) {
		return -ENOMEM;
	}
	for (size_t k = 0; k < arena->n; k++) {
		struct dev_extent e = arena->free[k];
		uint64_t skip = (align - e.at % align) % align;

		if (e.size < reserved || e.size - reserved < skip) {
			continue;
		}
		remove_extent(arena, k);
		if (e.size - skip > reserved) {
			insert_extent(arena, k,
				(struct dev_extent){
					e.at + skip + reserved, e.size - skip - reserved});
		}
		if (skip > 0) {
			insert_extent(arena, k, (struct dev_extent){e.at, skip});
		}
		arena->free_bytes -= reserved;
		arena->used++;
		*ret_at = e.at + skip;
		return 0;
	}
	return -ENOMEM;
}

static void punch(struct dev_arena *arena, uint64_t at, uint64_t size)
{
	uint64_t from = (at + PAGE - 1) / PAGE * PAGE, to = (at + size) / PAGE * PAGE;

	if (to > from) {
		/* Cannot fail on a memfd; if it did, memory would merely stay in use. */
		(void)fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
			(off_t)(to - from));
	}
}

void dev_arena_give(struct dev_arena *arena, uint64_t at, uint64_t reserved)
{
	size_t low = 0, high = arena->n;
	struct dev_extent e = {at, reserved};

	if (reserved >= PUNCH_MIN) {
		punch(arena, at, reserved);
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (arena->free[middle].at < at) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	arena->free_bytes += reserved;
	arena->used--;
	if (low < arena->n && at + reserved == arena->free[low].at) {
		e.size += arena->free[low].size;
		remove_extent(arena, low);
	}
	if (low > 0 && arena->free[low - 1].at + arena->free[low - 1].size == at) {
		arena->free[low - 1].size += e.size;
		return;
	}
	insert_extent(arena, low, e);
}

void dev_arena_evict(struct dev_arena *arena, uint64_t at, uint64_t reserved)
{
	punch(arena, at, reserved);
	arena->free_bytes += reserved;
}

int dev_arena_admit(struct dev_arena *arena, uint64_t reserved)
{
	if (reserved > arena->free_bytes) {
		return -ENOMEM;
	}
	arena->free_bytes -= reserved;
	return 0;
}

void dev_arena_zero(struct dev_arena *arena, uint64_t at, uint64_t size)
{
	uint64_t from = (at + PAGE - 1) / PAGE * PAGE, to = (at + size) / PAGE * PAGE;

	if (size < PUNCH_MIN || fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					(off_t)from, (off_t)(to - from)) < 0) {
		memset(arena->base + at, 0, size);
		return;
	}
	memset(arena->base + at, 0, from - at);
	memset(arena->base + to, 0, at + size - to);
}
