/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/kfd/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/amd/kfd_abi.h"
#include "softgpu/kfd/sysfs.h"
#include "softgpu/kfd/timing.h"
#include "softgpu/serve/server_impl.h"
#include "util/fd.h"
#include "util/proc.h"
#include "util/time.h"

#define OCCUPANCY_NS (100 * RBT_NS_PER_MS)
#define CHECK_NS     (100 * RBT_NS_PER_MS) /* for processes that have called exec */

struct process {
	struct process *next;
	int pid, pidfd, mem;
	uint32_t occupancy[RBT_KFD_MAX_GPUS]; /* as sysfs says it */
};

struct kfd_serve {
	struct server *server;
	struct rbt_kfd *model;
	struct kfd_sysfs *sysfs;
	struct process *processes;
	int ended; /* epoll: pidfds */
	/* The current call: its process, and its argument. */
	int caller;
	uint64_t arg;
	uint32_t blocked;
	bool changed;
	uint64_t next_ns, occupancy_ns, checked_ns;
};

static struct process *find(const struct kfd_serve *k, int pid)
{
	for (struct process *p = k->processes; p != NULL; p = p->next) {
		if (p->pid == pid) {
			return p;
		}
	}
	return NULL;
}

static bool is_blocked(const struct kfd_serve *k, int pid, uint64_t addr, uint32_t what)
{
	return pid == k->caller && addr == k->arg && (k->blocked & what) != 0;
}

static int read_memory(void *data, int pid, uint64_t addr, void *buf, size_t size)
{
	const struct process *p = find(data, pid);

	if (is_blocked(data, pid, addr, LINK_CANNOT_READ)) {
		return -EFAULT;
	}
	return p != NULL && p->mem >= 0 && pread(p->mem, buf, size, (off_t)addr) == (ssize_t)size
		       ? 0
		       : -EFAULT;
}

static int write_memory(void *data, int pid, uint64_t addr, const void *buf, size_t size)
{
	const struct process *p = find(data, pid);

	if (is_blocked(data, pid, addr, LINK_CANNOT_WRITE)) {
		return -EFAULT;
	}
	return p != NULL && p->mem >= 0 && pwrite(p->mem, buf, size, (off_t)addr) == (ssize_t)size
		       ? 0
		       : -EFAULT;
}

static uint64_t read_doorbell(void *data, int pid, uint32_t gpu, uint32_t queue)
{
	const struct kfd_serve *k = data;

	return nodes_doorbell(k->server->nodes, pid, gpu, queue);
}

static void remove_process(struct kfd_serve *k, int pid);

/* Memory of an address space that has ended, by exec, reads as empty. In one that exists, the first
 * page cannot be read. */
static bool space_has_gone(const struct process *p)
{
	char byte;

	return p->mem >= 0 && pread(p->mem, &byte, 1, 0) == 0;
}

/* A process may end for KFD and live on. Its death is reported by its pidfd. */
static void bury_space(struct kfd_serve *k, struct process *p)
{
	int pid = p->pid;

	if (space_has_gone(p)) {
		rbt_kfd_exit(k->model, pid);
		remove_process(k, pid);
		k->changed = true;
	}
}

/* The number after a name in /proc/TID/status, which every user may read; -1. */
static int status_number(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at != NULL ? atoi(at + strlen(name)) : -1;
}

static int find_tracer(void *data, int pid, struct rbt_kfd_task *ret)
{
	struct kfd_serve *k = data;
	struct process *p = find(k, pid);
	char path[64], status[4096];

	/* The model is working on the caller's own process. */
	if (p != NULL && pid != k->caller) {
		bury_space(k, p);
	}
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (pid <= 0 || rbt_read_file(path, status, sizeof(status)) < 0 ||
		strstr(status, "\nState:\tZ") != NULL || strstr(status, "\nState:\tX") != NULL) {
		return -ESRCH;
	}
	ret->tid = status_number(status, "\nTracerPid:");
	ret->pid = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", ret->tid);
	if (ret->tid > 0 && rbt_read_file(path, status, sizeof(status)) > 0) {
		ret->pid = status_number(status, "\nTgid:");
	}
	return 0;
}

/* Whether the caller may write to its fd: we may have more rights than the caller, and open it
 * again. */
static bool is_writable(int tid, int fd)
{
	char path[64], text[1024];
	unsigned flags = 0;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", tid, fd);
	if (rbt_read_file(path, text, sizeof(text)) < 0) {
		return false;
	}
	const char *at = strstr(text, "flags:");
	return at != NULL && sscanf(at + 6, "%o", &flags) == 1 && (flags & O_ACCMODE) != O_RDONLY;
}

/*
 * Opened again by way of /proc, which works for pipes. The kernel accepts any file, but cannot
 * write to some (an eventfd needs eight bytes): those get no events here either. Nor do sockets and
 * regular files, to which the kernel could write.
 */
static int get_file(void *data, struct rbt_kfd_task caller, int fd)
{
	struct kfd_serve *k = data;
	char path[64], line[128];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", caller.tid, fd);
	if (fd < 0 || lstat(path, &st) < 0) {
		return -EBADF;
	}
	int file = is_writable(caller.tid, fd) ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	/* Checked after it is open: the link's target may have changed before. */
	if (file >= 0 && (fstat(file, &st) < 0 || !S_ISFIFO(st.st_mode))) {
		rbt_close(&file);
	}
	if (file < 0) {
		snprintf(line, sizeof(line), "pid %d: fd %d gets no debug events: it is no pipe",
			caller.pid, fd);
		server_log(k->server, line);
		file = open("/dev/null", O_WRONLY | O_CLOEXEC);
	}
	return file < 0 ? -EBADF : file;
}

static void write_file(void *data, int file)
{
	(void)!write(file, ".", 1);
}

static void put_file(void *data, int file)
{
	close(file);
}

static void add_process(struct kfd_serve *k, int pid)
{
	struct process *p = calloc(1, sizeof(*p));
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)pid};

	if (p == NULL) {
		return;
	}
	*p = (struct process){.pid = pid, .pidfd = rbt_pidfd_open(pid), .mem = -1};
	if (p->pidfd >= 0) {
		(void)epoll_ctl(k->ended, EPOLL_CTL_ADD, p->pidfd, &event);
	}
	p->next = k->processes;
	k->processes = p;
	kfd_sysfs_add_process(k->sysfs, pid);
}

static void remove_process(struct kfd_serve *k, int pid)
{
	for (struct process **at = &k->processes; *at != NULL; at = &(*at)->next) {
		struct process *p = *at;
		if (p->pid == pid) {
			*at = p->next;
			rbt_close(&p->pidfd);
			rbt_close(&p->mem);
			free(p);
			break;
		}
	}
	kfd_sysfs_remove_process(k->sysfs, pid);
}

struct wanted {
	int pid;
	uint32_t id;
	struct rbt_kfd_queue_info found;
};

static int pick(const struct rbt_kfd_queue_info *info, void *data)
{
	struct wanted *w = data;

	if (info->pid != w->pid || info->id != w->id) {
		return 0;
	}
	w->found = *info;
	return 1;
}

static void on_change(void *data, int pid, int queue, bool there)
{
	struct kfd_serve *k = data;
	struct wanted w = {.pid = pid, .id = (uint32_t)queue};

	k->changed = true;
	k->next_ns = 0;
	if (queue < 0) {
		if (there) {
			add_process(k, pid);
		} else {
			remove_process(k, pid);
		}
	} else if (!there) {
		kfd_sysfs_remove_queue(k->sysfs, pid, w.id);
	} else if (rbt_kfd_each_queue(k->model, pick, &w) == 1) {
		kfd_sysfs_add_queue(
			k->sysfs, pid, w.id, w.found.gpu_id, w.found.ring_size, w.found.type);
	}
}

static void on_memory_change(void *data, int pid)
{
	struct kfd_serve *k = data;

	for (uint32_t i = 0; i < rbt_kfd_config(k->model)->n_gpus; i++) {
		kfd_sysfs_set_vram(
			k->sysfs, pid, rbt_kfd_gpu_id(i), rbt_kfd_vram_bytes(k->model, pid, i));
	}
}

static uint64_t tell_time(void *data)
{
	return rbt_now_ns();
}

static void log_line(void *data, const char *line)
{
	struct kfd_serve *k = data;

	server_log(k->server, line);
}

struct kfd_serve *kfd_serve_create(struct server *server, const struct rbt_kfd_config *config)
{
	struct kfd_serve *k = calloc(1, sizeof(*k));

	if (k == NULL) {
		return NULL;
	}
	struct rbt_kfd_ops ops = {
		.read = read_memory,
		.write = write_memory,
		.doorbell = read_doorbell,
		.tracer = find_tracer,
		.fd_get = get_file,
		.fd_write = write_file,
		.fd_put = put_file,
		.changed = on_change,
		.memory_changed = on_memory_change,
		.now_ns = tell_time,
		.log = log_line,
		.data = k,
	};
	k->server = server;
	k->ended = epoll_create1(EPOLL_CLOEXEC);
	k->model = k->ended >= 0 ? rbt_kfd_create(config, &ops) : NULL;
	k->sysfs =
		k->model != NULL ? kfd_sysfs_create(server->dir, rbt_kfd_config(k->model)) : NULL;
	if (k->sysfs == NULL) {
		int err = errno;
		kfd_serve_destroy(k);
		errno = err;
		return NULL;
	}
	return k;
}

void kfd_serve_destroy(struct kfd_serve *k)
{
	if (k == NULL) {
		return;
	}
	rbt_kfd_destroy(k->model);
	kfd_sysfs_destroy(k->sysfs);
	rbt_close(&k->ended);
	free(k);
}

struct rbt_kfd *kfd_serve_model(struct kfd_serve *k)
{
	return k != NULL ? k->model : NULL;
}

int kfd_serve_fd(const struct kfd_serve *k)
{
	return k != NULL ? k->ended : -1;
}

bool kfd_serve_take_change(struct kfd_serve *k)
{
	bool changed = k != NULL && k->changed;

	if (changed) {
		k->changed = false;
	}
	return changed;
}

void kfd_serve_touch(struct kfd_serve *k)
{
	k->changed = true;
	/* New work is not announced: a stopped clock must be started again. */
	k->next_ns = k->next_ns == UINT64_MAX ? 0 : k->next_ns;
}

static void bury_spaces(struct kfd_serve *k)
{
	struct process *next;

	for (struct process *p = k->processes; p != NULL; p = next) {
		next = p->next;
		bury_space(k, p);
	}
}

static void bury(struct kfd_serve *k)
{
	struct epoll_event events[16];
	int n;

	while ((n = epoll_wait(k->ended, events, 16, 0)) > 0) {
		for (int i = 0; i < n; i++) {
			/* Closes the pidfd, so that no event comes twice. */
			rbt_kfd_exit(k->model, (int)events[i].data.u32);
			remove_process(k, (int)events[i].data.u32);
		}
		k->changed = true;
	}
}

struct busy {
	int pid;
	uint32_t cus[RBT_KFD_MAX_GPUS];
};

static int count_busy(const struct rbt_kfd_queue_info *info, void *data)
{
	struct busy *busy = data;

	/* Packets fill the GPU: a share of its time looks like one of its CUs (assumed). */
	if (info->running && info->pid == busy->pid) {
		uint32_t cus = KFD_SYSFS_CUS * info->share / KFD_WHOLE;
		busy->cus[info->gpu] += cus > 0 ? cus : 1;
	}
	return 0;
}

static void tell_occupancy(struct kfd_serve *k)
{
	for (struct process *p = k->processes; p != NULL; p = p->next) {
		struct busy busy = {.pid = p->pid};
		rbt_kfd_each_queue(k->model, count_busy, &busy);
		for (uint32_t i = 0; i < rbt_kfd_config(k->model)->n_gpus; i++) {
			if (p->occupancy[i] != busy.cus[i]) {
				p->occupancy[i] = busy.cus[i];
				kfd_sysfs_set_occupancy(
					k->sysfs, p->pid, rbt_kfd_gpu_id(i), busy.cus[i]);
			}
		}
	}
}

uint64_t kfd_serve_run(struct kfd_serve *k, uint64_t now_ns)
{
	if (k == NULL) {
		return UINT64_MAX;
	}
	bury(k);
	if (now_ns - k->checked_ns >= CHECK_NS) {
		k->checked_ns = now_ns;
		bury_spaces(k);
	}
	if (now_ns >= k->next_ns) {
		k->next_ns = rbt_kfd_run(k->model, now_ns);
		if (now_ns - k->occupancy_ns >= OCCUPANCY_NS) {
			k->occupancy_ns = now_ns;
			tell_occupancy(k);
		}
	}
	/* The deadline of calls that wait for events. */
	uint64_t due_ns = rbt_kfd_next_wait_ns(k->model);
	k->changed = k->changed || now_ns >= due_ns;
	if (k->processes != NULL && k->checked_ns + CHECK_NS < due_ns) {
		due_ns = k->checked_ns + CHECK_NS;
	}
	return k->next_ns < due_ns ? k->next_ns : due_ns;
}

void kfd_serve_prepare(struct kfd_serve *k, int pid, uint64_t arg, uint32_t blocked)
{
	struct process *p;

	bury(k);
	k->caller = pid;
	k->arg = arg;
	k->blocked = blocked;
	p = find(k, pid);
	if (p != NULL) {
		bury_space(k, p);
	}
}

bool kfd_serve_has(const char *path)
{
	return strcmp(path, KFD_PATH) == 0 ||
	       strncmp(path, KFD_PATH "/", strlen(KFD_PATH "/")) == 0 || kfd_sysfs_has(path);
}

int kfd_serve_open(struct kfd_serve *k, const char *path, int flags, int pid, int mem)
{
	if (k == NULL) {
		return -ENOENT;
	}
	bury(k);
	if (kfd_sysfs_has(path)) {
		return kfd_sysfs_open(k->sysfs, path, flags);
	}
	if (strcmp(path, KFD_PATH) != 0 || (flags & O_DIRECTORY) != 0) {
		return -ENOTDIR;
	}
	if (rbt_kfd_config(k->model)->n_gpus == 0 &&
		rbt_kfd_config(k->model)->minor >= KFD_MINOR_LATE_RULES) {
		return -EINVAL;
	}
	struct process *p = find(k, pid);
	if (p != NULL) {
		bury_space(k, p);
	}
	int fd = nodes_open_kfd(k->server->nodes, k->model, pid);
	p = find(k, pid);
	if (fd >= 0 && p != NULL && mem >= 0) {
		/* The newest: after exec the earlier one belongs to another address space. */
		rbt_close(&p->mem);
		p->mem = fcntl(mem, F_DUPFD_CLOEXEC, 0);
	}
	return fd;
}
