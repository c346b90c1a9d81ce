/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/torch.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>

#include "orion/driver.h"

#define LIBRARY   "libc10_cuda.so"
#define N_DEVICES 64

/* c10::cuda::CUDAStream, which is passed in registers. */
struct torch_stream {
	int8_t device_type, device;
	int64_t id; /* 0: the default stream */
};

/* Functions of the namespace c10::cuda. */
#define GET_CURRENT   "_ZN3c104cuda20getCurrentCUDAStreamEa"
#define SET_CURRENT   "_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE"
#define FROM_EXTERNAL "_ZN3c104cuda21getStreamFromExternalEP11CUstream_sta"

typedef struct torch_stream get_current_fn(int8_t device);
typedef void set_current_fn(struct torch_stream stream);
typedef struct torch_stream from_external_fn(CUstream stream, int8_t device);

static _Atomic(get_current_fn *) get_current; /* NULL: PyTorch was not found, or not yet */
static _Atomic(set_current_fn *) set_current;
static _Atomic(from_external_fn *) from_external;

/* Of the calling thread. */
static _Thread_local bool has_looked;
static _Thread_local struct torch_stream adopted[N_DEVICES]; /* with id 0: none */

static void look(void)
{
	void *lib = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);

	has_looked = true;
	if (lib == NULL) {
		return;
	}
	get_current_fn *get = (get_current_fn *)(uintptr_t)dlsym(lib, GET_CURRENT);
	set_current_fn *set = (set_current_fn *)(uintptr_t)dlsym(lib, SET_CURRENT);
	from_external_fn *from = (from_external_fn *)(uintptr_t)dlsym(lib, FROM_EXTERNAL);
	if (get != NULL && set != NULL && from != NULL) {
		set_current = set;
		from_external = from;
		/* Last: a thread that reads it uses the others. The library stays open. */
		get_current = get;
	} else {
		dlclose(lib);
	}
}

bool orion_torch_adopt(CUstream stream)
{
	CUdevice device;

	if (get_current == NULL && !has_looked) {
		look();
	}
	if (get_current == NULL || orion_driver.ctx_device(&device) != CUDA_SUCCESS ||
		device >= N_DEVICES || get_current((int8_t)device).id != 0 ||
		!orion_driver_is_primary(device)) {
		return false;
	}
	adopted[device] = from_external(stream, (int8_t)device);
	set_current(adopted[device]);
	return true;
}

void orion_torch_leave(void)
{
	has_looked = false;
	for (int8_t i = 0; i < N_DEVICES; i++) {
		struct torch_stream *a = &adopted[i];
		const bool is_current = a->id != 0 && get_current(i).id == a->id;

		a->id = 0;
		if (is_current) {
			set_current(*a);
		}
	}
}
