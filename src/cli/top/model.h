/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `rubato top` knows: samples go in, rows with rates come out. Pure: no I/O, no clock, no
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

/* What one sample says of a program. */
struct top_reading {
	pid_t pid;
	uid_t uid;
	uint64_t at_ns;      /* when this was so */
	uint64_t start_time; /* with the pid, names a process for good; 0 when not known */
	bool managed, attached, held_back, suspended, waiting;
	bool unseen; /* its tasks could not be looked at: its state is not known */
	bool has_memory, has_turns, has_account;
	unsigned priority;
	uint32_t gpus; /* a bit for each GPU it has tasks on, by index in the sample's table */
	uint64_t suspended_left_ms, memory_bytes;
	struct rbt_program_turns turns;
	struct rbt_program_account account;
	char user[32];
	char note[128];
	char command[512]; /* as it is in /proc: any bytes */
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
	TOP_DAEMON_MUTE, /* it is there, and does not answer */
};

struct top_sample {
	uint64_t now_ns;
	enum top_daemon daemon; /* our own */
	size_t n_readings, capacity;
	struct top_reading *readings; /* owned */
	struct rbt_gpu_table table;
	size_t n_gpus;
	struct top_gpu gpus[RBT_MAX_GPUS];
};

struct top_sample *top_sample_create(void);
void top_sample_destroy(struct top_sample *s);
/* A new reading at the end, all zero; NULL without memory. Others may move. */
struct top_reading *top_sample_add(struct top_sample *s);

enum {
	TOP_HAS_SHARE = 1 << 0,
	TOP_HAS_WAIT = 1 << 1,
	TOP_HAS_TURNS = 1 << 2,
	TOP_HAS_REQUESTS = 1 << 3,
	TOP_HAS_P99 = 1 << 4,
	TOP_HAS_RESERVED = 1 << 5,
	/* The share is the time it was let on the GPU: whether it had use for it is not known. */
	TOP_SHARE_IS_ALLOWED = 1 << 6,
};

enum top_state {
	TOP_STATE_UNKNOWN,
	TOP_STATE_RUNNING,
	TOP_STATE_TURN,     /* runs while others wait for their turn */
	TOP_STATE_RESERVES, /* others are kept off for it */
	TOP_STATE_WAITING,
	TOP_STATE_SUSPENDED,
};

struct top_row {
	struct top_reading now;
	enum top_state state;
	uint32_t valid;               /* TOP_HAS_* */
	double share, wait, reserved; /* parts of the last interval, 0 to 1 */
	double turns_per_s, requests_per_s;
	uint64_t p99_ns;            /* of requests, over the last 15 to 30 samples */
	float history[TOP_HISTORY]; /* shares, a ring; negative: not known */
	unsigned n_history, at;     /* the next goes to history[at] */
	struct rbt_hist base[2];    /* requests: as of two moments past */
	unsigned base_age;          /* samples since base[1] was taken */
	bool has_base;
};

/* What a GPU's programs have of it, by class (enum rbt_class). */
struct top_use {
	double share[3];
	bool has_share[3];
	bool is_allowed;       /* some of it is time that was allowed, not known to be used */
	uint64_t memory_bytes; /* of programs on this GPU alone: a sum is not split */
	bool has_memory;
	unsigned n_programs;
	const struct top_row *turn, *reserve; /* who has them; NULL: nobody, or not known */
};

struct top_model {
	struct top_row *rows; /* owned, in the order of the last sample */
	size_t n_rows;
	uint64_t last_ns, interval_ns; /* between samples; 0 before there were two */
	enum top_daemon daemon;
	struct rbt_gpu_table table;
	size_t n_gpus;
	struct top_gpu gpus[RBT_MAX_GPUS];
};

void top_model_init(struct top_model *m);
void top_model_finish(struct top_model *m);
/* 0, or -ENOMEM with the model as before. */
int top_model_update(struct top_model *m, const struct top_sample *s);

/* Sums over the rows that are on a GPU. */
void top_model_use(const struct top_model *m, uint32_t gpu, struct top_use *ret);
/* How many rows are in that state. */
size_t top_model_count(const struct top_model *m, enum top_state state);
/* The daemon's policy, of whichever program tells; NULL when none does. */
const char *top_model_policy(const struct top_model *m);
/* The history's entry `ago` samples back, 0 for the last; negative when not known. */
float top_row_history(const struct top_row *r, unsigned ago);

/* Whether it is known how many packets wait in its queues. */
bool top_row_has_pending(const struct top_row *r);

/* Without the folder of its first word. Points into it. */
const char *top_short_command(const char *command);

/* order.c: which rows are shown, in which order */

/* The columns, from left to right; what can be sorted by. */
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
	TOP_BY_PENDING,
	TOP_BY_REQUESTS,
	TOP_BY_P99,
	TOP_BY_TURNS,
	TOP_BY_HISTORY, /* the same as by share */
	TOP_BY_COMMAND,
	TOP_N_COLUMNS,
};

struct top_order {
	enum top_by by;
	bool reverse; /* against its own direction: numbers fall, names and pids rise */
	char filter[64];
};

/* Rows in order, as indices into m->rows; `ret` has room for m->n_rows. Returns how many pass the
 * filter. What is not known comes last either way; equals are by pid. */
size_t top_order_rows(const struct top_model *m, const struct top_order *o, size_t *ret);
/* Whether the filter's text is in command, user, pid or class, in whatever case. */
bool top_filter_matches(const struct top_row *r, const char *filter);

#endif
