/* SPDX-License-Identifier: Apache-2.0 */
/* The fake cards, and the calls about them and about the driver. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/rm/model.h"

/* The memory use of a program with a context but without allocations: a context takes memory. */
#define BASE_MEMORY_BYTES (256ull << 20)

#define CHECK_VERSION_STRICT 0
#define VERSION_RECOGNISED   1

static uint32_t gpu_bus(uint32_t gpu)
{
	return 0x1b + 4 * gpu;
}

uint32_t rm_gpu_id(uint32_t gpu)
{
	return gpu_bus(gpu) << 8;
}

void rbt_rm_gpu_pci(uint32_t gpu, char *buf, size_t size)
{
	snprintf(buf, size, "0000:%02x:00.0", gpu_bus(gpu) & 0xff);
}

int rm_card_info(struct rm_call *c)
{
	size_t n = c->size / sizeof(c->arg.cards[0]);

	memset(c->arg.cards, 0, c->size);
	for (uint32_t i = 0; i < c->rm->config.n_gpus && i < n; i++) {
		struct nv_card_info *card = &c->arg.cards[i];
		*card = (struct nv_card_info){
			.valid = 1,
			.pci_bus = (uint8_t)gpu_bus(i),
			.vendor_id = 0x10de,
			.device_id = 0x2335,
			.gpu_id = rm_gpu_id(i),
			.interrupt_line = 11,
			.reg_address = 0xf0000000ull + ((uint64_t)i << 24),
			.reg_size = 16ull << 20,
			.fb_address = (uint64_t)(i + 1) << 40,
			.fb_size = c->rm->config.memory_bytes,
			.minor_number = i,
		};
		snprintf((char *)card->dev_name, sizeof(card->dev_name), "nvidia%u", i % 100);
	}
	return 0;
}

/* A call on a GPU's node that ties it to the caller's control node. */
int rm_register_fd(struct rm_call *c)
{
	return c->env->is_control_fd(c->env->data, c->arg.register_fd.ctl_fd) ? 0 : -EINVAL;
}

int rm_check_version(struct rm_call *c)
{
	struct nv_check_version *v = &c->arg.check_version;
	bool same = strncmp(v->version, c->rm->config.driver_version, sizeof(v->version)) == 0;

	if (v->cmd == CHECK_VERSION_STRICT && !same) {
		return -EINVAL;
	}
	v->reply = VERSION_RECOGNISED;
	memset(v->version, 0, sizeof(v->version));
	snprintf(v->version, sizeof(v->version), "%s", c->rm->config.driver_version);
	return 0;
}

int rm_sys_params(struct rm_call *c)
{
	c->arg.sys_params.memblock_size = 128ull << 20;
	return 0;
}

uint32_t rm_get_attached_ids(struct rm_call *c, struct rm_object *obj)
{
	for (uint32_t i = 0; i < NV_MAX_GPUS; i++) {
		c->params.attached_ids.gpu_id[i] =
			i < c->rm->config.n_gpus ? rm_gpu_id(i) : NV_GPU_ID_INVALID;
	}
	return NV_OK;
}

uint32_t rm_get_gpu_id(struct rm_call *c, struct rm_object *obj)
{
	c->params.gpu_id.gpu_id = rm_gpu_id(obj->gpu);
	return NV_OK;
}

/* Only the form as text is modelled (flags 0). */
uint32_t rm_get_gid(struct rm_call *c, struct rm_object *obj)
{
	struct nv_gid_params *p = &c->params.gid;
	uint8_t id[16] = RBT_RM_UUID;
	int n = snprintf(p->data, sizeof(p->data), "GPU-");

	if (p->index != 0 || p->flags != 0) {
		return NV_ERR_INVALID_ARGUMENT;
	}
	id[15] = (uint8_t)obj->gpu;
	for (size_t i = 0; i < sizeof(id); i++) {
		n += snprintf(p->data + n, sizeof(p->data) - (size_t)n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
	}
	p->length = (uint32_t)n + 1;
	return NV_OK;
}

uint32_t rm_get_name(struct rm_call *c, struct rm_object *obj)
{
	static const char name[] = RBT_RM_GPU_NAME;
	struct nv_name_params *p = &c->params.name;

	memset(&p->name, 0, sizeof(p->name));
	if (p->flags == 0) {
		memcpy(p->name.ascii, name, sizeof(name));
	} else {
		for (size_t i = 0; name[i] != '\0'; i++) {
			p->name.unicode[i] = (uint8_t)name[i];
		}
	}
	return NV_OK;
}

/* Whether the process has objects on the GPU, and how much memory. */
static bool memory_of(struct rbt_rm *rm, int pid, uint32_t gpu, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	bool has_tsg = false, has_device = false;

	for (struct rm_client *client = rm->clients; client != NULL; client = client->next) {
		if (client->pid != pid || client->is_off) {
			continue;
		}
		for (struct rm_object *o = client->root; o != NULL; o = rm_next_object(o)) {
			if (o->gpu != gpu || o->kind == RM_KIND_CLIENT) {
				continue;
			}
			has_device = true;
			has_tsg = has_tsg || o->kind == RM_KIND_TSG;
			bytes += o->kind == RM_KIND_MEMORY ? o->memory_bytes : 0;
		}
	}
	*ret_bytes = bytes == 0 && has_tsg ? BASE_MEMORY_BYTES : bytes;
	return has_device;
}

uint32_t rm_get_pid_info(struct rm_call *c, struct rm_object *obj)
{
	struct nv_pid_info_params *p = &c->params.pid_info;

	if (p->count > NV_PID_INFO_MAX) {
		return NV_ERR_INVALID_ARGUMENT;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		struct nv_pid_info *info = &p->list[i];
		/* The status of a process that is not on this GPU is assumed. */
		info->result = info->index != NV_PID_INFO_VIDEO_MEMORY ? NV_ERR_INVALID_ARGUMENT
			       : memory_of(c->rm, (int)info->pid, obj->gpu, &info->mem_private)
				       ? NV_OK
				       : NV_ERR_OBJECT_NOT_FOUND;
	}
	return NV_OK;
}

/* A restored program may have more than there is, because its memory is counted in large steps. */
uint64_t rm_free_bytes(const struct rbt_rm *rm, uint32_t gpu)
{
	uint64_t total = rm->config.memory_bytes, used = rm->gpus[gpu].memory_used_bytes;

	return used < total ? total - used : 0;
}

/* Other indices are not answered: their values are not recorded. */
uint32_t rm_get_fb_info(struct rm_call *c, struct rm_object *obj)
{
	struct nv_fb_info_params *p = &c->params.fb_info;
	uint64_t total = c->rm->config.memory_bytes;

	if (p->count > NV_FB_INFO_MAX) {
		return NV_ERR_INVALID_ARGUMENT;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		uint64_t bytes = p->list[i].index == NV_FB_INFO_TOTAL ? total
				 : p->list[i].index == NV_FB_INFO_FREE
					 ? rm_free_bytes(c->rm, obj->gpu)
					 : 0;
		p->list[i].data = (uint32_t)(bytes >> 10);
	}
	return NV_OK;
}

static uint64_t bytes_on(struct rm_client *client, uint32_t gpu)
{
	uint64_t bytes = 0;

	for (struct rm_object *o = client->root; o != NULL; o = rm_next_object(o)) {
		bytes += o->kind == RM_KIND_MEMORY && o->gpu == gpu ? o->memory_bytes : 0;
	}
	return bytes;
}

/* A checkpoint frees the objects of a process, and a restore makes them again. */
static void set_off(struct rm_client *client, bool is_off)
{
	struct rbt_rm *rm = client->open->rm;

	for (uint32_t gpu = 0; client->is_off != is_off && gpu < rm->config.n_gpus; gpu++) {
		uint64_t bytes = bytes_on(client, gpu);
		rm->gpus[gpu].memory_used_bytes += is_off ? -bytes : bytes;
	}
	client->is_off = is_off;
	for (struct rm_object *o = client->root; o != NULL && !is_off; o = rm_next_object(o)) {
		if (o->kind == RM_KIND_TSG) {
			/* Recorded: libcuda does not set its slice again. */
			o->tsg.timeslice_us = NV_DEFAULT_TIMESLICE_US;
		}
	}
}

void rbt_rm_set_off(struct rbt_rm *rm, int pid, bool is_off)
{
	for (struct rm_client *client = rm->clients; client != NULL; client = client->next) {
		if (client->pid == pid) {
			set_off(client, is_off);
		}
	}
}
