/* SPDX-License-Identifier: Apache-2.0 */
/* The rule that prevents collapse, case by case and over random crowds. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sched/class.h"
#include "sched/core.h"

#define OWN_US 2048

static struct rbt_claim claim(uint32_t gpu, uint64_t wanted_us)
{
	return (struct rbt_claim){
		.gpu = gpu, .n_compute = 1, .wanted_us = wanted_us, .own_us = OWN_US};
}

static void plan(struct rbt_claim *claims, size_t n, uint32_t locked, uint32_t *ret_wanted)
{
	rbt_sched_plan(claims, n, &(struct rbt_sched_gpus){.locked = locked}, ret_wanted);
}

/* Another scheduler that wants the same is company, and the lock stays where it is. */
static void test_rival(void)
{
	struct rbt_claim c[2] = {claim(0, 1), claim(1, 1)};
	uint32_t wanted = 0;

	rbt_sched_plan(c, 2, &(struct rbt_sched_gpus){.locked = 3, .marked = 1}, &wanted);
	CHECK_INT(c[0].denial, RBT_DENIED_RIVAL);
	CHECK_INT(c[0].granted_us, RBT_TIMESLICE_OWN);
	CHECK_INT(c[1].granted_us, 1);
	CHECK_INT(wanted, 3);
}

static void test_alone(void)
{
	struct rbt_claim c = claim(0, 1);
	uint32_t wanted = 0;

	plan(&c, 1, 0, &wanted);
	CHECK_INT(c.denial, RBT_DENIED_LOCK);
	CHECK_INT(c.granted_us, RBT_TIMESLICE_OWN);
	CHECK_INT(wanted, 1);
	plan(&c, 1, 1, &wanted);
	CHECK_INT(c.denial, RBT_DENIED_NOTHING);
	CHECK_INT(c.granted_us, 1);
	CHECK_INT(wanted, 1);
}

static void test_longer_needs_no_lock(void)
{
	struct rbt_claim c[2] = {claim(0, OWN_US * 2), claim(0, OWN_US * 2)};
	uint32_t wanted = 7;

	plan(c, 2, 0, &wanted);
	CHECK_INT(wanted, 0);
	CHECK_INT(c[0].granted_us, OWN_US * 2);
	CHECK_INT(c[1].granted_us, OWN_US * 2);
}

static void test_company(void)
{
	struct rbt_claim c[3] = {claim(0, 1), claim(0, 50), claim(1, 1)};
	uint32_t wanted = 0;

	plan(c, 3, 3, &wanted);
	CHECK_INT(c[0].denial, RBT_DENIED_COMPANY);
	CHECK_INT(c[1].denial, RBT_DENIED_COMPANY);
	CHECK_INT(c[0].granted_us, RBT_TIMESLICE_OWN);
	CHECK_INT(c[2].granted_us, 1); /* another GPU is another matter */
	CHECK_INT(wanted, 3);
}

static void test_suspended_is_no_company(void)
{
	struct rbt_claim c[2] = {claim(0, 1), claim(0, 1)};
	uint32_t wanted = 0;

	c[1].suspended = true;
	plan(c, 2, 1, &wanted);
	CHECK_INT(c[0].granted_us, 1);
	CHECK_INT(c[1].denial, RBT_DENIED_SUSPENDED);
	CHECK_INT(c[1].granted_us, RBT_TIMESLICE_OWN);
}

/* A program with two contexts would thrash against itself. */
static void test_own_company(void)
{
	struct rbt_claim c = claim(0, 1);
	uint32_t wanted = 0;

	c.n_compute = 2;
	plan(&c, 1, 1, &wanted);
	CHECK_INT(c.denial, RBT_DENIED_COMPANY);
}

/* Whatever the crowd: at most one runnable short-slice task a GPU, none without the lock, and
 * nobody who wanted none gets one. */
static void test_random_crowds(void)
{
	srand(20260101);
	for (int round = 0; round < 20000; round++) {
		struct rbt_claim c[24];
		size_t n = 1 + (size_t)rand() % 24;
		uint32_t locks = (uint32_t)rand() & 0xf, marks = (uint32_t)rand() & 0xf, wanted = 0;
		unsigned runnable[4] = {0};

		for (size_t i = 0; i < n; i++) {
			static const uint64_t wishes[] = {0, 1, 50, 2047, 2048, 100000};
			c[i] = claim((uint32_t)rand() % 4, wishes[rand() % 6]);
			c[i].n_compute = 1 + (uint32_t)rand() % 2;
			c[i].suspended = rand() % 4 == 0;
		}
		rbt_sched_plan(
			c, n, &(struct rbt_sched_gpus){.locked = locks, .marked = marks}, &wanted);
		for (size_t i = 0; i < n; i++) {
			bool got_short =
				c[i].granted_us != RBT_TIMESLICE_OWN && c[i].granted_us < OWN_US;
			if (!got_short) {
				continue;
			}
			CHECK((locks & ~marks & wanted & (1u << c[i].gpu)) != 0);
			CHECK_INT(c[i].granted_us, c[i].wanted_us);
			runnable[c[i].gpu] += c[i].suspended ? 0 : c[i].n_compute;
		}
		for (int g = 0; g < 4; g++) {
			CHECK(runnable[g] <= 1);
		}
	}
}

int main(void)
{
	test_alone();
	test_rival();
	test_longer_needs_no_lock();
	test_company();
	test_suspended_is_no_company();
	test_own_company();
	test_random_crowds();
	return check_result();
}
