/* SPDX-License-Identifier: Apache-2.0 */
/* The driver behind the stand-in: functions that the scheduler calls itself. */
#ifndef RBT_ORION_DRIVER_H
#define RBT_ORION_DRIVER_H

#include <stdbool.h>

#include "cuda/abi.h"
#include "cuda/intercept.h"

/* Member, symbol, parameters. All are called uncounted: they are not the program's. */
#define ORION_DRIVER(DO)                                                                           \
	DO(ctx_get_current, cuCtxGetCurrent, (CUcontext *))                                        \
	DO(ctx_set_current, cuCtxSetCurrent, (CUcontext))                                          \
	DO(ctx_priorities, cuCtxGetStreamPriorityRange, (int *, int *))                            \
	DO(ctx_device, cuCtxGetDevice, (CUdevice *))                                               \
	DO(primary_retain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                      \
	DO(primary_release, cuDevicePrimaryCtxRelease_v2, (CUdevice))                              \
	DO(primary_state, cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *))               \
	DO(device_attribute, cuDeviceGetAttribute, (int *, int, CUdevice))                         \
	DO(stream_create, cuStreamCreateWithPriority, (CUstream *, unsigned, int))                 \
	DO(stream_flags, cuStreamGetFlags, (CUstream, unsigned *))                                 \
	DO(stream_ctx, cuStreamGetCtx, (CUstream, CUcontext *))                                    \
	DO(stream_is_capturing, cuStreamIsCapturing, (CUstream, int *))                            \
	DO(stream_wait_event, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                    \
	DO(stream_synchronize, cuStreamSynchronize, (CUstream))                                    \
	DO(event_create, cuEventCreate, (CUevent *, unsigned))                                     \
	DO(event_destroy, cuEventDestroy_v2, (CUevent))                                            \
	DO(event_record, cuEventRecord, (CUevent, CUstream))                                       \
	DO(event_query, cuEventQuery, (CUevent))                                                   \
	DO(event_synchronize, cuEventSynchronize, (CUevent))                                       \
	DO(event_elapsed, cuEventElapsedTime, (float *, CUevent, CUevent))                         \
	DO(capture_mode, cuThreadExchangeStreamCaptureMode, (int *))

struct orion_driver {
#define MEMBER(member, symbol, parameters) CUresult(*member) parameters;
	ORION_DRIVER(MEMBER)
#undef MEMBER
};

extern struct orion_driver orion_driver;

/*
 * Opens the stand-in, if it can. Without any lock: under `rubato profile record`, the stand-in
 * calls this library while it is being opened.
 */
void orion_driver_open(void);

/*
 * Finds the stand-in, or opens it, and fills orion_driver. 0, or a negative errno with a sentence
 * that says what to do. May be repeated.
 */
int orion_driver_find(char *ret_why, size_t size);

/* Whether the current context is the device's primary one. */
bool orion_driver_is_primary(CUdevice device);

/* The stand-in's functions (cuda/intercept.h), after orion_driver_find(). */
int orion_driver_intercept(rubato_wrap_fn *wrap);
/* NULL: this driver has none of that name. */
void *orion_driver_symbol(const char *symbol);

#endif
