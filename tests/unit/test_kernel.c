/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels, with a driver that is made of a few structs. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "orion/binding.h"
#include "orion/kernel.h"

struct fake {
	const char *name; /* NULL: the driver does not tell */
	bool is_kernel;
	void *owner;
	int per_sm;
};

static atomic_uint n_calls;

static const struct fake *fake_of(void *handle)
{
	atomic_fetch_add(&n_calls, 1);
	return handle;
}

static CUresult get_name(const struct fake *f, bool is_kernel, const char **ret)
{
	if (f->is_kernel != is_kernel || f->name == NULL) {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	*ret = f->name;
	return CUDA_SUCCESS;
}

static CUresult func_name(const char **ret, CUfunction function)
{
	return get_name(fake_of(function), false, ret);
}

static CUresult kernel_name(const char **ret, CUkernel kernel)
{
	return get_name(fake_of(kernel), true, ret);
}

static CUresult func_module(CUmodule *ret, CUfunction function)
{
	*ret = fake_of(function)->owner;
	return CUDA_SUCCESS;
}

static CUresult kernel_library(CUlibrary *ret, CUkernel kernel)
{
	*ret = fake_of(kernel)->owner;
	return CUDA_SUCCESS;
}

static CUresult occupancy(int *ret, CUfunction function, int threads, size_t dynamic)
{
	const struct fake *f = fake_of(function);

	*ret = threads > 1024 || dynamic > 65536 ? 0 : f->per_sm;
	return CUDA_SUCCESS;
}

static CUresult device(CUdevice *ret)
{
	*ret = 3;
	return CUDA_SUCCESS;
}

static CUresult attribute(int *ret, int which, CUdevice dev)
{
	*ret = which == 16 && dev == 3 ? 132 : -1;
	return CUDA_SUCCESS;
}

static const struct rbt_kernel_driver driver = {.cuFuncGetName = func_name,
	.cuKernelGetName = kernel_name,
	.cuFuncGetModule = func_module,
	.cuKernelGetLibrary = kernel_library,
	.cuOccupancyMaxActiveBlocksPerMultiprocessor = occupancy,
	.cuCtxGetDevice = device,
	.cuDeviceGetAttribute = attribute};

static struct rbt_shape shape(uint32_t grid, uint32_t block)
{
	return (struct rbt_shape){{grid, 1, 1}, {block, 1, 1}, 0};
}

static struct rbt_kernel_facts facts(const struct rbt_kernel *k)
{
	struct rbt_kernel_facts f;

	rbt_kernel_facts(k, &f);
	return f;
}

static struct rbt_profile *profile(const char *text)
{
	struct rbt_profile *p = NULL;
	struct rbt_profile_fault fault;
	FILE *f = fmemopen((void *)text, strlen(text), "r");

	CHECK_INT(rbt_profile_read(f, &p, &fault), 0);
	fclose(f);
	return p;
}

static void test_identity(void)
{
	struct fake f = {.name = "_Z1fv", .per_sm = 2}, g = {.name = "_Z1gv", .is_kernel = true};
	struct fake copy = f, unnamed = {.per_sm = 1};
	struct rbt_shape one = shape(1, 32), two = shape(2, 32);
	struct rbt_kernels *t = rbt_kernels_create(&driver);

	struct rbt_kernel *k = rbt_kernels_get(t, &f, &one);
	CHECK(strcmp(rbt_kernel_name(k), "_Z1fv") == 0);
	unsigned calls = n_calls;
	CHECK(rbt_kernels_get(t, &f, &one) == k);
	CHECK_INT(n_calls, calls); /* a known kernel asks nothing */
	CHECK(rbt_kernels_get(t, &f, &two) != k);
	CHECK(rbt_kernels_get(t, &copy, &one) == k); /* the same name: the same kernel */
	CHECK(strcmp(rbt_kernel_name(rbt_kernels_get(t, &g, &one)), "_Z1gv") == 0);
	CHECK(strncmp(rbt_kernel_name(rbt_kernels_get(t, &unnamed, &one)), "(function 0x", 12) ==
		0);
	CHECK(rbt_kernels_get(t, NULL, &one) != NULL);
	rbt_kernels_destroy(t);
	rbt_kernels_destroy(NULL);
}

/* A driver that is too old for everything. */
static void test_old_driver(void)
{
	struct fake f = {.name = "f", .per_sm = 2};
	struct rbt_shape one = shape(1, 32);
	struct rbt_kernels *t = rbt_kernels_create(&(struct rbt_kernel_driver){0});
	struct rbt_kernel *k = rbt_kernels_get(t, &f, &one);

	CHECK(k != NULL && rbt_kernels_get(t, &f, &one) == k);
	CHECK_INT(facts(k).sms, 0);
	rbt_kernel_measured(k, 500);
	CHECK_INT(facts(k).duration_ns, 500);
	rbt_kernels_destroy(t);
}

static void test_sms(void)
{
	struct fake f = {.name = "f", .per_sm = 4};
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	struct rbt_shape s = shape(1, 32);

	CHECK_INT(facts(rbt_kernels_get(t, &f, &s)).sms, 1);
	s = shape(9, 32);
	CHECK_INT(facts(rbt_kernels_get(t, &f, &s)).sms, 3);
	s = shape(4 * 131 + 1, 1024);
	CHECK_INT(facts(rbt_kernels_get(t, &f, &s)).sms, 132);
	s = shape(1u << 31, 32);
	CHECK_INT(facts(rbt_kernels_get(t, &f, &s)).sms, 132);
	s = (struct rbt_shape){{UINT32_MAX, UINT32_MAX, UINT32_MAX}, {32, 1, 1}, 0};
	CHECK_INT(facts(rbt_kernels_get(t, &f, &s)).sms, 132);
	s = shape(1, 2048); /* does not fit: not known */
	CHECK_INT(facts(rbt_kernels_get(t, &f, &s)).sms, 0);
	s = (struct rbt_shape){{1, 1, 1}, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, 0};
	CHECK_INT(facts(rbt_kernels_get(t, &f, &s)).sms, 0);
	CHECK_INT(facts(NULL).sms, 0);
	rbt_kernels_destroy(t);
}

static void test_measuring(void)
{
	struct fake f = {.name = "f", .per_sm = 4};
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	struct rbt_shape s = shape(1, 32);
	struct rbt_kernel *k = rbt_kernels_get(t, &f, &s);

	CHECK_INT(facts(k).duration_ns, 0);
	CHECK_INT(facts(k).kind, RBT_KERNEL_UNKNOWN);
	rbt_kernel_measured_roughly(k, 9000);
	CHECK(facts(k).duration_ns == 9000 && facts(k).is_rough);
	rbt_kernel_measured(k, 0);
	CHECK(!facts(k).is_rough);
	CHECK_INT(facts(k).duration_ns, 1); /* 0 would be "not known" */
	for (int i = 0; i < 100; i++) {
		rbt_kernel_measured(k, 4000);
	}
	CHECK(facts(k).duration_ns > 3900 && facts(k).duration_ns <= 4000);
	rbt_kernel_measured_roughly(k, 90000); /* it is known better */
	CHECK(facts(k).duration_ns <= 4000 && !facts(k).is_rough);
	for (int i = 0; i < 30; i++) { /* it has become slower */
		rbt_kernel_measured(k, 8000);
	}
	CHECK(facts(k).duration_ns > 7500 && facts(k).duration_ns <= 8000);
	rbt_kernel_measured(k, UINT64_MAX);
	CHECK(facts(k).duration_ns > 8000);
	rbt_kernel_measured(NULL, 1);
	rbt_kernel_measured_roughly(NULL, 1);
	rbt_kernels_destroy(t);
}

static void test_profiles(void)
{
	struct fake f = {.name = "_Z1fv", .per_sm = 1}, g = {.name = "_Z1gIiEvT_", .per_sm = 1};
	struct rbt_shape one = shape(10, 32), two = shape(20, 32);
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	struct rbt_kernel *early = rbt_kernels_get(t, &f, &one);
	struct rbt_kernel *graph = rbt_kernels_get(t, &f, NULL);

	rbt_kernel_measured(early, 777);
	rbt_kernels_use(t, profile("Name,Profile,Memory_footprint,SM_usage,Duration,Grid_size,"
				   "Block_size,Shared\n"
				   "_Z1fv,1,0,5,0,10x1x1,32x1x1,0\n"
				   "void g,0,0,999,4000,,,\n"
				   "(graph 1),0,0,9,9,,,\n"));
	CHECK_INT(facts(early).kind, RBT_KERNEL_COMPUTE);
	CHECK_INT(facts(early).sms, 5);           /* the profile knows this shape */
	CHECK_INT(facts(early).duration_ns, 777); /* the profile does not say */
	struct rbt_kernel *late = rbt_kernels_get(t, &g, &two);
	CHECK_INT(facts(late).kind, RBT_KERNEL_MEMORY);
	CHECK_INT(facts(late).sms, 20); /* the profile is about all shapes */
	CHECK_INT(facts(late).duration_ns, 4000);
	CHECK_INT(facts(rbt_kernels_get(t, &f, &two)).kind, RBT_KERNEL_UNKNOWN);
	CHECK_INT(facts(graph).kind, RBT_KERNEL_UNKNOWN); /* its number says nothing */
	CHECK_INT(facts(graph).duration_ns, 0);
	g.per_sm = 0;
	one.grid[0]++;
	CHECK_INT(facts(rbt_kernels_get(t, &g, &one)).sms, 132); /* 999, at most the device's */
	rbt_kernels_use(t, profile("Name,Profile,Memory_footprint,SM_usage,Duration\nf,0,0,1,2\n"));
	CHECK_INT(facts(early).kind, RBT_KERNEL_MEMORY);
	CHECK_INT(facts(early).duration_ns, 2);
	CHECK_INT(facts(late).kind, RBT_KERNEL_UNKNOWN);
	rbt_kernels_use(t, profile("Name,Profile,Memory_footprint,SM_usage,Duration\n"
				   "f,0,0,1,18446744073709551615\n"));
	CHECK_INT(facts(early).duration_ns, UINT64_C(1) << 40); /* sums do not overflow */
	rbt_kernels_use(t, NULL);
	CHECK_INT(facts(early).duration_ns, 777);
	rbt_kernels_destroy(t);
}

/* A profile of what was measured tells the next run the same. */
static void test_recording(void)
{
	struct fake f = {.name = "_Z1fv", .per_sm = 2}, g = {.name = "g\n", .per_sm = 1};
	struct rbt_shape s = {{10, 2, 1}, {32, 2, 1}, 128};
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	struct rbt_kernel *k = rbt_kernels_get(t, &f, &s);
	struct rbt_profile *p = rbt_profile_create();

	for (uint64_t i = 1; i <= 1000; i++) {
		rbt_kernel_measured(k, i * 10);
	}
	rbt_kernel_measured(rbt_kernels_get(t, &g, &s), 5);
	rbt_kernel_measured(rbt_kernels_get(t, &t, NULL), 30000);
	s.shared = 0;
	rbt_kernels_get(t, &f, &s); /* never measured */
	rbt_kernels_forget(t, NULL);
	CHECK_INT(rbt_kernels_to_profile(t, p), 0);
	CHECK_INT(rbt_profile_count(p), 3);
	s.shared = 128;
	const struct rbt_profile_row *row = rbt_profile_find_row(p, "_Z1fv", &s);
	CHECK(row != NULL && row->has_shape);
	if (row != NULL) {
		CHECK_INT(row->runs, 1000);
		CHECK_INT(row->total_ns, 5005000);
		CHECK_INT(row->facts.duration_ns, 5005);
		CHECK_INT(row->facts.sms, 10);
		CHECK_INT(row->max_ns, 10000);
		CHECK(row->p50_ns > 4900 && row->p50_ns < 5100);
		CHECK(row->p99_ns > 9700 && row->p99_ns <= 10000);
	}
	CHECK(rbt_profile_find_row(p, "g?", &s) != NULL);
	CHECK(rbt_profile_find_row(p, "(graph 1)", NULL) != NULL);
	rbt_kernels_destroy(t);

	t = rbt_kernels_create(&(struct rbt_kernel_driver){.cuFuncGetName = func_name});
	rbt_kernels_use(t, p);
	k = rbt_kernels_get(t, &f, &s);
	CHECK_INT(facts(k).duration_ns, 5005);
	CHECK_INT(facts(k).sms, 10);
	rbt_kernels_destroy(t);
}

/* A handle that is used again is another kernel. */
static void test_forgetting(void)
{
	char module, library, other;
	struct fake f = {.name = "f", .owner = &module, .per_sm = 1};
	struct fake k = {.name = "k", .is_kernel = true, .owner = &library, .per_sm = 1};
	struct fake o = {.name = "o", .owner = &other, .per_sm = 1};
	struct rbt_shape s = shape(1, 32);
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	struct rbt_kernel *old = rbt_kernels_get(t, &f, &s);

	rbt_kernels_get(t, &k, &s);
	rbt_kernels_get(t, &o, &s);
	rbt_kernel_measured(old, 100);
	rbt_kernels_forget(t, &module);
	unsigned calls = n_calls;
	rbt_kernels_get(t, &k, &s);
	rbt_kernels_get(t, &o, &s);
	CHECK_INT(n_calls, calls); /* others are not forgotten */
	f.name = "g";
	struct rbt_kernel *new = rbt_kernels_get(t, &f, &s);
	CHECK(new != old &&strcmp(rbt_kernel_name(new), "g") == 0);
	CHECK_INT(facts(new).duration_ns, 0);
	rbt_kernels_forget(t, &module);
	f.name = "f";
	CHECK(rbt_kernels_get(t, &f, &s) == old); /* loaded again: what was measured is kept */
	CHECK_INT(facts(old).duration_ns, 100);

	/* A library's kernels, and all functions, since they may be the library's. */
	k.name = "k2";
	f.name = "f2";
	rbt_kernels_forget(t, &library);
	CHECK(strcmp(rbt_kernel_name(rbt_kernels_get(t, &k, &s)), "k2") == 0);
	CHECK(strcmp(rbt_kernel_name(rbt_kernels_get(t, &f, &s)), "f2") == 0);
	k.name = "k3";
	f.name = "f3";
	rbt_kernels_forget(t, NULL);
	CHECK(strcmp(rbt_kernel_name(rbt_kernels_get(t, &k, &s)), "k3") == 0);
	CHECK(strcmp(rbt_kernel_name(rbt_kernels_get(t, &f, &s)), "f3") == 0);
	rbt_kernels_destroy(t);
}

static void test_graphs(void)
{
	char a, b, c;
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	unsigned calls = n_calls;
	struct rbt_kernel *one = rbt_kernels_get(t, &a, NULL), *two = rbt_kernels_get(t, &b, NULL);

	CHECK_INT(n_calls, calls);
	CHECK(one != two && rbt_kernels_get(t, &a, NULL) == one);
	CHECK(strcmp(rbt_kernel_name(one), "(graph 1)") == 0);
	rbt_kernel_measured(one, 5);
	CHECK_INT(facts(one).duration_ns, 5);
	rbt_kernels_forget(t, NULL); /* functions alone */
	rbt_kernels_forget(t, &a);
	CHECK(rbt_kernels_get(t, &a, NULL) == one);
	rbt_kernels_forget_graph(t, &c); /* never launched */
	rbt_kernels_forget_graph(t, &a);
	CHECK(rbt_kernels_get(t, &b, NULL) == two);
	CHECK(rbt_kernels_get(t, &c, NULL) == one); /* the next graph takes the kernel over */
	CHECK(strcmp(rbt_kernel_name(rbt_kernels_get(t, &a, NULL)), "(graph 3)") == 0);
	rbt_kernels_forget_graph(t, &c);
	rbt_kernels_forget_graph(t, &b);
	CHECK(rbt_kernels_get(t, &c, NULL) == two);
	CHECK(rbt_kernels_get(t, &b, NULL) == one);
	rbt_kernels_destroy(t);
}

/* However many shapes and handles there are, memory stays within limits and nothing gets lost. */
static void test_many(void)
{
	struct fake f = {.name = "f", .per_sm = 1};
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	struct rbt_shape s = shape(1, 32);
	struct rbt_kernel *first = rbt_kernels_get(t, &f, &s), *k = NULL;
	struct rbt_kernel *graph = rbt_kernels_get(t, &s, NULL);

	for (uint32_t i = 2; i <= 100000; i++) {
		s = shape(i, 32);
		k = rbt_kernels_get(t, &f, &s);
		CHECK(k != NULL && rbt_kernels_get(t, &f, &s) == k);
	}
	CHECK(strcmp(rbt_kernel_name(k), "(others)") == 0);
	rbt_kernel_measured(k, 5);
	CHECK_INT(facts(k).duration_ns, 0);
	s = shape(1, 32);
	CHECK(rbt_kernels_get(t, &f, &s) == first);
	CHECK(rbt_kernels_get(t, &s, NULL) == graph);
	rbt_kernels_destroy(t);
}

/* A look-up while bindings are removed finds nothing, and the map has a limit. */
static void test_bindings(void)
{
	static char handles[RBT_BINDINGS_MAX + 1];
	struct rbt_bindings b;
	struct rbt_shape s = shape(1, 32);
	char owner, other;
	struct rbt_kernel *k = (void *)&owner, *graph = (void *)&other;

	CHECK_INT(rbt_bindings_init(&b), 0);
	CHECK_INT(rbt_bindings_add(&b, RBT_BINDING_FUNCTION, &owner, &s, &owner, k), 0);
	CHECK_INT(rbt_bindings_add(&b, RBT_BINDING_GRAPH, &owner, NULL, NULL, graph), 0);
	CHECK(rbt_bindings_find(&b, &owner, &s) == k);
	CHECK(rbt_bindings_find(&b, &owner, NULL) == graph);
	atomic_fetch_add(&b.version, 1);
	CHECK(rbt_bindings_find(&b, &owner, &s) == NULL);
	atomic_fetch_add(&b.version, 1);
	CHECK(rbt_bindings_find(&b, &owner, &s) == k);
	uint64_t version = b.version;
	rbt_bindings_forget(&b, &owner);
	CHECK(b.version > version && b.version % 2 == 0); /* look-ups that have begun notice it */
	CHECK(rbt_bindings_find(&b, &owner, &s) == NULL);
	for (size_t i = 0; i < sizeof(handles); i++) {
		CHECK_INT(rbt_bindings_add(&b, RBT_BINDING_KERNEL, &handles[i], &s, NULL, k), 0);
	}
	CHECK(b.n <= RBT_BINDINGS_MAX);
	CHECK(rbt_bindings_find(&b, &handles[sizeof(handles) - 1], &s) == k);
	CHECK(rbt_bindings_find(&b, &owner, NULL) == graph);
	rbt_bindings_finish(&b);
}

#define THREADS   4
#define FUNCTIONS 64

struct race {
	struct rbt_kernels *t;
	struct fake fakes[FUNCTIONS];
	char names[FUNCTIONS][8];
	atomic_bool is_over;
	atomic_uint wrong;
};

/* A module of the thread's own is loaded again and again, with another function at the same
 * address. */
static void reload(struct race *r, struct fake *f, unsigned i)
{
	static const char *const names[] = {"one", "two", "three"};
	struct rbt_shape s = shape(1 + i % 3, 32);

	rbt_kernels_forget(r->t, f->owner);
	f->name = names[i % 3];
	struct rbt_kernel *k = rbt_kernels_get(r->t, f, &s);
	if (k != rbt_kernels_get(r->t, f, &s) || strcmp(rbt_kernel_name(k), f->name) != 0) {
		r->wrong++;
	}
}

/* The handle says which kernel it must be. */
static void *launch(void *data)
{
	struct race *r = data;
	struct fake own = {.owner = &own, .per_sm = 1};
	uint32_t seed = (uint32_t)(uintptr_t)&r;

	for (unsigned i = 0; !r->is_over || i < 20000; i++) {
		seed = seed * 1664525u + 1013904223u;
		unsigned n = (seed >> 16) % FUNCTIONS;
		struct rbt_shape s = shape(1 + (seed >> 24) % 8, 32);
		struct rbt_kernel *k = rbt_kernels_get(r->t, &r->fakes[n], &s);
		if (k == NULL || strcmp(rbt_kernel_name(k), r->names[n]) != 0) {
			r->wrong++;
		}
		if (i % 16 == 0) {
			rbt_kernel_measured(k, 1000);
			reload(r, &own, i / 16);
		}
		if (facts(k).sms > 8 || facts(k).duration_ns > 2000) {
			r->wrong++;
		}
		if (i > 2000000) {
			break;
		}
	}
	return NULL;
}

static void test_threads(void)
{
	static char modules[4];
	struct race r = {.t = rbt_kernels_create(&driver)};
	struct rbt_profile *p = rbt_profile_create();
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < FUNCTIONS; i++) {
		snprintf(r.names[i], sizeof(r.names[i]), "f%u", i);
		r.fakes[i] =
			(struct fake){.name = r.names[i], .owner = &modules[i % 4], .per_sm = 1};
	}
	for (unsigned i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_create(&threads[i], NULL, launch, &r), 0);
	}
	for (unsigned i = 0; i < 300; i++) {
		rbt_kernels_forget(r.t, i % 50 == 0 ? NULL : &modules[i % 4]);
		if (i % 100 == 0) {
			rbt_kernels_use(
				r.t, profile("Name,Profile,Memory_footprint,SM_usage,Duration\n"
					     "f1,1,0,2,2000\n"));
			CHECK_INT(rbt_kernels_to_profile(r.t, p), 0);
		}
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	r.is_over = true;
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	CHECK_INT(r.wrong, 0);
	rbt_profile_destroy(p);
	rbt_kernels_destroy(r.t);
}

/* For the reader of the log: what a launch of a known kernel costs. */
static void print_cost(void)
{
	static struct fake fakes[1000];
	struct rbt_kernels *t = rbt_kernels_create(&driver);
	struct rbt_shape s = shape(1, 32);
	struct timespec begin, end;
	const unsigned n = 1000000;
	uintptr_t sum = 0;

	for (unsigned i = 0; i < 1000; i++) {
		fakes[i] = (struct fake){.name = "f", .per_sm = 1};
		rbt_kernels_get(t, &fakes[i], &s);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (unsigned i = 0; i < n; i++) {
		sum += (uintptr_t)rbt_kernels_get(t, &fakes[i % 1000], &s);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	double ns =
		(double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
	CHECK(sum != 0);
	fprintf(stderr, "a look-up takes %.1f ns\n", ns / n);
	rbt_kernels_destroy(t);
}

int main(void)
{
	test_identity();
	test_old_driver();
	test_sms();
	test_measuring();
	test_profiles();
	test_recording();
	test_forgetting();
	test_graphs();
	test_many();
	test_bindings();
	test_threads();
	print_cost();
	return check_result();
}
