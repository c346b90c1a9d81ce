/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the three KFD tools. */
#ifndef RBT_CLI_CMD_KFD_H
#define RBT_CLI_CMD_KFD_H

#include <signal.h>

#include "cli/cli.h"
#include "rubato/kfd.h"
#include "util/json.h"

int kfd_check(int argc, char **argv);
int kfd_monitor(int argc, char **argv);
int kfd_preempt(int argc, char **argv);
int kfd_queues(int argc, char **argv);

extern const struct command cmd_kfd_check, cmd_kfd_monitor, cmd_kfd_preempt, cmd_kfd_queues;

/* Set by SIGINT and SIGTERM after kfd_catch_signals(): the tool finishes the current step and omits
 * the rest. */
extern volatile sig_atomic_t kfd_stop;
void kfd_catch_signals(void);

/* The PID operand, as KFD names it, that is on the host. EXIT_OK, or an exit code after an error
 * message. */
int kfd_take_pid(const struct command *cmd, const char *text, pid_t *ret);

/* Opens the library, and attaches if asked to. EXIT_OK, or an exit code after an error message. */
int kfd_begin(const struct command *cmd, pid_t pid, bool attach, struct rubato_kfd **ret);

/* Attaches; waits until Rubato's own hand has ended its session. Stops from the terminal are
 * ignored from then on. 0 or -errno. */
int kfd_attach(struct rubato_kfd *kfd, pid_t pid);

/* Prints one line; returns the exit code. */
int kfd_failed(const struct command *cmd, pid_t pid, int error);

/* Before MES, a suspend takes all programs' queues off that GPU for a moment. Returns EXIT_OK if no
 * process but these two has queues there (`but` may be 0). Otherwise prints the error and returns
 * an exit code. */
int kfd_spare_others(
	const struct command *cmd, pid_t pid, pid_t but, const uint32_t *gpus, uint32_t n);

/* Prints one line: the process has ended, or has called exec. */
void kfd_say_end(const struct command *cmd, pid_t pid);

/* cmd_kfd_known.c: the queues as rubatod knows them */
struct kfd_known {
	bool is_waiting; /* the program is kept off for a turn or a reserve */
	uint32_t n;      /* 0: no daemon knows the program */
	struct rbt_task_state tasks[RBT_RECORD_MAX_TASKS];
};
void kfd_known_read(pid_t pid, struct kfd_known *ret);
/* NULL: the queue is not known. */
const struct rbt_task_state *kfd_known_find(const struct kfd_known *k, uint32_t id);
/* running, waiting or suspended */
const char *kfd_known_state(const struct kfd_known *k, const struct rbt_task_state *t);

/* known: may be NULL, then nothing is said about what rubatod knows. */
void kfd_json_snapshot(struct rbt_json *j, const char *key, const struct rubato_kfd_snapshot *snap,
	uint64_t start_ns, const struct kfd_known *known);
void kfd_json_stats(struct rbt_json *j, const struct rubato_kfd_stats *stats);

#endif
