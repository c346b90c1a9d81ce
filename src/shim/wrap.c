/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrappers around the driver's functions. Which version of a function a program wants is the
 * driver's business: a wrapper is bound to one real function when that is given out, and passes its
 * arguments on without knowing them.
 *
 * Wrappers of functions that submit are in thunks.S. Those of functions that wait also do something
 * afterwards, and are here: they pass on six words. This is outside of C but inside the ABIs that
 * this is built for (System V on x86-64, AAPCS64): none of these functions has more than six
 * arguments, all are integers or pointers and so in registers, and a callee that expects fewer does
 * not read the rest.
 */
#include "shim/wrap.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/config.h"
#include "shim/submit.h"
#include "shim/thunks.h"

typedef uintptr_t arg;
typedef int sync_fn(arg, arg, arg, arg, arg, arg);

/* In addition to the kinds of submissions. */
#define ONLY_WAITS RBT_BOARD_KINDS
#define ONLY_ASKS  (RBT_BOARD_KINDS + 1)
#define ONLY_USES  (RBT_BOARD_KINDS + 2)

#define CUDA_ERROR_NOT_READY 600

struct wrapper {
	_Atomic uintptr_t real;
	_Atomic uint32_t kind; /* enum rbt_board_kind, or one of the above */
	uint32_t pad;
};

/* thunks.S relies on this layout. */
static_assert(sizeof(struct wrapper) == 16 && offsetof(struct wrapper, kind) == 8, "thunks");
static_assert(SHIM_BOARD_MASK == -(int)RBT_BOARD_SIZE, "thunks");
static_assert(SHIM_BOARD_TICK == offsetof(struct rbt_board, tick), "thunks");
static_assert(SHIM_SLOT_TICK == offsetof(struct rbt_board_slot, tick), "thunks");
static_assert(offsetof(struct rbt_board_slot, n) == 0, "thunks");

#if defined(__x86_64__) || defined(__aarch64__)
#define HAVE_THUNKS true
#else
#define HAVE_THUNKS false
#endif

/* Some 90 functions wait; see thunks.h. */
#define N_SYNC 256
#define HIDDEN __attribute__((visibility("hidden")))
extern HIDDEN struct wrapper shim_submits[SHIM_N_SUBMIT];
extern HIDDEN const unsigned char shim_thunks[];
struct wrapper shim_submits[SHIM_N_SUBMIT];
static struct wrapper syncs[N_SYNC];
static _Atomic uint32_t n_submits, n_syncs;

static uintptr_t real_of(struct wrapper *w)
{
	return atomic_load_explicit(&w->real, memory_order_relaxed);
}

static __attribute__((noinline)) int call_sync(
	struct wrapper *w, arg a, arg b, arg c, arg d, arg e, arg f)
{
	uint32_t kind = atomic_load_explicit(&w->kind, memory_order_relaxed);

	if (kind == ONLY_ASKS) {
		int answer = ((sync_fn *)real_of(w))(a, b, c, d, e, f);
		if (answer == CUDA_ERROR_NOT_READY) {
			shim_count_poll();
		}
		return answer;
	}
	if (kind == ONLY_USES) {
		/* Activity, but not a wait: most of the call may be work of the processor. */
		shim_count_poll();
		int done = ((sync_fn *)real_of(w))(a, b, c, d, e, f);
		shim_count_poll();
		return done;
	}
	if (kind < RBT_BOARD_KINDS && !shim_count(kind)) {
		shim_count_slow(kind);
	}
	uint32_t depth = shim_sync_begin();
	int result = ((sync_fn *)real_of(w))(a, b, c, d, e, f);
	shim_sync_end(depth);
	return result;
}

#define SYNC(i)                                                                                    \
	static int sync_##i(arg a, arg b, arg c, arg d, arg e, arg f)                              \
	{                                                                                          \
		return call_sync(&syncs[0x##i], a, b, c, d, e, f);                                 \
	}

/* DO(0) … DO(f), with a hexadecimal digit before each. */
#define DO16(DO, x)                                                                                \
	DO(x##0)                                                                                   \
	DO(x##1)                                                                                   \
	DO(x##2)                                                                                   \
	DO(x##3)                                                                                   \
	DO(x##4)                                                                                   \
	DO(x##5)                                                                                   \
	DO(x##6)                                                                                   \
	DO(x##7)                                                                                   \
	DO(x##8)                                                                                   \
	DO(x##9)                                                                                   \
	DO(x##a)                                                                                   \
	DO(x##b)                                                                                   \
	DO(x##c)                                                                                   \
	DO(x##d)                                                                                   \
	DO(x##e)                                                                                   \
	DO(x##f)
#define DO256(DO)                                                                                  \
	DO16(DO, 0)                                                                                \
	DO16(DO, 1)                                                                                \
	DO16(DO, 2)                                                                                \
	DO16(DO, 3)                                                                                \
	DO16(DO, 4)                                                                                \
	DO16(DO, 5)                                                                                \
	DO16(DO, 6)                                                                                \
	DO16(DO, 7)                                                                                \
	DO16(DO, 8)                                                                                \
	DO16(DO, 9) DO16(DO, a) DO16(DO, b) DO16(DO, c) DO16(DO, d) DO16(DO, e) DO16(DO, f)

DO256(SYNC)

#define SYNC_NAME(i) sync_##i,
static sync_fn *const sync_fns[] = {DO256(SYNC_NAME)};
static_assert(sizeof(sync_fns) / sizeof(sync_fns[0]) == N_SYNC, "wrappers");

/* Names without their suffixes. Copies that return when they are done both submit and wait. */
static const struct counted {
	const char *name;
	uint8_t kind;
	bool waits; /* or does something else after the real function has returned */
} counted[] = {
	{"cuLaunchKernel", RBT_BOARD_LAUNCH, false},
	{"cuLaunchKernelEx", RBT_BOARD_LAUNCH, false},
	{"cuLaunchCooperativeKernel", RBT_BOARD_LAUNCH, false},
	{"cuLaunchCooperativeKernelMultiDevice", RBT_BOARD_LAUNCH, false},
	{"cuLaunch", RBT_BOARD_LAUNCH, false},
	{"cuLaunchGrid", RBT_BOARD_LAUNCH, false},
	{"cuLaunchGridAsync", RBT_BOARD_LAUNCH, false},
	{"cuGraphLaunch", RBT_BOARD_GRAPH, false},
	{"cuMemcpyAsync", RBT_BOARD_COPY, false},
	{"cuMemcpyPeerAsync", RBT_BOARD_COPY, false},
	{"cuMemcpyHtoDAsync", RBT_BOARD_COPY, false},
	{"cuMemcpyDtoHAsync", RBT_BOARD_COPY, false},
	{"cuMemcpyDtoDAsync", RBT_BOARD_COPY, false},
	{"cuMemcpyHtoAAsync", RBT_BOARD_COPY, false},
	{"cuMemcpyAtoHAsync", RBT_BOARD_COPY, false},
	{"cuMemcpy2DAsync", RBT_BOARD_COPY, false},
	{"cuMemcpy3DAsync", RBT_BOARD_COPY, false},
	{"cuMemcpy3DPeerAsync", RBT_BOARD_COPY, false},
	{"cuMemcpyBatchAsync", RBT_BOARD_COPY, false},
	{"cuMemcpy3DBatchAsync", RBT_BOARD_COPY, false},
	{"cuMemcpy", RBT_BOARD_COPY, true},
	{"cuMemcpyPeer", RBT_BOARD_COPY, true},
	{"cuMemcpyHtoD", RBT_BOARD_COPY, true},
	{"cuMemcpyDtoH", RBT_BOARD_COPY, true},
	{"cuMemcpyDtoD", RBT_BOARD_COPY, true},
	{"cuMemcpyDtoA", RBT_BOARD_COPY, true},
	{"cuMemcpyAtoD", RBT_BOARD_COPY, true},
	{"cuMemcpyHtoA", RBT_BOARD_COPY, true},
	{"cuMemcpyAtoH", RBT_BOARD_COPY, true},
	{"cuMemcpyAtoA", RBT_BOARD_COPY, true},
	{"cuMemcpy2D", RBT_BOARD_COPY, true},
	{"cuMemcpy2DUnaligned", RBT_BOARD_COPY, true},
	{"cuMemcpy3D", RBT_BOARD_COPY, true},
	{"cuMemcpy3DPeer", RBT_BOARD_COPY, true},
	/* These return before they are done. */
	{"cuMemsetD8", RBT_BOARD_MEMSET, false},
	{"cuMemsetD16", RBT_BOARD_MEMSET, false},
	{"cuMemsetD32", RBT_BOARD_MEMSET, false},
	{"cuMemsetD2D8", RBT_BOARD_MEMSET, false},
	{"cuMemsetD2D16", RBT_BOARD_MEMSET, false},
	{"cuMemsetD2D32", RBT_BOARD_MEMSET, false},
	{"cuMemsetD8Async", RBT_BOARD_MEMSET, false},
	{"cuMemsetD16Async", RBT_BOARD_MEMSET, false},
	{"cuMemsetD32Async", RBT_BOARD_MEMSET, false},
	{"cuMemsetD2D8Async", RBT_BOARD_MEMSET, false},
	{"cuMemsetD2D16Async", RBT_BOARD_MEMSET, false},
	{"cuMemsetD2D32Async", RBT_BOARD_MEMSET, false},
	{"cuStreamSynchronize", ONLY_WAITS, true},
	{"cuEventSynchronize", ONLY_WAITS, true},
	{"cuCtxSynchronize", ONLY_WAITS, true},
	{"cuStreamQuery", ONLY_ASKS, true},
	{"cuEventQuery", ONLY_ASKS, true},
	/* These use the GPU with submissions that we do not see, and wait for it. Without this, a
	 * program that is kept off would be taken for idle. */
	{"cuCtxCreate", ONLY_USES, true},
	{"cuCtxDestroy", ONLY_USES, true},
	{"cuDevicePrimaryCtxRetain", ONLY_USES, true},
	{"cuDevicePrimaryCtxRelease", ONLY_USES, true},
	{"cuDevicePrimaryCtxReset", ONLY_USES, true},
	{"cuModuleLoad", ONLY_USES, true},
	{"cuModuleLoadData", ONLY_USES, true},
	{"cuModuleLoadDataEx", ONLY_USES, true},
	{"cuModuleLoadFatBinary", ONLY_USES, true},
	{"cuModuleUnload", ONLY_USES, true},
	{"cuModuleGetFunction", ONLY_USES, true},
	{"cuLibraryUnload", ONLY_USES, true},
	{"cuLibraryGetModule", ONLY_USES, true},
	{"cuLibraryGetKernel", ONLY_USES, true},
	{"cuKernelGetFunction", ONLY_USES, true},
	{"cuFuncLoad", ONLY_USES, true},
	{"cuMemAlloc", ONLY_USES, true},
	{"cuMemAllocPitch", ONLY_USES, true},
	{"cuMemAllocManaged", ONLY_USES, true},
	{"cuMemFree", ONLY_USES, true},
	{"cuMemAllocHost", ONLY_USES, true},
	{"cuMemHostAlloc", ONLY_USES, true},
	{"cuMemFreeHost", ONLY_USES, true},
	{"cuMemHostRegister", ONLY_USES, true},
	{"cuMemHostUnregister", ONLY_USES, true},
	{"cuMemMap", ONLY_USES, true},
	{"cuMemUnmap", ONLY_USES, true},
	{"cuMemSetAccess", ONLY_USES, true},
	{"cuMemRelease", ONLY_USES, true},
	{"cuGraphInstantiate", ONLY_USES, true},
	{"cuGraphInstantiateWithFlags", ONLY_USES, true},
	{"cuGraphInstantiateWithParams", ONLY_USES, true},
	{"cuGraphUpload", ONLY_USES, true},
	{"cuGraphExecDestroy", ONLY_USES, true},
	{"cuStreamCreate", ONLY_USES, true},
	{"cuStreamCreateWithPriority", ONLY_USES, true},
	{"cuStreamDestroy", ONLY_USES, true},
};

/* Without _ptsz or _ptds, then without _v2 and so on. */
static size_t base_length(const char *name)
{
	size_t len = strlen(name);

	if (len > 5 && (memcmp(name + len - 5, "_ptsz", 5) == 0 ||
			       memcmp(name + len - 5, "_ptds", 5) == 0)) {
		len -= 5;
	}
	if (len > 3 && name[len - 3] == '_' && name[len - 2] == 'v' && name[len - 1] >= '0' &&
		name[len - 1] <= '9') {
		len -= 3;
	}
	return len;
}

static const struct counted *find_counted(const char *name)
{
	size_t len = base_length(name);

	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
		if (strlen(counted[i].name) == len && memcmp(counted[i].name, name, len) == 0) {
			return &counted[i];
		}
	}
	return NULL;
}

/* Returns the wrapper for `real`, or a new one; negative: there are no more. Two threads that ask
 * for the same function at once may get one each, which does no harm. */
static int32_t bind(
	struct wrapper *all, uint32_t size, _Atomic uint32_t *n, uintptr_t real, uint32_t kind)
{
	uint32_t used = *n < size ? *n : size;

	for (uint32_t i = 0; i < used; i++) {
		if (real_of(&all[i]) == real) {
			return (int32_t)i;
		}
	}
	if (used == size) {
		return -1;
	}
	uint32_t i = (*n)++;
	if (i >= size) {
		*n = size;
		return -1;
	}
	atomic_store_explicit(&all[i].kind, kind, memory_order_relaxed);
	atomic_store_explicit(&all[i].real, real, memory_order_release);
	return (int32_t)i;
}

__attribute__((visibility("default"))) void *rubato_shim_wrap_v1(const char *name, void *real)
{
	const struct counted *c = real != NULL && name != NULL ? find_counted(name) : NULL;
	int32_t i;

	if (!HAVE_THUNKS || c == NULL || !shim_config_active()) {
		return real;
	}
	if (c->waits) {
		i = bind(syncs, N_SYNC, &n_syncs, (uintptr_t)real, c->kind);
	} else {
		i = bind(shim_submits, SHIM_N_SUBMIT, &n_submits, (uintptr_t)real, c->kind);
	}
	if (i < 0) {
		return real;
	}
	shim_submit_enable();
	return c->waits ? (void *)(uintptr_t)sync_fns[i]
			: (void *)(uintptr_t)(shim_thunks + SHIM_THUNK_SIZE * (size_t)i);
}
