/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcudart.so: the CUDA runtime interface on top of the driver interface. The driver's library is
 * loaded by name (libcuda.so.1) at the first call that needs it. In a guest that is Rubato's own;
 * any other works as well.
 *
 * A function of the interface begins with rt_init() if it needs the driver, or with rt_enter() if
 * it needs a context, and ends with rt_done(), which keeps the thread's last error.
 */
#ifndef RBT_REMOTE_CUDART_CUDART_H
#define RBT_REMOTE_CUDART_CUDART_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "remote/cudart/abi.h"

#define RT_API         __attribute__((visibility("default")))
#define RT_MAX_DEVICES 64
#define RT_PTR(p)      ((CUdeviceptr)(uintptr_t)(p))

/* The functions of the driver. Those that it lacks return CUDA_ERROR_NOT_SUPPORTED. */
struct rt_driver {
#define DRIVER_POINTER(symbol, params) CUresult(*symbol) params;
	DRIVER_CALLS(DRIVER_POINTER)
#undef DRIVER_POINTER
};
extern struct rt_driver rt_driver;

/* What the runtime knows of a thread. All zero is a new thread. */
struct rt_thread {
	int device;
	unsigned bound; /* the epoch of the device whose primary context is current here; 0: none */
	int bound_device;
	int last_error; /* in the numbers of CUDA 10.1 and newer */
};
extern __thread struct rt_thread rt_thread;

/* All of these return 0 or an error in the numbers of CUDA 10.1 and newer. */
int rt_init(void);
int rt_enter(void);
int rt_check_device(int device);
int rt_context_of(int device, CUcontext *ret);

/* Keeps an error as the thread's last one. Returns it in the numbers of this library's version. */
int rt_done(int error);

/* image.c: what programs have registered. */
int rt_function_find(const void *host, CUfunction *ret);
int rt_variable_find(const void *host, CUdeviceptr *ret_address, size_t *ret_size);
/* The contexts of a device are gone, and their functions with them. */
void rt_functions_forget(int device);
/* The host's name of a function, for nodes of graphs. NULL: not known. */
const void *rt_function_host(CUfunction function);

/* Which of the driver's copies this is, by the direction that the program has said. */
int rt_copy(void *to, const void *from, size_t size, int kind);
int rt_copy_async(void *to, const void *from, size_t size, int kind, CUstream stream);

/* A call that needs a context, and does no more than to call the driver. */
#define RT_FORWARD(name, params, call)                                                             \
	RT_API int name params;                                                                    \
	RT_API int name params                                                                     \
	{                                                                                          \
		int error = rt_enter();                                                            \
                                                                                                   \
		return rt_done(error != 0 ? error : (int)rt_driver.call);                          \
	}

/* The same for a name and its form for programs whose default stream is each thread's own. */
#define RT_FORWARD_PT(name, form, params, fn, args)                                                \
	RT_FORWARD(name, params, fn args)                                                          \
	RT_FORWARD(name##_##form, params, fn##_ptsz args)

#endif
