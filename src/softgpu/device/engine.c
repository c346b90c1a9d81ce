/* SPDX-License-Identifier: Apache-2.0 */
/* The device as a whole: creation, steps, destruction. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/device/device_impl.h"

#define PAGE 4096u

static int init(struct rbt_device *dev)
{
	void *bell = NULL;
	uint64_t memory = dev->config.memory_bytes, most = GPU_PINNED_MAX - GPU_MEMORY_VA;
	uint64_t addresses = memory > most / DEV_ADDRESSES ? most : memory * DEV_ADDRESSES;
	int r = dev_arena_init(&dev->arena, addresses, memory);

	if (r < 0) {
		return r;
	}
	r = dev_memfd("softgpu-bell", PAGE, &dev->bell_fd, &bell);
	if (r < 0) {
		return r;
	}
	dev->bell = bell;
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		dev->sms[k].exec = rbt_exec_sm_create(k, dev->config.n_sms);
		if (!dev->sms[k].exec) {
			return -ENOMEM;
		}
	}
	return 0;
}

int rbt_device_create(const struct rbt_device_config *config, struct rbt_device **ret)
{
	struct rbt_device_config c = *config;
	struct rbt_device *dev;
	int r;

	c.n_sms = c.n_sms ? c.n_sms : 4;
	c.memory_bytes = c.memory_bytes ? c.memory_bytes : 256u << 20;
	c.copy_ns_per_kib = c.copy_ns_per_kib ? c.copy_ns_per_kib : RBT_DEVICE_COPY_NS_PER_KIB;
	if (c.n_sms > DEV_MAX_SMS || (unsigned)c.mechanism >= RBT_N_MECHANISMS ||
		c.memory_bytes > GPU_PINNED_MAX - GPU_MEMORY_VA) {
		return -EINVAL;
	}
	c.memory_bytes = (c.memory_bytes + PAGE - 1) / PAGE * PAGE;
	dev = calloc(1, sizeof(*dev));
	if (!dev) {
		return -ENOMEM;
	}
	dev->config = c;
	dev->bell_fd = -1;
	pthread_mutex_init(&dev->watch_lock, NULL);
	r = init(dev);
	if (r < 0) {
		rbt_device_destroy(dev);
		return r;
	}
	*ret = dev;
	return 0;
}

void rbt_device_destroy(struct rbt_device *dev)
{
	if (!dev) {
		return;
	}
	while (dev->contexts) {
		rbt_context_destroy(dev->contexts);
	}
	while (dev->pool) {
		struct dev_launch *launch = dev->pool;

		dev->pool = launch->next;
		free(launch);
	}
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		rbt_exec_sm_destroy(dev->sms[k].exec);
	}
	if (dev->bell) {
		munmap(dev->bell, PAGE);
		close(dev->bell_fd);
	}
	dev_arena_finish(&dev->arena);
	pthread_mutex_destroy(&dev->watch_lock);
	free(dev->arrivals);
	free(dev->watches);
	free(dev);
}

int rbt_device_arena_fd(const struct rbt_device *dev)
{
	return dev->arena.fd;
}

uint64_t rbt_device_arena_bytes(const struct rbt_device *dev)
{
	return dev->arena.size;
}

int rbt_device_bell_fd(const struct rbt_device *dev)
{
	return dev->bell_fd;
}

const struct rbt_device_config *rbt_device_config(const struct rbt_device *dev)
{
	return &dev->config;
}

void rbt_device_set_mechanism(struct rbt_device *dev, enum rbt_mechanism m)
{
	if ((unsigned)m < RBT_N_MECHANISMS) {
		dev->config.mechanism = m;
	}
}

uint64_t rbt_device_now_ns(const struct rbt_device *dev)
{
	return dev->now_ns;
}

/* Without the byte that stays free behind an allocation, so that all memory reported as free can be
 * allocated. */
void rbt_device_memory(const struct rbt_device *dev, uint64_t *ret_free, uint64_t *ret_total)
{
	*ret_free = dev->arena.free_bytes - dev_min(dev->arena.free_bytes, GPU_ALIGN);
	*ret_total = dev->config.memory_bytes;
}

void rbt_device_trace(struct rbt_device *dev,
	void (*fn)(void *user, uint64_t now_ns, enum rbt_device_event event, uint64_t context,
		uint64_t a, uint64_t b),
	void *user)
{
	dev->trace = fn;
	dev->trace_user = user;
}

void rbt_device_log(struct rbt_device *dev, void (*fn)(void *user, const char *line), void *user)
{
	dev->log = fn;
	dev->log_user = user;
}

void dev_log(struct rbt_device *dev, const char *format, ...)
{
	char line[512];
	va_list args;

	if (!dev->log) {
		return;
	}
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	dev->log(dev->log_user, line);
}

void dev_clock_catch_up(struct rbt_device *dev)
{
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		dev->now_ns = dev_max(dev->now_ns, dev->sms[k].time_ns);
	}
	for (uint32_t k = 0; dev->current && k < dev->current->n_channels; k++) {
		dev->now_ns = dev_max(dev->now_ns, dev->current->channels[k].time_ns);
	}
}

/* When a channel could go on by itself, without an SM. */
static uint64_t channel_time(const struct rbt_device *dev, uint32_t index)
{
	const struct dev_channel *ch = &dev->current->channels[index];

	if (dev->leaving || !dev_channel_ready(dev->current, index) || ch->active) {
		return DEV_NEVER;
	}
	return ch->state == DEV_COPYING ? ch->time_ns : dev_max(ch->time_ns, dev->now_ns);
}

uint64_t dev_earliest(const struct rbt_device *dev, uint32_t *ret_where)
{
	uint32_t n_channels = dev->current->n_channels;
	uint64_t best = DEV_NEVER;

	for (uint32_t k = 0; k < n_channels; k++) {
		uint64_t time_ns = channel_time(dev, k);

		if (time_ns < best) {
			best = time_ns;
			*ret_where = k;
		}
	}
	for (uint32_t k = 0; k < dev->config.n_sms; k++) {
		if (dev->sms[k].n > 0 && dev->sms[k].time_ns < best) {
			best = dev->sms[k].time_ns;
			*ret_where = n_channels + k;
		}
	}
	return best;
}

void dev_advance(struct rbt_device *dev)
{
	struct rbt_context *ctx = dev->current;
	uint32_t where;
	uint64_t time_ns = dev_earliest(dev, &where);

	dev->spent++;
	if (time_ns == DEV_NEVER) {
		return;
	}
	dev->now_ns = dev_max(dev->now_ns, time_ns);
	if (where >= ctx->n_channels) {
		dev_sm_run(dev, where - ctx->n_channels);
	} else if (ctx->channels[where].state == DEV_COPYING) {
		dev_transfer_go_on(ctx, where);
	} else {
		dev_command_start(ctx, where);
	}
}

/* A program that went to sleep while its context died would sleep on: it is woken again. */
static void wake_the_dead(struct rbt_device *dev)
{
	for (struct rbt_context *ctx = dev->contexts; ctx; ctx = ctx->next) {
		for (uint32_t k = 0; ctx->error && k < ctx->n_channels; k++) {
			dev_channel_wake(ctx->channels[k].shared);
		}
	}
}

/* Applies recorded arrivals that are due. True: decide again which context runs. */
static bool replay(struct rbt_device *dev, bool idle)
{
	uint64_t time_ns = dev->now_ns;
	uint32_t where;

	if (!dev_replaying(dev)) {
		return false;
	}
	if (idle) {
		struct rbt_context *ctx = dev->current;

		dev_clock_catch_up(dev);
		time_ns = dev_max(dev->now_ns, dev->arrivals[dev->next_arrival].at_ns);
		if (ctx) {
			ctx->stats.busy_ns += dev->now_ns - ctx->since_ns;
			ctx->since_ns = time_ns;
		}
		dev->now_ns = time_ns;
	} else {
		time_ns = dev_max(time_ns, dev_earliest(dev, &where));
	}
	return dev_replay_until(dev, time_ns);
}

bool rbt_device_step(struct rbt_device *dev, uint64_t instructions)
{
	uint64_t end;

	__atomic_store_n(
		&dev->wakes_seen, __atomic_load_n(&dev->wakes, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
	wake_the_dead(dev);
	dev_poll_all(dev);
	end = instructions > UINT64_MAX - dev->spent ? UINT64_MAX : dev->spent + instructions;
	for (;;) {
		bool busy = dev_schedule(dev);

		if (replay(dev, !busy)) {
			continue;
		}
		if (!busy) {
			break;
		}
		/* At least once, whatever the switch cost: otherwise a caller that preempts after
		 * each step would stop everything. */
		dev_advance(dev);
		if (dev->spent - dev->polled >= DEV_POLL + dev->n_contexts * DEV_POLL_CONTEXT) {
			dev_poll_all(dev);
		}
		if (dev->spent >= end) {
			return true;
		}
	}
	dev_clock_catch_up(dev);
	dev_watch_all(dev);
	return false;
}
