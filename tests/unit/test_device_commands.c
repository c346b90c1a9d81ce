/* SPDX-License-Identifier: Apache-2.0 */
/* What commands do, in which order, and what they may not. usage: test_device_commands KERNELS */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "test_device_world.h"

#define N 1000u

static const char *kernels;
static struct device_world world;
static struct device_program p;

static void begin(uint32_t n_channels)
{
	device_world_init(&world, &(struct rbt_device_config){.n_sms = 4});
	device_program_init(&p, &world, n_channels, 7);
}

static void end(void)
{
	uint64_t free_bytes, total;

	device_program_finish(&p);
	rbt_device_memory(world.dev, &free_bytes, &total);
	CHECK_INT(free_bytes, total - GPU_ALIGN);
	device_world_finish(&world);
}

/* All that was put into channel 0 is done. */
static void run_all(void)
{
	device_publish(&p, 0);
	CHECK(device_world_run(&world, 100000000));
	CHECK_INT(device_done(&p, 0), p.commands[0]);
	CHECK_INT(p.room->channels[0].rptr, p.wptr[0]);
	CHECK_INT(p.room->error, 0);
}

static void test_vector_add(void)
{
	uint64_t a, b, c;

	begin(8);
	device_program_load_file(&p, kernels, "classic");
	a = device_program_alloc(&p, N * 4);
	b = device_program_alloc(&p, N * 4);
	c = device_program_alloc(&p, N * 4);
	for (uint32_t k = 0; k < N; k++) {
		((float *)device_at(&world, a))[k] = (float)k;
		((float *)device_at(&world, b))[k] = 2.0f * (float)k;
	}
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "vector_add", .grid = 8, .block = 128, .params = {a, b, c, N}});
	run_all();
	for (uint32_t k = 0; k < N; k++) {
		CHECK(((float *)device_at(&world, c))[k] == 3.0f * (float)k);
	}
	CHECK_INT(device_stats(&p).launches, 1);
	CHECK(device_stats(&p).instructions >= 8 * 4 * 10);
	end();
}

static void test_variables(void)
{
	uint64_t out;

	begin(1);
	device_program_load(&p, device_ptx);
	out = device_program_alloc(&p, 32 * 4);
	CHECK_INT(*(uint32_t *)device_at(&world, device_program_variable(&p, "counter")), 7);
	CHECK_INT(*(uint64_t *)device_at(&world, device_program_variable(&p, "pointer")),
		device_program_variable(&p, "counter"));
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "variables", .grid = 1, .block = 32, .params = {out}});
	run_all();
	for (uint32_t k = 0; k < 32; k++) {
		CHECK_INT(((uint32_t *)device_at(&world, out))[k], 10 + k % 4 + 7);
	}
	/* A copy may write what a kernel may not. */
	device_fill(&p, 0, device_program_variable(&p, "table"), 4, 20, 4);
	run_all();
	device_launch(&p, 0, &(struct device_kernel){.name = "forge", .grid = 1, .block = 1});
	device_publish(&p, 0);
	CHECK(device_world_run(&world, 1000000));
	CHECK_INT(p.room->error, GPU_ERROR_ILLEGAL_ADDRESS);
	CHECK_INT(*(uint32_t *)device_at(&world, device_program_variable(&p, "table")), 20);
	end();
}

static void test_copies(void)
{
	const uint64_t size = 5u << 20;
	uint64_t a, b;
	struct gpu_copy rows = {.h = {GPU_CMD_COPY, 1, 0}, .width = 3, .height = 1000};

	begin(2);
	a = device_program_alloc(&p, size);
	b = device_program_alloc(&p, size);
	for (uint64_t k = 0; k < size; k++) {
		((uint8_t *)device_at(&world, a))[k] = (uint8_t)(k * 7 + (k >> 8));
	}
	device_copy(&p, 0, b, a, size);
	device_fill(&p, 0, a, size / 4, 0x01020304, 4);
	device_fill(&p, 0, a, 10, 0xabcd, 2);
	device_fill(&p, 0, a, 3, 0xee, 1);
	device_copy(&p, 0, a + 100, b + 1, 1);
	device_copy(&p, 0, a, b, 0);
	rows.to = a + 1024;
	rows.from = b;
	rows.to_pitch = 3;
	rows.from_pitch = 4096;
	device_put(&p, 0, &rows, NULL, 0);
	run_all();
	CHECK(memcmp(device_at(&world, a),
		      "\xee\xee\xee\xab\xcd\xab\xcd\xab\xcd\xab\xcd\xab\xcd\xab\xcd\xab\xcd\xab\xcd\xab\x04\x03\x02\x01",
		      24) == 0);
	CHECK_INT(((uint8_t *)device_at(&world, b))[size - 1],
		(uint8_t)((size - 1) * 7 + ((size - 1) >> 8)));
	CHECK_INT(((uint8_t *)device_at(&world, a))[100], ((uint8_t *)device_at(&world, b))[1]);
	for (uint64_t k = 0; k < 3000; k++) {
		CHECK_INT(((uint8_t *)device_at(&world, a))[1024 + k],
			((uint8_t *)device_at(&world, b))[k / 3 * 4096 + k % 3]);
	}
	/* 10 GB/s, on the virtual clock. */
	CHECK(rbt_device_now_ns(world.dev) > 2 * size / 1024 * RBT_DEVICE_COPY_NS_PER_KIB);
	end();
}

/* While its engine does not look, a copy neither starts nor goes on; kernels and fills do. */
static void test_copies_wait(void)
{
	const uint64_t size = 5u << 20;
	struct rbt_context_schedule s = {
		.timeslice_ns = 1000000, .scheduled = true, .copies_wait = true, .enabled = 3};
	uint64_t a, b;

	begin(2);
	a = device_program_alloc(&p, size);
	b = device_program_alloc(&p, size);
	device_copy(&p, 0, b, a, size);
	device_publish(&p, 0);
	CHECK(rbt_device_step(world.dev, 1000)); /* in the midst of it */
	rbt_context_set_schedule(p.ctx, &s);
	device_fill(&p, 1, a, 1, 7, 1);
	device_copy(&p, 1, b, a, 1);
	device_publish(&p, 1);
	CHECK(device_world_run(&world, 1000000));
	CHECK_INT(device_done(&p, 0), 0);
	CHECK_INT(device_done(&p, 1), 1);
	CHECK(!device_stats(&p).has_work);
	s.copies_wait = false;
	rbt_context_set_schedule(p.ctx, &s);
	CHECK(device_world_run(&world, 1000000));
	CHECK_INT(device_done(&p, 0), 1);
	CHECK_INT(device_done(&p, 1), 2);
	end();
}

/* A large copy is done in pieces: a step returns after about its budget. */
static void test_copy_in_pieces(void)
{
	uint64_t a;

	begin(1);
	a = device_program_alloc(&p, 32u << 20);
	device_fill(&p, 0, a, 32u << 20, 1, 1);
	device_publish(&p, 0);
	CHECK(rbt_device_step(world.dev, 1000));
	CHECK_INT(device_done(&p, 0), 0);
	CHECK_INT(((uint8_t *)device_at(&world, a))[0], 1);
	CHECK_INT(((uint8_t *)device_at(&world, a))[(32u << 20) - 1], 0);
	run_all();
	CHECK_INT(((uint8_t *)device_at(&world, a))[(32u << 20) - 1], 1);
	end();
}

static void test_pinned(void)
{
	const uint64_t address = 0x7f0000000000, size = 8192;
	uint32_t *host;
	uint64_t a;
	int fd = -1;

	begin(1);
	device_program_load(&p, device_ptx);
	CHECK_INT(rbt_context_pin(p.ctx, size, address + 1, &fd), -EINVAL);
	CHECK_INT(rbt_context_pin(p.ctx, size, GPU_MEMORY_VA, &fd), -EINVAL);
	CHECK_INT(rbt_context_pin(p.ctx, size, GPU_MEMORY_VA - 4096, &fd), -EINVAL);
	CHECK_INT(rbt_context_pin(p.ctx, size, GPU_PINNED_MAX - 4096, &fd), -EINVAL);
	CHECK_INT(rbt_context_pin(p.ctx, 0, address, &fd), -EINVAL);
	CHECK_INT(rbt_context_pin(p.ctx, size, 0, &fd), -EINVAL);
	CHECK_INT(fd, -1);
	CHECK_INT(rbt_context_pin(p.ctx, size, address, &fd), 0);
	CHECK_INT(rbt_context_pin(p.ctx, size, address + 4096, &(int){-1}), -EINVAL);
	CHECK(ftruncate(fd, 0) < 0);
	host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(host != MAP_FAILED);
	a = device_program_alloc(&p, size);
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "mix", .grid = 1, .block = 64, .params = {address, 3}});
	device_copy(&p, 0, a, address, size);
	run_all();
	CHECK(host[1] != 0 && memcmp(host, device_at(&world, a), size) == 0);
	CHECK_INT(rbt_context_free(p.ctx, address), 0);
	CHECK_INT(rbt_context_free(p.ctx, address), -EINVAL);
	munmap(host, size);
	close(fd);
	end();
}

/* Commands of a channel in order; of two channels as their waits say. */
static void test_order(void)
{
	uint64_t a;

	begin(3);
	device_program_load(&p, device_ptx);
	a = device_program_alloc(&p, 4096);
	device_wait(&p, 0, 1, 2);
	device_copy(&p, 0, a + 1024, a, 512);
	device_stamp(&p, 0, 5);
	device_publish(&p, 0);
	CHECK(device_world_run(&world, 1000000));
	CHECK_INT(device_done(&p, 0), 0);
	device_stamp(&p, 1, 4);
	device_launch(&p, 1,
		&(struct device_kernel){.name = "mix", .grid = 4, .block = 32, .params = {a, 100}});
	device_publish(&p, 1);
	CHECK(device_world_run(&world, 10000000));
	CHECK_INT(device_done(&p, 0), 3);
	CHECK_INT(device_done(&p, 1), 2);
	CHECK(((uint32_t *)device_at(&world, a))[1] != 0);
	CHECK(memcmp(device_at(&world, a), device_at(&world, a + 1024), 512) == 0);
	/* 100 turns of 6 instructions lie between, on one SM each. */
	CHECK(p.room->event_ns[5] >= p.room->event_ns[4] + 600 * GPU_INSTRUCTION_NS);
	/* What never comes stalls its channel alone. */
	device_wait(&p, 0, 0, 100);
	device_wait(&p, 2, 1, 100);
	device_publish(&p, 0);
	device_publish(&p, 2);
	device_simple(&p, 1, GPU_CMD_NOTHING);
	device_publish(&p, 1);
	CHECK(device_world_run(&world, 1000000));
	CHECK_INT(device_done(&p, 1), 3);
	CHECK_INT(device_done(&p, 0), 3);
	CHECK_INT(device_done(&p, 2), 0);
	CHECK_INT(p.room->error, 0);
	end();
}

static void test_host(void)
{
	begin(1);
	device_host(&p, 0, 3);
	device_simple(&p, 0, GPU_CMD_NOTHING);
	device_publish(&p, 0);
	CHECK(device_world_run(&world, 1000000));
	CHECK_INT(device_done(&p, 0), 0);
	CHECK(!device_stats(&p).has_work);
	__atomic_store_n(&p.room->channels[0].host_done, 3, __ATOMIC_RELEASE);
	/* That is something new: this returns at once. */
	rbt_device_sleep(world.dev, 600000);
	run_all();
	end();
}

/* Kernels of two channels run side by side: together they take less than one after the other. */
static void test_side_by_side(void)
{
	uint64_t alone_ns, a;
	struct device_kernel k = {.name = "mix", .grid = 4, .block = 32};

	begin(2);
	device_program_load(&p, device_ptx);
	a = device_program_alloc(&p, 4096);
	k.params[0] = a;
	k.params[1] = 10000;
	device_launch(&p, 0, &k);
	run_all();
	alone_ns = rbt_device_now_ns(world.dev);
	/* Two blocks on two SMs each. */
	k.grid = 2;
	device_launch(&p, 0, &k);
	device_launch(&p, 1, &k);
	device_publish(&p, 1);
	run_all();
	CHECK(rbt_device_now_ns(world.dev) - alone_ns < alone_ns * 11 / 10);
	end();
}

static void test_print(void)
{
	const uint32_t n = 64;
	uint64_t a;

	begin(1);
	device_program_load_file(&p, kernels, "faults");
	a = device_program_alloc(&p, 4096);
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "print_lines", .grid = 1, .block = n, .params = {a, a}});
	run_all();
	CHECK(p.room->print.head > n && p.room->print.lost == 0);
	CHECK(memcmp(p.room->print_bytes, "0: ", 3) == 0);
	CHECK(p.room->print_bytes[p.room->print.head - 1] == '\n');
	/* The ring is full, whatever the program says of it. */
	p.room->print.tail = p.room->print.head + 1;
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "print_lines", .grid = 1, .block = n, .params = {a, a}});
	run_all();
	CHECK(p.room->print.lost > n);
	end();
}

/* What a kernel dies of, and that it can be read where. */
static void test_fault(const char *module, const char *name, uint32_t error, const char *line)
{
	uint64_t a;

	begin(2);
	device_program_load_file(&p, kernels, module);
	a = device_program_alloc(&p, 4096);
	device_launch(&p, 0,
		&(struct device_kernel){.name = name, .grid = 2, .block = 64, .params = {a, a, 0}});
	device_simple(&p, 0, GPU_CMD_NOTHING);
	device_publish(&p, 0);
	CHECK(device_world_run(&world, 10000000));
	CHECK_INT(p.room->error, error);
	CHECK_INT(device_done(&p, 0), 0);
	CHECK(strstr(world.last_log, line) != NULL);
	/* Nothing of it runs any more, in no channel. */
	device_simple(&p, 1, GPU_CMD_NOTHING);
	device_publish(&p, 1);
	CHECK(device_world_run(&world, 10000000));
	CHECK_INT(device_done(&p, 1), 0);
	end();
}

static void test_modules(void)
{
	const char *foreign = ".version 6.0\n.target sm_70\n.address_size 64\n"
			      ".extern .global .align 4 .u32 elsewhere;\n";
	struct rbt_ptx_error error;
	uint64_t vas[2] = {0, 0}, a;
	uint32_t module = 99;
	size_t n = 99;

	begin(1);
	CHECK_INT(rbt_context_load(p.ctx, "nonsense", 8, &module, vas, 2, &n, &error), -EINVAL);
	CHECK(error.text[0] != '\0');
	CHECK_INT(rbt_context_load(p.ctx, foreign, strlen(foreign), &module, vas, 2, &n, &error),
		-ENOTSUP);
	CHECK(strstr(error.text, "elsewhere") != NULL);
	CHECK_INT(module, 99);
	CHECK_INT(rbt_context_unload(p.ctx, 1), -ENOENT);
	device_program_load(&p, device_ptx);
	CHECK(device_stats(&p).memory_bytes > 0);
	/* One that runs is not disturbed; what comes later fails. */
	a = device_program_alloc(&p, 4096);
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "mix", .grid = 1, .block = 32, .params = {a, 100000}});
	device_publish(&p, 0);
	CHECK(rbt_device_step(world.dev, 1000));
	CHECK_INT(rbt_context_unload(p.ctx, p.module), 0);
	run_all();
	CHECK(((uint32_t *)device_at(&world, a))[1] != 0);
	device_launch(&p, 0, &(struct device_kernel){.name = "empty", .grid = 1, .block = 1});
	device_publish(&p, 0);
	CHECK(device_world_run(&world, 1000000));
	CHECK_INT(p.room->error, GPU_ERROR_INVALID);
	end();
}

/* What a running kernel sees stays where it is, and is nobody else's, until it ends. */
static void test_free_while_running(void)
{
	uint64_t a, b, before, after, total;

	begin(1);
	device_program_load(&p, device_ptx);
	a = device_program_alloc(&p, 1u << 20);
	rbt_device_memory(world.dev, &before, &total);
	device_launch(&p, 0,
		&(struct device_kernel){
			.name = "mix", .grid = 1, .block = 32, .params = {a, 100000}});
	device_publish(&p, 0);
	CHECK(rbt_device_step(world.dev, 1000));
	CHECK_INT(rbt_context_free(p.ctx, a), 0);
	rbt_device_memory(world.dev, &after, &total);
	CHECK_INT(after, before);
	b = device_program_alloc(&p, 1u << 20);
	CHECK(b != a);
	run_all();
	CHECK_INT(((uint32_t *)device_at(&world, b))[1], 0);
	rbt_device_memory(world.dev, &after, &total);
	CHECK_INT(after, before);
	end();
}

static void test_alloc(void)
{
	uint64_t va[100], total, free_bytes, one;

	begin(1);
	CHECK_INT(rbt_context_alloc(p.ctx, 0, &one), -EINVAL);
	CHECK_INT(rbt_context_alloc(p.ctx, UINT64_MAX, &one), -ENOMEM);
	CHECK_INT(rbt_context_alloc(p.ctx, 256u << 20, &one), -ENOMEM);
	for (unsigned k = 0; k < 100; k++) {
		va[k] = device_program_alloc(&p, 1 + k * 1000);
		CHECK_INT(va[k] % GPU_ALIGN, 0);
	}
	/* In an order that leaves holes, and closes them. */
	for (unsigned k = 0; k < 100; k++) {
		CHECK_INT(rbt_context_free(p.ctx, va[k * 37 % 100]), 0);
	}
	CHECK_INT(rbt_context_free(p.ctx, va[0]), -EINVAL);
	rbt_device_memory(world.dev, &free_bytes, &total);
	CHECK_INT(free_bytes, total - GPU_ALIGN);
	CHECK_INT(rbt_context_alloc(p.ctx, free_bytes, &one), 0);
	CHECK_INT(rbt_context_alloc(p.ctx, 1, &one), -ENOMEM);
	end();
}

/* Saved memory is free for others, and comes back at its addresses with its bytes. */
static void test_save_and_restore(void)
{
	uint64_t total, before, free_bytes, other;

	begin(1);
	uint64_t a = device_program_alloc(&p, 10u << 20), b = device_program_alloc(&p, 5000);
	memset(device_at(&world, a), 1, 10u << 20);
	memset(device_at(&world, b), 2, 5000);
	rbt_device_memory(world.dev, &before, &total);
	CHECK(rbt_context_is_quiet(p.ctx));
	CHECK_INT(rbt_context_save(p.ctx, 1), 1);
	CHECK_INT(rbt_context_save(p.ctx, UINT64_MAX), 0);
	rbt_device_memory(world.dev, &free_bytes, &total);
	CHECK_INT(free_bytes, before + rbt_context_saved_bytes(p.ctx));
	/* Its addresses stay its own. */
	CHECK_INT(rbt_context_alloc(p.ctx, free_bytes, &other), 0);
	CHECK(other > b);
	CHECK_INT(rbt_context_restore(p.ctx, UINT64_MAX), -ENOMEM);
	CHECK_INT(rbt_context_free(p.ctx, other), 0);
	CHECK_INT(rbt_context_restore(p.ctx, UINT64_MAX), 0);
	CHECK_INT(rbt_context_saved_bytes(p.ctx), 0);
	rbt_device_memory(world.dev, &free_bytes, &total);
	CHECK_INT(free_bytes, before);
	CHECK(((uint8_t *)device_at(&world, a))[(10u << 20) - 1] == 1);
	CHECK(((uint8_t *)device_at(&world, b))[4999] == 2);
	/* Freed while it is off, it gives back nothing twice. */
	CHECK_INT(rbt_context_save(p.ctx, UINT64_MAX), 0);
	CHECK_INT(rbt_context_free(p.ctx, a), 0);
	CHECK_INT(rbt_context_free(p.ctx, b), 0);
	rbt_device_memory(world.dev, &free_bytes, &total);
	CHECK(free_bytes <= total);
	end();
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: test_device_commands KERNELS\n");
		return 2;
	}
	kernels = argv[1];
	test_vector_add();
	test_variables();
	test_copies();
	test_copies_wait();
	test_copy_in_pieces();
	test_pinned();
	test_order();
	test_host();
	test_side_by_side();
	test_print();
	test_fault("faults", "fault_assert", GPU_ERROR_ASSERT, "fault_assert");
	test_fault("faults", "fault_trap", GPU_ERROR_LAUNCH_FAILED, "fault_trap");
	test_fault("calls", "recurse_endless", GPU_ERROR_STACK, "thread (0,0,0)");
	test_modules();
	test_free_while_running();
	test_alloc();
	test_save_and_restore();
	return check_result();
}
