/* SPDX-License-Identifier: Apache-2.0 */
/* Adds two vectors on a GPU, with the CUDA driver interface alone. usage: hello FILE.ptx */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 100000

/* From the public documentation of the driver interface; with NVIDIA's toolkit: #include <cuda.h>. */
int cuInit(unsigned flags);
int cuDeviceGet(int *ret, int ordinal);
int cuDevicePrimaryCtxRetain(void **ret, int device);
int cuCtxSetCurrent(void *context);
int cuModuleLoad(void **ret, const char *file);
int cuModuleGetFunction(void **ret, void *module, const char *name);
int cuMemAlloc_v2(uint64_t *ret, size_t size);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size);
int cuLaunchKernel(void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
	unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **args,
	void **extra);

#define DO(call)                                                                                   \
	do {                                                                                       \
		int result = (call);                                                               \
		if (result != 0) {                                                                 \
			fprintf(stderr, "%s: error %d\n", #call, result);                          \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

int main(int argc, char **argv)
{
	static float a[N], b[N], sum[N];
	uint64_t on_gpu[3];
	void *context, *module, *kernel;
	int device, n = N, wrong = 0;

	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = 2.0f * (float)i;
	}
	DO(cuInit(0));
	DO(cuDeviceGet(&device, 0));
	DO(cuDevicePrimaryCtxRetain(&context, device));
	DO(cuCtxSetCurrent(context));
	DO(cuModuleLoad(&module, argc > 1 ? argv[1] : "hello.ptx"));
	DO(cuModuleGetFunction(&kernel, module, "add"));
	for (int i = 0; i < 3; i++) {
		DO(cuMemAlloc_v2(&on_gpu[i], sizeof(a)));
	}
	DO(cuMemcpyHtoD_v2(on_gpu[1], a, sizeof(a)));
	DO(cuMemcpyHtoD_v2(on_gpu[2], b, sizeof(b)));
	void *args[] = {&on_gpu[0], &on_gpu[1], &on_gpu[2], &n};
	DO(cuLaunchKernel(kernel, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
	DO(cuMemcpyDtoH_v2(sum, on_gpu[0], sizeof(sum)));
	for (int i = 0; i < N; i++) {
		wrong += sum[i] != 3.0f * (float)i;
	}
	printf("hello from the GPU: %d sums, %d wrong\n", N, wrong);
	return wrong != 0;
}
