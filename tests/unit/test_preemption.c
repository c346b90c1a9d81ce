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

static void run(const char *name, unsigned moment, struct preemption_result *ret)
{
	preemption_run(find(name), moment, ret);
	/* Whatever was done to them, all 100 ended, after the request. */
	CHECK(ret->request_delay_ns > 0 && ret->best_effort_delay_ns > 0);
	CHECK(ret->request_ns >= preemption_alone()->request_ns);
	CHECK(ret->best_effort_ns > ret->arrival_ns + ret->request_ns);
}

static void test_nothing_repeated(const char *name, bool saves)
{
	static struct preemption_result r;
	const uint64_t switches_ns = 2 * RBT_DEVICE_SWITCH_NS;

	run(name, PREEMPTION_MIDDLE, &r);
	CHECK_INT(r.repeated, 0);
	CHECK_INT(r.resubmitted, 0);
	CHECK_INT(r.repeated_instructions, 0);
	CHECK_INT(r.wrong, 0);
	CHECK_INT(r.saved_bytes > 0, saves);
	/* The request, two switches, and what little was saved. */
	CHECK(r.best_effort_delay_ns >= preemption_alone()->request_ns + switches_ns);
	CHECK(r.best_effort_delay_ns < preemption_alone()->request_ns + switches_ns + 10000);
}

static void test_reset(unsigned moment)
{
	static struct preemption_result r;
	unsigned again = 0;

	run("reset", moment, &r);
	CHECK_INT(r.repeated, 2);
	/* And the 75 that were still in the ring. */
	CHECK_INT(r.resubmitted, 77);
	CHECK(r.wrong > 0);
	CHECK(r.repeated_instructions > 0);
	CHECK_INT(r.saved_bytes, 0);
	CHECK(r.best_effort_delay_ns > preemption_alone()->kernel_ns);
	for (uint32_t k = 0; k < r.n_spans; k++) {
		if (r.spans[k].again) {
			CHECK_INT(r.spans[k].kernel, 24 + again);
			again++;
		}
	}
	CHECK_INT(again, 2);
}

static void test_flag(void)
{
	static struct preemption_result r;

	run("flag", PREEMPTION_MIDDLE, &r);
	CHECK_INT(r.repeated, 1);
	CHECK_INT(r.resubmitted, 1);
}

/* Who is at once, and who lets the request wait. */
static void test_request(void)
{
	static struct preemption_result exact, own, one, drain;

	run("exact", PREEMPTION_MIDDLE, &exact);
	run("timeslice, 2048 µs", PREEMPTION_MIDDLE, &own);
	run("timeslice, 1 µs", PREEMPTION_MIDDLE, &one);
	run("drain", PREEMPTION_MIDDLE, &drain);
	CHECK(exact.detect_ns < 1000);
	CHECK(exact.request_delay_ns < RBT_DEVICE_SWITCH_NS + 10000);
	CHECK(one.request_delay_ns < exact.request_delay_ns + 5000);
	CHECK(drain.preempt_ns > preemption_alone()->kernel_ns / 4);
	CHECK(own.detect_ns > preemption_alone()->kernel_ns);
}

static void test_controllers(void)
{
	static struct preemption_result r;

	for (const struct preemption_way *w = preemption_controllers; w->name; w++) {
		uint64_t wait_ns = w->notice_ns + w->off_ns;

		preemption_run(w, PREEMPTION_MIDDLE, &r);
		CHECK(r.request_delay_ns >= wait_ns && r.request_delay_ns < wait_ns + 1000);
		CHECK_INT(r.repeated, 0);
		CHECK_INT(r.resubmitted, 0);
		CHECK_INT(r.wrong, 0);
	}
}

/* To the digit. */
static void test_again(void)
{
	static struct preemption_result a, b;

	preemption_run(find("reset"), 3, &a);
	preemption_run(find("reset"), 3, &b);
	CHECK_INT(memcmp(&a, &b, sizeof(a)), 0);
}

int main(void)
{
	test_nothing_repeated("exact", true);
	test_nothing_repeated("timeslice, 1 µs", true);
	test_nothing_repeated("timeslice, 2048 µs", true);
	test_nothing_repeated("drain", false);
	test_reset(0);
	test_reset(PREEMPTION_MIDDLE);
	test_reset(PREEMPTION_MOMENTS - 1);
	test_flag();
	test_request();
	test_controllers();
	test_again();
	return check_result();
}
