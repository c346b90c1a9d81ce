/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with kernels of its own, as nvcc's users write them. It forks before its first call,
 * because a child may use the GPU if its parent has not; then four threads launch at once.
 */
#include "runtime.h"

#define N 1000

__device__ int scale = 3;

__global__ void add(const int *a, const int *b, int *sum, int n, double factor)
{
	unsigned i = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
		     __nvvm_read_ptx_sreg_tid_x();

	if (i < (unsigned)n) {
		sum[i] = a[i] + (int)(b[i] * factor) * scale;
	}
}

static int sync()
{
#ifdef OLD_CALLS
	return cudaThreadSynchronize();
#else
	return cudaDeviceSynchronize();
#endif
}

static int wrong(int factor)
{
	int a[N], b[N], sum[N], n = 0, *on_device[3];

	for (int i = 0; i < N; i++) {
		a[i] = i;
		b[i] = 7 * i;
		sum[i] = -1;
	}
	for (int i = 0; i < 3; i++) {
		n += cudaMalloc((void **)&on_device[i], sizeof(a)) != 0;
	}
	n += cudaMemcpy(on_device[0], a, sizeof(a), 1) != 0;
	n += cudaMemcpy(on_device[1], b, sizeof(b), 1) != 0;
	add<<<(N + 127) / 128, 128>>>(on_device[0], on_device[1], on_device[2], N, 2.0);
	n += cudaGetLastError() != 0;
	n += sync() != 0;
	n += cudaMemcpy(sum, on_device[2], sizeof(sum), 2) != 0;
	for (int i = 0; i < N; i++) {
		n += sum[i] != a[i] + 2 * b[i] * factor;
	}
	for (int i = 0; i < 3; i++) {
		n += cudaFree(on_device[i]) != 0;
	}
	return n;
}

/* Each thread has a last error of its own. */
static void *thread(void *)
{
	long n = cudaGetLastError() != 0;

	for (int i = 0; i < 5; i++) {
		n += wrong(4);
	}
	n += cudaSetDevice(99) == 0;
	n += cudaGetLastError() == 0;
	n += cudaGetLastError() != 0;
	return (void *)n;
}

static int in_child()
{
	int status = -1, pid = fork();

	if (pid == 0) {
		_exit(wrong(3) != 0);
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **)
{
	int version = 0, n = 0, value = 4, now = 0;
	unsigned long threads[4];

	if (argc > 1) {
		return 0; /* its kernels are registered, and not used */
	}
	n += in_child();
	n += wrong(3);
	n += cudaMemcpyToSymbol(&scale, &value, sizeof(value), 0, 1) != 0;
	n += cudaMemcpyFromSymbol(&now, &scale, sizeof(now), 0, 2) != 0 || now != 4;
	n += cudaMemcpyToSymbol(&scale, &value, sizeof(value), 1, 1) == 0;
	n += cudaMemcpyToSymbol(&n, &value, sizeof(value), 0, 1) == 0;
	add<<<1, 99999>>>(0, 0, 0, 0, 0);
	n += cudaGetLastError() != 9; /* the configuration: the same number in all versions */
	cudaSetDevice(77);
	for (int i = 0; i < 4; i++) {
		pthread_create(&threads[i], 0, thread, 0);
	}
	for (int i = 0; i < 4; i++) {
		void *result;
		pthread_join(threads[i], &result);
		n += (int)(long)result;
	}
	n += cudaGetLastError() == 0;
	cudaRuntimeGetVersion(&version);
	printf("runtime %d, %d wrong\n", version, n);
	return n != 0;
}
