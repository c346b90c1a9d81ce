/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several clients in one process and one CUDA context: libgpu_scheduler.so. High-priority clients
 * run at once; launches of best-effort clients wait while that would be in their way. Programs that
 * can run as processes of their own do better under `rubato run`; see docs/orion.md.
 *
 *   orion_start_scheduler(2);
 *   thread 1: orion_set_client_idx(0);  CUDA calls of the high-priority client
 *   thread 2: orion_set_client_idx(1);  CUDA calls of the best-effort client
 *   orion_stop_scheduler();
 *
 * The library must be there before the driver's library is (before `import torch`), unless the
 * program was started by `rubato run`. It must not be preloaded, since it exports block().
 */
#ifndef RUBATO_ORION_H
#define RUBATO_ORION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUBATO_ORION_MAX_CLIENTS 64

/*
 * Calls of the clients' threads are intercepted, and pass. 0, also if this was done before; -1:
 * num_clients is not in 1 to 64, there is no driver, or the driver's library was loaded first. A
 * line on standard error says which.
 */
int orion_init(int num_clients);
/* Ends that. Held calls go on. */
void orion_shutdown(void);

/* orion_init(), and a scheduler that holds calls of best-effort clients. -1: nothing is left. */
int orion_start_scheduler(int num_clients);
/* Held calls go on, in their order; then the threads end. Any thread may call it, and again. */
void orion_stop_scheduler(void);
/* The length of a request of the high-priority client. A tenth of it is what best-effort clients
 * may have on the GPU at once; 0.2 ms if it was not told. */
void orion_set_hp_latency(float ms);

/* The calling thread's client, from 0; any index that is out of range means none. */
void orion_set_client_idx(int idx);
/* -1: none. */
int orion_get_client_idx(void);

/* While disabled, all calls pass. */
void orion_set_enabled(int enabled);
int orion_is_enabled(void);

/* Returns when the calling thread's client has nothing on the GPU; at once while disabled. `phase`
 * is not used. */
void block(int phase);

/* Profiles: see rubato-profile(1). -1: the file cannot be used, and a line says why. */
int orion_load_profile(const char *path);
void orion_start_profiling(const char *model);
void orion_end_profiling(const char *output);

struct rubato_orion_stats {
	uint64_t launches; /* launches and graph launches */
	uint64_t held;     /* of these, how many had to wait */
	uint64_t held_ns;  /* for how long, in all */
	uint64_t overdue;  /* of those, how many were let go because they had waited for 100 ms */
	/* Of the launches, how many ran on the SMs of RUBATO_ORION_PARTITION. Launches into streams
	 * that the program made do not, nor do graphs and cooperative launches. */
	uint64_t partitioned;
};
/* 0; -1: there is no such client. */
int rubato_orion_stats(int idx, struct rubato_orion_stats *ret);

/*
 * Why the calling thread's last start, init or call about profiles failed: what the line on
 * standard error said. "": it did not fail. Valid until the thread's next such call.
 */
const char *rubato_orion_why(void);

#ifdef __cplusplus
}
#endif

#endif
