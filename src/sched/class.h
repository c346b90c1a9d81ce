/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes, priorities and the timeslices they stand for. Pure.
 */
#ifndef RBT_SCHED_CLASS_H
#define RBT_SCHED_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#define RBT_PRIORITY_MAX    15
#define RBT_PRIORITY_NORMAL 8
#define RBT_WEIGHT_MAX      1000

/* Timeslice 0 stands for the task's own slice. */
#define RBT_TIMESLICE_OWN    0
#define RBT_TIMESLICE_MAX_US 1000000

/* A program's own limits. */
#define RBT_RESERVE_MAX_MS     3600000
#define RBT_SHARE_MAX_PERMILLE 100
#define RBT_SHARE_NONE         UINT32_MAX

struct rbt_limits {
	uint32_t max_reserve_ms;     /* 0: the configured limit */
	uint32_t min_share_permille; /* 0: the configured share; RBT_SHARE_NONE: none */
};

/* Whether all limits are within range. */
bool rbt_limits_are_right(const struct rbt_limits *limits);

enum rbt_class { RBT_CLASS_BEST_EFFORT, RBT_CLASS_NORMAL, RBT_CLASS_LATENCY };

enum rbt_class rbt_class_of(unsigned priority);
/* Without slices, `--timeslice-us` is the length of a turn, and this is the shortest: a change of
 * turns takes about 1 ms. */
#define RBT_TURN_MIN_US 5000
/* The lowest priority of the class. */
unsigned rbt_class_lowest(enum rbt_class cls);
const char *rbt_class_name(enum rbt_class cls);

/* The middle of a class's range. */
unsigned rbt_class_priority(enum rbt_class cls);

/* 0 or -EINVAL. */
int rbt_class_parse(const char *name, enum rbt_class *ret);

/*
 * The monotone table from the 16 priorities to timeslices, in microseconds; RBT_TIMESLICE_OWN for
 * the priorities that keep the driver's slice.
 */
uint64_t rbt_priority_timeslice_us(unsigned priority);

#endif
