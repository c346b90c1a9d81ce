/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/session/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/amd/kfd_abi.h"
#include "backend/nvidia/rm_abi.h"
#include "softgpu/serve/link.h"
#include "util/fd.h"

#define UVM_PATH           "/dev/nvidia-uvm"
#define SYSFS_VERSION_PATH "/sys/module/nvidia/version"

/* A node that is shared by all opens. */
struct shared {
	char path[64];
	int memfd;
	uint64_t inode;
	enum rbt_rm_node node;
	uint32_t gpu;
	bool is_text; /* read-only, without a record of its opens */
};

struct file {
	struct file *next;
	struct rbt_rm_open *open;
	struct rbt_kfd_open *kfd; /* of /dev/kfd; open is NULL then */
	int pid;                  /* the same */
	const uint64_t *bells;    /* its doorbells, mapped; NULL without GPUs */
	size_t bells_size;
	uint64_t inode;
	int probe;     /* our own open file description of the same inode */
	bool owned;    /* probe belongs to this file alone */
	off_t lock_at; /* the byte that its open file description has locked */
};

struct nodes {
	struct rbt_rm *rm;
	uint64_t server_id;
	bool has_nvidia;
	struct file *files;
	struct shared shared[2 * NV_MAX_GPUS + 3];
	size_t n_shared;
	off_t next_lock;
};

/* Nobody can change its size; nor its contents, unless it has `room` for them to do so. */
static int make_memfd(
	const struct nodes *n, const char *path, const char *text, size_t room, uint64_t *ret_inode)
{
	int seals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL | (room == 0 ? F_SEAL_WRITE : 0);
	char name[96];
	struct stat st;

	snprintf(name, sizeof(name), MEMFD_NAME_FMT, n->server_id, path);
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		return -errno;
	}
	if ((text != NULL && write(fd, text, strlen(text)) != (ssize_t)strlen(text)) ||
		(room > 0 && ftruncate(fd, (off_t)room) < 0) || fstat(fd, &st) < 0 ||
		fchmod(fd, 0666) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0) {
		int err = errno;
		close(fd);
		return -err;
	}
	*ret_inode = st.st_ino;
	return fd;
}

/* Another open file description of the same inode, with its own offset and locks. */
static int reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int copy = open(path, flags | O_CLOEXEC);
	return copy < 0 ? -errno : copy;
}

static int add_shared(
	struct nodes *n, const char *path, const char *text, enum rbt_rm_node node, uint32_t gpu)
{
	struct shared *s = &n->shared[n->n_shared];

	snprintf(s->path, sizeof(s->path), "%s", path);
	s->memfd = make_memfd(n, path, text, 0, &s->inode);
	if (s->memfd < 0) {
		return s->memfd;
	}
	s->node = node;
	s->gpu = gpu;
	s->is_text = text != NULL;
	n->n_shared++;
	return 0;
}

/* Texts have the form of the real files, from which tools take names and versions. */
static int add_gpu(struct nodes *n, uint32_t gpu)
{
	char path[64], pci[16], text[256];

	snprintf(path, sizeof(path), NV_GPU_PATH_FMT, gpu);
	int r = add_shared(n, path, NULL, RBT_RM_NODE_GPU, gpu);
	if (r < 0) {
		return r;
	}
	rbt_rm_gpu_pci(gpu, pci, sizeof(pci));
	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", pci);
	snprintf(text, sizeof(text),
		"Model: \t\t " RBT_RM_GPU_NAME "\nBus Type: \t PCIe\nBus Location: \t %s\n"
		"Device Minor: \t %u\nGPU Firmware: \t %s\nGPU Excluded:\t No\n",
		pci, gpu, rbt_rm_config(n->rm)->driver_version);
	return add_shared(n, path, text, 0, 0);
}

static int add_all(struct nodes *n)
{
	const struct rbt_rm_config *config = rbt_rm_config(n->rm);
	char text[256];
	int r = add_shared(n, UVM_PATH, NULL, RBT_RM_NODE_UVM, 0);

	for (uint32_t i = 0; r == 0 && i < config->n_gpus; i++) {
		r = add_gpu(n, i);
	}
	if (r == 0) {
		snprintf(text, sizeof(text), "%s\n", config->driver_version);
		r = add_shared(n, SYSFS_VERSION_PATH, text, 0, 0);
	}
	if (r == 0) {
		snprintf(text, sizeof(text),
			"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (rubato-softgpu)\n",
			config->driver_version);
		r = add_shared(n, NV_VERSION_PATH, text, 0, 0);
	}
	return r;
}

struct nodes *nodes_create(struct rbt_rm *rm, uint64_t server_id, bool has_nvidia)
{
	struct nodes *n = calloc(1, sizeof(*n));

	if (n == NULL) {
		return NULL;
	}
	n->rm = rm;
	n->server_id = server_id;
	n->has_nvidia = has_nvidia;
	int r = has_nvidia ? add_all(n) : 0;
	if (r < 0) {
		nodes_destroy(n);
		errno = -r;
		return NULL;
	}
	return n;
}

static void file_destroy(struct file *f)
{
	rbt_rm_close(f->open);
	rbt_kfd_close(f->kfd);
	if (f->bells != NULL) {
		munmap((void *)f->bells, f->bells_size);
	}
	if (f->owned) {
		rbt_close(&f->probe);
	}
	free(f);
}

void nodes_destroy(struct nodes *n)
{
	struct file *next;

	if (n == NULL) {
		return;
	}
	for (struct file *f = n->files; f != NULL; f = next) {
		next = f->next;
		file_destroy(f);
	}
	for (size_t i = 0; i < n->n_shared; i++) {
		rbt_close(&n->shared[i].memfd);
	}
	free(n);
}

static int lock_byte(int fd, off_t at)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static bool is_held(const struct file *f)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = f->lock_at, .l_len = 1};

	return fcntl(f->probe, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* A new open file description for the program, locked. */
static int hand_out(struct nodes *n, struct file *f)
{
	f->lock_at = n->next_lock++;
	int fd = reopen(f->probe, O_RDWR);
	if (fd < 0) {
		return fd;
	}
	int r = lock_byte(fd, f->lock_at);
	if (r < 0) {
		close(fd);
		return r;
	}
	f->next = n->files;
	n->files = f;
	return fd;
}

static int open_node(struct nodes *n, const struct shared *s, int pid, uint32_t uid)
{
	struct file *f = calloc(1, sizeof(*f));
	int fd = -ENOMEM;

	if (f == NULL) {
		return -ENOMEM;
	}
	if (s != NULL) {
		f->probe = s->memfd;
		f->inode = s->inode;
	} else {
		f->probe = make_memfd(n, NV_CTL_PATH, NULL, 0, &f->inode);
		f->owned = true;
		if (f->probe < 0) {
			fd = f->probe;
			goto fail;
		}
	}
	f->open = rbt_rm_open(n->rm, s != NULL ? s->node : RBT_RM_NODE_CONTROL,
		s != NULL ? s->gpu : 0, f->inode, pid, uid);
	if (f->open == NULL) {
		goto fail;
	}
	fd = hand_out(n, f);
	if (fd >= 0) {
		return fd;
	}
fail:
	file_destroy(f);
	return fd;
}

int nodes_open(struct nodes *n, const char *path, int pid, uint32_t uid)
{
	if (n->has_nvidia && strcmp(path, NV_CTL_PATH) == 0) {
		return open_node(n, NULL, pid, uid);
	}
	for (size_t i = 0; i < n->n_shared; i++) {
		const struct shared *s = &n->shared[i];
		if (strcmp(path, s->path) == 0) {
			return s->is_text ? reopen(s->memfd, O_RDONLY) : open_node(n, s, pid, uid);
		}
	}
	return -ENOENT;
}

static int map_bells(struct file *f)
{
	if (f->bells_size == 0) {
		return 0;
	}
	void *at = mmap(NULL, f->bells_size, PROT_READ, MAP_SHARED, f->probe, 0);
	if (at == MAP_FAILED) {
		return -errno;
	}
	f->bells = at;
	return 0;
}

int nodes_open_kfd(struct nodes *n, struct rbt_kfd *kfd, int pid)
{
	struct file *f = calloc(1, sizeof(*f));
	int fd = -ENOMEM;

	if (f == NULL) {
		return -ENOMEM;
	}
	f->owned = true;
	f->pid = pid;
	f->bells_size = (size_t)rbt_kfd_config(kfd)->n_gpus * RBT_KFD_DOORBELLS;
	f->probe = make_memfd(n, KFD_PATH, NULL, f->bells_size, &f->inode);
	if (f->probe < 0) {
		fd = f->probe;
		goto fail;
	}
	fd = map_bells(f);
	if (fd < 0) {
		goto fail;
	}
	fd = -ENOMEM;
	f->kfd = rbt_kfd_open(kfd, pid);
	if (f->kfd == NULL) {
		goto fail;
	}
	fd = hand_out(n, f);
	if (fd >= 0) {
		return fd;
	}
fail:
	file_destroy(f);
	return fd;
}

uint64_t nodes_doorbell(const struct nodes *n, int pid, uint32_t gpu, uint32_t queue)
{
	size_t at = ((size_t)gpu * RBT_KFD_DOORBELLS) / sizeof(uint64_t) + queue;
	uint64_t sum = 0;

	for (const struct file *f = n->files; f != NULL; f = f->next) {
		if (f->pid == pid && f->bells != NULL && at < f->bells_size / sizeof(uint64_t)) {
			sum += __atomic_load_n(&f->bells[at], __ATOMIC_ACQUIRE);
		}
	}
	return sum;
}

struct rbt_kfd_open *nodes_find_kfd(struct nodes *n, uint64_t inode)
{
	for (struct file *f = n->files; f != NULL; f = f->next) {
		if (f->inode == inode) {
			return f->kfd;
		}
	}
	return NULL;
}

struct rbt_rm_open *nodes_find(struct nodes *n, uint64_t inode)
{
	for (struct file *f = n->files; f != NULL; f = f->next) {
		if (f->inode == inode) {
			return f->open;
		}
	}
	return NULL;
}

size_t nodes_sweep(struct nodes *n)
{
	size_t left = 0;

	for (struct file **p = &n->files; *p != NULL;) {
		struct file *f = *p;
		if (is_held(f)) {
			left++;
			p = &f->next;
		} else {
			*p = f->next;
			file_destroy(f);
		}
	}
	return left;
}
