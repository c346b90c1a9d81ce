/* SPDX-License-Identifier: Apache-2.0 */
/* The table of pinned, managed and registered memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "remote/guest/guest.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct guest_shared *table; /* sorted by address */
static size_t n, room;

/* The first entry that ends behind the address. */
static size_t first_behind(uint64_t address)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (table[middle].address + table[middle].size <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

bool guest_shared_find(const void *p, struct guest_shared *ret)
{
	uint64_t address = (uintptr_t)p;

	pthread_rwlock_rdlock(&lock);
	size_t i = first_behind(address);
	bool found = i < n && table[i].address <= address;

	if (found) {
		*ret = table[i];
	}
	pthread_rwlock_unlock(&lock);
	return found;
}

bool guest_is_shared(const void *p, size_t size)
{
	struct guest_shared s;

	return guest_shared_find(p, &s) && s.kind != GUEST_STAGED &&
	       size <= s.size - ((uintptr_t)p - s.address);
}

int guest_shared_add(const struct guest_shared *s)
{
	int r = 0;

	pthread_rwlock_wrlock(&lock);
	if (n == room) {
		struct guest_shared *more = reallocarray(table, room * 2 + 64, sizeof(*table));

		if (more == NULL) {
			pthread_rwlock_unlock(&lock);
			return -ENOMEM;
		}
		table = more;
		room = room * 2 + 64;
	}
	size_t i = first_behind(s->address);

	if (r == 0 && i < n && table[i].address < s->address + s->size) {
		r = -EEXIST;
	}
	if (r == 0) {
		memmove(&table[i + 1], &table[i], (n - i) * sizeof(*table));
		table[i] = *s;
		n++;
	}
	pthread_rwlock_unlock(&lock);
	return r;
}

void guest_shared_remove(uint64_t address)
{
	pthread_rwlock_wrlock(&lock);
	size_t i = first_behind(address);

	if (i < n && table[i].address == address) {
		memmove(&table[i], &table[i + 1], (n - i - 1) * sizeof(*table));
		n--;
	}
	pthread_rwlock_unlock(&lock);
}
