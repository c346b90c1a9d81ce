/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "remote/guest/guest.h"

#define INTERN_BUCKETS 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *handles; /* by index; 0: none is known */
static uint32_t n_handles;
static atomic_uint n_contexts; /* that were ever made: contexts are few, and rarely destroyed */

struct range {
	uint64_t address, size;
};
static struct range *ranges; /* sorted by address */
static size_t n_ranges, room_ranges;

bool guest_knows_handle(uint64_t handle)
{
	uint32_t i = rbt_handle_index(handle);

	pthread_mutex_lock(&lock);
	bool knows = handle != 0 && i < n_handles && handles[i] == handle;
	pthread_mutex_unlock(&lock);
	return knows;
}

void guest_learn_handle(uint64_t handle)
{
	uint32_t i = rbt_handle_index(handle);

	pthread_mutex_lock(&lock);
	if (i >= n_handles) {
		uint32_t n = i + 64;
		uint64_t *more = reallocarray(handles, n, sizeof(*handles));

		if (more != NULL) {
			memset(more + n_handles, 0, (n - n_handles) * sizeof(*more));
			handles = more;
			n_handles = n;
		}
	}
	if (i < n_handles && handles[i] != handle) {
		handles[i] = handle;
		n_contexts += rbt_handle_kind_of(handle) == RBT_HANDLE_CONTEXT;
	}
	pthread_mutex_unlock(&lock);
}

bool guest_has_contexts(void)
{
	return n_contexts > 1;
}

void guest_forget_handle(uint64_t handle)
{
	uint32_t i = rbt_handle_index(handle);

	pthread_mutex_lock(&lock);
	if (i < n_handles && handles[i] == handle) {
		handles[i] = 0;
	}
	pthread_mutex_unlock(&lock);
}

void guest_forget_all(void)
{
	pthread_mutex_lock(&lock);
	if (n_handles > 0) {
		memset(handles, 0, n_handles * sizeof(*handles));
	}
	n_ranges = 0;
	pthread_mutex_unlock(&lock);
	guest_cache_clear();
}

/* The first range that ends behind the address. With the lock. */
static size_t first_behind(uint64_t address)
{
	size_t low = 0, high = n_ranges;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (ranges[middle].address + ranges[middle].size <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

bool guest_knows_range(uint64_t address, uint64_t size)
{
	pthread_mutex_lock(&lock);
	size_t i = first_behind(address);
	bool knows = i < n_ranges && ranges[i].address <= address &&
		     size <= ranges[i].size - (address - ranges[i].address);
	pthread_mutex_unlock(&lock);
	return knows;
}

bool guest_knows_base(uint64_t address)
{
	pthread_mutex_lock(&lock);
	size_t i = first_behind(address);
	bool knows = i < n_ranges && ranges[i].address == address;
	pthread_mutex_unlock(&lock);
	return knows;
}

void guest_learn_range(uint64_t address, uint64_t size)
{
	pthread_mutex_lock(&lock);
	if (n_ranges == room_ranges) {
		size_t room = room_ranges * 2 + 64;
		struct range *more = reallocarray(ranges, room, sizeof(*ranges));

		if (more == NULL) {
			pthread_mutex_unlock(&lock);
			return;
		}
		ranges = more;
		room_ranges = room;
	}
	size_t i = first_behind(address);

	/* One that overlaps is from before a context was destroyed. */
	while (i < n_ranges && ranges[i].address < address + size) {
		memmove(&ranges[i], &ranges[i + 1], (n_ranges - i - 1) * sizeof(ranges[0]));
		n_ranges--;
	}
	memmove(&ranges[i + 1], &ranges[i], (n_ranges - i) * sizeof(ranges[0]));
	ranges[i] = (struct range){address, size};
	n_ranges++;
	pthread_mutex_unlock(&lock);
}

void guest_forget_range(uint64_t address)
{
	pthread_mutex_lock(&lock);
	size_t i = first_behind(address);

	if (i < n_ranges && ranges[i].address == address) {
		memmove(&ranges[i], &ranges[i + 1], (n_ranges - i - 1) * sizeof(ranges[0]));
		n_ranges--;
	}
	pthread_mutex_unlock(&lock);
}

struct text {
	struct text *next;
	char text[];
};

const char *guest_intern(const char *text)
{
	static struct text *buckets[INTERN_BUCKETS];
	uint32_t hash = 5381;
	size_t size = strlen(text) + 1;

	for (const char *p = text; *p != '\0'; p++) {
		hash = hash * 33 + (unsigned char)*p;
	}
	pthread_mutex_lock(&lock);
	struct text **at = &buckets[hash % INTERN_BUCKETS];

	while (*at != NULL && strcmp((*at)->text, text) != 0) {
		at = &(*at)->next;
	}
	if (*at == NULL) {
		*at = malloc(sizeof(**at) + size);
		if (*at != NULL) {
			(*at)->next = NULL;
			memcpy((*at)->text, text, size);
		}
	}
	const char *found = *at != NULL ? (*at)->text : NULL;

	pthread_mutex_unlock(&lock);
	return found;
}
