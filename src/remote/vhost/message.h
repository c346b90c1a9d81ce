/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vhost-user protocol, from the back end's side: what QEMU says about the guest's memory and
 * rings, and the answers. Pure: messages come decoded with their files, memory is mapped by the
 * caller's functions. QEMU 7.2 to 11 speak it; features that would let a restarted device fail
 * (CONFIGURE_MEM_SLOTS), and all that we do not need, are not offered.
 *
 * A restarted back end is not greeted again by QEMU: it gets memory and rings without the
 * negotiation before. So nothing here depends on the order of messages.
 */
#ifndef RBT_REMOTE_VHOST_MESSAGE_H
#define RBT_REMOTE_VHOST_MESSAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/vhost/memory.h"
#include "remote/vhost/ring.h"

#define VHOST_MAX_QUEUES 17 /* one for events, and up to 16 for requests */
#define VHOST_MAX_CONFIG 256

struct vhost_header {
	uint32_t request, flags, size; /* size: of the payload */
};

struct vhost_state_payload {
	uint32_t index, value;
};

struct vhost_address_payload {
	uint32_t index, flags;
	uint64_t desc, used, avail, log;
};

struct vhost_memory_payload {
	uint32_t n, padding;
	struct {
		uint64_t guest, size, user, offset;
	} regions[VHOST_MAX_REGIONS];
};

struct vhost_config_payload {
	uint32_t offset, size, flags;
	uint8_t bytes[VHOST_MAX_CONFIG];
};

union vhost_payload {
	uint64_t u64;
	struct vhost_state_payload state;
	struct vhost_address_payload address;
	struct vhost_memory_payload memory;
	struct vhost_config_payload config;
};

static_assert(sizeof(struct vhost_header) == 12, "layout");
static_assert(sizeof(struct vhost_address_payload) == 40, "layout");
static_assert(sizeof(struct vhost_memory_payload) == 8 + 32 * VHOST_MAX_REGIONS, "layout");

struct vhost_message {
	struct vhost_header header;
	union vhost_payload payload;
	size_t n_fds;
	int fds[VHOST_MAX_REGIONS]; /* a handler that keeps a file sets its slot to -1 */
};

struct vhost_queue {
	struct vhost_ring ring;
	int kick, call; /* eventfds; -1: none */
	bool is_enabled;
	bool is_running; /* start() was called, and stop() was not */
};

struct vhost_device;

/* All are mandatory and may block. vhost_device_handle() and vhost_device_finish() call them. */
struct vhost_device_ops {
	/* Maps the first `length` bytes of the file, which is borrowed. 0 or -errno. */
	int (*map)(struct vhost_device *d, int fd, uint64_t length, unsigned char **ret);
	void (*unmap)(struct vhost_device *d, unsigned char *base, uint64_t length);
	/* The ring of this queue may be used from now on, and not any more when stop() returns. */
	void (*start)(struct vhost_device *d, uint32_t queue);
	void (*stop)(struct vhost_device *d, uint32_t queue);
	/* QEMU has stopped a queue for good, not only to change something: the guest has reset its
	 * device, or is paused. The queue is stopped. */
	void (*ended)(struct vhost_device *d, uint32_t queue);
};

struct vhost_device {
	const struct vhost_device_ops *ops;
	uint64_t features;
	struct vhost_memory memory;
	int files[VHOST_MAX_REGIONS]; /* of the regions */
	struct vhost_queue queues[VHOST_MAX_QUEUES];
	/* The device's configuration space. QEMU's vhost-user-fs has its own. */
	const void *config;
	size_t config_size;
};

void vhost_device_init(struct vhost_device *d, const struct vhost_device_ops *ops);
/* Stops all queues and closes all files, as if the connection were new. */
void vhost_device_finish(struct vhost_device *d);

/* Whether such a header can begin a message: 0, or -EPROTO. */
int vhost_header_check(const struct vhost_header *h);

/*
 * Acts on one message. Returns 1 if *ret_reply must be sent, 0 if there is none; or an error:
 * -EPROTO: the message is malformed; -ENODATA: the guest's memory is not shared; others: memory
 * could not be mapped. Then *ret_reply refuses the message, for a QEMU that wants an answer
 * (vhost_wants_reply()). The caller closes the files that are left in *m.
 */
int vhost_device_handle(
	struct vhost_device *d, struct vhost_message *m, struct vhost_message *ret_reply);

bool vhost_wants_reply(const struct vhost_message *m);

/* The name of a request, for messages. */
const char *vhost_request_name(uint32_t request);

#endif
