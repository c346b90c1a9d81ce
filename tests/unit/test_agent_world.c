/* SPDX-License-Identifier: Apache-2.0 */
#include "test_agent_world.h"

#include <errno.h>
#include <sys/socket.h>

#include "util/fd.h"
#include "util/time.h"

struct agent_driver driver;
uint64_t pointers[2 * KFD_MAX_QUEUES];

static int fail(int error)
{
	errno = error;
	return -1;
}

int driver_call(int fd, unsigned long request, void *arg)
{
	struct kfd_create_queue *create = arg;
	struct kfd_update_queue *update = arg;
	uint32_t id = 0;

	CHECK(shim_raw_is_kfd(fd));
	switch (_IOC_NR(request)) {
	case KFD_NR_CREATE_QUEUE:
		while (driver.there[id]) {
			id++;
		}
		driver.there[id] = true;
		driver.set[id] = (struct kfd_update_queue){
			.ring_base_address = create->ring_base_address,
			.queue_id = id,
			.ring_size = create->ring_size,
			.queue_percentage = create->queue_percentage,
			.queue_priority = create->queue_priority,
		};
		create->queue_id = id;
		return 0;
	case KFD_NR_UPDATE_QUEUE:
		if (driver.agent_acts && driver.fail_errno != 0) {
			return fail(driver.fail_errno);
		}
		if (update->queue_id >= KFD_MAX_QUEUES || !driver.there[update->queue_id]) {
			return fail(EFAULT);
		}
		if (driver.during != NULL) {
			driver.during(update->queue_id);
		}
		if (update->ring_base_address == BAD_RING) {
			return fail(EINVAL);
		}
		driver.set[update->queue_id] = *update;
		driver.n_updates += driver.agent_acts;
		return 0;
	case KFD_NR_DESTROY_QUEUE:
		id = ((struct kfd_destroy_queue *)arg)->queue_id;
		if (id >= KFD_MAX_QUEUES || !driver.there[id]) {
			return fail(EINVAL);
		}
		driver.there[id] = false;
		return 0;
	default:
		return 0;
	}
}

uint32_t make_queue(uint32_t type)
{
	static uint32_t n;
	struct kfd_create_queue a = {
		.ring_base_address = RING * (++n),
		.ring_size = 4096,
		.gpu_id = GPU_ID,
		.queue_type = type,
		.queue_percentage = 100,
		.queue_priority = 7,
	};

	/* The id is not known before: the first that is free. */
	uint32_t id = 0;
	while (driver.there[id]) {
		id++;
	}
	a.write_pointer_address = (uintptr_t)&pointers[2 * id];
	a.read_pointer_address = (uintptr_t)&pointers[2 * id + 1];
	CHECK(rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_CREATE_QUEUE, &a) == 0);
	CHECK(a.queue_id == id);
	return id;
}

int destroy_queue(uint32_t id)
{
	struct kfd_destroy_queue a = {.queue_id = id};

	return rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_DESTROY_QUEUE, &a);
}

int set_queue(uint32_t id, uint64_t ring, uint32_t percentage, uint32_t priority)
{
	struct kfd_update_queue a = {
		.ring_base_address = ring,
		.queue_id = id,
		.ring_size = 4096,
		.queue_percentage = percentage,
		.queue_priority = priority,
	};

	return rbt_shim_call_kfd(world.kfd_fd, KFD_IOC_UPDATE_QUEUE, &a);
}

void start(void)
{
	world_start("2", "", NULL);
	daemon_listen();
	world.kfd_call = driver_call;
	world.clock_stopped = true;
	world.clock_ns = RBT_NS_PER_S;
}

uint64_t step(void)
{
	driver.agent_acts = true;
	uint64_t next_ns = shim_agent_step(table(), world.clock_ns);
	driver.agent_acts = false;
	return next_ns;
}

int await_link(void)
{
	int fd = -1;

	CHECK(daemon_accept());
	for (;;) {
		struct received *m = daemon_receive();
		if (m->type == 0) {
			CHECK(fd >= 0);
			return fd;
		}
		if (m->type == RBT_MSG_RECORD && m->fd >= 0) {
			fd = m->fd;
		} else {
			rbt_close(&m->fd);
		}
	}
}

int answer_of(int link)
{
	struct rbt_agent_reply reply;

	return recv(link, &reply, sizeof(reply), MSG_DONTWAIT) == sizeof(reply) ? reply.error : 1;
}

int say(int link, uint32_t op, uint32_t kinds, uint64_t value)
{
	static uint32_t seq;
	struct rbt_agent_request req = {
		.magic = RBT_AGENT_MAGIC, .op = op, .seq = ++seq, .kinds = kinds, .value = value};
	struct rbt_agent_reply reply;

	CHECK(send(link, &req, sizeof(req), MSG_DONTWAIT) == sizeof(req));
	step();
	if (recv(link, &reply, sizeof(reply), MSG_DONTWAIT) != sizeof(reply)) {
		return 1;
	}
	CHECK(reply.magic == RBT_AGENT_MAGIC && reply.seq == seq);
	return reply.error;
}

int suspend(int link, uint32_t kinds)
{
	return say(link, RBT_AGENT_SUSPEND, kinds, world.clock_ns + 2 * RBT_NS_PER_S);
}

bool is_off(uint32_t id)
{
	return driver.set[id].queue_percentage == 0;
}
