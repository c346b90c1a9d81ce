/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link is the connection of one guest process to its worker on the host: memory that both sides
 * see at one address, and doorbells. Everything else (rings, calls, answers) is bytes in that
 * memory, and the same for every transport.
 *
 * This is the guest's end. `link_unix.c` is for containers: a socket, memfds and eventfds.
 * `link_virtio.c` is for virtual machines: the character device of kernel/rubato.ko. The host's end
 * is always the socket of peer.h. On the virtio transport the vhost-user device holds that socket
 * for each guest process that has the character device open, so workers know of one transport only.
 *
 * Addresses. Guest and worker use the same address for shared memory, so that pointers into it mean
 * the same to programs, to the driver on the host, and to kernels. The guest chooses addresses in
 * [RBT_LINK_MAP_BASE, RBT_LINK_MAP_END), which neither Linux nor CUDA hands out by itself. If the
 * worker cannot have an address, map() returns -EEXIST and the caller chooses another.
 *
 * Channels. A channel is a pair of doorbells with a number, one per guest thread that makes calls.
 * A doorbell has no count: one wait() can answer many ring()s, and a wait() can return although
 * nothing happened. The state in shared memory decides, so both sides write that first, ring then,
 * and read it again before they wait.
 *
 * Loss. If the worker, the device or the host is gone, every call returns -ECONNRESET, at once and
 * for good, and threads inside wait() wake up. Shared memory stays mapped until close(), since
 * programs hold pointers into it.
 *
 * Threads. All operations may be called by several threads at a time, except open and close. One
 * thread at a time waits on a channel. Only wait() sleeps longer than RBT_LINK_REPLY_NS; it is
 * interrupted by no signal, but it does not outlive its deadline, and it must not keep a killed
 * process alive.
 *
 * Fork. A child has no link: it calls nothing but close(), which in the child releases the child's
 * descriptors and tells nobody. Shared memory does not exist in the child.
 */
#ifndef RBT_REMOTE_LINK_H
#define RBT_REMOTE_LINK_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define RBT_LINK_MAP_BASE 0x300000000000ull
#define RBT_LINK_MAP_END  0x380000000000ull
/* Sizes and addresses of shared memory are multiples of this: virtio shares memory in such blocks.
 */
#define RBT_LINK_BLOCK    (2ull << 20)
#define RBT_LINK_CHANNELS 256
/* An answer to map, share, unmap, channel or channel_close that is later than this means that the
 * link is lost. */
#define RBT_LINK_REPLY_NS 5000000000ll
/* The same for open(): a process starts on the host, maybe on a busy one. */
#define RBT_LINK_OPEN_NS 60000000000ll
#define RBT_LINK_FOREVER INT64_MAX

/* What the host learns about a guest process. It is shown to users, and decides nothing. */
struct rbt_link_identity {
	uint32_t pid;     /* as the guest numbers its processes */
	char command[60]; /* UTF-8 is not checked; ends with a NUL */
};
static_assert(sizeof(struct rbt_link_identity) == 64, "layout");

struct rbt_link_ops;

/* The base of each transport's own struct. */
struct rbt_link {
	const struct rbt_link_ops *ops;
};

struct rbt_link_ops {
	const char *name; /* "unix", "virtio": the PATH of --device remote=PATH decides */

	/*
	 * Connects to the host and waits until a worker serves this process. `path` is the socket
	 * or the character device. Returns -ENOENT or -ECONNREFUSED if nobody serves it, -EPROTO if
	 * the other side speaks another version, -EUSERS if the host has as many programs of this
	 * guest as it allows.
	 */
	int (*open)(const char *path, const struct rbt_link_identity *id, struct rbt_link **ret);

	/*
	 * Makes `size` bytes of memory at `at` in both processes: readable and writable, zero,
	 * resident or made resident by the first access. Returns -EEXIST: the address is taken on
	 * either side; -ENOMEM; -E2BIG: too many mappings.
	 */
	int (*map)(struct rbt_link *link, void *at, size_t size);

	/*
	 * Optional. Lets the worker see memory that the program has already, at the same address.
	 * `at` and `size` are multiples of the page size. Contents stay. Returns -EOPNOTSUPP or
	 * -E2BIG if that memory cannot be shared (too scattered, not the program's own): its caller
	 * copies instead. Otherwise as map().
	 */
	int (*share)(struct rbt_link *link, void *at, size_t size);

	/*
	 * Undoes map() or share() of exactly this range, in the worker first. Memory of map() is
	 * gone afterwards; memory of share() stays the program's.
	 */
	int (*unmap)(struct rbt_link *link, void *at, size_t size);

	/*
	 * Opens the channel of this number (less than RBT_LINK_CHANNELS, not open yet). The worker
	 * starts a thread that serves the ring at `area`, which is inside memory of map(). Returns
	 * -EUSERS if the host allows no more threads.
	 */
	int (*channel)(struct rbt_link *link, uint32_t number, void *area, size_t size);

	/* Closes it: the worker's thread ends when it has served what is in the ring. */
	int (*channel_close)(struct rbt_link *link, uint32_t number);

	/* Wakes the worker's thread of this channel. Never blocks. */
	int (*ring)(struct rbt_link *link, uint32_t channel);

	/* Returns 0 when the worker has rung this channel since the last wait(), maybe without
	 * cause; -ETIMEDOUT at the deadline (CLOCK_MONOTONIC, or RBT_LINK_FOREVER). */
	int (*wait)(struct rbt_link *link, uint32_t channel, int64_t deadline_ns);

	/* Frees everything, also shared memory; the worker ends. Accepts NULL. */
	void (*close)(struct rbt_link *link);
};

extern const struct rbt_link_ops rbt_link_unix;

#endif
