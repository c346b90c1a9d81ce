/* SPDX-License-Identifier: Apache-2.0 */
/* Of a program with several clients, those are roused that are back, whatever becomes of others. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "daemon/daemon.h"
#include "util/time.h"

#define N_HOLDS 3

static struct daemon d;
static struct program prog;
static struct hold holds[N_HOLDS];
static struct rbt_holding mine[N_HOLDS];
static unsigned rouses[N_HOLDS];
static int errors[N_HOLDS];

static int rouse_task(const struct rbt_record *rec, enum rbt_scope scope)
{
	return 0;
}

static const struct rbt_backend nvidia = {.rouse = rouse_task}, amd;

const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	return id == RBT_BACKEND_NVIDIA ? &nvidia : &amd;
}

int hand_rouse(struct daemon *ignored, struct hold *h)
{
	rouses[h->id]++;
	return errors[h->id];
}

/* All of them on, and of nobody anything is known. */
static void begin(void)
{
	memset(&d, 0, sizeof(d));
	memset(&prog, 0, sizeof(prog));
	memset(holds, 0, sizeof(holds));
	memset(mine, 0, sizeof(mine));
	memset(rouses, 0, sizeof(rouses));
	memset(errors, 0, sizeof(errors));
	d.rouse_ns = UINT64_MAX;
	LIST_INSERT_HEAD(&d.programs, &prog, link);
	for (uint32_t i = N_HOLDS; i-- > 0;) {
		holds[i].id = i;
		holds[i].mine = &mine[i];
		holds[i].backend = RBT_BACKEND_NVIDIA;
		LIST_INSERT_HEAD(&prog.holds, &holds[i], link);
	}
}

enum state { ON, OFF };

static void set(enum state first, enum state others)
{
	for (uint32_t i = 0; i < N_HOLDS; i++) {
		bool is_off = (i == 0 ? first : others) == OFF;
		struct rbt_action action = {.op = is_off ? RBT_ACT_SUSPEND : RBT_ACT_RESUME,
			.scope = RBT_SCOPE_COMPUTE};

		if (is_off != mine[i].applied.is_off) {
			rbt_holding_apply(&mine[i], &action, 0);
		}
	}
	rouse_applied(&d, &prog, rbt_now_ns());
}

static void all_are_roused(void)
{
	begin();
	holds[2].backend = RBT_BACKEND_AMD;
	set(ON, ON);
	CHECK(rouses[0] == 0 && !prog.doubt.is_off);
	set(OFF, OFF);
	CHECK(rouses[0] == 0 && prog.doubt.is_off);
	set(ON, ON);
	CHECK(rouses[0] == 1 && rouses[1] == 1 && rouses[2] == 0);
	set(ON, ON);
	CHECK(rouses[0] == 1 && rouses[1] == 1);
}

/* The hand may not have one of them. */
static void others_are_roused_after_an_error(void)
{
	begin();
	errors[0] = -ENOENT;
	set(OFF, OFF);
	set(ON, ON);
	CHECK(rouses[1] == 1 && rouses[2] == 1);
	/* Whereas a lost one has roused everybody. */
	errors[0] = -ENOTCONN;
	set(OFF, OFF);
	set(ON, ON);
	CHECK(rouses[1] == 1 && rouses[2] == 1);
}

/* The driver does not let one of them back. */
static void one_is_off_for_good(void)
{
	begin();
	set(OFF, OFF);
	for (unsigned i = 1; i <= 3; i++) {
		set(OFF, ON);
		CHECK(rouses[0] == 0 && rouses[1] == i && rouses[2] == i);
		set(OFF, ON);
		CHECK(rouses[1] == i && !prog.doubt.is_off);
		set(OFF, OFF);
		CHECK(prog.doubt.is_off);
	}
	set(OFF, ON);
	set(ON, ON);
	CHECK_INT(rouses[0], 1);
	/* It goes while it is off. */
	set(OFF, ON);
	CHECK(prog.doubt.is_off);
	LIST_REMOVE(&holds[0], link);
	rouse_applied(&d, &prog, rbt_now_ns());
	CHECK(!prog.doubt.is_off);
}

static void who_is_due_is_looked_at(void)
{
	begin();
	uint64_t later_ns = rbt_now_ns() + 1000 * RBT_NS_PER_S;

	prog.doubt.look_ns = d.rouse_ns = later_ns;
	rouse_run(&d);
	CHECK(rouses[0] == 0 && d.rouse_ns == later_ns);
	/* Another's time has come. */
	d.rouse_ns = 1;
	rouse_run(&d);
	CHECK(rouses[0] == 0 && d.rouse_ns == later_ns);
	prog.doubt.look_ns = d.rouse_ns = 1;
	rouse_run(&d);
	CHECK(rouses[0] == 1 && d.rouse_ns == UINT64_MAX && prog.doubt.look_ns == 0);
}

int main(void)
{
	all_are_roused();
	others_are_roused_after_an_error();
	one_is_off_for_good();
	who_is_due_is_looked_at();
	return check_result();
}
