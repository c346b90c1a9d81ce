/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary calls of three arbitrary processes on the KFD model, while their queues run. They share
 * one small memory, which the input fills: ids, pointers and rings in it are the fuzzer's.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "backend/amd/kfd_abi.h"
#include "require.h"
#include "softgpu/kfd/kfd.h"

#define N_PROCESSES 3
#define FIRST_PID   100
#define MEMORY_AT   0x10000u
#define ARG_AT      MEMORY_AT
#define MAX_FILES   8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *data;
	size_t left;
	uint8_t memory[8192];
	int tracers[N_PROCESSES];
	bool files[MAX_FILES];
	int n_things; /* processes and queues that the model said are there */
} world;

static uint8_t next_byte(void)
{
	if (world.left == 0) {
		return 0;
	}
	world.left--;
	return *world.data++;
}

static uint8_t *memory(uint64_t addr, size_t size)
{
	if (addr < MEMORY_AT || addr - MEMORY_AT > sizeof(world.memory) ||
		size > sizeof(world.memory) - (addr - MEMORY_AT)) {
		return NULL;
	}
	return world.memory + (addr - MEMORY_AT);
}

static int copy_in(void *data, int pid, uint64_t addr, void *buf, size_t size)
{
	const uint8_t *p = memory(addr, size);

	if (p == NULL) {
		return -EFAULT;
	}
	memcpy(buf, p, size);
	return 0;
}

static int copy_out(void *data, int pid, uint64_t addr, const void *buf, size_t size)
{
	uint8_t *p = memory(addr, size);

	if (p == NULL) {
		return -EFAULT;
	}
	memcpy(p, buf, size);
	return 0;
}

static uint64_t read_bell(void *data, int pid, uint32_t gpu, uint32_t queue)
{
	return next_byte();
}

static int find_tracer(void *data, int pid, struct rbt_kfd_task *ret)
{
	if (pid < FIRST_PID || pid >= FIRST_PID + N_PROCESSES) {
		return -ESRCH;
	}
	int tid = world.tracers[pid - FIRST_PID];
	*ret = (struct rbt_kfd_task){.tid = tid, .pid = tid};
	return 0;
}

static int get_file(void *data, struct rbt_kfd_task caller, int fd)
{
	for (int i = 0; i < MAX_FILES; i++) {
		if (!world.files[i]) {
			world.files[i] = true;
			return i;
		}
	}
	return -EBADF;
}

static void write_file(void *data, int file)
{
	REQUIRE(file >= 0 && file < MAX_FILES && world.files[file]);
}

static void put_file(void *data, int file)
{
	write_file(data, file);
	world.files[file] = false;
}

static void note_change(void *data, int pid, int queue, bool there)
{
	world.n_things += there ? 1 : -1;
	REQUIRE(world.n_things >= 0);
}

/* Numbers that the model knows, so that calls get further than their first check. */
static void fill(uint8_t *p, size_t size)
{
	for (size_t i = 0; i + 4 <= size; i += 4) {
		uint8_t b = next_byte();
		uint32_t v = b;
		switch (b >> 5) {
		case 0:
			v = b & 31;
			break;
		case 1:
			v = rbt_kfd_gpu_id(b & 3);
			break;
		case 2:
			v = FIRST_PID + b % N_PROCESSES;
			break;
		case 3:
			v = 1u << (b & 31);
			break;
		case 4:
			v = MEMORY_AT + (uint32_t)next_byte() * 32;
			break;
		case 5:
			v = b & 1 ? UINT32_MAX : 0;
			break;
		default:
			v = (uint32_t)next_byte() << 24 | (uint32_t)next_byte() << 8 | b;
		}
		memcpy(p + i, &v, sizeof(v));
	}
}

static int check_queue(const struct rbt_kfd_queue_info *q, void *data)
{
	REQUIRE(q->id < KFD_MAX_QUEUES && q->gpu < 2 && q->percentage <= 100 && q->priority <= 15);
	REQUIRE(!q->running || !q->suspended);
	*(int *)data += 1;
	return 0;
}

static void one_call(struct rbt_kfd *kfd, struct rbt_kfd_open **opens)
{
	static const uint8_t numbers[] = {1, 2, 2, 2, 3, 5, 6, 7, 0x14, 0x15, 0x15, 0x16, 0x17,
		0x1a, 0x25, 0x25, 0x26, 0x26, 0x26, 0x26, 0x26, 0x26, 0x60};
	unsigned who = next_byte() % N_PROCESSES;
	uint8_t nr = numbers[next_byte() % sizeof(numbers)], size = next_byte();
	struct rbt_kfd_task caller = {
		.pid = FIRST_PID + (int)who, .tid = FIRST_PID + (int)(size & 64 ? who : who + 1)};
	uint64_t delay_us;

	/* Mostly as long as it should be. */
	size = size & 128 ? size : nr == 2 ? 96 : 40;
	if (opens[who] == NULL) {
		return;
	}
	fill(world.memory, size & 0xfcu);
	if (nr == KFD_NR_DBG_TRAP) {
		uint32_t op = next_byte() % 16;
		memcpy(world.memory + 4, &op, sizeof(op));
	}
	int64_t r = rbt_kfd_ioctl(
		opens[who], caller, (uint32_t)_IOC(3u, 'K', nr, size), ARG_AT, &delay_us);
	REQUIRE(r == RBT_KFD_WAIT || (r >= -600 && r <= KFD_MAX_QUEUES));
}

static void make_call(struct rbt_kfd_open *open, int pid, uint32_t request, const void *arg)
{
	struct rbt_kfd_task caller = {.pid = pid, .tid = pid};
	uint64_t delay_us;

	memcpy(world.memory, arg, _IOC_SIZE(request));
	(void)rbt_kfd_ioctl(open, caller, request, ARG_AT, &delay_us);
}

/* A program with two queues, and its debugger: hardly ever found by chance. */
static void begin_session(struct rbt_kfd *kfd, struct rbt_kfd_open **opens)
{
	struct kfd_acquire_vm vm = {.drm_fd = 1, .gpu_id = rbt_kfd_gpu_id(0)};
	struct kfd_runtime_enable runtime = {.mode_mask = KFD_RUNTIME_ENABLE_MODE};
	struct kfd_create_queue queue = {.ring_base_address = MEMORY_AT + 1024,
		.ring_size = 1024,
		.write_pointer_address = MEMORY_AT + 512,
		.read_pointer_address = MEMORY_AT + 520,
		.gpu_id = vm.gpu_id,
		.queue_type = KFD_QUEUE_COMPUTE_AQL,
		.queue_percentage = 100,
		.ctx_save_restore_address = MEMORY_AT + 4096,
		.ctx_save_restore_size = 4096};
	struct kfd_dbg_trap enable = {.pid = FIRST_PID, .op = KFD_DBG_ENABLE};

	for (int i = 0; i < 2; i++) {
		opens[i] = rbt_kfd_open(kfd, FIRST_PID + i);
		REQUIRE(opens[i] != NULL);
		make_call(opens[i], FIRST_PID + i, KFD_IOC_ACQUIRE_VM, &vm);
	}
	make_call(opens[0], FIRST_PID, KFD_IOC_RUNTIME_ENABLE, &runtime);
	make_call(opens[0], FIRST_PID, KFD_IOC_CREATE_QUEUE, &queue);
	queue.queue_type = KFD_QUEUE_SDMA;
	make_call(opens[0], FIRST_PID, KFD_IOC_CREATE_QUEUE, &queue);
	world.tracers[0] = FIRST_PID + 1;
	enable.enable.exception_mask = UINT64_MAX;
	make_call(opens[1], FIRST_PID + 1, KFD_IOC_DBG_TRAP, &enable);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rbt_kfd_ops ops = {.read = copy_in,
		.write = copy_out,
		.doorbell = read_bell,
		.tracer = find_tracer,
		.fd_get = get_file,
		.fd_write = write_file,
		.fd_put = put_file,
		.changed = note_change};
	struct rbt_kfd_open *opens[N_PROCESSES] = {0};
	uint64_t now_ns = 1;

	memset(&world, 0, sizeof(world));
	world.data = data;
	world.left = size;
	uint8_t version = next_byte();
	struct rbt_kfd_config config = {
		.n_gpus = 2, .minor = 10 + version % 15, .lenient = version >> 7, .packet_us = 100};
	config.gfx_target_version = version & 0x40 ? 110000 : 90402;
	config.one_debugger = next_byte() & 1;
	config.ptrace_rule = next_byte() % 3;
	struct rbt_kfd *kfd = rbt_kfd_create(&config, &ops);
	REQUIRE(kfd != NULL);
	if (next_byte() & 1) {
		begin_session(kfd, opens);
	}
	for (int i = 0; i < 200 && world.left > 0; i++) {
		unsigned who = next_byte() % N_PROCESSES;
		int n_queues = 0;
		switch (next_byte() % 16) {
		case 0:
			rbt_kfd_close(opens[who]);
			opens[who] = NULL;
			break;
		case 1:
			rbt_kfd_exit(kfd, FIRST_PID + (int)who);
			break;
		case 2:
			world.tracers[who] = FIRST_PID + next_byte() % (N_PROCESSES + 1);
			break;
		case 3:
			now_ns += next_byte() * 10000ull;
			REQUIRE(rbt_kfd_run(kfd, now_ns) > now_ns);
			break;
		default:
			if (opens[who] == NULL) {
				opens[who] = rbt_kfd_open(kfd, FIRST_PID + (int)who);
			}
			one_call(kfd, opens);
		}
		rbt_kfd_each_queue(kfd, check_queue, &n_queues);
		REQUIRE(n_queues <= world.n_things);
	}
	rbt_kfd_destroy(kfd);
	REQUIRE(world.n_things == 0);
	for (int i = 0; i < MAX_FILES; i++) {
		REQUIRE(!world.files[i]);
	}
	return 0;
}
