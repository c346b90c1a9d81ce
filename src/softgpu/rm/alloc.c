/* SPDX-License-Identifier: Apache-2.0 */
/* RM_ALLOC in both its forms, and RM_FREE. */
#include <errno.h>
#include <string.h>

#include "softgpu/rm/model.h"

#define COPY_RUNLIST                                                                               \
	8u /* of copy engine 0; kernels run on runlist 0 (GR1…GR7, under MIG only, on 1…7) */

/* The fields that both forms have. */
struct request {
	uint32_t root, parent, object, hclass;
	uint64_t params;
	uint32_t params_size;
};

static enum rm_kind kind_of(uint32_t hclass)
{
	switch (hclass) {
	case NV_CLASS_ROOT:
	case NV_CLASS_ROOT_NON_PRIV:
	case NV_CLASS_ROOT_CLIENT:
		return RM_KIND_CLIENT;
	case NV_CLASS_DEVICE:
		return RM_KIND_DEVICE;
	case NV_CLASS_SUBDEVICE:
		return RM_KIND_SUBDEVICE;
	case NV_CLASS_SUBCONTEXT:
		return RM_KIND_SUBCONTEXT;
	case NV_CLASS_TSG:
		return RM_KIND_TSG;
	case NV_CLASS_MEMORY_LOCAL:
		return RM_KIND_MEMORY;
	default:
		break;
	}
	if (nv_class_is_channel(hclass)) {
		return RM_KIND_CHANNEL;
	}
	return nv_class_is_compute(hclass) || nv_class_is_copy(hclass) ? RM_KIND_ENGINE
								       : RM_KIND_OTHER;
}

static bool parent_fits(enum rm_kind kind, enum rm_kind parent)
{
	switch (kind) {
	case RM_KIND_DEVICE:
		return parent == RM_KIND_CLIENT;
	case RM_KIND_SUBDEVICE:
	case RM_KIND_TSG:
	case RM_KIND_MEMORY:
		return parent == RM_KIND_DEVICE;
	/* Assumed: RM also takes a channel below a device (one with a group of its own). libcuda
	 * makes none. */
	case RM_KIND_CHANNEL:
	case RM_KIND_SUBCONTEXT:
		return parent == RM_KIND_TSG;
	case RM_KIND_ENGINE:
		return parent == RM_KIND_CHANNEL;
	default:
		return true;
	}
}

/* 0: any size is accepted, because the contents are not read. */
static uint32_t params_size_of(enum rm_kind kind)
{
	switch (kind) {
	case RM_KIND_CLIENT:
		return sizeof(uint32_t);
	case RM_KIND_DEVICE:
		return sizeof(struct nv_device_params);
	case RM_KIND_SUBDEVICE:
		return sizeof(struct nv_subdevice_params);
	case RM_KIND_TSG:
		return sizeof(struct nv_tsg_params);
	case RM_KIND_MEMORY:
		return sizeof(struct nv_memory_params);
	default:
		return 0;
	}
}

/*
 * Copies the parameters in; missing ones are zero. A size of 0 with a pointer means the class's own
 * size. Other sizes are refused (assumed for allocations; recorded for controls). Returns 0 or
 * -ERESTART.
 */
static int read_params(
	struct rm_call *c, const struct request *q, enum rm_kind kind, uint32_t *ret_status)
{
	uint32_t want = params_size_of(kind), size = q->params_size != 0 ? q->params_size : want;

	*ret_status = NV_OK;
	memset(c->params.bytes, 0, sizeof(struct nv_memory_params));
	if (want == 0 || q->params == 0 || kind == RM_KIND_CLIENT) {
		return 0;
	}
	if (size != want && (kind != RM_KIND_MEMORY || size != NV_MEMORY_PARAMS_SIZE_BEFORE_535)) {
		*ret_status = NV_ERR_INVALID_PARAM_STRUCT;
		return 0;
	}
	int r = c->env->read(c->env->data, q->params, c->params.bytes, size);
	if (r == -EFAULT) {
		*ret_status = NV_ERR_INVALID_ADDRESS;
		return 0;
	}
	return r;
}

enum rbt_rm_engine rm_engine_of(uint32_t type)
{
	if (type <= NV_ENGINE_TYPE_GR_LAST) {
		return RBT_RM_ENGINE_COMPUTE;
	}
	return (type >= NV_ENGINE_TYPE_COPY0 && type <= NV_ENGINE_TYPE_COPY9) ||
			       (type >= NV_ENGINE_TYPE_COPY10 && type <= NV_ENGINE_TYPE_COPY19)
		       ? RBT_RM_ENGINE_COPY
		       : RBT_RM_ENGINE_OTHER;
}

/* Type 0, from programs that name no engine, counts as graphics (assumed). */
static bool runlist_of(uint32_t type, uint32_t *ret)
{
	if (type <= NV_ENGINE_TYPE_GR_LAST) {
		*ret = type > 0 ? type - NV_ENGINE_TYPE_GRAPHICS : 0;
	} else if (type >= NV_ENGINE_TYPE_COPY0 && type <= NV_ENGINE_TYPE_COPY9) {
		*ret = COPY_RUNLIST + type - NV_ENGINE_TYPE_COPY0;
	} else if (type >= NV_ENGINE_TYPE_COPY10 && type <= NV_ENGINE_TYPE_COPY19) {
		*ret = COPY_RUNLIST + 10 + type - NV_ENGINE_TYPE_COPY10;
	} else {
		return false;
	}
	return true;
}

/* Checks the parameters and takes the device resources of the object; on failure it has taken
 * none. */
static uint32_t take_resources(struct rm_call *c, struct rm_object *obj, enum rm_kind kind)
{
	struct rbt_rm *rm = c->rm;
	struct rm_gpu *gpu = &rm->gpus[obj->gpu];
	bool taken = true;

	switch (kind) {
	case RM_KIND_DEVICE:
		if (c->params.device.device_id >= rm->config.n_gpus) {
			return NV_ERR_INVALID_DEVICE;
		}
		obj->gpu = c->params.device.device_id;
		break;
	case RM_KIND_SUBDEVICE:
		return c->params.subdevice.subdevice_id == 0 ? NV_OK : NV_ERR_INVALID_ARGUMENT;
	case RM_KIND_TSG:
		obj->tsg.engine_type = c->params.tsg.engine_type;
		obj->tsg.timeslice_us = NV_DEFAULT_TIMESLICE_US;
		obj->tsg.interleave = NV_DEFAULT_INTERLEAVE;
		if (!runlist_of(obj->tsg.engine_type, &obj->tsg.runlist)) {
			return NV_ERR_INVALID_ARGUMENT;
		}
		taken = rm_take_id(gpu->runlists[obj->tsg.runlist].tsg_ids, &obj->tsg.id);
		break;
	case RM_KIND_CHANNEL:
		taken = rm_take_id(
			gpu->runlists[obj->parent->tsg.runlist].channel_ids, &obj->channel.id);
		break;
	case RM_KIND_MEMORY:
		if (c->params.memory.size > rm_free_bytes(rm, obj->gpu)) {
			return NV_ERR_NO_MEMORY;
		}
		obj->memory_bytes = c->params.memory.size;
		gpu->memory_used_bytes += obj->client->is_off ? 0 : obj->memory_bytes;
		break;
	default:
		break;
	}
	return taken ? NV_OK : NV_ERR_INSUFFICIENT_RESOURCES;
}

static uint32_t alloc_object(struct rm_call *c, struct request *q, enum rm_kind kind)
{
	struct rm_object *obj;
	struct rm_client *client = rm_find_client(c, q->root);

	if (client == NULL) {
		return NV_ERR_INVALID_CLIENT;
	}
	/* Assumed; it is recorded for the object of a control. */
	struct rm_object *parent = rm_find(c->rm, q->root, q->parent);
	if (parent == NULL) {
		return NV_ERR_OBJECT_NOT_FOUND;
	}
	if (!parent_fits(kind, parent->kind)) {
		return NV_ERR_INVALID_OBJECT_PARENT;
	}
	/* Of kind OTHER until it has its resources, because that kind has none to release. */
	uint32_t status =
		rm_object_create(client, parent, q->object, q->hclass, RM_KIND_OTHER, &obj);
	if (status != NV_OK) {
		return status;
	}
	status = take_resources(c, obj, kind);
	if (status != NV_OK) {
		rm_object_destroy(obj);
		return status;
	}
	obj->kind = kind;
	q->object = obj->handle;
	return NV_OK;
}

static uint32_t alloc_client(struct rm_call *c, struct request *q)
{
	struct rm_object *obj;
	uint32_t status = rm_client_create(c, q->object, q->hclass, &obj);

	if (status != NV_OK) {
		return status;
	}
	q->object = obj->handle;
	if (q->params != 0) {
		/* The parameter of a client receives its handle as well. */
		(void)c->env->write(c->env->data, q->params, &obj->handle, sizeof(obj->handle));
	}
	return NV_OK;
}

int rm_alloc(struct rm_call *c)
{
	/* The first 24 bytes are the same in both forms. */
	const struct nv_alloc21 *a = &c->arg.alloc21;
	bool is64 = c->size == sizeof(struct nv_alloc64);
	struct request q = {
		.root = a->root,
		.parent = a->parent,
		.object = a->object,
		.hclass = a->hclass,
		.params = a->params,
		.params_size = is64 ? c->arg.alloc64.params_size : a->params_size,
	};
	enum rm_kind kind = kind_of(q.hclass);
	uint32_t status;

	int r = read_params(c, &q, kind, &status);
	if (r < 0) {
		return r;
	}
	if (q.hclass > 0xffff) {
		status = NV_ERR_INVALID_CLASS;
	} else if (status == NV_OK) {
		status = kind == RM_KIND_CLIENT ? alloc_client(c, &q) : alloc_object(c, &q, kind);
	}
	c->arg.alloc21.object = q.object;
	*(is64 ? &c->arg.alloc64.status : &c->arg.alloc21.status) = status;
	return 0;
}

int rm_free(struct rm_call *c)
{
	struct nv_free *a = &c->arg.free;
	struct rm_object *obj = rm_find_object(c, a->client, a->object, &a->status);

	if (obj == NULL) {
		return 0;
	}
	rm_object_destroy(obj);
	a->status = NV_OK;
	return 0;
}
