/* SPDX-License-Identifier: Apache-2.0 */
/* The RM model's quirks: what is not looked at, from when on, and what brings it back. */
#include "test_softgpu_world.h"

static void begin_with(uint32_t quirks)
{
	struct rbt_rm_config config = {.driver_version = "580.159.04",
		.n_gpus = 1,
		.memory_bytes = 1ull << 30,
		.quirks = quirks};

	rm = rbt_rm_create(&config);
	mine = rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, 1, CALLER, 0);
	caller = CALLER;
}

static void schedule(const struct program *p, uint32_t tsg)
{
	struct nv_schedule_params params = {.enable = 1};

	CHECK_INT(control_as(mine, p->client, tsg, NV_CTRL_TSG_GPFIFO_SCHEDULE, &params,
			  NV_SCHEDULE_PARAMS_SIZE),
		NV_OK);
}

static void set_slice(const struct program *p, uint32_t tsg, uint64_t us)
{
	struct nv_timeslice_params params = {.timeslice_us = us};

	CHECK_INT(control_as(
			  mine, p->client, tsg, NV_CTRL_TSG_SET_TIMESLICE, &params, sizeof(params)),
		NV_OK);
}

static void preempt(const struct program *p, uint32_t tsg)
{
	struct nv_preempt_params params = {.wait = 1};

	CHECK_INT(control_as(mine, p->client, tsg, NV_CTRL_TSG_PREEMPT, &params, sizeof(params)),
		NV_OK);
}

enum how { ENABLE, DISABLE, DISABLE_SCHEDULING };

static void turn(const struct program *p, const uint32_t *channels, uint32_t n, enum how how)
{
	struct nv_disable_channels_params params = {.disable = how != ENABLE,
		.only_disable_scheduling = how == DISABLE_SCHEDULING,
		.count = n};

	for (uint32_t i = 0; i < n; i++) {
		params.client[i] = p->client;
		params.channel[i] = channels[i];
	}
	CHECK_INT(control_as(mine, p->client, p->subdevice, NV_CTRL_FIFO_DISABLE_CHANNELS, &params,
			  sizeof(params)),
		NV_OK);
}

/* As it is once its program has set it up. */
static struct program ready_program(void)
{
	struct program p = make_program(0, 8);

	schedule(&p, p.tsg);
	schedule(&p, p.copy);
	set_slice(&p, p.tsg, 2048);
	return p;
}

static struct rbt_rm_group group_of(const struct program *p)
{
	struct rbt_rm_group group = {0};

	CHECK_INT(rbt_rm_get_group(rm, p->client, p->tsg, p->channels, 8, &group), 0);
	return group;
}

static bool runs(const struct program *p)
{
	struct rbt_rm_group group = group_of(p);

	return group.scheduled && group.enabled == 0xff;
}

static void test_names(void)
{
	uint32_t quirks = 77;

	CHECK_INT(rbt_rm_quirks_parse("all", &quirks), 0);
	CHECK_INT(quirks, RBT_RM_QUIRKS_ALL);
	CHECK_INT(rbt_rm_quirks_parse("none", &quirks), 0);
	CHECK_INT(quirks, 0);
	CHECK_INT(rbt_rm_quirks_parse("setup,slow-calls", &quirks), 0);
	CHECK_INT(quirks, RBT_RM_QUIRK_SETUP | RBT_RM_QUIRK_SLOW_CALLS);
	CHECK_INT(rbt_rm_quirks_parse("drowsy", &quirks), 0);
	for (uint32_t bit = 1; bit <= RBT_RM_QUIRKS_ALL; bit <<= 1) {
		CHECK_INT(rbt_rm_quirks_parse(rbt_rm_quirk_name(bit), &quirks), 0);
		CHECK_INT(quirks, bit);
	}
	CHECK(rbt_rm_quirk_name(RBT_RM_QUIRKS_ALL + 1) == NULL);
	quirks = 77;
	CHECK_INT(rbt_rm_quirks_parse("", &quirks), -EINVAL);
	CHECK_INT(rbt_rm_quirks_parse("drows", &quirks), -EINVAL);
	CHECK_INT(rbt_rm_quirks_parse("drowsy,", &quirks), -EINVAL);
	CHECK_INT(rbt_rm_quirks_parse("drowsy,none", &quirks), -EINVAL);
	CHECK_INT(quirks, 77);
}

static void test_without(void)
{
	begin_with(0);
	struct program p = make_program(0, 8);

	schedule(&p, p.tsg);
	turn(&p, p.channels, 8, DISABLE_SCHEDULING);
	turn(&p, p.channels, 8, ENABLE);
	CHECK(runs(&p));
	CHECK_INT(delay_us, 0);
	end();
}

static void test_drowsy(void)
{
	begin_with(RBT_RM_QUIRK_DROWSY);
	struct program p = ready_program(), q = ready_program();

	turn(&p, p.channels, 8, DISABLE_SCHEDULING);
	CHECK(!look(&p, p.tsg).asleep);
	/* Nothing that comes before it is enabled helps. */
	set_slice(&p, p.tsg, 2048);
	preempt(&p, p.tsg);
	turn(&p, p.channels, 8, ENABLE);
	CHECK(look(&p, p.tsg).asleep && !runs(&p));
	/* Nor does any of these. */
	turn(&p, p.channels, 8, ENABLE);
	schedule(&p, p.tsg);
	preempt(&p, p.tsg);
	turn(&p, p.channels, 8, DISABLE);
	turn(&p, p.channels, 8, ENABLE);
	CHECK(!runs(&p));
	set_slice(&p, p.tsg, 2048);
	CHECK(!look(&p, p.tsg).asleep && runs(&p));
	/* It was preempted: never again. */
	turn(&p, p.channels, 8, DISABLE_SCHEDULING);
	turn(&p, p.channels, 8, ENABLE);
	CHECK(runs(&p) && runs(&q));
	/* A slice alone is good for once, with a preemption that nobody waits for as well. */
	for (int i = 0; i < 2; i++) {
		turn(&q, q.channels, 8, DISABLE_SCHEDULING);
		turn(&q, q.channels, 8, ENABLE);
		CHECK(!runs(&q));
		struct nv_preempt_params at_once = {0};
		CHECK_INT(control_as(mine, q.client, q.tsg, NV_CTRL_TSG_PREEMPT, &at_once,
				  sizeof(at_once)),
			NV_OK);
		set_slice(&q, q.tsg, 1);
		CHECK(runs(&q));
	}
	end();
}

static void test_awake_for_good(void)
{
	begin_with(RBT_RM_QUIRK_DROWSY);
	struct program p = ready_program(), q = ready_program(), r = ready_program();

	preempt(&p, p.tsg);
	turn(&q, q.channels, 8, DISABLE);
	turn(&q, q.channels, 8, ENABLE);
	CHECK(runs(&q));
	turn(&p, p.channels, 8, DISABLE_SCHEDULING);
	turn(&q, q.channels, 8, DISABLE_SCHEDULING);
	turn(&r, r.channels, 1, DISABLE_SCHEDULING);
	turn(&p, p.channels, 8, ENABLE);
	turn(&q, q.channels, 8, ENABLE);
	turn(&r, r.channels, 1, ENABLE);
	CHECK(runs(&p) && runs(&q));
	CHECK(!runs(&r)); /* one channel is enough */
	end();
}

static void test_drowsy_copies(void)
{
	begin_with(RBT_RM_QUIRK_DROWSY);
	struct program p = ready_program(), q = ready_program();

	turn(&p, p.copies, 2, DISABLE_SCHEDULING);
	CHECK(!group_of(&p).copies_wait);
	turn(&p, p.copies, 2, ENABLE);
	CHECK(look(&p, p.copy).asleep && runs(&p));
	CHECK(group_of(&p).copies_wait && !group_of(&q).copies_wait);
	set_slice(&p, p.copy, 1024);
	CHECK(!look(&p, p.copy).asleep && !group_of(&p).copies_wait);
	end();
}

static void test_setup(void)
{
	for (enum how how = DISABLE; how <= DISABLE_SCHEDULING; how++) {
		begin_with(RBT_RM_QUIRK_SETUP);
		struct program p = make_program(0, 8), q = ready_program();
		/* Before it is scheduled nothing is lost. */
		turn(&p, p.channels, 8, how);
		turn(&p, p.channels, 8, ENABLE);
		schedule(&p, p.tsg);
		schedule(&p, p.copy);
		CHECK(runs(&p));
		/* Copy groups never get a slice, and do not mind. */
		turn(&p, p.copies, 2, how);
		turn(&p, p.copies, 2, ENABLE);
		CHECK(!look(&p, p.copy).stuck);
		/* Somebody else's slice says nothing. */
		caller = CALLER + 1;
		set_slice(&p, p.tsg, 1);
		turn(&p, p.channels, 8, how);
		CHECK(look(&p, p.tsg).stuck);
		caller = CALLER;
		set_slice(&p, p.tsg, 2048);
		turn(&p, p.channels, 8, ENABLE);
		preempt(&p, p.tsg);
		schedule(&p, p.tsg);
		CHECK(!runs(&p));
		turn(&q, q.channels, 8, how);
		turn(&q, q.channels, 8, ENABLE);
		schedule(&q, q.tsg);
		turn(&q, q.channels, 8, how);
		turn(&q, q.channels, 8, ENABLE);
		CHECK(runs(&q));
		end();
	}
}

static void test_slow_calls(void)
{
	begin_with(RBT_RM_QUIRK_SLOW_CALLS);
	struct program p = ready_program();

	CHECK_INT(delay_us, 0);
	turn(&p, p.channels, 8, DISABLE_SCHEDULING);
	uint64_t scheduling_us = delay_us;
	turn(&p, p.channels, 8, DISABLE);
	uint64_t full_us = delay_us;
	turn(&p, p.channels, 8, ENABLE);
	CHECK(delay_us > 0 && delay_us < scheduling_us && scheduling_us < full_us);
	/* Disabled twice. */
	CHECK(!runs(&p));
	turn(&p, p.channels, 8, ENABLE);
	CHECK(runs(&p));
	/* What is refused takes no time; a fault's time is its own. */
	struct nv_disable_channels_params bad = {.disable = 1, .count = 1, .client = {p.client}};
	CHECK(control_as(mine, p.client, p.subdevice, NV_CTRL_FIFO_DISABLE_CHANNELS, &bad,
		      sizeof(bad)) != NV_OK);
	CHECK_INT(delay_us, 0);
	struct rbt_rm_fault fault = {.cmd = NV_CTRL_FIFO_DISABLE_CHANNELS, .delay_us = 5};
	CHECK_INT(rbt_rm_add_fault(rm, &fault), 0);
	turn(&p, p.channels, 8, DISABLE);
	CHECK_INT(delay_us, 5);
	end();
}

int main(void)
{
	test_names();
	test_without();
	test_drowsy();
	test_awake_for_good();
	test_drowsy_copies();
	test_setup();
	test_slow_calls();
	return check_result();
}
