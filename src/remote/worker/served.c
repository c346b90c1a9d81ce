/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/worker/served.h"

#include <stdlib.h>
#include <string.h>

#include "remote/worker/worker.h"

/* Outputs begin with this, which shows whether the driver has written them. */
#define UNTOUCHED 0xa5

static void malformed(struct served *s)
{
	s->malformed = true;
	s->refusal = CUDA_ERROR_INVALID_VALUE;
}

uint64_t served_get(struct served *s)
{
	return rbt_wire_get(&s->reader);
}

/* Zeroed memory until the end of the call, aligned to 16. */
static void *scratch(struct served *s, size_t size)
{
	size_t whole = size > SERVED_SCRATCH ? SIZE_MAX : (size + 31) & ~(size_t)15;

	if (whole > SERVED_SCRATCH - s->scratch_used) {
		malformed(s);
		return NULL;
	}
	void *at = s->scratch + s->scratch_used;

	s->scratch_used += whole;
	return memset(at, 0, whole);
}

void *served_find(struct served *s, enum rbt_handle_kind kind, uint64_t handle)
{
	if (handle == 0 || (kind == RBT_HANDLE_STREAM && handle <= 2)) {
		return (void *)(uintptr_t)handle;
	}
	void *object = worker_find(s->worker, kind, handle);

	if (object == NULL && kind == RBT_HANDLE_FUNCTION) {
		/* Launches also take kernels, under the same type. */
		object = worker_find(s->worker, RBT_HANDLE_KERNEL, handle);
	}
	if (object == NULL && s->refusal == CUDA_SUCCESS) {
		s->refusal = kind == RBT_HANDLE_CONTEXT ? CUDA_ERROR_INVALID_CONTEXT
							: CUDA_ERROR_INVALID_HANDLE;
	}
	return object;
}

static void note_count(struct served *s, const void *at, size_t bytes)
{
	if (s->n_counts == SERVED_MAX_OUTS) {
		malformed(s);
		return;
	}
	s->counts[s->n_counts].at = at;
	s->counts[s->n_counts++].bytes = bytes;
}

/* The number of bytes that was sent for `n` elements is right, or will be checked. */
static void check_size(struct served *s, const void *at, size_t bytes, size_t size, size_t n)
{
	if (n == SERVED_MANY) {
		note_count(s, at, bytes);
	} else if (bytes != size * n) {
		malformed(s);
	}
}

const void *served_block(struct served *s, size_t *ret_size)
{
	return rbt_wire_get_block(&s->reader, ret_size);
}

const void *served_in(struct served *s, size_t size, size_t n)
{
	size_t bytes;
	const void *at = rbt_wire_get_block(&s->reader, &bytes);

	if (at != NULL) {
		check_size(s, at, bytes, size, n);
	}
	return at;
}

void *served_handles(struct served *s, enum rbt_handle_kind kind, size_t n)
{
	size_t bytes;
	const uint64_t *handles = rbt_wire_get_block(&s->reader, &bytes);
	void **objects = handles != NULL ? scratch(s, bytes) : NULL;

	if (objects == NULL) {
		return NULL;
	}
	for (size_t i = 0; i < bytes / sizeof(*handles); i++) {
		objects[i] = served_find(s, kind, handles[i]);
	}
	check_size(s, objects, bytes, sizeof(*handles), n);
	return objects;
}

const char *served_text(struct served *s)
{
	size_t bytes;
	const char *text = rbt_wire_get_block(&s->reader, &bytes);

	if (text != NULL && (bytes == 0 || text[bytes - 1] != '\0')) {
		malformed(s);
		return NULL;
	}
	return text;
}

void *served_data(struct served *s, size_t *ret_size)
{
	enum { PADDING = 16 };
	size_t i = s->heap[0] == NULL ? 0 : 1, bytes = 0;
	uint64_t address = served_get(s), size = served_get(s);
	const void *from = served_block(s, &bytes);

	if (address != 0 && !served_is_shared(s, address, size)) {
		malformed(s);
		return NULL;
	}
	if (address != 0) {
		from = (const void *)(uintptr_t)address;
		bytes = size;
	}
	if (from == NULL || s->heap[i] != NULL || s->refusal != CUDA_SUCCESS) {
		return NULL;
	}
	s->heap[i] = malloc(bytes + PADDING);
	if (s->heap[i] == NULL) {
		s->refusal = CUDA_ERROR_OUT_OF_MEMORY;
		return NULL;
	}
	memcpy(s->heap[i], from, bytes);
	memset((uint8_t *)s->heap[i] + bytes, 0, PADDING);
	*ret_size = bytes;
	return s->heap[i];
}

void served_finish(struct served *s)
{
	free(s->heap[0]);
	free(s->heap[1]);
}

static struct served_out *add_out(struct served *s, enum served_out_kind kind)
{
	static struct served_out none;

	if (s->n_outs == SERVED_MAX_OUTS) {
		malformed(s);
		return &none;
	}
	s->outs[s->n_outs] = (struct served_out){.kind = kind};
	return &s->outs[s->n_outs++];
}

void *served_room(struct served *s, size_t size)
{
	void *at = scratch(s, size);
	struct served_out *out = add_out(s, SERVED_ALWAYS);

	out->at = at;
	out->size = size;
	return at;
}

/* The guest says how many bytes it has room for; RBT_WIRE_NULL: it passes a null pointer. */
static void *make_out(struct served *s, struct served_out *out, size_t size, size_t n)
{
	uint64_t bytes = served_get(s);

	if (s->reader.bad || bytes == RBT_WIRE_NULL) {
		return NULL;
	}
	out->at = scratch(s, bytes > SERVED_SCRATCH ? SIZE_MAX : bytes);
	out->size = out->at != NULL ? bytes : 0;
	if (out->at != NULL) {
		check_size(s, out->at, bytes, size, n);
	}
	return out->at;
}

void *served_out(struct served *s, size_t size, size_t n)
{
	struct served_out *out = add_out(s, n == 1 ? SERVED_BYTES : SERVED_ALWAYS);
	void *at = make_out(s, out, size, n);

	if (at != NULL && n == 1) {
		memset(at, UNTOUCHED, out->size);
	}
	return at;
}

void *served_handles_out(struct served *s, enum rbt_handle_kind kind, size_t n)
{
	struct served_out *out = add_out(s, SERVED_HANDLES);
	void *at = make_out(s, out, sizeof(void *), n);

	out->handle = kind;
	if (at != NULL) {
		memset(at, UNTOUCHED, out->size);
	}
	return at;
}

char *served_text_room(struct served *s)
{
	return make_out(s, add_out(s, SERVED_TEXT_ROOM), 1, SERVED_MANY);
}

const char **served_text_out(struct served *s)
{
	struct served_out *out = add_out(s, SERVED_TEXT);
	bool wanted = served_get(s) != RBT_WIRE_NULL;

	out->at = wanted ? scratch(s, sizeof(char *)) : NULL;
	return out->at;
}

void *served_both(struct served *s, size_t size)
{
	size_t bytes;
	const void *from = rbt_wire_get_block(&s->reader, &bytes);
	struct served_out *out = add_out(s, SERVED_ALWAYS);

	if (from == NULL) {
		return NULL;
	}
	check_size(s, from, bytes, size, 1);
	out->at = scratch(s, size);
	out->size = size;
	if (out->at != NULL && bytes == size) {
		memcpy(out->at, from, size);
	}
	return out->at;
}

void served_check_count(struct served *s, const void *at, size_t size, size_t n)
{
	size_t bytes;

	for (unsigned i = 0; at != NULL && i < s->n_counts; i++) {
		if (s->counts[i].at == at &&
			(__builtin_mul_overflow(size, n, &bytes) || bytes != s->counts[i].bytes)) {
			malformed(s);
		}
	}
}

bool served_is_good(struct served *s, bool has_function)
{
	if (s->reader.bad || s->reader.at != s->reader.size) {
		malformed(s);
	}
	if (s->refusal == CUDA_SUCCESS && !has_function) {
		s->refusal = CUDA_ERROR_NOT_SUPPORTED;
	}
	return s->refusal == CUDA_SUCCESS;
}

void served_forget(struct served *s, uint64_t handle)
{
	worker_forget(s->worker, handle);
}

/* The driver knows no memory there any more. */
static bool is_there(void *data, uint64_t address)
{
	const struct served *s = data;
	int type = 0;

	return s->driver->cuPointerGetAttribute == NULL ||
	       s->driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
		       CUDA_SUCCESS;
}

bool served_charge(struct served *s, uint64_t size)
{
	struct worker_account *a = &s->worker->account;

	if (worker_account_add(a, size)) {
		return true;
	}
	worker_account_check(a, is_there, s);
	return worker_account_add(a, size);
}

CUresult served_charged(struct served *s, CUresult r, const CUdeviceptr *address, uint64_t size)
{
	worker_account_keep(
		&s->worker->account, r == CUDA_SUCCESS && address != NULL ? *address : 0, size);
	return r;
}

void served_freed(struct served *s, CUdeviceptr address)
{
	worker_account_free(&s->worker->account, address);
}

bool served_is_shared(const struct served *s, uint64_t address, uint64_t size)
{
	return worker_is_shared(s->worker, address, size);
}

uint64_t served_handle_of(struct served *s, enum rbt_handle_kind kind, void *object)
{
	return object == NULL ? 0 : worker_handle(s->worker, kind, object);
}

void *served_pointer_of(struct served *s, enum rbt_handle_kind kind, void *object)
{
	return (void *)(uintptr_t)served_handle_of(s, kind, object);
}

static bool is_untouched(const uint8_t *p, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (p[i] != UNTOUCHED) {
			return false;
		}
	}
	return size > 0;
}

static void put_handles(struct served *s, struct rbt_wire_writer *w, const struct served_out *out)
{
	void *const *objects = out->at;
	uint64_t *handles = rbt_wire_put_room(w, out->size);

	for (size_t i = 0; handles != NULL && i < out->size / sizeof(*handles); i++) {
		handles[i] = is_untouched((const uint8_t *)&objects[i], sizeof(objects[i]))
				     ? RBT_WIRE_NULL
				     : served_handle_of(s, out->handle, objects[i]);
	}
}

void served_answer(struct served *s, struct rbt_wire_writer *w)
{
	for (unsigned i = 0; i < s->n_outs; i++) {
		const struct served_out *out = &s->outs[i];
		const char *text;

		if (out->at == NULL || s->refusal != CUDA_SUCCESS) {
			rbt_wire_put_block(w, NULL, 0);
			continue;
		}
		switch (out->kind) {
		case SERVED_HANDLES:
			put_handles(s, w, out);
			break;
		case SERVED_TEXT:
			text = *(const char **)out->at;
			rbt_wire_put_block(w, text, text != NULL ? strlen(text) + 1 : 0);
			break;
		case SERVED_TEXT_ROOM:
			/* With its NUL; the driver may have filled all of the room. */
			rbt_wire_put_block(w, out->at,
				out->size == 0 ? 0 : strnlen(out->at, out->size - 1) + 1);
			break;
		case SERVED_BYTES:
			rbt_wire_put_block(
				w, is_untouched(out->at, out->size) ? NULL : out->at, out->size);
			break;
		case SERVED_ALWAYS:
			rbt_wire_put_block(w, out->at, out->size);
			break;
		}
	}
}
