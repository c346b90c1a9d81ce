/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/log.h"
#include "util/parse.h"
#include "util/time.h"

static struct sockaddr_un manager;
static socklen_t manager_len;
static uint64_t alive_every_ns;

void notify_init(void)
{
	const char *path = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	uint64_t v;
	size_t len = path != NULL ? strlen(path) : 0;

	/* A path, or with @ a name in the abstract namespace, which has no NUL at its end. */
	if (len > 1 && len < sizeof(manager.sun_path) && (path[0] == '/' || path[0] == '@')) {
		manager.sun_family = AF_UNIX;
		memcpy(manager.sun_path, path, len);
		if (path[0] == '@') {
			manager.sun_path[0] = '\0';
		}
		manager_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	}
	if (usec != NULL && rbt_parse_u64(usec, 1, UINT64_MAX / 1000, &v) == 0) {
		alive_every_ns = v * RBT_NS_PER_US / 2;
	}
	/* With another pid, the watchdog is meant for the process that started the daemon. */
	if (pid != NULL && (rbt_parse_u64(pid, 1, INT32_MAX, &v) < 0 || (pid_t)v != getpid())) {
		alive_every_ns = 0;
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

static void tell(const char *text)
{
	int fd = manager_len > 0 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

	/* Never waits: a manager that does not listen misses a message. */
	if (fd >= 0 && sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
			       (struct sockaddr *)&manager, manager_len) < 0) {
		rbt_debug("the service manager was not told: %s", text);
	}
	if (fd >= 0) {
		close(fd);
	}
}

void notify_ready(const char *status)
{
	char text[256];

	snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
	tell(text);
}

void notify_reloading(void)
{
	char text[96];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
		rbt_now_ns() / RBT_NS_PER_US);
	tell(text);
}

void notify_stopping(void)
{
	tell("STOPPING=1");
}

void notify_alive(void)
{
	tell("WATCHDOG=1");
}

uint64_t notify_alive_every_ns(void)
{
	return manager_len > 0 ? alive_every_ns : 0;
}
