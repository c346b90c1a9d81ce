/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How libraries of ours stand between a program and the driver's functions. The stand-in for
 * libcuda.so.1 (standin.c) gives out a trampoline for each function that has a role in calls.txt,
 * and the driver's own pointer for any other. Where trampolines lead can be changed at any time,
 * also after a program has got its pointers:
 *
 *   program → queue → entry → count → driver
 *
 * So what is counted is what is submitted. Each layer may be missing. librubato.so, which is
 * preloaded, is the count; libgpu_scheduler.so (src/orion) is the queue while its scheduler runs.
 * The entry is the stand-in's own, and exists only in programs that may be parked while they are
 * idle. The three libraries find each other by the symbols below; a symbol's name changes if its
 * meaning does.
 */
#ifndef RBT_CUDA_INTERCEPT_H
#define RBT_CUDA_INTERCEPT_H

#include <stdint.h>

#include "cuda/entries.h"

/*
 * Returns the function that takes the place of `next`, or `next` itself. `symbol` is the name of
 * the driver's function in its library: it tells the form, and so the arguments. The function that
 * is returned must exist for as long as the process does, since threads may be about to call it.
 */
typedef void *rubato_wrap_fn(const char *symbol, void *next);

/*
 * The count, exported by librubato.so; the stand-in asks it once per function. It is also asked
 * about functions that the driver's cuGetProcAddress gives out and its symbol table lacks; `symbol`
 * is then the name that was asked for. All arguments are passed on unchanged.
 */
void *rubato_count_v1(const char *symbol, void *next);

/*
 * Also exported by librubato.so: whether all calls of this process are to be counted, because it
 * may be parked while it is idle (board/park.h). Then every function that the stand-in gives out,
 * with a role or without, adds one to *n_calls before anything else. If *parking then has the bit
 * WAKES, it also calls wake(), which does not wait. The two addresses are valid for as long as the
 * process exists.
 */
struct rubato_calls {
	_Atomic uint64_t *n_calls;
	_Atomic uint32_t *parking;
	void (*wake)(void);
};
int rubato_calls_v1(struct rubato_calls *ret);

/* Both are exported by the stand-in. */

/*
 * Puts a queue before the count, or takes it away (NULL). `wrap` is called for each function with a
 * role, in the calling thread; it is asked again if it is the queue already. Returns -ENODEV if
 * there is no driver, -EBUSY if there is another queue. Threads that are inside the queue's
 * functions go on there after it was taken away.
 */
int rubato_standin_queue_v1(rubato_wrap_fn *wrap);
typedef int rubato_standin_queue_fn(rubato_wrap_fn *wrap);

/* The driver's own function, uncounted; NULL: this driver has none of that name. */
void *rubato_standin_driver_v1(const char *symbol);
typedef void *rubato_standin_driver_fn(const char *symbol);

/*
 * If this variable names a file by its absolute path (`rubato profile record`), the stand-in opens
 * libgpu_scheduler.so and calls this function of it: all launches of the process are measured, and
 * the file gets their profile when the process exits.
 */
#define RBT_ENV_ORION_PROFILE "RUBATO_ORION_PROFILE"
void rubato_orion_profile_v1(const char *file);
typedef void rubato_orion_profile_fn(const char *file);

#endif
