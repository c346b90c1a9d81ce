/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --device soft: runs the same command again, inside the user's session of the software GPU, which
 * is started if necessary. Every command has this option, so it is removed before the command
 * parses its own. --device remote: programs use the GPU of a host (`rubato serve`). Also the
 * messages for machines without a device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "util/log.h"
#include "util/runtime.h"

/* Only the session's supervisor answers this path; see softgpu/session/session.h. */
#define SESSION_LINK "/dev/nvidia-softgpu"

enum choice { CHOICE_DEVICE, CHOICE_SMS, CHOICE_MEM, N_CHOICES };
static const char *const names[N_CHOICES] = {"--device", "--sms", "--mem"};

/* The guest's driver makes it. */
#define REMOTE_DEVICE "/dev/rubato0"
static const char *remote_path;

/* Which of these options `arg` is, and its value (NULL: it is the next argument). */
static enum choice which(const char *arg, const char **ret_value)
{
	for (unsigned i = 0; i < N_CHOICES; i++) {
		size_t n = strlen(names[i]);
		if (strncmp(arg, names[i], n) == 0 && (arg[n] == '\0' || arg[n] == '=')) {
			*ret_value = arg[n] == '=' ? arg + n + 1 : NULL;
			return (enum choice)i;
		}
	}
	return N_CHOICES;
}

/* Whether the next argument is this option's value, as the usage text says (`-c, --class CLASS`):
 * `run` and `profile record` have options before a command that has options of its own. */
static bool takes_value(const struct command *cmd, const char *arg)
{
	size_t n = strlen(arg);

	for (const char *at = strstr(cmd->usage, arg); at != NULL; at = strstr(at + n, arg)) {
		const char *end = at + n;
		if (at[-1] != ' ') {
			continue;
		}
		if (strncmp(end, ", --", 4) == 0) {
			end += 4 + strcspn(end + 4, " \n");
		}
		if (end[0] == ' ' && end[1] >= 'A' && end[1] <= 'Z') {
			return true;
		}
	}
	return false;
}

/* Removes our options from argv, up to the end of the command's own options. Returns the new argc,
 * or -1 if a value is missing. */
static int take(const struct command *cmd, int argc, char **argv, const char **values)
{
	bool has_command = cmd == &cmd_run;
	int n = 1, i = 1;

	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *value;
		enum choice choice = which(argv[i], &value);

		/* serve has a --mem of its own. */
		choice = choice == CHOICE_MEM && cmd == &cmd_serve ? N_CHOICES : choice;
		if (choice < N_CHOICES) {
			if (value == NULL && ++i == argc) {
				return -1;
			}
			values[choice] = value != NULL ? value : argv[i];
			continue;
		}
		if (has_command && argv[i][0] != '-') {
			break;
		}
		has_command = has_command ||
			      (cmd == &cmd_profile && strcmp(argv[i], "record") == 0 && n == 1);
		argv[n++] = argv[i];
		if (has_command && takes_value(cmd, argv[i]) && i + 1 < argc) {
			argv[n++] = argv[++i];
		}
	}
	for (; i < argc; i++) {
		argv[n++] = argv[i];
	}
	argv[n] = NULL;
	return n;
}

/* Returns only on failure, with an exit code. */
static int enter(const struct command *cmd, int argc, char **argv, const char *const *values)
{
	char tool[4096], self[4096], runtime[128], session[160];
	char **args = calloc((size_t)argc + 12, sizeof(*args));
	int n = 0, r = rbt_sibling_path("rubato-softgpu", RUBATO_BINDIR, tool, sizeof(tool));

	if (r == 0) {
		r = rbt_sibling_path("rubato", RUBATO_BINDIR, self, sizeof(self));
	}
	if (r == 0) {
		r = rbt_runtime_dir_create(runtime, sizeof(runtime));
	}
	if (r < 0 || args == NULL) {
		rbt_error("%s: cannot start the software GPU: %s", cmd->name,
			strerror(args == NULL ? ENOMEM : -r));
		free(args);
		return EXIT_FAILED;
	}
	snprintf(session, sizeof(session), "%s/softgpu", runtime);
	args[n++] = tool;
	args[n++] = (char *)"exec";
	args[n++] = (char *)"--session";
	args[n++] = session;
	for (unsigned i = CHOICE_SMS; i < N_CHOICES; i++) {
		if (values[i] != NULL) {
			args[n++] = (char *)names[i];
			args[n++] = (char *)values[i];
		}
	}
	args[n++] = (char *)"--";
	args[n++] = self;
	args[n++] = (char *)cmd->name;
	memcpy(&args[n], argv + 1, (size_t)argc * sizeof(*args)); /* including the NULL */
	execv(tool, args);
	rbt_error("%s: cannot start %s: %s", cmd->name, tool, strerror(errno));
	free(args);
	return EXIT_FAILED;
}

const char *device_remote(void)
{
	return remote_path;
}

/* remote, or remote=PATH. Without a path: that of the environment, then the guest's device. */
static int select_remote(const struct command *cmd, const char *value)
{
	const char *path = getenv(RBT_ENV_REMOTE);

	if (cmd != &cmd_run) {
		return usage_error(cmd,
			"--device remote is for `rubato run`: the host has the GPU, "
			"and its `rubato %s` sees the programs of guests",
			cmd->name);
	}
	if (value[0] == '=') {
		path = value + 1;
	} else if (path == NULL) {
		path = REMOTE_DEVICE;
	}
	if (path[0] == '\0' || access(path, F_OK) < 0) {
		rbt_error(
			"run: --device remote: %s: %s; start `rubato serve` on the host, and name "
			"its socket with --device remote=PATH",
			path, strerror(path[0] == '\0' ? EINVAL : errno));
		return EXIT_NO_DEVICE;
	}
	remote_path = path;
	return EXIT_OK;
}

int device_select(const struct command *cmd, int *argc, char **argv)
{
	const char *values[N_CHOICES] = {NULL};
	char dir[128];
	int n = take(cmd, *argc, argv, values);

	if (n < 0) {
		return usage_error(cmd, "--device, --sms and --mem need a value");
	}
	*argc = n;
	const char *usual = getenv("RUBATO_DEVICE");
	if (values[CHOICE_DEVICE] == NULL && usual != NULL && usual[0] != '\0') {
		values[CHOICE_DEVICE] = usual;
	}
	if (values[CHOICE_DEVICE] == NULL) {
		return values[CHOICE_SMS] == NULL && values[CHOICE_MEM] == NULL
			       ? EXIT_OK
			       : usage_error(cmd,
					 "--sms and --mem belong to the software GPU: add --device soft");
	}
	if (strncmp(values[CHOICE_DEVICE], "remote", 6) == 0 &&
		(values[CHOICE_DEVICE][6] == '\0' || values[CHOICE_DEVICE][6] == '=')) {
		return select_remote(cmd, values[CHOICE_DEVICE] + 6);
	}
	if (strcmp(values[CHOICE_DEVICE], "soft") != 0) {
		return usage_error(cmd,
			"--device: '%s' is not a device; use soft, remote, or no option for the "
			"machine's GPUs",
			values[CHOICE_DEVICE]);
	}
	if (readlink(SESSION_LINK, dir, sizeof(dir)) > 0) {
		return EXIT_OK; /* inside the session already */
	}
	return enter(cmd, n, argv, values);
}

/* Whether a driver has answered; *ret is the first error other than "not found". */
static bool has_driver(int *ret)
{
	struct rbt_device_info info;

	*ret = -ENODEV;
	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		int r = (*b)->probe(&info);
		if (r == 0) {
			return true;
		}
		*ret = r != -ENODEV ? r : *ret;
	}
	return false;
}

int no_device_error(const struct command *cmd, int error)
{
	if (error != -ENODEV) {
		rbt_error("%s: the GPU driver does not answer: %s (see `rubato doctor`)", cmd->name,
			strerror(-error));
		return exit_code_for(error);
	}
	rbt_error("%s: no NVIDIA or AMD driver here; --device soft uses the GPU in software "
		  "(see `rubato doctor`)",
		cmd->name);
	return EXIT_NO_DEVICE;
}

int device_check(const struct command *cmd)
{
	int error;

	return has_driver(&error) ? EXIT_OK : no_device_error(cmd, error);
}

int device_probe(const struct rbt_backend *b, struct rbt_device_info *ret)
{
	int r = b->probe(ret);

	for (uint32_t i = 0; r == 0 && b->gpu_memory != NULL && i < ret->n_gpus; i++) {
		struct rbt_gpu_info *g = &ret->gpus[i];
		if ((g->valid & RBT_GPU_HAS_MEMORY) == 0 &&
			b->gpu_memory(g->gpu, &g->memory_bytes) == 0) {
			g->valid |= RBT_GPU_HAS_MEMORY;
		}
	}
	return r;
}
