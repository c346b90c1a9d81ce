/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What docs/preemption.md says of its scenario: exact repeats nothing and resubmits nothing, reset
 * repeats two kernels and spoils the result.
 */
#include <stdlib.h>
#include <string.h>

#include "../../bench/preemption.h"
#include "check.h"

static const struct preemption_way *find(const char *name)
{
	for (const struct preemption_way *w = preemption_ways; w->name; w++) {
		if (strcmp(w->name, name) == 0) {
			return w;
		}
	}
	fprintf(stderr, "no way is called %s\n", name);
	exit(1);
}

/* All ways at one moment, each run once. */
static const struct preemption_result *run(const char *name)
{
	static struct preemption_result results[8];
	const struct preemption_way *w = find(name);
	struct preemption_result *r = &results[w - preemption_ways];

	if (r->arrival_ns == 0) {
		preemption_run(w, PREEMPTION_MIDDLE, r);
	}
	/* Whatever was done to them, all 100 ended, after the request. */
	CHECK(r->request_delay_ns > 0 && r->best_effort_delay_ns > 0);
	CHECK(r->request_ns >= preemption_alone()->request_ns);
	CHECK(r->best_effort_ns > r->arrival_ns + r->request_ns);
	return r;
}

static void test_nothing_repeated(const char *name, bool saves)
{
	const struct preemption_result *r = run(name);
	const uint64_t switches_ns = 2 * RBT_DEVICE_SWITCH_NS;

	CHECK_INT(r->repeated, 0);
	CHECK_INT(r->resubmitted, 0);
	CHECK_INT(r->repeated_instructions, 0);
	CHECK_INT(r->wrong, 0);
	CHECK_INT(r->saved_bytes > 0, saves);
	/* The request, two switches, and what little was saved. */
	CHECK(r->best_effort_delay_ns >= preemption_alone()->request_ns + switches_ns);
	CHECK(r->best_effort_delay_ns < preemption_alone()->request_ns + switches_ns + 10000);
}

static void check_reset(const struct preemption_result *r)
{
	unsigned again = 0;

	CHECK_INT(r->repeated, 3);
	/* And the 75 that were still in the ring. */
	CHECK_INT(r->resubmitted, 78);
	CHECK(r->wrong > 0);
	CHECK(r->repeated_instructions > 0);
	CHECK_INT(r->saved_bytes, 0);
	CHECK(r->best_effort_delay_ns > preemption_alone()->kernel_ns);
	for (uint32_t k = 0; k < r->n_spans; k++) {
		if (r->spans[k].again) {
			CHECK_INT(r->spans[k].kernel, 23 + again);
			again++;
		}
	}
	CHECK_INT(again, 3);
}

/* At either end of the kernel, too; and to the digit. */
static void test_reset(void)
{
	static struct preemption_result r;

	check_reset(run("reset"));
	preemption_run(find("reset"), 0, &r);
	check_reset(&r);
	preemption_run(find("reset"), PREEMPTION_MOMENTS - 1, &r);
	check_reset(&r);
	preemption_run(find("reset"), PREEMPTION_MIDDLE, &r);
	CHECK_INT(memcmp(run("reset"), &r, sizeof(r)), 0);
}

static void test_flag(void)
{
	CHECK_INT(run("flag")->repeated, 1);
	CHECK_INT(run("flag")->resubmitted, 1);
	CHECK(run("flag")->wrong > 0);
}

/* Which mechanisms act at once, and which let the request wait. */
static void test_request(void)
{
	const struct preemption_result *exact = run("exact");

	CHECK(exact->detect_ns < 1000);
	CHECK(exact->request_delay_ns < RBT_DEVICE_SWITCH_NS + 10000);
	CHECK(run("timeslice, 1 µs")->request_delay_ns < exact->request_delay_ns + 5000);
	CHECK(run("drain")->preempt_ns > preemption_alone()->kernel_ns / 4);
	CHECK(run("timeslice, 2048 µs")->detect_ns > preemption_alone()->kernel_ns);
}

static void test_controller(const struct preemption_way *w)
{
	static struct preemption_result r;
	uint64_t wait_ns = w->notice_ns + w->off_ns;

	preemption_run(w, PREEMPTION_MIDDLE, &r);
	CHECK(r.request_delay_ns >= wait_ns && r.request_delay_ns < wait_ns + 1000);
	CHECK_INT(r.repeated, 0);
	CHECK_INT(r.resubmitted, 0);
	CHECK_INT(r.wrong, 0);
}

int main(void)
{
	test_nothing_repeated("exact", true);
	test_nothing_repeated("timeslice, 1 µs", true);
	test_nothing_repeated("timeslice, 2048 µs", true);
	test_nothing_repeated("drain", false);
	test_reset();
	test_flag();
	test_request();
	test_controller(&preemption_controllers[0]);
	test_controller(&preemption_controllers[2]);
	return check_result();
}
