/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config.h"
#include "daemon/metrics/metrics.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/time.h"

/* An option goes before the file's value. 0, or -EINVAL, which has been logged. */
static int override(const char *key, const char *value, struct config *config)
{
	char why[600];
	int r = value != NULL ? config_set(config, key, value, why, sizeof(why)) : 0;

	if (r < 0) {
		rbt_error("%s", why);
	}
	return r;
}

int options_override(const struct options *o, struct config *config)
{
	int r = override("max_reserve_ms", o->max_reserve_ms, config);

	return r < 0 ? r : override("min_share", o->min_share, config);
}

int options_read_config(const struct options *o, struct config *ret)
{
	char path[4096];
	int r = 0;

	if (o->config_path != NULL) {
		snprintf(path, sizeof(path), "%s", o->config_path);
	} else {
		r = config_default_path(path, sizeof(path));
	}
	if (r == 0) {
		r = config_read(path, ret);
	}
	if (r == -ENOENT && o->config_path == NULL) {
		config_default(ret);
		r = 0;
	}
	if (r == 0) {
		return options_override(o, ret);
	}
	if (r < 0 && r != -EINVAL) {
		rbt_error("cannot read %s: %s", path, strerror(-r));
	}
	return r;
}

static const char usage[] =
	"Usage: rubatod [--system] [--config FILE] [--max-reserve-ms N] [--min-share PERCENT]\n"
	"               [--metrics PATH|PORT] [--keep] [--idle-exit-s N] [--ready-fd FD]\n"
	"       rubatod --check FILE\n"
	"Keeps what `rubato` was asked to do in force. Started on demand by the rubato tools.\n"
	"\n"
	"  --system         serve all users of this machine, as a service does\n"
	"  --config FILE    how to share GPUs, in place of /etc/rubato/rubatod.conf (root) or\n"
	"                   ~/.config/rubato/rubatod.conf; read again on SIGHUP\n"
	"  --check FILE     only say whether that is a configuration file\n"
	"  --max-reserve-ms N, --min-share PERCENT\n"
	"                   in place of what the configuration says; see rubatod.conf(5)\n"
	"  --metrics AT     serve accounts to Prometheus on a socket's absolute path, or on a port\n"
	"                   of the loopback interface; none: not at all (default)\n"
	"  --keep           start again after being killed, as `rubato` starts it\n"
	"  --idle-exit-s N  end after N seconds without programs or tools (default: stay)\n"
	"  --ready-fd FD    write one byte to FD when the socket answers\n"
	"  --help, --version\n";

static int check_config(const char *path)
{
	struct config config;
	int r = config_read(path, &config);

	if (r == 0) {
		printf("%s: ok\n", path);
		config_finish(&config);
	} else if (r != -EINVAL) {
		rbt_error("cannot read %s: %s", path, strerror(-r));
	}
	return r == 0 ? 0 : 1;
}

static const struct option options[] = {
	{"system", no_argument, NULL, 's'},
	{"config", required_argument, NULL, 'c'},
	{"check", required_argument, NULL, 'C'},
	{"max-reserve-ms", required_argument, NULL, 'M'},
	{"min-share", required_argument, NULL, 'S'},
	{"metrics", required_argument, NULL, 'm'},
	{"keep", no_argument, NULL, 'k'},
	{"idle-exit-s", required_argument, NULL, 'i'},
	{"ready-fd", required_argument, NULL, 'r'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

static int parse_number(const char *arg, uint64_t *ret)
{
	int r = rbt_parse_u64(arg, 0, 1000000, ret);

	if (r < 0) {
		rbt_error("not a number between 0 and 1000000: %s", arg);
	}
	return r;
}

/* Checks values that are only used later. */
static int check_values(const struct options *o)
{
	struct config scratch;

	if (o->metrics_at != NULL && metrics_check(o->metrics_at) < 0) {
		rbt_error("not an absolute path, a port or none: %s", o->metrics_at);
		return -EINVAL;
	}
	config_default(&scratch);
	return options_override(o, &scratch);
}

int options_parse(int argc, char **argv, struct options *ret, int *ret_ready_fd)
{
	const char *check = NULL;
	uint64_t v;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			ret->is_system = true;
			break;
		case 'c':
			ret->config_path = optarg;
			break;
		case 'C':
			check = optarg;
			break;
		case 'M':
			ret->max_reserve_ms = optarg;
			break;
		case 'S':
			ret->min_share = optarg;
			break;
		case 'm':
			ret->metrics_at = optarg;
			break;
		case 'k':
			ret->is_kept = true;
			break;
		case 'i':
			if (parse_number(optarg, &v) < 0) {
				return 2;
			}
			ret->idle_exit_ns = v * RBT_NS_PER_S;
			break;
		case 'r':
			if (parse_number(optarg, &v) < 0) {
				return 2;
			}
			*ret_ready_fd = (int)v;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			puts("rubatod " RUBATO_VERSION);
			return 0;
		default:
			return 2;
		}
	}
	if (optind != argc) {
		rbt_error("unexpected argument: %s", argv[optind]);
		return 2;
	}
	if (check_values(ret) < 0) {
		return 2;
	}
	return check != NULL ? check_config(check) : -1;
}
