/* SPDX-License-Identifier: Apache-2.0 */
/* Controls on channel groups and channels. */
#include "softgpu/rm/model.h"

uint32_t rm_tsg_schedule(struct rm_call *c, struct rm_object *obj)
{
	obj->tsg.scheduled = c->params.schedule.enable != 0;
	rm_quirk_scheduled(obj);
	return NV_OK;
}

/* Recorded: 1 µs and 1 s are accepted. Assumed: 0 is refused, and there is no upper bound. */
uint32_t rm_tsg_set_timeslice(struct rm_call *c, struct rm_object *obj)
{
	if (c->params.timeslice.timeslice_us == 0) {
		return NV_ERR_INVALID_ARGUMENT;
	}
	obj->tsg.timeslice_us = c->params.timeslice.timeslice_us;
	rm_quirk_slice_set(c, obj);
	return NV_OK;
}

uint32_t rm_tsg_get_timeslice(struct rm_call *c, struct rm_object *obj)
{
	c->params.timeslice.timeslice_us = obj->tsg.timeslice_us;
	return NV_OK;
}

uint32_t rm_tsg_preempt(struct rm_call *c, struct rm_object *obj)
{
	obj->tsg.n_preempts++;
	rm_quirk_preempted(obj, c->params.preempt.wait != 0);
	return NV_OK;
}

uint32_t rm_tsg_get_info(struct rm_call *c, struct rm_object *obj)
{
	c->params.tsg_info.tsg_id = obj->tsg.id;
	return NV_OK;
}

uint32_t rm_tsg_set_interleave(struct rm_call *c, struct rm_object *obj)
{
	if (c->params.interleave.level > 2) {
		return NV_ERR_INVALID_ARGUMENT;
	}
	obj->tsg.interleave = c->params.interleave.level;
	return NV_OK;
}

uint32_t rm_tsg_make_realtime(struct rm_call *c, struct rm_object *obj)
{
	obj->tsg.realtime = c->params.realtime.realtime != 0;
	return NV_OK;
}

uint32_t rm_channel_get_token(struct rm_call *c, struct rm_object *obj)
{
	c->params.token.token = obj->parent->tsg.runlist << 16 | obj->channel.id;
	return NV_OK;
}

/* NULL with a status: this is no channel that the caller may change through this subdevice. */
static struct rm_object *channel_of(
	struct rm_call *c, struct rm_object *subdevice, uint32_t i, uint32_t *ret_status)
{
	const struct nv_disable_channels_params *p = &c->params.disable_channels;
	struct rm_object *obj = NULL;

	/* The firmware's checks of clients are not recorded; the strict reading is assumed. */
	*ret_status = NV_ERR_INVALID_CLIENT;
	if (rm_find_client(c, p->client[i]) != NULL) {
		*ret_status = NV_ERR_INVALID_CHANNEL;
		obj = rm_find(c->rm, p->client[i], p->channel[i]);
	}
	if (obj == NULL || obj->kind != RM_KIND_CHANNEL || obj->gpu != subdevice->gpu) {
		return NULL;
	}
	return obj;
}

/* One channel of a group stands for all. */
static void count_call(struct rm_call *c, const struct rm_object *channel, bool disable)
{
	const struct rm_object *first = channel->parent->first_child;
	struct rm_tsg *tsg = &channel->parent->tsg;

	while (first->kind != RM_KIND_CHANNEL) {
		first = first->next_sibling;
	}
	if (channel != first) {
		return;
	}
	tsg->n_suspends += disable;
	tsg->n_resumes += !disable;
	if (c->rm->config.logs_switches != 0 &&
		rm_engine_of(tsg->engine_type) == RBT_RM_ENGINE_COMPUTE) {
		rm_log(c, "GPU %u: compute group of pid %d is %s", channel->gpu,
			channel->client->pid, disable ? "off" : "on");
	}
}

/* Disables are counted: a channel runs again when as many calls have enabled it (H200, 580.159.04).
 * One enable too many does no harm. */
static void set_state(struct rm_channel *channel, enum rm_channel_state state)
{
	if (state != RM_CHANNEL_ENABLED) {
		channel->n_disabled++;
	} else if (channel->n_disabled > 0) {
		channel->n_disabled--;
	}
	if (state != RM_CHANNEL_ENABLED || channel->n_disabled == 0) {
		channel->state = state;
	}
}

/* All or nothing: the list is checked before the first channel changes (assumed). */
uint32_t rm_disable_channels(struct rm_call *c, struct rm_object *obj)
{
	const struct nv_disable_channels_params *p = &c->params.disable_channels;
	enum rm_channel_state state = RM_CHANNEL_ENABLED;
	uint32_t status;

	if (p->count > NV_DISABLE_CHANNELS_MAX) {
		return NV_ERR_INVALID_ARGUMENT;
	}
	if (p->count == 0) {
		return NV_ERR_INVALID_PARAM_STRUCT; /* 580.159.04 on an H200 */
	}
	if (p->disable) {
		state = p->only_disable_scheduling ? RM_CHANNEL_DISABLED_SCHEDULING
						   : RM_CHANNEL_DISABLED;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		if (channel_of(c, obj, i, &status) == NULL) {
			return status;
		}
	}
	for (uint32_t i = 0; i < p->count; i++) {
		struct rm_object *channel = channel_of(c, obj, i, &status);

		set_state(&channel->channel, state);
		count_call(c, channel, p->disable);
		if (p->disable) {
			rm_quirk_disabled(channel->parent, p->only_disable_scheduling);
		} else {
			rm_quirk_enabled(channel->parent);
		}
	}
	return NV_OK;
}
