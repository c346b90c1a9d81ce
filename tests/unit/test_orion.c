/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler of clients in one process, with a driver of the test's making. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "orion/policy.h"
#include "rubato/orion.h"
#include "test_orion_driver.h"
#include "util/time.h"

#define MS RBT_NS_PER_MS

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Until the GPU has nothing to do. */
static void settle(void)
{
	while (rbt_now_ns() < world_idle_at_ns()) {
		pause_ms(1);
	}
}

/* A thread that launches. */
struct work {
	pthread_t thread;
	int client;
	CUstream stream;
	uint32_t duration_us, n; /* how long each takes; how many, or until the end is told */
	_Atomic uint32_t n_made;
	_Atomic uint64_t returned_ns; /* when the last one did */
	bool waits;                   /* for each */
	CUresult result;
};
static _Atomic bool is_over;

static void *run(void *data)
{
	struct work *w = data;

	orion_set_client_idx(w->client);
	while (!is_over && (w->n == 0 || w->n_made < w->n)) {
		w->result = world_launch(w->stream, w->duration_us);
		w->returned_ns = rbt_now_ns();
		w->n_made++;
		if (w->waits) {
			world_synchronize(w->stream);
		}
	}
	return NULL;
}

static void begin(struct work *w)
{
	pthread_create(&w->thread, NULL, run, w);
}

static void end(struct work *w)
{
	pthread_join(w->thread, NULL);
}

static struct rubato_orion_stats stats(int client)
{
	struct rubato_orion_stats s = {0};

	CHECK(rubato_orion_stats(client, &s) == 0);
	return s;
}

static void test_bad_input(void)
{
	struct rubato_orion_stats s;

	CHECK_INT(orion_start_scheduler(0), -1);
	CHECK_INT(orion_start_scheduler(-3), -1);
	CHECK_INT(orion_init(65), -1);
	CHECK(!orion_is_enabled() && !world_is_intercepted());
	orion_stop_scheduler();
	orion_shutdown();
	block(0);
	orion_set_client_idx(64);
	CHECK_INT(orion_get_client_idx(), -1);
	orion_set_client_idx(-7);
	CHECK_INT(orion_get_client_idx(), -1);
	CHECK_INT(orion_load_profile(NULL), -1);
	CHECK_INT(orion_load_profile("/no/such/file"), -1);
	CHECK_INT(orion_load_profile("/dev/zero"), -1);
	CHECK_INT(rubato_orion_stats(0, &s), -1);
}

static void test_lives(void)
{
	CHECK_INT(orion_init(2), 0);
	CHECK_INT(orion_init(2), 0);
	CHECK(orion_is_enabled() && world_is_intercepted());
	CHECK_INT(orion_start_scheduler(2), 0);
	CHECK_INT(orion_start_scheduler(2), 0);
	orion_set_enabled(0);
	CHECK(!orion_is_enabled() && !world_is_intercepted());
	orion_set_enabled(1);
	CHECK(orion_is_enabled());
	orion_stop_scheduler();
	orion_stop_scheduler();
	CHECK(!orion_is_enabled() && !world_is_intercepted());
}

/* Whether or not the high-priority client waits for its work. */
static void test_best_effort_waits(bool waits)
{
	struct work hp = {.client = 0, .duration_us = 40000, .n = 1, .waits = waits};
	struct work be = {.client = 1, .duration_us = 100, .n = 1};

	CHECK_INT(orion_start_scheduler(2), 0);
	begin(&hp);
	while (hp.n_made == 0) {
		pause_ms(1);
	}
	uint64_t until_ns = world_idle_at_ns();
	begin(&be);
	end(&be);
	end(&hp);
	CHECK(be.returned_ns >= until_ns);
	CHECK(be.returned_ns < until_ns + 40 * MS);
	CHECK_INT(stats(0).held, 0);
	CHECK_INT(stats(1).held, 1);
	CHECK_INT(stats(1).overdue, 0);
	CHECK(stats(1).held_ns > 10 * MS && stats(1).held_ns < 80 * MS);
	orion_stop_scheduler();
}

static void test_not_for_ever(void)
{
	struct work hp = {.client = 0, .duration_us = 400000, .n = 1};
	struct work be = {.client = 1, .duration_us = 100, .n = 1};

	CHECK_INT(orion_start_scheduler(2), 0);
	begin(&hp);
	end(&hp);
	uint64_t since_ns = rbt_now_ns();
	begin(&be);
	end(&be);
	CHECK(be.returned_ns - since_ns >= 99 * MS);
	CHECK(be.returned_ns - since_ns < 300 * MS);
	CHECK_INT(stats(1).overdue, 1);
	orion_stop_scheduler();
	settle();
}

/* One launch of unknown length at a time; known short ones as far as the budget goes. */
static void test_budget(void)
{
	struct work be = {.client = 1, .duration_us = 3000, .n = 3};

	CHECK_INT(orion_start_scheduler(2), 0);
	begin(&be);
	end(&be);
	CHECK_INT(stats(1).held, 2);
	settle();
	orion_set_hp_latency(100); /* 10 ms: each takes 3 */
	be.n_made = 0;
	begin(&be);
	end(&be);
	CHECK_INT(stats(1).held, 2);
	orion_set_hp_latency(0);
	orion_stop_scheduler();
	settle();
}

static void test_fair(void)
{
	struct work be[2] = {
		{.client = 1, .duration_us = 1500}, {.client = 2, .duration_us = 4500}};

	is_over = false;
	CHECK_INT(orion_start_scheduler(3), 0);
	begin(&be[0]);
	begin(&be[1]);
	for (int i = 0; i < 10; i++) {
		pause_ms(80);
	}
	is_over = true;
	end(&be[0]);
	end(&be[1]);
	is_over = false;
	/* The longer kernels get as much time, so a third as many. */
	uint32_t a = be[0].n_made, b = be[1].n_made * 3;
	CHECK(a > 20 && a * 10 < b * 16 && b * 10 < a * 16);
	orion_stop_scheduler();
	settle();
}

static void *stop(void *data)
{
	pause_ms(20);
	if (data != NULL) {
		orion_set_enabled(0);
	} else {
		orion_stop_scheduler();
	}
	return NULL;
}

/* Ends of the scheduler let held calls go, at once. */
static void test_released(bool is_disabled)
{
	struct work hp = {.client = 0, .duration_us = 90000, .n = 1};
	struct work be[2] = {
		{.client = 1, .duration_us = 1, .n = 1}, {.client = 2, .duration_us = 1, .n = 1}};
	pthread_t stopper;

	CHECK_INT(orion_start_scheduler(3), 0);
	begin(&hp);
	end(&hp);
	uint64_t since_ns = rbt_now_ns();
	begin(&be[0]);
	begin(&be[1]);
	pthread_create(&stopper, NULL, stop, is_disabled ? &hp : NULL);
	end(&be[0]);
	end(&be[1]);
	pthread_join(stopper, NULL);
	CHECK(be[0].returned_ns - since_ns < 80 * MS && be[1].returned_ns - since_ns < 80 * MS);
	orion_stop_scheduler();
	settle();
}

static void test_streams(void)
{
	CUstream own, clients[3];

	CHECK_INT(orion_start_scheduler(2), 0);
	/* Each client's default stream is a stream of its own, the same each time. */
	for (int i = 0; i < 3; i++) {
		orion_set_client_idx(i % 2);
		CHECK_INT(world_launch(NULL, 1), 0);
		clients[i] = world_last_stream();
		CHECK(clients[i] != NULL);
		world_synchronize(NULL);
	}
	CHECK(clients[0] != clients[1] && clients[2] == clients[0]);
	CHECK_INT(world_copy(), 0);
	CHECK(world_last_stream() == clients[0]);
	/* The program's own stay, and threads without a client keep the default stream. */
	world_stream_create(&own, 0);
	CHECK_INT(world_launch(own, 1), 0);
	CHECK(world_last_stream() == own);
	orion_set_client_idx(-1);
	CHECK_INT(world_launch(NULL, 1), 0);
	CHECK(world_last_stream() == NULL);
	/* The stream tells the client of a thread that has none. */
	uint64_t launches = stats(0).launches;
	CHECK_INT(world_launch(own, 1), 0);
	CHECK_INT(stats(0).launches, launches + 1);
	CHECK_INT(world_stream_destroy(own), 0);
	orion_set_client_idx(0);
	block(0);
	orion_stop_scheduler();
	CHECK_INT(world_launch(NULL, 1), 0);
	CHECK(world_last_stream() == NULL);
	orion_set_client_idx(-1);
	settle();
}

/* What is captured does not run, so it does not wait, nor is anything waited for. */
static void test_captures(void)
{
	struct work hp = {.client = 0, .duration_us = 50000, .n = 1};
	CUstream s;

	world_stream_create(&s, CU_STREAM_NON_BLOCKING);
	CHECK_INT(orion_start_scheduler(2), 0);
	begin(&hp);
	end(&hp);
	orion_set_client_idx(1);
	CHECK_INT(world_begin_capture(s), 0);
	uint64_t since_ns = rbt_now_ns();
	CHECK_INT(world_launch(s, 1000), 0);
	CHECK_INT(world_launch(s, 1000), 0);
	CHECK(rbt_now_ns() - since_ns < 30 * MS);
	CHECK_INT(world_end_capture(s), 0);
	CHECK_INT(stats(1).held, 0);
	orion_set_client_idx(-1);
	orion_stop_scheduler();
	settle();
}

/* A launch that fails is not waited for. */
static void test_failures(void)
{
	struct work be = {.client = 1, .duration_us = 100000, .n = 5};

	CHECK_INT(orion_start_scheduler(2), 0);
	world_fail(CUDA_ERROR_LAUNCH_FAILED);
	uint64_t since_ns = rbt_now_ns();
	begin(&be);
	end(&be);
	CHECK_INT(be.result, CUDA_ERROR_LAUNCH_FAILED);
	CHECK(rbt_now_ns() - since_ns < 60 * MS);
	world_fail(CUDA_SUCCESS);
	orion_stop_scheduler();
}

/* A context ends beside launches in another one. (For the thread sanitizer. The clients are new, so
 * they make their events meanwhile.) */
static void test_other_contexts_end(void)
{
	static struct work be[RUBATO_ORION_MAX_CLIENTS];

	CHECK_INT(orion_start_scheduler(RUBATO_ORION_MAX_CLIENTS), 0);
	for (int i = RUBATO_ORION_MAX_CLIENTS / 2; i < RUBATO_ORION_MAX_CLIENTS; i++) {
		be[i] = (struct work){.client = i, .duration_us = 60, .n = 20};
		begin(&be[i]);
		while (be[i].n_made < be[i].n) {
			CHECK_INT(world_destroy_other_context(), 0);
		}
		end(&be[i]);
		CHECK_INT(stats(i).launches, be[i].n);
	}
	orion_stop_scheduler();
	settle();
}

/* Even if more launches are on the GPU than the scheduler follows. */
static void test_priority_holds_nothing(void)
{
	struct work hp = {.client = 0, .duration_us = 50000, .n = 1};
	struct work be = {.client = 1, .duration_us = 500, .n = 100};

	setenv("RUBATO_ORION_POLICY", "priority", 1);
	CHECK_INT(orion_start_scheduler(2), 0);
	begin(&hp);
	end(&hp);
	begin(&be);
	end(&be);
	CHECK_INT(stats(1).held, 0);
	CHECK_INT(stats(1).launches, 100);
	orion_stop_scheduler();
	unsetenv("RUBATO_ORION_POLICY");
	settle();
}

static void write_profile(const char *path)
{
	FILE *f = fopen(path, "w");

	CHECK(f != NULL);
	if (f != NULL) {
		fputs("Name,Profile,Memory_footprint,SM_usage,Duration,Grid_size,Block_size,Shared\n"
		      "kernel,1,0,60,50000000,50000x1x1,1x1x1,0\n"
		      "kernel,0,0,40,100000,100x1x1,1x1x1,0\n"
		      "kernel,0,0,41,200000,200x1x1,1x1x1,0\n"
		      "kernel,1,0,10,300000,300x1x1,1x1x1,0\n",
			f);
		fclose(f);
	}
}

/* Beside a high-priority kernel that computes on 60 of 100 SMs runs one that waits for memory on
 * 40, not one that needs 41, nor one that computes, too. Last, since a profile stays. */
static void test_profile(void)
{
	const uint32_t durations[] = {100, 200, 300};
	char path[] = "/tmp/rubato-test-orion-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	write_profile(path);
	for (int i = 0; i < 3; i++) {
		struct work hp = {.client = 0, .duration_us = 50000, .n = 1};
		struct work be = {.client = 1, .duration_us = durations[i], .n = 1};

		CHECK_INT(orion_start_scheduler(2), 0);
		CHECK_INT(orion_load_profile(path), 0);
		begin(&hp);
		end(&hp);
		begin(&be);
		end(&be);
		CHECK_INT(stats(1).held, i == 0 ? 0 : 1);
		orion_stop_scheduler();
		settle();
	}
	unlink(path);
}

/* Variables: the second client is the high-priority one, and who has none is the first. */
static void test_settings(void)
{
	struct work hp = {.client = 1, .duration_us = 30000, .n = 1};
	struct work be = {.client = -1, .duration_us = 100, .n = 1};

	setenv("RUBATO_ORION_HP", "1", 1);
	setenv("RUBATO_ORION_OTHERS", "0", 1);
	CHECK_INT(orion_start_scheduler(2), 0);
	begin(&hp);
	end(&hp);
	begin(&be);
	end(&be);
	CHECK_INT(stats(1).held, 0);
	CHECK_INT(stats(0).held, 1);
	orion_stop_scheduler();
	setenv("RUBATO_ORION_HP", "2", 1);
	setenv("RUBATO_ORION_OTHERS", "x", 1);
	setenv("RUBATO_ORION_POLICY", "", 1);
	CHECK_INT(orion_start_scheduler(2), 0);
	orion_stop_scheduler();
	unsetenv("RUBATO_ORION_HP");
	unsetenv("RUBATO_ORION_OTHERS");
	unsetenv("RUBATO_ORION_POLICY");
	settle();
}

/* Many threads, and everything at once. For the thread sanitizer above all. */
static void test_crowd(void)
{
	enum { N = 9 };
	struct work all[N];
	CUstream streams[N];

	is_over = false;
	CHECK_INT(orion_start_scheduler(4), 0);
	for (int i = 0; i < N; i++) {
		world_stream_create(&streams[i], i % 2);
		/* Launches that nobody waits for take no time: they would pile up on the GPU. */
		all[i] = (struct work){.client = i % 5 == 4 ? -1 : i % 5,
			.stream = i % 3 == 0 ? NULL : streams[i],
			.duration_us = i % 4 == 0 ? 50 + (uint32_t)i * 30 : 0,
			.waits = i % 4 == 0};
		begin(&all[i]);
	}
	for (int i = 0; i < 6; i++) {
		pause_ms(50);
		orion_set_enabled(i % 2);
		orion_set_hp_latency((float)i);
	}
	orion_stop_scheduler();
	CHECK_INT(orion_start_scheduler(4), 0);
	pause_ms(50);
	is_over = true;
	for (int i = 0; i < N; i++) {
		end(&all[i]);
		CHECK(all[i].n_made > 0 && all[i].result == CUDA_SUCCESS);
	}
	is_over = false;
	CHECK_INT(stats(0).held, 0);
	orion_stop_scheduler();
}

static void test_policy(void)
{
	const struct orion_policy *hold = orion_policy_find("hold");
	const struct rbt_kernel_facts unknown = {0}, memory = {RBT_KERNEL_MEMORY, 30, 1000},
				      compute = {RBT_KERNEL_COMPUTE, 30, 1000},
				      lengthy = {RBT_KERNEL_MEMORY, 30, 500000};
	struct orion_view v = {.n_sms = 132, .budget_ns = 200000};

	CHECK(orion_policy_find("other") == NULL && hold != NULL);
	CHECK(hold->lets(&v, &unknown));
	v.be_ns = 199001;
	CHECK(!hold->lets(&v, &unknown) && !hold->lets(&v, &memory));
	v.be_ns = 199000;
	CHECK(!hold->lets(&v, &unknown) && hold->lets(&v, &memory));
	v.be_ns = 30001;
	CHECK(!hold->lets(&v, &unknown) && !hold->lets(&v, &lengthy) && hold->lets(&v, &memory));
	v.be_ns = 30000; /* it has ended by the time that the next one comes */
	CHECK(hold->lets(&v, &unknown) && hold->lets(&v, &lengthy));
	v.be_ns = 0;
	v.hp_is_busy = true;
	v.hp = compute;
	CHECK(!hold->lets(&v, &unknown) && !hold->lets(&v, &compute) && hold->lets(&v, &memory));
	v.n_sms = 59;
	CHECK(!hold->lets(&v, &memory));
	v.n_sms = 60;
	CHECK(hold->lets(&v, &memory));
	v.hp.sms = 0;
	CHECK(!hold->lets(&v, &memory));
	v.hp = unknown;
	CHECK(!hold->lets(&v, &memory));
	v.hp = compute;
	v.be_ns = 300000;
	CHECK(!hold->lets(&v, &memory));
}

int main(void)
{
	test_policy();
	test_bad_input();
	test_lives();
	test_best_effort_waits(true);
	test_best_effort_waits(false);
	test_not_for_ever();
	test_budget();
	test_fair();
	test_released(false);
	test_released(true);
	test_streams();
	test_captures();
	test_failures();
	test_other_contexts_end();
	test_priority_holds_nothing();
	test_settings();
	test_crowd();
	test_profile();
	return check_result();
}
