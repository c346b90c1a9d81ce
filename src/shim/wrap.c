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
#include "cuda/intercept.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/config.h"
#include "shim/shim.h"
#include "shim/sizes.h"
#include "shim/submit.h"
#include "shim/thunks.h"

typedef uintptr_t arg;
typedef int sync_fn(arg, arg, arg, arg, arg, arg);

#define NO_KIND RBT_BOARD_KINDS

/* See cuda/calls.txt. */
enum role { ROLE_SUBMIT, ROLE_WAIT, ROLE_ASK, ROLE_USE, ROLE_SIZE };

#define CUDA_ERROR_NOT_READY 600

struct wrapper {
	_Atomic uintptr_t real;
	_Atomic uint32_t kind; /* enum rbt_board_kind, or NO_KIND */
	_Atomic uint32_t role;
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
	uint32_t role = atomic_load_explicit(&w->role, memory_order_relaxed);

	if (role == ROLE_ASK) {
		int answer = ((sync_fn *)real_of(w))(a, b, c, d, e, f);
		if (answer == CUDA_ERROR_NOT_READY) {
			shim_count_poll();
		}
		return answer;
	}
	if (role == ROLE_USE) {
		/* Activity, but not a wait: most of the call may be work of the processor. */
		shim_count_poll();
		int done = ((sync_fn *)real_of(w))(a, b, c, d, e, f);
		shim_count_poll();
		return done;
	}
	if (kind != NO_KIND && !shim_count(kind)) {
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

/* Sorted by symbol. */
static const struct counted {
	const char *symbol;
	uint8_t kind; /* enum rbt_board_kind, or NO_KIND */
	uint8_t role;
} counted[] = {
#define COUNTED(symbol, kind, role) {#symbol, kind, role},
#include "cuda/counted.inc"
#undef COUNTED
};

static int compare(const void *symbol, const void *entry)
{
	return strcmp(symbol, ((const struct counted *)entry)->symbol);
}

static const struct counted *find_counted(const char *symbol)
{
	return bsearch(
		symbol, counted, sizeof(counted) / sizeof(counted[0]), sizeof(counted[0]), compare);
}

/* Returns the wrapper for `real`, or a new one; negative: there are no more. Two threads that ask
 * for the same function at once may get one each, which does no harm. */
static int32_t bind(struct wrapper *all, uint32_t size, _Atomic uint32_t *n, uintptr_t real,
	const struct counted *c)
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
	atomic_store_explicit(&all[i].kind, c->kind, memory_order_relaxed);
	atomic_store_explicit(&all[i].role, c->role, memory_order_relaxed);
	atomic_store_explicit(&all[i].real, real, memory_order_release);
	return (int32_t)i;
}

static_assert(RBT_BOARD_WAKES == 1 << RUBATO_CALLS_WAKES_BIT, "the stand-in's entries");

/* Wakes a daemon that sleeps on the board in any way. */
static void wake_any(void)
{
	struct rbt_board *b = shim_board_peek();
	int saved_errno = errno;

	if (b != NULL && atomic_exchange(&b->asleep, 0) != 0) {
		shim_sys_futex_wake(&b->asleep);
	}
	errno = saved_errno;
}

__attribute__((visibility("default"))) int rubato_calls_v1(struct rubato_calls *ret)
{
	if (!HAVE_THUNKS || !shim_config_active() || shim_config.no_daemon ||
		shim_config.treat.park_idle_ms == 0) {
		return 0;
	}
	struct rbt_board *b = shim_board_obtain();

	if (b == NULL) {
		return 0;
	}
	b->features |= RBT_BOARD_COUNTS_CALLS;
	shim_submit_enable();
	*ret = (struct rubato_calls){
		.n_calls = &b->n_calls, .parking = &b->parking, .wake = wake_any};
	return 1;
}

__attribute__((visibility("default"))) void *rubato_count_v1(const char *symbol, void *real)
{
	const struct counted *c = real != NULL && symbol != NULL ? find_counted(symbol) : NULL;
	int32_t i;

	if (!HAVE_THUNKS || c == NULL || !shim_config_active()) {
		return real;
	}
	if (c->role == ROLE_SIZE) {
		return shim_sizes_wrap(symbol, real);
	}
	if (c->role != ROLE_SUBMIT) {
		i = bind(syncs, N_SYNC, &n_syncs, (uintptr_t)real, c);
	} else {
		i = bind(shim_submits, SHIM_N_SUBMIT, &n_submits, (uintptr_t)real, c);
	}
	if (i < 0) {
		return real;
	}
	shim_submit_enable();
	return c->role != ROLE_SUBMIT
		       ? (void *)(uintptr_t)sync_fns[i]
		       : (void *)(uintptr_t)(shim_thunks + SHIM_THUNK_SIZE * (size_t)i);
}
