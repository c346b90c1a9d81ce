/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine "kernel": hooks are programs of the type SYSCALL, which BPF_PROG_RUN calls. Here are
 * only system calls on files that exist; libbpf is in kernel_libbpf.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy/engine_ops.h"
#include "policy/kernel_load.h"

/* Where the kernel writes a ring buffer, and we read it. */
struct ring {
	uint64_t *consumed;       /* a page of its own, which we write */
	const uint64_t *produced; /* a page of its own; behind it the bytes, mapped twice */
	const uint8_t *bytes;
};

struct kernel {
	struct rbt_engine base;
	struct rbt_kernel_files files;
	struct ring rings[RBT_OBJECT_MAX_MAPS];
};

static struct kernel *of(struct rbt_engine *e)
{
	return (struct kernel *)((char *)e - offsetof(struct kernel, base));
}

/* 0 or more, or -errno. */
static int bpf(enum bpf_cmd cmd, union bpf_attr *attr, size_t size)
{
	long r = syscall(__NR_bpf, cmd, attr, size);

	return r < 0 ? -errno : (int)r;
}

static int run(struct rbt_engine *e, enum rbt_hook hook, void *ctx, struct rbt_fault *fault)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr.test));
	attr.test.prog_fd = (uint32_t)of(e)->files.programs[hook];
	attr.test.ctx_in = (uintptr_t)ctx;
	attr.test.ctx_size_in = (uint32_t)rbt_hook_ctx_size(hook);
	int r = bpf(BPF_PROG_TEST_RUN, &attr, sizeof(attr.test));
	if (r < 0) {
		/* EINVAL: the verifier allows an access beyond the context, but not this call. */
		fault->kind = RBT_FAULT_SYSTEM;
		fault->what = r == -EINVAL ? "it accesses more than its context"
					   : "the kernel does not run it";
		fault->value = r;
		return -EFAULT;
	}
	if (attr.test.retval != 0) {
		fault->kind = RBT_FAULT_RETURNED;
		fault->value = (int32_t)attr.test.retval;
		return -EFAULT;
	}
	return 0;
}

/* The call for one entry of a map; `value` is a value or a next key. */
static int on_entry(struct rbt_engine *e, enum bpf_cmd cmd, unsigned map, const void *key,
	const void *value, uint64_t flags)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)of(e)->files.maps[map];
	attr.key = (uintptr_t)key;
	attr.value = (uintptr_t)value;
	attr.flags = flags;
	return bpf(cmd, &attr, sizeof(attr));
}

static int lookup(struct rbt_engine *e, unsigned map, const void *key, void *ret_value)
{
	return on_entry(e, BPF_MAP_LOOKUP_ELEM, map, key, ret_value, 0);
}

static int update(
	struct rbt_engine *e, unsigned map, const void *key, const void *value, uint64_t flags)
{
	return on_entry(e, BPF_MAP_UPDATE_ELEM, map, key, value, flags);
}

static int delete (struct rbt_engine *e, unsigned map, const void *key)
{
	return on_entry(e, BPF_MAP_DELETE_ELEM, map, key, NULL, 0);
}

static int next_key(struct rbt_engine *e, unsigned map, const void *key, void *ret_key)
{
	return on_entry(e, BPF_MAP_GET_NEXT_KEY, map, key, ret_key, 0);
}

static ssize_t read_ring(struct rbt_engine *e, unsigned map, void *buf, size_t size)
{
	const struct ring *ring = &of(e)->rings[map];
	const uint64_t n_bytes = e->object->maps[map].max_entries;
	uint64_t at = *ring->consumed;

	/* A record is complete once the kernel has taken the busy bit from its header, which it
	 * does after it has written the record. */
	while (at < __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE)) {
		const uint8_t *record = ring->bytes + (at & (n_bytes - 1));
		const uint32_t head =
			__atomic_load_n((const uint32_t *)(const void *)record, __ATOMIC_ACQUIRE);
		const uint64_t n = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		if ((head & BPF_RINGBUF_BUSY_BIT) != 0 || n > n_bytes) {
			break;
		}
		const bool is_taken = (head & BPF_RINGBUF_DISCARD_BIT) == 0;
		if (is_taken && n <= size) {
			memcpy(buf, record + BPF_RINGBUF_HDR_SZ, n);
		}
		at += (n + BPF_RINGBUF_HDR_SZ + 7) & ~(uint64_t)7;
		/* The kernel must not see room for new records before we have read this one. */
		__atomic_store_n(ring->consumed, at, __ATOMIC_RELEASE);
		if (is_taken) {
			return n <= size ? (ssize_t)n : -EMSGSIZE;
		}
	}
	return -EAGAIN;
}

static void unmap_ring(struct ring *ring, uint32_t n_bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (ring->consumed != NULL) {
		munmap(ring->consumed, page);
	}
	if (ring->produced != NULL) {
		munmap((void *)ring->produced, page + 2 * (size_t)n_bytes);
	}
}

static int map_ring(struct ring *ring, int fd, uint32_t n_bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED) {
		return -errno;
	}
	ring->consumed = p;
	p = mmap(NULL, page + 2 * (size_t)n_bytes, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (p == MAP_FAILED) {
		return -errno;
	}
	ring->produced = p;
	ring->bytes = (const uint8_t *)p + page;
	return 0;
}

static void close_kernel(struct rbt_engine *e)
{
	struct kernel *k = of(e);

	for (size_t i = 0; i < e->object->n_maps; i++) {
		unmap_ring(&k->rings[i], e->object->maps[i].max_entries);
	}
	rbt_kernel_files_finish(&k->files);
	free(k);
}

static const struct rbt_engine_ops ops = {
	.kind = RBT_ENGINE_KERNEL,
	.run = run,
	.lookup = lookup,
	.update = update,
	.delete = delete,
	.next_key = next_key,
	.read_ring = read_ring,
	.close = close_kernel,
};

/* libbpf may have been damaged by the object: a map of another shape would overrun our buffers. */
static bool is_of_shape(int fd, const struct rbt_object_map *m)
{
	struct bpf_map_info info = {0};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.info.bpf_fd = (uint32_t)fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr.info)) == 0 && info.type == m->type &&
	       info.key_size == m->key_size && info.value_size == m->value_size &&
	       info.max_entries == m->max_entries;
}

static int init_maps(struct kernel *k, const struct rbt_object *o)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->n_maps; i++) {
		if (!is_of_shape(k->files.maps[i], &o->maps[i])) {
			r = -EBADF;
		} else if (o->maps[i].type == BPF_MAP_TYPE_RINGBUF) {
			r = map_ring(&k->rings[i], k->files.maps[i], o->maps[i].max_entries);
		}
	}
	return r;
}

/* Takes the files. */
static int wrap(const struct rbt_object *o, const struct rbt_kernel_files *files,
	struct rbt_engine **ret, struct rbt_why *why)
{
	struct kernel *k = calloc(1, sizeof(*k));

	if (k == NULL) {
		struct rbt_kernel_files all = *files;

		rbt_kernel_files_finish(&all);
		return rbt_why_set(why, -ENOMEM, "kernel: out of memory");
	}
	k->base = (struct rbt_engine){.ops = &ops, .object = o};
	k->files = *files;
	int r = init_maps(k, o);
	if (r < 0) {
		close_kernel(&k->base);
		return rbt_why_set(why, r, "kernel: a map cannot be used: %s", strerror(-r));
	}
	*ret = &k->base;
	return 0;
}

int rbt_kernel_start(struct rbt_loader *l, const struct rbt_object *o,
	const struct rbt_heritage *heritage, bool is_tried, struct rbt_why *why)
{
	int shared[RBT_OBJECT_MAX_MAPS];

	for (size_t i = 0; i < RBT_OBJECT_MAX_MAPS; i++) {
		shared[i] = heritage->maps[i] >= 0
				    ? of(heritage->from)->files.maps[heritage->maps[i]]
				    : -1;
	}
	return rbt_kernel_load_start(l, o, shared, is_tried, why);
}

int rbt_kernel_end(struct rbt_loader *l, const struct rbt_object *o, int r, struct rbt_engine **ret,
	struct rbt_why *why)
{
	struct rbt_kernel_files files;

	r = rbt_kernel_load_end(l, o, r, &files, why);
	return r < 0 ? r : wrap(o, &files, ret, why);
}

int rbt_kernel_open(const struct rbt_object *o, const struct rbt_heritage *heritage,
	struct rbt_engine **ret, struct rbt_why *why, char **ret_log)
{
	struct rbt_loader l;
	int r = rbt_kernel_start(&l, o, heritage, false, why);

	if (r < 0) {
		return r;
	}
	r = rbt_kernel_end(&l, o, rbt_loader_wait(&l, why), ret, why);
	if (r < 0) {
		*ret_log = l.log;
		l.log = NULL;
	}
	(void)rbt_loader_finish(&l);
	return r;
}

/* Loads a hook that does nothing: where kernel.unprivileged_bpf_disabled is 0, everybody may make
 * maps, but not load programs of this type. */
const char *rbt_kernel_why_not(void)
{
	static const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
	static char text[128];
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SYSCALL;
	attr.prog_flags = BPF_F_SLEEPABLE;
	attr.insns = (uintptr_t)code;
	attr.insn_cnt = sizeof(code) / sizeof(*code);
	attr.license = (uintptr_t) "GPL";
	int fd = bpf(BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd >= 0) {
		close(fd);
		return NULL;
	}
	snprintf(text, sizeof(text), "bpf(2) is refused: %s%s", strerror(-fd),
		fd == -EPERM ? " (it needs CAP_BPF, and no seccomp filter against it)" : "");
	return text;
}
