/* SPDX-License-Identifier: Apache-2.0 */
/* rubato-vhost-user: the virtio device of one virtual machine; `rubato serve --qemu` starts it. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "remote/vhost/backend.h"
#include "util/fd.h"
#include "util/log.h"

static const char usage[] =
	"Usage: rubato-vhost-user --qemu PATH --serve PATH [--once]\n"
	"The virtio device through which programs of a virtual machine reach their workers.\n"
	"\n"
	"  --qemu PATH   the socket of QEMU's -chardev socket,path=PATH,server=on\n"
	"  --serve PATH  the socket of `rubato serve`\n"
	"  --once        end with QEMU, instead of waiting for the next one\n"
	"  --help        this text\n";

/* How often to look for QEMU's socket. */
#define RETRY_US 100000

static int connect_qemu(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (sock < 0) {
		return -errno;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int error = -errno;
		rbt_close(&sock);
		return error;
	}
	return sock;
}

/* Waits for QEMU. Returns an fd, or -errno if it cannot be waited for. */
static int await_qemu(const char *path)
{
	for (;;) {
		int sock = connect_qemu(path);

		if (sock >= 0 || (sock != -ENOENT && sock != -ECONNREFUSED && sock != -EAGAIN)) {
			return sock;
		}
		usleep(RETRY_US);
	}
}

static int wrong_usage(const char *why)
{
	rbt_error("%s; see rubato-vhost-user --help", why);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"qemu", required_argument, NULL, 'q'},
		{"serve", required_argument, NULL, 's'}, {"once", no_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'}, {0}};
	static struct backend b;
	const char *qemu = NULL, *serve = NULL;
	bool is_once = false;
	const size_t longest = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	rbt_log_name("rubato-vhost-user");
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 'q':
			qemu = optarg;
			break;
		case 's':
			serve = optarg;
			break;
		case 'o':
			is_once = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			return 2;
		}
	}
	if (optind < argc || qemu == NULL || serve == NULL) {
		return wrong_usage("needs --qemu PATH and --serve PATH, and no other argument");
	}
	if (strlen(qemu) > longest || strlen(serve) > longest) {
		return wrong_usage("the path of a socket has at most 107 bytes");
	}
	signal(SIGPIPE, SIG_IGN);
	int error = backend_init(&b, serve);
	if (error < 0) {
		rbt_error("cannot start: %s", strerror(-error));
		return 1;
	}
	do {
		int sock = await_qemu(qemu);
		if (sock < 0) {
			rbt_error("cannot connect to QEMU at %s: %s", qemu, strerror(-sock));
			return 1;
		}
		error = backend_serve(&b, sock);
		/* A QEMU that sends nonsense would do so again at once. */
		if (error < 0) {
			usleep(RETRY_US);
		}
	} while (!is_once);
	return error < 0 ? 1 : 0;
}
