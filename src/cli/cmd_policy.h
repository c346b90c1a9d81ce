/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `rubato policy`, `rubato run --policy` and `rubato doctor` share. */
#ifndef RBT_CLI_CMD_POLICY_H
#define RBT_CLI_CMD_POLICY_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "cli/cli.h"
#include "policy/object.h"
#include "proto/policy.h"

/* A policy as the command line names it. */
struct policy_choice {
	const char *file;
	enum rbt_policy_engine engine;
	const char *settings[RBT_POLICY_MAX_SETTINGS];
	size_t n_settings;
};

/* The options of a verb, and what is left of its arguments. */
struct policy_args {
	struct policy_choice choice;
	bool json, is_foreground, is_follow;
	uint64_t interval_ms; /* 0: once */
	char **operands;      /* as many as the verb takes */
};

/* Takes --engine or --set (option 'e' or 's'). Returns 0, or EXIT_USAGE with the error printed. */
int policy_option(const struct command *cmd, struct policy_choice *choice, int option);

/* The verbs: each prints its errors, and returns an exit code. */
int policy_check(const struct policy_args *a);
int policy_load(const struct policy_args *a);
int policy_unload(const struct policy_args *a);
int policy_show(const struct policy_args *a);
int policy_stats(const struct policy_args *a);
int policy_log(const struct policy_args *a);
int policy_map_list(const struct policy_args *a);
int policy_map_dump(const struct policy_args *a);
int policy_map_set(const struct policy_args *a);
int policy_map_del(const struct policy_args *a);

/* policy_file.c */

/* Reads an object file into memory, which the caller frees. An exit code, with the error
 * printed. */
int policy_read_file(
	const struct command *cmd, const char *path, unsigned char **ret_data, size_t *ret_size);
/* Reads and checks an object, and applies the settings. An exit code, with the error printed. */
int policy_open(
	const struct command *cmd, const struct policy_choice *choice, struct rbt_object **ret);
/* Prints text with names from an object, which may try to control the terminal. `allowed` are the
 * control characters that are printed as they are. */
void policy_put_safely(FILE *out, const char *text, const char *allowed);
/* Prints what the verifier said, if anything. */
void policy_print_log(const char *log);
/* Names of map types, in lower case. */
const char *policy_map_type(uint32_t type);

/* policy_client.c: messages to the daemon */

/* Connects to the daemon that serves us, if one runs: fd or -errno. */
int policy_connect(void);
/* What the daemon says about its policy: 0 or -errno. */
int policy_ask(int sock, struct rbt_msg_policy *ret);
/* The same without a daemon: nothing is loaded. */
void policy_ask_nobody(struct rbt_msg_policy *ret);
/* The next line of the log from `number` on: 1, 0 if there is none yet, or -errno. */
int policy_next_line(int sock, uint64_t number, struct rbt_msg_policy_line *ret);
/* The bytes of the loaded object, which the caller frees. 0 or -errno; the text is the daemon's. */
int policy_fetch_object(
	int sock, void **ret_data, size_t *ret_size, struct rbt_msg_result *ret_result);
/*
 * Loads a policy. 0 or -errno if the daemon does not answer; its verdict is in ret->error. *ret_log
 * is the verifier's log or NULL, and belongs to the caller.
 */
int policy_send_load(int sock, const struct policy_choice *choice, uint32_t flags,
	const void *object, size_t size, struct rbt_msg_result *ret, char **ret_log);
/* Unloads the policy of this load, or any (0). */
int policy_send_unload(int sock, uint32_t load, struct rbt_msg_result *ret);
/* Sends an operation on a map. 1: *ret has the entry, in `buf`; 0: *ret_result is the answer; or
 * -errno. */
int policy_send_entry(int sock, const struct rbt_policy_entry *entry, char buf[RBT_MSG_MAX],
	struct rbt_policy_entry *ret, struct rbt_msg_result *ret_result);
/* Reports that the daemon did not answer (error; `result` may be NULL then), or what it answered.
 * `what` is a noun. */
void policy_say_failed(const struct command *cmd, const char *what, int error,
	const struct rbt_msg_result *result);
/* The same, and returns the exit code, which is never EXIT_OK. */
static inline int policy_failed(
	const struct command *cmd, const char *what, int error, const struct rbt_msg_result *result)
{
	/* The verifier refuses policies with -EACCES. */
	const bool is_forbidden = error < 0 ? error == -EPERM || error == -EACCES
					    : result != NULL && result->error == -EPERM;

	policy_say_failed(cmd, what, error, result);
	return is_forbidden ? EXIT_NO_PERMISSION : EXIT_FAILED;
}

/* policy_hold.c: policies that are loaded as long as somebody wants them */

extern volatile sig_atomic_t policy_stop;
/* SIGINT and SIGTERM end a loop. */
void policy_catch_signals(void);
/* Waits; ends at once if a signal came. */
void policy_pause(uint64_t ms);

struct policy_hold {
	const struct command *cmd;
	const struct policy_choice *choice;
	unsigned char *object;
	size_t size;
	uint32_t flags;
	int sock;
	uint32_t load;   /* its number */
	uint64_t number; /* of the next line of the log */
	int until_fd;    /* once it is readable, the policy is not wanted any more; or -1 */
};
/*
 * Loads the policy in the foreground, with `flags` (0 or RBT_POLICY_JOIN). An exit code, with the
 * error printed. h->sock is -1 after an error, and also with EXIT_OK if there is no daemon, or it
 * does not answer, and `may_miss`: a warning is printed then.
 */
int policy_hold_begin(struct policy_hold *h, const struct command *cmd,
	const struct policy_choice *choice, uint32_t flags, bool may_miss);
#define POLICY_WHY_MAX 320
struct rbt_json;
/*
 * Looks after it once. is_log: prints new lines of its log, as JSON unless `json` is NULL. True: go
 * on; false: the policy is gone, and `why` has the reason. A daemon that was killed is waited for,
 * as long as the policy is wanted.
 */
bool policy_hold_look(
	struct policy_hold *h, struct rbt_json *json, bool is_log, char why[POLICY_WHY_MAX]);
/* Lets it go: the daemon unloads it, unless somebody else holds it, too. */
void policy_hold_end(struct policy_hold *h);

/* policy_run.c: loads a policy, and starts a process that holds it for as long as this process
 * runs, also as another program. An exit code, with the error printed; without a daemon EXIT_OK. */
int policy_run(const struct policy_choice *choice);

/* Prints one line of the log. */
void policy_print_line(const struct rbt_msg_policy_line *line, struct rbt_json *json);

#endif
