/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda's dialogue with the driver (RM), in libcuda's order. It makes a program of the software
 * GPU look like a CUDA program to everything that observes or controls one. Calls go through libc's
 * ioctl(), so that a preloaded library sees them.
 */
#ifndef RBT_SOFTGPU_CUDA_RM_H
#define RBT_SOFTGPU_CUDA_RM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "softgpu/device/abi.h"

#define FRONT_RM_TSGS    4 /* of a context: one for kernels, three for copies */
#define FRONT_RM_GPUS    32
#define FRONT_RM_CHUNK   (2ull << 20) /* memory is told to RM in such steps */
#define FRONT_RM_OBJECTS 64

struct front_card {
	uint32_t domain, bus, slot, minor;
	char name[64];
};

/* The process's client. */
struct front_rm {
	int ctl, uvm;
	int gpu[FRONT_RM_GPUS];
	uint32_t client;
	uint32_t device[FRONT_RM_GPUS], subdevice[FRONT_RM_GPUS]; /* 0: not made yet */
	bool old_schedule;                                        /* a driver before 575 */
	pthread_mutex_t lock;
};

struct front_rm_context {
	int gpu;
	uint32_t client;
	uint32_t tsgs[FRONT_RM_TSGS];
	uint32_t channels[GPU_MAX_CHANNELS]; /* of the first group */
	/* Memory that RM knows of: objects of any multiple of FRONT_RM_CHUNK. */
	uint64_t memory_bytes;
	uint32_t n_memory;
	struct {
		uint32_t handle;
		uint64_t size;
	} memory[FRONT_RM_OBJECTS];
};

/* cuInit: nodes, version, cards, the client. Returns the number of GPUs, or -errno: -ENOENT: no
 * driver; -EIO: it does not answer. */
int front_rm_open(struct front_rm *rm, struct front_card cards[FRONT_RM_GPUS]);
/* In a forked child: closes the parent's files without a call. */
void front_rm_forked(struct front_rm *rm);

/* A context's groups, channels, slice. 0 or -errno. */
int front_rm_context_make(struct front_rm *rm, int gpu, struct front_rm_context *ret);
void front_rm_context_free(struct front_rm *rm, struct front_rm_context *x);

/* Takes from RM, or gives back, so that the context has this many bytes, in steps of
 * FRONT_RM_CHUNK, as libcuda does. 0, or -errno if RM refuses: then nothing has changed. */
int front_rm_memory(struct front_rm *rm, struct front_rm_context *x, uint64_t bytes);

#endif
