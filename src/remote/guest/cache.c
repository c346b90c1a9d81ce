/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to calls that depend on nothing but their arguments. */
#include <stdlib.h>
#include <string.h>

#include "remote/guest/guest.h"

#define BUCKETS     1024u
#define MAX_ENTRIES 8192u

struct entry {
	struct entry *next;
	uint32_t key_size, answer_size;
	uint16_t number;
	uint8_t bytes[]; /* arguments, then the answer */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *buckets[BUCKETS];
static unsigned n_entries;
static _Atomic uint64_t epoch;

static uint32_t key_size(const struct rbt_wire_call *call)
{
	return call->size - (uint32_t)sizeof(*call);
}

static struct entry **find(const struct rbt_wire_call *call)
{
	const uint8_t *bytes = (const uint8_t *)(call + 1);
	uint32_t size = key_size(call), hash = call->number;

	for (uint32_t i = 0; i < size; i++) {
		hash = hash * 33 + bytes[i];
	}
	struct entry **at = &buckets[hash % BUCKETS];

	while (*at != NULL && ((*at)->number != call->number || (*at)->key_size != size ||
				      memcmp((*at)->bytes, bytes, size) != 0)) {
		at = &(*at)->next;
	}
	return at;
}

bool guest_cache_find(const struct rbt_wire_call *call, struct rbt_wire_answer *answer)
{
	pthread_mutex_lock(&lock);
	const struct entry *e = *find(call);

	if (e != NULL) {
		memcpy(answer, e->bytes + e->key_size, e->answer_size);
	}
	pthread_mutex_unlock(&lock);
	return e != NULL;
}

static void clear(void)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		while (buckets[i] != NULL) {
			struct entry *e = buckets[i];

			buckets[i] = e->next;
			free(e);
		}
	}
	n_entries = 0;
}

void guest_cache_add(const struct rbt_wire_call *call, const struct rbt_wire_answer *answer)
{
	struct entry *e = malloc(sizeof(*e) + key_size(call) + answer->size);

	if (e == NULL) {
		return;
	}
	*e = (struct entry){
		.key_size = key_size(call), .answer_size = answer->size, .number = call->number};
	memcpy(e->bytes, call + 1, e->key_size);
	memcpy(e->bytes + e->key_size, answer, e->answer_size);
	pthread_mutex_lock(&lock);
	if (n_entries == MAX_ENTRIES) {
		clear();
	}
	struct entry **at = find(call);

	if (*at == NULL) {
		*at = e;
		n_entries++;
	} else {
		free(e);
	}
	pthread_mutex_unlock(&lock);
}

void guest_cache_clear(void)
{
	pthread_mutex_lock(&lock);
	clear();
	epoch++;
	pthread_mutex_unlock(&lock);
}

uint64_t guest_cache_epoch(void)
{
	return epoch;
}
