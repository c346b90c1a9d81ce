/* SPDX-License-Identifier: Apache-2.0 */
#include "test_device_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void need(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "device world: %s\n", what);
		exit(1);
	}
}

static void note_log(void *user, const char *line)
{
	struct device_world *world = user;

	snprintf(world->last_log, sizeof(world->last_log), "%s", line);
}

static void *map(int fd, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	need(at != MAP_FAILED, "mmap");
	return at;
}

void device_world_init(struct device_world *world, const struct rbt_device_config *config)
{
	*world = (struct device_world){.dev = NULL};
	need(rbt_device_create(config, &world->dev) == 0, "rbt_device_create");
	world->arena_size = rbt_device_arena_bytes(world->dev);
	world->arena = map(rbt_device_arena_fd(world->dev), world->arena_size);
	rbt_device_log(world->dev, note_log, world);
}

void device_world_finish(struct device_world *world)
{
	munmap(world->arena, world->arena_size);
	rbt_device_destroy(world->dev);
}

bool device_world_run(struct device_world *world, uint64_t instructions)
{
	const uint64_t step = 100000;

	for (uint64_t spent = 0; spent < instructions; spent += step) {
		if (!rbt_device_step(world->dev, step)) {
			return true;
		}
	}
	return false;
}

void *device_at(const struct device_world *world, uint64_t va)
{
	need(va >= GPU_MEMORY_VA && va - GPU_MEMORY_VA < world->arena_size, "an address");
	return world->arena + (va - GPU_MEMORY_VA);
}

void device_program_init(
	struct device_program *p, struct device_world *world, uint32_t n_channels, uint64_t id)
{
	*p = (struct device_program){.world = world};
	need(rbt_context_create(world->dev, n_channels, id, &p->ctx) == 0, "rbt_context_create");
	p->room = map(rbt_context_room_fd(p->ctx), sizeof(*p->room));
}

void device_program_finish(struct device_program *p)
{
	munmap(p->room, sizeof(*p->room));
	rbt_ptx_module_destroy(p->ptx);
	rbt_context_destroy(p->ctx);
}

void device_program_load(struct device_program *p, const char *text)
{
	struct rbt_ptx_error error = {0, ""};
	size_t n;
	int r = rbt_context_load(
		p->ctx, text, strlen(text), &p->module, p->variables, 64, &n, &error);

	need(r == 0, error.text);
	need(rbt_ptx_parse(text, strlen(text), &p->ptx, &error) == 0, error.text);
}

void device_program_load_file(struct device_program *p, const char *directory, const char *name)
{
	static char text[1 << 20];
	char path[4096];
	FILE *file;
	size_t size;

	snprintf(path, sizeof(path), "%s/%s.ptx", directory, name);
	file = fopen(path, "r");
	need(file != NULL, path);
	size = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[size] = '\0';
	device_program_load(p, text);
}

uint64_t device_program_alloc(struct device_program *p, uint64_t size)
{
	uint64_t va = 0;

	need(rbt_context_alloc(p->ctx, size, &va) == 0, "rbt_context_alloc");
	return va;
}

uint64_t device_program_variable(struct device_program *p, const char *name)
{
	uint32_t index = rbt_ptx_find_variable(p->ptx, name);

	need(index < 64, name);
	return p->variables[index];
}

static void put_slot(struct device_program *p, uint32_t channel, const void *slot, size_t size)
{
	struct gpu_slot *to = &p->room->channels[channel].ring[p->wptr[channel] % GPU_RING_SLOTS];

	memset(to, 0, sizeof(*to));
	memcpy(to, slot, size);
	p->wptr[channel]++;
}

void device_put(struct device_program *p, uint32_t channel, const void *slot, const void *params,
	size_t size)
{
	put_slot(p, channel, slot, GPU_SLOT_BYTES);
	for (size_t at = 0; at < size; at += GPU_SLOT_BYTES) {
		size_t left = size - at;

		put_slot(p, channel, (const uint8_t *)params + at,
			left < GPU_SLOT_BYTES ? left : GPU_SLOT_BYTES);
	}
	p->commands[channel]++;
}

void device_publish(struct device_program *p, uint32_t channel)
{
	__atomic_store_n(&p->room->channels[channel].wptr, p->wptr[channel], __ATOMIC_RELEASE);
}

static struct gpu_head head(enum gpu_command command)
{
	return (struct gpu_head){.command = (uint16_t)command, .slots = 1};
}

void device_launch(struct device_program *p, uint32_t channel, const struct device_kernel *k)
{
	const struct rbt_ptx_function *fn = rbt_ptx_find_entry(p->ptx, k->name);
	uint8_t params[GPU_MAX_PARAMS] = {0};
	struct gpu_launch launch = {.module = p->module,
		.grid = {k->grid, 1, 1},
		.block = {k->block, 1, 1},
		.shared = k->shared,
		.flags = k->flags};

	need(fn != NULL, k->name);
	for (uint32_t i = 0; i < fn->nparams; i++) {
		memcpy(params + fn->params[i].offset, &k->params[i], fn->params[i].size);
	}
	launch.h = head(GPU_CMD_LAUNCH);
	launch.h.slots += (uint16_t)((fn->param_size + GPU_SLOT_BYTES - 1) / GPU_SLOT_BYTES);
	launch.function = (uint32_t)(fn - p->ptx->functions);
	launch.param_size = fn->param_size;
	device_put(p, channel, &launch, params, fn->param_size);
}

void device_simple(struct device_program *p, uint32_t channel, enum gpu_command command)
{
	struct gpu_host c = {.h = head(command)};

	device_put(p, channel, &c, NULL, 0);
}

void device_copy(
	struct device_program *p, uint32_t channel, uint64_t to, uint64_t from, uint64_t width)
{
	struct gpu_copy c = {
		.h = head(GPU_CMD_COPY), .to = to, .from = from, .width = width, .height = 1};

	device_put(p, channel, &c, NULL, 0);
}

void device_fill(struct device_program *p, uint32_t channel, uint64_t to, uint64_t width,
	uint32_t value, uint32_t element)
{
	struct gpu_fill c = {.h = head(GPU_CMD_FILL),
		.to = to,
		.width = width,
		.height = 1,
		.value = value,
		.element = element};

	device_put(p, channel, &c, NULL, 0);
}

void device_stamp(struct device_program *p, uint32_t channel, uint32_t event)
{
	struct gpu_stamp c = {.h = head(GPU_CMD_STAMP), .event = event};

	device_put(p, channel, &c, NULL, 0);
}

void device_wait(struct device_program *p, uint32_t channel, uint32_t on, uint64_t done)
{
	struct gpu_wait c = {.h = head(GPU_CMD_WAIT), .channel = on, .done = done};

	device_put(p, channel, &c, NULL, 0);
}

void device_host(struct device_program *p, uint32_t channel, uint64_t until)
{
	struct gpu_host c = {.h = head(GPU_CMD_HOST), .until = until};

	device_put(p, channel, &c, NULL, 0);
}

uint64_t device_done(const struct device_program *p, uint32_t channel)
{
	return __atomic_load_n(&p->room->channels[channel].done, __ATOMIC_ACQUIRE);
}

struct rbt_context_stats device_stats(const struct device_program *p)
{
	struct rbt_context_stats stats;

	rbt_context_get_stats(p->ctx, &stats);
	return stats;
}

void device_schedule(struct device_program *p, uint64_t timeslice_ns, uint32_t interleave)
{
	struct rbt_context_schedule s = {.timeslice_ns = timeslice_ns,
		.interleave = interleave,
		.scheduled = true,
		.enabled = (1u << p->room->n_channels) - 1};

	rbt_context_set_schedule(p->ctx, &s);
}
