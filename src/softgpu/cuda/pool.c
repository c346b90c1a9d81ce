/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects whose handles the program holds. The pool keeps their memory for good, and reuses it for
 * objects of the same size, in the order in which they were released. So if a program uses a handle
 * after destroying the object, that is detected, as long as the memory has not become a new object.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/front.h"

#define N_SIZES 16

struct free_object {
	uint64_t kind; /* FRONT_NONE */
	struct free_object *next;
};

static struct pool_size {
	size_t size;
	struct free_object *first, **last;
} sizes[N_SIZES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* There are about a dozen types; the table is never full. */
static struct pool_size *find_size(size_t size)
{
	for (int i = 0; i < N_SIZES; i++) {
		if (sizes[i].size == 0) {
			sizes[i] = (struct pool_size){.size = size, .last = &sizes[i].first};
		}
		if (sizes[i].size == size) {
			return &sizes[i];
		}
	}
	abort();
}

void *front_pool_take(enum front_kind kind, size_t size)
{
	pthread_mutex_lock(&lock);
	struct pool_size *p = find_size(size);
	struct free_object *object = p->first;

	if (object != NULL) {
		p->first = object->next;
		if (p->first == NULL) {
			p->last = &p->first;
		}
	}
	pthread_mutex_unlock(&lock);
	if (object == NULL) {
		object = malloc(size);
	}
	if (object != NULL) {
		memset(object, 0, size);
		((struct front_head *)object)->kind = (uint32_t)kind;
	}
	return object;
}

void front_pool_give(void *object, size_t size)
{
	struct free_object *free_object = object;

	if (object == NULL) {
		return;
	}
	*free_object = (struct free_object){.kind = FRONT_NONE};
	pthread_mutex_lock(&lock);
	struct pool_size *p = find_size(size);

	*p->last = free_object;
	p->last = &free_object->next;
	pthread_mutex_unlock(&lock);
}
