/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that want to say when a request begins and ends. Not needed: Rubato infers both from
 * what the program gives the GPU to do. Told, it is exact: lower priorities are kept off the GPU
 * from the beginning to the end and not longer, whatever pauses the program makes in between.
 *
 *     rubato_request_begin(20 * 1000000);   // shall be done in 20 ms
 *     ...                                   // launches, copies, waits; on any thread
 *     rubato_request_end();
 *
 * Without `rubato run` both do nothing. There is nothing to link with: this header alone looks the
 * functions up (with libc before 2.34, link with -ldl). Neither ever waits or fails; errno is kept.
 */
#ifndef RUBATO_RUBATO_H
#define RUBATO_RUBATO_H

#include <dlfcn.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void *rubato_find_(const char *name, void **cache)
{
	/* Its own address stands for "not there": looked for once, by whichever thread is first. */
	void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (found == 0) {
		found = dlsym((void *)0, name); /* in all that is loaded with the program */
		found = found != 0 ? found : (void *)cache;
		__atomic_store_n(cache, found, __ATOMIC_RELAXED);
	}
	return found == (void *)cache ? (void *)0 : found;
}

/*
 * A request begins that shall be done within deadline_ns from now; 0: no deadline. Best said when
 * it arrives, before its input is prepared: until the others are off takes half a millisecond.
 * Once the deadline has passed it counts as late, and is treated as one that was not announced:
 * when in doubt, give a long one, or none.
 * Requests may nest and overlap: the GPU is kept until as many have ended as have begun. Returns 1
 * if the program runs under Rubato, else 0.
 */
static inline int rubato_request_begin(uint64_t deadline_ns)
{
	static void *cache;
	void *found = rubato_find_("rubato_request_begin", &cache);

	return found != 0 ? ((int (*)(uint64_t))(uintptr_t)found)(deadline_ns) : 0;
}

/* The request that this thread began last has ended, or one that another began. */
static inline void rubato_request_end(void)
{
	static void *cache;
	void *found = rubato_find_("rubato_request_end", &cache);

	if (found != 0) {
		((void (*)(void))(uintptr_t)found)();
	}
}

#ifdef __cplusplus
}
#endif

#endif
