/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the daemon's trace events into Chrome trace events: one track per GPU, below the process of
 * the daemon, and two per program, its state and its announced requests, below the program's own
 * process. Pure, apart from the stream it writes to.
 *
 * Slices are pairs of B and E events, so that a trace that ends early has its open slices, too.
 */
#ifndef RBT_CLI_TRACE_CHROME_H
#define RBT_CLI_TRACE_CHROME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "proto/trace.h"

enum chrome_state {
	CHROME_IDLE, /* may run, and wants nothing: there is no slice */
	CHROME_RUNNING,
	CHROME_WAITING,   /* kept off, and wants the GPU */
	CHROME_OFF,       /* kept off, and wants nothing */
	CHROME_SUSPENDED, /* by command */
	CHROME_PARKED,    /* its memory is off the GPU, too, or on its way */
};

struct chrome_program {
	struct rbt_trace_event last;
	enum chrome_state state;
	bool has_requests;                     /* its track of requests has a name */
	uint64_t used_ns, known_ns, shared_ns; /* chrome_put_share(): at the last call */
	uint64_t memory_bytes;                 /* chrome_put_memory() */
	bool has_share, has_memory;
};

#define CHROME_LABEL_MAX 128
struct chrome_gpu {
	struct rbt_gpu gpu;
	bool is_named;
	char label[CHROME_LABEL_MAX]; /* of the open slice; empty: none is open */
	uint64_t holders;             /* a hash of the programs that have it, and of the reserve */
};

struct chrome {
	FILE *out; /* borrowed: events, each with a comma before it */
	pid_t daemon;
	uint64_t offset_ns;              /* from the events' clock to the file's */
	struct chrome_program *programs; /* owned */
	size_t n_programs, capacity;
	struct chrome_gpu gpus[RBT_MAX_GPUS];
	uint64_t last_ns; /* of all events so far */
};

/*
 * The zero of timestamps in the file: the start of a quarter of a year, in ns since 1970. PyTorch
 * counts from the same moment, so that its exports and ours have one clock.
 */
uint64_t chrome_base_ns(uint64_t realtime_ns);

/* `offset_ns`: what is to be added to CLOCK_MONOTONIC for the time since base_ns. */
void chrome_begin(struct chrome *c, FILE *out, pid_t daemon, uint64_t offset_ns, uint64_t base_ns);
void chrome_finish(struct chrome *c);

/* Which GPU each bit stands for. */
void chrome_set_gpus(struct chrome *c, const struct rbt_gpu gpus[RBT_MAX_GPUS]);
/* 0 or -ENOMEM. */
int chrome_put(struct chrome *c, const struct rbt_trace_event *event);
/* Ends all slices: nothing is known after now_ns. With n_lost, says how many events are missing. */
void chrome_end_all(struct chrome *c, uint64_t now_ns, uint64_t n_lost);

/* Counters of a program that the trace knows. used_ns and known_ns are its account's. */
void chrome_put_share(
	struct chrome *c, pid_t pid, uint64_t now_ns, uint64_t used_ns, uint64_t known_ns);
void chrome_put_memory(struct chrome *c, pid_t pid, uint64_t now_ns, uint64_t bytes);

#endif
