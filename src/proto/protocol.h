/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shims and tools say to the daemon over its control socket: SOCK_SEQPACKET, one message a
 * packet, a header first, native byte order (both ends are on this machine). A reader copies a
 * message out of its buffer, checks its size against its type, and only then believes it.
 *
 * A program's identity is the socket's SO_PEERCRED; a tool names a program by pid, and proves its
 * hold on one the daemon does not know by sending its pidfd and device fd with ATTACH.
 */
#ifndef RBT_PROTO_PROTOCOL_H
#define RBT_PROTO_PROTOCOL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/record.h"
#include "proto/treatment.h"
#include "sched/class.h"
#include "util/hist.h"
#include "util/rankgroup.h"

#define RBT_PROTOCOL_MAGIC 0x74627201u /* "\1rbt": the low byte is the version */
#define RBT_MSG_MAX        65536

/* What the hand calls itself, for ps(1) and for tools that must not take it for a program. */
#define RBT_HAND_NAME "rubato-hand"

/* Environment between `rubato run` and the shim, and for tools; RBT_ENV_TREAT besides. */
#define RBT_ENV_SOCKET      "RUBATO_SOCKET"      /* the daemon's control socket */
#define RBT_ENV_RUNTIME_DIR "RUBATO_RUNTIME_DIR" /* where socket, lock and state file live */
#define RBT_ENV_NO_DAEMON   "RUBATO_NO_DAEMON"   /* 1: the shim acts alone */

enum rbt_msg_type {
	/* from a shim; none is answered, so that nothing in a program ever waits */
	RBT_MSG_HELLO = 1,   /* struct rbt_msg_hello */
	RBT_MSG_RECORD,      /* struct rbt_msg_record, tasks, channels; one fd */
	RBT_MSG_CLIENT_GONE, /* struct rbt_msg_client */

	/* from a tool; each is answered by one RESULT (LIST by one PROGRAM, while there is one) */
	/* struct rbt_msg_record, tasks, channels; two fds: device, pidfd. Repeatable */
	RBT_MSG_ATTACH,
	RBT_MSG_RENICE,  /* struct rbt_msg_renice */
	RBT_MSG_SUSPEND, /* struct rbt_msg_suspend */
	RBT_MSG_RESUME,  /* struct rbt_msg_pid */
	/* struct rbt_msg_pid: the program with the next larger pid, or a RESULT after the last.
	 * Its flags may ask for more */
	RBT_MSG_LIST,

	/* from the daemon */
	RBT_MSG_RESULT, /* struct rbt_msg_result */
	/* struct rbt_msg_program, task states; struct rbt_program_turns, struct
	 * rbt_program_account, struct rbt_program_origin, struct rbt_program_reserve and struct
	 * rbt_treatment, each if it was asked for */
	RBT_MSG_PROGRAM,

	/* from `rubato run`, header only, not answered: the sender is about to become a program,
	 * which may take its time to use the GPU. */
	RBT_MSG_AWAIT,

	/* from a shim, header only, one fd, not answered: the program's board (board/board.h), in
	 * place of any that was sent before. After HELLO. */
	RBT_MSG_BOARD,

	/* from shims of version 0.1.0: daemon/peers/older.c */
	RBT_MSG_WEIGHT,
	RBT_MSG_GROUP,
	RBT_MSG_LIMITS,

	/* from `rubato run`, struct rbt_msg_renice of which pid does not count, answered by one
	 * RESULT: whether a program of the sender's may have that. */
	RBT_MSG_MAY,

	/* from a shim, struct rbt_msg_treat, not answered. It comes after HELLO, and replaces an
	 * earlier one. */
	RBT_MSG_TREAT,
};

struct rbt_msg_header {
	uint32_t magic;
	uint32_t type; /* enum rbt_msg_type */
};

/* A HELLO of 24 or 32 bytes is from a shim of version 0.1.0 (daemon/peers/older.c). */
struct rbt_msg_hello {
	struct rbt_msg_header h;
	/* When the program was loaded, on the monotonic clock: what users said of the process
	 * before was about another one. */
	uint64_t loaded_ns;
};

/* How the program is to be treated, by its environment. */
struct rbt_msg_treat {
	struct rbt_msg_header h;
	struct rbt_treatment treat; /* last, because its size depends on the sender's version */
};

/* Replaces what was known of this client of this program. */
struct rbt_msg_record {
	struct rbt_msg_header h;
	uint32_t backend;
	uint32_t client;
	int32_t target_fd;
	uint32_t n_tasks, n_channels;
	uint32_t flags; /* RBT_RECORD_* */
			/* struct rbt_task[n_tasks], uint32_t[n_channels] follow */
};

struct rbt_msg_client {
	struct rbt_msg_header h;
	uint32_t backend;
	uint32_t client;
};

enum {
	RBT_LIST_TURNS = 1 << 0,
	RBT_LIST_ACCOUNT = 1 << 1,
	RBT_LIST_ORIGIN = 1 << 2,
	RBT_LIST_RESERVE = 1 << 3,
	RBT_LIST_TREAT = 1 << 4,
};

struct rbt_msg_pid {
	struct rbt_msg_header h;
	int32_t pid;
	uint32_t flags; /* of a LIST: RBT_LIST_* */
};

/* A key that is neither said nor reset stays as it is. */
struct rbt_msg_renice {
	struct rbt_msg_header h;
	int32_t pid;
	uint32_t pad;
	struct rbt_treatment treat; /* last, because its size depends on the sender's version */
};

struct rbt_msg_suspend {
	struct rbt_msg_header h;
	int32_t pid;
	uint32_t pad;
	uint64_t for_ms; /* 0: until resumed */
};

struct rbt_msg_result {
	struct rbt_msg_header h;
	int32_t error;     /* 0 or negative errno */
	uint32_t priority; /* after a RENICE: the program's */
	char text[240];    /* what to tell the user, also beside success; NUL-terminated */
};

enum {
	RBT_PROGRAM_ATTACHED = 1 << 0,
	RBT_PROGRAM_SUSPENDED = 1 << 1,
	RBT_PROGRAM_HELD_BACK = 1 << 2,
	RBT_PROGRAM_WAITING = 1 << 3, /* kept off by turns or a reserve, not by command */
	RBT_PROGRAM_OLDER = 1 << 4,   /* its shim is of version 0.1.0 */
};

struct rbt_msg_program {
	struct rbt_msg_header h;
	int32_t pid;
	uint32_t uid;
	uint32_t priority;
	uint32_t flags;             /* RBT_PROGRAM_* */
	uint64_t wanted_us;         /* slice asked for; 0: the driver's own */
	uint64_t suspended_left_ms; /* 0 with SUSPENDED: until resumed */
	uint64_t memory_bytes;      /* RBT_PROGRAM_HAS_MEMORY */
	char note[96]; /* why the program does not have what it asked for; may be empty */
	uint32_t has_memory;
	uint32_t n_tasks;
	/* struct rbt_task_state[n_tasks] follow */
};

/* How a program fares under its daemon's policy. Times since it was known. */
struct rbt_program_turns {
	char policy[16];
	uint32_t weight;
	uint32_t has_board;       /* what it submits is known: reserve, no turns while idle */
	struct rbt_limits limits; /* its own, or the configuration's; no share is 0 */
	uint64_t on_ns, waited_ns;
	uint64_t n_turns, n_owed_turns;
	uint64_t n_reserves, reserved_ns;
	uint64_t hold_ns;    /* the window learnt; 0 also when there is none yet */
	uint64_t n_requests; /* as told by the program */
};

enum {
	RBT_ACCOUNT_HAS_SUBMISSIONS = 1 << 0, /* it has a board */
	RBT_ACCOUNT_HAS_REQUESTS = 1 << 1,    /* it has told of some */
	RBT_ACCOUNT_HAS_USED = 1 << 2,        /* used_ns means time on the GPU, not time allowed */
	RBT_ACCOUNT_HAS_PENDING = 1 << 3,     /* its queues can be read from outside */
};

/* What a program has had since it was known. What is not known has no bit in `valid`. */
struct rbt_program_account {
	uint32_t valid; /* RBT_ACCOUNT_* */
	uint32_t n_requests_late;
	uint64_t known_ns;       /* for how long it has been known */
	uint64_t used_ns;        /* was busy and had the GPU, or a share of it */
	uint64_t n_submissions;  /* launches, graphs, copies, memsets */
	uint64_t n_pending;      /* submitted to its queues and not yet fetched, now */
	uint64_t n_preemptions;  /* taken off while it wanted the GPU: by turns or a reserve */
	uint64_t n_suspends;     /* by command */
	struct rbt_hist off;     /* how long each time of these lasted */
	struct rbt_hist suspend; /* what taking it off took: the driver's call */
	struct rbt_hist resume;
	struct rbt_hist request; /* from begin to end, as told by the program */
};

/* Why a program is treated as it is. Empty: for no such reason. */
struct rbt_program_origin {
	char rule[32];                  /* of the configuration */
	char group[RBT_GROUP_NAME_MAX]; /* whose turns it shares */
};

/* Why the GPU is not reserved for a program that would have that by its priority. */
enum rbt_no_reserve {
	RBT_NO_RESERVE_NONE,       /* it is, or the program would not have it anyway */
	RBT_NO_RESERVE_UNSEEN,     /* it has no board */
	RBT_NO_RESERVE_OVERSTAYED, /* it has been busy for longer than max_reserve_ms */
	RBT_NO_RESERVE_WORTHLESS,  /* its requests are as fast without, and others pay for it */
};

struct rbt_program_reserve {
	uint32_t why_not; /* enum rbt_no_reserve */
	uint32_t pad;
	uint64_t n_unreserved; /* requests that ran without one, to compare or because of that */
};

struct rbt_task_state {
	struct rbt_task task;
	uint64_t timeslice_us;
	uint32_t has_timeslice;
	uint16_t suspended;
	uint16_t backend; /* enum rbt_backend_id: whose GPU task.gpu is */
};

static_assert(sizeof(struct rbt_msg_hello) == 16, "wire");
static_assert(offsetof(struct rbt_msg_treat, treat) == 8, "wire");
static_assert(sizeof(struct rbt_msg_record) == 32, "wire");
static_assert(offsetof(struct rbt_msg_renice, treat) == 16, "wire");
static_assert(sizeof(struct rbt_msg_program) == 152, "wire");
static_assert(sizeof(struct rbt_program_turns) == 96, "wire");
static_assert(sizeof(struct rbt_program_account) == 568, "wire");
static_assert(sizeof(struct rbt_program_origin) == 96, "wire");
static_assert(sizeof(struct rbt_program_reserve) == 16, "wire");
static_assert(sizeof(struct rbt_task_state) == 64, "wire");

#endif
