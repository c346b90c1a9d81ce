/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the rubato command: commands, exit codes, and the connection to the daemon. */
#ifndef RBT_CLI_CLI_H
#define RBT_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "proto/protocol.h"

enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_PROGRAM = 3,
	EXIT_NO_PERMISSION = 4,
	EXIT_NO_DEVICE = 5,
	EXIT_CANNOT_EXEC = 126,
	EXIT_NOT_FOUND = 127,
};

/* Of the objects that --json prints. New keys keep it; a key that goes, or means something else,
 * raises it. */
#define JSON_VERSION 1

/* start.c */
/* To be called first: keeps files that we open away from the numbers of standard files that the
 * caller closed, until exec. */
void cli_begin(void);
/* To be called last: returns the exit code, which is EXIT_FAILED if the output could not be
 * written. */
int cli_end(int code);
/* The exit code for a negative errno. */
enum exit_code exit_code_for(int error);

struct command {
	const char *name;
	const char *summary; /* one line in `rubato help` */
	const char *usage;   /* what --help prints */
	int (*run)(int argc, char **argv);
};

extern const struct command cmd_run, cmd_renice, cmd_ps, cmd_suspend, cmd_resume, cmd_doctor,
	cmd_top, cmd_trace, cmd_kfd, cmd_policy, cmd_profile, cmd_cdi, cmd_park, cmd_unpark,
	cmd_vm_args, cmd_serve;

/* Prints what --help prints; returns EXIT_OK. */
int print_usage(const struct command *cmd);
/* Prints a usage error and where to look; returns EXIT_USAGE. */
int usage_error(const struct command *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* cmd_run.c: how `run` starts a command, for all that do. `who` begins the messages. */
/* Finds a command as execvp() would: EXIT_OK, or an exit code with the error printed. */
int run_find(const char *who, const char *name, char *buf, size_t size);
/* Runs the command that was found, in the environment of `rubato run`. Returns an exit code only if
 * that fails, with the error printed. */
/* Like the backend's probe(), with the sizes of the GPUs' memories, if they can be had. */
int device_probe(const struct rbt_backend *b, struct rbt_device_info *ret);

int run_exec(const char *who, const char *path, char **argv, const struct rbt_treatment *t,
	bool no_daemon);
/* Whether programs find a libcuda.so.1. */
bool run_has_driver(void);

/* cmd_cdi.c: the folder in which container runtimes look, and the first file there */
#define CDI_DIR        "/etc/cdi"
#define CDI_CLASS_NAME "rubato-class.json"
#define CDI_CLASS_FILE CDI_DIR "/" CDI_CLASS_NAME

/* nice.c: refuses the options of nice(1) and renice(8), with a line that names ours. */
int nice_habit(const struct command *cmd, int argc, char **argv);

/* device.c: removes --device, --sms and --mem from a command's arguments (argv[0] is its name).
 * EXIT_OK: go on; otherwise the exit code, after an error message. For the software GPU it does not
 * return. */
int device_select(const struct command *cmd, int *argc, char **argv);
/* Where programs find the host's GPU, if --device remote was given; else NULL. */
const char *device_remote(void);
/* Reports that there is no driver (-ENODEV), or what is wrong with it; returns the exit code. */
int no_device_error(const struct command *cmd, int error);
/* EXIT_OK if there is a driver; otherwise reports what is missing, as above. */
int device_check(const struct command *cmd);

/* nice.c: one option for each key of struct rbt_treatment */
struct option;
/* Fills in the options of `keys` (RBT_TREAT_BIT), then `more` up to its end. */
#define TREAT_OPTIONS_MAX 32
#define TREAT_LETTERS     "c:p:t:w:"
void treat_options(uint32_t keys, const struct option *more, struct option *ret);
/* Takes one of these options. Returns 0, or EXIT_USAGE with the error printed. */
int treat_option(const struct command *cmd, struct rbt_treatment *t, int option, const char *arg);

/* client.c: a connection to a daemon */

/* Connects to the daemon of `uid`, or to the system daemon (RBT_UID_SYSTEM), if it runs: fd or
 * -errno. Refuses a socket that belongs neither to that user nor to root. */
int daemon_connect(uid_t uid);
/* Connects to the system daemon if it runs, else to our own, which is started if necessary: fd or
 * -errno. */
int daemon_start(void);
/* Starts our own daemon if an earlier one was killed and has left programs suspended or changed, so
 * that it restores them. If daemons were killed too often, it is started only if `is_ordered`: the
 * user wants a program changed. Otherwise returns for how many seconds more it will not be. */
uint64_t daemon_heal(bool is_ordered);
/* The reason why that failed and what to do, in words; valid until the next call. */
const char *daemon_start_error(int error);
/* Whether the daemon is in an outer pid namespace, so that its pids are not ours. */
bool daemon_is_outside(int sock);
/* The path at which `sock` was connected. */
int daemon_socket_path(int sock, char *buf, size_t size);
/* Sends a request and waits for its RESULT, with a timeout. 0 or -errno; the daemon's verdict is in
 * ret->error. */
int daemon_request(int sock, const void *msg, size_t size, const int *fds, size_t n_fds,
	struct rbt_msg_result *ret);
/* An answer of any type. The file belongs to the caller; -1: none. */
struct daemon_answer {
	char buf[RBT_MSG_MAX];
	int fd;
};
/* Sends a request with one file or none (-1), and waits for its answer: its size or -errno. */
ssize_t daemon_exchange(
	int sock, const void *msg, size_t size, int fd, int timeout_s, struct daemon_answer *ret);
/* Forgets answers that came after their timeout. */
void daemon_drain(int sock);
/* Reads a RESULT: 0, or -EBADMSG if the answer is something else. */
int daemon_read_result(const void *buf, size_t size, struct rbt_msg_result *ret);
/* Timeouts for a daemon's answers: to a listing, and to a request. */
#define LIST_TIMEOUT_S   3
#define ANSWER_TIMEOUT_S 10
/* The program with the next pid after `after`, with the parts that `flags` (RBT_LIST_*) ask for:
 * size of the message in buf, 0 after the last, or -errno. */
ssize_t daemon_list(int sock, pid_t after, uint32_t flags, int timeout_s, void *buf, size_t size);

/* target.c: a program named on the command line */

/* Calls fn for every PID operand from `optind` on, after checking all of them; returns the first
 * exit code that is not EXIT_OK. */
int target_each(const struct command *cmd, int argc, char **argv,
	int (*fn)(pid_t pid, const void *data), const void *data);
/* Opens `pid`, sends it one request, and reports errors. Returns an exit code. */
int target_request(pid_t pid, const void *msg, size_t size, struct rbt_msg_result *ret);
/* The same without a message: the error text is in `ret_why`. */
#define TARGET_WHY_MAX 512
int target_try(pid_t pid, const void *msg, size_t size, struct rbt_msg_result *ret,
	char ret_why[TARGET_WHY_MAX]);

/* elf.c: the imports of a program file */
#define ELF_MAX_NAMES 512
struct elf_facts {
	bool is_static, is_setuid, is_musl, has_cudart_static, has_fatbin;
	size_t n_needed, n_driver_calls, n_runtime_calls;
	char *needed[64];
	char *driver_calls[ELF_MAX_NAMES];
	char *runtime_calls[ELF_MAX_NAMES];
};
/* 0, -ENOEXEC if it is no 64-bit ELF file, or -errno. */
int elf_read(const char *path, struct elf_facts *ret);
void elf_finish(struct elf_facts *f);
/* Whether the program is loaded without the dynamic linker; false also if it cannot be read. */
bool elf_is_static(const char *path);

#endif
