/* SPDX-License-Identifier: Apache-2.0 */
/* One call: its arguments, its journey, its outputs. */
#include <stdio.h>
#include <string.h>

#include "remote/guest/guest.h"

/* Calls that need no cuInit() before them. */
static bool is_early(enum rbt_call_number number)
{
	return number == RBT_CALL_cuInit || number == RBT_CALL_cuDriverGetVersion;
}

CUresult guest_begin(struct guest_call *c, enum rbt_call_number number, unsigned how)
{
	CUresult r = CUDA_SUCCESS;

	*c = (struct guest_call){.number = (uint16_t)number, .how = how};
	if (atomic_load_explicit(&guest.forked, memory_order_relaxed)) {
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	if (!atomic_load_explicit(&guest.initialized, memory_order_acquire)) {
		r = is_early(number) ? guest_open() : CUDA_ERROR_NOT_INITIALIZED;
	}
	if (r == CUDA_SUCCESS && atomic_load_explicit(&guest.lost, memory_order_relaxed)) {
		r = CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	if (r == CUDA_SUCCESS) {
		r = guest_thread_get(&c->thread);
	}
	if (r == CUDA_SUCCESS) {
		c->writer = (struct rbt_wire_writer){.buffer = (uint8_t *)(c->thread->call + 1),
			.room = RBT_WIRE_MAX_CALL - sizeof(*c->thread->call)};
		c->doubt = !c->thread->has_context;
	}
	return r;
}

void guest_put(struct guest_call *c, uint64_t number)
{
	rbt_wire_put(&c->writer, number);
}

void guest_put_flags(struct guest_call *c, uint64_t flags)
{
	c->doubt = c->doubt || flags != 0;
	rbt_wire_put(&c->writer, flags);
}

static void put_handle(struct guest_call *c, enum rbt_handle_kind kind, uint64_t handle)
{
	bool is_default = kind == RBT_HANDLE_STREAM && handle <= 2;
	bool is_known = is_default || (c->how & GUEST_QUEUED) == 0 || guest_knows_handle(handle);

	/* An event of another context than the stream's is the driver's to judge. */
	c->doubt = c->doubt || !is_known || (kind == RBT_HANDLE_EVENT && guest_has_contexts());
	rbt_wire_put(&c->writer, handle);
}

void guest_put_handle(struct guest_call *c, enum rbt_handle_kind kind, const void *handle)
{
	if (c->writer.size == 0) {
		c->first = (uintptr_t)handle;
	}
	put_handle(c, kind, (uintptr_t)handle);
}

void guest_put_gone(struct guest_call *c, const void *handle)
{
	c->gone = (uintptr_t)handle;
}

void guest_put_freed(struct guest_call *c, CUdeviceptr address)
{
	c->freed = address;
	c->doubt = c->doubt || !guest_knows_base(address);
}

void guest_put_range(struct guest_call *c, CUdeviceptr address, size_t size, size_t n)
{
	size_t bytes;

	c->doubt = c->doubt || __builtin_mul_overflow(size, n, &bytes) || address % size != 0 ||
		   !guest_knows_range(address, bytes);
}

/* More than a call can carry makes it bad. */
static size_t times(struct guest_call *c, size_t size, size_t n)
{
	size_t bytes;

	if (__builtin_mul_overflow(size, n, &bytes) || bytes > RBT_WIRE_MAX_CALL) {
		c->writer.bad = true;
		return 0;
	}
	return bytes;
}

void guest_put_in(struct guest_call *c, const void *at, size_t size, size_t n)
{
	rbt_wire_put_block(&c->writer, at, at != NULL ? times(c, size, n) : 0);
}

void guest_put_handles(
	struct guest_call *c, enum rbt_handle_kind kind, const void *handles, size_t n)
{
	/* They are numbers of 8 bytes on this side, too. */
	guest_put_in(c, handles, sizeof(uint64_t), n);
	(void)kind;
}

void guest_put_text(struct guest_call *c, const char *text)
{
	guest_put_in(c, text, 1, text != NULL ? strlen(text) + 1 : 0);
}

static void add_out(struct guest_call *c, enum guest_out_kind kind, void *at, size_t size)
{
	if (c->n_outs == GUEST_MAX_OUTS) {
		c->writer.bad = true;
		return;
	}
	c->outs[c->n_outs++] = (struct guest_out){kind, at, size};
}

void guest_put_both(struct guest_call *c, void *at, size_t size)
{
	guest_put_in(c, at, size, 1);
	add_out(c, GUEST_OUT_BYTES, at, size);
}

static void put_out(struct guest_call *c, enum guest_out_kind kind, void *at, size_t size, size_t n)
{
	size_t bytes = at != NULL ? times(c, size, n) : 0;

	rbt_wire_put(&c->writer, at != NULL ? bytes : RBT_WIRE_NULL);
	add_out(c, kind, at, bytes);
}

void guest_put_out(struct guest_call *c, void *at, size_t size, size_t n)
{
	put_out(c, GUEST_OUT_BYTES, at, size, n);
}

void guest_put_address_out(struct guest_call *c, CUdeviceptr *at, size_t size)
{
	c->address = at;
	c->size = size;
	put_out(c, GUEST_OUT_BYTES, at, sizeof(*at), 1);
}

void guest_put_handles_out(struct guest_call *c, void *at, size_t n)
{
	put_out(c, GUEST_OUT_HANDLES, at, sizeof(uint64_t), n);
}

void guest_put_text_out(struct guest_call *c, const char **at)
{
	put_out(c, GUEST_OUT_TEXT, at, 1, 1);
}

void guest_put_text_room(struct guest_call *c, char *at, size_t size)
{
	put_out(c, GUEST_OUT_BYTES, at, 1, size);
}

static void store_handles(const struct guest_out *out, const uint64_t *from, size_t size)
{
	uint64_t *to = out->at;

	for (size_t i = 0; i < size / sizeof(*from); i++) {
		if (from[i] != RBT_WIRE_NULL) {
			to[i] = from[i];
			guest_learn_handle(from[i]);
		}
	}
}

static void store(const struct guest_out *out, const void *from, size_t size)
{
	const char *text = from;

	if (out->kind == GUEST_OUT_TEXT) {
		if (size > 0 && text[size - 1] == '\0') {
			*(const char **)out->at = guest_intern(text);
		}
	} else if (size > out->size) {
		return;
	} else if (out->kind == GUEST_OUT_HANDLES) {
		store_handles(out, from, size);
	} else {
		memcpy(out->at, from, size);
	}
}

/* The program's own output is the place for what its kernels print. */
static void print(const struct rbt_wire_answer *answer)
{
	size_t padded = ((size_t)answer->printed + 7) & ~(size_t)7;

	if (answer->printed != 0 && padded <= answer->size - sizeof(*answer)) {
		(void)fwrite(
			(const char *)answer + answer->size - padded, 1, answer->printed, stdout);
		fflush(stdout);
	}
}

static CUresult read_answer(struct guest_call *c, const struct rbt_wire_answer *answer)
{
	c->reader = (struct rbt_wire_reader){
		.buffer = (const uint8_t *)(answer + 1), .size = answer->size - sizeof(*answer)};
	for (unsigned i = 0; i < c->n_outs; i++) {
		size_t size;
		const void *from = rbt_wire_get_block(&c->reader, &size);

		if (from != NULL && c->outs[i].at != NULL) {
			store(&c->outs[i], from, size);
		}
	}
	return (CUresult)answer->result;
}

const void *guest_take(struct guest_call *c, size_t *ret_size)
{
	return rbt_wire_get_block(&c->reader, ret_size);
}

/* What the guest knows after a call that has succeeded, or is queued. */
static void learn(struct guest_call *c)
{
	switch ((enum rbt_call_number)c->number) {
	case RBT_CALL_cuInit:
		atomic_store_explicit(&guest.initialized, true, memory_order_release);
		break;
	case RBT_CALL_cuMemAlloc_v2:
	case RBT_CALL_cuCtxSynchronize:
	case RBT_CALL_cuCtxCreate_v2:
	case RBT_CALL_cuCtxCreate_v3:
	case RBT_CALL_cuCtxCreate_v4:
	case RBT_CALL_cuCtxPushCurrent_v2:
		c->thread->has_context = true;
		break;
	case RBT_CALL_cuCtxSetCurrent:
		c->thread->has_context = c->first != 0;
		break;
	case RBT_CALL_cuCtxPopCurrent_v2:
		c->thread->has_context = false; /* maybe; a call that waits tells */
		break;
	case RBT_CALL_cuCtxDestroy_v2:
	case RBT_CALL_cuDevicePrimaryCtxRelease:
	case RBT_CALL_cuDevicePrimaryCtxRelease_v2:
	case RBT_CALL_cuDevicePrimaryCtxReset:
	case RBT_CALL_cuDevicePrimaryCtxReset_v2:
		c->thread->has_context = false;
		guest_forget_all();
		break;
	case RBT_CALL_cuModuleUnload:
	case RBT_CALL_cuLibraryUnload:
		guest_forget_all();
		break;
	case RBT_CALL_cuFuncSetAttribute:
	case RBT_CALL_cuFuncSetCacheConfig:
	case RBT_CALL_cuKernelSetAttribute:
	case RBT_CALL_cuKernelSetCacheConfig:
	case RBT_CALL_cuFuncLoad:
		guest_cache_clear();
		break;
	case RBT_CALL_cuStreamBeginCapture:
	case RBT_CALL_cuStreamBeginCapture_v2:
	case RBT_CALL_cuStreamBeginCaptureToGraph:
		atomic_fetch_add(&guest.captures, 1);
		break;
	default:
		break;
	}
	if (c->gone != 0) {
		guest_forget_handle(c->gone);
	}
	if (c->freed != 0) {
		guest_forget_range(c->freed);
	}
	if (c->address != NULL) {
		guest_learn_range(*c->address, c->size);
	}
}

/* A capture ends with this call, whatever its result. */
static void end_capture(void)
{
	unsigned n = atomic_load(&guest.captures);

	while (n > 0 && !atomic_compare_exchange_weak(&guest.captures, &n, n - 1)) {
	}
}

static bool may_queue(const struct guest_call *c)
{
	return (c->how & GUEST_QUEUED) != 0 && !c->doubt && !guest.always_waits &&
	       atomic_load_explicit(&guest.captures, memory_order_relaxed) == 0;
}

static CUresult ask(struct guest_call *c, struct rbt_wire_call *call)
{
	struct rbt_wire_answer *answer = c->thread->answer;
	bool cached = (c->how & GUEST_CACHED) != 0;

	if (cached && guest_cache_find(call, answer)) {
		return read_answer(c, answer);
	}
	CUresult r = guest_ask(c->thread, call);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	print(answer);
	r = read_answer(c, answer);
	if (cached && r == CUDA_SUCCESS) {
		guest_cache_add(call, answer);
	}
	return r;
}

CUresult guest_end(struct guest_call *c)
{
	struct rbt_wire_call *call = c->thread->call;
	CUresult r;

	if (c->writer.bad) {
		return CUDA_ERROR_INVALID_VALUE; /* larger than a call can be */
	}
	*call = (struct rbt_wire_call){.size = (uint32_t)(sizeof(*call) + c->writer.size),
		.number = c->number,
		.flags = (uint16_t)(c->how & RBT_WIRE_PER_THREAD)};
	if (may_queue(c)) {
		call->flags |= RBT_WIRE_QUEUED;
		r = guest_send(c->thread, call);
	} else {
		r = ask(c, call);
	}
	if (c->number == RBT_CALL_cuStreamEndCapture) {
		end_capture();
	}
	if (r == CUDA_SUCCESS) {
		learn(c);
	}
	return r;
}
