/* SPDX-License-Identifier: Apache-2.0 */
/* RM_CONTROL: the table of controls that the model answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/rm/model.h"

static uint32_t get_handle_info(struct rm_call *c, struct rm_object *obj)
{
	struct nv_handle_info_params *p = &c->params.handle_info;
	struct rm_object *target = rm_find(c->rm, obj->handle, p->object);

	if (target == NULL) {
		return NV_ERR_OBJECT_NOT_FOUND;
	}
	switch (p->index) {
	case NV_HANDLE_INFO_PARENT:
		p->result = target->parent != NULL ? target->parent->handle : 0;
		return NV_OK;
	case NV_HANDLE_INFO_CLASS:
		p->result = target->hclass;
		return NV_OK;
	default:
		return NV_ERR_INVALID_ARGUMENT;
	}
}

static uint32_t accept(struct rm_call *c, struct rm_object *obj)
{
	return NV_OK;
}

/* Recorded: the control has a number, but no driver exports it. */
static uint32_t refuse(struct rm_call *c, struct rm_object *obj)
{
	return NV_ERR_NOT_SUPPORTED;
}

#define PARAMS(member) ((uint32_t)sizeof(((struct rm_call *)NULL)->params.member))

/* One byte less for drivers before 575. */
#define SCHEDULE_SIZE NV_SCHEDULE_PARAMS_SIZE

const struct rm_control_def rm_controls[RM_N_CONTROLS] = {
	{NV_CTRL_CLIENT_GET_HANDLE_INFO, PARAMS(handle_info), RM_KIND_CLIENT, false, true,
		get_handle_info, "client_get_handle_info"},
	{NV_CTRL_GPU_GET_ATTACHED_IDS, PARAMS(attached_ids), RM_KIND_CLIENT, false, true,
		rm_get_attached_ids, "gpu_get_attached_ids"},
	{NV_CTRL_TSG_GPFIFO_SCHEDULE, SCHEDULE_SIZE, RM_KIND_TSG, false, false, rm_tsg_schedule,
		"tsg_gpfifo_schedule"},
	{NV_CTRL_TSG_SET_TIMESLICE, PARAMS(timeslice), RM_KIND_TSG, false, false,
		rm_tsg_set_timeslice, "tsg_set_timeslice"},
	{NV_CTRL_TSG_GET_TIMESLICE, PARAMS(timeslice), RM_KIND_TSG, false, true,
		rm_tsg_get_timeslice, "tsg_get_timeslice"},
	{NV_CTRL_TSG_PREEMPT, PARAMS(preempt), RM_KIND_TSG, false, false, rm_tsg_preempt,
		"tsg_preempt"},
	{NV_CTRL_TSG_GET_INFO, PARAMS(tsg_info), RM_KIND_TSG, false, true, rm_tsg_get_info,
		"tsg_get_info"},
	{NV_CTRL_TSG_SET_INTERLEAVE_LEVEL, PARAMS(interleave), RM_KIND_TSG, true, false,
		rm_tsg_set_interleave, "tsg_set_interleave_level"},
	{NV_CTRL_TSG_GET_INTERLEAVE_LEVEL, PARAMS(interleave), RM_KIND_TSG, false, false, refuse,
		"tsg_get_interleave_level"},
	{NV_CTRL_TSG_MAKE_REALTIME, PARAMS(realtime), RM_KIND_TSG, true, false,
		rm_tsg_make_realtime, "tsg_make_realtime"},
	{NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, PARAMS(token), RM_KIND_CHANNEL, false, true,
		rm_channel_get_token, "channel_get_work_submit_token"},
	{NV_CTRL_CHANNEL_RESTART_RUNLIST, sizeof(struct nv_restart_runlist_params), RM_KIND_CHANNEL,
		true, false, accept, "channel_restart_runlist"},
	{NV_CTRL_GPU_GET_NAME_STRING, PARAMS(name), RM_KIND_SUBDEVICE, false, true, rm_get_name,
		"gpu_get_name_string"},
	{NV_CTRL_GPU_GET_ID, PARAMS(gpu_id), RM_KIND_SUBDEVICE, false, true, rm_get_gpu_id,
		"gpu_get_id"},
	{NV_CTRL_GPU_GET_GID_INFO, PARAMS(gid), RM_KIND_SUBDEVICE, false, true, rm_get_gid,
		"gpu_get_gid_info"},
	{NV_CTRL_GPU_GET_PID_INFO, PARAMS(pid_info), RM_KIND_SUBDEVICE, false, true,
		rm_get_pid_info, "gpu_get_pid_info"},
	{NV_CTRL_FB_GET_INFO, PARAMS(fb_info), RM_KIND_SUBDEVICE, false, true, rm_get_fb_info,
		"fb_get_info"},
	{NV_CTRL_FIFO_DISABLE_CHANNELS, PARAMS(disable_channels), RM_KIND_SUBDEVICE, false, false,
		rm_disable_channels, "fifo_disable_channels"},
	{NV_CTRL_GR_SET_CTXSW_PREEMPTION_MODE, PARAMS(ctxsw), RM_KIND_SUBDEVICE, false, false,
		accept, "gr_set_ctxsw_preemption_mode"},
	/* Answered as on a machine without the monitoring that fills it: its layout is not
	 * recorded. */
	{0x20802096, 0, RM_KIND_SUBDEVICE, false, false, refuse, "perf_get_util_samples"},
};

/* `said` is the size that the caller gives. */
static uint32_t expected_size(
	const struct rbt_rm *rm, const struct rm_control_def *def, uint32_t said)
{
	for (size_t i = 0; i < rm->n_faults; i++) {
		const struct rbt_rm_fault *f = &rm->faults[i];
		if (f->size == RBT_RM_ANY_SIZE && f->cmd == def->cmd) {
			return said < RM_MAX_PARAMS ? said : RM_MAX_PARAMS;
		}
		if (f->size != 0 && f->cmd == def->cmd) {
			return f->size;
		}
	}
	if (def->cmd == NV_CTRL_TSG_GPFIFO_SCHEDULE && atoi(rm->config.driver_version) < 575) {
		return NV_SCHEDULE_PARAMS_SIZE_BEFORE_575;
	}
	if (def->cmd == NV_CTRL_FB_GET_INFO) {
		return NV_FB_INFO_SIZE(nv_fb_info_max((unsigned)atoi(rm->config.driver_version)));
	}
	return def->size;
}

/* Returns 0 or -ERESTART. */
static int run(struct rm_call *c, const struct rm_control_def *def, struct rm_object *obj,
	uint32_t *ret_status)
{
	const struct nv_control *a = &c->arg.control;
	uint32_t size = expected_size(c->rm, def, a->params_size);

	*ret_status = NV_OK;
	/* The object is of another class: RM finds no such method there (assumed). */
	if (obj->kind != def->kind || def->fn == refuse) {
		*ret_status = NV_ERR_NOT_SUPPORTED;
	} else if (a->params_size != size) {
		/* Recorded: sizes must match exactly. The status is from public sources. */
		*ret_status = atoi(c->rm->config.driver_version) < 550 ? NV_ERR_INVALID_PARAM_STRUCT
								       : NV_ERR_INVALID_ARGUMENT;
	} else if (def->needs_nice && !c->env->may_nice(c->env->data)) {
		*ret_status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	}
	if (*ret_status != NV_OK) {
		return 0;
	}
	memset(c->params.bytes, 0, def->size);
	int r = c->env->read(c->env->data, a->params, c->params.bytes, size);
	if (r == -ERESTART) {
		return r;
	}
	if (r < 0) {
		*ret_status = NV_ERR_INVALID_ADDRESS;
		return 0;
	}
	*ret_status = def->fn(c, obj);
	if (*ret_status == NV_OK && def->answers &&
		c->env->write(c->env->data, a->params, c->params.bytes, size) < 0) {
		*ret_status = NV_ERR_INVALID_ADDRESS;
	}
	return 0;
}

static const struct rm_control_def *find_control(uint32_t cmd, size_t *ret_index)
{
	for (size_t i = 0; i < RM_N_CONTROLS; i++) {
		if (rm_controls[i].cmd == cmd) {
			*ret_index = i;
			return &rm_controls[i];
		}
	}
	return NULL;
}

int rm_control(struct rm_call *c)
{
	struct nv_control *a = &c->arg.control;
	size_t index;
	const struct rm_control_def *def = find_control(a->cmd, &index);
	struct rm_object *obj = rm_find_object(c, a->client, a->object, &a->status);

	if (obj == NULL) {
		return 0;
	}
	if (def == NULL) {
		rm_log(c, "unknown control 0x%08x of %u bytes on class 0x%04x", a->cmd,
			a->params_size, obj->hclass);
		c->rm->counters.unknown_controls++;
		a->status = NV_ERR_NOT_SUPPORTED;
		return 0;
	}
	int r = run(c, def, obj, &a->status);
	if (r == 0) {
		c->rm->per_control[index]++;
	}
	return r;
}
