/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/nvidia/rm_abi.h"
#include "softgpu/commands.h"
#include "softgpu/device/device.h"
#include "softgpu/kfd/options.h"
#include "softgpu/session/supervise.h"
#include "util/log.h"
#include "util/parse.h"

#define DEFAULT_DRIVER       "580.159.04"
#define DEFAULT_MEMORY_MIB   256
#define MAX_MEMORY_MIB       (1u << 20)
#define DEFAULT_SMS          4
#define MAX_SMS              64
#define DEFAULT_FIRST_CLIENT 0x12

const char help_exec[] =
	"usage: rubato-softgpu exec [options] [--] COMMAND [ARGUMENT…]\n"
	"\n"
	"Runs COMMAND, and all it starts, on software GPUs: /dev/nvidiactl, /dev/nvidia0… and the driver's\n"
	"version files are there for it, and its calls on them are answered by the session's device server.\n"
	"Inside a session already, it simply runs COMMAND there.\n"
	"\n"
	"  --session DIR       share the GPUs of all commands that name DIR (default: $RUBATO_SOFTGPU, else a\n"
	"                      session for this command alone)\n"
	"  --driver VERSION    the driver to imitate (default " DEFAULT_DRIVER ")\n"
	"  --gpus N            how many GPUs, 0 to 32 (default 1); 0: no NVIDIA driver\n"
	"  --sms N             multiprocessors of each, 1 to 64 (default 4)\n"
	"  --mem MIB           memory of each (default 256)\n"
	"  --preempt HOW       how one program's kernels make room for another's: timeslice (default), exact,\n"
	"                      reset, flag or drain\n"
	"  --quirks LIST       hardware quirks to imitate: drowsy, setup, slow-calls, separated by commas;\n"
	"                      all; none (default)\n"
	"  --log-switches      log in the session's device.log when compute tasks are taken off the GPU, and\n"
	"                      when they are let back on\n"
	"  --first-client N    number of the first client; a high one (0x9a000) imitates a long uptime\n" KFD_OPTIONS_HELP
	"  --help              this text\n"
	"\n"
	"Exit status: the command's; 128 + N if signal N ended it; 127 not found; 126 not executable.\n";

struct options {
	struct link_config config;
	const char *session;
	bool has_driver, has_gpus, has_memory, has_first, has_sms, has_mechanism, has_quirks,
		has_log;
};

static int number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	int r = rbt_parse_u64(text, min, max, ret);

	if (r < 0 && strncmp(text, "0x", 2) == 0) {
		char *end;
		*ret = strtoull(text + 2, &end, 16);
		r = text[2] != '\0' && *end == '\0' && *ret >= min && *ret <= max ? 0 : -EINVAL;
	}
	if (r < 0) {
		rbt_error("exec: --%s wants a number from %llu to %llu, not '%s'", option,
			(unsigned long long)min, (unsigned long long)max, text);
	}
	return r;
}

static int take_driver(struct options *o, const char *text)
{
	if (text[0] < '0' || text[0] > '9' || strlen(text) >= sizeof(o->config.rm.driver_version) ||
		text[strspn(text, "0123456789.")] != '\0') {
		rbt_error("exec: --driver wants a version such as " DEFAULT_DRIVER ", not '%s'",
			text);
		return -EINVAL;
	}
	strcpy(o->config.rm.driver_version, text);
	o->has_driver = true;
	return 0;
}

static int take_mechanism(struct options *o, const char *text)
{
	enum rbt_mechanism m;

	if (rbt_mechanism_parse(text, &m) < 0) {
		rbt_error("exec: --preempt wants timeslice, exact, reset, flag or drain, not '%s'",
			text);
		return -EINVAL;
	}
	o->config.mechanism = m;
	o->has_mechanism = true;
	return 0;
}

static int take_quirks(struct options *o, const char *text)
{
	if (rbt_rm_quirks_parse(text, &o->config.rm.quirks) < 0) {
		rbt_error("exec: --quirks wants names of drowsy, setup, slow-calls, all or none, "
			  "not '%s'",
			text);
		return -EINVAL;
	}
	o->has_quirks = true;
	return 0;
}

/* One option; 0 or -EINVAL after a message. */
static int take_option(struct options *o, int option, const char *value)
{
	uint64_t v = 0;
	int r = 0;

	switch (option) {
	case 's':
		o->session = value;
		break;
	case 'd':
		r = take_driver(o, value);
		break;
	case 'g':
		r = number("gpus", value, 0, NV_MAX_GPUS, &v);
		o->config.rm.n_gpus = (uint32_t)v;
		o->has_gpus = true;
		break;
	case 'm':
		r = number("mem", value, 1, MAX_MEMORY_MIB, &v);
		o->config.rm.memory_bytes = v << 20;
		o->has_memory = true;
		break;
	case 'n':
		r = number("sms", value, 1, MAX_SMS, &v);
		o->config.n_sms = (uint32_t)v;
		o->has_sms = true;
		break;
	case 'p':
		r = take_mechanism(o, value);
		break;
	case 'q':
		r = take_quirks(o, value);
		break;
	case 'l':
		o->config.rm.logs_switches = 1;
		o->has_log = true;
		break;
	default:
		r = number("first-client", value, 0, 0xfffff, &v);
		o->config.rm.first_client = (uint32_t)v;
		o->has_first = true;
		break;
	}
	return r;
}

/* 0, 1 after --help, or -EINVAL after a message. */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"session", required_argument, NULL, 's'},
		{"driver", required_argument, NULL, 'd'},
		{"gpus", required_argument, NULL, 'g'},
		{"sms", required_argument, NULL, 'n'},
		{"mem", required_argument, NULL, 'm'},
		{"preempt", required_argument, NULL, 'p'},
		{"quirks", required_argument, NULL, 'q'},
		{"log-switches", no_argument, NULL, 'l'},
		{"first-client", required_argument, NULL, 'c'},
		KFD_OPTIONS,
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, r = 0;

	opterr = 0;
	while (r == 0 && (option = getopt_long(argc, argv, "+:h", longs, NULL)) != -1) {
		if (option == 'h') {
			fputs(help_exec, stdout);
			return 1;
		}
		if (option == '?' || option == ':') {
			rbt_error("exec: unknown option, or one without its value: %s (see --help)",
				argv[optind - 1]);
			return -EINVAL;
		}
		r = option >= KFD_OPT_GPUS ? kfd_take_option(&o->config.kfd, option, optarg)
					   : take_option(o, option, optarg);
	}
	if (r == 0 && optind >= argc) {
		rbt_error("exec: no command given (see --help)");
		return -EINVAL;
	}
	return r;
}

/* A running server keeps its configuration. If the user asked for another one, that must not be
 * ignored silently. */
static bool fits(const struct options *o, const struct link_config *have)
{
	const struct rbt_rm_config *asked = &o->config.rm, *rm = &have->rm;

	return (!o->has_driver || strcmp(asked->driver_version, rm->driver_version) == 0) &&
	       (!o->has_gpus || asked->n_gpus == rm->n_gpus) &&
	       (!o->has_memory || asked->memory_bytes == rm->memory_bytes) &&
	       (!o->has_first || asked->first_client == rm->first_client) &&
	       (!o->has_sms || o->config.n_sms == have->n_sms) &&
	       (!o->has_mechanism || o->config.mechanism == have->mechanism) &&
	       (!o->has_log || asked->logs_switches == rm->logs_switches) &&
	       (!o->has_quirks || asked->quirks == rm->quirks);
}

/* Returns an exit status; does not return if the command could be run. */
static int run_inside(const char *dir, char **argv)
{
	int r = session_export(dir);

	if (r < 0) {
		rbt_error("exec: cannot make a runtime directory in session %s: %s", dir,
			strerror(-r));
		return EXIT_FAILED;
	}
	execvp(argv[0], argv);
	int err = errno;
	rbt_error("%s: %s", argv[0], strerror(err));
	return err == ENOENT ? 127 : 126;
}

static int run_new(struct options *o, char **argv)
{
	struct session session;
	const char *what = "make";
	int r = session_open(&session, o->session);

	if (r == 0) {
		what = "join";
		r = session_join(&session, &o->config);
	}
	if (r == 0) {
		what = "set up";
		r = session_export(session.dir);
	}
	if (r < 0) {
		rbt_error("exec: cannot %s session %s: %s", what,
			o->session != NULL ? o->session : "directory", strerror(-r));
		return EXIT_FAILED;
	}
	if (!kfd_options_fit(&o->config.kfd, &session.welcome.config.kfd)) {
		rbt_error(
			"exec: session %s is running with %u AMD GPUs, KFD 1.%u: other options need another session",
			session.dir, session.welcome.config.kfd.n_gpus,
			session.welcome.config.kfd.minor);
		return EXIT_FAILED;
	}
	if (!fits(o, &session.welcome.config)) {
		const struct link_config *have = &session.welcome.config;
		rbt_error(
			"exec: session %s is running with driver %s, %u GPUs of %u SMs and %llu MiB, preempting by %s, %s quirks: other options need another session",
			session.dir, have->rm.driver_version, have->rm.n_gpus, have->n_sms,
			(unsigned long long)(have->rm.memory_bytes >> 20),
			rbt_mechanism_name((enum rbt_mechanism)have->mechanism),
			have->rm.quirks != 0 ? "with" : "without");
		return EXIT_FAILED;
	}
	return supervise(&session, argv);
}

int cmd_exec(int argc, char **argv)
{
	char current[SESSION_MAX_PATH];
	struct options o = {
		.config = {.rm = {.driver_version = DEFAULT_DRIVER,
				   .n_gpus = 1,
				   .first_client = DEFAULT_FIRST_CLIENT,
				   .memory_bytes = (uint64_t)DEFAULT_MEMORY_MIB << 20},
			.n_sms = DEFAULT_SMS,
			.mechanism = RBT_MECHANISM_TIMESLICE,
			.kfd = RBT_KFD_CONFIG_INIT},
	};
	int r = parse(argc, argv, &o);

	if (r != 0) {
		return r > 0 ? EXIT_OK : EXIT_USAGE;
	}
	if (o.session == NULL) {
		o.session = getenv(SESSION_ENV);
	}
	if (o.session != NULL && o.session[0] == '\0') {
		rbt_error("exec: the session's directory is empty");
		return EXIT_USAGE;
	}
	if (session_current(current, sizeof(current)) == 0) {
		char *real = o.session != NULL ? realpath(o.session, NULL) : NULL;
		bool same = o.session == NULL || (real != NULL && strcmp(real, current) == 0);
		free(real);
		if (!same) {
			rbt_error("exec: already inside session %s; a program can be in one only",
				current);
			return EXIT_FAILED;
		}
		return run_inside(current, argv + optind);
	}
	return run_new(&o, argv + optind);
}
