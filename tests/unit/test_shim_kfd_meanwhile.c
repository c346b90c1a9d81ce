/* SPDX-License-Identifier: Apache-2.0 */
/* What the program does to its queues and files while the agent is at them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "test_agent_world.h"
#include "util/time.h"

/* The program sets new rings as fast as it can while the agent takes the queue off and puts it
 * back: whenever it runs, it is with the newest. */
static pthread_mutex_t storm_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t newest_ring[2];
static _Atomic uint32_t agent_tid;
static atomic_bool storm_over;

static int storm_call(int fd, unsigned long request, void *arg)
{
	struct kfd_update_queue *update = arg;
	bool by_agent = (uint32_t)gettid() == agent_tid;

	pthread_mutex_lock(&storm_lock);
	CHECK(_IOC_NR(request) == KFD_NR_UPDATE_QUEUE);
	if (by_agent && update->queue_percentage != 0) {
		CHECK(update->ring_base_address == newest_ring[update->queue_id]);
	} else if (!by_agent) {
		newest_ring[update->queue_id] = update->ring_base_address;
	}
	driver.set[update->queue_id] = *update;
	driver.n_updates += by_agent;
	pthread_mutex_unlock(&storm_lock);
	return 0;
}

static void *set_rings(void *data)
{
	for (uint64_t ring = 1; !storm_over; ring++) {
		CHECK(set_queue(*(uint32_t *)data, ring << 12, 100, 7) == 0);
		if (ring % 64 == 0) {
			usleep(200);
		}
	}
	return NULL;
}

static void be_agent(const struct rbt_agent_request *req)
{
	struct rbt_agent_reply reply;
	struct shim_guard g;

	while (shim_enter(&g) < 0) {
		sched_yield();
	}
	shim_take_in(g.s, world.clock_ns);
	shim_agent_obey(g.s, req, world.clock_ns, &reply);
	shim_leave(&g);
}

static void never_an_old_ring(void)
{
	struct rbt_agent_request off = {
		.op = RBT_AGENT_SUSPEND, .kinds = RBT_AGENT_COMPUTE, .value = UINT64_MAX};
	struct rbt_agent_request on = {.op = RBT_AGENT_RESUME, .kinds = RBT_AGENT_COMPUTE};
	pthread_t threads[2];
	uint32_t ids[2];

	start();
	for (int i = 0; i < 2; i++) {
		ids[i] = make_queue(KFD_QUEUE_COMPUTE_AQL);
		newest_ring[i] = driver.set[i].ring_base_address;
	}
	world.kfd_call = storm_call;
	agent_tid = (uint32_t)gettid();
	for (int i = 0; i < 2; i++) {
		CHECK(pthread_create(&threads[i], NULL, set_rings, &ids[i]) == 0);
	}
	uint64_t end_ns = rbt_now_ns() + 700 * RBT_NS_PER_MS;
	while (rbt_now_ns() < end_ns) {
		be_agent(&off);
		be_agent(&on);
	}
	storm_over = true;
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
	}
	CHECK(driver.n_updates > 100 && !table()->kfd.lossy);
	be_agent(&on);
	for (int i = 0; i < 2; i++) {
		CHECK(driver.set[i].ring_base_address == newest_ring[i] && !is_off(ids[i]));
	}
}

static void set_meanwhile(uint32_t id)
{
	driver.during = NULL;
	CHECK(set_queue(id, RING, 100, 9) == 0);
}

static void fail_meanwhile(uint32_t id)
{
	driver.during = NULL;
	CHECK(set_queue(id, BAD_RING, 100, 9) == -1);
}

static void two_at_once_are_left_alone(void)
{
	start();
	uint32_t id = make_queue(KFD_QUEUE_COMPUTE_AQL), other = make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	driver.during = set_meanwhile;
	CHECK(set_queue(id, RING, 100, 7) == 0);
	CHECK(table()->kfd.in_call[id] == 0);
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == -EBUSY && !is_off(id) && !is_off(other));
	CHECK(table()->kfd.partial); /* which the daemon is told: it takes no turns */
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0);
	/* Until it is known again. */
	CHECK(set_queue(id, RING, 100, 7) == 0);
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(id) && is_off(other));
}

static void two_at_once_of_which_one_fails(void)
{
	start();
	uint32_t id = make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(id));
	driver.during = fail_meanwhile;
	CHECK(set_queue(id, BAD_RING, 100, 7) == -1);
	CHECK(is_off(id) && table()->kfd.in_call[id] == 0 && !table()->kfd.lossy);
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0 && !is_off(id));
	driver.during = fail_meanwhile;
	CHECK(set_queue(id, RING, 100, 5) == 0 && !table()->kfd.lossy);
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(id));
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0);
	CHECK(driver.set[id].queue_priority == 5 && driver.set[id].ring_base_address == RING);
}

static void overtaken_by_the_program(void)
{
	start();
	uint32_t id = make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	struct kfd_update_queue old = driver.set[id];
	/* As an agent that is about to put it back, and is not let run. */
	table()->kfd.acting_on = id + 1;
	world.clock_stopped = false;
	CHECK(set_queue(id, 0x99000, 100, 7) == 0);
	driver.set[id] = old;
	table()->kfd.acting_on = 0;
	step();
	CHECK(driver.set[id].ring_base_address == 0x99000);
	unsigned n = driver.n_updates;
	step();
	CHECK(driver.n_updates == n);
	close(link);
}

static void opens_what_the_program_has_closed(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
	/* Another file of the program's has our number. */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), copy = shim_fd_get(&shim_owned.kfd);
	CHECK(null >= 0 && copy != world.kfd_fd && dup2(null, copy) == copy);
	CHECK(close(world.kfd_fd) == 0);
	world.no_kfd = true;
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == -ENOENT && is_off(0));
	CHECK(say(link, RBT_AGENT_PREEMPT, 0, 0) == 0); /* it is off */
	world.no_kfd = false;
	step();
	CHECK(!is_off(0) && fcntl(copy, F_GETFD) >= 0);
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
}

static void takes_none_of_few_numbers(void)
{
	start();
	world.no_threads = true;
	int last = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct rlimit few = {(rlim_t)last + 1, (rlim_t)last + 1};
	CHECK(last > world.kfd_fd && setrlimit(RLIMIT_NOFILE, &few) == 0 && close(last) == 0);
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	CHECK(open("/dev/null", O_RDWR | O_CLOEXEC) == last);
	CHECK(shim_fd_get(&shim_owned.kfd) == world.kfd_fd);
	/* It acts on the program's own; one that it opens is not kept. */
	struct rbt_agent_request off = {
		.op = RBT_AGENT_SUSPEND, .kinds = RBT_AGENT_COMPUTE, .value = UINT64_MAX};
	struct rbt_agent_request on = {.op = RBT_AGENT_RESUME, .kinds = RBT_AGENT_COMPUTE};
	be_agent(&off);
	CHECK(is_off(0) && close(last) == 0 && close(world.kfd_fd) == 0);
	be_agent(&on);
	CHECK(!is_off(0) && fcntl(world.kfd_fd, F_GETFD) < 0 && fcntl(last, F_GETFD) < 0);
	/* In a child the program's own stays open. */
	world.kfd_fd = memfd_create("kfd", MFD_CLOEXEC);
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	shim_reset();
	CHECK(fcntl(world.kfd_fd, F_GETFD) >= 0);
}

/* Of another KFD process, whose queues have numbers of their own. */
static int second_driver(int fd, unsigned long request, void *arg)
{
	if (_IOC_NR(request) == KFD_NR_CREATE_QUEUE) {
		((struct kfd_create_queue *)arg)->queue_id = 0;
	}
	return 0;
}

static void several_processes(void)
{
	struct kfd_create_queue a = {
		.ring_base_address = 99 * RING, .ring_size = 4096, .queue_percentage = 100};

	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	make_queue(KFD_QUEUE_SDMA);
	int link = await_link();
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
	uint64_t ring = driver.set[0].ring_base_address;
	world.kfd_call = second_driver;
	CHECK(rbt_shim_call_kfd(world.kfd_fd, _IO(KFD_IOCTL_TYPE, KFD_NR_CREATE_PROCESS), NULL) ==
		0);
	CHECK(rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_CREATE_QUEUE, &a) == 0);
	world.kfd_call = driver_call;
	/* The first queue keeps its ring, and runs; from now on all are the program's own. */
	step();
	CHECK(driver.set[0].ring_base_address == ring && !is_off(0));
	CHECK(table()->kfd.n_queues == 0 && set_queue(0, RING, 50, 3) == 0);
	shim_take_in(table(), world.clock_ns);
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_CLIENT_GONE && m->client.backend == RBT_BACKEND_AMD);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(several_processes),
		TEST(never_an_old_ring),
		TEST(two_at_once_are_left_alone),
		TEST(two_at_once_of_which_one_fails),
		TEST(overtaken_by_the_program),
		TEST(opens_what_the_program_has_closed),
		TEST(takes_none_of_few_numbers),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
