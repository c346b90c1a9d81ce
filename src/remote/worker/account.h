/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device memory of a guest's programs, for the limit of `rubato serve --mem`. All workers of a
 * guest map one file with a slot for each of them. A worker adds to its own slot before it
 * allocates, and takes it back if the sum of all is over the limit. serve clears the slot of a
 * worker that ended.
 */
#ifndef RBT_REMOTE_WORKER_ACCOUNT_H
#define RBT_REMOTE_WORKER_ACCOUNT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RBT_ACCOUNT_SLOTS 256u

struct worker_account {
	_Atomic uint64_t *slots; /* NULL: there is no limit */
	uint32_t mine;
	uint64_t limit_bytes;
	pthread_mutex_t lock;
	struct worker_allocation {
		uint64_t address, size;
	} * allocations;
	size_t n, room;
};

/* Maps the file. 0 or -errno. */
int worker_account_open(struct worker_account *a, int fd, uint32_t slot, uint64_t limit_bytes);
/* Whether so much more fits; it is counted then. */
bool worker_account_add(struct worker_account *a, uint64_t size);
/* What was counted has an address now, or was not allocated (address 0). */
void worker_account_keep(struct worker_account *a, uint64_t address, uint64_t size);
void worker_account_free(struct worker_account *a, uint64_t address);
/* Forgets allocations that went with their context. */
void worker_account_check(
	struct worker_account *a, bool (*is_there)(void *data, uint64_t address), void *data);

#endif
