/* SPDX-License-Identifier: Apache-2.0 */
/* What the three KFD tools share. */
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

/* Set by SIGINT and SIGTERM once kfd_catch_signals() was called: what is begun is finished, and
 * the rest left out. */
extern volatile sig_atomic_t kfd_stop;
void kfd_catch_signals(void);

/* The PID operand: as KFD names it, that is on the host. EXIT_OK, or an exit code, the error said.
 */
int kfd_take_pid(const struct command *cmd, const char *text, pid_t *ret);

/* Opens the library, and attaches if asked to. EXIT_OK, or an exit code, the error said. */
int kfd_begin(const struct command *cmd, pid_t pid, bool attach, struct rubato_kfd **ret);

/* Attaches; waits for Rubato's own hand to let go. No stop from the terminal is obeyed any more.
 * 0 or -errno. */
int kfd_attach(struct rubato_kfd *kfd, pid_t pid);

/* One line, and the exit code. */
int kfd_failed(const struct command *cmd, pid_t pid, int error);

/* Before MES, a suspend takes everybody's queues off that GPU for a moment. EXIT_OK if nobody but
 * the two processes has any there (`but` may be 0); else an exit code, the error said. */
int kfd_spare_others(
	const struct command *cmd, pid_t pid, pid_t but, const uint32_t *gpus, uint32_t n);

/* One line: the process has ended, or has begun another program. */
void kfd_say_end(const struct command *cmd, pid_t pid);

void kfd_json_snapshot(struct rbt_json *j, const char *key, const struct rubato_kfd_snapshot *snap,
	uint64_t start_ns);
void kfd_json_stats(struct rbt_json *j, const struct rubato_kfd_stats *stats);

#endif
