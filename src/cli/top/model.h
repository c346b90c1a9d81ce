/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of `rubato top`: samples go in, rows with rates come out. Pure: no I/O, no clock, no
 * terminal. Unknown is not zero: every rate has a valid bit.
 */
#ifndef RBT_CLI_TOP_MODEL_H
#define RBT_CLI_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/gpus.h"
#include "proto/protocol.h"

#define TOP_HISTORY 64

/* One sample of a program. */
struct top_reading {
	pid_t pid;
	uid_t uid;
	uint64_t at_ns;      /* time of the sample */
	uint64_t start_time; /* with the pid, identifies a process for good; 0: unknown */
	bool managed, attached, held_back, suspended, waiting, parked;
	bool unseen; /* its tasks could not be found: its state is unknown */
	bool has_memory, has_turns, has_account;
	unsigned priority;
	uint32_t gpus; /* a bit for each GPU it has tasks on, by index in the sample's table */
	uint64_t suspended_left_ms, memory_bytes;
	uint64_t limit_bytes; /* of memory; 0: none, or unknown */
	bool is_bound;        /* the limit is enforced */
	struct rbt_program_turns turns;
	struct rbt_program_account account;
	struct rbt_place place;
	struct rbt_program_guest guest; /* an empty vm: none */
	char user[32];
	char note[128];
	char command[512]; /* as in /proc: any bytes */
};

struct top_gpu {
	uint32_t index; /* in the table */
	bool has_memory;
	uint64_t memory_bytes;
	char name[64];
	char driver[40]; /* "nvidia 580.159.04" */
};

enum top_daemon {
	TOP_DAEMON_NONE,
	TOP_DAEMON_RUNS,
	TOP_DAEMON_MUTE, /* it runs, but does not answer */
};

struct top_sample {
	uint64_t now_ns;
	enum top_daemon daemon; /* our own daemon */
	size_t n_readings, capacity;
	struct top_reading *readings; /* owned */
	struct rbt_gpu_table table;
	size_t n_gpus;
	struct top_gpu gpus[RBT_MAX_GPUS];
};

struct top_sample *top_sample_create(void);
void top_sample_destroy(struct top_sample *s);
/* Appends a zeroed reading; NULL: no memory. Other readings may move. */
struct top_reading *top_sample_add(struct top_sample *s);

enum {
	TOP_HAS_SHARE = 1 << 0,
	TOP_HAS_WAIT = 1 << 1,
	TOP_HAS_TURNS = 1 << 2,
	TOP_HAS_REQUESTS = 1 << 3,
	TOP_HAS_P99 = 1 << 4,
	TOP_HAS_RESERVED = 1 << 5,
	/* The share is the time that it was let on the GPU: whether it used the time is unknown. */
	TOP_SHARE_IS_ALLOWED = 1 << 6,
	TOP_HAS_OFF = 1 << 7,
	TOP_HAS_DONE = 1 << 8,
};

/* A histogram that only grows, at two earlier times: what came since is its recent part. */
struct top_window {
	struct rbt_hist base[2];
	unsigned base_age; /* samples since base[1] was taken */
	bool has_base;
};

enum top_state {
	TOP_STATE_UNKNOWN,
	TOP_STATE_RUNNING,
	TOP_STATE_TURN,     /* runs while others wait for their turn */
	TOP_STATE_RESERVES, /* others are kept off for it */
	TOP_STATE_WAITING,
	TOP_STATE_SUSPENDED,
	TOP_STATE_PARKED,
};

struct top_row {
	struct top_reading now;
	enum top_state state;
	uint32_t valid;               /* TOP_HAS_* */
	double share, wait, reserved; /* shares of the last interval, 0 to 1 */
	double turns_per_s, requests_per_s;
	/* 99th percentiles over the last 15 to 30 samples: of requests, and of seen_to_off and
	 * off_to_done of the account. */
	uint64_t p99_ns, off_ns, done_ns;
	float history[TOP_HISTORY]; /* shares, a ring; negative: unknown */
	unsigned n_history, at;     /* index of the next entry */
	struct top_window requests, offs, dones;
};

/* The shares of a GPU that its programs have, by class (enum rbt_class). */
struct top_use {
	double share[3];
	bool has_share[3];
	bool is_allowed;       /* part of it is time that was allowed, maybe unused */
	uint64_t memory_bytes; /* of programs on this GPU alone: a sum cannot be split */
	bool has_memory;
	unsigned n_programs;
	const struct top_row *turn, *reserve; /* the program that has it; NULL: none, or unknown */
};

struct top_model {
	struct top_row *rows; /* owned, in the order of the last sample */
	size_t n_rows;
	uint64_t last_ns, interval_ns; /* between samples; 0: there were not two yet */
	enum top_daemon daemon;
	struct rbt_gpu_table table;
	size_t n_gpus;
	struct top_gpu gpus[RBT_MAX_GPUS];
};

void top_model_init(struct top_model *m);
void top_model_finish(struct top_model *m);
/* 0, or -ENOMEM with the model unchanged. */
int top_model_update(struct top_model *m, const struct top_sample *s);

/* Sums over the rows on a GPU. */
void top_model_use(const struct top_model *m, uint32_t gpu, struct top_use *ret);
/* The number of rows in this state. */
size_t top_model_count(const struct top_model *m, enum top_state state);
/* The daemon's policy, from any program that has it; NULL: unknown. */
const char *top_model_policy(const struct top_model *m);
/* The history's entry `ago` samples back, 0 for the last; negative: unknown. */
float top_row_history(const struct top_row *r, unsigned ago);

/* The program's guest, otherwise its Slurm job, otherwise its pod, otherwise its container, and
 * what kind of place that is; NULL: none is known. */
const char *top_row_place(const struct top_row *r, const char **ret_kind);

/* Whether the number of packets in its queues is known. */
bool top_row_has_pending(const struct top_row *r);

/* The command without the folder of its first word. Points into `command`. */
const char *top_short_command(const char *command);

/* order.c: which rows are shown, in which order */

/* The columns, from left to right, which are also the sort keys. */
enum top_by {
	TOP_BY_PID,
	TOP_BY_USER,
	TOP_BY_CLASS,
	TOP_BY_PRIORITY,
	TOP_BY_STATE,
	TOP_BY_GPU,
	TOP_BY_SHARE,
	TOP_BY_WAIT,
	TOP_BY_MEMORY,
	TOP_BY_LIMIT,
	TOP_BY_PENDING,
	TOP_BY_REQUESTS,
	TOP_BY_P99,
	TOP_BY_OFF,
	TOP_BY_DONE,
	TOP_BY_TURNS,
	TOP_BY_HISTORY, /* sorts by share */
	TOP_BY_PLACE,   /* Slurm job, pod or container */
	TOP_BY_COMMAND,
	TOP_N_COLUMNS,
};

struct top_order {
	enum top_by by;
	bool reverse; /* numbers usually fall, names and pids rise */
	char filter[64];
};

/* The rows in order, as indices into m->rows; `ret` has room for m->n_rows. Returns how many pass
 * the filter. Unknown values come last in both directions; equal rows are ordered by pid. */
size_t top_order_rows(const struct top_model *m, const struct top_order *o, size_t *ret);
/* Whether command, user, pid, class or place contains the filter's text, ignoring case. */
bool top_filter_matches(const struct top_row *r, const char *filter);

#endif
