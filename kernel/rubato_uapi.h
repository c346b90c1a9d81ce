/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Apache-2.0 */
/*
 * The interface of rubato.ko: its ioctls, for programs in a virtual machine (part 1), and what it
 * sends over virtqueues to rubato-vhost-user on the host (part 2). Kernel and user space share this
 * file. Numbers never change: an old guest works with a new host.
 */
#ifndef RUBATO_UAPI_H
#define RUBATO_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * 1. /dev/rubato0, rubato1, ...: one per virtio device.
 *
 * open() asks the host for a worker process. It fails with ECONNREFUSED or ENOENT (nobody serves on
 * the host), EUSERS (too many programs), EPROTO (another version), ECONNRESET (the host is silent
 * for 5 s) or ETIMEDOUT (no worker for 60 s). A file belongs to the process that opened it: only
 * that process can use it, and the worker ends when that process closes the file, executes another
 * program or ends.
 *
 * After a loss of the worker, the device or the host, every call fails with ECONNRESET. Memory stays
 * mapped. poll() reports POLLIN while a channel has been rung, POLLERR | POLLHUP after a loss.
 *
 * mmap() with MAP_SHARED at an address and of a size that are multiples of RUBATO_BLOCK, offset 0,
 * makes zeroed memory in blocks that are contiguous for the host. RUBATO_IOC_MAP shows it to the
 * worker at the same address. Memory is not inherited by fork().
 */
#define RUBATO_BLOCK    (1ul << 21)
#define RUBATO_CHANNELS 256
#define RUBATO_FOREVER  0x7fffffffffffffffll

struct rubato_range {
	__u64 address, size; /* multiples of the page size */
};

struct rubato_channel {
	__u32 number; /* less than RUBATO_CHANNELS */
	__u32 reserved; /* 0 */
	__u64 address, size; /* of the ring that the worker serves */
};

struct rubato_wait {
	__u32 channel;
	__u32 reserved; /* 0 */
	__s64 deadline_ns; /* CLOCK_MONOTONIC, or RUBATO_FOREVER */
};

/* Shows memory of mmap() to the worker, exactly as it was mapped. EEXIST: the worker has something
 * else at that address; ENOMEM; E2BIG: too many mappings. */
#define RUBATO_IOC_MAP           _IOW(0xb7, 1, struct rubato_range)
/* Shows other memory of the program to the worker: pages are pinned, and count as locked memory.
 * E2BIG: the pages are too scattered or too many, the caller copies instead. */
#define RUBATO_IOC_SHARE         _IOW(0xb7, 2, struct rubato_range)
/* Undoes MAP or SHARE of exactly this range. Memory of mmap() must still be unmapped. */
#define RUBATO_IOC_UNMAP         _IOW(0xb7, 3, struct rubato_range)
/* Makes the worker serve a ring. EEXIST: the channel is open; EUSERS: too many threads. */
#define RUBATO_IOC_CHANNEL       _IOW(0xb7, 4, struct rubato_channel)
#define RUBATO_IOC_CHANNEL_CLOSE _IOW(0xb7, 5, __u32)
/* Wakes the worker's thread. Does not sleep. */
#define RUBATO_IOC_RING          _IOW(0xb7, 6, __u32)
/* Sleeps until the worker rings the channel. ETIMEDOUT. Only a deadly signal interrupts it. */
#define RUBATO_IOC_WAIT          _IOW(0xb7, 7, struct rubato_wait)

/*
 * 2. The device. All fields are little-endian.
 *
 * It is a virtio device of id 26 (vhost-user-fs, which every QEMU has) whose tag is RUBATO_TAG, or
 * of id 38 (vhost-user-test-device of QEMU 11 and newer) whose configuration is struct rubato_config.
 * Queue 0 carries events to the guest: each buffer is one struct rubato_event. All others carry
 * requests: struct rubato_request, then its data, and room for a struct rubato_answer in a piece of
 * its own. A RING has no answer. The requests of one session go over one queue, in order.
 */
#define RUBATO_ID_FS    26
#define RUBATO_ID_TEST  38
#define RUBATO_TAG      "rubato"
#define RUBATO_TAG_SIZE 36 /* in the configuration of id 26; then the number of request queues */
#define RUBATO_MAGIC    0x6f746272u /* "rbto" */
#define RUBATO_PROTOCOL 1
/* With the queue of events: what `rubato vm-args` asks QEMU for. */
#define RUBATO_QUEUES   5
/* Pieces of memory in one MAP. */
#define RUBATO_PIECES   256

struct rubato_config {
	__le32 magic; /* RUBATO_MAGIC */
	__le32 n_queues; /* with the queue of events */
	__le64 reserved;
};

enum rubato_request_type {
	/* Is answered at once, so that a silent device can be told from a slow worker. */
	RUBATO_PING = 1,
	RUBATO_OPEN, /* number: RUBATO_PROTOCOL; then a struct rubato_identity */
	RUBATO_CLOSE, /* is answered when the worker has ended: memory is the guest's own again */
	RUBATO_MAP, /* the memory itself is in the pieces after the answer's */
	RUBATO_UNMAP,
	RUBATO_CHANNEL_OPEN, /* number, and the ring's address and size */
	RUBATO_CHANNEL_CLOSE, /* number */
	RUBATO_RING, /* number */
};

struct rubato_request {
	__le32 type;
	__le32 number; /* of the channel */
	__le64 session; /* chosen by the driver, never used again */
	__le64 address, size;
};

struct rubato_identity {
	__le32 pid;
	__u8 command[60]; /* ends with a NUL */
};

struct rubato_answer {
	__le32 error; /* a positive errno of Linux, or 0 */
	__le32 reserved;
};

enum rubato_event_type { RUBATO_RUNG = 1, RUBATO_LOST };

struct rubato_event {
	__le32 type;
	__le32 number; /* of the channel */
	__le64 session;
};

#endif
