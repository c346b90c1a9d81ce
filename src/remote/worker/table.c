/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker knows: the guest's handles, and the memory that it shares with the guest. */
#include <errno.h>
#include <string.h>

#include "remote/worker/worker.h"
#include "util/fd.h"

void *worker_find(struct worker *w, enum rbt_handle_kind kind, uint64_t handle)
{
	pthread_mutex_lock(&w->lock);
	void *object = rbt_handles_find(&w->handles, kind, handle);
	pthread_mutex_unlock(&w->lock);
	return object;
}

uint64_t worker_handle(struct worker *w, enum rbt_handle_kind kind, void *object)
{
	/* Default streams have the same small numbers everywhere. */
	if (kind == RBT_HANDLE_STREAM && (uintptr_t)object <= 2) {
		return (uintptr_t)object;
	}
	pthread_mutex_lock(&w->lock);
	uint64_t handle = rbt_handles_add(&w->handles, kind, object);
	pthread_mutex_unlock(&w->lock);
	return handle;
}

void worker_forget(struct worker *w, uint64_t handle)
{
	pthread_mutex_lock(&w->lock);
	rbt_handles_remove(&w->handles, handle);
	pthread_mutex_unlock(&w->lock);
}

/* The first map that ends behind the address. The caller has the lock. */
static size_t first_behind(const struct worker *w, uint64_t address)
{
	size_t i = 0;

	while (i < w->n_maps && w->maps[i].address + w->maps[i].size <= address) {
		i++;
	}
	return i;
}

bool worker_is_shared(struct worker *w, uint64_t address, uint64_t size)
{
	bool shared = true;

	if (address + size < address) {
		return false;
	}
	pthread_mutex_lock(&w->lock);
	/* Neighbouring maps are one range to the guest. */
	for (size_t i = first_behind(w, address); shared && size > 0; i++) {
		shared = i < w->n_maps && w->maps[i].address <= address;
		if (shared) {
			uint64_t here = w->maps[i].address + w->maps[i].size - address;

			here = here < size ? here : size;
			address += here;
			size -= here;
		}
	}
	pthread_mutex_unlock(&w->lock);
	return shared;
}

int worker_map_add(struct worker *w, uint64_t address, uint64_t size)
{
	int r = 0;

	pthread_mutex_lock(&w->lock);
	size_t i = first_behind(w, address);

	if (w->n_maps == WORKER_MAX_MAPS) {
		r = -E2BIG;
	} else if (i < w->n_maps && w->maps[i].address < address + size) {
		r = -EEXIST;
	} else {
		memmove(&w->maps[i + 1], &w->maps[i], (w->n_maps - i) * sizeof(w->maps[0]));
		w->maps[i] = (struct worker_map){address, size, {-1, -1, -1, -1}};
		w->n_maps++;
	}
	pthread_mutex_unlock(&w->lock);
	return r;
}

void worker_map_keep(struct worker *w, uint64_t address, int *fds, size_t n_fds)
{
	pthread_mutex_lock(&w->lock);
	size_t i = first_behind(w, address);

	for (size_t k = 0; i < w->n_maps && k < n_fds; k++) {
		w->maps[i].fds[k] = fds[k];
		fds[k] = -1;
	}
	pthread_mutex_unlock(&w->lock);
}

int worker_map_remove(struct worker *w, uint64_t address, uint64_t size)
{
	uint64_t end = address + size;
	int r = 0;

	pthread_mutex_lock(&w->lock);
	size_t i = first_behind(w, address), n = i;

	while (n < w->n_maps && w->maps[n].address >= address &&
		w->maps[n].address + w->maps[n].size <= end) {
		n++;
	}
	if (n == i || (n < w->n_maps && w->maps[n].address < end)) {
		r = -ENOENT;
	} else {
		for (size_t k = i; k < n; k++) {
			for (size_t f = 0; f < RBT_PEER_MAX_FDS; f++) {
				rbt_close(&w->maps[k].fds[f]);
			}
		}
		memmove(&w->maps[i], &w->maps[n], (w->n_maps - n) * sizeof(w->maps[0]));
		w->n_maps -= n - i;
	}
	pthread_mutex_unlock(&w->lock);
	return r;
}
