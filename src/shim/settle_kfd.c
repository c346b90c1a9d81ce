/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a program's queues the percentage and priority that they should have. */
#include <errno.h>
#include <stddef.h>

#include "shim/kfd.h"
#include "shim/shim.h"

#define PERCENTAGE_MASK 0xffu /* the byte above the percentage chooses a partition */
/* The hardware has three priorities for the driver's 16. The lowest one ends at LOW_PRIORITY, the
 * highest one begins at HIGH_PRIORITY. */
#define LOW_PRIORITY  6u
#define HIGH_PRIORITY 11u

/* Within a level, the program's own order among its queues stays. */
static uint32_t wanted_priority(const struct shim_kfd *k, const struct shim_queue *q)
{
	uint32_t own =
		q->own.queue_priority < KFD_MAX_PRIORITY ? q->own.queue_priority : KFD_MAX_PRIORITY;

	switch (k->level) {
	case RBT_AGENT_LEVEL_LOW:
		return own * LOW_PRIORITY / KFD_MAX_PRIORITY;
	case RBT_AGENT_LEVEL_HIGH:
		return HIGH_PRIORITY + own * (KFD_MAX_PRIORITY - HIGH_PRIORITY) / KFD_MAX_PRIORITY;
	default:
		return q->own.queue_priority;
	}
}

/*
 * Updates a queue. Returns 0 or -errno: -EAGAIN if the program is about to change the queue itself,
 * or has just done so and the shim has not taken this in yet; -ESTALE if the values to restore are
 * unknown. (A call's news are noted before the call ends, so checking in this order misses none.)
 */
static int update(struct shim *s, uint32_t id, struct kfd_update_queue *arg)
{
	struct shim_kfd *k = &s->kfd;
	int r = 0;

	k->acting_on = id + 1;
	if (k->in_call[id] != 0 || s->n_late > 0) {
		r = -EAGAIN;
	} else if (k->unknown[id]) {
		r = -ESTALE;
	} else if (shim_raw_ioctl(shim_fd_get(&shim_owned.kfd), KFD_IOC_UPDATE_QUEUE, arg) < 0) {
		r = -errno;
	}
	k->acting_on = 0;
	return r;
}

/* Gives one queue the state that it should have. */
static int settle_queue(struct shim *s, uint32_t id, bool off)
{
	struct shim_kfd *k = &s->kfd;
	struct shim_queue *q = &k->queues[id];
	struct kfd_update_queue arg = q->own;

	if (off) {
		arg.queue_percentage &= ~PERCENTAGE_MASK;
	}
	arg.queue_priority = wanted_priority(k, q);
	int r = update(s, id, &arg);
	if (r == 0) {
		q->off = off;
		q->leveled = arg.queue_priority != q->own.queue_priority;
		q->stale = false;
	}
	return r;
}

static bool shall_be_off(const struct shim_kfd *k, const struct shim_queue *q)
{
	return q->held || (shim_kfd_kind(q->type) & k->off_kinds) != 0;
}

static bool differs(const struct shim_kfd *k, const struct shim_queue *q)
{
	return q->off != shall_be_off(k, q) || q->stale ||
	       q->leveled != (wanted_priority(k, q) != q->own.queue_priority);
}

/* Makes sure that there is a file to call the driver with. The program may have closed our copy and
 * its own file. Its queues live on, and any KFD file of this process works. Returns 0 or -errno. */
static int obtain_file(void)
{
	if (shim_fd_valid(&shim_owned.kfd)) {
		return 0;
	}
	int fd = shim_raw_open_kfd();
	if (fd < 0) {
		return fd;
	}
	shim_owned.any = true;
	shim_fd_close(&shim_owned.kfd);
	if (shim_fd_dup(&shim_owned.kfd, fd) == 0) {
		shim_sys_close(fd);
		return 0;
	}
	/* There is no room above: a low number has to do, and is closed again soon. */
	int r = shim_fd_set(&shim_owned.kfd, fd);
	shim_owned.kfd_is_low = r == 0;
	return r;
}

static void release_file(void)
{
	if (shim_owned.kfd_is_low) {
		shim_fd_close(&shim_owned.kfd);
		shim_owned.kfd_is_low = false;
	}
}

int shim_kfd_settle(struct shim *s, uint64_t now_ns, uint32_t *ret_n_off)
{
	struct shim_kfd *k = &s->kfd;
	int file = 1; /* 1: not tried yet */
	uint32_t n_off = 0, n_waiting = 0;
	int first = 0;

	k->retry_ns = 0;
	for (uint32_t id = 0; id < k->n_used; id++) {
		struct shim_queue *q = &k->queues[id];
		if (q->used && differs(k, q)) {
			bool off = shall_be_off(k, q);
			file = file == 1 ? obtain_file() : file;
			int r = file == 0 ? settle_queue(s, id, off) : file;
			if (r < 0) {
				/* A queue that stays as it is needs no quick retry. */
				uint64_t wait_ns = k->unknown[id] ? SHIM_AGENT_LINKED_NS
						   : r != -EAGAIN ? SHIM_AGENT_RETRY_NS
								  : SHIM_AGENT_BUSY_NS;
				k->retry_ns = shim_earlier(now_ns + wait_ns, k->retry_ns);
				n_waiting += off && r == -EAGAIN;
			}
			first = first == 0 && r != -EAGAIN && (off || r != -ESTALE) ? r : first;
		}
		n_off += q->off;
	}
	release_file();
	*ret_n_off = n_off;
	return first < 0 ? first : n_waiting > 0 ? -EAGAIN : 0;
}

int shim_kfd_preempt(struct shim *s, uint32_t id)
{
	if (s->kfd.queues[id].off) {
		return 0;
	}
	int r = obtain_file();
	if (r < 0) {
		return r;
	}
	r = settle_queue(s, id, true);
	int back = settle_queue(s, id, false);
	release_file();
	r = r < 0 ? r : back;
	return r == -ESTALE ? -EBUSY : r;
}
