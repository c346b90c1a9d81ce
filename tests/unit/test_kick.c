/* SPDX-License-Identifier: Apache-2.0 */
/* Of a program with several clients, those are kicked that are back, whatever becomes of others. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "daemon/daemon.h"
#include "daemon/edge.h"
#include "daemon/handlink.h"
#include "daemon/kick.h"
#include "util/time.h"

#define N_HOLDS 3

static struct daemon d;
static struct program prog;
static struct client clients[N_HOLDS];
static struct rbt_holding mine[N_HOLDS];
static unsigned kicks[N_HOLDS];
static int errors[N_HOLDS];

static int kick_task(const struct rbt_record *rec, enum rbt_scope scope)
{
	return 0;
}

static const struct rbt_backend nvidia = {.kick = kick_task}, amd;

const struct rbt_backend *rbt_backend_by_id(uint32_t id)
{
	return id == RBT_BACKEND_NVIDIA ? &nvidia : &amd;
}

int hand_kick(struct daemon *ignored, struct client *h)
{
	kicks[h->id]++;
	return errors[h->id];
}

/* All of them on, and of nobody anything is known. */
static void begin(void)
{
	memset(&d, 0, sizeof(d));
	memset(&prog, 0, sizeof(prog));
	memset(clients, 0, sizeof(clients));
	memset(mine, 0, sizeof(mine));
	memset(kicks, 0, sizeof(kicks));
	memset(errors, 0, sizeof(errors));
	d.kick_ns = UINT64_MAX;
	LIST_INSERT_HEAD(&d.programs, &prog, entries);
	for (uint32_t i = N_HOLDS; i-- > 0;) {
		clients[i].id = i;
		clients[i].mine = &mine[i];
		clients[i].backend = RBT_BACKEND_NVIDIA;
		LIST_INSERT_HEAD(&prog.clients, &clients[i], entries);
	}
}

/* As at the end of a round. */
static struct edge take_note(void)
{
	struct edge edge = edge_take(&prog);

	kick_applied(&d, &prog, &edge, rbt_now_ns());
	return edge;
}

static bool is_on(void)
{
	return prog.doubt.on_ns != 0;
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
	take_note();
}

static void all_are_kicked(void)
{
	begin();
	clients[2].backend = RBT_BACKEND_AMD;
	set(ON, ON);
	CHECK(kicks[0] == 0 && prog.doubt.since_ns == 0);
	set(OFF, OFF);
	CHECK(kicks[0] == 0 && !is_on());
	set(ON, ON);
	CHECK(kicks[0] == 1 && kicks[1] == 1 && kicks[2] == 0);
	set(ON, ON);
	CHECK(kicks[0] == 1 && kicks[1] == 1);
}

/* The hand may not have one of them. */
static void others_are_kicked_after_an_error(void)
{
	begin();
	errors[0] = -ENOENT;
	set(OFF, OFF);
	set(ON, ON);
	CHECK(kicks[1] == 1 && kicks[2] == 1);
	/* Whereas a lost one has kicked everybody. */
	errors[0] = -ENOTCONN;
	set(OFF, OFF);
	set(ON, ON);
	CHECK(kicks[1] == 1 && kicks[2] == 1);
}

/* The driver does not let one of them back. */
static void one_is_off_for_good(void)
{
	begin();
	set(OFF, OFF);
	for (unsigned i = 1; i <= 3; i++) {
		set(OFF, ON);
		CHECK(kicks[0] == 0 && kicks[1] == i && kicks[2] == i);
		set(OFF, ON);
		CHECK(kicks[1] == i && is_on());
		set(OFF, OFF);
		CHECK(!is_on());
	}
	set(OFF, ON);
	set(ON, ON);
	CHECK_INT(kicks[0], 1);
	/* It goes while it is off. */
	set(OFF, ON);
	CHECK(!is_on());
	edge_release(&prog, &clients[0]);
	LIST_REMOVE(&clients[0], entries);
	take_note();
	CHECK(is_on());
}

static void apply_to(uint32_t i, uint32_t op, enum rbt_scope scope, int result)
{
	struct rbt_action action = {.op = op, .scope = scope};

	rbt_holding_apply(&mine[i], &action, result);
}

/* Edges are between two rounds, whatever has happened in one. */
static void edges_are_taken_once(void)
{
	const unsigned both = RBT_IS_OFF | RBT_IS_IN_TURNS;
	struct edge e;

	begin();
	apply_to(0, RBT_ACT_SUSPEND, RBT_SCOPE_COMPUTE, RBT_UNDERWAY);
	apply_to(0, RBT_ACT_SUSPEND, RBT_SCOPE_COMPUTE, -EIO);
	e = take_note();
	CHECK(e.was == 0 && e.is == both && e.gone == both && e.back == 0);
	e = take_note();
	CHECK(e.was == both && e.is == both && e.gone == 0 && e.back == 0);
	/* Off and on again, or on and off. */
	apply_to(1, RBT_ACT_SUSPEND, RBT_SCOPE_ALL, 0);
	apply_to(1, RBT_ACT_RESUME, RBT_SCOPE_ALL, 0);
	apply_to(0, RBT_ACT_RESUME, RBT_SCOPE_COMPUTE, 0);
	apply_to(0, RBT_ACT_SUSPEND, RBT_SCOPE_COMPUTE, 0);
	e = take_note();
	CHECK(e.was == both && e.is == both && e.gone == 0 && e.back == 0);
	/* From turns to a command: off all the time. */
	apply_to(0, RBT_ACT_SUSPEND, RBT_SCOPE_ALL, 0);
	e = take_note();
	CHECK(e.was == both && e.is == RBT_IS_OFF && e.gone == 0 && e.back == RBT_IS_IN_TURNS);
	/* A hold goes; another is still off, and then not. */
	apply_to(1, RBT_ACT_SUSPEND, RBT_SCOPE_COMPUTE, 0);
	(void)take_note();
	apply_to(0, RBT_ACT_RESUME, RBT_SCOPE_ALL, 0);
	edge_release(&prog, &clients[0]);
	LIST_REMOVE(&clients[0], entries);
	e = take_note();
	CHECK(e.was == both && e.is == both && e.back == 0);
	edge_release(&prog, &clients[1]);
	LIST_REMOVE(&clients[1], entries);
	e = take_note();
	CHECK(e.was == both && e.is == 0 && e.back == both);
}

static void who_is_due_is_looked_at(void)
{
	begin();
	uint64_t later_ns = rbt_now_ns() + 1000 * RBT_NS_PER_S;

	prog.doubt.check_ns = d.kick_ns = later_ns;
	kick_run(&d);
	CHECK(kicks[0] == 0 && d.kick_ns == later_ns);
	/* Another's time has come. */
	d.kick_ns = 1;
	kick_run(&d);
	CHECK(kicks[0] == 0 && d.kick_ns == later_ns);
	prog.doubt.check_ns = d.kick_ns = 1;
	kick_run(&d);
	CHECK(kicks[0] == 1 && d.kick_ns == UINT64_MAX && prog.doubt.check_ns == 0);
}

int main(void)
{
	all_are_kicked();
	others_are_kicked_after_an_error();
	one_is_off_for_good();
	edges_are_taken_once();
	who_is_due_is_looked_at();
	return check_result();
}
