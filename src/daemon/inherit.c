/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that was started on demand inherits from its user's shell limits that are meant for one
 * program, and ignored signals. Neither must stop it.
 */
#include "daemon/inherit.h"

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

/* As far as the hard limits allow. */
static void lift_limits(void)
{
	static const int limits[] = {
		RLIMIT_AS, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_SIGPENDING};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit limit;
		const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
		if (getrlimit(limits[i], &limit) == 0 && setrlimit(limits[i], &none) < 0) {
			limit.rlim_cur = limit.rlim_max;
			setrlimit(limits[i], &limit);
		}
	}
}

void inherit_nothing(void)
{
	static const int usual[] = {SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGALRM};

	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		signal(usual[i], SIG_DFL);
	}
	/* A write then fails, and says why. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGXCPU, SIG_IGN);
	lift_limits();
}
