/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of shims and tools to the daemon, over its control socket: SOCK_SEQPACKET, one message
 * per packet, the header first, native byte order (both ends are on the same machine). A reader
 * copies a message out of its buffer, checks its size against its type, and only then uses it.
 *
 * A shim's program is identified by the socket's SO_PEERCRED. A tool names a program by pid. If the
 * daemon does not know the program, the tool sends the program's pidfd and device file with ATTACH,
 * which proves that it may act on it.
 */
#ifndef RBT_PROTO_PROTOCOL_H
#define RBT_PROTO_PROTOCOL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/record.h"
#include "proto/treatment.h"
#include "sched/class.h"
#include "util/cgroup.h"
#include "util/hist.h"
#include "util/rankgroup.h"

#define RBT_PROTOCOL_MAGIC 0x74627201u /* "\1rbt": the low byte is the version */
#define RBT_MSG_MAX        65536

/* The hand's process name, for ps(1) and for tools that must not mistake the hand for a program. */
#define RBT_HAND_NAME "rubato-hand"

/* Environment variables for the shim (set by `rubato run`) and for tools. RBT_ENV_TREAT is another
 * one. */
#define RBT_ENV_SOCKET      "RUBATO_SOCKET"      /* the daemon's control socket */
#define RBT_ENV_RUNTIME_DIR "RUBATO_RUNTIME_DIR" /* the directory of socket, lock and state file */
/* Where the guest's libcuda.so.1 finds the host: a socket of `rubato serve`, or a device. */
#define RBT_ENV_REMOTE    "RUBATO_REMOTE"
#define RBT_ENV_NO_DAEMON "RUBATO_NO_DAEMON" /* 1: the shim acts without a daemon */
/* 1: the policy decides about first runs. A new task waits for its answer, for up to a second. */
#define RBT_ENV_GATE "RUBATO_GATE"
/* The path of `rubato`, which the shim starts if a daemon was killed together with its hand and
 * keeper; and the sandbox (util/sandbox.h) in which it may do so. Set for the user's own daemon
 * only: another one starts the system daemon. */
#define RBT_ENV_HEALER  "RUBATO_HEALER"
#define RBT_ENV_SANDBOX "RUBATO_SANDBOX"
/* From the shim to that command, 1: a daemon that was killed is started again even if it has left
 * no program changed, because a program looks for it. */
#define RBT_ENV_HEAL "RUBATO_HEAL"

/* The run that a process belongs to: processes of one user with the same value share their memory
 * limit. Set by `rubato run`, and by launchers for the processes of one job on this machine. */
#define RBT_ENV_RUN      "RUBATO_RUN"
#define RBT_RUN_NAME_MAX 64

/* "PID VM COMMAND": the guest program whose worker the process is (struct rbt_program_guest). Set by
 * `rubato serve`, so that the shim can tell each new daemon. */
#define RBT_ENV_GUEST "RUBATO_GUEST"

enum rbt_msg_type {
	/* From a shim. None is answered, so that a program never waits. */
	RBT_MSG_HELLO = 1,   /* struct rbt_msg_hello */
	RBT_MSG_RECORD,      /* struct rbt_msg_record, tasks, channels; one fd */
	RBT_MSG_CLIENT_GONE, /* struct rbt_msg_client */

	/* From a tool. Each gets one RESULT as its answer, except LIST: it gets a PROGRAM until
	 * there are no more. */
	/* struct rbt_msg_record, tasks, channels; two fds: device, pidfd. Repeatable */
	RBT_MSG_ATTACH,
	RBT_MSG_RENICE,  /* struct rbt_msg_renice */
	RBT_MSG_SUSPEND, /* struct rbt_msg_suspend */
	RBT_MSG_RESUME,  /* struct rbt_msg_pid */
	/* struct rbt_msg_pid. Answered with the program with the next larger pid, or with a RESULT
	 * after the last one. Its flags may ask for more */
	RBT_MSG_LIST,

	/* From the daemon. */
	RBT_MSG_RESULT, /* struct rbt_msg_result */
	/* struct rbt_msg_program and task states; with RBT_PROGRAM_GUEST, struct
	 * rbt_program_guest; then struct rbt_program_turns, struct rbt_program_account, struct
	 * rbt_program_origin, struct rbt_program_reserve, struct rbt_treatment, struct
	 * rbt_program_memory and struct rbt_place, each only if it was asked for */
	RBT_MSG_PROGRAM,

	/* From `rubato run`, header only, not answered. The sender is about to become a program,
	 * which may use the GPU only much later. */
	RBT_MSG_AWAIT,

	/* From a shim, header only, one fd, not answered: the program's board (board/board.h).
	 * Comes after HELLO, and replaces a board that was sent before. */
	RBT_MSG_BOARD,

	/* From shims of version 0.1.0: daemon/peers/older.c */
	RBT_MSG_WEIGHT,
	RBT_MSG_GROUP,
	RBT_MSG_LIMITS,

	/* From `rubato run`: struct rbt_msg_renice, whose pid is ignored. The RESULT says whether a
	 * program of the sender may have this treatment. */
	RBT_MSG_MAY,

	/* From a shim: struct rbt_msg_treat, not answered. It comes after HELLO, and replaces an
	 * earlier one. */
	RBT_MSG_TREAT,

	/* From a tool, answered with a RESULT: struct rbt_msg_queues. All queues are suspended or
	 * resumed, or none. */
	RBT_MSG_SUSPEND_QUEUES,
	RBT_MSG_RESUME_QUEUES,

	/* From a tool, about policies in eBPF: proto/policy.h has the structs and the answers. */
	RBT_MSG_POLICY_LOAD,   /* struct rbt_msg_policy_load and strings; one fd. A RESULT */
	RBT_MSG_POLICY_UNLOAD, /* struct rbt_msg_policy_unload. A RESULT */
	RBT_MSG_POLICY_SHOW,   /* header only. A POLICY */
	RBT_MSG_POLICY_OBJECT, /* header only. A RESULT with one fd */
	RBT_MSG_POLICY_MAP,    /* struct rbt_msg_policy_map and bytes. A POLICY_MAP or a RESULT */
	RBT_MSG_POLICY_LOG,    /* struct rbt_msg_policy_log. A POLICY_LINE or a RESULT */

	/* From the daemon. */
	RBT_MSG_POLICY,      /* struct rbt_msg_policy */
	RBT_MSG_POLICY_LINE, /* struct rbt_msg_policy_line */

	/* From a shim: struct rbt_msg_run, and one fd if the program has a ledger already
	 * (board/ledger.h). It comes after TREAT, and is not answered. But the daemon sends a
	 * LEDGER when the run has a limit, at once or later. */
	RBT_MSG_RUN,
	/* From the daemon to a shim: struct rbt_msg_ledger, one fd. */
	RBT_MSG_LEDGER,

	/* `rubato trace`: proto/trace.h */
	RBT_MSG_TRACE,        /* from a tool: struct rbt_msg_trace */
	RBT_MSG_TRACE_EVENTS, /* from the daemon: struct rbt_msg_trace_events and events */
	/* Parking: proto/park.h. */
	RBT_MSG_PARK,       /* from a tool: struct rbt_msg_park. A RESULT */
	RBT_MSG_PARK_STATE, /* from a tool: struct rbt_msg_pid. A PARKED */
	RBT_MSG_PARKED,     /* from the daemon: struct rbt_msg_parked */
	/* From `rubato serve`: struct rbt_msg_guest, not answered. The sender is about to become
	 * the worker of a guest's program. */
	RBT_MSG_GUEST,
};

struct rbt_msg_header {
	uint32_t magic;
	uint32_t type; /* enum rbt_msg_type */
};

/* A HELLO of 24 or 32 bytes is from a shim of version 0.1.0 (daemon/peers/older.c). */
struct rbt_msg_hello {
	struct rbt_msg_header h;
	/* When the program was loaded, on the monotonic clock. Orders that users gave for this
	 * process before then were about another program. */
	uint64_t loaded_ns;
};

/* The treatment that the program's environment asks for. */
struct rbt_msg_treat {
	struct rbt_msg_header h;
	struct rbt_treatment treat; /* last, because its size depends on the sender's version */
};

struct rbt_msg_run {
	struct rbt_msg_header h;
	uint32_t slot; /* of the ledger that comes with this */
	uint32_t pad;
	char name[RBT_RUN_NAME_MAX]; /* NUL-terminated; empty: a run of its own */
};

struct rbt_msg_ledger {
	struct rbt_msg_header h;
	uint32_t slot;
	uint32_t pad;
};

/* Replaces the record of this client of this program. */
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
	RBT_LIST_MEMORY = 1 << 5,
	RBT_LIST_PLACE = 1 << 6,
	RBT_LIST_GUEST = 1 << 7,
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
	uint64_t for_ms; /* 0: until it is resumed */
};

/* Single queues of a program. */
struct rbt_msg_queues {
	struct rbt_msg_header h;
	int32_t pid;
	uint32_t n;      /* 1 to RBT_RECORD_MAX_TASKS */
	uint64_t for_ms; /* of a suspend: 0: until they are resumed */
	uint32_t ids[RBT_RECORD_MAX_TASKS];
};

struct rbt_msg_result {
	struct rbt_msg_header h;
	int32_t error; /* 0 or negative errno */
	union {
		uint32_t priority; /* after a RENICE: the program's priority */
		uint32_t load;     /* after a POLICY_LOAD: its number */
	};
	char text[240]; /* a note for the user, also with success; NUL-terminated */
};

enum {
	RBT_PROGRAM_ATTACHED = 1 << 0,
	RBT_PROGRAM_SUSPENDED = 1 << 1,
	RBT_PROGRAM_HELD_BACK = 1 << 2,
	/* kept off for a turn or a reserve, not suspended by command */
	RBT_PROGRAM_WAITING = 1 << 3,
	RBT_PROGRAM_OLDER = 1 << 4,  /* its shim is of version 0.1.0 */
	RBT_PROGRAM_PARKED = 1 << 5, /* its memory is off the GPU, or on its way */
	RBT_PROGRAM_GUEST = 1 << 6,  /* it is the worker of a guest's program */
};

struct rbt_msg_program {
	struct rbt_msg_header h;
	int32_t pid;
	uint32_t uid;
	uint32_t priority;
	uint32_t flags;             /* RBT_PROGRAM_* */
	uint64_t wanted_us;         /* the slice that was ordered; 0: the task's own */
	uint64_t suspended_left_ms; /* 0 with SUSPENDED: until it is resumed */
	uint64_t memory_bytes;      /* valid with RBT_PROGRAM_HAS_MEMORY */
	char note[96]; /* why the program does not have what it asked for; may be empty */
	uint32_t has_memory;
	uint32_t n_tasks;
	/* struct rbt_task_state[n_tasks] follow */
};

/* The guest whose worker a program is. It is shown to users, and decides nothing. */
struct rbt_program_guest {
	char vm[32]; /* the guest's name; empty: the program is no worker */
	char command[60];
	uint32_t pid; /* in the guest */
};

struct rbt_msg_guest {
	struct rbt_msg_header h;
	struct rbt_program_guest guest;
};

/* How a program fares under the daemon's policy. Times count from when the daemon first knew it. */
struct rbt_program_turns {
	char policy[16];
	uint32_t weight;
	/* its submissions are known: it can get a reserve, and gets no turn while idle */
	uint32_t has_board;
	struct rbt_limits limits; /* its own or the configuration's; a share of 0 means none */
	uint64_t on_ns, waited_ns;
	uint64_t n_turns, n_owed_turns;
	uint64_t n_reserves, reserved_ns;
	uint64_t hold_ns;    /* the learnt pause; 0 if nothing is learnt yet */
	uint64_t n_requests; /* announced requests */
};

enum {
	RBT_ACCOUNT_HAS_SUBMISSIONS = 1 << 0, /* the program has a board */
	/* the program has announced requests, or some were seen in its queues */
	RBT_ACCOUNT_HAS_REQUESTS = 1 << 1,
	/* used_ns is time on the GPU, rather than time allowed */
	RBT_ACCOUNT_HAS_USED = 1 << 2,
	RBT_ACCOUNT_HAS_PENDING = 1 << 3, /* the program's queues can be read from outside */
	RBT_ACCOUNT_HAS_LATE = 1 << 4,    /* its requests are announced, maybe with deadlines */
	RBT_ACCOUNT_HAS_DONE = 1 << 5,    /* its queues show when packets are done */
};

/* A program's account, since the daemon first knew it. An unknown value has no bit in `valid`. */
struct rbt_program_account {
	uint32_t valid; /* RBT_ACCOUNT_* */
	uint32_t n_requests_late;
	uint64_t known_ns;       /* how long the program has been known */
	uint64_t used_ns;        /* it was busy and had the GPU, or a share of it */
	uint64_t n_submissions;  /* launches, graphs, copies, memsets */
	uint64_t n_pending;      /* submitted to its queues and not yet fetched by the device */
	uint64_t n_preemptions;  /* how often it was kept off while it wanted the GPU */
	uint64_t n_suspends;     /* suspends by command */
	struct rbt_hist off;     /* how long each preemption lasted */
	struct rbt_hist suspend; /* how long the driver's suspend calls took */
	struct rbt_hist resume;
	/* requests from begin to end: as announced; otherwise, how long its queues had packets */
	struct rbt_hist request;
	/* For requests that took other programs off: from when the first submission was seen until
	 * the others were off, and from then until the first packet was done. With HAS_SUBMISSIONS,
	 * and with HAS_DONE. */
	struct rbt_hist seen_to_off, off_to_done;
};

/* Why a program is treated as it is. An empty string: there is no such reason. */
struct rbt_program_origin {
	char rule[32];                  /* the name of a rule */
	char group[RBT_GROUP_NAME_MAX]; /* the group whose turns it shares */
};

/* Why a program gets no reserve although its priority would give it one. */
enum rbt_no_reserve {
	RBT_NO_RESERVE_NONE,       /* it gets reserves, or has no right to one */
	RBT_NO_RESERVE_UNSEEN,     /* it has no board */
	RBT_NO_RESERVE_OVERSTAYED, /* it has been busy for longer than max_reserve_ms */
	/* its requests are as fast without a reserve, which costs others GPU time */
	RBT_NO_RESERVE_WORTHLESS,
};

struct rbt_program_reserve {
	uint32_t why_not; /* enum rbt_no_reserve */
	uint32_t pad;
	uint64_t n_unreserved; /* requests without a reserve, in a trial or because of why_not */
};

enum {
	RBT_MEMORY_IS_BOUND = 1 << 0,  /* the program's shim keeps the limit */
	RBT_MEMORY_HAS_COUNT = 1 << 1, /* the program counts in its run's ledger */
};

/* How much memory a program may have. What it has by the driver's own count is in struct
 * rbt_msg_program. */
struct rbt_program_memory {
	uint32_t flags; /* RBT_MEMORY_* */
	uint32_t pad;
	uint64_t limit_bytes; /* of its run, on each GPU; 0: none */
	uint64_t count_bytes; /* what the program itself has allocated, on all GPUs */
	uint64_t run_bytes;   /* what its run has allocated, on the GPU where that is most */
	uint64_t gpu_bytes;   /* the size of its smallest GPU; 0: unknown, or without a limit */
};

/* Bits of `suspended` below. */
enum {
	RBT_TASK_OFF = 1 << 0,
	RBT_TASK_OFF_ALONE = 1 << 1, /* by a command that named this task */
};

struct rbt_task_state {
	struct rbt_task task;
	uint64_t timeslice_us;
	uint32_t has_timeslice;
	uint16_t suspended; /* RBT_TASK_OFF* */
	uint16_t backend;   /* enum rbt_backend_id: the backend of task.gpu */
};

static_assert(sizeof(struct rbt_msg_hello) == 16, "wire");
static_assert(offsetof(struct rbt_msg_treat, treat) == 8, "wire");
static_assert(sizeof(struct rbt_msg_run) == 80, "wire");
static_assert(sizeof(struct rbt_msg_ledger) == 16, "wire");
static_assert(sizeof(struct rbt_msg_record) == 32, "wire");
static_assert(offsetof(struct rbt_msg_renice, treat) == 16, "wire");
static_assert(sizeof(struct rbt_msg_queues) == 24 + 4 * RBT_RECORD_MAX_TASKS, "wire");
static_assert(sizeof(struct rbt_msg_program) == 152, "wire");
static_assert(sizeof(struct rbt_program_turns) == 96, "wire");
static_assert(sizeof(struct rbt_program_account) == 56 + 6 * 816, "wire");
static_assert(sizeof(struct rbt_program_guest) == 96, "wire");
static_assert(sizeof(struct rbt_program_origin) == 96, "wire");
static_assert(sizeof(struct rbt_program_reserve) == 16, "wire");
static_assert(sizeof(struct rbt_program_memory) == 40, "wire");
static_assert(sizeof(struct rbt_task_state) == 64, "wire");
static_assert(sizeof(struct rbt_place) == 128, "wire");

#endif
