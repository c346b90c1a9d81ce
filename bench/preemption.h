/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One scenario under each way to preempt, on the software GPU's device: a best-effort program has
 * queued 100 kernels; while the 25th runs, an urgent request arrives. Time is the device's virtual
 * clock and arrivals are given beforehand, so every run gives the same numbers.
 */
#ifndef RBT_BENCH_PREEMPTION_H
#define RBT_BENCH_PREEMPTION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "softgpu/device/device.h"

#define PREEMPTION_KERNELS 100u
#define PREEMPTION_AT      25u /* the kernel in whose midst the request comes, from 1 */
#define PREEMPTION_MOMENTS 10u /* of it, at which the request is tried */
#define PREEMPTION_SPANS   256u

/* How the request gets the GPU. */
struct preemption_way {
	const char *name;
	enum rbt_mechanism mechanism;
	uint64_t slice_ns; /* of the best-effort program */
	/* Nobody but a controller takes the GPU away: it notices so much later, and its calls take
	 * so long. All 0: the device does so by itself. */
	uint64_t notice_ns, off_ns, on_ns;
};
/* The device acts by itself; then, a controller does. Each ends with a NULL name. */
extern const struct preemption_way preemption_ways[];
extern const struct preemption_way preemption_controllers[];

/* A piece of the timeline: one kernel on the SMs. */
struct preemption_span {
	uint64_t start_ns, end_ns;
	uint32_t kernel; /* from 1 */
	bool urgent;
	bool again; /* was started before, and has begun anew */
	bool lost;  /* what was done here is thrown away */
};

struct preemption_result {
	uint64_t arrival_ns;
	uint64_t detect_ns;  /* from the request's arrival until the SMs are asked for */
	uint64_t preempt_ns; /* until its kernel starts */
	uint64_t resume_ns;  /* from its end until best-effort kernels run again */
	uint64_t request_ns; /* from its arrival to its end */
	uint64_t request_delay_ns, best_effort_delay_ns; /* later than alone */
	uint64_t best_effort_ns;                         /* to the end of the last kernel */
	uint32_t repeated;                               /* kernels that began anew */
	uint32_t resubmitted; /* those, and those that were taken out of the ring */
	uint64_t repeated_instructions, saved_bytes;
	uint32_t wrong; /* words of the result, of PREEMPTION_WORDS */
	uint32_t n_spans;
	struct preemption_span spans[PREEMPTION_SPANS];
};
#define PREEMPTION_WORDS 512u

/* moment: of PREEMPTION_MOMENTS, in the 25th kernel; in the middle of each. */
void preemption_run(
	const struct preemption_way *way, unsigned moment, struct preemption_result *ret);

/* Both programs without each other; found out once. */
struct preemption_alone {
	uint64_t kernel_start_ns, kernel_ns; /* the 25th */
	uint64_t best_effort_ns, request_ns;
};
const struct preemption_alone *preemption_alone(void);

/* An SVG of all ways, the request at PREEMPTION_MIDDLE. */
#define PREEMPTION_MIDDLE (PREEMPTION_MOMENTS / 2)
void preemption_figure(FILE *out);

#endif
