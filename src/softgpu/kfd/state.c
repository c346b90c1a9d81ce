/* SPDX-License-Identifier: Apache-2.0 */
/* The model's state, for people and for tests. */
#include <inttypes.h>
#include <string.h>

#include "softgpu/kfd/model.h"
#include "softgpu/kfd/timing.h"

static const char *type_name(uint32_t type)
{
	static const char *const names[] = {"compute", "sdma", "aql", "xgmi"};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

static struct rbt_kfd_queue_info describe(const struct kfd_process *p, const struct kfd_queue *q)
{
	return (struct rbt_kfd_queue_info){
		.pid = p->pid,
		.id = q->id,
		.gpu = q->gpu,
		.gpu_id = rbt_kfd_gpu_id(q->gpu),
		.type = q->type,
		.ring = q->ring,
		.ring_size = q->ring_size,
		.percentage = q->percentage,
		.priority = q->priority,
		.grace_period = q->grace_period,
		.suspended = q->suspended,
		.is_new = (q->exceptions & KFD_EC_QUEUE_NEW) != 0,
		.running = kfd_queue_may_run(p, q) && q->had_work,
		.completed = q->completed,
		.restored = q->restored,
		.restarted = q->restarted,
		.n_suspends = q->n_suspends,
		.share = q->share,
	};
}

int rbt_kfd_each_queue(struct rbt_kfd *kfd,
	int (*fn)(const struct rbt_kfd_queue_info *info, void *data), void *data)
{
	for (const struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		for (uint32_t i = 0; i < KFD_MAX_QUEUES; i++) {
			if (p->queues[i] == NULL) {
				continue;
			}
			struct rbt_kfd_queue_info info = describe(p, p->queues[i]);
			int r = fn(&info, data);
			if (r != 0) {
				return r;
			}
		}
	}
	return 0;
}

uint64_t rbt_kfd_oopses(const struct rbt_kfd *kfd)
{
	return kfd->counters.oopses;
}

/* "client" and "handle" come first, and the states have the same names as RM's, so that one reader
 * serves both. A suspend with a grace period lets running work go on for a while. */
static int json_queue(const struct rbt_kfd_queue_info *q, void *data)
{
	struct rbt_json *j = data;
	bool graceful = q->suspended && q->grace_period > KFD_GRACE_MIN;
	bool off = q->suspended || q->percentage == 0;

	rbt_json_object(j, NULL);
	rbt_json_u64(j, "client", (uint64_t)q->pid);
	rbt_json_u64(j, "handle", q->id);
	rbt_json_u64(j, "pid", (uint64_t)q->pid);
	rbt_json_u64(j, "gpu", q->gpu);
	rbt_json_u64(j, "gpu_id", q->gpu_id);
	rbt_json_string(j, "type", type_name(q->type));
	rbt_json_u64(j, "ring", q->ring);
	rbt_json_u64(j, "ring_size", q->ring_size);
	rbt_json_u64(j, "percentage", q->percentage);
	rbt_json_u64(j, "priority", q->priority);
	rbt_json_bool(j, "suspended", q->suspended);
	rbt_json_u64(j, "grace_period", q->grace_period);
	rbt_json_bool(j, "new", q->is_new);
	rbt_json_bool(j, "running", q->running);
	rbt_json_u64(j, "completed", q->completed);
	rbt_json_u64(j, "restored", q->restored);
	rbt_json_u64(j, "restarted", q->restarted);
	rbt_json_u64(j, "suspends", q->n_suspends);
	rbt_json_u64(j, "share_percent", q->share * 100 / KFD_WHOLE);
	rbt_json_u64(j, "timeslice_us", 0);
	rbt_json_u64(j, "channels", 1);
	rbt_json_u64(j, "enabled", !off);
	rbt_json_u64(j, "disabled_full", off && !graceful);
	rbt_json_u64(j, "disabled_scheduling", graceful);
	rbt_json_end(j, '}');
	return 0;
}

static void json_processes(const struct rbt_kfd *kfd, struct rbt_json *j)
{
	rbt_json_array(j, "processes");
	for (const struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		rbt_json_object(j, NULL);
		rbt_json_u64(j, "pid", (uint64_t)p->pid);
		rbt_json_u64(j, "queues", p->n_queues);
		rbt_json_u64(j, "runtime_state", p->runtime.state);
		rbt_json_bool(j, "waits", p->waiting_tid != 0);
		rbt_json_bool(j, "debugged", p->debugged);
		rbt_json_u64(j, "debugger", (uint64_t)p->debugger);
		rbt_json_end(j, '}');
	}
	rbt_json_end(j, ']');
}

void rbt_kfd_write_json(struct rbt_kfd *kfd, struct rbt_json *json)
{
	const struct kfd_counters *c = &kfd->counters;

	rbt_json_object(json, "kfd");
	rbt_json_u64(json, "minor", kfd->config.minor);
	rbt_json_u64(json, "gpus", kfd->config.n_gpus);
	rbt_json_u64(json, "gfx_target_version", kfd->config.gfx_target_version);
	json_processes(kfd, json);
	rbt_json_array(json, "queues");
	rbt_kfd_each_queue(kfd, json_queue, json);
	rbt_json_end(json, ']');
	rbt_json_object(json, "totals");
	rbt_json_u64(json, "calls", c->calls);
	rbt_json_u64(json, "unknown", c->unknown);
	rbt_json_u64(json, "faults", c->faults);
	rbt_json_u64(json, "oopses", c->oopses);
	rbt_json_u64(json, "packets", c->packets);
	rbt_json_end(json, '}');
	rbt_json_end(json, '}');
}

static int text_queue(const struct rbt_kfd_queue_info *q, void *data)
{
	fprintf(data,
		"%7d  %3u  %5u  %-7s  %9u  %3u  %3u  %-9s  %" PRIu64 " done, %" PRIu64
		" restored, %" PRIu64 " restarted\n",
		q->pid, q->gpu, q->id, type_name(q->type), q->ring_size, q->percentage, q->priority,
		q->suspended ? "suspended"
		: q->running ? "running"
			     : "idle",
		q->completed, q->restored, q->restarted);
	return 0;
}

void rbt_kfd_write_text(struct rbt_kfd *kfd, FILE *out)
{
	const struct kfd_counters *c = &kfd->counters;

	fprintf(out, "KFD 1.%u, %u GPU%s, gfx %u\n", kfd->config.minor, kfd->config.n_gpus,
		kfd->config.n_gpus == 1 ? "" : "s", kfd->config.gfx_target_version);
	for (const struct kfd_process *p = kfd->processes; p != NULL; p = p->next) {
		fprintf(out, "process %d: %u queues, runtime %s%s", p->pid, p->n_queues,
			p->runtime.state == KFD_RUNTIME_DISABLED ? "off" : "on",
			p->waiting_tid != 0 ? ", waits for its debugger" : "");
		if (p->debugged) {
			fprintf(out, ", debugged by %d", p->debugger != 0 ? p->debugger : p->pid);
		}
		fputc('\n', out);
	}
	fprintf(out, "    PID  GPU  QUEUE  TYPE          RING    %%  PRI  STATE      PACKETS\n");
	rbt_kfd_each_queue(kfd, text_queue, out);
	fprintf(out,
		"%" PRIu64 " calls, %" PRIu64 " unknown; %" PRIu64 " faults injected; %" PRIu64
		" calls that would have crashed a kernel; %" PRIu64 " packets\n",
		c->calls, c->unknown, c->faults, c->oopses, c->packets);
}
