/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of a process, and what is known about them. A kernel is a name and a shape: functions
 * of the same name in several modules or contexts are one kernel, and a module that is loaded again
 * finds its earlier measurements. A graph that is launched counts as a kernel. When the graph is
 * destroyed, the next new graph takes over its kernel.
 *
 * Any thread may call these functions at any time, except create and destroy.
 */
#ifndef RBT_ORION_KERNEL_H
#define RBT_ORION_KERNEL_H

#include "cuda/abi.h"
#include "orion/profile.h"

#define RBT_KERNELS_MAX 32768u /* names and shapes in a table */

/*
 * The driver's functions, by their own names. Any may be NULL, as in older drivers. They are called
 * by the thread that calls rbt_kernels_get(), in its context, and never while a lock is held.
 */
struct rbt_kernel_driver {
	CUresult (*cuFuncGetName)(const char **ret_name, CUfunction function); /* 12.3 */
	CUresult (*cuKernelGetName)(const char **ret_name, CUkernel kernel);   /* 12.3 */
	CUresult (*cuFuncGetModule)(CUmodule *ret_module, CUfunction function);
	CUresult (*cuKernelGetLibrary)(CUlibrary *ret_library, CUkernel kernel); /* 12.5 */
	CUresult (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(
		int *ret_blocks, CUfunction function, int threads, size_t dynamic);
	CUresult (*cuCtxGetDevice)(CUdevice *ret_device);
	CUresult (*cuDeviceGetAttribute)(int *ret_value, int attribute, CUdevice device);
};

struct rbt_kernel;
struct rbt_kernels;

/* Copies `driver`. NULL: no memory. */
struct rbt_kernels *rbt_kernels_create(const struct rbt_kernel_driver *driver);
/* No other thread may use the table or its kernels any more. */
void rbt_kernels_destroy(struct rbt_kernels *t);

/*
 * The kernel of a launch. `function` is what was launched: a CUfunction, a CUkernel in its place,
 * or, with NULL for `shape`, a CUgraphExec. A known one takes no lock and makes no driver call.
 * If the table is full, the result is a kernel without facts. Returns NULL without memory.
 *
 * A kernel stays valid until the table is destroyed, also after its function has been unloaded.
 */
struct rbt_kernel *rbt_kernels_get(
	struct rbt_kernels *t, void *function, const struct rbt_shape *shape);

/*
 * Must be called before a module or library is unloaded (cuModuleUnload, cuLibraryUnload), because
 * the driver may use the handles of its functions again. NULL forgets the handles of all functions
 * (cuCtxDestroy, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxRelease). The measurements stay.
 */
void rbt_kernels_forget(struct rbt_kernels *t, void *module_or_library);
/* The same for a graph (cuGraphExecDestroy). */
void rbt_kernels_forget_graph(struct rbt_kernels *t, void *exec);

/* Sets the loaded profile, in place of an earlier one; NULL: none. Takes ownership. */
void rbt_kernels_use(struct rbt_kernels *t, struct rbt_profile *profile);

/* Adds a row for each kernel that was measured. Returns 0 or -errno. */
int rbt_kernels_to_profile(struct rbt_kernels *t, struct rbt_profile *ret);

/*
 * The facts about a kernel, without a lock. NULL has none.
 *  - kind: the profile's; unknown without it
 *  - duration: the profile's, otherwise the mean of the last measurements
 *  - SMs: the profile's if its row has this shape, otherwise from grid and occupancy, otherwise the
 *    profile's; at most the device's. A row without a shape is about several shapes, and may come
 *    from another device.
 */
void rbt_kernel_facts(const struct rbt_kernel *k, struct rbt_kernel_facts *ret);

/* Adds one duration on the GPU. NULL is ignored. */
void rbt_kernel_measured(struct rbt_kernel *k, uint64_t duration_ns);
/* The same on an idle GPU, where the kernel came later than the event before it. The duration
 * counts until there is a better one. */
void rbt_kernel_measured_roughly(struct rbt_kernel *k, uint64_t duration_ns);

/* Valid as long as the kernel. "(graph N)" for graphs, "(function HANDLE)" if the driver tells no
 * name, "(others)" if the table is full. Profiles tell nothing about these. */
const char *rbt_kernel_name(const struct rbt_kernel *k);

#endif
