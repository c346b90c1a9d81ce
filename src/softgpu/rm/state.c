/* SPDX-License-Identifier: Apache-2.0 */
/* The model's state, for tests and people to read. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "softgpu/rm/model.h"

uint32_t rbt_rm_open_uid(const struct rbt_rm_open *open)
{
	return open->uid;
}

uint64_t rbt_rm_log_lines(const struct rbt_rm *rm)
{
	return rm->counters.log_lines;
}

static void describe(const struct rm_object *obj, struct rbt_rm_tsg_info *ret)
{
	*ret = (struct rbt_rm_tsg_info){
		.client = obj->client->root->handle,
		.handle = obj->handle,
		.gpu = obj->gpu,
		.runlist = obj->tsg.runlist,
		.id = obj->tsg.id,
		.engine_type = obj->tsg.engine_type,
		.interleave = obj->tsg.interleave,
		.engine = rm_engine_of(obj->tsg.engine_type),
		.client_pid = obj->client->pid,
		.open_pid = obj->client->open->pid,
		.timeslice_us = obj->tsg.timeslice_us,
		.n_preempts = obj->tsg.n_preempts,
		.n_suspends = obj->tsg.n_suspends,
		.n_resumes = obj->tsg.n_resumes,
		.scheduled = obj->tsg.scheduled,
		.realtime = obj->tsg.realtime,
		.asleep = obj->tsg.asleep,
		.stuck = obj->tsg.stuck,
	};
	for (const struct rm_object *o = obj->first_child; o != NULL; o = o->next_sibling) {
		if (o->kind != RM_KIND_CHANNEL) {
			continue;
		}
		ret->n_channels++;
		ret->n_enabled += o->channel.state == RM_CHANNEL_ENABLED;
		ret->n_disabled_full += o->channel.state == RM_CHANNEL_DISABLED;
		ret->n_disabled_scheduling += o->channel.state == RM_CHANNEL_DISABLED_SCHEDULING;
	}
}

void rbt_rm_each_tsg(
	struct rbt_rm *rm, void (*fn)(const struct rbt_rm_tsg_info *info, void *data), void *data)
{
	struct rbt_rm_tsg_info info;

	for (struct rm_client *client = rm->clients; client != NULL; client = client->next) {
		for (struct rm_object *o = client->root; o != NULL; o = rm_next_object(o)) {
			if (o->kind == RM_KIND_TSG) {
				describe(o, &info);
				fn(&info, data);
			}
		}
	}
}

int rbt_rm_get_group(struct rbt_rm *rm, uint32_t client, uint32_t tsg, const uint32_t *channels,
	size_t n, struct rbt_rm_group *ret)
{
	const struct rm_object *group = rm_find(rm, client, tsg);
	uint32_t enabled = 0, disabled_full = 0;

	if (group == NULL || group->kind != RM_KIND_TSG) {
		return -ENOENT;
	}
	for (size_t i = 0; i < n; i++) {
		const struct rm_object *o = rm_find(rm, client, channels[i]);
		if (o == NULL || o->kind != RM_KIND_CHANNEL || o->parent != group) {
			return -ENOENT;
		}
		enabled |= (uint32_t)(o->channel.state == RM_CHANNEL_ENABLED) << i;
		disabled_full |= (uint32_t)(o->channel.state == RM_CHANNEL_DISABLED) << i;
	}
	*ret = (struct rbt_rm_group){
		.timeslice_us = group->tsg.timeslice_us,
		.n_preempts = group->tsg.n_preempts,
		.gpu = group->gpu,
		.interleave = group->tsg.interleave,
		.engine = rm_engine_of(group->tsg.engine_type),
		.open_pid = group->client->open->pid,
		.scheduled = rm_tsg_can_run(group),
		.copies_wait = rm_copies_wait(group),
		.enabled = enabled,
		.disabled_full = disabled_full,
	};
	return 0;
}

static const char *engine_name(enum rbt_rm_engine engine)
{
	switch (engine) {
	case RBT_RM_ENGINE_COMPUTE:
		return "compute";
	case RBT_RM_ENGINE_COPY:
		return "copy";
	default:
		return "other";
	}
}

static void node_path(const struct rbt_rm_open *open, char *buf, size_t size)
{
	switch (open->node) {
	case RBT_RM_NODE_CONTROL:
		snprintf(buf, size, "%s", NV_CTL_PATH);
		break;
	case RBT_RM_NODE_GPU:
		snprintf(buf, size, NV_GPU_PATH_FMT, open->gpu);
		break;
	default:
		snprintf(buf, size, "/dev/nvidia-uvm");
		break;
	}
}

static void json_tsg(const struct rbt_rm_tsg_info *t, void *data)
{
	struct rbt_json *j = data;

	rbt_json_object(j, NULL);
	rbt_json_u64(j, "client", t->client);
	rbt_json_u64(j, "handle", t->handle);
	rbt_json_u64(j, "pid", (uint64_t)t->client_pid);
	rbt_json_u64(j, "open_pid", (uint64_t)t->open_pid);
	rbt_json_u64(j, "gpu", t->gpu);
	rbt_json_string(j, "engine", engine_name(t->engine));
	rbt_json_u64(j, "engine_type", t->engine_type);
	rbt_json_u64(j, "runlist", t->runlist);
	rbt_json_u64(j, "id", t->id);
	rbt_json_u64(j, "timeslice_us", t->timeslice_us);
	rbt_json_u64(j, "interleave", t->interleave);
	rbt_json_bool(j, "scheduled", t->scheduled);
	rbt_json_bool(j, "realtime", t->realtime);
	rbt_json_bool(j, "asleep", t->asleep);
	rbt_json_bool(j, "stuck", t->stuck);
	rbt_json_u64(j, "preempts", t->n_preempts);
	rbt_json_u64(j, "suspends", t->n_suspends);
	rbt_json_u64(j, "resumes", t->n_resumes);
	rbt_json_u64(j, "channels", t->n_channels);
	rbt_json_u64(j, "enabled", t->n_enabled);
	rbt_json_u64(j, "disabled_full", t->n_disabled_full);
	rbt_json_u64(j, "disabled_scheduling", t->n_disabled_scheduling);
	rbt_json_end(j, '}');
}

static void json_gpus(const struct rbt_rm *rm, struct rbt_json *j)
{
	char pci[16];

	rbt_json_array(j, "gpus");
	for (uint32_t i = 0; i < rm->config.n_gpus; i++) {
		rbt_rm_gpu_pci(i, pci, sizeof(pci));
		rbt_json_object(j, NULL);
		rbt_json_u64(j, "gpu", i);
		rbt_json_string(j, "name", RBT_RM_GPU_NAME);
		rbt_json_string(j, "pci", pci);
		rbt_json_u64(j, "gpu_id", rm_gpu_id(i));
		rbt_json_u64(j, "memory_bytes", rm->config.memory_bytes);
		rbt_json_u64(j, "memory_used_bytes", rm->gpus[i].memory_used_bytes);
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
}

static void json_opens(const struct rbt_rm *rm, struct rbt_json *j)
{
	char path[32];

	rbt_json_array(j, "opens");
	for (const struct rbt_rm_open *o = rm->opens; o != NULL; o = o->next) {
		node_path(o, path, sizeof(path));
		rbt_json_object(j, NULL);
		rbt_json_string(j, "node", path);
		rbt_json_u64(j, "id", o->id);
		rbt_json_u64(j, "pid", (uint64_t)o->pid);
		rbt_json_u64(j, "uid", o->uid);
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
	rbt_json_array(j, "clients");
	for (const struct rm_client *c = rm->clients; c != NULL; c = c->next) {
		rbt_json_object(j, NULL);
		rbt_json_u64(j, "client", c->root->handle);
		rbt_json_u64(j, "pid", (uint64_t)c->pid);
		rbt_json_u64(j, "open", c->open->id);
		rbt_json_u64(j, "objects", c->n_objects);
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
}

static void json_counters(const struct rbt_rm *rm, struct rbt_json *j)
{
	const struct rm_counters *c = &rm->counters;

	rbt_json_object(j, "counters");
	rbt_json_u64(j, "allocs", c->allocs);
	rbt_json_u64(j, "frees", c->frees);
	rbt_json_u64(j, "controls", c->controls);
	rbt_json_u64(j, "other_ioctls", c->other_ioctls);
	rbt_json_u64(j, "unknown_ioctls", c->unknown_ioctls);
	rbt_json_u64(j, "unknown_controls", c->unknown_controls);
	rbt_json_u64(j, "faults", c->faults);
	rbt_json_u64(j, "log_lines", c->log_lines);
	rbt_json_end(j, '}');
	rbt_json_object(j, "controls");
	for (size_t i = 0; i < RM_N_CONTROLS; i++) {
		if (rm->per_control[i] > 0) {
			rbt_json_u64(j, rm_controls[i].name, rm->per_control[i]);
		}
	}
	rbt_json_end(j, '}');
}

static void json_faults(const struct rbt_rm *rm, struct rbt_json *j)
{
	rbt_json_array(j, "faults");
	for (size_t i = 0; i < rm->n_faults; i++) {
		const struct rbt_rm_fault *f = &rm->faults[i];
		rbt_json_object(j, NULL);
		rbt_json_u64(j, "cmd", f->cmd);
		rbt_json_u64(j, "nr", f->nr);
		if (f->has_status) {
			rbt_json_u64(j, "status", f->status);
		}
		rbt_json_u64(j, "errno", f->error);
		rbt_json_u64(j, "delay_us", f->delay_us);
		rbt_json_u64(j, "count", f->count);
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
}

static void json_quirks(const struct rbt_rm *rm, struct rbt_json *j)
{
	rbt_json_array(j, "quirks");
	for (uint32_t quirk = 1; rbt_rm_quirk_name(quirk) != NULL; quirk <<= 1) {
		if (rm->config.quirks & quirk) {
			rbt_json_string(j, NULL, rbt_rm_quirk_name(quirk));
		}
	}
	rbt_json_end(j, ']');
}

void rbt_rm_write_json(struct rbt_rm *rm, struct rbt_json *json)
{
	rbt_json_string(json, "driver", rm->config.driver_version);
	json_quirks(rm, json);
	rbt_json_u64(json, "next_client", NV_CLIENT_HANDLE_BASE + rm->next_client);
	json_gpus(rm, json);
	json_opens(rm, json);
	rbt_json_array(json, "tsgs");
	rbt_rm_each_tsg(rm, json_tsg, json);
	rbt_json_end(json, ']');
	json_counters(rm, json);
	json_faults(rm, json);
}

static const char *run_word(const struct rbt_rm_tsg_info *t)
{
	if (!t->scheduled) {
		return "no";
	}
	return t->stuck ? "stuck" : t->asleep ? "asleep" : "yes";
}

static void text_tsg(const struct rbt_rm_tsg_info *t, void *data)
{
	fprintf(data,
		"%7d  %3u  %08x  %08x  %-7s  %2u/%-4u  %9" PRIu64
		"  %u  %-6s  %u of %u enabled, %u off, %u held\n",
		t->client_pid, t->gpu, t->client, t->handle, engine_name(t->engine), t->runlist,
		t->id, t->timeslice_us, t->interleave, run_word(t), t->n_enabled, t->n_channels,
		t->n_disabled_full, t->n_disabled_scheduling);
}

void rbt_rm_write_text(struct rbt_rm *rm, FILE *out)
{
	const struct rm_counters *c = &rm->counters;
	char path[32];

	fprintf(out, "driver %s, %u GPU%s of %" PRIu64 " MiB\n", rm->config.driver_version,
		rm->config.n_gpus, rm->config.n_gpus == 1 ? "" : "s",
		rm->config.memory_bytes >> 20);
	for (const struct rbt_rm_open *o = rm->opens; o != NULL; o = o->next) {
		node_path(o, path, sizeof(path));
		fprintf(out, "open %s by pid %d, user %u\n", path, o->pid, o->uid);
	}
	fprintf(out,
		"    PID  GPU    CLIENT       TSG  ENGINE   RUNLIST  SLICE(us)  I  RUN     CHANNELS\n");
	rbt_rm_each_tsg(rm, text_tsg, out);
	fprintf(out,
		"%" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " controls, %" PRIu64
		" others; unknown: %" PRIu64 " ioctls, %" PRIu64 " controls; %" PRIu64
		" faults injected; %" PRIu64 " kernel log lines\n",
		c->allocs, c->frees, c->controls, c->other_ioctls, c->unknown_ioctls,
		c->unknown_controls, c->faults, c->log_lines);
}
