/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/print.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/top/canvas.h"
#include "cli/top/layout.h"
#include "sched/class.h"
#include "util/json.h"

int top_print_screen(FILE *out, const struct top_model *m, struct top_ui *ui, int width, int height,
	bool utf8, const char *clock)
{
	int all = top_screen_height(m);
	int lines = height > 0 && height < all ? height : all;
	struct top_canvas c = {0};
	int r = top_canvas_init(&c, width, lines > TOP_MIN_HEIGHT ? lines : TOP_MIN_HEIGHT, utf8);
	char *line = r == 0 ? malloc((size_t)width * 4 + 1) : NULL;

	if (line == NULL) {
		top_canvas_finish(&c);
		return -ENOMEM;
	}
	top_screen_draw(&c, m, ui, clock);
	for (int y = 0; y < lines; y++) {
		top_canvas_line(&c, y, line);
		fprintf(out, "%s\n", line);
	}
	free(line);
	top_canvas_finish(&c);
	return 0;
}

static void json_u64(struct rbt_json *j, const char *key, bool known, uint64_t value)
{
	if (known) {
		rbt_json_u64(j, key, value);
	} else {
		rbt_json_null(j, key);
	}
}

static void json_double(struct rbt_json *j, const char *key, bool known, double value)
{
	if (known) {
		rbt_json_double(j, key, value);
	} else {
		rbt_json_null(j, key);
	}
}

static void json_text(struct rbt_json *j, const char *key, const char *value)
{
	if (value != NULL) {
		rbt_json_string(j, key, value);
	} else {
		rbt_json_null(j, key);
	}
}

static const char *known_or_null(const char *text)
{
	return text[0] != '\0' ? text : NULL;
}

static void json_gpu(struct rbt_json *j, const struct top_model *m, const struct top_gpu *gpu)
{
	struct rbt_gpu id = rbt_gpu_of_index(&m->table, gpu->index);
	char label[RBT_GPU_NAME_MAX];
	struct top_use use;

	top_model_use(m, gpu->index, &use);
	rbt_json_object(j, NULL);
	rbt_json_u64(j, "gpu", id.minor);
	rbt_json_string(j, "gpu_label", rbt_gpu_name(id, label));
	rbt_json_string(j, "name", gpu->name);
	rbt_json_string(j, "driver", gpu->driver);
	json_u64(j, "memory_bytes", gpu->has_memory, gpu->memory_bytes);
	json_u64(j, "memory_used_bytes", use.has_memory, use.memory_bytes);
	rbt_json_u64(j, "programs", use.n_programs);
	rbt_json_object(j, "share");
	for (int cls = RBT_CLASS_LATENCY; cls >= RBT_CLASS_BEST_EFFORT; cls--) {
		json_double(
			j, rbt_class_name((enum rbt_class)cls), use.has_share[cls], use.share[cls]);
	}
	rbt_json_end(j, '}');
	json_u64(j, "turn_pid", use.turn != NULL,
		use.turn != NULL ? (uint64_t)use.turn->now.pid : 0);
	json_u64(j, "reserve_pid", use.reserve != NULL,
		use.reserve != NULL ? (uint64_t)use.reserve->now.pid : 0);
	rbt_json_end(j, '}');
}

static const char *state_name(enum top_state state)
{
	static const char *const names[] = {[TOP_STATE_UNKNOWN] = "unknown",
		[TOP_STATE_RUNNING] = "running",
		[TOP_STATE_TURN] = "turn",
		[TOP_STATE_RESERVES] = "reserves",
		[TOP_STATE_WAITING] = "waiting",
		[TOP_STATE_SUSPENDED] = "suspended",
		[TOP_STATE_PARKED] = "parked"};

	return names[state];
}

static void json_rates(struct rbt_json *j, const struct top_row *r)
{
	uint32_t v = r->valid;

	json_double(j, "share", (v & TOP_HAS_SHARE) != 0, r->share);
	if ((v & TOP_HAS_SHARE) != 0) {
		rbt_json_bool(j, "share_is_allowed", (v & TOP_SHARE_IS_ALLOWED) != 0);
	} else {
		rbt_json_null(j, "share_is_allowed");
	}
	json_double(j, "wait", (v & TOP_HAS_WAIT) != 0, r->wait);
	json_double(j, "reserved", (v & TOP_HAS_RESERVED) != 0, r->reserved);
	json_double(j, "turns_per_s", (v & TOP_HAS_TURNS) != 0, r->turns_per_s);
	json_double(j, "requests_per_s", (v & TOP_HAS_REQUESTS) != 0, r->requests_per_s);
	json_double(j, "request_p99_us", (v & TOP_HAS_P99) != 0, (double)r->p99_ns / 1e3);
	json_double(j, "seen_to_off_p99_us", (v & TOP_HAS_OFF) != 0, (double)r->off_ns / 1e3);
	json_double(j, "off_to_done_p99_us", (v & TOP_HAS_DONE) != 0, (double)r->done_ns / 1e3);
}

static void json_gpus(struct rbt_json *j, const struct rbt_gpu_table *table, uint32_t gpus)
{
	char label[RBT_GPU_NAME_MAX];

	rbt_json_array(j, "gpus");
	for (uint32_t gpu = 0; gpu < table->n; gpu++) {
		if ((gpus >> gpu & 1) != 0) {
			rbt_json_u64(j, NULL, rbt_gpu_of_index(table, gpu).minor);
		}
	}
	rbt_json_end(j, ']');
	rbt_json_array(j, "gpu_labels");
	for (uint32_t gpu = 0; gpu < table->n; gpu++) {
		if ((gpus >> gpu & 1) != 0) {
			rbt_json_string(j, NULL, rbt_gpu_name(rbt_gpu_of_index(table, gpu), label));
		}
	}
	rbt_json_end(j, ']');
}

static void json_program(
	struct rbt_json *j, const struct rbt_gpu_table *table, const struct top_row *r)
{
	const struct top_reading *p = &r->now;

	rbt_json_object(j, NULL);
	rbt_json_u64(j, "pid", (uint64_t)p->pid);
	rbt_json_u64(j, "uid", p->uid);
	rbt_json_string(j, "user", p->user);
	rbt_json_string(j, "command", p->command);
	rbt_json_bool(j, "managed", p->managed);
	rbt_json_bool(j, "attached", p->attached);
	json_text(j, "class", p->managed ? rbt_class_name(rbt_class_of(p->priority)) : NULL);
	json_u64(j, "priority", p->managed, p->priority);
	json_u64(j, "weight", p->has_turns, p->turns.weight);
	rbt_json_string(j, "state", state_name(r->state));
	json_u64(j, "suspended_left_ms", p->suspended_left_ms != 0, p->suspended_left_ms);
	json_gpus(j, table, p->gpus);
	json_u64(j, "memory_bytes", p->has_memory, p->memory_bytes);
	json_u64(j, "memory_limit_bytes", p->limit_bytes != 0, p->limit_bytes);
	if (p->limit_bytes != 0) {
		rbt_json_bool(j, "memory_enforced", p->is_bound);
	} else {
		rbt_json_null(j, "memory_enforced");
	}
	json_u64(j, "pending", top_row_has_pending(r), p->account.n_pending);
	json_rates(j, r);
	json_text(j, "container_id", known_or_null(p->place.container_id));
	json_text(j, "pod_uid", known_or_null(p->place.pod_uid));
	json_text(j, "slurm_job", known_or_null(p->place.slurm_job));
	json_text(j, "vm", known_or_null(p->guest.vm));
	json_u64(j, "guest_pid", p->guest.vm[0] != '\0', p->guest.pid);
	json_text(j, "guest_command", known_or_null(p->guest.command));
	rbt_json_string(j, "note", p->note);
	rbt_json_end(j, '}');
}

int top_print_json(FILE *out, const struct top_model *m, const struct top_order *order,
	uint64_t time_ms, bool one_line)
{
	static const char *const daemons[] = {[TOP_DAEMON_NONE] = "none",
		[TOP_DAEMON_RUNS] = "runs",
		[TOP_DAEMON_MUTE] = "does not answer"};
	size_t *shown = calloc(m->n_rows + 1, sizeof(*shown));
	struct rbt_json j;

	if (shown == NULL) {
		return -ENOMEM;
	}
	size_t n = top_order_rows(m, order, shown);
	rbt_json_init(&j, out);
	j.one_line = one_line;
	rbt_json_object(&j, NULL);
	rbt_json_u64(&j, "version", JSON_VERSION);
	rbt_json_u64(&j, "time_ms", time_ms);
	json_u64(&j, "interval_us", m->interval_ns > 0, m->interval_ns / 1000);
	rbt_json_string(&j, "daemon", daemons[m->daemon]);
	json_text(&j, "policy", top_model_policy(m));
	rbt_json_array(&j, "gpus");
	for (size_t i = 0; i < m->n_gpus; i++) {
		json_gpu(&j, m, &m->gpus[i]);
	}
	rbt_json_end(&j, ']');
	rbt_json_array(&j, "programs");
	for (size_t i = 0; i < n; i++) {
		json_program(&j, &m->table, &m->rows[shown[i]]);
	}
	rbt_json_end(&j, ']');
	rbt_json_end(&j, '}');
	free(shown);
	return 0;
}
