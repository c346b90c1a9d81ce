/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints, from both sides: the calls by which another process takes this one off the device,
 * and the waiting of this process's own calls meanwhile. The device server does the work
 * (serve/checkpoint.c). The calls need no cuInit.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"
#include "softgpu/serve/gpu_link.h"

#define CHECK_MS 50

void front_wait_unheld(struct front_context *ctx)
{
	uint32_t *held = &ctx->room->held;
	const struct timespec timeout = {.tv_nsec = CHECK_MS * 1000000L};

	while (__atomic_load_n(held, __ATOMIC_SEQ_CST) != 0 && !front_link_is_lost(ctx->dev)) {
		(void)syscall(SYS_futex, held, FUTEX_WAIT, 1, &timeout, NULL, 0);
	}
}

void front_touch_begin(struct front_context *ctx)
{
	uint32_t *touching = &ctx->room->touching;

	for (;;) {
		front_wait_unheld(ctx);
		/* The server holds first and then looks for threads; here it is the other way
		 * round. So one of the two sees the other. */
		__atomic_add_fetch(touching, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&ctx->room->held, __ATOMIC_SEQ_CST) == 0 ||
			front_link_is_lost(ctx->dev)) {
			return;
		}
		__atomic_sub_fetch(touching, 1, __ATOMIC_SEQ_CST);
	}
}

void front_touch_end(struct front_context *ctx)
{
	__atomic_sub_fetch(&ctx->room->touching, 1, __ATOMIC_SEQ_CST);
}

static CUresult ask(int pid, uint32_t action, uint32_t timeout_ms, int *ret_state)
{
	struct gpu_process m = {.pid = pid, .action = action, .timeout_ms = timeout_ms};
	uint32_t result = 0, state = 0;
	int r = pid > 0 ? front_link_process(&m, &result, &state) : -EINVAL;

	if (r < 0) {
		return r == -ENOENT ? CUDA_ERROR_NO_DEVICE : front_from_errno(r);
	}
	if (ret_state != NULL && result == CUDA_SUCCESS) {
		*ret_state = (int)state;
	}
	return (CUresult)result;
}

CUresult cuCheckpointProcessLock(int pid, const struct CUcheckpointLockArgs *args)
{
	return ask(pid, GPU_PROCESS_LOCK, args != NULL ? args->timeoutMs : 0, NULL);
}

CUresult cuCheckpointProcessCheckpoint(int pid, const void *args)
{
	return ask(pid, GPU_PROCESS_CHECKPOINT, 0, NULL);
}

CUresult cuCheckpointProcessRestore(int pid, const void *args)
{
	return ask(pid, GPU_PROCESS_RESTORE, 0, NULL);
}

CUresult cuCheckpointProcessUnlock(int pid, const void *args)
{
	return ask(pid, GPU_PROCESS_UNLOCK, 0, NULL);
}

CUresult cuCheckpointProcessGetState(int pid, int *ret_state)
{
	if (ret_state == NULL) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return ask(pid, GPU_PROCESS_STATE, 0, ret_state);
}
