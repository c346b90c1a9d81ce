/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubatod's command line, and the configuration as the command line changes it.
 */
#ifndef RBT_DAEMON_OPTIONS_H
#define RBT_DAEMON_OPTIONS_H

#include "daemon/config.h"

struct daemon;

/* Fills in what was said. Returns -1 to go on, or an exit code; an error has been said. */
int options_parse(int argc, char **argv, struct daemon *d, int *ret_ready_fd);
/* Options go before what the file says. 0, or -EINVAL and that was said. */
int options_override(const struct daemon *d, struct config *config);
/* Reads the configuration, if there is one. 0, or -errno and the error has been said. */
int options_read_config(struct daemon *d, struct config *ret);

#endif
