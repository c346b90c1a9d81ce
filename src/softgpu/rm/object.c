/* SPDX-License-Identifier: Apache-2.0 */
/* Clients and their trees of objects. */
#include <errno.h>
#include <stdlib.h>

#include "softgpu/rm/model.h"

#define CLIENT_NUMBERS 0x100000u

struct rbt_rm *rbt_rm_create(const struct rbt_rm_config *config)
{
	struct rbt_rm *rm = calloc(1, sizeof(*rm));

	if (rm == NULL) {
		return NULL;
	}
	rm->config = *config;
	rm->config.driver_version[sizeof(rm->config.driver_version) - 1] = '\0';
	if (rm->config.n_gpus < 1) {
		rm->config.n_gpus = 1;
	}
	if (rm->config.n_gpus > NV_MAX_GPUS) {
		rm->config.n_gpus = NV_MAX_GPUS;
	}
	rm->config.first_client %= CLIENT_NUMBERS;
	rm->next_client = rm->config.first_client;
	return rm;
}

void rbt_rm_destroy(struct rbt_rm *rm)
{
	if (rm == NULL) {
		return;
	}
	struct rbt_rm_open *next;

	for (struct rbt_rm_open *open = rm->opens; open != NULL; open = next) {
		next = open->next;
		rbt_rm_close(open);
	}
	free(rm);
}

const struct rbt_rm_config *rbt_rm_config(const struct rbt_rm *rm)
{
	return &rm->config;
}

struct rbt_rm_open *rbt_rm_open(
	struct rbt_rm *rm, enum rbt_rm_node node, uint32_t gpu, uint64_t id, int pid, uint32_t uid)
{
	struct rbt_rm_open *open = calloc(1, sizeof(*open));

	if (open == NULL) {
		return NULL;
	}
	*open = (struct rbt_rm_open){.rm = rm,
		.next = rm->opens,
		.node = node,
		.gpu = gpu,
		.id = id,
		.pid = pid,
		.uid = uid};
	rm->opens = open;
	return open;
}

void rbt_rm_close(struct rbt_rm_open *open)
{
	if (open == NULL) {
		return;
	}
	struct rbt_rm *rm = open->rm;
	struct rm_client *next;

	for (struct rm_client *client = rm->clients; client != NULL; client = next) {
		next = client->next;
		if (client->open == open) {
			rm_object_destroy(client->root);
		}
	}
	struct rbt_rm_open **p = &rm->opens;
	while (*p != open) {
		p = &(*p)->next;
	}
	*p = open->next;
	free(open);
}

static struct rm_object **bucket(struct rbt_rm *rm, uint32_t client, uint32_t handle)
{
	uint32_t h = (handle * 2654435761u) ^ (client * 2246822519u);

	return &rm->buckets[(h >> 16) % RM_N_BUCKETS];
}

struct rm_object *rm_find(struct rbt_rm *rm, uint32_t client, uint32_t handle)
{
	struct rm_object *obj = *bucket(rm, client, handle);

	while (obj != NULL && (obj->handle != handle || obj->client->root->handle != client)) {
		obj = obj->next_in_bucket;
	}
	return obj;
}

struct rm_client *rm_find_client(struct rm_call *c, uint32_t handle)
{
	struct rm_object *obj = rm_find(c->rm, handle, handle);

	/* Recorded: a client belongs to the open file on which it was made, not to a process. */
	if (obj == NULL || obj->client->open != c->open) {
		c->rm->counters.log_lines++;
		return NULL;
	}
	return obj->client;
}

struct rm_object *rm_find_object(
	struct rm_call *c, uint32_t client, uint32_t handle, uint32_t *ret_status)
{
	if (rm_find_client(c, client) == NULL) {
		*ret_status = NV_ERR_INVALID_CLIENT;
		return NULL;
	}
	struct rm_object *obj = rm_find(c->rm, client, handle);
	if (obj == NULL) {
		*ret_status = NV_ERR_OBJECT_NOT_FOUND;
	}
	return obj;
}

static uint32_t choose_handle(struct rm_client *client)
{
	struct rbt_rm *rm = client->open->rm;
	uint32_t handle;

	do {
		handle = NV_OBJECT_HANDLE_BASE + (client->next_object++ & ~NV_OBJECT_HANDLE_MASK);
	} while (rm_find(rm, client->root->handle, handle) != NULL);
	return handle;
}

uint32_t rm_object_create(struct rm_client *client, struct rm_object *parent, uint32_t handle,
	uint32_t hclass, enum rm_kind kind, struct rm_object **ret)
{
	struct rbt_rm *rm = client->open->rm;

	if (handle != 0 && parent != NULL && rm_find(rm, client->root->handle, handle) != NULL) {
		return NV_ERR_INSERT_DUPLICATE_NAME;
	}
	if (rm->n_objects >= RM_MAX_OBJECTS) {
		return NV_ERR_INSUFFICIENT_RESOURCES;
	}
	struct rm_object *obj = calloc(1, sizeof(*obj));
	if (obj == NULL) {
		return NV_ERR_NO_MEMORY;
	}
	obj->client = client;
	obj->parent = parent;
	obj->kind = kind;
	obj->hclass = hclass;
	if (parent != NULL) {
		obj->handle = handle != 0 ? handle : choose_handle(client);
		obj->gpu = parent->gpu;
		obj->next_sibling = parent->first_child;
		parent->first_child = obj;
	} else {
		obj->handle = handle;
		client->root = obj;
	}
	struct rm_object **b = bucket(rm, client->root->handle, obj->handle);
	obj->next_in_bucket = *b;
	*b = obj;
	rm->n_objects++;
	client->n_objects++;
	*ret = obj;
	return NV_OK;
}

uint32_t rm_client_create(
	struct rm_call *c, uint32_t handle, uint32_t hclass, struct rm_object **ret)
{
	struct rbt_rm *rm = c->rm;

	if (handle == 0) {
		/* n_objects is kept below the number of possible clients, so a free one is
		 * found. */
		do {
			handle = NV_CLIENT_HANDLE_BASE + rm->next_client;
			rm->next_client = (rm->next_client + 1) % CLIENT_NUMBERS;
		} while (rm_find(rm, handle, handle) != NULL && rm->n_objects < RM_MAX_OBJECTS);
	}
	if (rm_find(rm, handle, handle) != NULL) {
		return NV_ERR_INSERT_DUPLICATE_NAME;
	}
	struct rm_client *client = calloc(1, sizeof(*client));
	if (client == NULL) {
		return NV_ERR_NO_MEMORY;
	}
	client->open = c->open;
	client->pid = c->env->pid(c->env->data);
	client->next_object = 1;
	uint32_t status = rm_object_create(client, NULL, handle, hclass, RM_KIND_CLIENT, ret);
	if (status != NV_OK) {
		free(client);
		return status;
	}
	client->next = rm->clients;
	rm->clients = client;
	return NV_OK;
}

bool rm_take_id(uint64_t *bits, uint32_t *ret_id)
{
	for (uint32_t i = 0; i < RM_IDS_PER_RUNLIST / 64; i++) {
		if (~bits[i] != 0) {
			uint32_t bit = (uint32_t)__builtin_ctzll(~bits[i]);
			bits[i] |= 1ull << bit;
			*ret_id = i * 64 + bit;
			return true;
		}
	}
	return false;
}

static void put_id(uint64_t *bits, uint32_t id)
{
	bits[id / 64] &= ~(1ull << (id % 64));
}

static void give_back(struct rm_object *obj)
{
	struct rm_gpu *gpu = &obj->client->open->rm->gpus[obj->gpu];

	switch (obj->kind) {
	case RM_KIND_TSG:
		put_id(gpu->runlists[obj->tsg.runlist].tsg_ids, obj->tsg.id);
		break;
	case RM_KIND_CHANNEL:
		put_id(gpu->runlists[obj->parent->tsg.runlist].channel_ids, obj->channel.id);
		break;
	case RM_KIND_MEMORY:
		gpu->memory_used_bytes -= obj->client->is_off ? 0 : obj->memory_bytes;
		break;
	default:
		break;
	}
}

static void unlink_client(struct rbt_rm *rm, struct rm_client *client)
{
	struct rm_client **p = &rm->clients;

	while (*p != client) {
		p = &(*p)->next;
	}
	*p = client->next;
}

static void destroy_leaf(struct rm_object *obj)
{
	struct rm_client *client = obj->client;
	struct rbt_rm *rm = client->open->rm;
	struct rm_object **p = bucket(rm, client->root->handle, obj->handle);

	give_back(obj);
	while (*p != obj) {
		p = &(*p)->next_in_bucket;
	}
	*p = obj->next_in_bucket;
	rm->n_objects--;
	client->n_objects--;
	if (obj->parent != NULL) {
		struct rm_object **s = &obj->parent->first_child;
		while (*s != obj) {
			s = &(*s)->next_sibling;
		}
		*s = obj->next_sibling;
	} else {
		unlink_client(rm, client);
		free(client);
	}
	free(obj);
}

struct rm_object *rm_next_object(struct rm_object *obj)
{
	if (obj->first_child != NULL) {
		return obj->first_child;
	}
	while (obj != NULL && obj->next_sibling == NULL) {
		obj = obj->parent;
	}
	return obj != NULL ? obj->next_sibling : NULL;
}

/* Without recursion: a program may nest objects to any depth. */
void rm_object_destroy(struct rm_object *top)
{
	struct rm_object *obj = top;

	for (;;) {
		while (obj->first_child != NULL) {
			obj = obj->first_child;
		}
		struct rm_object *parent = obj->parent;
		bool done = obj == top;
		destroy_leaf(obj);
		if (done) {
			return;
		}
		obj = parent;
	}
}
