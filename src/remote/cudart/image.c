/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs register before main(): fat binaries, and their kernels and variables by the
 * addresses that stand for them on the host. Nothing is loaded before its first use. A fat binary
 * is sent to the driver once, for all devices. Equal ones without variables are sent once together;
 * those with variables are not, since each has its own values.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "remote/cudart/cudart.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC  0xba55ed50u
#define MAX_IMAGE     (4ull << 30)
#define N_BUCKETS     16384u

struct wrapper {
	uint32_t magic, version;
	const void *data, *more;
};

struct fatbin {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;
};

/* A library of the driver. */
struct code {
	uint64_t hash;
	size_t size;
	unsigned users;
	bool is_private; /* it has variables */
	CUlibrary library;
	struct code *next;
};

/* One registration: what programs have as a handle. */
struct image {
	const struct wrapper *wrapper;
	struct code *code; /* NULL: not loaded */
	bool has_variables;
};

struct entry {
	const void *host;
	struct image *image;
	const char *name; /* the program's */
	bool is_variable;
	CUkernel kernel;
	CUfunction *functions; /* RT_MAX_DEVICES; NULL: never used */
	struct entry *next;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct entry *buckets[N_BUCKETS];
static struct code *all_code;

static struct entry **bucket_of(const void *host)
{
	uint64_t at = (uintptr_t)host;

	return &buckets[(at >> 4 ^ at >> 18) % N_BUCKETS];
}

static struct entry *find(const void *host, bool is_variable)
{
	struct entry *e = *bucket_of(host);

	while (e != NULL && (e->host != host || e->is_variable != is_variable)) {
		e = e->next;
	}
	return e;
}

/* A damaged header must not make us read beyond the program's memory. */
static bool is_mapped(const void *at, uint64_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at & ~(page - 1);
	unsigned char seen[1024];
	uintptr_t end = (uintptr_t)at + size;

	if (at == NULL || size == 0 || size > MAX_IMAGE || end < (uintptr_t)at) {
		return false;
	}
	for (; from < end; from += page * sizeof(seen)) {
		uintptr_t left = end - from;

		left = left < page * sizeof(seen) ? left : page * sizeof(seen);
		if (mincore((void *)from, left, seen) < 0) {
			return false;
		}
	}
	return true;
}

static uint64_t hash_of(const unsigned char *at, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325u ^ size, word;

	for (; size >= sizeof(word); at += sizeof(word), size -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	for (; size > 0; size--) {
		hash = (hash ^ *at++) * 0x100000001b3u;
	}
	return hash;
}

/* Of a text, without its NUL, page by page. 0: it does not end. */
static size_t text_size(const char *text)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 0;

	while (size < MAX_IMAGE && is_mapped(text + size, 1)) {
		size_t left = page - ((uintptr_t)(text + size) & (page - 1));
		size_t n = strnlen(text + size, left);

		size += n;
		if (n < left) {
			return size;
		}
	}
	return 0;
}

/* A fat binary, or PTX as a text. */
static int measure(const struct wrapper *w, size_t *ret_size)
{
	struct fatbin head;

	if (!is_mapped(w, sizeof(*w)) || w->magic != WRAPPER_MAGIC ||
		!is_mapped(w->data, sizeof(head))) {
		return cudaErrorInvalidKernelImage;
	}
	memcpy(&head, w->data, sizeof(head));
	size_t size = 0;
	if (head.magic != FATBIN_MAGIC) {
		unsigned char first = *(const unsigned char *)w->data;

		size = isprint(first) || isspace(first) ? text_size(w->data) : 0;
	} else if (head.header_size >= sizeof(head) && head.size <= MAX_IMAGE) {
		size = head.header_size + head.size;
	}
	if (!is_mapped(w->data, size)) {
		return cudaErrorInvalidKernelImage;
	}
	*ret_size = size;
	return 0;
}

/* Under the lock. */
static int load(struct image *i)
{
	size_t size;
	int error = i->code != NULL ? 0 : measure(i->wrapper, &size);

	if (error != 0 || i->code != NULL) {
		return error;
	}
	uint64_t hash = hash_of(i->wrapper->data, size);
	struct code *c = i->has_variables ? NULL : all_code;

	while (c != NULL && (c->is_private || c->hash != hash || c->size != size)) {
		c = c->next;
	}
	if (c == NULL) {
		c = calloc(1, sizeof(*c));
		if (c == NULL) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		*c = (struct code){.hash = hash, .size = size, .is_private = i->has_variables};
		error = (int)rt_driver.cuLibraryLoadData(
			&c->library, i->wrapper->data, NULL, NULL, 0, NULL, NULL, 0);
		if (error != 0) {
			free(c);
			return error;
		}
		c->next = all_code;
		all_code = c;
	}
	c->users++;
	i->code = c;
	return 0;
}

/* Under the lock, with the context of this device current. */
static int load_function(struct entry *e, int device)
{
	int error = load(e->image);

	if (e->functions == NULL) {
		e->functions = calloc(RT_MAX_DEVICES, sizeof(CUfunction));
	}
	if (error != 0 || e->functions == NULL) {
		return error != 0 ? error : (int)CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (e->kernel == NULL) {
		error = (int)rt_driver.cuLibraryGetKernel(
			&e->kernel, e->image->code->library, e->name);
	}
	if (error == CUDA_ERROR_NOT_FOUND) {
		return cudaErrorInvalidDeviceFunction;
	}
	if (error == 0) {
		error = (int)rt_driver.cuKernelGetFunction(&e->functions[device], e->kernel);
	}
	return error;
}

int rt_function_find(const void *host, CUfunction *ret)
{
	int error = rt_enter(), device = rt_thread.device;
	CUfunction found = NULL;

	if (error != 0) {
		return error;
	}
	pthread_rwlock_rdlock(&lock);
	struct entry *e = find(host, false);
	if (e != NULL && e->functions != NULL) {
		found = e->functions[device];
	}
	pthread_rwlock_unlock(&lock);
	if (found == NULL) {
		pthread_rwlock_wrlock(&lock);
		e = find(host, false);
		error = e != NULL ? load_function(e, device) : cudaErrorInvalidDeviceFunction;
		found = error == 0 ? e->functions[device] : NULL;
		pthread_rwlock_unlock(&lock);
	}
	if (error == 0) {
		*ret = found;
	}
	return error;
}

int rt_variable_find(const void *host, CUdeviceptr *ret_address, size_t *ret_size)
{
	int error = rt_enter();

	if (error != 0) {
		return error;
	}
	pthread_rwlock_wrlock(&lock);
	struct entry *e = find(host, true);
	error = e != NULL ? load(e->image) : cudaErrorInvalidSymbol;
	if (error == 0) {
		error = (int)rt_driver.cuLibraryGetGlobal(
			ret_address, ret_size, e->image->code->library, e->name);
	}
	pthread_rwlock_unlock(&lock);
	return error == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : error;
}

void rt_functions_forget(int device)
{
	pthread_rwlock_wrlock(&lock);
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		for (struct entry *e = buckets[i]; e != NULL; e = e->next) {
			if (e->functions != NULL) {
				e->functions[device] = NULL;
			}
		}
	}
	pthread_rwlock_unlock(&lock);
}

const void *rt_function_host(CUfunction function)
{
	const void *host = NULL;

	pthread_rwlock_rdlock(&lock);
	for (unsigned i = 0; host == NULL && i < N_BUCKETS; i++) {
		for (struct entry *e = buckets[i]; e != NULL; e = e->next) {
			for (int k = 0; e->functions != NULL && k < RT_MAX_DEVICES; k++) {
				host = e->functions[k] == function ? e->host : host;
			}
		}
	}
	pthread_rwlock_unlock(&lock);
	return host;
}

RT_API void **__cudaRegisterFatBinary(void *wrapper);
RT_API void **__cudaRegisterFatBinary(void *wrapper)
{
	struct image *i = calloc(1, sizeof(*i));

	if (i != NULL) {
		i->wrapper = wrapper;
	}
	return (void **)i;
}

RT_API void __cudaRegisterFatBinaryEnd(void **handle);
RT_API void __cudaRegisterFatBinaryEnd(void **handle)
{
}

static void add(void **handle, const void *host, const char *name, bool is_variable)
{
	struct entry *e = handle != NULL && name != NULL ? calloc(1, sizeof(*e)) : NULL;

	if (e == NULL) {
		return; /* its first use answers an error */
	}
	*e = (struct entry){.host = host,
		.image = (struct image *)handle,
		.name = name,
		.is_variable = is_variable};
	pthread_rwlock_wrlock(&lock);
	e->image->has_variables = e->image->has_variables || is_variable;
	e->next = *bucket_of(host);
	*bucket_of(host) = e;
	pthread_rwlock_unlock(&lock);
}

RT_API void __cudaRegisterFunction(void **handle, const char *host, char *device_name,
	const char *name, int limit, void *tid, void *bid, void *block, void *grid, int *warp);
RT_API void __cudaRegisterFunction(void **handle, const char *host, char *device_name,
	const char *name, int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
	add(handle, host, name, false);
}

RT_API void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int ext,
	size_t size, int constant, int global);
RT_API void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int ext,
	size_t size, int constant, int global)
{
	add(handle, host, name, true);
}

/* Managed variables are refused: their first use finds no symbol. */
RT_API void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name,
	int ext, size_t size, int constant, int global);
RT_API void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name,
	int ext, size_t size, int constant, int global)
{
}

RT_API char __cudaInitModule(void **handle);
RT_API char __cudaInitModule(void **handle)
{
	int error = handle != NULL ? rt_enter() : cudaErrorInvalidKernelImage;

	if (error == 0) {
		pthread_rwlock_wrlock(&lock);
		error = load((struct image *)handle);
		pthread_rwlock_unlock(&lock);
	}
	return rt_done(error) == 0;
}

/* Equal code without variables stays for the next registration. */
static void leave(struct code *left)
{
	if (left == NULL || --left->users > 0 || !left->is_private) {
		return;
	}
	for (struct code **p = &all_code; *p != NULL; p = &(*p)->next) {
		if (*p == left) {
			*p = left->next;
			break;
		}
	}
	(void)rt_driver.cuLibraryUnload(left->library);
	free(left);
}

RT_API void __cudaUnregisterFatBinary(void **handle);
RT_API void __cudaUnregisterFatBinary(void **handle)
{
	struct image *gone = (struct image *)handle;

	if (gone == NULL) {
		return;
	}
	pthread_rwlock_wrlock(&lock);
	for (unsigned i = 0; i < N_BUCKETS; i++) {
		for (struct entry **p = &buckets[i]; *p != NULL;) {
			struct entry *e = *p;

			if (e->image != gone) {
				p = &e->next;
				continue;
			}
			*p = e->next;
			free(e->functions);
			free(e);
		}
	}
	leave(gone->code);
	pthread_rwlock_unlock(&lock);
	free(gone);
}
