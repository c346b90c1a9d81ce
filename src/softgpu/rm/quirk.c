/* SPDX-License-Identifier: Apache-2.0 */
/* Unexpected behaviour of real drivers and GPUs, on request (docs/softgpu.md). Quirks that real
 * hardware shows sometimes happen always here. */
#include <errno.h>
#include <string.h>

#include "softgpu/rm/model.h"

/* Measured on an H200; the caller's thread is busy in the driver meanwhile. */
#define DISABLE_US            700
#define DISABLE_SCHEDULING_US 400
#define ENABLE_US             320

static const char *const names[] = {"drowsy", "setup", "slow-calls"};

#define N_QUIRKS (sizeof(names) / sizeof(names[0]))

const char *rbt_rm_quirk_name(uint32_t quirk)
{
	for (size_t i = 0; i < N_QUIRKS; i++) {
		if (quirk == 1u << i) {
			return names[i];
		}
	}
	return NULL;
}

static uint32_t quirk_of(const char *text, size_t size)
{
	if (size == strlen("all") && strncmp(text, "all", size) == 0) {
		return RBT_RM_QUIRKS_ALL;
	}
	for (size_t i = 0; i < N_QUIRKS; i++) {
		if (size == strlen(names[i]) && strncmp(text, names[i], size) == 0) {
			return 1u << i;
		}
	}
	return 0;
}

int rbt_rm_quirks_parse(const char *text, uint32_t *ret)
{
	uint32_t quirks = 0;

	if (strcmp(text, "none") == 0) {
		*ret = 0;
		return 0;
	}
	for (;;) {
		size_t size = strcspn(text, ",");
		uint32_t quirk = quirk_of(text, size);
		if (quirk == 0) {
			return -EINVAL;
		}
		quirks |= quirk;
		if (text[size] == '\0') {
			break;
		}
		text += size + 1;
	}
	*ret = quirks;
	return 0;
}

static bool has(const struct rm_object *tsg, uint32_t quirk)
{
	return (tsg->client->open->rm->config.quirks & quirk) != 0;
}

void rm_quirk_scheduled(struct rm_object *tsg)
{
	tsg->tsg.in_setup = !tsg->tsg.is_set_up && tsg->tsg.scheduled &&
			    rm_engine_of(tsg->tsg.engine_type) == RBT_RM_ENGINE_COMPUTE;
}

/* Only the slice that its own program sets ends the group's setup. */
void rm_quirk_slice_set(struct rm_call *c, struct rm_object *tsg)
{
	tsg->tsg.asleep = false;
	if (!tsg->tsg.is_set_up && c->env->pid(c->env->data) == tsg->client->pid) {
		tsg->tsg.is_set_up = true;
		tsg->tsg.in_setup = false;
	}
}

void rm_quirk_disabled(struct rm_object *tsg, bool scheduling_only)
{
	struct rm_tsg *t = &tsg->tsg;

	if (has(tsg, RBT_RM_QUIRK_SETUP) && t->in_setup) {
		t->stuck = true;
	}
	if (!scheduling_only) {
		t->wakeful = true;
	} else if (has(tsg, RBT_RM_QUIRK_DROWSY) && !t->wakeful) {
		t->drowsy = true;
	}
}

void rm_quirk_preempted(struct rm_object *tsg, bool is_awaited)
{
	tsg->tsg.wakeful = tsg->tsg.wakeful || is_awaited;
}

void rm_quirk_enabled(struct rm_object *tsg)
{
	tsg->tsg.asleep = tsg->tsg.asleep || tsg->tsg.drowsy;
	tsg->tsg.drowsy = false;
}

bool rm_tsg_can_run(const struct rm_object *tsg)
{
	return tsg->tsg.scheduled && !tsg->tsg.asleep && !tsg->tsg.stuck;
}

/* The driver chooses the copy group of a copy, so one sleeping group is enough. */
bool rm_copies_wait(const struct rm_object *compute)
{
	if (!has(compute, RBT_RM_QUIRK_DROWSY)) {
		return false;
	}
	for (const struct rm_object *o = compute->parent->first_child; o != NULL;
		o = o->next_sibling) {
		if (o->kind == RM_KIND_TSG && o->tsg.asleep &&
			rm_engine_of(o->tsg.engine_type) == RBT_RM_ENGINE_COPY) {
			return true;
		}
	}
	return false;
}

uint64_t rm_quirk_delay_us(const struct rm_call *c)
{
	const struct nv_disable_channels_params *p = &c->params.disable_channels;

	if ((c->rm->config.quirks & RBT_RM_QUIRK_SLOW_CALLS) == 0 || c->nr != NV_ESC_RM_CONTROL ||
		c->arg.control.cmd != NV_CTRL_FIFO_DISABLE_CHANNELS ||
		c->arg.control.status != NV_OK) {
		return 0;
	}
	if (!p->disable) {
		return ENABLE_US;
	}
	return p->only_disable_scheduling ? DISABLE_SCHEDULING_US : DISABLE_US;
}
