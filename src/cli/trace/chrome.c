/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/chrome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class.h"
#include "util/json.h"
#include "util/time.h"

/* A quarter of 365.2425 days. */
#define QUARTER_NS (7889238 * RBT_NS_PER_S)

/* Tracks below a program's process. No thread of it has these numbers: 1 is init's. */
enum { TRACK_STATE = 1, TRACK_REQUESTS = 2 };

#define MAX_NAMED 3u /* programs that a GPU's label names */

static const char *const state_names[] = {
	[CHROME_RUNNING] = "running",
	[CHROME_WAITING] = "waiting",
	[CHROME_OFF] = "off",
	[CHROME_SUSPENDED] = "suspended",
	[CHROME_PARKED] = "parked",
};

uint64_t chrome_base_ns(uint64_t realtime_ns)
{
	return realtime_ns - realtime_ns % QUARTER_NS;
}

/* Begins an event that close_event() ends. */
static void open_event(struct chrome *c, struct rbt_json *j, const char *phase, const char *name,
	pid_t pid, uint32_t track)
{
	fputc(',', c->out);
	rbt_json_init(j, c->out);
	j->one_line = true;
	rbt_json_object(j, NULL);
	rbt_json_string(j, "ph", phase);
	if (name != NULL) {
		rbt_json_string(j, "name", name);
	}
	rbt_json_i64(j, "pid", pid);
	rbt_json_u64(j, "tid", track);
}

static void close_event(struct rbt_json *j)
{
	rbt_json_end(j, '}');
}

static void put_time(const struct chrome *c, struct rbt_json *j, uint64_t time_ns)
{
	rbt_json_us(j, "ts", time_ns + c->offset_ns);
}

static void put_name(
	struct chrome *c, const char *what, pid_t pid, uint32_t track, const char *name)
{
	struct rbt_json j;

	open_event(c, &j, "M", what, pid, track);
	rbt_json_object(&j, "args");
	rbt_json_string(&j, "name", name);
	rbt_json_end(&j, '}');
	close_event(&j);
}

static void put_end(struct chrome *c, pid_t pid, uint32_t track, uint64_t time_ns)
{
	struct rbt_json j;

	open_event(c, &j, "E", NULL, pid, track);
	put_time(c, &j, time_ns);
	close_event(&j);
}

void chrome_begin(struct chrome *c, FILE *out, pid_t daemon, uint64_t offset_ns, uint64_t base_ns)
{
	struct rbt_json j;

	*c = (struct chrome){.out = out, .daemon = daemon, .offset_ns = offset_ns};
	put_name(c, "process_name", daemon, 0, "Rubato");
	open_event(c, &j, "M", "process_sort_index", daemon, 0);
	rbt_json_object(&j, "args");
	rbt_json_i64(&j, "sort_index", -1);
	rbt_json_end(&j, '}');
	close_event(&j);
	/* Viewers show the label; the base is for programs that join files. */
	open_event(c, &j, "M", "process_labels", daemon, 0);
	rbt_json_object(&j, "args");
	rbt_json_string(&j, "labels", "CLOCK_REALTIME");
	rbt_json_u64(&j, "baseTimeNanoseconds", base_ns);
	rbt_json_end(&j, '}');
	close_event(&j);
}

void chrome_finish(struct chrome *c)
{
	free(c->programs);
	c->programs = NULL;
}

void chrome_set_gpus(struct chrome *c, const struct rbt_gpu gpus[RBT_MAX_GPUS])
{
	for (uint32_t i = 0; i < RBT_MAX_GPUS; i++) {
		c->gpus[i].gpu = gpus[i];
	}
}

static void name_of(const struct rbt_trace_event *e, char ret[sizeof(e->name) + 1])
{
	memcpy(ret, e->name, sizeof(e->name));
	ret[sizeof(e->name)] = '\0';
}

static struct chrome_program *find(struct chrome *c, pid_t pid)
{
	for (size_t i = 0; i < c->n_programs; i++) {
		if (c->programs[i].last.pid == pid) {
			return &c->programs[i];
		}
	}
	return NULL;
}

static bool has_gpu(const struct chrome_program *p, uint32_t gpu)
{
	return p->state == CHROME_RUNNING && (p->last.gpus >> gpu & 1) != 0;
}

/* Names the programs that have the GPU: their label, and a hash of who they are. */
static uint64_t describe_gpu(const struct chrome *c, uint32_t gpu, char label[CHROME_LABEL_MAX])
{
	char name[sizeof(c->programs->last.name) + 1];
	uint64_t holders = 0;
	size_t n = 0, at = 0;

	label[0] = '\0';
	for (size_t i = 0; i < c->n_programs; i++) {
		const struct chrome_program *p = &c->programs[i];

		if (!has_gpu(p, gpu)) {
			continue;
		}
		holders = holders * 31 + (uint64_t)p->last.pid * 2 +
			  ((p->last.flags & RBT_TRACE_RESERVES) != 0);
		if (n++ < MAX_NAMED) {
			name_of(&p->last, name);
			at += (size_t)snprintf(label + at, CHROME_LABEL_MAX - at, "%s%s (%d)",
				at > 0 ? " + " : "", name, (int)p->last.pid);
		}
	}
	if (n > MAX_NAMED) {
		snprintf(label + at, CHROME_LABEL_MAX - at, " + %zu more", n - MAX_NAMED);
	}
	return holders;
}

static void put_holders(const struct chrome *c, struct rbt_json *j, uint32_t gpu)
{
	bool is_reserved = false;

	rbt_json_object(j, "args");
	rbt_json_array(j, "pids");
	for (size_t i = 0; i < c->n_programs; i++) {
		if (has_gpu(&c->programs[i], gpu)) {
			rbt_json_i64(j, NULL, c->programs[i].last.pid);
			is_reserved = is_reserved ||
				      (c->programs[i].last.flags & RBT_TRACE_RESERVES) != 0;
		}
	}
	rbt_json_end(j, ']');
	rbt_json_bool(j, "reserve", is_reserved);
	rbt_json_end(j, '}');
}

static void update_gpu(struct chrome *c, uint32_t gpu, uint64_t time_ns)
{
	char label[CHROME_LABEL_MAX], name[RBT_GPU_NAME_MAX], title[RBT_GPU_NAME_MAX + 8];
	uint64_t holders = describe_gpu(c, gpu, label);
	struct chrome_gpu *g = &c->gpus[gpu];
	struct rbt_json j;

	if (strcmp(label, g->label) == 0 && holders == g->holders) {
		return;
	}
	if (g->label[0] != '\0') {
		put_end(c, c->daemon, gpu + 1, time_ns);
	}
	memcpy(g->label, label, sizeof(label));
	g->holders = holders;
	if (label[0] == '\0') {
		return;
	}
	if (!g->is_named) {
		g->is_named = true;
		snprintf(title, sizeof(title), "GPU %s", rbt_gpu_name(g->gpu, name));
		put_name(c, "thread_name", c->daemon, gpu + 1, title);
	}
	open_event(c, &j, "B", label, c->daemon, gpu + 1);
	rbt_json_string(&j, "cat", "gpu");
	put_time(c, &j, time_ns);
	put_holders(c, &j, gpu);
	close_event(&j);
}

static enum chrome_state state_of(uint32_t flags)
{
	bool wants = (flags & RBT_TRACE_WANTS) != 0;

	if ((flags & RBT_TRACE_GONE) != 0) {
		return CHROME_IDLE;
	}
	if ((flags & RBT_TRACE_PARKED) != 0) {
		return CHROME_PARKED;
	}
	if ((flags & RBT_TRACE_SUSPENDED) != 0) {
		return CHROME_SUSPENDED;
	}
	if ((flags & RBT_TRACE_OFF) != 0) {
		return wants ? CHROME_WAITING : CHROME_OFF;
	}
	return wants ? CHROME_RUNNING : CHROME_IDLE;
}

static void begin_state(struct chrome *c, const struct chrome_program *p)
{
	const struct rbt_trace_event *e = &p->last;
	struct rbt_json j;

	open_event(c, &j, "B", state_names[p->state], e->pid, TRACK_STATE);
	rbt_json_string(&j, "cat", "program");
	put_time(c, &j, e->time_ns);
	rbt_json_object(&j, "args");
	rbt_json_string(&j, "class", rbt_class_name(rbt_class_of(e->priority)));
	rbt_json_u64(&j, "priority", e->priority);
	rbt_json_bool(&j, "seen", (e->flags & RBT_TRACE_SEEN) != 0);
	rbt_json_end(&j, '}');
	close_event(&j);
}

static void update_request(struct chrome *c, struct chrome_program *p, bool was_open)
{
	const struct rbt_trace_event *e = &p->last;
	bool is_open = (e->flags & RBT_TRACE_REQUEST) != 0;
	struct rbt_json j;

	if (was_open && !is_open) {
		put_end(c, e->pid, TRACK_REQUESTS, e->time_ns);
	}
	if (was_open || !is_open) {
		return;
	}
	if (!p->has_requests) {
		p->has_requests = true;
		put_name(c, "thread_name", e->pid, TRACK_REQUESTS, "requests");
	}
	open_event(c, &j, "B", "request", e->pid, TRACK_REQUESTS);
	rbt_json_string(&j, "cat", "request");
	put_time(c, &j, e->time_ns);
	close_event(&j);
}

/* NULL: no memory. */
static struct chrome_program *add(struct chrome *c, const struct rbt_trace_event *event)
{
	if (c->n_programs == c->capacity) {
		size_t capacity = c->capacity > 0 ? 2 * c->capacity : 16;
		struct chrome_program *list = realloc(c->programs, capacity * sizeof(*list));
		if (list == NULL) {
			return NULL;
		}
		c->programs = list;
		c->capacity = capacity;
	}
	struct chrome_program *p = &c->programs[c->n_programs++];
	*p = (struct chrome_program){.last = {.pid = event->pid, .start_time = event->start_time}};
	put_name(c, "thread_name", event->pid, TRACK_STATE, "Rubato");
	return p;
}

/* Takes over the event: ends and begins the slices of the program's tracks. */
static void take(struct chrome *c, struct chrome_program *p, const struct rbt_trace_event *event)
{
	char name[sizeof(event->name) + 1];
	struct rbt_trace_event before = p->last;
	enum chrome_state was = p->state, is = state_of(event->flags);
	bool has_changed = is != was || event->priority != before.priority;

	p->last = *event;
	p->state = is;
	if (memcmp(before.name, event->name, sizeof(before.name)) != 0) {
		name_of(event, name);
		put_name(c, "process_name", event->pid, 0, name);
	}
	if (was != CHROME_IDLE && has_changed) {
		put_end(c, event->pid, TRACK_STATE, event->time_ns);
	}
	if (is != CHROME_IDLE && has_changed) {
		begin_state(c, p);
	}
	update_request(c, p, (before.flags & RBT_TRACE_REQUEST) != 0);
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if (((before.gpus | event->gpus) >> gpu & 1) != 0) {
			update_gpu(c, gpu, event->time_ns);
		}
	}
}

static void forget(struct chrome *c, struct chrome_program *p, uint64_t time_ns)
{
	struct rbt_trace_event end = p->last;

	end.time_ns = time_ns;
	end.flags = RBT_TRACE_GONE;
	take(c, p, &end);
	*p = c->programs[--c->n_programs];
}

int chrome_put(struct chrome *c, const struct rbt_trace_event *event)
{
	struct rbt_trace_event e = *event;
	struct chrome_program *p = find(c, e.pid);

	/* Time does not go back, whatever the message says. */
	e.time_ns = e.time_ns > c->last_ns ? e.time_ns : c->last_ns;
	e.priority = e.priority < RBT_PRIORITY_MAX ? e.priority : RBT_PRIORITY_MAX;
	c->last_ns = e.time_ns;
	if (p != NULL && (p->last.start_time != e.start_time || (e.flags & RBT_TRACE_GONE) != 0)) {
		forget(c, p, e.time_ns);
		p = NULL;
	}
	if ((e.flags & RBT_TRACE_GONE) != 0) {
		return 0;
	}
	p = p != NULL ? p : add(c, &e);
	if (p == NULL) {
		return -ENOMEM;
	}
	take(c, p, &e);
	return 0;
}

void chrome_end_all(struct chrome *c, uint64_t now_ns, uint64_t n_lost)
{
	char text[48];
	struct rbt_json j;

	now_ns = now_ns > c->last_ns ? now_ns : c->last_ns;
	c->last_ns = now_ns;
	while (c->n_programs > 0) {
		forget(c, &c->programs[c->n_programs - 1], now_ns);
	}
	if (n_lost > 0) {
		snprintf(text, sizeof(text), "%" PRIu64 " events are lost", n_lost);
		open_event(c, &j, "i", text, c->daemon, 0);
		put_time(c, &j, now_ns);
		rbt_json_string(&j, "s", "g");
		close_event(&j);
	}
}

static void put_counter(struct chrome *c, pid_t pid, const char *name, const char *unit,
	uint64_t now_ns, double value)
{
	struct rbt_json j;

	open_event(c, &j, "C", name, pid, 0);
	put_time(c, &j, now_ns);
	rbt_json_object(&j, "args");
	rbt_json_double(&j, unit, value);
	rbt_json_end(&j, '}');
	close_event(&j);
}

void chrome_put_share(
	struct chrome *c, pid_t pid, uint64_t now_ns, uint64_t used_ns, uint64_t known_ns)
{
	struct chrome_program *p = find(c, pid);

	if (p == NULL) {
		return;
	}
	/* The share belongs to the time since the last call, so it begins there. */
	if (p->has_share && known_ns > p->known_ns && used_ns >= p->used_ns) {
		put_counter(c, pid, "share", "%", p->shared_ns,
			100.0 * (double)(used_ns - p->used_ns) / (double)(known_ns - p->known_ns));
	}
	p->has_share = true;
	p->used_ns = used_ns;
	p->known_ns = known_ns;
	p->shared_ns = now_ns;
}

void chrome_put_memory(struct chrome *c, pid_t pid, uint64_t now_ns, uint64_t bytes)
{
	struct chrome_program *p = find(c, pid);

	if (p == NULL || (p->has_memory && p->memory_bytes == bytes)) {
		return;
	}
	p->has_memory = true;
	p->memory_bytes = bytes;
	put_counter(c, pid, "memory", "MiB", now_ns, (double)bytes / (1 << 20));
}
