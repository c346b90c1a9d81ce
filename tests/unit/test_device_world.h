/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in this process, and programs that write its rings directly, as the libcuda front does.
 */
#ifndef RBT_TESTS_DEVICE_WORLD_H
#define RBT_TESTS_DEVICE_WORLD_H

#include "softgpu/device/device.h"
#include "softgpu/ptx/ptx.h"

/* test_device_ptx.c */
extern const char device_ptx[];
/* What its kernels mix and polite put into word i, in so many turns. */
uint32_t device_ptx_mixed(uint32_t i, uint32_t turns);

struct device_world {
	struct rbt_device *dev;
	uint8_t *arena;
	uint64_t arena_size;
	char last_log[512];
};

struct device_program {
	struct device_world *world;
	struct rbt_context *ctx;
	struct gpu_room *room;
	uint64_t wptr[GPU_MAX_CHANNELS];     /* written, perhaps not published */
	uint64_t commands[GPU_MAX_CHANNELS]; /* how many */
	uint32_t module;
	struct rbt_ptx_module *ptx; /* the same text, for names */
	uint64_t variables[64];
};

/* Ends the test when something is missing that the test is not about. */
void device_world_init(struct device_world *world, const struct rbt_device_config *config);
void device_world_finish(struct device_world *world);
/* Steps until the device has nothing more to do, or `instructions` are spent: then false. */
bool device_world_run(struct device_world *world, uint64_t instructions);
/* Where device memory is in this process. */
void *device_at(const struct device_world *world, uint64_t va);

void device_program_init(
	struct device_program *p, struct device_world *world, uint32_t n_channels, uint64_t id);
void device_program_finish(struct device_program *p);
void device_program_load(struct device_program *p, const char *text);
/* DIR/<name>.ptx */
void device_program_load_file(struct device_program *p, const char *directory, const char *name);
uint64_t device_program_alloc(struct device_program *p, uint64_t size);
uint64_t device_program_variable(struct device_program *p, const char *name);

/* A command into the ring; `bytes` is a struct gpu_*, 64 bytes; then `size` bytes of parameters. */
void device_put(struct device_program *p, uint32_t channel, const void *slot, const void *params,
	size_t size);
void device_publish(struct device_program *p, uint32_t channel);

/* A launch, from the description; params: 64-bit values, each stored in its parameter's size. */
struct device_kernel {
	const char *name;
	uint32_t grid, block, shared, flags;
	uint64_t params[8];
};
void device_launch(struct device_program *p, uint32_t channel, const struct device_kernel *k);
void device_simple(struct device_program *p, uint32_t channel, enum gpu_command command);
void device_copy(
	struct device_program *p, uint32_t channel, uint64_t to, uint64_t from, uint64_t width);
void device_fill(struct device_program *p, uint32_t channel, uint64_t to, uint64_t width,
	uint32_t value, uint32_t element);
void device_stamp(struct device_program *p, uint32_t channel, uint32_t event);
void device_wait(struct device_program *p, uint32_t channel, uint32_t on, uint64_t done);
void device_host(struct device_program *p, uint32_t channel, uint64_t until);
uint64_t device_done(const struct device_program *p, uint32_t channel);
struct rbt_context_stats device_stats(const struct device_program *p);
void device_schedule(struct device_program *p, uint64_t timeslice_ns, uint32_t interleave);

#endif
