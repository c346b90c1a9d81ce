/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and their clients, as the daemon knows them.
 */
#ifndef RBT_DAEMON_PROGRAM_H
#define RBT_DAEMON_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "act/holding.h"
#include "board/board.h"
#include "daemon/attach/rules.h"
#include "daemon/doubt.h"
#include "daemon/events.h"
#include "daemon/gate.h"
#include "daemon/loop.h"
#include "daemon/metrics/account.h"
#include "daemon/policy/hooks.h"
#include "daemon/queues.h"
#include "daemon/run.h"
#include "daemon/schedule.h"
#include "daemon/trace.h"
#include "proto/treatment.h"
#include "sched/core.h"
#include "util/cgroup.h"

struct peer;
struct user;

/* One client of a program: a record held by the daemon and by the hand. mine->applied has what was
 * applied to it, and nothing else has. */
struct client {
	uint32_t id;
	struct rbt_holding *mine; /* in the daemon's table */
	struct program *program;
	uint32_t backend, client;
	bool in_hand; /* the hand has the current record */
	/* Decisions are to be applied again, even if they were applied before: the record names
	 * new tasks, or the hand or the driver has undone or refused some of it. */
	bool stale;
	bool refused;           /* the driver refused an action: tried again with the next change */
	bool is_beyond;         /* has a task on a GPU without an index, since too many have one */
	uint64_t new_since_ns;  /* its program is setting up a task; 0: not */
	bool is_held;           /* a task of it is refused its first run, and stays new */
	uint64_t poll_retry_ns; /* its queues could not be polled: not before this */
	struct client_tasks tasks;
	int board_fd; /* for the hand to write to, if the program has no board; -1 */
	LIST_ENTRY(client) entries;
};

/* Keys of a treatment, RBT_TREAT_BIT(). */
struct program_rights {
	/* Keys that a user with the right to raise has said. PRIORITY among them means that the
	 * program may have a reserve, and slices longer than the driver's. */
	uint32_t granted;
	uint32_t refused; /* keys for which the program wants more than its user may have */
};

/* The programs that it shares its turns with. */
struct program_group {
	uint64_t id;    /* for the core; 0: none */
	bool is_shared; /* between users: said by a rule */
};

/* A user's order to suspend the program, or single queues of it. */
struct program_suspend {
	bool is_ordered;
	uint64_t until_ns; /* 0: until resumed */
	struct queue_orders queues;
};

struct program_name {
	char text[64];
	uint64_t as_of_ns; /* 0: not looked up yet */
};

/* The container, pod or Slurm job that the program is in. */
struct program_place {
	struct rbt_place at;
	uint64_t as_of_ns; /* 0: not looked up yet */
};

/* daemon/park/idle.c: since when the program makes no driver call. */
struct program_idle {
	uint64_t n_calls;  /* of its board, when it was last looked at */
	uint64_t since_ns; /* when it was seen to have moved; 0: not looked at yet */
	uint64_t look_ns;  /* when to look again */
};

struct program {
	struct source pidfd;
	pid_t pid;
	uint64_t start_time;
	uid_t uid;         /* when it came; see program_owner() */
	struct user *user; /* that is charged for it */
	struct peer *peer; /* its shim; NULL when attached from outside */
	bool awaited;      /* `rubato run` became it, and its shim has not spoken yet */
	LIST_HEAD(, client) clients;
	uint32_t n_clients;
	bool has_more; /* clients than the daemon takes in */

	struct rbt_treatment treat; /* how it is to be treated */
	struct program_rights rights;
	struct program_group group;
	struct program_run run;
	struct rbt_program_guest guest;
	char rule[RULE_NAME_MAX]; /* that it was attached by; empty: none */
	struct program_suspend suspend;

	struct board_reader reader;
	struct program_request request;
	struct program_sched sched;
	struct doubt doubt; /* whether it runs after it was resumed */
	unsigned released;  /* edge.c: RBT_IS_*, of holds that were released since */
	int error;          /* of the last action on it that failed */
	/* The own slice of its compute tasks before it was parked; 0: it never was. The driver
	 * gives them its default when they come back. */
	uint64_t kept_slice_us;
	struct program_idle idle;
	struct account account;
	struct program_work work;
	struct program_gate gate;
	struct program_name name;
	struct program_place place; /* read it with program_place() */
	struct program_policy policy;
	struct program_trace trace;
	LIST_ENTRY(program) entries;
};

/* A compute task that its program has not said to be ready is taken to be so after this time. */
#define SETUP_NS UINT64_C(1000000000)

/* guest.c: reads a GUEST message. Control characters in the guest's texts are replaced. 0, or
 * -EBADMSG. */
int guest_read(const void *buf, size_t size, struct rbt_program_guest *ret);
struct program *program_find(struct daemon *d, pid_t pid);
struct program *program_next(struct daemon *d, pid_t after);

/* The user that its process is now, who may renice it: a server may have dropped root's rights
 * since it came. The program's group stays that of its first user, so that no program gets into
 * another user's group in this way. */
uid_t program_owner(const struct program *p);

/* Where the program runs: looked up again after some seconds, because processes can be moved. */
const struct rbt_place *program_place(struct program *p, uint64_t now_ns);
/* The name of the program's main thread, at most five seconds old; empty if it cannot be read. */
const char *program_name(struct program *p, uint64_t now_ns);

/* Finds or makes the program behind a pidfd (borrowed), which names it for sure, unlike its pid;
 * NULL and *ret_error when it has ended or cannot be watched. The payer is charged for it. */
struct program *program_obtain(
	struct daemon *d, pid_t pid, int pidfd, struct user *payer, int *ret_error);
/* Sets the group that the program shares its turns with: its user's group of that name, or, shared,
 * that of all users; "": none. */
void program_set_group(struct daemon *d, struct program *p, bool is_shared, const char *name);
/* Restores the program, then forgets it. */
void program_release(struct daemon *d, struct program *p);
/* Adds or replaces the record of a client. Takes ownership of *rec, also on failure. */
int program_put_record(struct daemon *d, struct program *p, struct rbt_record *rec, bool from_shim);
/* Takes a board in place of the one it had. fd is borrowed. 0 or -errno. */
int program_put_board(struct daemon *d, struct program *p, int fd);
/* Forgets the board: the program's activity is unknown from now on. */
void program_drop_board(struct daemon *d, struct program *p);
void program_drop_client(struct daemon *d, struct program *p, uint32_t backend, uint32_t client);
uint64_t program_wanted_us(const struct program *p);

/* Replaces the program's treatment and its grants. The program keeps its group, and a program that
 * was forced stays forced. */
void program_set_treatment(struct program *p, const struct rbt_treatment *t, uint32_t granted);
/* Whether the program is treated as an unmanaged program would be. */
bool program_is_plain(const struct program *p);
/* Whether a change to the program is in force. */
bool program_is_changed(const struct program *p);
/* Whether the program has tasks on a GPU that cannot be scheduled, because RBT_MAX_GPUS others are.
 * Such a program is left alone. */
bool program_is_beyond(const struct program *p);
/* Whether a compute task of the program must not be touched yet; *ret_until_ns: until when, at the
 * latest. */
bool program_is_in_setup(const struct program *p, uint64_t now_ns, uint64_t *ret_until_ns);
/* Ends the setup of a program that has had its time for it. */
void program_end_setup(struct program *p, uint64_t now_ns);
/* Whether the program has tasks that its records do not name. */
bool program_is_partial(const struct program *p);
/* Releases the clients whose file the program has closed, by exec or otherwise: the daemon's copy
 * would keep their memory. */
void program_drop_closed(struct daemon *d, struct program *p);
/* The same for an attached program, which is released with its last client. */
void program_check_attached(struct daemon *d, struct program *p);

#endif
