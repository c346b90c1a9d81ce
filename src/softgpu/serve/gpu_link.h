/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a program's libcuda to the session's device server beside RM's ioctls, with link.h's
 * socket and framing. Every request is answered by one GPU_REPLY with the request's cookie. When a
 * connection ends, everything that it made is freed; when the server ends, the connection ends.
 *
 * The socket is SOCKET_NAME in the session's directory, which readlink(SESSION_LINK) returns.
 */
#ifndef RBT_SOFTGPU_SERVE_GPU_LINK_H
#define RBT_SOFTGPU_SERVE_GPU_LINK_H

#include "softgpu/device/abi.h"
#include "softgpu/serve/link.h"

enum gpu_link_type {
	/* struct gpu_hello: the reply brings the arena, of `value` bytes, and the bell */
	GPU_HELLO = 64,
	/* struct gpu_context: the reply brings its room; value: its number */
	GPU_CONTEXT,
	GPU_CONTEXT_END, /* struct gpu_object; object: unused */
	GPU_ALLOC,       /* struct gpu_memory; value: the address */
	GPU_PIN,         /* struct gpu_memory, with address; answered with the memory */
	GPU_FREE,        /* struct gpu_memory, with address */
	/* struct gpu_module and an fd of a memfd that contains the text from its start. value: the
	 * module's number; then `count` uint64_t addresses of its variables. On failure `text` has
	 * the reason, for the program's log. */
	GPU_MODULE,
	GPU_UNLOAD, /* struct gpu_object */
	GPU_MEMORY, /* struct gpu_object; value: bytes free, memory_bytes: in all */
	/* struct gpu_process: a checkpoint call on another process, answered when it is done.
	 * value: a CUresult; n_sms: the state */
	GPU_PROCESS,
	/* struct gpu_share and a memfd that cannot shrink: the program's own shared memory becomes
	 * reachable at the program's address */
	GPU_SHARE,
	/* from the server */
	GPU_REPLY = 96, /* struct gpu_reply */
};

#define GPU_MAX_TEXT      (16u << 20)
#define GPU_MAX_VARIABLES 7000u /* whose addresses fit into one packet */

struct gpu_hello {
	struct link_header h;
	uint32_t version; /* GPU_ABI_VERSION */
	uint32_t gpu;
};

/*
 * Binds a context's channels to objects that the program made through RM, so that changes of those
 * (slices, disabling) apply to the channels. They must belong to the calling process.
 */
struct gpu_context {
	struct link_header h;
	uint32_t client, tsg; /* RM handles; the compute group */
	uint32_t n_channels, zero;
	uint32_t channels[GPU_MAX_CHANNELS]; /* handles of the group's channels */
};

struct gpu_memory {
	struct link_header h;
	uint32_t context, zero;
	uint64_t size, address;
};

struct gpu_share {
	struct link_header h;
	uint32_t context, zero;
	uint64_t size, address, offset; /* of the file */
};

struct gpu_module {
	struct link_header h;
	uint32_t context, zero;
	uint64_t size; /* of the text, at most GPU_MAX_TEXT */
};

struct gpu_object {
	struct link_header h;
	uint32_t context, object;
};

enum gpu_process_action {
	GPU_PROCESS_STATE,
	GPU_PROCESS_LOCK,
	GPU_PROCESS_CHECKPOINT,
	GPU_PROCESS_RESTORE,
	GPU_PROCESS_UNLOCK,
	GPU_N_PROCESS_ACTIONS,
};

struct gpu_process {
	struct link_header h;
	int32_t pid;
	uint32_t action;
	uint32_t timeout_ms, zero; /* of LOCK; 0: none */
};

struct gpu_reply {
	struct link_header h;
	int32_t error;  /* 0 or negative errno */
	uint32_t count; /* uint64_t values that follow */
	uint64_t value;
	uint32_t n_sms, zero; /* of GPU_HELLO */
	uint64_t memory_bytes;
	char text[160]; /* NUL-terminated */
};

static_assert(sizeof(struct gpu_context) == 64, "wire");
static_assert(sizeof(struct gpu_reply) == 208, "wire");

#endif
