/* SPDX-License-Identifier: Apache-2.0 */
/* Arrivals that are given beforehand, for repeatable schedules. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/device/device_impl.h"

/* By time; equal times stay in order. Lists are short, and usually sorted. */
static void sort(struct rbt_device_arrival *list, size_t n)
{
	for (size_t k = 1; k < n; k++) {
		struct rbt_device_arrival a = list[k];
		size_t at = k;

		while (at > 0 && list[at - 1].at_ns > a.at_ns) {
			list[at] = list[at - 1];
			at--;
		}
		list[at] = a;
	}
}

int rbt_device_replay(struct rbt_device *dev, const struct rbt_device_arrival *list, size_t n)
{
	struct rbt_device_arrival *copy;

	for (size_t k = 0; k < n; k++) {
		if (list[k].context->dev != dev || list[k].channel >= list[k].context->n_channels ||
			list[k].at_ns > DEV_MAX_NS) {
			return -EINVAL;
		}
	}
	copy = malloc((n + 1) * sizeof(copy[0]));
	if (!copy) {
		return -ENOMEM;
	}
	memcpy(copy, list, n * sizeof(copy[0]));
	sort(copy, n);
	free(dev->arrivals);
	dev->arrivals = copy;
	dev->n_arrivals = n;
	dev->next_arrival = 0;
	return 0;
}

bool dev_replay_until(struct rbt_device *dev, uint64_t time_ns)
{
	bool any = false;

	while (dev_replaying(dev) && dev->arrivals[dev->next_arrival].at_ns <= time_ns) {
		const struct rbt_device_arrival *a = &dev->arrivals[dev->next_arrival];
		struct dev_channel *ch = &a->context->channels[a->channel];

		ch->wptr = a->wptr;
		__atomic_store_n(&ch->shared->wptr, a->wptr, __ATOMIC_RELAXED);
		ch->time_ns = dev_max(ch->time_ns, a->at_ns);
		dev->next_arrival++;
		any = true;
	}
	if (any) {
		dev_poll_all(dev);
	}
	return any;
}

void dev_replay_forget(struct rbt_device *dev, const struct rbt_context *ctx)
{
	size_t kept = dev->next_arrival;

	for (size_t k = dev->next_arrival; k < dev->n_arrivals; k++) {
		if (dev->arrivals[k].context != ctx) {
			dev->arrivals[kept++] = dev->arrivals[k];
		}
	}
	dev->n_arrivals = kept;
}
