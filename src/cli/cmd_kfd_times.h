/* SPDX-License-Identifier: Apache-2.0 */
/* A series of latencies: quantiles and a histogram. */
#ifndef RBT_CLI_CMD_KFD_TIMES_H
#define RBT_CLI_CMD_KFD_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/hist.h"
#include "util/json.h"

struct kfd_times {
	uint64_t *us; /* owned */
	size_t n, room;
	bool sorted;
};

/* If there is no memory, the value is dropped: the rest still counts. */
void kfd_times_add(struct kfd_times *t, uint64_t us);
void kfd_times_finish(struct kfd_times *t);

/* The smallest value that a share q (0 to 1) of all values does not exceed; 0: there are none. */
uint64_t kfd_times_quantile(struct kfd_times *t, double q);
double kfd_times_mean(const struct kfd_times *t);

struct rubato_kfd_latency;

/* The fields "open", "enable" and "snapshot", in us; null if unknown. */
void kfd_json_latency(
	struct rbt_json *j, const char *key, const struct rubato_kfd_latency *latency);

/* A series that is too long to be kept. */
void kfd_hist_print(const struct rbt_hist *h, const char *name);
void kfd_hist_json(const struct rbt_hist *h, struct rbt_json *j, const char *key);

void kfd_times_print(struct kfd_times *t, const char *name);
void kfd_times_json(struct kfd_times *t, struct rbt_json *j, const char *key);

#endif
