/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/capture.h"

#include "orion/driver.h"
#include "orion/stream.h"

_Atomic int orion_captures;

bool orion_capture_is(const struct orion_stream *s)
{
	int status = CU_STREAM_CAPTURE_STATUS_NONE;

	/* A stream may also have joined another one's capture by an event. */
	return atomic_load_explicit(&orion_captures, memory_order_relaxed) > 0 &&
	       (orion_driver.stream_is_capturing((CUstream)s->handle, &status) != CUDA_SUCCESS ||
		       status != CU_STREAM_CAPTURE_STATUS_NONE);
}

int orion_capture_relax(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (atomic_load_explicit(&orion_captures, memory_order_relaxed) == 0 ||
		orion_driver.capture_mode(&mode) != CUDA_SUCCESS) {
		return -1;
	}
	return mode;
}

void orion_capture_restore(int mode)
{
	if (mode >= 0) {
		orion_driver.capture_mode(&mode);
	}
}
