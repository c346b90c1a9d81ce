/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of a guest while its worker does it: arguments are taken from the worker's copy of the
 * call, in the order of the table (cuda/calls.txt); outputs get room that the driver writes to.
 * Nothing that the guest sent is used before it was checked. served_is_good() comes after the last
 * argument and before the driver's function: false means that s->refusal is the answer.
 *
 * Handlers run in the thread that serves the guest's thread.
 */
#ifndef RBT_REMOTE_WORKER_SERVED_H
#define RBT_REMOTE_WORKER_SERVED_H

#include "cuda/abi.h"
#include "cuda/remote.h"
#include "wire/bytes.h"
#include "wire/handle.h"
#include "wire/layout.h"

struct worker;

/* The host's driver. NULL: it lacks the function. */
struct worker_driver {
#define DRIVER_MEMBER(symbol, per_thread, number, params, waits)                                   \
	CUresult(*symbol) params;                                                                  \
	CUresult(*symbol##_per_thread) params;
	RBT_REMOTE_CALLS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

#define SERVED_MANY     SIZE_MAX /* elements: served_check_count() follows */
#define SERVED_MAX_OUTS 12
#define SERVED_SCRATCH  (RBT_WIRE_MAX_CALL * 2)

enum served_out_kind { SERVED_BYTES, SERVED_ALWAYS, SERVED_HANDLES, SERVED_TEXT, SERVED_TEXT_ROOM };

struct served_out {
	enum served_out_kind kind;
	enum rbt_handle_kind handle;
	void *at; /* NULL: the guest wants none */
	size_t size;
};

struct served {
	struct worker *worker;
	const struct worker_driver *driver;
	struct rbt_wire_reader reader;
	bool per_thread;
	bool malformed;   /* ends the worker */
	CUresult refusal; /* without the driver */
	uint8_t *scratch; /* SERVED_SCRATCH bytes */
	size_t scratch_used;
	unsigned n_outs, n_counts;
	void *heap[2]; /* of served_data() */
	struct served_out outs[SERVED_MAX_OUTS];
	struct {
		const void *at;
		size_t bytes;
	} counts[SERVED_MAX_OUTS];
};

#define SERVED_FN(s, symbol)                                                                       \
	((s)->per_thread ? (s)->driver->symbol##_per_thread : (s)->driver->symbol)

uint64_t served_get(struct served *s);
/* The driver's object; NULL for 0, and for an unknown handle, which refuses the call. */
void *served_find(struct served *s, enum rbt_handle_kind kind, uint64_t handle);
const void *served_in(struct served *s, size_t size, size_t n);
const void *served_block(struct served *s, size_t *ret_size); /* of any size */
void *served_handles(struct served *s, enum rbt_handle_kind kind, size_t n);
const char *served_text(struct served *s);
void *served_both(struct served *s, size_t size);
void *served_out(struct served *s, size_t size, size_t n);
void *served_handles_out(struct served *s, enum rbt_handle_kind kind, size_t n);
const char **served_text_out(struct served *s);
char *served_text_room(struct served *s);
/* Room for an output of the handler's own, always sent. NULL: there is too little. */
void *served_room(struct served *s, size_t size);

/* The array at `at` was sent with as many bytes as n elements have. */
void served_check_count(struct served *s, const void *at, size_t size, size_t n);
bool served_is_good(struct served *s, bool has_function);

/* The handle's object is gone. */
void served_forget(struct served *s, uint64_t handle);

/* The guest's limit of device memory. served_charge() says whether it allows so much more;
 * served_charged() follows, with the result of the driver's function. */
bool served_charge(struct served *s, uint64_t size);
CUresult served_charged(struct served *s, CUresult r, const CUdeviceptr *address, uint64_t size);
void served_freed(struct served *s, CUdeviceptr address);

/* Whether the range is memory that guest and worker share. */
bool served_is_shared(const struct served *s, uint64_t address, uint64_t size);

/* The guest's handle of an object, as a number and as the pointer that the guest sees. */
uint64_t served_handle_of(struct served *s, enum rbt_handle_kind kind, void *object);
void *served_pointer_of(struct served *s, enum rbt_handle_kind kind, void *object);

/* Writes the outputs. */
void served_answer(struct served *s, struct rbt_wire_writer *w);

/*
 * Data of any size: inside the call, or in shared memory, from where it is copied. It ends with
 * 16 zeros behind its last byte, and lives until the call is done. NULL: the guest passes none.
 */
void *served_data(struct served *s, size_t *ret_size);
/* Frees what served_data() has returned. */
void served_finish(struct served *s);

/* Every call that travels, by its number: generated, or written by hand. */
typedef CUresult served_fn(struct served *s);
#define SERVED_PROTOTYPE(symbol, per_thread, number, params, waits) served_fn serve_##symbol;
RBT_REMOTE_CALLS(SERVED_PROTOTYPE)
#undef SERVED_PROTOTYPE
struct served_call {
	served_fn *fn; /* NULL: no such call */
	bool waits;
};
extern const struct served_call served_calls[RBT_REMOTE_NUMBERS];

#endif
