/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients and their scheduler. A launch of a best-effort client that must wait stands in its
 * client's queue: the client's scheduler thread lets it go, and the thread that called it then
 * makes the call. So nothing is copied, and results and errors are CUDA's own.
 *
 * Scheduler threads sleep while nothing is held. No call is held for longer than 100 ms.
 */
#ifndef RBT_ORION_CLIENT_H
#define RBT_ORION_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "orion/profile.h"
#include "rubato/orion.h"

struct orion_policy;
struct rbt_kernel;

/* Threads that are still inside a call may read this while it changes. */
struct orion_config {
	_Atomic int n_clients;
	_Atomic uint64_t hp_clients; /* a bit per client */
	_Atomic int others;          /* the client of threads that have none; -1: none */
	_Atomic(const struct orion_policy *) policy;
	_Atomic uint32_t partition_sms; /* for kernels of best-effort clients; 0: all SMs */
};

/* The clients' number and kinds. Called while nothing is intercepted. */
void orion_clients_begin(const struct orion_config *config);

/* -1: none. An index that is out of range means none. */
int orion_client_of_thread(void);
void orion_client_set(int idx);
/* Before the number of clients is known, all that could exist do. */
bool orion_client_exists(int idx);
/* For threads without a client; -1: none. */
int orion_client_others(void);
bool orion_client_is_hp(int idx);
int orion_client_stats(int idx, struct rubato_orion_stats *ret);

/* One thread per best-effort client. 0 or a negative errno; nothing is left then. */
int orion_scheduler_start(void);
/* Lets all held calls go, and ends the threads. */
void orion_scheduler_stop(void);
/* In a forked child: there are no threads. */
void orion_scheduler_forked(void);
/* How long the best-effort launches on the GPU may take for another one to follow. */
void orion_scheduler_set_budget(uint64_t budget_ns);
/* Its events are gone. */
void orion_scheduler_forget_context(CUcontext ctx);

/* A launch went into the client's partition. */
void orion_client_partitioned(int idx);

/* A launch of a high-priority client; facts may be NULL. */
void orion_hp_launch(int idx, const struct rbt_kernel_facts *facts);

/* A best-effort launch on its way to the GPU. */
struct orion_flight {
	int client;
	uint32_t generation; /* of the scheduler; 0: the launch is not followed */
	uint32_t slot;
	bool is_behind; /* other launches */
};

/*
 * Waits until the client may launch. Then the caller makes the call between start and end.
 * `kernel`, if it is not NULL, is told how long it took.
 */
struct orion_flight orion_flight_begin(int idx, const struct rbt_kernel_facts *facts);
void orion_flight_start(const struct orion_flight *f, CUstream stream, struct rbt_kernel *kernel);
void orion_flight_end(const struct orion_flight *f, CUstream stream, CUresult result);

#endif
