/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of PyTorch's libc10_cuda.so, the current stream of each thread: C++ functions by their mangled
 * names, as src/orion/torch.c looks them up.
 */
#include <stdint.h>

struct stream {
	int8_t device_type, device;
	int64_t id;
};

struct stream get_current(int8_t device) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa");
void set_current(struct stream s) __asm__("_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE");
struct stream from_external(void *handle, int8_t device) __asm__(
	"_ZN3c104cuda21getStreamFromExternalEP11CUstream_sta");

static _Thread_local struct stream current[] = {
	{.device_type = 1}, {.device_type = 1, .device = 1}};

__attribute__((visibility("default"))) struct stream get_current(int8_t device)
{
	return current[device];
}

__attribute__((visibility("default"))) void set_current(struct stream s)
{
	current[s.device] = s;
}

__attribute__((visibility("default"))) struct stream from_external(void *handle, int8_t device)
{
	return (struct stream){.device_type = 1, .device = device, .id = (int64_t)(intptr_t)handle};
}
