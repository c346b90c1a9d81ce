/* SPDX-License-Identifier: Apache-2.0 */
#include "test_nvidia_world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/nvidia/rm_abi.h"
#include "softgpu/rm/rm.h"

#define MAX_OPENS 64
#define NODE_NAME "world-nvidiactl"

static struct rbt_rm *rm;
static struct {
	uint64_t inode;
	struct rbt_rm_open *open;
} opens[MAX_OPENS];
static size_t n_opens;
static unsigned countdown_left;
static void (*before_fn)(void *data);
static void *before_data;

static void die(const char *what)
{
	perror(what);
	exit(99);
}

void world_reset(uint32_t first_client)
{
	struct rbt_rm_config config = {
		.driver_version = "580.159.04",
		.n_gpus = 2,
		.first_client = first_client,
		.memory_bytes = 1ull << 34,
	};

	world_finish();
	rm = rbt_rm_create(&config);
	if (rm == NULL) {
		die("model");
	}
}

void world_finish(void)
{
	rbt_rm_destroy(rm);
	rm = NULL;
	n_opens = 0;
	before_fn = NULL;
}

uint64_t world_log_lines(void)
{
	return rbt_rm_log_lines(rm);
}

void world_before_ioctl(unsigned countdown, void (*fn)(void *data), void *data)
{
	countdown_left = countdown;
	before_fn = fn;
	before_data = data;
}

int world_open(void)
{
	struct stat st;
	int fd = memfd_create(NODE_NAME, MFD_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || n_opens == MAX_OPENS) {
		die("memfd");
	}
	opens[n_opens].inode = st.st_ino;
	opens[n_opens].open =
		rbt_rm_open(rm, RBT_RM_NODE_CONTROL, 0, st.st_ino, getpid(), geteuid());
	if (opens[n_opens++].open == NULL) {
		die("open");
	}
	return fd;
}

/* The calls that the code under test makes. */

static int copy_in(void *data, uint64_t addr, void *buf, size_t size)
{
	memcpy(buf, (const void *)(uintptr_t)addr, size);
	return 0;
}

static int copy_out(void *data, uint64_t addr, const void *buf, size_t size)
{
	memcpy((void *)(uintptr_t)addr, buf, size);
	return 0;
}

static int caller_pid(void *data)
{
	return getpid();
}

static bool caller_may_nice(void *data)
{
	return false;
}

int ioctl(int fd, unsigned long request, ...)
{
	static const struct rbt_rm_env env = {
		.read = copy_in, .write = copy_out, .pid = caller_pid, .may_nice = caller_may_nice};
	struct stat st;
	uint64_t delay_us;
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (before_fn != NULL && --countdown_left == 0) {
		void (*fn)(void *) = before_fn;
		before_fn = NULL;
		fn(before_data);
	}
	if (fstat(fd, &st) < 0) {
		return -1;
	}
	for (size_t i = 0; i < n_opens; i++) {
		if (opens[i].inode != st.st_ino) {
			continue;
		}
		int r = rbt_rm_ioctl(
			opens[i].open, (uint32_t)request, (uintptr_t)arg, &env, &delay_us);
		errno = -r;
		return r < 0 ? -1 : 0;
	}
	errno = ENOTTY;
	return -1;
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (rm != NULL && strcmp(path, NV_CTL_PATH) == 0) {
		return world_open();
	}
	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t readlinkat(int dir, const char *restrict path, char *restrict buf, size_t size)
{
	char link[256] = "";
	ssize_t n = syscall(SYS_readlinkat, dir, path, link, sizeof(link) - 1);

	if (n > 0 && strstr(link, "memfd:" NODE_NAME) != NULL) {
		n = (ssize_t)strlen(NV_CTL_PATH);
		memcpy(link, NV_CTL_PATH, (size_t)n);
	}
	if (n > 0) {
		n = (size_t)n < size ? n : (ssize_t)size;
		memcpy(buf, link, (size_t)n);
	}
	return n;
}

/* The program's side of RM. */

uint32_t world_client(int fd)
{
	struct nv_alloc64 a = {.hclass = NV_CLASS_ROOT_CLIENT};

	if (ioctl(fd, NV_IOCTL_ALLOC64, &a) < 0 || a.status != NV_OK) {
		die("client");
	}
	return a.object;
}

void world_alloc(int fd, uint32_t client, uint32_t parent, uint32_t object, uint32_t hclass,
	const void *params, uint32_t params_size)
{
	struct nv_alloc64 a = {
		.root = client,
		.parent = parent,
		.object = object,
		.hclass = hclass,
		.params = (uintptr_t)params,
		.params_size = params_size,
	};

	if (ioctl(fd, NV_IOCTL_ALLOC64, &a) < 0 || a.status != NV_OK) {
		fprintf(stderr, "object 0x%x of class 0x%x: status 0x%x\n", object, hclass,
			a.status);
		exit(99);
	}
}

void world_control(
	int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
	struct nv_control c = {
		.client = client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = size,
	};

	if (ioctl(fd, NV_IOCTL_CONTROL, &c) < 0 || c.status != NV_OK) {
		fprintf(stderr, "control 0x%x: status 0x%x\n", cmd, c.status);
		exit(99);
	}
}

void world_context(int fd, uint32_t client, uint32_t gpu, uint32_t base)
{
	struct nv_device_params device = {.device_id = gpu};
	struct nv_subdevice_params subdevice = {0};
	uint32_t next = base + 2;

	world_alloc(fd, client, client, base, NV_CLASS_DEVICE, &device, sizeof(device));
	world_alloc(fd, client, base, base + 1, NV_CLASS_SUBDEVICE, &subdevice, sizeof(subdevice));
	for (uint32_t t = 0; t < WORLD_CONTEXT_TASKS; t++) {
		struct nv_tsg_params tsg = {
			.engine_type = t == 0 ? NV_ENGINE_TYPE_GRAPHICS : NV_ENGINE_TYPE_COPY0 + t,
		};
		uint32_t group = next++;
		world_alloc(fd, client, base, group, NV_CLASS_TSG, &tsg, sizeof(tsg));
		for (uint32_t c = 0; c < (t == 0 ? 8 : 4); c++) {
			uint32_t channel = next++;
			world_alloc(fd, client, group, channel, NV_CLASS_CHANNEL_HOPPER, NULL, 0);
			if (t == 0) {
				world_alloc(fd, client, channel, next++, NV_CLASS_COMPUTE_HOPPER,
					NULL, 0);
			}
			world_alloc(fd, client, channel, next++, NV_CLASS_COPY_HOPPER, NULL, 0);
		}
	}
	struct nv_timeslice_params slice = {.timeslice_us = NV_DEFAULT_COMPUTE_TIMESLICE_US};
	world_control(fd, client, base + 2, NV_CTRL_TSG_SET_TIMESLICE, &slice, sizeof(slice));
}

/* Targets. */

#define SPACING     32 /* words between two plants: no company but what was asked for */
#define PLACE_WORDS (1u << 20)

static volatile uint32_t data_words[PLACE_WORDS];

static volatile uint32_t *place_of(const char *name)
{
	if (strcmp(name, "data") == 0) {
		return data_words;
	}
	if (strcmp(name, "heap") == 0) {
		return sbrk(PLACE_WORDS * 4);
	}
	return mmap(NULL, 256u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void plant(const char *words)
{
	static size_t data_used;
	char place[8];
	unsigned handle, count, object;

	if (sscanf(words, "%7[a-z],%x,%u,%x", place, &handle, &count, &object) != 4) {
		_exit(98);
	}
	volatile uint32_t *w = place_of(place);
	if (w == data_words) {
		w += data_used;
		data_used += (size_t)count * SPACING;
	}
	for (size_t i = 0; i < count && (i + 1) * SPACING < PLACE_WORDS; i++) {
		w[i * SPACING] = handle;
		w[i * SPACING + 1] = object;
	}
}

static volatile sig_atomic_t want_exec, want_worker;

static void on_signal(int sig)
{
	want_exec |= sig == SIGUSR1;
	want_worker |= sig == SIGUSR2;
}

void world_target(int argc, char **argv)
{
	sigset_t none, ours;

	if (argc < 3 || strcmp(argv[1], "--target") != 0) {
		return;
	}
	sigemptyset(&none);
	sigemptyset(&ours);
	sigaddset(&ours, SIGUSR1);
	sigaddset(&ours, SIGUSR2);
	sigprocmask(SIG_BLOCK, &ours, NULL);
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	for (int i = 0; i < atoi(argv[2]); i++) {
		fcntl(WORLD_FIRST_FD + i, F_SETFD, FD_CLOEXEC);
	}
	for (int i = 3; i < argc; i++) {
		plant(argv[i]);
	}
	dprintf(STDOUT_FILENO, "%d\n", (int)getpid());
	for (;;) {
		sigsuspend(&none);
		if (want_exec) {
			execlp("sleep", "sleep", "60", (char *)NULL);
			_exit(98);
		}
		if (want_worker && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			dprintf(STDOUT_FILENO, "%d\n", (int)getpid());
		}
		want_worker = 0;
	}
}

static int from_target = -1; /* the pipe of the last one started */

static pid_t read_pid(void)
{
	char text[16] = "";

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		if (read(from_target, text + n, 1) != 1 || text[n] == '\n') {
			break;
		}
	}
	return atoi(text);
}

pid_t world_start(const int *fds, size_t n_fds, const char *const *words)
{
	const char *argv[32] = {"target", "--target"};
	char count[16];
	int out[2], argc = 3;

	snprintf(count, sizeof(count), "%zu", n_fds);
	argv[2] = count;
	for (; words != NULL && *words != NULL && argc < 31; words++) {
		argv[argc++] = *words;
	}
	if (pipe2(out, O_CLOEXEC) < 0) {
		die("pipe");
	}
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], STDOUT_FILENO);
		for (size_t i = 0; i < n_fds; i++) {
			dup2(fds[i], WORLD_FIRST_FD + (int)i);
		}
		execv("/proc/self/exe", (char *const *)argv);
		_exit(98);
	}
	for (size_t i = 0; i < n_fds; i++) {
		close(fds[i]);
	}
	close(out[1]);
	if (from_target >= 0) {
		close(from_target);
	}
	from_target = out[0];
	if (pid < 0 || read_pid() != pid) {
		die("target");
	}
	return pid;
}

pid_t world_fork_worker(pid_t pid)
{
	kill(pid, SIGUSR2);
	return read_pid();
}

void world_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
