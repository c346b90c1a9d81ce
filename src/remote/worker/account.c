/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/worker/account.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

int worker_account_open(struct worker_account *a, int fd, uint32_t slot, uint64_t limit_bytes)
{
	void *p = mmap(NULL, RBT_ACCOUNT_SLOTS * sizeof(*a->slots), PROT_READ | PROT_WRITE,
		MAP_SHARED, fd, 0);

	if (p == MAP_FAILED || slot >= RBT_ACCOUNT_SLOTS) {
		return p == MAP_FAILED ? -errno : -EINVAL;
	}
	*a = (struct worker_account){.slots = p,
		.mine = slot,
		.limit_bytes = limit_bytes,
		.lock = PTHREAD_MUTEX_INITIALIZER};
	return 0;
}

bool worker_account_add(struct worker_account *a, uint64_t size)
{
	uint64_t sum = 0;

	if (a->slots == NULL) {
		return true;
	}
	if (size > a->limit_bytes) {
		return false;
	}
	atomic_fetch_add(&a->slots[a->mine], size);
	/* If two workers are here at once, both may be refused, but never both accepted. */
	for (uint32_t i = 0; i < RBT_ACCOUNT_SLOTS; i++) {
		sum += atomic_load(&a->slots[i]);
	}
	if (sum > a->limit_bytes) {
		atomic_fetch_sub(&a->slots[a->mine], size);
		return false;
	}
	return true;
}

void worker_account_keep(struct worker_account *a, uint64_t address, uint64_t size)
{
	if (a->slots == NULL) {
		return;
	}
	pthread_mutex_lock(&a->lock);
	if (address != 0 && a->n == a->room) {
		size_t room = a->room * 2 + 64;
		void *more = reallocarray(a->allocations, room, sizeof(*a->allocations));

		if (more != NULL) {
			a->allocations = more;
			a->room = room;
		}
	}
	if (address != 0 && a->n < a->room) {
		a->allocations[a->n++] = (struct worker_allocation){address, size};
	} else if (address == 0) {
		atomic_fetch_sub(&a->slots[a->mine], size);
	}
	pthread_mutex_unlock(&a->lock);
}

/* With the lock. */
static void drop(struct worker_account *a, size_t i)
{
	atomic_fetch_sub(&a->slots[a->mine], a->allocations[i].size);
	a->allocations[i] = a->allocations[--a->n];
}

void worker_account_free(struct worker_account *a, uint64_t address)
{
	if (a->slots == NULL) {
		return;
	}
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->n; i++) {
		if (a->allocations[i].address == address) {
			drop(a, i);
			break;
		}
	}
	pthread_mutex_unlock(&a->lock);
}

void worker_account_check(
	struct worker_account *a, bool (*is_there)(void *data, uint64_t address), void *data)
{
	pthread_mutex_lock(&a->lock);
	for (size_t i = a->n; i > 0; i--) {
		if (!is_there(data, a->allocations[i - 1].address)) {
			drop(a, i - 1);
		}
	}
	pthread_mutex_unlock(&a->lock);
}
