/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite of kernels through rings: 8 contexts at once, each with its share of the cases, with
 * random slices from 1 us on, on any SMs. Every result is as its reference says, whichever way the
 * SMs are taken away exactly.
 * usage: test_device_suite KERNELS
 */
#include <stdlib.h>
#include <string.h>

#include "../kernels/cases.h"
#include "check.h"
#include "test_device_world.h"

#define PROGRAMS 8u
#define STEP     20000u
#define ROUNDS   100000u

/* A program that runs one case after another, each in a context of its own. */
struct runner {
	struct device_program p;
	const struct kcase *kase;
	struct kcase_data data;
	uint64_t va[KCASE_BUFFERS];
};

static const char *directory;
static struct device_world world;
static struct runner runners[PROGRAMS];
static uint64_t random_state = 88172645463325252ull;
static unsigned n_cases;
static uint64_t preempts;

static uint32_t below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 16) % limit);
}

static const struct kcase *next_case(void)
{
	static size_t n;

	return kcase_at(n++);
}

static void launch(struct runner *r)
{
	const struct rbt_ptx_function *fn = rbt_ptx_find_entry(r->p.ptx, r->kase->entry);
	uint8_t params[512] = {0};
	struct gpu_launch c = {.h = {GPU_CMD_LAUNCH, 1, 0}, .module = r->p.module};

	kcase_pack(r->kase, r->va, params, sizeof(params));
	memcpy(c.grid, r->kase->grid, sizeof(c.grid));
	memcpy(c.block, r->kase->block, sizeof(c.block));
	c.function = (uint32_t)(fn - r->p.ptx->functions);
	c.shared = r->kase->dynamic_shared;
	c.param_size = fn->param_size;
	c.h.slots += (uint16_t)((fn->param_size + GPU_SLOT_BYTES - 1) / GPU_SLOT_BYTES);
	device_put(&r->p, 0, &c, params, fn->param_size);
	device_publish(&r->p, 0);
}

static void begin_case(struct runner *r, const struct kcase *kase)
{
	r->kase = kase;
	device_program_init(&r->p, &world, 1, ++n_cases);
	device_program_load_file(&r->p, directory, kase->module);
	if (!kcase_prepare(kase, &r->data)) {
		abort();
	}
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		r->va[k] = device_program_alloc(&r->p, kase->buffers[k].size);
		memcpy(device_at(&world, r->va[k]), r->data.bytes[k], kase->buffers[k].size);
	}
	device_schedule(&r->p, 1000u << below(8), below(3));
	launch(r);
}

static void end_case(struct runner *r)
{
	for (unsigned k = 0; k < kcase_buffer_count(r->kase); k++) {
		int64_t at = kcase_compare(r->kase, &r->data, k, device_at(&world, r->va[k]));

		CHECK_INT(at, -1);
		if (at >= 0) {
			fprintf(stderr, "%s: buffer %u\n", r->kase->entry, k);
		}
	}
	CHECK_INT(r->p.room->error, 0);
	preempts += device_stats(&r->p).preempts;
	kcase_free(&r->data);
	device_program_finish(&r->p);
	r->kase = NULL;
}

/* Starts and ends cases; returns how many are under way. */
static unsigned tend(void)
{
	unsigned busy = 0;

	for (unsigned k = 0; k < PROGRAMS; k++) {
		struct runner *r = &runners[k];

		if (r->kase && (device_done(&r->p, 0) == 1 || r->p.room->error)) {
			end_case(r);
		}
		if (!r->kase) {
			const struct kcase *kase = next_case();

			if (kase) {
				begin_case(r, kase);
			}
		}
		busy += r->kase != NULL;
	}
	return busy;
}

int main(int argc, char **argv)
{
	unsigned rounds = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: test_device_suite KERNELS\n");
		return 2;
	}
	directory = argv[1];
	device_world_init(&world, &(struct rbt_device_config){.n_sms = 4,
					  .mechanism = RBT_MECHANISM_EXACT,
					  .switch_ns = 500,
					  .save_ns_per_kib = 1});
	while (tend() > 0 && rounds++ < ROUNDS) {
		(void)rbt_device_step(world.dev, STEP);
		if (below(4) == 0 && runners[0].kase) {
			rbt_context_preempt(runners[0].p.ctx);
		}
	}
	CHECK(rounds < ROUNDS);
	CHECK(n_cases > 50 && preempts > n_cases);
	fprintf(stderr, "%u cases, %llu preemptions\n", n_cases, (unsigned long long)preempts);
	device_world_finish(&world);
	return check_result();
}
