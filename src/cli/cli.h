/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the rubato command: commands, exit codes, and the way to the daemon.
 */
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

/* start.c */
/* First of all: keeps what we open away from standard files that the caller closed, until exec. */
void cli_begin(void);
/* Last of all: the exit code, which is another if what was printed could not be written. */
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
	cmd_top, cmd_kfd;

/* Prints a usage error and where to look; returns EXIT_USAGE. */
int usage_error(const struct command *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* device.c: takes --device, --sms and --mem out of a command's arguments (argv[0] is its name).
 * EXIT_OK: go on; else the exit code, the error said. For the software GPU it does not return. */
int device_select(const struct command *cmd, int *argc, char **argv);
/* Says that there is no driver (-ENODEV), or what is wrong with it; returns the exit code. */
int no_device_error(const struct command *cmd, int error);
/* EXIT_OK where there is a driver; else says what is missing, as above. */
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

/* The daemon of `uid`, or the machine's (RBT_UID_SYSTEM), if it runs: fd or -errno. Refuses a
 * socket that is not that user's, or root's. */
int daemon_connect(uid_t uid);
/* The machine's daemon if it runs, else our own, started if need be: fd or -errno. */
int daemon_start(void);
/* Starts our own daemon if one before it was killed and has left programs suspended or changed: it
 * puts them back. Not when it was killed too often: then returns for how many seconds more. */
uint64_t daemon_heal(void);
/* Why that failed and what to do, in words; valid until the next call. */
const char *daemon_start_error(int error);
/* The path at which `sock` was connected. */
int daemon_socket_path(int sock, char *buf, size_t size);
/* Sends a request and waits for its RESULT (bounded). 0 or -errno;
 * the daemon's verdict is in ret->error. */
int daemon_request(int sock, const void *msg, size_t size, const int *fds, size_t n_fds,
	struct rbt_msg_result *ret);
/* How long a daemon has for an answer: to a look at everybody, and to what was asked of it. */
#define LIST_TIMEOUT_S   3
#define ANSWER_TIMEOUT_S 10
/* The program with the next pid after `after`, with what `flags` (RBT_LIST_*) ask for besides: size
 * of the message in buf, 0 after the last, or -errno. */
ssize_t daemon_list(int sock, pid_t after, uint32_t flags, int timeout_s, void *buf, size_t size);

/* target.c: a program named on the command line */

/* Calls fn for every PID operand from `optind` on, all of them checked first; returns the first
 * exit code that is not EXIT_OK. */
int target_each(const struct command *cmd, int argc, char **argv,
	int (*fn)(pid_t pid, const void *data), const void *data);
/* Opens `pid`, sends it one request, and says what went wrong. Returns an exit code. */
int target_request(pid_t pid, const void *msg, size_t size, struct rbt_msg_result *ret);
/* The same, but says nothing: what went wrong, in words, is in `ret_why` instead. */
#define TARGET_WHY_MAX 512
int target_try(pid_t pid, const void *msg, size_t size, struct rbt_msg_result *ret,
	char ret_why[TARGET_WHY_MAX]);

/* elf.c: what a program file needs */
#define ELF_MAX_NAMES 512
struct elf_facts {
	bool is_static, is_setuid, is_musl, has_cudart_static, has_fatbin;
	size_t n_needed, n_driver_calls, n_runtime_calls;
	char *needed[64];
	char *driver_calls[ELF_MAX_NAMES];
	char *runtime_calls[ELF_MAX_NAMES];
};
/* 0, -ENOEXEC when it is no 64-bit ELF file, or -errno. */
int elf_read(const char *path, struct elf_facts *ret);
void elf_finish(struct elf_facts *f);
/* A program the dynamic linker never sees; false also when it cannot be read. */
bool elf_is_static(const char *path);

#endif
