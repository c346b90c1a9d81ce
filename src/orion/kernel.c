/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kernels. A launch of a known kernel calls rbt_bindings_find() and nothing else. The
 * first launch of a function with a shape asks the driver for the name, finds or creates the
 * kernel, and adds a binding.
 */
#include "orion/kernel.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "orion/binding.h"
#include "util/hist.h"

#define BUCKETS    4096u
#define HIST_SCALE 16 /* the histogram's buckets of 1 us are too wide for kernels */
#define RECENT     8  /* about as many of the last durations count */
/* Of a duration: longer than any kernel takes, and far from overflowing a sum. */
#define MAX_NS (UINT64_C(1) << 40)

struct rbt_kernel {
	struct rbt_kernel *next;      /* in its bucket; graphs: in the list of free ones */
	struct rbt_kernel *next_made; /* all kernels */
	char *name;
	bool has_shape, is_others;
	struct rbt_shape shape;

	/* 0: not known */
	_Atomic uint32_t sms, device_sms;
	_Atomic uint64_t recent_ns;
	_Atomic bool is_rough; /* recent_ns is */
	/* From the profile. */
	_Atomic uint32_t told_kind, told_sms;
	_Atomic bool is_told_shape;
	_Atomic uint64_t told_ns;

	pthread_mutex_t lock; /* protects the measurements */
	uint64_t runs, total_ns, max_ns;
	struct rbt_hist *hist; /* of the durations, times HIST_SCALE; NULL: none yet */
};

struct rbt_kernels {
	struct rbt_kernel_driver driver;
	struct rbt_bindings bindings;
	struct rbt_kernel *others; /* the kernel of every launch that does not fit */

	pthread_mutex_t lock; /* protects the following members, and changes of the bindings */
	struct rbt_profile *profile;
	struct rbt_kernel *bucket[BUCKETS];
	struct rbt_kernel *made, *free_graphs;
	unsigned n, n_graphs;
};

#define GET(p)          atomic_load_explicit(p, memory_order_relaxed)
#define SET(p, value)   atomic_store_explicit(p, value, memory_order_relaxed)
#define IS_PSEUDO(name) ((name)[0] == '(') /* no name of a function begins so */

static void destroy_kernel(struct rbt_kernel *k)
{
	if (k != NULL) {
		pthread_mutex_destroy(&k->lock);
		free(k->hist);
		free(k->name);
		free(k);
	}
}

/* Names go into profiles, which take no control characters. */
static char *copy_name(const char *name)
{
	char *copy = strndup(name, RBT_PROFILE_MAX_NAME);

	for (char *s = copy; s != NULL && *s != '\0'; s++) {
		if ((unsigned char)*s < ' ' || *s == 0x7f) {
			*s = '?';
		}
	}
	return copy;
}

static struct rbt_kernel *create_kernel(const char *name, const struct rbt_shape *shape)
{
	struct rbt_kernel *k = calloc(1, sizeof(*k));

	if (k == NULL) {
		return NULL;
	}
	pthread_mutex_init(&k->lock, NULL);
	k->name = copy_name(name);
	if (k->name == NULL) {
		destroy_kernel(k);
		return NULL;
	}
	if (shape != NULL) {
		k->has_shape = true;
		k->shape = *shape;
	}
	return k;
}

struct rbt_kernels *rbt_kernels_create(const struct rbt_kernel_driver *driver)
{
	struct rbt_kernels *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		return NULL;
	}
	t->driver = *driver;
	pthread_mutex_init(&t->lock, NULL);
	t->others = create_kernel("(others)", NULL);
	if (t->others == NULL || rbt_bindings_init(&t->bindings) < 0) {
		destroy_kernel(t->others);
		pthread_mutex_destroy(&t->lock);
		free(t);
		return NULL;
	}
	t->others->is_others = true;
	return t;
}

void rbt_kernels_destroy(struct rbt_kernels *t)
{
	if (t == NULL) {
		return;
	}
	for (struct rbt_kernel *k = t->made, *next; k != NULL; k = next) {
		next = k->next_made;
		destroy_kernel(k);
	}
	destroy_kernel(t->others);
	rbt_profile_destroy(t->profile);
	rbt_bindings_finish(&t->bindings);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* The driver's answers about a launched function. */
struct answer {
	const char *name;
	enum rbt_binding_type type;
	void *owner;
	uint32_t sms, device_sms;
	char unnamed[40];
};

static uint32_t ask_device_sms(const struct rbt_kernel_driver *d)
{
	CUdevice device;
	int sms;

	if (d->cuCtxGetDevice == NULL || d->cuDeviceGetAttribute == NULL ||
		d->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
		d->cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) !=
			CUDA_SUCCESS) {
		return 0;
	}
	return sms > 0 ? (uint32_t)sms : 0;
}

/* How many SMs the grid fills, at most `device_sms`; 0: not known. */
static uint32_t ask_sms(const struct rbt_kernel_driver *d, CUfunction function,
	const struct rbt_shape *s, uint32_t device_sms)
{
	uint64_t threads = (uint64_t)s->block[0] * s->block[1], blocks;
	int per_sm;

	if (d->cuOccupancyMaxActiveBlocksPerMultiprocessor == NULL || device_sms == 0 ||
		__builtin_mul_overflow(threads, s->block[2], &threads) || threads > INT32_MAX ||
		d->cuOccupancyMaxActiveBlocksPerMultiprocessor(
			&per_sm, function, (int)threads, s->shared) != CUDA_SUCCESS ||
		per_sm <= 0) {
		return 0;
	}
	if (__builtin_mul_overflow((uint64_t)s->grid[0] * s->grid[1], s->grid[2], &blocks)) {
		return device_sms;
	}
	uint64_t sms = blocks / (unsigned)per_sm + (blocks % (unsigned)per_sm != 0);
	return sms < device_sms ? (uint32_t)sms : device_sms;
}

/* A program may launch a CUkernel in place of a CUfunction. cuFuncGetName() refuses it (driver
 * 580), while the occupancy call takes it. */
static void ask_identity(const struct rbt_kernel_driver *d, CUfunction function, struct answer *ret)
{
	CUkernel kernel = (CUkernel)(void *)function;
	CUmodule module;
	CUlibrary library;

	if (d->cuFuncGetName != NULL && d->cuFuncGetName(&ret->name, function) == CUDA_SUCCESS &&
		ret->name != NULL) {
		ret->type = RBT_BINDING_FUNCTION;
	} else if (d->cuKernelGetName != NULL &&
		   d->cuKernelGetName(&ret->name, kernel) == CUDA_SUCCESS && ret->name != NULL) {
		ret->type = RBT_BINDING_KERNEL;
	} else {
		snprintf(ret->unnamed, sizeof(ret->unnamed), "(function %p)", (void *)function);
		ret->name = ret->unnamed;
		ret->type = RBT_BINDING_FUNCTION;
	}
	if (ret->type == RBT_BINDING_FUNCTION && d->cuFuncGetModule != NULL &&
		d->cuFuncGetModule(&module, function) == CUDA_SUCCESS) {
		ret->owner = module;
	} else if (ret->type == RBT_BINDING_KERNEL && d->cuKernelGetLibrary != NULL &&
		   d->cuKernelGetLibrary(&library, kernel) == CUDA_SUCCESS) {
		ret->owner = library;
	}
}

static uint32_t hash_of(const char *name, const struct rbt_shape *s)
{
	const uint32_t words[] = {s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1],
		s->block[2], s->shared};
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < RBT_PROFILE_MAX_NAME && name[i] != '\0'; i++) {
		h = (h ^ (unsigned char)name[i]) * 16777619u;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		h = (h ^ words[i]) * 16777619u;
		h ^= h >> 15;
	}
	return h;
}

static bool is_kernel(const struct rbt_kernel *k, const char *name, const struct rbt_shape *s)
{
	return memcmp(&k->shape, s, sizeof(*s)) == 0 &&
	       strncmp(k->name, name, RBT_PROFILE_MAX_NAME) == 0;
}

static void tell(struct rbt_kernel *k, const struct rbt_profile *profile)
{
	const struct rbt_profile_row *row = NULL;
	struct rbt_kernel_facts facts = {0};

	if (profile != NULL && !IS_PSEUDO(k->name)) {
		row = rbt_profile_find_row(profile, k->name, &k->shape);
	}
	if (row != NULL) {
		facts = row->facts;
	}
	SET(&k->told_kind, facts.kind);
	SET(&k->told_sms, facts.sms);
	SET(&k->told_ns, facts.duration_ns < MAX_NS ? facts.duration_ns : MAX_NS);
	SET(&k->is_told_shape, row != NULL && row->has_shape && facts.sms > 0);
}

/* The callers of the functions up to rbt_kernels_get() hold the lock. */

/* Returns `others` if the table is full, NULL without memory. */
static struct rbt_kernel *make_kernel(
	struct rbt_kernels *t, const char *name, const struct rbt_shape *shape)
{
	if (t->n == RBT_KERNELS_MAX) {
		return t->others;
	}
	struct rbt_kernel *k = create_kernel(name, shape);
	if (k != NULL) {
		k->next_made = t->made;
		t->made = k;
		t->n++;
	}
	return k;
}

static struct rbt_kernel *get_graph(struct rbt_kernels *t)
{
	struct rbt_kernel *k = t->free_graphs;
	char name[32];

	if (k != NULL) {
		t->free_graphs = k->next;
		k->next = NULL;
		return k;
	}
	snprintf(name, sizeof(name), "(graph %u)", ++t->n_graphs);
	return make_kernel(t, name, NULL);
}

static struct rbt_kernel *get_kernel(
	struct rbt_kernels *t, const char *name, const struct rbt_shape *shape)
{
	struct rbt_kernel **bucket = &t->bucket[hash_of(name, shape) % BUCKETS];
	struct rbt_kernel *k = *bucket;

	while (k != NULL && !is_kernel(k, name, shape)) {
		k = k->next;
	}
	if (k == NULL) {
		k = make_kernel(t, name, shape);
		if (k != NULL && !k->is_others) {
			k->next = *bucket;
			*bucket = k;
			tell(k, t->profile);
		}
	}
	return k;
}

static struct rbt_kernel *bind(
	struct rbt_kernels *t, void *handle, const struct rbt_shape *shape, const struct answer *a)
{
	struct rbt_kernel *k = rbt_bindings_find(&t->bindings, handle, shape);

	if (k != NULL) { /* by another thread */
		return k;
	}
	k = shape == NULL ? get_graph(t) : get_kernel(t, a->name, shape);
	if (k == NULL) {
		return NULL;
	}
	/* Without memory for the binding, the next launch asks the driver again. A graph would get
	 * a new kernel each time, so its kernel becomes free at once. */
	if (rbt_bindings_add(&t->bindings, a->type, handle, shape, a->owner, k) < 0 &&
		shape == NULL && !k->is_others) {
		k->next = t->free_graphs;
		t->free_graphs = k;
	}
	if (a->device_sms > 0 && !k->is_others) {
		SET(&k->sms, a->sms);
		SET(&k->device_sms, a->device_sms);
	}
	return k;
}

struct rbt_kernel *rbt_kernels_get(
	struct rbt_kernels *t, void *function, const struct rbt_shape *shape)
{
	struct rbt_kernel *k = rbt_bindings_find(&t->bindings, function, shape);

	if (k != NULL) {
		return k;
	}
	if (function == NULL) {
		return t->others;
	}
	/* The first look-up may have missed the binding while others were removed. */
	pthread_mutex_lock(&t->lock);
	k = rbt_bindings_find(&t->bindings, function, shape);
	pthread_mutex_unlock(&t->lock);
	if (k != NULL) {
		return k;
	}
	struct answer a = {.type = RBT_BINDING_GRAPH};
	if (shape != NULL) {
		ask_identity(&t->driver, function, &a);
		a.device_sms = ask_device_sms(&t->driver);
		a.sms = ask_sms(&t->driver, function, shape, a.device_sms);
	}
	pthread_mutex_lock(&t->lock);
	k = bind(t, function, shape, &a);
	pthread_mutex_unlock(&t->lock);
	return k;
}

void rbt_kernels_forget(struct rbt_kernels *t, void *module_or_library)
{
	pthread_mutex_lock(&t->lock);
	rbt_bindings_forget(&t->bindings, module_or_library);
	pthread_mutex_unlock(&t->lock);
}

void rbt_kernels_forget_graph(struct rbt_kernels *t, void *exec)
{
	pthread_mutex_lock(&t->lock);
	struct rbt_kernel *k = rbt_bindings_find(&t->bindings, exec, NULL);
	if (k != NULL) {
		rbt_bindings_forget_graph(&t->bindings, exec);
	}
	if (k != NULL && !k->is_others) {
		k->next = t->free_graphs;
		t->free_graphs = k;
	}
	pthread_mutex_unlock(&t->lock);
}

void rbt_kernels_use(struct rbt_kernels *t, struct rbt_profile *profile)
{
	pthread_mutex_lock(&t->lock);
	struct rbt_profile *old = t->profile;
	t->profile = profile;
	for (struct rbt_kernel *k = t->made; k != NULL; k = k->next_made) {
		tell(k, profile);
	}
	pthread_mutex_unlock(&t->lock);
	rbt_profile_destroy(old);
}

static int add_row(struct rbt_kernel *k, struct rbt_profile *profile)
{
	struct rbt_profile_row row = {
		.name = k->name, .has_shape = k->has_shape, .shape = k->shape};
	int error = 0;

	rbt_kernel_facts(k, &row.facts);
	pthread_mutex_lock(&k->lock);
	if (k->runs > 0) {
		row.runs = k->runs;
		row.total_ns = k->total_ns;
		row.max_ns = k->max_ns;
		row.facts.duration_ns = k->total_ns / k->runs;
		if (k->hist != NULL) {
			row.p50_ns = rbt_hist_quantile_ns(k->hist, 500) / HIST_SCALE;
			row.p99_ns = rbt_hist_quantile_ns(k->hist, 990) / HIST_SCALE;
		}
		error = rbt_profile_add(profile, &row);
	}
	pthread_mutex_unlock(&k->lock);
	return error;
}

int rbt_kernels_to_profile(struct rbt_kernels *t, struct rbt_profile *ret)
{
	int error = 0;

	pthread_mutex_lock(&t->lock);
	for (struct rbt_kernel *k = t->made; k != NULL && error == 0; k = k->next_made) {
		error = add_row(k, ret);
	}
	pthread_mutex_unlock(&t->lock);
	return error;
}

void rbt_kernel_facts(const struct rbt_kernel *k, struct rbt_kernel_facts *ret)
{
	*ret = (struct rbt_kernel_facts){0};
	if (k == NULL) {
		return;
	}
	uint32_t sms = GET(&k->sms), device_sms = GET(&k->device_sms);
	if (GET(&k->is_told_shape) || sms == 0) {
		sms = GET(&k->told_sms);
	}
	ret->kind = (enum rbt_kernel_kind)GET(&k->told_kind);
	ret->sms = device_sms > 0 && sms > device_sms ? device_sms : sms;
	ret->duration_ns = GET(&k->told_ns);
	if (ret->duration_ns == 0) {
		ret->duration_ns = GET(&k->recent_ns);
		ret->is_rough = GET(&k->is_rough);
	}
}

void rbt_kernel_measured(struct rbt_kernel *k, uint64_t duration_ns)
{
	uint64_t ns = duration_ns < MAX_NS ? duration_ns : MAX_NS;

	if (k == NULL || k->is_others) {
		return;
	}
	pthread_mutex_lock(&k->lock);
	if (k->hist == NULL) {
		k->hist = calloc(1, sizeof(*k->hist));
	}
	if (k->hist != NULL) {
		rbt_hist_add(k->hist, ns * HIST_SCALE);
	}
	k->runs++;
	k->total_ns += ns;
	k->max_ns = ns > k->max_ns ? ns : k->max_ns;
	int64_t recent_ns = (int64_t)GET(&k->recent_ns);
	int64_t weight = k->runs < RECENT ? (int64_t)k->runs : RECENT;
	recent_ns += ((int64_t)ns - recent_ns) / weight;
	SET(&k->recent_ns, recent_ns > 0 ? (uint64_t)recent_ns : 1);
	SET(&k->is_rough, false);
	pthread_mutex_unlock(&k->lock);
}

void rbt_kernel_measured_roughly(struct rbt_kernel *k, uint64_t duration_ns)
{
	if (k == NULL || k->is_others) {
		return;
	}
	pthread_mutex_lock(&k->lock);
	if (k->runs == 0) {
		uint64_t ns = duration_ns < MAX_NS ? duration_ns : MAX_NS;

		SET(&k->recent_ns, ns > 0 ? ns : 1);
		SET(&k->is_rough, true);
	}
	pthread_mutex_unlock(&k->lock);
}

const char *rbt_kernel_name(const struct rbt_kernel *k)
{
	return k->name;
}
