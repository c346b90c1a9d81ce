/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between supervisors or tools and a session's device server: SOCK_SEQPACKET, one message
 * per packet, a header first, native byte order. A supervisor forwards each call of a program under
 * its own cookie. The server may ask for more of the program's memory (READ, answered by BYTES) and
 * ends with DONE, which carries the bytes to be written. The server itself never accesses a
 * program: Yama forbids it, but allows the supervisor, which is an ancestor.
 */
#ifndef RBT_SOFTGPU_SERVE_LINK_H
#define RBT_SOFTGPU_SERVE_LINK_H

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <sys/types.h>

#include "softgpu/kfd/kfd.h"
#include "softgpu/rm/rm.h"

#define LINK_MAGIC        0x53475501u /* "\1UGS": the low byte is the version */
#define LINK_MAX          65536u
#define LINK_MAX_PATH     256u
#define LINK_MAX_READ     32768u
#define LINK_MAX_PREFETCH 8u

#define SOCKET_NAME "device.sock"
#define LOCK_NAME   "device.lock"
#define LOG_NAME    "device.log"
#define SERVER_NAME "softgpu-device" /* for ps(1), and to distinguish it from programs */

/*
 * Fake nodes are memfds of this name: the server's number, then the path of the node. A supervisor
 * accepts only those of its own server as device nodes, so that concurrent sessions do not see each
 * other's programs.
 */
#define MEMFD_NAME_FMT "rubato:%016" PRIx64 ":%s"

enum link_type {
	/* from a supervisor */
	LINK_HELLO = 1, /* header only; answered by WELCOME */
	/* struct link_open; answered by DONE with an fd, or an error. For /dev/kfd it brings an fd
	 * of the program's memory. */
	LINK_OPEN,
	LINK_IOCTL, /* struct link_ioctl, regions; answered by READs and a DONE */
	LINK_BYTES, /* struct link_bytes, the bytes */
	LINK_BYE,   /* header only: the last program of a private session has ended */
	/* from a tool; each is answered by a RESULT */
	LINK_STATE,        /* struct link_state; the RESULT brings an fd with the text */
	LINK_FAULT,        /* struct link_fault */
	LINK_CLEAR_FAULTS, /* header only */
	LINK_KILL,         /* header only; answered by the end of the connection */
	/* from the server */
	LINK_WELCOME, /* struct link_welcome */
	LINK_READ,    /* struct link_read */
	LINK_DONE,    /* struct link_done, regions */
	LINK_RESULT,  /* struct link_result */
	/* from a tool, as LINK_FAULT */
	LINK_KFD_FAULT,     /* struct link_kfd_fault */
	LINK_PROCESS_FAULT, /* struct link_process_fault */
};

struct link_header {
	uint32_t magic, type;
	uint64_t cookie;
};

struct link_open {
	struct link_header h;
	int32_t tid;
	uint32_t flags;
	char path[LINK_MAX_PATH]; /* NUL-terminated */
};

struct link_ioctl {
	struct link_header h;
	int32_t tid;
	uint32_t request;
	uint64_t arg, inode;
	uint32_t n_regions;
	uint32_t blocked; /* LINK_CANNOT_…: about the argument, if the type is KFD's */
};
#define LINK_CANNOT_READ  1u
#define LINK_CANNOT_WRITE 2u

/* Bytes of the program's memory; they follow the header, without padding. */
struct link_region {
	uint64_t addr;
	uint32_t size, pad;
};

struct link_read {
	struct link_header h;
	uint64_t addr;
	uint32_t size, pad;
};

struct link_bytes {
	struct link_header h;
	uint64_t addr;
	uint32_t size; /* also if the bytes are missing */
	int32_t error; /* 0 or negative errno: no bytes follow */
};

struct link_done {
	struct link_header h;
	int64_t value;
	int32_t error; /* 0 or negative errno */
	uint32_t n_regions;
};

struct link_state {
	struct link_header h;
	uint32_t json, pad;
};

struct link_fault {
	struct link_header h;
	struct rbt_rm_fault fault;
};

struct link_kfd_fault {
	struct link_header h;
	struct rbt_kfd_fault fault;
};

/* Checkpoint calls of one kind take at least so long. */
struct link_process_fault {
	struct link_header h;
	uint32_t action, pad; /* enum gpu_process_action */
	uint64_t delay_us;
};

/* The options of a session. */
struct link_config {
	struct rbt_rm_config rm;
	uint32_t n_sms;     /* of each GPU */
	uint32_t mechanism; /* enum rbt_mechanism */
	struct rbt_kfd_config kfd;
};

struct link_welcome {
	struct link_header h;
	struct link_config config;
	uint64_t server_id; /* see MEMFD_NAME_FMT */
	uint32_t n_prefetch, pad;
	struct rbt_rm_prefetch prefetch[LINK_MAX_PREFETCH];
};

struct link_result {
	struct link_header h;
	int32_t error;
	uint32_t pad;
};

static_assert(sizeof(struct link_region) == 16, "wire");
static_assert(sizeof(struct link_ioctl) == 48, "wire");
static_assert(sizeof(struct link_done) == 32, "wire");

static inline struct link_header link_header(uint32_t type, uint64_t cookie)
{
	return (struct link_header){.magic = LINK_MAGIC, .type = type, .cookie = cookie};
}

#endif
