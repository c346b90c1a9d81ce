/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the scenario: two programs that write a device's rings, and what its trace says of them. */
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/test_device_world.h"
#include "preemption.h"

#define SMS         2u
#define THREADS     64u
#define GRID        (PREEMPTION_WORDS / THREADS)
#define TURNS       137u
#define BEST_EFFORT 1u
#define URGENT      2u
#define NS_PER_US   UINT64_C(1000)
#define OWN_SLICE   (2048 * NS_PER_US) /* what libcuda gives a compute group */
/* Longer than everything: the device does nothing by itself. */
#define LONG_SLICE   (1000000 * NS_PER_US)
#define INSTRUCTIONS 1000000000u

const struct preemption_way preemption_ways[] = {
	{.name = "timeslice, 2048 µs", .mechanism = RBT_MECHANISM_TIMESLICE, .slice_ns = OWN_SLICE},
	{.name = "timeslice, 1 µs", .mechanism = RBT_MECHANISM_TIMESLICE, .slice_ns = NS_PER_US},
	{.name = "exact", .mechanism = RBT_MECHANISM_EXACT, .slice_ns = OWN_SLICE},
	{.name = "reset", .mechanism = RBT_MECHANISM_RESET, .slice_ns = OWN_SLICE},
	{.name = "flag", .mechanism = RBT_MECHANISM_FLAG, .slice_ns = OWN_SLICE},
	{.name = "drain", .mechanism = RBT_MECHANISM_DRAIN, .slice_ns = OWN_SLICE},
	{.name = NULL},
};

/* Off and on: what calls were measured or reported to take, see docs/preemption.md. */
const struct preemption_way preemption_controllers[] = {
	{.name = "inside KFD, 10 µs", .off_ns = 10 * NS_PER_US, .on_ns = 10 * NS_PER_US},
	{.name = "DBG_TRAP, told at once", .off_ns = 450 * NS_PER_US, .on_ns = 350 * NS_PER_US},
	{.name = "DBG_TRAP, looks every 1 ms",
		.notice_ns = 1000 * NS_PER_US,
		.off_ns = 450 * NS_PER_US,
		.on_ns = 350 * NS_PER_US},
	{.name = "DBG_TRAP, looks every 5 ms",
		.notice_ns = 5000 * NS_PER_US,
		.off_ns = 450 * NS_PER_US,
		.on_ns = 350 * NS_PER_US},
	{.name = "DISABLE_CHANNELS, told at once",
		.off_ns = 590 * NS_PER_US,
		.on_ns = 324 * NS_PER_US},
	{.name = NULL},
};

/*
 * a0[i] goes through a1 turns of a mixer, in place: done twice, it is wrong. Looks at the preempt
 * flag in each turn, which matters to one mechanism alone.
 */
static const char ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .u32 rubato_preempt;\n"
	".visible .entry step(.param .u64 a0, .param .u32 a1)\n{\n"
	".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
	"mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	"mad.lo.s32 %r1, %r2, %r3, %r4;\n"
	"ld.param.u64 %rd1, [a0]; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd1, %rd3;\n"
	"ld.param.u32 %r5, [a1]; mov.u32 %r6, 0; ld.global.u32 %r7, [%rd2];\n"
	"again: ld.volatile.global.u32 %r9, [rubato_preempt];\n"
	"setp.ne.u32 %p2, %r9, 0; @%p2 bra out;\n"
	"mad.lo.u32 %r7, %r7, 1664525, 1013904223;\n"
	"shr.u32 %r8, %r7, 13; xor.b32 %r7, %r7, %r8; add.u32 %r6, %r6, 1;\n"
	"setp.lt.u32 %p1, %r6, %r5; @%p1 bra again;\n"
	"st.global.u32 [%rd2], %r7;\nout: ret;\n}\n";

/* What the trace said. */
struct record {
	const struct preemption_way *way;
	struct preemption_result *r;
	struct preemption_span *open; /* of the best-effort program */
	uint64_t kernel_start_ns[PREEMPTION_KERNELS + 1], kernel_end_ns[PREEMPTION_KERNELS + 1];
	uint64_t leave_ns, block_done_ns, urgent_start_ns, urgent_end_ns, again_ns;
	uint32_t begun, saved_kernel;
};

struct scene {
	struct device_world world;
	struct device_program best_effort, urgent;
	uint64_t words, urgent_words;
	struct record record;
};

static struct preemption_span *add_span(struct record *rec, uint64_t now_ns, uint32_t kernel)
{
	struct preemption_result *r = rec->r;

	if (r->n_spans == PREEMPTION_SPANS) {
		fprintf(stderr, "preemption: more happened than was thought\n");
		exit(1);
	}
	r->spans[r->n_spans] = (struct preemption_span){.start_ns = now_ns, .kernel = kernel};
	return &r->spans[r->n_spans++];
}

static void close_span(struct record *rec, uint64_t now_ns)
{
	if (rec->open) {
		rec->open->end_ns = now_ns;
		rec->open = NULL;
	}
}

/* The request has the SMs: the kernel that had them was cut short, unless it had ended. */
static void cut(struct record *rec)
{
	enum rbt_mechanism m = rec->way->mechanism;

	if (rec->open) {
		rec->open->lost = m == RBT_MECHANISM_RESET || m == RBT_MECHANISM_FLAG;
		rec->saved_kernel = rec->open->lost ? 0 : rec->open->kernel;
		close_span(rec, m == RBT_MECHANISM_FLAG ? rec->block_done_ns : rec->leave_ns);
	}
}

static void note_kernel(struct record *rec, uint64_t now_ns, uint32_t kernel)
{
	/* One that was done before, and runs again, ends without a word. */
	close_span(rec, rec->block_done_ns);
	rec->open = add_span(rec, now_ns, kernel);
	rec->open->again = rec->kernel_start_ns[kernel] != 0;
	if (!rec->open->again) {
		rec->kernel_start_ns[kernel] = now_ns;
	}
	rec->begun++;
	if (rec->urgent_end_ns && !rec->again_ns) {
		rec->again_ns = now_ns;
	}
}

static void note_best_effort(
	struct record *rec, uint64_t now_ns, enum rbt_device_event event, uint32_t kernel)
{
	switch (event) {
	case RBT_DEVICE_LEAVE:
		rec->leave_ns = rec->leave_ns ? rec->leave_ns : now_ns;
		break;
	case RBT_DEVICE_BLOCK_DONE:
		rec->block_done_ns = now_ns;
		break;
	case RBT_DEVICE_KERNEL:
		note_kernel(rec, now_ns, kernel);
		break;
	case RBT_DEVICE_COMMAND_DONE:
		rec->kernel_end_ns[kernel] = now_ns;
		close_span(rec, now_ns);
		break;
	case RBT_DEVICE_GO:
		/* What was saved goes on. */
		if (rec->saved_kernel && rec->urgent_end_ns) {
			rec->again_ns = now_ns;
			rec->open = add_span(rec, now_ns, rec->saved_kernel);
			rec->saved_kernel = 0;
		}
		break;
	default:
		break;
	}
}

static void note_urgent(struct record *rec, uint64_t now_ns, enum rbt_device_event event)
{
	if (event == RBT_DEVICE_SWITCH) {
		cut(rec);
	} else if (event == RBT_DEVICE_KERNEL) {
		rec->urgent_start_ns = now_ns;
		add_span(rec, now_ns, 1)->urgent = true;
	} else if (event == RBT_DEVICE_COMMAND_DONE) {
		rec->urgent_end_ns = now_ns;
		rec->r->spans[rec->r->n_spans - 1].end_ns = now_ns;
	}
}

static void note(void *user, uint64_t now_ns, enum rbt_device_event event, uint64_t context,
	uint64_t a, uint64_t b)
{
	(void)a;
	if (context == URGENT) {
		note_urgent(user, now_ns, event);
	} else {
		note_best_effort(user, now_ns, event, (uint32_t)b);
	}
}

static bool has_controller(const struct preemption_way *way)
{
	return way->off_ns > 0;
}

static void begin_program(struct scene *s, struct device_program *p, uint64_t id, uint32_t grid,
	uint32_t kernels, uint64_t *ret_words)
{
	uint32_t *words;

	device_program_init(p, &s->world, 1, id);
	device_program_load(p, ptx);
	*ret_words = device_program_alloc(p, 4ull * grid * THREADS);
	words = device_at(&s->world, *ret_words);
	for (uint32_t k = 0; k < grid * THREADS; k++) {
		words[k] = k;
	}
	for (uint32_t k = 0; k < kernels; k++) {
		device_launch(p, 0,
			&(struct device_kernel){.name = "step",
				.grid = grid,
				.block = THREADS,
				.params = {*ret_words, TURNS}});
	}
}

static void begin(struct scene *s, const struct preemption_way *way, struct preemption_result *r)
{
	/* A controller's calls are measured with all that they do. */
	struct rbt_device_config config = {.n_sms = SMS,
		.mechanism = way->mechanism,
		.switch_ns = has_controller(way) ? 0 : RBT_DEVICE_SWITCH_NS,
		.save_ns_per_kib = has_controller(way) ? 0 : RBT_DEVICE_SAVE_NS_PER_KIB};

	memset(s, 0, sizeof(*s));
	memset(r, 0, sizeof(*r));
	s->record = (struct record){.way = way, .r = r};
	device_world_init(&s->world, &config);
	begin_program(s, &s->best_effort, BEST_EFFORT, GRID, PREEMPTION_KERNELS, &s->words);
	/* A quarter as much: one block an SM. */
	begin_program(s, &s->urgent, URGENT, GRID / 4, 1, &s->urgent_words);
	device_schedule(&s->best_effort, has_controller(way) ? LONG_SLICE : way->slice_ns, 0);
	device_schedule(&s->urgent, has_controller(way) ? LONG_SLICE : OWN_SLICE,
		has_controller(way) ? 0 : 2);
	rbt_device_trace(s->world.dev, note, &s->record);
}

static void end(struct scene *s)
{
	device_program_finish(&s->best_effort);
	device_program_finish(&s->urgent);
	device_world_finish(&s->world);
}

static void replay(struct scene *s, const struct rbt_device_arrival *list, size_t n)
{
	if (rbt_device_replay(s->world.dev, list, n) < 0) {
		fprintf(stderr, "preemption: arrivals that cannot be\n");
		exit(1);
	}
}

static void run_to_end(struct scene *s)
{
	if (!device_world_run(&s->world, INSTRUCTIONS)) {
		fprintf(stderr, "preemption: it does not end\n");
		exit(1);
	}
}

static struct rbt_device_arrival arrival(const struct device_program *p, uint64_t at_ns)
{
	return (struct rbt_device_arrival){at_ns, p->ctx, 0, p->wptr[0]};
}

/*
 * Takes the best-effort program off when it has noticed, and lets it on again. Arrivals that bring
 * nothing make the device look up at the right moment (two, or it would run on for a quantum), and
 * an idle one's clock go there.
 */
static void control(struct scene *s, uint64_t at_ns)
{
	const struct preemption_way *way = s->record.way;
	uint64_t off_ns = at_ns + way->notice_ns + way->off_ns, on_ns;
	const struct rbt_context_schedule off = {
		.timeslice_ns = LONG_SLICE, .scheduled = true, .enabled = 0};
	struct rbt_device_arrival list[4] = {arrival(&s->best_effort, 0),
		arrival(&s->urgent, at_ns), arrival(&s->urgent, off_ns),
		arrival(&s->urgent, off_ns + 100)};

	replay(s, list, 4);
	while (rbt_device_now_ns(s->world.dev) < off_ns) {
		(void)rbt_device_step(s->world.dev, 1);
	}
	rbt_context_set_schedule(s->best_effort.ctx, &off);
	rbt_context_preempt(s->best_effort.ctx);
	run_to_end(s);
	on_ns = s->record.urgent_end_ns + way->notice_ns + way->on_ns;
	list[0] = arrival(&s->urgent, on_ns);
	replay(s, list, 1);
	run_to_end(s);
	device_schedule(&s->best_effort, LONG_SLICE, 0);
}

static uint32_t wrong_words(const struct scene *s)
{
	static uint32_t expected[PREEMPTION_WORDS];
	static bool known;
	const uint32_t *words = device_at(&s->world, s->words);
	uint32_t wrong = 0;

	for (uint32_t k = 0; !known && k < PREEMPTION_WORDS; k++) {
		expected[k] = k;
		for (uint32_t turn = 0; turn < TURNS * PREEMPTION_KERNELS; turn++) {
			expected[k] = expected[k] * 1664525 + 1013904223;
			expected[k] ^= expected[k] >> 13;
		}
	}
	known = true;
	for (uint32_t k = 0; k < PREEMPTION_WORDS; k++) {
		wrong += words[k] != expected[k];
	}
	return wrong;
}

/* Both alone: when the 25th kernel runs, and what to compare with. */
static void run_alone(struct preemption_alone *ret)
{
	static struct preemption_result r;
	static struct scene s;
	const struct record *rec = &s.record;
	struct rbt_device_arrival one;

	begin(&s, &preemption_ways[0], &r);
	one = arrival(&s.best_effort, 0);
	replay(&s, &one, 1);
	run_to_end(&s);
	end(&s);
	ret->best_effort_ns = rec->kernel_end_ns[PREEMPTION_KERNELS];
	ret->kernel_start_ns = rec->kernel_start_ns[PREEMPTION_AT];
	ret->kernel_ns = rec->kernel_end_ns[PREEMPTION_AT] - ret->kernel_start_ns;
	begin(&s, &preemption_ways[0], &r);
	one = arrival(&s.urgent, 0);
	replay(&s, &one, 1);
	run_to_end(&s);
	end(&s);
	ret->request_ns = rec->urgent_end_ns;
}

const struct preemption_alone *preemption_alone(void)
{
	static struct preemption_alone alone;

	if (alone.kernel_ns == 0) {
		run_alone(&alone);
	}
	return &alone;
}

static void fill_result(
	struct scene *s, const struct preemption_alone *alone, struct preemption_result *r)
{
	const struct record *rec = &s->record;
	struct rbt_context_stats stats = device_stats(&s->best_effort);

	r->detect_ns = rec->leave_ns - r->arrival_ns;
	r->preempt_ns = rec->urgent_start_ns - rec->leave_ns;
	r->resume_ns = rec->again_ns - rec->urgent_end_ns;
	r->request_ns = rec->urgent_end_ns - r->arrival_ns;
	r->best_effort_ns = rec->kernel_end_ns[PREEMPTION_KERNELS];
	r->request_delay_ns = r->request_ns - alone->request_ns;
	r->best_effort_delay_ns = r->best_effort_ns - alone->best_effort_ns;
	r->repeated = rec->begun - PREEMPTION_KERNELS;
	r->resubmitted = r->repeated + (uint32_t)stats.pending_cleared;
	r->repeated_instructions = stats.repeated_instructions;
	r->saved_bytes = stats.saved_bytes;
	r->wrong = wrong_words(s);
}

void preemption_run(
	const struct preemption_way *way, unsigned moment, struct preemption_result *ret)
{
	static struct scene s;
	const struct preemption_alone *alone = preemption_alone();
	uint64_t at_ns = alone->kernel_start_ns +
			 alone->kernel_ns * (2 * moment + 1) / (UINT64_C(2) * PREEMPTION_MOMENTS);

	begin(&s, way, ret);
	ret->arrival_ns = at_ns;
	if (has_controller(way)) {
		control(&s, at_ns);
	} else {
		const struct rbt_device_arrival list[2] = {
			arrival(&s.best_effort, 0), arrival(&s.urgent, at_ns)};

		replay(&s, list, 2);
	}
	run_to_end(&s);
	fill_result(&s, alone, ret);
	end(&s);
}
