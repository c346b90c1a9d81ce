/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of fuzz_front share: the input, the objects the program has, and how arguments are
 * made of the former and the latter. */
#ifndef RBT_TESTS_FUZZ_FRONT_H
#define RBT_TESTS_FUZZ_FRONT_H

#include <string.h>

#include "softgpu/cuda/front.h"

#define N_SLOTS 8 /* of each kind of object */
#define BUFFER  4096

struct fuzz_input {
	const uint8_t *data;
	size_t size;
};
extern struct fuzz_input in;

/* What the program has: some of it is dead. */
struct fuzz_objects {
	void *contexts[N_SLOTS], *streams[N_SLOTS], *events[N_SLOTS], *modules[N_SLOTS];
	void *functions[N_SLOTS], *libraries[N_SLOTS], *kernels[N_SLOTS], *graphs[N_SLOTS];
	void *nodes[N_SLOTS], *execs[N_SLOTS];
	/* Not handles. */
	CUdeviceptr addresses[N_SLOTS];
	void *hosts[N_SLOTS];
};
extern struct fuzz_objects have;
extern uint8_t *buffer; /* ordinary memory; what lies behind it must not be touched */
extern unsigned n_objects;

static inline uint8_t byte(void)
{
	if (in.size == 0) {
		return 0;
	}
	in.size--;
	return *in.data++;
}

static inline uint64_t number(void)
{
	uint64_t v = 0;

	switch (byte() % 8) {
	case 0:
		return 0;
	case 1:
		return byte();
	case 2:
		return (uint64_t)byte() << 4;
	case 3:
		return BUFFER;
	case 4:
		return UINT64_MAX - byte();
	case 5:
		return 1ull << byte() % 64;
	default:
		for (int i = 0; i < 8; i++) {
			v = v << 8 | byte();
		}
		return v;
	}
}

/* Small numbers are the likely ones of flags, enums and dimensions. */
static inline unsigned small(void)
{
	uint8_t b = byte();

	return b < 200 ? b % 20 : b < 240 ? b : (unsigned)number();
}

/* A handle of a kind; or none, a special one, or one of another kind. */
static inline void *handle(void **kind)
{
	void **all = (void **)&have;
	uint8_t b = byte();

	if (b < 200) {
		return kind[b % N_SLOTS];
	}
	if (b < 220) {
		return NULL;
	}
	return b < 240 ? (void *)(uintptr_t)(b % 3)
		       : all[b % (offsetof(struct fuzz_objects, addresses) / sizeof(void *))];
}

static inline CUstream stream(void)
{
	return handle(have.streams);
}

/* NULL, 1 and 2 mean something only where a stream is asked for. */
#define HANDLE(type, kind) ((type)real(handle(have.kind)))

static inline void *real(void *h)
{
	return (uintptr_t)h < 8 ? NULL : h;
}

static inline CUdeviceptr address(void)
{
	uint8_t b = byte();

	if (b < 160) {
		return have.addresses[b % N_SLOTS];
	}
	if (b < 200) {
		return have.addresses[b % N_SLOTS] + number();
	}
	return b < 230 ? (CUdeviceptr)(uintptr_t)have.hosts[b % N_SLOTS] : number();
}

/* Addresses that are the host's are good for the size that is named with them: as for the real
 * driver, what a pointer to ordinary memory points to is the program's word. */
static inline void *host(size_t *size)
{
	uint8_t b = byte();

	*size = b & 1 ? byte() : number();
	if (b < 40) {
		return NULL;
	}
	/* Pinned memory goes with its context: what is not known any more is not there. */
	if (b < 90 && front_table_find(&front.host, (uintptr_t)have.hosts[b % N_SLOTS]) != NULL) {
		return have.hosts[b % N_SLOTS];
	}
	*size %= BUFFER + 1;
	return buffer;
}

/* An output: NULL or good. */
static inline void *out(void *good)
{
	return byte() < 30 ? NULL : good;
}

/* What a context does not take with it. Handles that have ended, or are of another kind, too, are
 * refused. */
static inline void discard(void *object)
{
	(void)cuGraphDestroy(object);
	(void)cuGraphExecDestroy(object);
	(void)cuLibraryUnload(object);
	(void)cuStreamDestroy_v2(object);
	(void)cuEventDestroy_v2(object);
	(void)cuModuleUnload(object);
}

static inline void keep(void **kind, CUresult r, void *object)
{
	if (r == CUDA_SUCCESS && object != NULL) {
		/* The first is what prepare() made. */
		void **slot = &kind[1 + n_objects++ % (N_SLOTS - 1)];

		if (kind != have.hosts) {
			discard(*slot);
		}
		if (kind == have.contexts) {
			(void)cuCtxDestroy_v2(*slot);
		}
		*slot = object;
	}
}

void fuzz_context(unsigned n);
void fuzz_memory(unsigned n);
void fuzz_rows(unsigned n);
void fuzz_module(unsigned n);
void fuzz_launch(unsigned n);
void fuzz_stream(unsigned n);
void fuzz_graph(unsigned n);
void fuzz_name(void);

#endif
