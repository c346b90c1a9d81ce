/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a program around its calls: forks, exits while the device works for it, and the
 * loss of the device. usage: cuda_life fork | exit | lost COMMAND…
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

static void *affine;
static void *context;

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void start(void)
{
	void *module;

	cuda_api_start(&context);
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	affine = cuda_api_function(module, "affine");
}

static void launch(void *stream, uint64_t data, uint32_t add, uint32_t turns)
{
	uint32_t mul = 1;
	void *params[] = {&data, &mul, &add, &turns};

	OK(cu.cuLaunchKernel(affine, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

/* The child is told, and does not disturb the parent. */
static void test_fork(void)
{
	uint64_t data;
	uint32_t got = 0;
	int status = -1, n;

	start();
	data = cuda_api_zeros(32);
	launch(NULL, data, 1, 100000);
	pid_t pid = fork();

	if (pid == 0) {
		CHECK_INT(cu.cuCtxSynchronize(), 3);
		CHECK_INT(cu.cuMemAlloc_v2(&data, 16), 3);
		CHECK_INT(cu.cuMemFree_v2(data), 3);
		CHECK_INT(cu.cuLaunchKernel(affine, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 3);
		CHECK_INT(cu.cuInit(0), 3);
		CHECK_INT(cu.cuDeviceGetCount(&n), 3);
		OK(cu.cuDriverGetVersion(&n));
		CHECK_INT(cu.cuCtxDestroy_v2(context), 3);
		_exit(check_result());
	}
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	launch(NULL, data, 10, 0);
	OK(cu.cuMemcpyDtoH_v2(&got, data, 4));
	CHECK_INT(got, 11);
	OK(cu.cuCtxDestroy_v2(context));
}

static void wait_in_callback(void *user)
{
	usleep(200000);
}

/* Ends in the middle of everything, with threads of the driver's at work. */
static void test_exit(void)
{
	pid_t pid = fork();
	int status = -1;
	double began_s = now_s();

	if (pid == 0) {
		void *s, *t;
		uint64_t data;

		start();
		MUST(cu.cuStreamCreate(&s, 1));
		MUST(cu.cuStreamCreate(&t, 1));
		MUST(cu.cuMemAlloc_v2(&data, 128));
		launch(s, data, 1, 100000000);
		OK(cu.cuLaunchHostFunc(s, wait_in_callback, NULL));
		OK(cu.cuLaunchHostFunc(t, wait_in_callback, NULL));
		exit(check_result());
	}
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	CHECK(now_s() - began_s < 10);
	/* The device is there for the next one, and has its memory back. */
	size_t left = 0, total = 0;

	start();
	for (int i = 0; i < 500; i++) {
		OK(cu.cuMemGetInfo_v2(&left, &total));
		if (total - left < 1 << 20) {
			break;
		}
		usleep(10000);
	}
	CHECK(total - left < 1 << 20);
	OK(cu.cuCtxDestroy_v2(context));
}

struct waiter {
	pthread_t thread;
	void *stream;
	int result;
};

static void *wait_for_stream(void *arg)
{
	struct waiter *w = arg;

	MUST(cu.cuCtxSetCurrent(context));
	w->result = cu.cuStreamSynchronize(w->stream);
	return NULL;
}

/* The device server is killed while threads wait for it: all are told, none hangs. */
static void test_lost(char **command)
{
	struct waiter waiters[4];
	uint64_t data, more;
	uint32_t word;
	void *host, *event, *t;
	int status = -1;

	start();
	MUST(cu.cuMemAlloc_v2(&data, 128));
	MUST(cu.cuMemHostAlloc(&host, 4096, 0));
	MUST(cu.cuEventCreate(&event, 2));
	for (int i = 0; i < 4; i++) {
		MUST(cu.cuStreamCreate(&waiters[i].stream, 1));
		launch(waiters[i].stream, data, 1, 2000000000);
		pthread_create(&waiters[i].thread, NULL, wait_for_stream, &waiters[i]);
	}
	MUST(cu.cuStreamCreate(&t, 1));
	OK(cu.cuLaunchHostFunc(waiters[0].stream, wait_in_callback, NULL));
	usleep(50000);
	pid_t pid = fork();

	if (pid == 0) {
		execvp(command[0], command);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	double began_s = now_s();

	for (int i = 0; i < 4; i++) {
		pthread_join(waiters[i].thread, NULL);
		CHECK_INT(waiters[i].result, 46);
	}
	CHECK(now_s() - began_s < 0.5);
	CHECK_INT(cu.cuCtxSynchronize(), 46);
	CHECK_INT(cu.cuMemAlloc_v2(&more, 64), 46);
	CHECK_INT(cu.cuMemcpyDtoH_v2(&word, data, 4), 46);
	CHECK_INT(cu.cuStreamQuery(waiters[0].stream), 46);
	CHECK_INT(cu.cuEventRecord(event, waiters[0].stream), 46);
	CHECK_INT(cu.cuMemFreeHost(host), 46);
	*(uint32_t *)host = 3; /* still the program's */
	CHECK_INT(cu.cuCtxDestroy_v2(context), 46);
	CHECK_INT(cu.cuCtxCreate_v2(&context, 0, 0), 46);
	CHECK(now_s() - began_s < 2);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "fork") == 0) {
		test_fork();
	} else if (argc == 2 && strcmp(argv[1], "exit") == 0) {
		test_exit();
	} else if (argc > 2 && strcmp(argv[1], "lost") == 0) {
		test_lost(argv + 2);
	} else {
		return 2;
	}
	return check_result();
}
