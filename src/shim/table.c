/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "shim/shim.h"

static uint16_t index_of(struct shim *s, const struct shim_obj *obj)
{
	return obj == NULL ? 0 : (uint16_t)(obj - s->objs);
}

static uint16_t *bucket(struct shim *s, uint32_t client, uint32_t handle)
{
	uint32_t h = (client * 0x85ebca6bu) ^ (handle * 0x9e3779b1u);

	return &s->hash[(h ^ (h >> 15)) % SHIM_HASH_SIZE];
}

static bool is_listed(unsigned type)
{
	return type == SHIM_CLIENT || type == SHIM_TASK;
}

struct shim_obj *shim_find(struct shim *s, uint32_t client, uint32_t handle)
{
	for (uint16_t i = *bucket(s, client, handle); i != 0; i = s->objs[i].hash_next) {
		struct shim_obj *obj = &s->objs[i];
		if (obj->client == client && obj->handle == handle) {
			return obj;
		}
	}
	return NULL;
}

struct shim_obj *shim_find_type(
	struct shim *s, uint32_t client, uint32_t handle, enum shim_type type)
{
	struct shim_obj *obj = shim_find(s, client, handle);

	return obj != NULL && obj->type == type ? obj : NULL;
}

static uint16_t take(struct shim *s)
{
	uint16_t i = s->first_free;

	if (i != 0) {
		s->first_free = s->objs[i].sibling;
		return i;
	}
	return s->n_used < SHIM_MAX_OBJS ? ++s->n_used : 0;
}

struct shim_obj *shim_add(struct shim *s, enum shim_type type, uint32_t client, uint32_t handle,
	struct shim_obj *parent)
{
	struct shim_obj *old = shim_find(s, client, handle);

	for (uint16_t p = index_of(s, parent); p != 0; p = s->objs[p].parent) {
		if (&s->objs[p] == old) {
			return NULL;
		}
	}
	if (old != NULL) {
		shim_remove(s, old);
	}
	uint16_t i = take(s);
	if (i == 0) {
		return NULL;
	}
	struct shim_obj *obj = &s->objs[i];
	uint16_t *head = bucket(s, client, handle);
	memset(obj, 0, sizeof(*obj));
	obj->serial = ++s->serial;
	obj->client = client;
	obj->handle = handle;
	obj->type = (uint16_t)type;
	obj->hash_next = *head;
	*head = i;
	if (parent != NULL) {
		obj->parent = index_of(s, parent);
		obj->sibling = parent->child;
		parent->child = i;
	}
	if (is_listed(type)) {
		obj->type_next = s->first[type];
		s->first[type] = i;
	}
	return obj;
}

/* Removes index i from the list that starts at *link and continues through the member at
 * `offset`. */
static void unlink_index(struct shim *s, uint16_t *link, size_t offset, uint16_t i)
{
	while (*link != 0 && *link != i) {
		link = (uint16_t *)((char *)&s->objs[*link] + offset);
	}
	if (*link == i) {
		*link = *(uint16_t *)((char *)&s->objs[i] + offset);
	}
}

void shim_remove_children(struct shim *s, struct shim_obj *obj)
{
	while (obj->child != 0) {
		shim_remove(s, &s->objs[obj->child]);
	}
}

/* Recursive; the tree is four deep. */
void shim_remove(struct shim *s, struct shim_obj *obj)
{
	uint16_t i = index_of(s, obj);

	shim_remove_children(s, obj);
	if (obj->type == SHIM_TASK) {
		shim_gate_end(s, obj);
	}
	unlink_index(
		s, bucket(s, obj->client, obj->handle), offsetof(struct shim_obj, hash_next), i);
	if (obj->parent != 0) {
		unlink_index(s, &s->objs[obj->parent].child, offsetof(struct shim_obj, sibling), i);
	}
	if (is_listed(obj->type)) {
		unlink_index(s, &s->first[obj->type], offsetof(struct shim_obj, type_next), i);
	}
	memset(obj, 0, sizeof(*obj));
	obj->sibling = s->first_free;
	s->first_free = i;
}
