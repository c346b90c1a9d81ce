/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What librubato.so of version 0.1.0 says to the daemon, byte for byte: HELLO with priority, slice
 * and force, then WEIGHT, LIMITS, GROUP and RECORD. Programs keep that library loaded across an
 * upgrade, so the daemon must understand it; nothing here may change with the protocol. Preloaded
 * into rmclient, it learns the tasks from the calls, as the library did, and reads the environment
 * that `rubato run` of that version made. It speaks once, when the first context is ready.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "backend/nvidia/rm_abi.h"

#define MAGIC        0x74627201u
#define MAX_TASKS    8
#define MAX_CHANNELS 256

enum { HELLO = 1, RECORD = 2, WEIGHT = 13, GROUP = 14, LIMITS = 15 };

struct task {
	uint32_t handle, subdevice, gpu, kind, runlist, id, creator_tid, valid;
	uint32_t first_channel, n_channels;
	uint64_t own_us;
};

static struct {
	uint32_t client, subdevice, n_tasks, n_channels;
	struct task tasks[MAX_TASKS];
	uint32_t channels[MAX_CHANNELS];
	int sock;
} known = {.sock = -1};

static uint32_t number(const char *name)
{
	const char *value = getenv(name);

	return value != NULL ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

static void say(const void *msg, size_t size, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)msg, .iov_len = size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_len = CMSG_LEN(sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(known.sock, &m, MSG_NOSIGNAL) < 0) {
		perror("oldshim: sendmsg");
	}
}

static void say_wishes(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	struct {
		uint32_t magic, type, priority, force;
		uint64_t timeslice_us, loaded_ns;
	} hello = {MAGIC, HELLO, number("RUBATO_PRIORITY"), number("RUBATO_FORCE"),
		number("RUBATO_TIMESLICE_US"),
		(uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec};
	uint32_t weight[4] = {MAGIC, WEIGHT, number("RUBATO_WEIGHT"), 0};
	uint32_t limits[4] = {MAGIC, LIMITS, number("RUBATO_MAX_RESERVE_MS"),
		number("RUBATO_MIN_SHARE_PERMILLE")};
	struct {
		uint32_t magic, type;
		char name[64];
	} group = {MAGIC, GROUP, ""};
	const char *name = getenv("RUBATO_GROUP");

	/* The first ones had no time of loading. */
	say(&hello, number("OLDSHIM_IS_FIRST") != 0 ? 24 : 32, -1);
	if (weight[2] != 0) {
		say(weight, sizeof(weight), -1);
	}
	if ((limits[2] | limits[3]) != 0) {
		limits[3] = getenv("RUBATO_MIN_SHARE_PERMILLE") != NULL && limits[3] == 0
				    ? UINT32_MAX
				    : limits[3];
		say(limits, sizeof(limits), -1);
	}
	if (name != NULL) {
		snprintf(group.name, sizeof(group.name), "%s", name);
		say(&group, sizeof(group), -1);
	}
}

static void say_record(int fd)
{
	uint32_t head[8] = {
		MAGIC, RECORD, 1, known.client, (uint32_t)fd, known.n_tasks, known.n_channels, 0};
	char buf[sizeof(head) + sizeof(known.tasks) + sizeof(known.channels)];
	size_t tasks = known.n_tasks * sizeof(struct task);
	size_t channels = known.n_channels * sizeof(uint32_t);

	memcpy(buf, head, sizeof(head));
	memcpy(buf + sizeof(head), known.tasks, tasks);
	memcpy(buf + sizeof(head) + tasks, known.channels, channels);
	say(buf, sizeof(head) + tasks + channels, fd);
}

static void speak(int fd)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *path = getenv("RUBATO_SOCKET");

	if (path == NULL || known.sock >= 0) {
		return;
	}
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	known.sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(known.sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		perror("oldshim: connect");
		return;
	}
	say_wishes();
	say_record(fd);
}

static void on_alloc(const struct nv_alloc64 *a)
{
	if (a->hclass == NV_CLASS_SUBDEVICE) {
		known.client = a->root;
		known.subdevice = a->object;
	} else if (a->hclass == NV_CLASS_TSG && known.n_tasks < MAX_TASKS) {
		/* The first of a context is for compute. */
		bool is_compute = known.n_tasks % 4 == 0;
		known.tasks[known.n_tasks++] = (struct task){
			.handle = a->object,
			.subdevice = known.subdevice,
			.kind = is_compute ? 0 : 1,
			.valid = 1 << 3, /* own_us */
			.first_channel = known.n_channels,
			.own_us = is_compute ? 2048 : 1024,
		};
	} else if (known.n_tasks > 0 && known.n_channels < MAX_CHANNELS &&
		   a->parent == known.tasks[known.n_tasks - 1].handle &&
		   a->hclass == NV_CLASS_CHANNEL_HOPPER) {
		known.channels[known.n_channels++] = a->object;
		known.tasks[known.n_tasks - 1].n_channels++;
	}
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int fd, unsigned long request, ...);
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (next == NULL) {
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	}
	int r = next(fd, request, arg);
	if (r == 0 && request == NV_IOCTL_ALLOC64) {
		on_alloc(arg);
	}
	/* The last call of a context. */
	if (r == 0 && request == NV_IOCTL_CONTROL &&
		((struct nv_control *)arg)->cmd == NV_CTRL_TSG_SET_TIMESLICE) {
		speak(fd);
	}
	return r;
}
