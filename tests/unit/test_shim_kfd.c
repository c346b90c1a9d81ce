/* SPDX-License-Identifier: Apache-2.0 */
/* What the shim learns from a program's calls to KFD, and what its agent does to the queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "board/board.h"
#include "shim/submit.h"
#include "test_agent_world.h"
#include "util/fd.h"
#include "util/time.h"

static void records_queues(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	make_queue(KFD_QUEUE_SDMA);
	CHECK(world.n_threads == 1 && daemon_accept());
	CHECK(daemon_receive()->type == RBT_MSG_HELLO);
	struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_BOARD);
	close(m->fd);
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_tasks == 1 && m->fd >= 0);
	close(m->fd);
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->record.n_tasks == 2 && m->fd < 0);
	CHECK(m->record.backend == RBT_BACKEND_AMD && m->record.flags == RBT_RECORD_AGENT);
	CHECK(m->tasks[0].handle == 0 && m->tasks[0].subdevice == GPU_ID);
	CHECK(m->tasks[0].kind == RBT_TASK_COMPUTE && m->tasks[1].kind == RBT_TASK_COPY);
	CHECK(m->tasks[1].first_channel == 1 && m->channels[1] == 1);
	CHECK(destroy_queue(0) == 0);
	m = daemon_receive();
	CHECK(m->record.n_tasks == 1 && m->tasks[0].handle == 1 && m->channels[0] == 1);
	CHECK(destroy_queue(1) == 0);
	m = daemon_receive();
	CHECK(m->type == RBT_MSG_CLIENT_GONE && m->client.backend == RBT_BACKEND_AMD);
	CHECK(table()->kfd.n_queues == 0);
}

static void older_and_other_calls(void)
{
	struct kfd_create_queue a = {.gpu_id = GPU_ID, .queue_percentage = 100};
	unsigned long old = _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_TYPE, KFD_NR_CREATE_QUEUE,
		KFD_CREATE_QUEUE_OLD_SIZE);

	start();
	CHECK(rbt_shim_call_kfd(world.kfd_fd, old, &a) == 0);
	CHECK(table()->kfd.n_queues == 1);
	/* Consoles have calls of this type too; and refused ones teach nothing. */
	world.kfd_call = NULL;
	world.foreign = true;
	int console = memfd_create("tty", 0);
	CHECK(rbt_shim_call_kfd(console, KFD_IOC_CREATE_QUEUE, &a) == 0);
	CHECK(rbt_shim_call_kfd(console, 0x4b07, NULL) == 0);
	CHECK(rbt_shim_call_kfd(world.kfd_fd, 0x4b02, (void *)8) == 0);
	CHECK(table()->kfd.n_queues == 1);
	world.foreign = false;
	world.kfd_call = driver_call;
	errno = 0;
	CHECK(destroy_queue(9) == -1 && errno == EINVAL && table()->kfd.n_queues == 1);
}

static void bad_pointers_are_the_drivers(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	/* Where there is no memory: the driver answers, and nobody faults before that. */
	world.kfd_call = NULL;
	world.fail_errno = EFAULT;
	errno = 0;
	CHECK(rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_DESTROY_QUEUE, (void *)16) == -1);
	CHECK(errno == EFAULT);
	CHECK(rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_UPDATE_QUEUE, (void *)16) == -1);
	CHECK(rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_UPDATE_QUEUE, NULL) == -1);
}

static void obeys(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	make_queue(KFD_QUEUE_SDMA);
	int link = await_link();
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0) && !is_off(1));
	CHECK(driver.set[0].ring_base_address != 0 && driver.set[0].ring_size == 4096);
	CHECK(suspend(link, RBT_AGENT_REST) == 0 && is_off(0) && is_off(1));
	unsigned n = driver.n_updates;
	CHECK(suspend(link, RBT_AGENT_REST) == 0 && driver.n_updates == n);
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_REST, 0) == 0 && is_off(0) && !is_off(1));
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0 && !is_off(0));
	CHECK(say(link, RBT_AGENT_PREEMPT, 0, 0) == 0 && !is_off(0));
	CHECK(say(link, RBT_AGENT_PREEMPT, 7, 0) == -ENOENT);
	CHECK(say(link, 99, 0, 0) == -EINVAL);
	CHECK(say(link, RBT_AGENT_RENEW, 0, 0) == 1);
}

/* The agent has closed the link, and the record that comes next brings another one. */
static int await_next_link(int old)
{
	char end;

	CHECK(recv(old, &end, 1, MSG_DONTWAIT) == 0);
	close(old);
	shim_take_in(table(), world.clock_ns);
	const struct received *m = daemon_receive();
	CHECK(m->type == RBT_MSG_RECORD && m->fd >= 0);
	return m->fd;
}

static int hold(int link, uint32_t id)
{
	return say(link, RBT_AGENT_HOLD_QUEUE, id, world.clock_ns + 2 * RBT_NS_PER_S);
}

static int release(int link, uint32_t id)
{
	return say(link, RBT_AGENT_RELEASE_QUEUE, id, 0);
}

static void holds_one_queue(void)
{
	start();
	for (int i = 0; i < 3; i++) {
		make_queue(KFD_QUEUE_COMPUTE_AQL);
	}
	int link = await_link();
	CHECK(hold(link, 1) == 0 && !is_off(0) && is_off(1) && !is_off(2));
	CHECK(hold(link, 1) == 0 && table()->kfd.n_held == 1);
	/* Whatever happens to the others. */
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0) && is_off(1));
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0 && !is_off(0) && is_off(1));
	CHECK(say(link, RBT_AGENT_PREEMPT, 1, 0) == 0 && is_off(1));
	CHECK(set_queue(1, RING, 100, 3) == 0 && !is_off(1));
	step();
	CHECK(is_off(1));
	/* A queue of a kind that is off stays so. */
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && release(link, 1) == 0 && is_off(1));
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0 && !is_off(1));
	CHECK(driver.set[1].queue_priority == 3);
	CHECK(hold(link, 7) == -ENOENT && release(link, 7) == 0 && release(link, UINT32_MAX) == 0);
	CHECK(say(link, RBT_AGENT_HOLD_QUEUE, 1, world.clock_ns - 1) == -ETIMEDOUT && !is_off(1));
	driver.fail_errno = EIO;
	CHECK(hold(link, 1) == -EIO && table()->kfd.n_held == 0);
	driver.fail_errno = 0;
	/* Another queue with its number is not held. */
	CHECK(hold(link, 1) == 0 && destroy_queue(1) == 0 && table()->kfd.n_held == 0);
	CHECK(make_queue(KFD_QUEUE_COMPUTE_AQL) == 1);
	step();
	CHECK(!is_off(1));
}

static void holds_the_queue_that_is_meant(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	uint32_t old = RBT_AGENT_QUEUE(1, shim_kfd_serial(&table()->kfd.queues[1]));
	CHECK(hold(link, old) == 0 && is_off(1));
	CHECK(release(link, old) == 0 && !is_off(1));
	/* The daemon does not know yet that another queue has the number. */
	CHECK(destroy_queue(1) == 0 && make_queue(KFD_QUEUE_COMPUTE_AQL) == 1);
	CHECK(hold(link, old) == -ENOENT && !is_off(1) && table()->kfd.n_held == 0);
	CHECK(hold(link, RBT_AGENT_QUEUE(1, 0)) == 0 && is_off(1));
	CHECK(release(link, old) == 0 && is_off(1));
	CHECK(release(link, RBT_AGENT_QUEUE(1, 0)) == 0 && !is_off(1));
}

static void held_queue_fails_open(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(hold(link, 1) == 0);
	world.clock_ns += RBT_NS_PER_S;
	CHECK(say(link, RBT_AGENT_RENEW, 0, world.clock_ns + 2 * RBT_NS_PER_S) == 1);
	world.clock_ns += RBT_NS_PER_S + RBT_NS_PER_S / 2;
	CHECK(step() <= world.clock_ns + RBT_NS_PER_S && is_off(1));
	world.clock_ns += RBT_NS_PER_S;
	step();
	CHECK(!is_off(1) && table()->kfd.n_held == 0);
	link = await_next_link(link);
	CHECK(hold(link, 1) == 0 && is_off(1));
	close(link);
	step();
	CHECK(!is_off(1));
}

static void keeps_what_the_program_sets(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
	CHECK(set_queue(0, 0x77000, 100 | 2 << 8, 12) == 0);
	CHECK(driver.set[0].queue_percentage == (100 | 2 << 8)); /* as it was told */
	step();
	/* Off again, with the new ring, and the partition as it is. */
	CHECK(driver.set[0].queue_percentage == 2 << 8 && driver.set[0].queue_priority == 12);
	CHECK(driver.set[0].ring_base_address == 0x77000);
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0);
	CHECK(driver.set[0].queue_percentage == (100 | 2 << 8));
	CHECK(driver.set[0].ring_base_address == 0x77000 && driver.set[0].queue_priority == 12);
	/* New queues are off as well, when they are found. */
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0);
	uint32_t id = make_queue(KFD_QUEUE_COMPUTE);
	CHECK(!is_off(id) && step() <= world.clock_ns + 5 * RBT_NS_PER_MS && is_off(id));
}

static void levels(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(say(link, RBT_AGENT_LEVEL, 0, RBT_AGENT_LEVEL_HIGH) == 1);
	CHECK(driver.set[0].queue_priority == 12 && driver.set[0].queue_percentage == 100);
	/* What the program sets is moved in its turn, in its order. */
	CHECK(set_queue(0, RING, 100, 0) == 0);
	step();
	CHECK(driver.set[0].queue_priority == 11);
	CHECK(set_queue(0, RING, 100, 15) == 0);
	step();
	CHECK(driver.set[0].queue_priority == 15);
	CHECK(say(link, RBT_AGENT_LEVEL, 0, RBT_AGENT_LEVEL_LOW) == 1);
	CHECK(driver.set[0].queue_priority == 6);
	CHECK(say(link, RBT_AGENT_LEVEL, 0, 77) == 1 && driver.set[0].queue_priority == 6);
	CHECK(say(link, RBT_AGENT_LEVEL, 0, RBT_AGENT_LEVEL_OWN) == 1);
	CHECK(driver.set[0].queue_priority == 15);
	/* Nobody means it any more. */
	CHECK(say(link, RBT_AGENT_LEVEL, 0, RBT_AGENT_LEVEL_LOW) == 1);
	close(link);
	step();
	CHECK(driver.set[0].queue_priority == 15);
}

/* The renewals that a stopped program did not read are read before it is too late. */
static void hears_all_renewals_first(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(hold(link, 0) == 0 && is_off(0));
	for (int i = 0; i < 40; i++) {
		struct rbt_agent_request renew = {.magic = RBT_AGENT_MAGIC,
			.op = RBT_AGENT_RENEW,
			.value = world.clock_ns + 2 * RBT_NS_PER_S};
		CHECK(send(link, &renew, sizeof(renew), MSG_DONTWAIT) == sizeof(renew));
		world.clock_ns += RBT_NS_PER_S / 4;
	}
	for (int i = 0; i < 3; i++) {
		CHECK(step() > world.clock_ns || i < 2);
		CHECK(is_off(0));
	}
	world.clock_ns += 2 * RBT_NS_PER_S;
	step();
	CHECK(!is_off(0));
}

static void fails_open(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	/* By its deadline, and by the longest there can be. */
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
	world.clock_ns += RBT_NS_PER_S;
	CHECK(say(link, RBT_AGENT_RENEW, 0, world.clock_ns + 2 * RBT_NS_PER_S) == 1);
	world.clock_ns += RBT_NS_PER_S + RBT_NS_PER_S / 2;
	step();
	CHECK(is_off(0));
	world.clock_ns += RBT_NS_PER_S;
	step();
	CHECK(!is_off(0));
	/* The daemon does not know, and gets another link. */
	link = await_next_link(link);
	CHECK(say(link, RBT_AGENT_SUSPEND, RBT_AGENT_COMPUTE, UINT64_MAX) == 0 && is_off(0));
	world.clock_ns += RBT_AGENT_LEASE_NS + 1;
	step();
	CHECK(!is_off(0));
	link = await_next_link(link);
	/* What was said too long ago is not done. */
	CHECK(say(link, RBT_AGENT_SUSPEND, RBT_AGENT_COMPUTE, world.clock_ns - 1) == -ETIMEDOUT);
	CHECK(!is_off(0));
	/* Nobody is there any more. */
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
	close(link);
	step();
	CHECK(!is_off(0) && shim_fd_get(&shim_owned.link) < 0);
}

static void is_cut_off_for_nonsense(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
	CHECK(send(link, "what?", 5, 0) == 5);
	step();
	CHECK(!is_off(0) && shim_fd_get(&shim_owned.link) < 0);
}

static void refused_is_undone(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	driver.fail_errno = EIO;
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == -EIO && !is_off(0));
	driver.fail_errno = 0;
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
	driver.fail_errno = EBUSY;
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == -EBUSY && is_off(0));
	/* It is tried until it works. */
	CHECK(step() < world.clock_ns + RBT_NS_PER_S);
	driver.fail_errno = 0;
	step();
	CHECK(!is_off(0));
}

static void spares_queues_in_the_programs_hands(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	/* As a thread that is in the driver with it. */
	table()->kfd.in_call[0] = 1;
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 1 && !is_off(0)); /* not answered yet */
	table()->kfd.in_call[0] = 0;
	step();
	CHECK(is_off(0) && answer_of(link) == 0);
	CHECK(say(link, RBT_AGENT_RESUME, RBT_AGENT_COMPUTE, 0) == 0 && !is_off(0));
	/* Without an end: it is told that it is not done, and it is not done later. */
	table()->kfd.in_call[0] = 1;
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 1);
	world.clock_ns += 200 * RBT_NS_PER_MS;
	step();
	CHECK(answer_of(link) == -EBUSY);
	table()->kfd.in_call[0] = 0;
	step();
	CHECK(!is_off(0));
}

static void the_agent_is_in_the_driver(uint32_t id)
{
	CHECK(driver.agent_acts ? table()->kfd.acting_on == id + 1 : table()->kfd.in_call[id] == 1);
}

static void says_what_it_is_at(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	driver.during = the_agent_is_in_the_driver;
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && set_queue(0, RING, 100, 7) == 0);
	CHECK(table()->kfd.acting_on == 0 && table()->kfd.in_call[0] == 0);
}

static void ids_are_used_again(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && destroy_queue(0) == 0);
	CHECK(make_queue(KFD_QUEUE_SDMA) == 0);
	step();
	CHECK(!is_off(0)); /* of another kind */
	unsigned n = driver.n_updates;
	CHECK(destroy_queue(0) == 0);
	step();
	CHECK(driver.n_updates == n);
}

static void looks(void)
{
	start();
	uint32_t id = make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	struct rbt_board_reader watch = {0};
	struct rbt_board_reading r;

	CHECK(say(link, RBT_AGENT_WATCH, 0, 1000) == 1);
	struct rbt_board *b = shim_board_of(table()->kfd.slot);
	rbt_board_read(b, &watch, world.clock_ns, &r);
	CHECK(!r.in_sync && r.n_pending == 0);
	CHECK(rbt_board_doze(b, &watch) && b->asleep == 1);
	pointers[2 * id] = 5;
	step(); /* not yet */
	CHECK(b->asleep == 1);
	world.clock_ns += RBT_NS_PER_MS;
	CHECK(step() == world.clock_ns + RBT_NS_PER_MS);
	CHECK(b->asleep == 0);
	rbt_board_read(b, &watch, world.clock_ns, &r);
	CHECK(r.in_sync && r.n_pending == 5 && r.n[RBT_BOARD_LAUNCH] == 5);
	CHECK(!rbt_board_doze(b, &watch));
	/* A daemon that waits for its end is woken by that alone. */
	CHECK(rbt_board_await_sync(b, &watch));
	pointers[2 * id + 1] = 4;
	world.clock_ns += RBT_NS_PER_MS;
	step();
	CHECK(b->asleep == RBT_BOARD_AWAITS_SYNC);
	pointers[2 * id + 1] = 5;
	world.clock_ns += RBT_NS_PER_MS;
	step();
	CHECK(b->asleep == 0 && !rbt_board_await_sync(b, &watch));
	rbt_board_read(b, &watch, world.clock_ns + 1, &r);
	CHECK(!r.in_sync && r.n_pending == 0 && r.active_ns == world.clock_ns);
	CHECK(rbt_board_doze(b, &watch));
	/* Seen too late to be waited for: it has begun, and is over. */
	pointers[2 * id] = pointers[2 * id + 1] = 9;
	world.clock_ns += RBT_NS_PER_MS;
	step();
	CHECK(b->asleep == 0);
	rbt_board_read(b, &watch, world.clock_ns, &r);
	CHECK(!r.in_sync && r.n[RBT_BOARD_LAUNCH] == 9);
}

static void poll_after(uint64_t ms, uint64_t wptr, uint64_t rptr)
{
	pointers[0] = wptr;
	pointers[1] = rptr;
	world.clock_ns += ms * RBT_NS_PER_MS;
	step();
}

static void requests_are_timed(void)
{
	start();
	CHECK(make_queue(KFD_QUEUE_COMPUTE_AQL) == 0);
	int link = await_link();
	struct rbt_hist lengths;

	CHECK(say(link, RBT_AGENT_WATCH, 0, 1000) == 1);
	struct rbt_board *b = shim_board_of(table()->kfd.slot);
	poll_after(1, 3, 0);
	poll_after(2, 3, 1);
	poll_after(2, 4, 2);
	CHECK(b->n_requests == 0);
	poll_after(3, 4, 4);
	CHECK(b->n_requests == 1);
	CHECK(b->request_ns == 7 * RBT_NS_PER_MS);
	/* Between two polls. */
	poll_after(2, 5, 5);
	rbt_board_read_lengths(b, &lengths);
	CHECK(rbt_hist_count(&lengths) == 2 && lengths.sum_ns == 8 * RBT_NS_PER_MS);
	CHECK(lengths.max_ns == 7 * RBT_NS_PER_MS && b->announces == 0);
	/* Its begin was missed, and so was its end. */
	poll_after(100, 6, 5);
	poll_after(1, 6, 6);
	poll_after(1, 7, 6);
	poll_after(100, 7, 7);
	CHECK(b->n_requests == 2);
	/* One that announces its requests knows better. */
	b->announces = 1;
	poll_after(1, 8, 7);
	poll_after(1, 8, 8);
	CHECK(b->n_requests == 2);
}

static void the_first_packet_is_timed(void)
{
	start();
	CHECK(make_queue(KFD_QUEUE_COMPUTE_AQL) == 0);
	int link = await_link();

	CHECK(say(link, RBT_AGENT_WATCH, 0, 1000) == 1);
	struct rbt_board *b = shim_board_of(table()->kfd.slot);
	poll_after(1, 3, 0);
	uint64_t cleared_ns = world.clock_ns + 1000;
	b->cleared_ns = cleared_ns;
	poll_after(1, 3, 0);
	poll_after(1, 4, 0);
	CHECK(b->done_for_ns == 0);
	poll_after(1, 4, 1);
	CHECK(b->done_for_ns == cleared_ns && b->done_ns == world.clock_ns);
	poll_after(1, 4, 2);
	CHECK(b->done_ns == world.clock_ns - RBT_NS_PER_MS);
	/* All was done before: the next packet is another request's. */
	poll_after(1, 4, 4);
	b->cleared_ns = world.clock_ns + 1000;
	poll_after(1, 4, 4);
	poll_after(1, 5, 4);
	poll_after(1, 5, 5);
	CHECK(b->done_for_ns == cleared_ns);
}

static void looks_where_nothing_is(void)
{
	struct kfd_create_queue a = {.gpu_id = GPU_ID,
		.ring_size = 4096,
		.queue_type = KFD_QUEUE_COMPUTE_AQL,
		.queue_percentage = 100,
		.write_pointer_address = 0x10,
		.read_pointer_address = 0x18};
	struct rbt_board_reader watch = {0};
	struct rbt_board_reading r;

	start();
	CHECK(rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_CREATE_QUEUE, &a) == 0);
	for (int i = 0; i < 700; i++) { /* more than one call reads */
		pointers[2 * make_queue(KFD_QUEUE_COMPUTE_AQL)] = 1;
	}
	int link = await_link();
	CHECK(say(link, RBT_AGENT_WATCH, 0, 1000) == 1);
	rbt_board_read(shim_board_of(table()->kfd.slot), &watch, world.clock_ns, &r);
	CHECK(r.in_sync && r.n_pending == 700);
	/* Nonsense is not believed. */
	pointers[2] = UINT64_MAX / 2;
	world.clock_ns += RBT_NS_PER_MS;
	step();
	rbt_board_read(shim_board_of(table()->kfd.slot), &watch, world.clock_ns, &r);
	CHECK(r.n_pending == 699);
}

static void without_an_agent(void)
{
	start();
	world.no_threads = true;
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	CHECK(!daemon_accept() && world.n_threads == 1);
}

static void without_a_daemon(void)
{
	world_start("2", NULL, "1");
	world.kfd_call = driver_call;
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	CHECK(world.n_threads == 0 && table()->kfd.n_queues == 1);
}

static void after_fork(void)
{
	start();
	make_queue(KFD_QUEUE_COMPUTE_AQL);
	int link = await_link();
	pid_t pid = fork();
	if (pid == 0) {
		world.n_threads = 0;
		make_queue(KFD_QUEUE_COMPUTE_AQL);
		/* Its own agent, and neither its parent's queues nor its parent's link. */
		CHECK(world.n_threads == 1 && table()->kfd.n_queues == 1);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(suspend(link, RBT_AGENT_COMPUTE) == 0 && is_off(0));
}

int main(void)
{
	static const struct test tests[] = {
		TEST(records_queues),
		TEST(older_and_other_calls),
		TEST(bad_pointers_are_the_drivers),
		TEST(obeys),
		TEST(holds_one_queue),
		TEST(holds_the_queue_that_is_meant),
		TEST(held_queue_fails_open),
		TEST(keeps_what_the_program_sets),
		TEST(levels),
		TEST(hears_all_renewals_first),
		TEST(fails_open),
		TEST(is_cut_off_for_nonsense),
		TEST(refused_is_undone),
		TEST(spares_queues_in_the_programs_hands),
		TEST(says_what_it_is_at),
		TEST(ids_are_used_again),
		TEST(looks),
		TEST(requests_are_timed),
		TEST(the_first_packet_is_timed),
		TEST(looks_where_nothing_is),
		TEST(without_an_agent),
		TEST(without_a_daemon),
		TEST(after_fork),
	};

	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
