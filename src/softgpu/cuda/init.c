/* SPDX-License-Identifier: Apache-2.0 */
/* The process's side of the driver. Nothing happens before cuInit. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/cuda/front.h"

struct front front = {.lock = PTHREAD_MUTEX_INITIALIZER, .rm.lock = PTHREAD_MUTEX_INITIALIZER};

void front_say(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, FRONT_LOG_PREFIX "%s\n", line);
}

CUresult front_from_errno(int error)
{
	switch (error) {
	case 0:
		return CUDA_SUCCESS;
	case -ENOMEM:
	case -ENOSPC:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -EINVAL:
	case -E2BIG:
		return CUDA_ERROR_INVALID_VALUE;
	case -ENODEV:
	case -EIO:
	case -EPIPE:
	case -ECONNRESET:
	case -ECONNREFUSED:
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	case -ENOTSUP:
		return CUDA_ERROR_NOT_SUPPORTED;
	case -EACCES:
	case -EPERM:
		return CUDA_ERROR_NOT_PERMITTED;
	case -ENOENT:
		return CUDA_ERROR_NOT_FOUND;
	default:
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

CUresult front_check_init(void)
{
	return atomic_load_explicit(&front.state, memory_order_acquire) == FRONT_READY
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult front_check_device(CUdevice device, struct front_device **ret)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && (device < 0 || device >= front.n_devices)) {
		r = CUDA_ERROR_INVALID_DEVICE;
	}
	if (r == CUDA_SUCCESS) {
		*ret = &front.devices[device];
	}
	return r;
}

CUresult front_check_context(struct front_context *ctx)
{
	if (!front_is(ctx, FRONT_CONTEXT) || !atomic_load(&ctx->alive)) {
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	front_wait_unheld(ctx);
	if (front_link_is_lost(ctx->dev)) {
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	return (CUresult)__atomic_load_n(&ctx->room->error, __ATOMIC_ACQUIRE);
}

CUresult front_enter(struct front_context **ret)
{
	struct front_context *ctx;
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS) {
		r = front_current_get(&ctx);
	}
	if (r == CUDA_SUCCESS) {
		r = front_check_context(ctx);
	}
	if (r == CUDA_SUCCESS) {
		*ret = ctx;
	}
	return r;
}

/*
 * A forked child has the parent's handles but none of its connections: every call fails from here
 * on, and the parent's rings are left alone. Only async-signal-safe functions are called.
 */
static void forked(void)
{
	atomic_store(&front.state, FRONT_FORKED);
	front_rm_forked(&front.rm);
	for (int i = 0; i < front.n_devices; i++) {
		front_link_forked(&front.devices[i]);
	}
}

static void init_device(struct front_device *dev, int ordinal)
{
	pthread_mutex_init(&dev->lock, NULL);
	dev->ordinal = ordinal;
	dev->sock = -1;
}

/* The session first: if there is none, a real driver's nodes must not be touched. */
static CUresult open_devices(void)
{
	static bool said;
	struct front_card cards[FRONT_RM_GPUS] = {0};

	init_device(&front.devices[0], 0);
	int r = front_link_open(&front.devices[0]);
	if (r == -ENOENT) {
		if (!said) {
			front_say("no software GPU here; run the program with "
				  "'rubato-softgpu exec -- …'");
		}
		said = true;
		return CUDA_ERROR_NO_DEVICE;
	}
	if (r < 0) {
		return front_from_errno(r);
	}
	int n = front_rm_open(&front.rm, cards);
	if (n < 0) {
		front_link_forked(&front.devices[0]);
		return n == -ENOENT ? CUDA_ERROR_NO_DEVICE : front_from_errno(n);
	}
	front.devices[0].card = cards[0];
	front.n_devices = 1;
	for (int i = 1; i < n && i < FRONT_MAX_DEVICES; i++) {
		init_device(&front.devices[i], i);
		front.devices[i].card = cards[i];
		if (front_link_open(&front.devices[i]) < 0) {
			break;
		}
		front.n_devices++;
	}
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags)
{
	static bool has_atfork;
	CUresult r = CUDA_SUCCESS;

	if (flags != 0) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (atomic_load(&front.state) == FRONT_FORKED) {
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	pthread_mutex_lock(&front.lock);
	if (atomic_load(&front.state) == FRONT_COLD) {
		r = open_devices();
		if (r == CUDA_SUCCESS && !has_atfork) {
			has_atfork = pthread_atfork(NULL, NULL, forked) == 0;
		}
		if (r == CUDA_SUCCESS) {
			atomic_store(&front.state, FRONT_READY);
		}
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}

CUresult cuDriverGetVersion(int *ret_version)
{
	if (ret_version == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_version = CUDA_VERSION;
	return CUDA_SUCCESS;
}

/*
 * NVIDIA's runtime asks here for tables by which it recognises NVIDIA's driver, which this is not.
 * Such a program cannot run here, and gets a message that says what can.
 */
CUresult cuGetExportTable(const void **ret_table, const struct CUuuid *id)
{
	static _Atomic bool said;

	if (ret_table == NULL || id == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_table = NULL;
	if (!atomic_exchange(&said, true)) {
		front_say("NVIDIA's CUDA runtime does not run here; the software GPU runs programs "
			  "of the driver API with PTX built by clang (docs/softgpu-cuda.md)");
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuProfilerStart(void)
{
	struct front_context *ctx;

	return front_enter(&ctx);
}

CUresult cuProfilerStop(void)
{
	struct front_context *ctx;

	return front_enter(&ctx);
}
