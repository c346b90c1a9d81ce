/* SPDX-License-Identifier: Apache-2.0 */
/* The order of streams, events and host functions. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

#define THREADS 32
#define LONG    20000 /* turns */

static void *context, *affine;
static bool soft;

static void launch(void *stream, uint64_t data, uint32_t mul, uint32_t add, uint32_t turns)
{
	void *params[] = {&data, &mul, &add, &turns};

	OK(cu.cuLaunchKernel(affine, 1, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
}

/* All threads have the same; anything else is 0xffffffff. */
static uint32_t read_all(uint64_t data)
{
	uint32_t got[THREADS];

	OK(cu.cuMemcpyDtoH_v2(got, data, sizeof(got)));
	for (int i = 1; i < THREADS; i++) {
		if (got[i] != got[0]) {
			return UINT32_MAX;
		}
	}
	return got[0];
}

static void test_one_stream(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	uint32_t expected = 0;
	void *s;
	unsigned flags = 9;
	int priority = 9, least = 9, greatest = 9;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	OK(cu.cuStreamQuery(s));
	/* More than a ring holds. */
	for (uint32_t i = 0; i < 3000; i++) {
		launch(s, data, 3, i, 0);
		expected = expected * 3 + i;
	}
	OK(cu.cuStreamSynchronize(s));
	OK(cu.cuStreamQuery(s));
	CHECK_INT(read_all(data), expected);
	launch(s, data, 1, 1, LONG * 20);
	CHECK_INT(cu.cuStreamQuery(s), 600);
	/* Destroying a stream does not end its work. */
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuCtxSynchronize());
	CHECK_INT(read_all(data), expected + 1);
	if (soft) { /* hardware's driver crashes on a destroyed stream */
		CHECK_INT(cu.cuStreamSynchronize(s), 400);
	}
	OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
	CHECK(least == 0 && greatest < 0);
	MUST(cu.cuStreamCreateWithPriority(&s, NON_BLOCKING, -100));
	OK(cu.cuStreamGetPriority(s, &priority));
	CHECK_INT(priority, greatest);
	OK(cu.cuStreamGetFlags(s, &flags));
	CHECK_INT(flags, NON_BLOCKING);
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(data));
}

/* Two chains on two streams that meet at events, many times. */
static void test_events(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	uint32_t expected = 0;
	void *a, *b, *ea, *eb;

	MUST(cu.cuStreamCreate(&a, NON_BLOCKING));
	MUST(cu.cuStreamCreate(&b, NON_BLOCKING));
	MUST(cu.cuEventCreate(&ea, DISABLE_TIMING));
	MUST(cu.cuEventCreate(&eb, 0));
	OK(cu.cuEventQuery(ea));
	OK(cu.cuStreamWaitEvent(a, ea, 0));
	for (uint32_t i = 0; i < 200; i++) {
		launch(a, data, 3, i, i % 7 * 50);
		OK(cu.cuEventRecord(ea, a));
		OK(cu.cuStreamWaitEvent(b, ea, 0));
		launch(b, data, 5, i, i % 5 * 50);
		OK(cu.cuEventRecord(eb, b));
		OK(cu.cuStreamWaitEvent(a, eb, 0));
		expected = (expected * 3 + i) * 5 + i;
	}
	OK(cu.cuEventSynchronize(eb));
	CHECK_INT(read_all(data), expected);
	OK(cu.cuEventQuery(ea));
	OK(cu.cuEventDestroy_v2(ea));
	OK(cu.cuEventDestroy_v2(eb));
	if (soft) { /* hardware's driver may crash on a destroyed event */
		CHECK_INT(cu.cuEventQuery(eb), 400);
	}
	OK(cu.cuStreamDestroy_v2(a));
	OK(cu.cuStreamDestroy_v2(b));
	OK(cu.cuMemFree_v2(data));
}

static void test_timing(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	void *s, *start, *middle, *end, *plain;
	float first_ms = 0, second_ms = 0;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	MUST(cu.cuEventCreate(&start, 0));
	MUST(cu.cuEventCreate(&middle, 0));
	MUST(cu.cuEventCreate(&end, 0));
	MUST(cu.cuEventCreate(&plain, DISABLE_TIMING));
	CHECK_INT(cu.cuEventElapsedTime(&first_ms, start, end), 400);
	launch(s, data, 1, 1, 10);
	OK(cu.cuEventRecord(start, s));
	launch(s, data, 1, 1, LONG);
	OK(cu.cuEventRecord(middle, s));
	launch(s, data, 1, 1, LONG * 10);
	OK(cu.cuEventRecord(end, s));
	CHECK_INT(cu.cuEventQuery(end), 600);
	CHECK_INT(cu.cuEventElapsedTime(&first_ms, start, end), 600);
	OK(cu.cuEventSynchronize(end));
	OK(cu.cuEventElapsedTime(&first_ms, start, middle));
	OK(cu.cuEventElapsedTime(&second_ms, middle, end));
	/* Ten times the work takes about ten times as long; hardware's clock may rise meanwhile. */
	CHECK(first_ms > 0 && second_ms > (soft ? 5 : 2) * first_ms && second_ms < 20 * first_ms);
	OK(cu.cuEventRecord(plain, s));
	OK(cu.cuEventSynchronize(plain));
	CHECK_INT(cu.cuEventElapsedTime(&first_ms, start, plain), 400);
	OK(cu.cuEventDestroy_v2(start));
	OK(cu.cuEventDestroy_v2(middle));
	OK(cu.cuEventDestroy_v2(end));
	OK(cu.cuEventDestroy_v2(plain));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(data));
}

/* The default stream waits for blocking streams, and they for it; others do not. */
static void test_legacy(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	void *s[4];
	uint32_t expected = 0;

	for (int i = 0; i < 4; i++) {
		MUST(cu.cuStreamCreate(&s[i], 0));
	}
	for (uint32_t i = 0; i < 40; i++) {
		launch(s[i % 4], data, 3, i, i % 3 * 500);
		launch(NULL, data, 5, i, i % 5 * 100);
		expected = (expected * 3 + i) * 5 + i;
	}
	OK(cu.cuStreamSynchronize(NULL));
	CHECK_INT(read_all(data), expected);
	/* A synchronous copy, too, is the default stream's. */
	launch(s[1], data, 1, 1, LONG);
	CHECK_INT(read_all(data), expected + 1);
	/* An event of the default stream covers blocking streams. */
	void *event;
	MUST(cu.cuEventCreate(&event, DISABLE_TIMING));
	launch(s[2], data, 1, 1, LONG * 10);
	OK(cu.cuEventRecord(event, NULL));
	CHECK_INT(cu.cuEventQuery(event), 600);
	OK(cu.cuEventSynchronize(event));
	OK(cu.cuStreamQuery(s[2]));
	OK(cu.cuEventDestroy_v2(event));
	for (int i = 0; i < 4; i++) {
		OK(cu.cuStreamDestroy_v2(s[i]));
	}
	OK(cu.cuMemFree_v2(data));
}

static void test_non_blocking(void)
{
	uint64_t slow = cuda_api_zeros(THREADS), fast = cuda_api_zeros(THREADS);
	void *s;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	launch(s, slow, 1, 1, LONG * 100);
	launch(NULL, fast, 1, 1, 0);
	OK(cu.cuStreamSynchronize(NULL));
	CHECK_INT(cu.cuStreamQuery(s), 600);
	CHECK_INT(read_all(fast), 1);
	OK(cu.cuStreamSynchronize(s));
	CHECK_INT(read_all(slow), 1);
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(slow));
	OK(cu.cuMemFree_v2(fast));
}

struct part {
	uint32_t *host;
	uint32_t seen;
	_Atomic int calls, status;
	void *stream;
};

/* What waits for a stream also waits for what that has waited for. Of so many streams some share a
 * channel with the default stream, or with the blocking one. */
static void test_waits_are_passed_on(void)
{
	enum { N = 20 };
	uint64_t data = cuda_api_zeros(THREADS);
	uint32_t expected = 0;
	void *free_running[N], *blocking, *event;

	MUST(cu.cuEventCreate(&event, DISABLE_TIMING));
	MUST(cu.cuStreamCreate(&blocking, 0));
	for (int i = 0; i < N; i++) {
		MUST(cu.cuStreamCreate(&free_running[i], NON_BLOCKING));
	}
	for (uint32_t i = 0; i < N; i++) {
		/* Through the default stream to a blocking one, and the other way round. */
		void *first = i % 2 == 0 ? NULL : blocking, *second = i % 2 == 0 ? blocking : NULL;

		launch(free_running[i], data, 3, i + 1, LONG);
		OK(cu.cuEventRecord(event, free_running[i]));
		OK(cu.cuStreamWaitEvent(first, event, 0));
		launch(second, data, 5, i, 0);
		expected = (expected * 3 + i + 1) * 5 + i;
		OK(cu.cuCtxSynchronize());
	}
	CHECK_INT(read_all(data), expected);
	for (int i = 0; i < N; i++) {
		OK(cu.cuStreamDestroy_v2(free_running[i]));
	}
	OK(cu.cuStreamDestroy_v2(blocking));
	OK(cu.cuEventDestroy_v2(event));
	OK(cu.cuMemFree_v2(data));
}

static void read_host(void *user)
{
	struct part *p = user;

	usleep(1000);
	p->seen = p->host[0];
	p->host[0] = 100;
	p->calls++;
}

static void count_call(void *user)
{
	((struct part *)user)->calls++;
}

static void read_callback(void *stream, int status, void *user)
{
	struct part *p = user;

	p->stream = stream;
	p->status = status;
	p->seen = p->host[0];
	p->calls++;
}

/* A function sees what came before it, and what comes after it sees what it did. */
static void test_host_functions(void)
{
	struct part p = {.status = -1}, q = {.status = -1};
	void *s, *t;

	MUST(cu.cuMemHostAlloc((void **)&p.host, THREADS * 4, 0));
	memset(p.host, 0, THREADS * 4);
	q.host = p.host + 16;
	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	MUST(cu.cuStreamCreate(&t, NON_BLOCKING));
	launch(s, (uintptr_t)p.host, 1, 7, LONG);
	OK(cu.cuLaunchHostFunc(s, read_host, &p));
	launch(s, (uintptr_t)p.host, 2, 1, 0);
	OK(cu.cuStreamSynchronize(s));
	CHECK_INT(p.calls, 1);
	CHECK_INT(p.seen, 7);
	CHECK_INT(p.host[0], 201);
	OK(cu.cuStreamAddCallback(s, read_callback, &p, 0));
	OK(cu.cuStreamSynchronize(s));
	CHECK(p.calls == 2 && p.seen == 201 && p.status == 0 && p.stream == s);
	for (int i = 0; i < 50; i++) {
		OK(cu.cuLaunchHostFunc(i % 2 ? s : t, read_host, i % 2 ? &p : &q));
	}
	OK(cu.cuCtxSynchronize());
	CHECK_INT(p.calls, 27);
	CHECK_INT(q.calls, 25);
	/* More than a ring holds. */
	for (int i = 0; i < 3000; i++) {
		OK(cu.cuLaunchHostFunc(s, count_call, &p));
	}
	OK(cu.cuStreamSynchronize(s));
	CHECK_INT(p.calls, 3027);
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuStreamDestroy_v2(t));
	OK(cu.cuMemFreeHost(p.host));
}

struct worker {
	pthread_t thread;
	int index;
	uint32_t got, expected;
};

/* Each thread with a stream of its own, or its default stream. */
static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t data;
	void *s = STREAM_PER_THREAD;

	MUST(cu.cuCtxSetCurrent(context));
	MUST(cu.cuMemAlloc_v2(&data, THREADS * 4));
	MUST(cu.cuMemsetD32Async(data, 0, THREADS, s));
	if (w->index % 2 == 1) {
		MUST(cu.cuStreamSynchronize(s));
		MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	}
	for (uint32_t i = 0; i < 100; i++) {
		uint32_t mul = 3, turns = 20;
		void *params[] = {&data, &mul, &i, &turns};

		MUST(cu.cuLaunchKernel(affine, 1, 1, 1, THREADS, 1, 1, 0, s, params, NULL));
		w->expected = w->expected * 3 + i;
		if (i % 10 == 0) {
			MUST(cu.cuStreamSynchronize(s));
		}
	}
	MUST(cu.cuMemcpyDtoHAsync_v2(&w->got, data, 4, s));
	MUST(cu.cuStreamSynchronize(s));
	MUST(cu.cuMemFree_v2(data));
	return NULL;
}

static void test_threads(void)
{
	struct worker workers[12] = {0};
	int n = sizeof(workers) / sizeof(workers[0]);

	for (int i = 0; i < n; i++) {
		workers[i].index = i;
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(workers[i].thread, NULL);
		CHECK_INT(workers[i].got, workers[i].expected);
	}
}

/* An event may be waited for in another context. */
static void test_other_context(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	void *other, *s, *t, *event;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	MUST(cu.cuEventCreate(&event, DISABLE_TIMING));
	launch(s, data, 1, 3, LONG * 10);
	OK(cu.cuEventRecord(event, s));
	MUST(cu.cuCtxCreate_v2(&other, 0, 0));
	MUST(cu.cuStreamCreate(&t, NON_BLOCKING));
	OK(cu.cuStreamWaitEvent(t, event, 0));
	OK(cu.cuStreamSynchronize(t));
	OK(cu.cuEventQuery(event));
	CHECK_INT(cu.cuEventRecord(event, t), 400);
	OK(cu.cuCtxDestroy_v2(other));
	OK(cu.cuCtxSetCurrent(context));
	CHECK_INT(read_all(data), 3);
	OK(cu.cuEventDestroy_v2(event));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(data));
}

/* More events than a context has stamps, recorded again while they are under way. */
static void test_many_events(void)
{
	enum { N = 5000 };
	static void *events[N];
	void *s;
	float ms = -1;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	for (int i = 0; i < N; i++) {
		MUST(cu.cuEventCreate(&events[i], 0));
	}
	for (int i = 0; i < 8000; i++) {
		OK(cu.cuEventRecord(events[i % 100], s));
	}
	OK(cu.cuStreamSynchronize(s));
	OK(cu.cuEventElapsedTime(&ms, events[0], events[99]));
	CHECK(ms >= 0);
	for (int i = 0; i < N; i++) {
		OK(cu.cuEventDestroy_v2(events[i]));
	}
	OK(cu.cuStreamDestroy_v2(s));
}

int main(void)
{
	void *module;

	soft = cuda_api_start(&context) != 0;
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	affine = cuda_api_function(module, "affine");
	TEST(test_one_stream());
	TEST(test_events());
	TEST(test_timing());
	TEST(test_legacy());
	if (soft) {
		TEST(test_non_blocking()); /* on a fast GPU the slow one may be done */
	}
	TEST(test_waits_are_passed_on());
	TEST(test_host_functions());
	TEST(test_threads());
	TEST(test_other_context());
	TEST(test_many_events());
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
