/* SPDX-License-Identifier: Apache-2.0 */
/* The KFD model: how queues share a GPU, what being taken off costs, and what starts work. */
#include "test_kfd_world.h"

#define FULL      4000u /* packets in a ring: more than a test runs */
#define MAX_PEERS 12

static struct rbt_kfd_config with_mes(void)
{
	struct rbt_kfd_config config = usual;

	config.gfx_target_version = KFD_GFX_MES;
	return config;
}

/* A queue of the process behind the file; the ring's number is the test's. */
static uint32_t make_for(struct rbt_kfd_open *open, int pid, uint32_t ring, uint32_t type)
{
	struct kfd_acquire_vm vm = {.drm_fd = 5, .gpu_id = rbt_kfd_gpu_id(0)};
	struct kfd_create_queue a = {
		.ring_base_address = (uintptr_t)rings[ring].packets,
		.ring_size = sizeof(rings[ring].packets),
		.write_pointer_address = (uintptr_t)&rings[ring].wptr,
		.read_pointer_address = (uintptr_t)&rings[ring].rptr,
		.ctx_save_restore_address = (uintptr_t)rings[ring].save,
		.ctx_save_restore_size = sizeof(rings[ring].save),
		.gpu_id = rbt_kfd_gpu_id(0),
		.queue_type = type,
		.queue_percentage = 100,
		.queue_priority = 7,
	};

	CHECK_INT(call_as(open, pid, pid, KFD_IOC_ACQUIRE_VM, &vm), 0);
	CHECK_INT(call_as(open, pid, pid, KFD_IOC_CREATE_QUEUE, &a), 0);
	return a.queue_id;
}

/* Of the target; its number and its ring's are the same. */
static void make_busy(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		CHECK_INT(make_for(target, TARGET, i, KFD_QUEUE_COMPUTE_AQL), i);
		submit_to(i, FULL);
	}
	run_for(0); /* seen */
}

static void update(uint32_t id, uint32_t percentage, uint32_t priority)
{
	struct kfd_update_queue a = {.ring_base_address = (uintptr_t)rings[id].packets,
		.queue_id = id,
		.ring_size = sizeof(rings[id].packets),
		.queue_percentage = percentage,
		.queue_priority = priority};

	CHECK_INT(target_call(KFD_IOC_UPDATE_QUEUE, &a), 0);
	run_for(MS); /* what that cost is over */
}

/* In ticks, as the device server does. */
static void run_ticks(uint64_t ms)
{
	for (uint64_t i = 0; i < ms; i++) {
		run_for(MS);
	}
}

#define CHECK_ABOUT(value, wanted, off)                                                            \
	do {                                                                                       \
		int64_t v_ = (int64_t)(value), w_ = (int64_t)(wanted);                             \
		CHECK(v_ >= w_ - (off) && v_ <= w_ + (off));                                       \
	} while (0)

static uint64_t ran[MAX_RINGS];

static void mark(void)
{
	for (uint32_t i = 0; i < MAX_RINGS; i++) {
		ran[i] = rings[i].rptr;
	}
}

static uint64_t since_mark(uint32_t ring)
{
	return rings[ring].rptr - ran[ring];
}

static void test_alone(void)
{
	begin();
	make_busy(1);
	run_ticks(100);
	CHECK_INT(rings[0].rptr, 100);
	run_for(100 * MS); /* one long tick is as good */
	CHECK_INT(rings[0].rptr, 200);
	CHECK_INT(look(0).share, KFD_WHOLE);
	end();
}

static void test_equals(void)
{
	begin();
	make_busy(2);
	run_ticks(100);
	CHECK_ABOUT(rings[0].rptr, 50, 1);
	CHECK_ABOUT(rings[1].rptr, 50, 1);
	CHECK_INT(look(0).share, KFD_WHOLE / 2);
	/* What runs empty within a tick leaves the rest of it to the other. */
	submit_to(1, rings[1].rptr + 10);
	mark();
	run_for(100 * MS);
	CHECK_ABOUT(since_mark(1), 10, 0);
	CHECK_ABOUT(since_mark(0), 90, 1);
	CHECK_INT(look(1).share, 0);
	end();
}

static void check_ratio(uint32_t percentage, uint32_t priority, uint64_t times)
{
	begin();
	make_busy(2);
	update(0, percentage, priority);
	mark();
	run_ticks(300);
	CHECK_ABOUT(since_mark(0) + since_mark(1), 300, 1);
	CHECK_ABOUT(since_mark(1), times * since_mark(0), (int64_t)times + 1);
	end();
}

static void test_weights(void)
{
	check_ratio(100, 7, 1);
	check_ratio(100, 10, 1);
	check_ratio(100, 6, 2);
	check_ratio(100, 0, 2);
	check_ratio(50, 7, 2);
	check_ratio(25, 7, 4);
	check_ratio(50, 0, 4);
	/* The highest level beside the middle one. */
	begin();
	make_busy(2);
	update(0, 100, 11);
	mark();
	run_ticks(300);
	CHECK_ABOUT(since_mark(0), 200, 1);
	CHECK_ABOUT(since_mark(1), 100, 1);
	end();
}

/* The target has two queues, another process one. */
static void check_processes(struct rbt_kfd_config config, uint64_t others)
{
	begin_with(config);
	make_busy(2);
	update(0, 100, 12);
	make_for(stranger, STRANGER, 9, KFD_QUEUE_COMPUTE_AQL);
	submit_to(9, FULL);
	bells[0]++; /* its queue 0 */
	run_for(0);
	mark();
	run_ticks(400);
	CHECK_ABOUT(since_mark(9), others, 1);
	CHECK_ABOUT(since_mark(0), 2 * since_mark(1), 2);
	CHECK_ABOUT(since_mark(0) + since_mark(1) + since_mark(9), 400, 2);
	end();
}

static void test_processes(void)
{
	check_processes(usual, 100);      /* 4 : 2 : 2 */
	check_processes(with_mes(), 200); /* levels are the process's own affair */
}

static void test_suspended_gives_its_share(void)
{
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	uint32_t n = 0, id = 1;

	begin();
	CHECK_INT(start_runtime(), 0);
	make_busy(2);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(snapshot(list, 4, &n), 0);
	run_ticks(10);
	CHECK_INT(suspend_ids(&id, 1), 1);
	run_for(MS);
	mark();
	run_ticks(100);
	CHECK_INT(since_mark(0), 100);
	CHECK_INT(since_mark(1), 0);
	CHECK_INT(look(0).share, KFD_WHOLE);
	CHECK_INT(look(1).share, 0);
	CHECK_INT(resume_ids(&id, 1), 1);
	run_for(MS);
	mark();
	run_ticks(100);
	CHECK_ABOUT(since_mark(0), 50, 1);
	CHECK_ABOUT(since_mark(1), 50, 1);
	CHECK_INT(look(1).restored, 1);
	CHECK_INT(look(0).restarted + look(1).restarted, 0);
	end();
}

static void test_costs(void)
{
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	uint32_t n = 0, id = 0, both[2] = {0, 1};

	begin_with(with_mes());
	CHECK_INT(start_runtime(), 0);
	make_for(target, TARGET, 0, KFD_QUEUE_COMPUTE_AQL);
	make_for(target, TARGET, 1, KFD_QUEUE_COMPUTE_AQL);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(snapshot(list, 4, &n), 0);
	/* Nothing runs. */
	CHECK_INT(suspend_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_SUSPEND_US);
	CHECK_INT(suspend_ids(&id, 1), 1); /* it is off already */
	CHECK_INT(delay_us, 0);
	CHECK_INT(resume_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_RESUME_US);
	/* Half of the GPU is its, then all of it is theirs. */
	submit_to(0, FULL);
	submit_to(1, FULL);
	run_ticks(10);
	CHECK_INT(suspend_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_SUSPEND_US + KFD_HW_SAVE_US / 2);
	CHECK_INT(resume_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_RESUME_US + KFD_HW_RESTORE_US / 2);
	/* The waves are the same if they do not get to run in between. */
	CHECK_INT(suspend_ids(&id, 1), 1);
	CHECK_INT(resume_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_RESUME_US + KFD_HW_RESTORE_US / 2);
	run_ticks(10);
	CHECK_INT(suspend_ids(both, 2), 2);
	CHECK_INT(delay_us, KFD_HW_SUSPEND_US + KFD_HW_SAVE_US);
	/* With MES it waits for its waves, and the other does not. */
	CHECK_INT(resume_ids(both, 1), 1);
	run_ticks(10);
	mark();
	CHECK_INT(resume_ids(&both[1], 1), 1);
	run_for(RESUME / 2);
	run_for(10 * MS - RESUME / 2);
	CHECK_ABOUT(since_mark(0) + since_mark(1), 10, 1);
	CHECK(since_mark(0) >= since_mark(1));
	end();
}

/* Before MES, nobody works while somebody is taken off. */
static void test_everybody_pays(void)
{
	struct kfd_queue_entry list[4];
	struct kfd_runtime_info info;
	uint32_t n = 0, id = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	make_for(target, TARGET, 0, KFD_QUEUE_COMPUTE_AQL);
	make_for(stranger, STRANGER, 9, KFD_QUEUE_COMPUTE_AQL);
	submit_to(9, FULL);
	bells[0]++;
	CHECK_INT(enable(&info), 0);
	CHECK_INT(snapshot(list, 4, &n), 0);
	run_for(0);
	run_ticks(10);
	mark();
	/* The target's queue is idle: what is saved is the other's. */
	CHECK_INT(suspend_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_SUSPEND_US + KFD_HW_SAVE_US);
	run_for((KFD_HW_SUSPEND_US + KFD_HW_SAVE_US) * 1000ull);
	CHECK_INT(since_mark(9), 0);
	run_for(MS);
	CHECK_INT(since_mark(9), 1);
	/* Calls wait for each other. */
	CHECK_INT(resume_ids(&id, 1), 1);
	CHECK_INT(delay_us, KFD_HW_RESUME_US + KFD_HW_RESTORE_US);
	CHECK_INT(suspend_ids(&id, 1), 1);
	CHECK_INT(delay_us,
		KFD_HW_RESUME_US + KFD_HW_RESTORE_US + KFD_HW_SUSPEND_US + KFD_HW_SAVE_US);
	end();
}

static void test_doorbell(void)
{
	begin();
	CHECK_INT(start_runtime(), 0);
	make_for(target, TARGET, 0, KFD_QUEUE_COMPUTE_AQL);
	rings[0].wptr = 5;
	run_ticks(20);
	CHECK_INT(rings[0].rptr, 0);
	CHECK_INT(look(0).running, 0);
	bells[0] = 5;
	run_for(MS);
	CHECK_INT(look(0).running, 1);
	run_ticks(3);
	CHECK_INT(rings[0].rptr, 3);
	/* What is added without a bell waits, too. */
	rings[0].wptr = 8;
	run_ticks(20);
	CHECK_INT(rings[0].rptr, 5);
	bells[0] = 8;
	run_for(0);
	run_ticks(20);
	CHECK_INT(rings[0].rptr, 8);
	/* A queue that comes back is looked at: what was rung meanwhile is not lost. */
	update(0, 0, 7);
	submit_to(0, 10);
	run_ticks(20);
	CHECK_INT(rings[0].rptr, 8);
	bells[0] = 8; /* as it was when last seen */
	update(0, 100, 7);
	run_ticks(20);
	CHECK_INT(rings[0].rptr, 10);
	end();
}

static int count_slots(const struct rbt_kfd_queue_info *info, void *data)
{
	*(uint32_t *)data += info->share > 0;
	return 0;
}

static int check_exact(const struct rbt_kfd_queue_info *info, void *data)
{
	CHECK_INT(info->restarted, 0);
	*(uint64_t *)data += info->restored;
	return 0;
}

/* Rings 0 to n: their parts are equal, and nearly nothing is lost. */
static void check_turns(uint32_t n, uint64_t ms, uint32_t slots)
{
	uint64_t sum = 0, restored = 0;

	for (uint64_t i = 0; i < ms; i++) {
		uint32_t used = 0;
		run_for(MS);
		rbt_kfd_each_queue(kfd, count_slots, &used);
		CHECK(used <= slots);
	}
	for (uint32_t i = 0; i < n; i++) {
		CHECK_ABOUT(rings[i].rptr, ms / n, (int64_t)(ms / n) / 5 + 1);
		sum += rings[i].rptr;
	}
	CHECK_ABOUT(sum, ms, (int64_t)(ms / 100 + n));
	rbt_kfd_each_queue(kfd, check_exact, &restored);
	CHECK(restored > 0);
}

static void test_more_queues_than_slots(void)
{
	begin();
	make_busy(KFD_HW_SLOTS + 6);
	check_turns(KFD_HW_SLOTS + 6, 3000, KFD_HW_SLOTS);
	end();
}

static void test_more_processes_than_spaces(void)
{
	begin();
	for (uint32_t i = 0; i < MAX_PEERS; i++) {
		int pid = 1000 + (int)i;
		struct rbt_kfd_open *open = rbt_kfd_open(kfd, pid);
		make_for(open, pid, i, KFD_QUEUE_COMPUTE_AQL);
		submit_to(i, FULL);
	}
	bells[0]++;
	run_for(0);
	check_turns(MAX_PEERS, 1200, KFD_HW_PROCESSES);
	end();
}

/* A queue that waits for a slot is suspended like any other. */
static void test_suspended_while_it_waits(void)
{
	struct kfd_queue_entry list[KFD_HW_SLOTS + 1];
	struct kfd_runtime_info info;
	uint32_t n = 0, id = 0;

	begin();
	CHECK_INT(start_runtime(), 0);
	make_busy(KFD_HW_SLOTS + 1);
	CHECK_INT(enable(&info), 0);
	CHECK_INT(snapshot(list, KFD_HW_SLOTS + 1, &n), 0);
	for (int i = 0; i < 50; i++) {
		run_for(7 * MS);
		CHECK_INT(suspend_ids(&id, 1), 1);
		run_for(3 * MS);
		CHECK_INT(resume_ids(&id, 1), 1);
		id = (id + 1) % (KFD_HW_SLOTS + 1);
	}
	uint64_t restored = 0;
	rbt_kfd_each_queue(kfd, check_exact, &restored);
	CHECK(restored > 0);
	end();
}

static void test_copies(void)
{
	begin();
	make_busy(1);
	for (uint32_t i = 1; i < 5; i++) {
		make_for(target, TARGET, i, KFD_QUEUE_SDMA);
	}
	submit_to(1, 64 * 60);
	submit_to(2, 64 * 60);
	run_for(0);
	run_ticks(20);
	CHECK_INT(rings[0].rptr, 20);
	CHECK_INT(rings[1].rptr, 64 * 20);
	CHECK_INT(rings[2].rptr, 64 * 20);
	submit_to(3, 64 * 60);
	submit_to(4, 64 * 60);
	run_for(0);
	mark();
	run_ticks(20);
	CHECK_INT(since_mark(0), 20);
	CHECK_ABOUT(since_mark(1), 64 * 10, 64);
	CHECK_ABOUT(since_mark(4), 64 * 10, 64);
	end();
}

int main(void)
{
	test_alone();
	test_equals();
	test_weights();
	test_processes();
	test_suspended_gives_its_share();
	test_costs();
	test_everybody_pays();
	test_doorbell();
	test_more_queues_than_slots();
	test_more_processes_than_spaces();
	test_suspended_while_it_waits();
	test_copies();
	return check_result();
}
