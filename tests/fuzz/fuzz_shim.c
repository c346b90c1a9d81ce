/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary sequences of ioctls, accepted or refused by an arbitrary driver, against the shim's
 * table. After each input the table must hold together.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "require.h"
#include "shim/config.h"
#include "shim/shim.h"

static const uint8_t *input;
static size_t input_left;
static uint64_t clock_ns;
static int device_fds[2];
static int listener = -1;
static bool agreeable; /* the driver accepts everything, without a look at the input */
static char socket_path[64];

static uint8_t next_byte(void)
{
	if (input_left == 0) {
		return 0;
	}
	input_left--;
	return *input++;
}

int shim_raw_ioctl(int fd, unsigned long request, void *arg)
{
	uint8_t verdict = agreeable ? 0 : next_byte();

	if ((verdict & 15) == 15) {
		errno = EIO;
		return -1;
	}
	/* The shim's own questions. */
	if (request == NV_IOCTL_CARD_INFO && arg != NULL) {
		struct nv_card_info *cards = arg;
		cards[verdict % NV_MAX_GPUS].valid = 1;
		cards[verdict % NV_MAX_GPUS].minor_number = next_byte();
	} else if (request == NV_IOCTL_CONTROL && arg != NULL && (verdict & 7) == 7) {
		((struct nv_control *)arg)->status = next_byte();
	}
	return 0;
}

uint64_t shim_raw_now_ns(void)
{
	return clock_ns += 1000;
}

bool shim_raw_has_counter(void)
{
	return false;
}

bool shim_raw_is_control(int fd)
{
	return fd >= 0;
}

bool shim_raw_is_kfd(int fd)
{
	return fd >= 0;
}

/* What the agent would do is done in steps of the input's. */
int shim_raw_start_thread(void (*fn)(void))
{
	return next_byte() & 1 ? -EAGAIN : (int)shim_sys_gettid();
}

/* The environment names no command. */
int shim_raw_spawn(struct shim_spawn *p)
{
	REQUIRE(false);
	return -ENOSYS;
}

int shim_raw_open_kfd(void)
{
	return -ENOENT;
}

int shim_raw_open_gpu(uint32_t gpu)
{
	REQUIRE(gpu < NV_MAX_GPUS);
	return next_byte() & 1 ? -EACCES : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

ssize_t shim_raw_driver_version(char *buf, size_t size)
{
	return snprintf(buf, size, "580.%u\n", next_byte());
}

/* Few names, so that they meet. */
static uint32_t some_client(uint8_t b)
{
	return 0xc1d00000u + (b & 3);
}

static uint32_t some_object(uint8_t b)
{
	return b & 0x20 ? some_client(b) : 0x5c000000u + (b & 0xf);
}

static uint32_t some_class(uint8_t b)
{
	static const uint32_t classes[] = {NV_CLASS_ROOT_CLIENT, NV_CLASS_DEVICE,
		NV_CLASS_SUBDEVICE, NV_CLASS_TSG, NV_CLASS_CHANNEL_HOPPER, NV_CLASS_COMPUTE_HOPPER,
		NV_CLASS_COPY_HOPPER, 0x3e};

	return classes[b % 8];
}

static void alloc(bool older)
{
	struct nv_tsg_params p = {.engine_type = next_byte()};
	struct nv_alloc64 a = {
		.root = some_client(next_byte()),
		.parent = some_object(next_byte()),
		.object = some_object(next_byte()),
		.hclass = some_class(next_byte()),
		.params = (uintptr_t)&p,
		.params_size = next_byte() & 1 ? sizeof(p) : 0,
		.status = next_byte() & 0x80 ? NV_ERR_NO_MEMORY : NV_OK,
	};
	int fd = device_fds[next_byte() & 1];

	if (older) {
		struct nv_alloc21 b;
		memcpy(&b, &a, offsetof(struct nv_alloc21, params_size));
		b.params_size = a.params_size;
		b.status = a.status;
		rbt_shim_call(fd, NV_IOCTL_ALLOC21, &b);
	} else {
		struct {
			uint32_t cmd, size;
			uint64_t ptr;
		} x = {NV_ESC_RM_ALLOC, sizeof(a), (uintptr_t)&a};
		if (next_byte() & 1) {
			rbt_shim_call(fd, _IOWR(NV_IOCTL_TYPE, NV_ESC_IOCTL_XFER_CMD, x), &x);
		} else {
			rbt_shim_call(fd, NV_IOCTL_ALLOC64, &a);
		}
	}
}

static void control(void)
{
	static const uint32_t cmds[] = {NV_CTRL_TSG_GPFIFO_SCHEDULE, NV_CTRL_TSG_SET_TIMESLICE,
		NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, NV_CTRL_GPU_GET_ID};
	static const uint32_t sizes[] = {3, 8, 4, 0};
	uint64_t params = (uint64_t)next_byte() << 16 | next_byte();
	uint8_t which = next_byte();
	struct nv_control c = {
		.client = some_client(next_byte()),
		.object = some_object(next_byte()),
		.cmd = cmds[which % 4],
		.params = which & 0x40 ? 0 : (uintptr_t)&params,
		.params_size = which & 0x80 ? sizes[next_byte() % 4] : sizes[which % 4],
	};

	rbt_shim_call(device_fds[0], NV_IOCTL_CONTROL, &c);
}

static void anything(void)
{
	uint8_t arg[64] = {0};
	unsigned long request = _IOC(3u, NV_IOCTL_TYPE, next_byte(), next_byte() % sizeof(arg));

	/* Nested pointers stay NULL: what the driver accepts is readable. */
	rbt_shim_call(device_fds[0], request, request & 1 ? arg : NULL);
}

/* Pointers into this, or to nowhere. */
static uint64_t pointers[8];

static uint64_t some_pointer(void)
{
	uint8_t b = next_byte();

	pointers[b & 7] += next_byte();
	return b & 0x80 ? 0x10 : (uintptr_t)&pointers[b & 7];
}

static void queue_call(void)
{
	struct kfd_create_queue create = {
		.ring_base_address = next_byte(),
		.ring_size = 1u << (next_byte() & 31),
		.gpu_id = next_byte() & 3,
		.queue_type = next_byte() & 7,
		.queue_percentage = next_byte(),
		.queue_priority = next_byte() & 15,
		.queue_id = next_byte() & 0x80 ? UINT32_MAX - 3 : next_byte() & 15,
		.write_pointer_address = some_pointer(),
		.read_pointer_address = some_pointer(),
	};
	struct kfd_update_queue update = {
		.queue_id = create.queue_id,
		.ring_size = create.ring_size,
		.queue_percentage = create.queue_percentage,
		.queue_priority = create.queue_priority,
	};
	struct kfd_destroy_queue destroy = {.queue_id = create.queue_id};
	uint8_t which = next_byte();

	if (which & 0x80) {
		/* A size of its own; and once in a while no argument at all. */
		uint8_t arg[128] = {which};
		unsigned nr = which % 9;
		rbt_shim_call_kfd(device_fds[1], _IOC(3u, KFD_IOCTL_TYPE, nr, which), arg);
		rbt_shim_call_kfd(device_fds[1], _IOC(3u, KFD_IOCTL_TYPE, nr, 96), NULL);
	} else if (which % 4 < 2) {
		rbt_shim_call_kfd(device_fds[1], KFD_IOC_CREATE_QUEUE, &create);
	} else if (which % 4 == 2) {
		rbt_shim_call_kfd(device_fds[1], KFD_IOC_UPDATE_QUEUE, &update);
	} else {
		rbt_shim_call_kfd(device_fds[1], KFD_IOC_DESTROY_QUEUE, &destroy);
	}
}

static void agent(void)
{
	struct rbt_agent_request req = {
		.magic = RBT_AGENT_MAGIC,
		.op = next_byte() % 8,
		.kinds = next_byte(),
		.value = (uint64_t)next_byte() << (next_byte() & 63),
	};
	struct rbt_agent_reply reply;
	struct shim_guard g;

	if (shim_peek() == NULL || shim_enter(&g) < 0) {
		return;
	}
	shim_agent_obey(g.s, &req, clock_ns, &reply);
	uint64_t next_ns = shim_agent_step(g.s, clock_ns);
	REQUIRE(next_ns != 0);
	shim_leave(&g);
}

static void check_queues(const struct shim *s)
{
	uint32_t n = 0;

	for (uint32_t id = 0; id < KFD_MAX_QUEUES; id++) {
		const struct shim_queue *q = &s->kfd.queues[id];
		REQUIRE(s->kfd.in_call[id] == 0 || s->kfd.lossy);
		REQUIRE(!q->used || (id < s->kfd.n_used && q->own.queue_id == id));
		REQUIRE(q->used || !q->off);
		n += q->used;
	}
	REQUIRE(n == s->kfd.n_queues && s->kfd.acting_on == 0);
}

static void give(uint32_t parent, uint32_t object, uint32_t hclass)
{
	struct nv_tsg_params p = {.engine_type = NV_ENGINE_TYPE_GRAPHICS};
	struct nv_alloc64 a = {.root = some_client(0),
		.parent = parent,
		.object = object,
		.hclass = hclass,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p)};

	rbt_shim_call(device_fds[0], NV_IOCTL_ALLOC64, &a);
}

/* A program with one task, so that inputs need not find their way to one first. */
static void make_context(void)
{
	struct nv_schedule_params p = {.enable = 1};
	struct nv_control c = {.client = some_client(0),
		.object = some_object(3),
		.cmd = NV_CTRL_TSG_GPFIFO_SCHEDULE,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p)};

	agreeable = true;
	give(0, some_client(0), NV_CLASS_ROOT_CLIENT);
	give(some_client(0), some_object(1), NV_CLASS_DEVICE);
	give(some_object(1), some_object(2), NV_CLASS_SUBDEVICE);
	give(some_object(1), some_object(3), NV_CLASS_TSG);
	give(some_object(3), some_object(4), NV_CLASS_CHANNEL_HOPPER);
	rbt_shim_call(device_fds[0], NV_IOCTL_CONTROL, &c);
	agreeable = false;
}

static void check_list(struct shim *s, enum shim_type type)
{
	unsigned n = 0;

	for (struct shim_obj *o = shim_first(s, type); o != NULL; o = shim_next(s, o)) {
		REQUIRE(o->type == type && ++n <= s->n_used);
	}
	for (unsigned i = 1; i <= s->n_used; i++) {
		n -= s->objs[i].type == type;
	}
	REQUIRE(n == 0);
}

static void check_table(struct shim *s)
{
	static const enum shim_type parent_type[] = {[SHIM_DEVICE] = SHIM_CLIENT,
		[SHIM_SUBDEVICE] = SHIM_DEVICE,
		[SHIM_TASK] = SHIM_DEVICE,
		[SHIM_CHANNEL] = SHIM_TASK};

	REQUIRE(s->lock_tid == 0);
	for (unsigned i = 1; i <= s->n_used; i++) {
		struct shim_obj *o = &s->objs[i];
		if (o->type == SHIM_FREE) {
			continue;
		}
		REQUIRE(shim_find(s, o->client, o->handle) == o);
		if (o->type == SHIM_CLIENT) {
			REQUIRE(o->parent == 0 && o->client == o->handle);
			continue;
		}
		REQUIRE(o->parent != 0 && s->objs[o->parent].type == parent_type[o->type]);
		REQUIRE(s->objs[o->parent].client == o->client);
		bool is_child = false;
		for (uint16_t c = s->objs[o->parent].child; c != 0; c = s->objs[c].sibling) {
			is_child = is_child || c == i;
		}
		REQUIRE(is_child);
	}
	check_list(s, SHIM_CLIENT);
	check_list(s, SHIM_TASK);
}

static void drain(void)
{
	static char buf[RBT_MSG_MAX];
	int sock = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	/* Received fds are not asked for, and so closed by the kernel. */
	while (sock >= 0 && recv(sock, buf, sizeof(buf), 0) > 0) {
	}
	if (sock >= 0) {
		close(sock);
	}
}

static void step(uint8_t op)
{
	struct nv_free f;

	if (op >= 0xe0) {
		agent();
		return;
	}
	if (op >= 0xb0) {
		queue_call();
		return;
	}
	switch (op % 8) {
	case 0:
	case 1:
	case 2:
		alloc(op % 8 == 0);
		break;
	case 3:
	case 4:
		control();
		break;
	case 5:
		f = (struct nv_free){
			.client = some_client(next_byte()), .object = some_object(next_byte())};
		rbt_shim_call(device_fds[0], NV_IOCTL_FREE, &f);
		break;
	case 6:
		anything();
		break;
	default:
		clock_ns += (uint64_t)op << 22;
		if (op & 0x20) {
			drain();
		}
		break;
	}
}

static void start(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	setenv(RBT_ENV_TREAT, "priority=2", 1);
	REQUIRE(shim_config_active());
	device_fds[0] = memfd_create("a", MFD_CLOEXEC);
	device_fds[1] = memfd_create("b", MFD_CLOEXEC);
	snprintf(socket_path, sizeof(socket_path), "/tmp/rubato-fuzz-shim-%d", (int)getpid());
	memcpy(addr.sun_path, socket_path, sizeof(socket_path));
	unlink(socket_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	REQUIRE(bind(listener, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
		listen(listener, 4) == 0);
}

static void stop(void)
{
	unlink(socket_path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (listener < 0) {
		start();
		atexit(stop);
	}
	input = data;
	input_left = size;
	uint8_t mode = next_byte();
	memcpy(shim_config.socket, socket_path, mode & 1 ? sizeof(socket_path) : 0);
	shim_config.socket[0] = mode & 1 ? '/' : '\0';
	shim_config.wanted_us = mode & 2 ? 5000 : 1;
	shim_config.treat.force = (mode & 4) != 0;
	if (mode & 8) {
		make_context();
	}
	while (input_left > 0) {
		step(next_byte());
	}
	if (shim_peek() != NULL) {
		check_table(shim_peek());
		check_queues(shim_peek());
		shim_reset();
	}
	drain();
	return 0;
}
