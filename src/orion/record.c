/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/record.h"

#include <pthread.h>
#include <stdatomic.h>

#include "orion/capture.h"
#include "orion/driver.h"
#include "orion/kernel.h"

#define N_PENDING 256u

static _Atomic bool is_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A ring of launches that may not be over. */
static struct orion_recording pending[N_PENDING];
static uint32_t oldest, next;

bool orion_record_is_on(void)
{
	return atomic_load_explicit(&is_on, memory_order_relaxed);
}

void orion_record_begin(void)
{
	is_on = true;
}

static void drop(const struct orion_recording *r)
{
	orion_driver.event_destroy(r->start);
	orion_driver.event_destroy(r->end);
}

/* Notes the launches that are over; all, if they are to be waited for. The lock is held. */
static void collect(bool waits)
{
	while (oldest != next) {
		const struct orion_recording *r = &pending[oldest % N_PENDING];
		float ms = 0;

		if (waits) {
			orion_driver.event_synchronize(r->end);
		} else if (orion_driver.event_query(r->end) == CUDA_ERROR_NOT_READY) {
			return;
		}
		if (orion_driver.event_elapsed(&ms, r->start, r->end) == CUDA_SUCCESS && ms >= 0) {
			rbt_kernel_measured(r->kernel, (uint64_t)((double)ms * 1e6));
		}
		drop(r);
		oldest++;
	}
}

static void collect_all(void)
{
	int mode = orion_capture_relax();

	pthread_mutex_lock(&lock);
	collect(true);
	pthread_mutex_unlock(&lock);
	orion_capture_restore(mode);
}

void orion_record_finish(void)
{
	is_on = false;
	collect_all();
}

void orion_record_forked(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	lock = unlocked;
	is_on = false;
	oldest = next = 0;
}

void orion_record_start(struct orion_recording *r, CUstream stream, struct rbt_kernel *kernel)
{
	*r = (struct orion_recording){.kernel = kernel};
	if (kernel == NULL || orion_driver.event_create(&r->start, 0) != CUDA_SUCCESS) {
		r->start = NULL;
		return;
	}
	if (orion_driver.event_create(&r->end, 0) != CUDA_SUCCESS) {
		orion_driver.event_destroy(r->start);
		r->start = NULL;
		return;
	}
	orion_driver.event_record(r->start, stream);
}

void orion_record_end(const struct orion_recording *r, CUstream stream)
{
	bool is_recorded = orion_driver.event_record(r->end, stream) == CUDA_SUCCESS;
	int mode = orion_capture_relax();

	pthread_mutex_lock(&lock);
	collect(false);
	if (is_recorded && next - oldest < N_PENDING) {
		pending[next++ % N_PENDING] = *r;
	} else {
		drop(r);
	}
	pthread_mutex_unlock(&lock);
	orion_capture_restore(mode);
}

void orion_record_forget(void)
{
	if (orion_record_is_on()) {
		collect_all();
	}
}
