/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's libcuda.so.1: each of its functions is a call to a worker on the host. The functions
 * are generated from cuda/calls.txt, or are written by hand in *_api.c as guest_NAME(form, …),
 * where `form` is RBT_WIRE_PER_THREAD for the per-thread form of the function.
 *
 * A call is made by one thread: guest_begin(), an argument after the other with guest_put…(), and
 * guest_end(), which sends it, waits if the call waits, and stores outputs. If guest_begin() fails,
 * its result is the call's.
 *
 * A queued call returns before it is done. It is made as a synchronous one if the guest has doubts
 * about it, so that the driver answers: a handle that the guest does not know, an address outside
 * of known allocations, no current context, a capture under way.
 */
#ifndef RBT_REMOTE_GUEST_GUEST_H
#define RBT_REMOTE_GUEST_GUEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/abi.h"
#include "cuda/remote.h"
#include "remote/link.h"
#include "wire/bytes.h"
#include "wire/handle.h"
#include "wire/ring.h"

#define GUEST_ENV_PATH "RUBATO_REMOTE" /* RBT_ENV_REMOTE of proto/protocol.h */
#define GUEST_MAX_OUTS 12
/* Data of this size travels inside a call; more is split. */
#define GUEST_CHUNK (512u << 10)

enum rbt_call_number {
#define CALL_NUMBER(symbol, per_thread, number, params, waits) RBT_CALL_##symbol = (number),
	RBT_REMOTE_CALLS(CALL_NUMBER)
#undef CALL_NUMBER
};

enum guest_how {
	/* RBT_WIRE_PER_THREAD is 2. */
	GUEST_SYNC = 0,
	GUEST_QUEUED = 4,
	GUEST_CACHED = 8,
	GUEST_WAITS = 16,
};

/* One per thread of the program that makes calls. */
struct guest_thread {
	uint32_t channel;
	struct rbt_wire_guest wire;
	struct rbt_wire_call *call; /* RBT_WIRE_MAX_CALL bytes each */
	struct rbt_wire_answer *answer;
	bool has_context; /* a context is current, as far as the guest knows */
	bool in_callback;
	struct guest_thread *next_free;
	void *kept[2]; /* arrays that the last calls of this thread have returned */
};

/* The process. */
struct guest {
	pthread_mutex_t lock;
	struct rbt_link *link; /* NULL: not open */
	atomic_bool open, lost, forked, initialized;
	_Atomic uint64_t tickets;
	atomic_uint captures; /* streams that record into graphs */
	bool always_waits;    /* RUBATO_REMOTE_SYNC=1, for finding errors */
};
extern struct guest guest;

enum guest_out_kind { GUEST_OUT_BYTES, GUEST_OUT_HANDLES, GUEST_OUT_TEXT };

struct guest_out {
	enum guest_out_kind kind;
	void *at; /* NULL: the caller wants none */
	size_t size;
};

struct guest_call {
	struct guest_thread *thread;
	struct rbt_wire_writer writer;
	uint16_t number;
	unsigned how;
	bool doubt;
	unsigned n_outs;
	struct guest_out outs[GUEST_MAX_OUTS];
	uint64_t gone;           /* a handle */
	uint64_t freed;          /* an address */
	const uint64_t *address; /* of a new allocation, and its size */
	size_t size;
	uint64_t first;                /* the first number or handle */
	struct rbt_wire_reader reader; /* what is left of the answer, for calls by hand */
};

CUresult guest_begin(struct guest_call *c, enum rbt_call_number number, unsigned how);
CUresult guest_end(struct guest_call *c);

void guest_put(struct guest_call *c, uint64_t number);
void guest_put_flags(struct guest_call *c, uint64_t flags); /* any flag is a doubt */
void guest_put_handle(struct guest_call *c, enum rbt_handle_kind kind, const void *handle);
void guest_put_gone(struct guest_call *c, const void *handle);
void guest_put_freed(struct guest_call *c, CUdeviceptr address);
void guest_put_range(struct guest_call *c, CUdeviceptr address, size_t size, size_t n);
void guest_put_in(struct guest_call *c, const void *at, size_t size, size_t n);
void guest_put_handles(
	struct guest_call *c, enum rbt_handle_kind kind, const void *handles, size_t n);
void guest_put_text(struct guest_call *c, const char *text);
void guest_put_both(struct guest_call *c, void *at, size_t size);
void guest_put_out(struct guest_call *c, void *at, size_t size, size_t n);
void guest_put_address_out(struct guest_call *c, CUdeviceptr *at, size_t size);
void guest_put_handles_out(struct guest_call *c, void *at, size_t n);
void guest_put_text_out(struct guest_call *c, const char **at);
void guest_put_text_room(struct guest_call *c, char *at, size_t size);

/* Outputs that the worker sends without being asked for: in the order of the answer, behind those
 * that were put. NULL: it sent none. Valid until the thread's next call. */
const void *guest_take(struct guest_call *c, size_t *ret_size);

/* refused.c */
CUresult guest_refused(void);

/* thread.c */
CUresult guest_thread_get(struct guest_thread **ret);
/* Opens the link, for cuInit() and cuDriverGetVersion(). */
CUresult guest_open(void);
void guest_is_lost(void);
CUresult guest_send(struct guest_thread *t, struct rbt_wire_call *call); /* queued */
CUresult guest_ask(struct guest_thread *t, struct rbt_wire_call *call);  /* synchronous */

/* known.c: what the guest knows. Thread-safe. */
bool guest_knows_handle(uint64_t handle);
void guest_learn_handle(uint64_t handle);
void guest_forget_handle(uint64_t handle);
void guest_forget_all(void);   /* a context is gone, and maybe much with it */
bool guest_has_contexts(void); /* more than one */
bool guest_knows_range(uint64_t address, uint64_t size);
bool guest_knows_base(uint64_t address);
void guest_learn_range(uint64_t address, uint64_t size);
void guest_forget_range(uint64_t address);
/* Text that stays for as long as the process does. NULL: out of memory. */
const char *guest_intern(const char *text);

/* cache.c. The key is a call's arguments. */
bool guest_cache_find(const struct rbt_wire_call *call, struct rbt_wire_answer *answer);
void guest_cache_add(const struct rbt_wire_call *call, const struct rbt_wire_answer *answer);
void guest_cache_clear(void);
uint64_t guest_cache_epoch(void); /* grows when the cache is cleared */

/* shared.c: memory that the worker sees at the same address. */
enum guest_shared_kind { GUEST_PINNED, GUEST_MANAGED, GUEST_REGISTERED, GUEST_STAGED };
struct guest_shared {
	uint64_t address, size; /* as the program knows them */
	uint64_t device;        /* where kernels see it */
	unsigned flags;
	enum guest_shared_kind kind;
};
bool guest_shared_find(const void *p, struct guest_shared *ret);
int guest_shared_add(const struct guest_shared *s); /* -EEXIST: it overlaps another */
void guest_shared_remove(uint64_t address);
/* Whether the worker sees this memory. */
bool guest_is_shared(const void *p, size_t size);

#endif
