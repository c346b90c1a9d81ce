/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubatod's command line, and the configuration as the command line changes it.
 */
#ifndef RBT_DAEMON_OPTIONS_H
#define RBT_DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config.h"

/* The command line. Strings that were not given are NULL: then the configuration counts, and
 * config_path is the default one. */
struct options {
	const char *config_path;
	const char *metrics_at;
	const char *max_reserve_ms, *min_share;
	bool is_system;        /* the daemon serves the whole machine, rather than one user */
	bool is_kept;          /* a keeper is wanted */
	uint64_t idle_exit_ns; /* 0: never */
};

/* Parses the command line. Returns -1 to go on, or an exit code; an error has been logged. */
int options_parse(int argc, char **argv, struct options *ret, int *ret_ready_fd);
/* Puts the options in place of the file's values. 0, or -EINVAL, which has been logged. */
int options_override(const struct options *o, struct config *config);
/* Reads the configuration, if there is one. 0, or -errno, and the error has been logged. */
int options_read_config(const struct options *o, struct config *ret);

#endif
