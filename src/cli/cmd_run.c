/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cmd_policy.h"
#include "sched/class.h"
#include "util/fd.h"
#include "util/libpath.h"
#include "util/log.h"
#include "util/runtime.h"
#include "util/sandbox.h"
#include "util/time.h"

/* Finds `name` as execvp() would. Returns 0, -ENOENT or -EACCES. This comes first, so that a
 * mistyped command starts no daemon. */
static int find_command(const char *name, char *buf, size_t size)
{
	const char *path = strchr(name, '/') != NULL ? "" : getenv("PATH");
	int error = -ENOENT;

	if (path == NULL) {
		path = "/usr/local/bin:/usr/bin:/bin";
	}
	for (const char *p = path;; p++) {
		size_t len = strcspn(p, ":");
		int n = len > 0 ? snprintf(buf, size, "%.*s/%s", (int)len, p, name)
				: snprintf(buf, size, "%s%s", *path != '\0' ? "./" : "", name);
		struct stat st;
		if (n > 0 && (size_t)n < size && stat(buf, &st) == 0) {
			if (S_ISREG(st.st_mode) && access(buf, X_OK) == 0) {
				return 0;
			}
			error = -EACCES;
		}
		p += len;
		if (*p == '\0') {
			return error;
		}
	}
}

/* Appends one of our libraries to LD_PRELOAD. */
static int add_preload(const char *name, const char *dir)
{
	char lib[4096], value[8192];
	const char *old = getenv("LD_PRELOAD");
	int r = rbt_sibling_path(name, dir, lib, sizeof(lib));

	if (r < 0) {
		return r;
	}
	/* The dynamic linker separates paths with both characters, and has no escape for them. */
	if (strpbrk(lib, " :") != NULL) {
		return -EINVAL;
	}
	int n = snprintf(value, sizeof(value), "%s%s%s", old != NULL ? old : "",
		old != NULL && old[0] != '\0' ? ":" : "", lib);
	if (n < 0 || (size_t)n >= sizeof(value)) {
		return -ENAMETOOLONG;
	}
	return setenv("LD_PRELOAD", value, 1) < 0 ? -errno : 0;
}

/* The shim goes last. It makes the system call itself, so a later library in the list with an
 * ioctl() of its own (v4l2convert.so, for example) would never be called. */
static int set_preload(void)
{
	return add_preload("librubato.so", RUBATO_LIBDIR);
}

/* A limit above all GPUs is no limit, and most likely a mistake. */
static void warn_of_size(const struct rbt_treatment *t)
{
	struct rbt_device_info info;
	char asked[64] = "", has[64] = "";
	struct rbt_treatment largest = RBT_TREATMENT_INIT;

	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		int r = device_probe(*b, &info);
		for (uint32_t i = 0; r == 0 && i < info.n_gpus; i++) {
			if ((info.gpus[i].valid & RBT_GPU_HAS_MEMORY) == 0) {
				return; /* it may be larger */
			}
			if (info.gpus[i].memory_bytes > largest.memory) {
				largest.memory = info.gpus[i].memory_bytes;
			}
		}
	}
	if (largest.memory == 0 || t->memory <= largest.memory) {
		return;
	}
	largest.said = RBT_TREAT_BIT(MEMORY);
	rbt_treatment_describe(t, RBT_TREAT_BIT(MEMORY), asked, sizeof(asked));
	rbt_treatment_describe(&largest, RBT_TREAT_BIT(MEMORY), has, sizeof(has));
	rbt_warn("run: %s is more than any GPU here has: the largest has%s", asked + 2,
		has + strlen(", memory"));
}

static bool is_there(const char *path, void *data)
{
	return access(path, R_OK) == 0;
}

bool run_has_driver(void)
{
	return rbt_libpath_each((const void *)&cmd_run, "libcuda.so.1", is_there, NULL);
}

/* Puts the folder of one of our libraries first, so that programs load it. 0 or -errno. */
static int set_library(const char *name)
{
	char folder[4096], value[16384];
	const char *old = getenv("LD_LIBRARY_PATH");
	bool any = old != NULL && old[0] != '\0';
	int r = rbt_sibling_path(name, RUBATO_LIBDIR "/rubato", folder, sizeof(folder));

	if (r < 0) {
		return r;
	}
	*strrchr(folder, '/') = '\0';
	size_t len = strlen(folder);
	/* The dynamic linker separates paths with both characters, and has no escape for them. */
	if (strpbrk(folder, ":;") != NULL) {
		return -EINVAL;
	}
	/* An outer `rubato run` has put it there already. */
	if (any && strncmp(old, folder, len) == 0 && (old[len] == ':' || old[len] == '\0')) {
		return 0;
	}
	int n = snprintf(value, sizeof(value), "%s%s%s", folder, any ? ":" : "", any ? old : "");
	if (n < 0 || (size_t)n >= sizeof(value)) {
		return -ENAMETOOLONG;
	}
	return setenv("LD_LIBRARY_PATH", value, 1) < 0 ? -errno : 0;
}

/*
 * Puts the stand-in for the driver's library first, so that submissions are counted. If the system
 * has no such library, this is left out, because the program must find none either. Returns 0, or
 * -errno; then the program runs, but its submissions are not counted.
 */
static int set_standin(void)
{
	return run_has_driver() ? set_library("standin/libcuda.so.1") : 0;
}

/*
 * The CUDA runtime for guests. PyTorch's libraries name a folder for it (RPATH), which goes before
 * LD_LIBRARY_PATH; a library that is loaded already goes before both. Each version answers only its
 * own programs, by the versions of its symbols; a program that names none gets the first.
 */
static int set_runtimes(void)
{
	static const char *const libraries[] = {"guest/libcudart.so.12", "guest/libcudart.so.13",
		"guest/libcudart.so.11.0", "guest/libcudart.so.9.0"};
	const char *old = getenv("LD_PRELOAD");
	int r = 0;

	/* An outer `rubato run` has put them there already. */
	if (old != NULL && strstr(old, libraries[0]) != NULL) {
		return 0;
	}
	for (unsigned i = 0; r == 0 && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		r = add_preload(libraries[i], RUBATO_LIBDIR "/rubato");
	}
	return r;
}

/* The program uses a host's GPU. Its class is the host's to decide, so that nothing else is set. */
static int set_remote(const char *who)
{
	int r = set_library("guest/libcuda.so.1");

	if (r == 0) {
		r = set_runtimes();
	}
	if (r < 0) {
		rbt_error("%s: --device remote: Rubato's CUDA libraries for guests: %s", who,
			strerror(-r));
		return EXIT_FAILED;
	}
	setenv(RBT_ENV_REMOTE, device_remote(), 1);
	return EXIT_OK;
}

/* An unknown driver may refuse everything. */
static bool is_driver_unknown(void)
{
	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		if ((*b)->check_driver() == -EPROTONOSUPPORT) {
			return true;
		}
	}
	return false;
}

/* Whether the slice is too short for all devices of this machine. On a machine with both kinds of
 * devices it is not known yet which one the program will use. */
static bool is_too_short(uint64_t timeslice_us)
{
	bool any = false;

	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		bool is_there = (*b)->check_driver() != -ENODEV;
		if (is_there && (*b)->has_slices) {
			return false;
		}
		any = any || is_there;
	}
	return any && timeslice_us != 0 && timeslice_us < RBT_TURN_MIN_US;
}

/* The daemon may refuse what was asked for. As with nice(1), the program runs anyway. The program
 * itself does not learn of the refusal, so it is printed here. */
static void warn_of_refusal(int sock, const struct rbt_treatment *t)
{
	struct rbt_msg_renice may = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_MAY}, .treat = *t};
	struct rbt_msg_result result;
	const uint32_t limits = RBT_TREAT_BIT(MAX_RESERVE) | RBT_TREAT_BIT(MIN_SHARE);
	bool is_special = rbt_class_of(t->priority) != RBT_CLASS_NORMAL || t->timeslice_us != 0;
	bool is_more = rbt_class_of(t->priority) == RBT_CLASS_LATENCY || t->weight > 1 ||
		       t->timeslice_us != 0 || (t->said & limits) != 0;

	if (((geteuid() == 0 || !is_more) && !(is_special && is_driver_unknown())) ||
		daemon_request(sock, &may, sizeof(may), NULL, 0, &result) < 0) {
		return;
	}
	if (result.error == -EBADMSG) {
		rbt_warn("run: %s; until then the program runs unmanaged", result.text);
	} else if (result.error == -EPERM || result.error == -EPROTONOSUPPORT) {
		rbt_warn("run: %s: the program runs without %s", result.text,
			result.error == -EPERM ? "it" : "its class (see `rubato doctor`)");
	}
}

/* Whether a policy decides about first runs: then new tasks of the program wait for its answer. An
 * older daemon does not know the question, and a daemon that does not answer has no gate. */
static bool has_gate(int sock)
{
	struct rbt_msg_policy policy;

	return policy_ask(sock, &policy) == 0 && policy.state == RBT_POLICY_LOADED &&
	       policy.hooks[RBT_HOOK_SCHEDULE].is_present != 0;
}

/* Tells the shim which command restarts this user's own daemon. The system daemon is restarted by
 * the service manager. */
static void set_healer(const char *socket_path)
{
	char dir[128], exe[4096], sandbox[RBT_SANDBOX_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	size_t len = rbt_runtime_dir(geteuid(), dir, sizeof(dir)) == 0 ? strlen(dir) : 0;

	if (n <= 0 || len == 0 || strncmp(socket_path, dir, len) != 0 || socket_path[len] != '/' ||
		rbt_sandbox_describe(sandbox) < 0) {
		return;
	}
	exe[n] = '\0';
	setenv(RBT_ENV_HEALER, exe, 1);
	setenv(RBT_ENV_SANDBOX, sandbox, 1);
}

/* Without a daemon the program still runs, and the shim does what it may do alone. */
static void set_daemon(bool no_daemon, const struct rbt_treatment *t)
{
	char path[160];
	int sock = no_daemon ? -1 : daemon_start();

	unsetenv(RBT_ENV_NO_DAEMON);
	unsetenv(RBT_ENV_SOCKET);
	unsetenv(RBT_ENV_GATE);
	unsetenv(RBT_ENV_HEALER);
	unsetenv(RBT_ENV_SANDBOX);
	if (sock < 0) {
		if (!no_daemon) {
			rbt_warn("run: the program runs without a daemon: %s",
				daemon_start_error(sock));
		}
		setenv(RBT_ENV_NO_DAEMON, "1", 1);
		return;
	}
	/* Keeps the daemon from ending for lack of programs before this one creates its first
	 * task. */
	struct rbt_msg_header await = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_AWAIT};
	rbt_send(sock, &await, sizeof(await), NULL, 0, MSG_DONTWAIT);
	warn_of_refusal(sock, t);
	if (daemon_socket_path(sock, path, sizeof(path)) == 0) {
		setenv(RBT_ENV_SOCKET, path, 1);
		set_healer(path);
	}
	if (has_gate(sock)) {
		setenv(RBT_ENV_GATE, "1", 1);
	}
	close(sock);
}

static const char *get(void *ctx, const char *name)
{
	return getenv(name);
}

/*
 * Options override the environment. The environment gives the group, the memory limit, and those
 * keys that have a variable of their own, which a container's setup may have set. The other keys of
 * RUBATO_TREAT are left out: they belong to an outer `rubato run`.
 */
static struct rbt_treatment add_environment(const struct rbt_treatment *options)
{
	struct rbt_treatment outer, t;
	char why[RBT_TREAT_WHY_MAX];

	rbt_treatment_read_env(get, NULL, &outer, why);
	rbt_treatment_find_strays(environ, why);
	if (why[0] != '\0') {
		rbt_warn("run: RUBATO_TREAT: %s: ignored", why);
	}
	outer.said &= RBT_TREAT_BIT(GROUP) | RBT_TREAT_BIT(MEMORY) | RBT_TREAT_BIT(PARK_IDLE);
	outer.reset = 0;
	struct rbt_treatment all = RBT_TREATMENT_INIT;
	rbt_treatment_merge(&all, &outer);
	rbt_treatment_read_keys(get, NULL, &t, why);
	rbt_treatment_merge(&all, &t);
	rbt_treatment_merge(&all, options);
	rbt_treatment_find_memory(get, NULL, &all);
	return all;
}

/* The shim reads one variable; the others are merged into it. */
static void set_treatment(const struct rbt_treatment *t)
{
	char text[RBT_TREAT_TEXT_MAX], name[RBT_TREAT_ENV_MAX];

	rbt_treatment_print(t, text, sizeof(text));
	setenv(RBT_ENV_TREAT, text, 1);
	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		const char *old = rbt_treat_key_old_env((enum rbt_treat_key)i);
		rbt_treat_key_env((enum rbt_treat_key)i, name);
		unsetenv(name);
		if (old != NULL) {
			unsetenv(old);
		}
	}
}

/* Processes with the same value share one memory limit. A `rubato run` inside another one belongs
 * to the outer run, unless it has a limit of its own. */
static void set_run(const struct rbt_treatment *options)
{
	char name[RBT_RUN_NAME_MAX];
	uint64_t random = 0;

	if (((options->said | options->reset) & RBT_TREAT_BIT(MEMORY)) == 0 &&
		getenv(RBT_ENV_RUN) != NULL) {
		return;
	}
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
		random = (uint64_t)rbt_now_ns();
	}
	snprintf(name, sizeof(name), "run-%d-%016" PRIx64, (int)getpid(), random);
	setenv(RBT_ENV_RUN, name, 1);
}

static void prepare(const char *who, const struct rbt_treatment *t, bool no_daemon)
{
	int r = set_preload();

	if (r < 0) {
		rbt_warn("%s: librubato.so cannot be preloaded (%s): the program runs unmanaged",
			who, strerror(-r));
		return;
	}
	r = set_standin();
	if (r < 0) {
		rbt_warn("%s: submissions are not counted: Rubato's libcuda.so.1: %s", who,
			strerror(-r));
	}
	set_daemon(no_daemon, t);
	set_treatment(t);
}

static int cannot_run(const char *who, const char *name, int error)
{
	rbt_error("%s: %s: %s", who, name, strerror(-error));
	return error == -ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
}

int run_find(const char *who, const char *name, char *buf, size_t size)
{
	int r = find_command(name, buf, size);

	return r < 0 ? cannot_run(who, name, r) : EXIT_OK;
}

int run_exec(const char *who, const char *path, char **argv, const struct rbt_treatment *t,
	bool no_daemon)
{
	if (device_remote() != NULL) {
		int code = set_remote(who);

		if (code != EXIT_OK) {
			return code;
		}
		execvp(path, argv);
		return cannot_run(who, argv[0], -errno);
	}
	if (elf_is_static(path)) {
		rbt_warn("%s: %s is statically linked, so librubato.so cannot be preloaded; "
			 "use `rubato renice` once it runs",
			who, argv[0]);
	}
	prepare(who, t, no_daemon);
	execvp(path, argv); /* runs a script without a #! line with the shell, as nice does */
	return cannot_run(who, argv[0], -errno);
}

static int execute(char **argv, const struct rbt_treatment *t, bool no_daemon,
	const struct policy_choice *policy)
{
	char path[4096];
	int code = run_find("run", argv[0], path, sizeof(path));

	if (code == EXIT_OK && policy->file != NULL) {
		code = policy_run(policy);
	}
	return code == EXIT_OK ? run_exec("run", path, argv, t, no_daemon) : code;
}

static int check_options(
	const struct rbt_treatment *t, const struct policy_choice *policy, bool no_daemon)
{
	if (device_remote() != NULL && (t->said != 0 || policy->file != NULL || no_daemon)) {
		return usage_error(&cmd_run, "the host decides about programs of its guests: give "
					     "these options to its `rubato serve`");
	}
	if (policy->file == NULL && (policy->engine != RBT_POLICY_AUTO || policy->n_settings > 0)) {
		return usage_error(&cmd_run, "--engine and --set are about a --policy");
	}
	if (policy->file != NULL && no_daemon) {
		return usage_error(
			&cmd_run, "--policy needs rubatod, so --no-daemon contradicts it");
	}
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	static const struct option more[] = {
		{"no-daemon", no_argument, NULL, 'n'},
		{"policy", required_argument, NULL, 'P'},
		{"engine", required_argument, NULL, 'e'},
		{"set", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct option options[TREAT_OPTIONS_MAX];
	struct rbt_treatment t = RBT_TREATMENT_INIT;
	struct policy_choice policy = {0};
	bool no_daemon = false;
	int c;

	if (nice_habit(&cmd_run, argc, argv) != EXIT_OK) {
		return EXIT_USAGE;
	}
	treat_options(RBT_TREAT_ALL, more, options);
	while ((c = getopt_long(argc, argv, "+" TREAT_LETTERS "g:h", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			no_daemon = true;
			break;
		case 'P':
			policy.file = optarg;
			break;
		case 'e':
		case 's':
			if (policy_option(&cmd_run, &policy, c) != 0) {
				return EXIT_USAGE;
			}
			break;
		case 'h':
			return print_usage(&cmd_run);
		case '?':
			return EXIT_USAGE;
		default:
			if (treat_option(&cmd_run, &t, c, optarg) != 0) {
				return EXIT_USAGE;
			}
		}
	}
	if (optind == argc) {
		return usage_error(&cmd_run, "no command to run");
	}
	if (check_options(&t, &policy, no_daemon) != EXIT_OK) {
		return EXIT_USAGE;
	}
	struct rbt_treatment all = add_environment(&t);
	set_run(&t);
	if (all.memory != 0) {
		warn_of_size(&all);
	}
	if (is_too_short(all.timeslice_us)) {
		rbt_error("run: the GPUs here have no timeslices, only turns of %d us and more",
			RBT_TURN_MIN_US);
		return EXIT_FAILED;
	}
	return execute(argv + optind, &all, no_daemon, &policy);
}

const struct command cmd_run = {
	.name = "run",
	.summary = "start a program with a class",
	.usage =
		"Usage: rubato run [--class CLASS] [--priority N] [--timeslice-us N] [--weight N]\n"
		"                  [--max-reserve-ms N] [--min-share PERCENT] [--memory SIZE]\n"
		"                  [--park-idle-s S] [--group NAME]\n"
		"                  [--policy FILE [--engine ENGINE] [--set NAME=VALUE]...]\n"
		"                  [--device soft [--sms N] [--mem MIB] | --device remote[=PATH]] [--] COMMAND...\n"
		"\n"
		"Runs COMMAND, unmodified, with a class. Needs no privilege.\n"
		"\n"
		"  -c, --class CLASS        latency, normal (default) or best-effort\n"
		"  -p, --priority N         0 (lowest) to 15 (highest); a class is its middle: 13, 8, 2\n"
		"  -t, --timeslice-us N     an exact timeslice, 1 to 1000000\n"
		"  -w, --weight N           share of the turns at equal priority, 1 (default) to 1000\n"
		"      --max-reserve-ms N   how long it may keep others off without being idle (2000)\n"
		"      --min-share PERCENT  its least share of the GPU while others are busy, 0 to 10 (2)\n"
		"      --memory SIZE        how much memory COMMAND and its children may have on each GPU,\n"
		"                           such as 20G. Default: no limit\n"
		"      --park-idle-s S      park COMMAND and its children, each by itself, after S seconds\n"
		"                           without any CUDA call. Default: never\n"
		"  -g, --group NAME         your programs in one group have their turns together. Default: the\n"
		"                           ranks of one job (torchrun, MPI, Slurm). none: no group\n"
		"      --policy FILE        load this policy in eBPF while COMMAND runs, as\n"
		"                           `rubato policy load` does; COMMAND is not started if the policy\n"
		"                           is refused, or if another one is loaded\n"
		"      --engine ENGINE      kernel, vm, or auto (default): of the policy\n"
		"      --set NAME=VALUE     set a `const volatile` variable of the policy; can be repeated\n"
		"      --no-daemon          do not use rubatod; the program sets its own timeslices\n"
		"                           as far as that is safe\n"
		"      --force              write to an unknown driver even if its trial failed\n"
		"      --device soft        use the software GPU, which all programs with this option share.\n"
		"                           It starts with the first of them and ends with the last.\n"
		"                           Other commands take this option, too\n"
		"      --device remote      use the GPU of the host, from a guest: `rubato serve` runs there.\n"
		"                           remote=PATH names its socket\n"
		"      --sms N              multiprocessors of the software GPU, if this starts it (4)\n"
		"      --mem MIB            memory of the software GPU, if this starts it (256)\n"
		"\n"
		"Exit status: COMMAND's own; 127 if it is not found, 126 if it cannot be run;\n"
		"1, or 4 without permission, if the policy is refused.\n",
	.run = run,
};
