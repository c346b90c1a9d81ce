/* SPDX-License-Identifier: Apache-2.0 */
/* Learns from a program's calls to KFD about its queues. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/config.h"
#include "shim/kfd.h"
#include "shim/shim.h"

#define NO_QUEUE UINT32_MAX
/* The part of CREATE_QUEUE's argument that all versions have. */
#define CREATE_SIZE offsetof(struct kfd_create_queue, eop_buffer_address)
/* The agent is in the driver with one queue for less than a millisecond. If it gets no processor at
 * all, the program goes on. */
#define MAX_WAIT_NS 10000000ull
/* In in_call, above the number of calls: how many of the overlapping ones succeeded; 2 at most. */
#define ONE_DONE 0x10000u

/* The process that has made another KFD process; 0: none. */
static _Atomic int32_t several_pid;

uint32_t shim_kfd_kind(uint32_t type)
{
	return type == KFD_QUEUE_COMPUTE || type == KFD_QUEUE_COMPUTE_AQL ? RBT_AGENT_COMPUTE
									  : RBT_AGENT_REST;
}

uint16_t shim_kfd_serial(const struct shim_queue *q)
{
	return (uint16_t)(q->serial % UINT16_MAX + 1);
}

void shim_kfd_release(struct shim_kfd *k, uint32_t id)
{
	k->n_held -= k->queues[id].held;
	k->queues[id].held = false;
}

/* Compares number and size: other devices, such as consoles, have calls of type 'K' too. */
static bool is_call(unsigned long request, unsigned nr, size_t size)
{
	return _IOC_NR(request) == nr && _IOC_SIZE(request) >= size &&
	       (_IOC_DIR(request) & _IOC_WRITE) != 0;
}

/*
 * Since KFD 1.19 (Linux 7.2) a program can have several KFD processes, one for each open file. Each
 * numbers its queues from 0 on, so a number and a file descriptor do not tell which queue is meant.
 * Such a program is left alone: its queues would get each other's rings.
 */
static bool makes_process(unsigned long request)
{
	return request == _IO(KFD_IOCTL_TYPE, KFD_NR_CREATE_PROCESS);
}

static bool is_wanted(unsigned long request)
{
	return is_call(request, KFD_NR_CREATE_QUEUE, CREATE_SIZE) ||
	       is_call(request, KFD_NR_UPDATE_QUEUE, sizeof(struct kfd_update_queue)) ||
	       is_call(request, KFD_NR_DESTROY_QUEUE, sizeof(struct kfd_destroy_queue));
}

/*
 * Finds the queue that a call is about to change. From here to end_call() the agent leaves it
 * alone, so that it cannot put an old ring back after the program has set a new one, nor confuse it
 * with another queue. The driver has not checked the argument yet, so it is read in the way that
 * cannot fault.
 */
static uint32_t begin_call(struct shim *s, unsigned long request, const void *arg)
{
	struct kfd_update_queue update;
	uint32_t id = NO_QUEUE;

	if (s == NULL || s->pid != shim_sys_getpid() || arg == NULL) {
		return NO_QUEUE;
	}
	if (_IOC_NR(request) == KFD_NR_UPDATE_QUEUE &&
		shim_sys_peek(&update, arg, sizeof(update)) == 0) {
		id = update.queue_id;
	} else if (_IOC_NR(request) == KFD_NR_DESTROY_QUEUE) {
		(void)shim_sys_peek(&id, arg, sizeof(id));
	}
	if (id >= KFD_MAX_QUEUES) {
		return NO_QUEUE;
	}
	s->kfd.in_call[id]++;
	if (s->kfd.acting_on == id + 1) {
		uint64_t until_ns = shim_raw_now_ns() + MAX_WAIT_NS;
		while (s->kfd.acting_on == id + 1 && shim_raw_now_ns() < until_ns) {
			shim_sys_yield();
		}
		/* The agent's call may come after the program's. */
		if (s->kfd.acting_on == id + 1) {
			s->kfd.overtaken[id] = true;
		}
	}
	return id;
}

/* n_done: 0 if the call has failed, 1 if it has succeeded and was recorded, otherwise 2. After two
 * overlapping calls the queue's settings are unknown, until one call succeeds alone. */
static void end_call(struct shim *s, uint32_t id, uint32_t n_done)
{
	if (s == NULL || id == NO_QUEUE) {
		return;
	}
	_Atomic uint32_t *word = &s->kfd.in_call[id];
	uint32_t old = *word, next;
	/* Set before the last call leaves: until then the agent leaves the queue alone. */
	do {
		uint32_t done = old / ONE_DONE + n_done;
		done = done < 2 ? done : 2;
		bool is_last = old % ONE_DONE == 1;
		if (done == 2) {
			s->kfd.unknown[id] = s->kfd.lossy = true;
		} else if (done == 1 && is_last) {
			s->kfd.unknown[id] = false;
		}
		next = is_last ? 0 : old % ONE_DONE - 1 + done * ONE_DONE;
	} while (!atomic_compare_exchange_strong(word, &old, next));
}

/* The driver has accepted the call: the argument can be read. */
static void decode(struct shim_event *ev, unsigned long request, const void *arg)
{
	struct kfd_create_queue create = {0};
	struct kfd_destroy_queue destroy;

	switch (_IOC_NR(request)) {
	case KFD_NR_CREATE_QUEUE:
		memcpy(&create, arg, CREATE_SIZE);
		ev->type = EV_QUEUE_MADE;
		ev->queue = (struct shim_queue_event){
			.gpu_id = create.gpu_id,
			.type = create.queue_type,
			.own = {.ring_base_address = create.ring_base_address,
				.queue_id = create.queue_id,
				.ring_size = create.ring_size,
				.queue_percentage = create.queue_percentage,
				.queue_priority = create.queue_priority},
			.wptr_at = create.write_pointer_address,
			.rptr_at = create.read_pointer_address,
		};
		break;
	case KFD_NR_UPDATE_QUEUE:
		memcpy(&ev->queue.own, arg, sizeof(ev->queue.own));
		ev->type = EV_QUEUE_SET;
		break;
	default:
		memcpy(&destroy, arg, sizeof(destroy));
		ev->queue.own.queue_id = destroy.queue_id;
		ev->type = EV_QUEUE_GONE;
		break;
	}
}

static void queue_made(struct shim *s, const struct shim_event *ev, uint32_t id)
{
	struct shim_queue *q = &s->kfd.queues[id];

	/* The end of an earlier queue with this id was missed. */
	s->kfd.n_queues += !q->used;
	shim_kfd_release(&s->kfd, id);
	*q = (struct shim_queue){
		.used = true,
		.gpu_id = ev->queue.gpu_id,
		.type = ev->queue.type,
		.creator_tid = ev->tid,
		.serial = ev->serial != 0 ? ev->serial : ++s->serial,
		.own = ev->queue.own,
		.wptr_at = ev->queue.wptr_at,
		.rptr_at = ev->queue.rptr_at,
	};
	s->kfd.unknown[id] = false;
	q->stale = atomic_exchange(&s->kfd.overtaken[id], false);
	s->kfd.n_used = id >= s->kfd.n_used ? id + 1 : s->kfd.n_used;
	s->kfd.dirty = s->touched = true;
}

static void queue_gone(struct shim *s, const struct shim_event *ev, uint32_t id)
{
	struct shim_queue *q = &s->kfd.queues[id];

	/* Recorded after this call began: a new queue of another thread, which got the id. */
	if (!q->used || q->serial > ev->serial_before) {
		return;
	}
	shim_kfd_release(&s->kfd, id);
	memset(q, 0, sizeof(*q));
	s->kfd.n_queues--;
	s->kfd.dirty = s->touched = true;
}

/* The agent resumes and forgets all queues. Our copy of the file may be the new process's now. */
static void leave_queues(struct shim *s)
{
	s->kfd.left_ns = shim_raw_now_ns();
	shim_fd_close(&shim_owned.kfd);
	shim_agent_poke();
}

/* The program's file may live on under another number, or be closed: we keep a copy, or its number
 * if there is no room for a copy. */
static void keep_file(int fd)
{
	shim_owned.any = true;
	if (shim_fd_dup(&shim_owned.kfd, fd) < 0) {
		(void)shim_fd_borrow(&shim_owned.kfd, fd);
	}
	/* Since the call, the number may have become another file's. */
	if (!shim_raw_is_kfd(shim_fd_get(&shim_owned.kfd))) {
		shim_fd_close(&shim_owned.kfd);
	}
}

void shim_kfd_learn(struct shim *s, const struct shim_event *ev)
{
	uint32_t id = ev->queue.own.queue_id;

	if (ev->type == EV_QUEUES_LEFT) {
		leave_queues(s);
	}
	if (s->kfd.left_ns != 0) {
		return;
	}
	if (!shim_fd_valid(&shim_owned.kfd)) {
		keep_file(ev->fd);
	}
	if (id >= KFD_MAX_QUEUES) {
		s->kfd.dirty = s->kfd.dirty || !s->kfd.partial;
		s->kfd.partial = s->touched = true;
		return;
	}
	if (ev->type == EV_QUEUE_MADE) {
		queue_made(s, ev, id);
	} else if (ev->type == EV_QUEUE_GONE) {
		queue_gone(s, ev, id);
	} else if (s->kfd.queues[id].used) {
		struct shim_queue *q = &s->kfd.queues[id];
		if (q->own.queue_priority != ev->queue.own.queue_priority ||
			q->own.queue_percentage != ev->queue.own.queue_percentage) {
			s->kfd.dirty = s->touched = true; /* the daemon shows these */
		}
		q->own = ev->queue.own;
		/* The driver obeyed the program: a queue that shall be off must be taken off
		 * again. */
		q->off = q->leveled = false;
		q->stale = atomic_exchange(&s->kfd.overtaken[id], false);
	}
}

static int make_process(int fd, unsigned long request, void *arg)
{
	int result = shim_raw_ioctl(fd, request, arg);
	int saved_errno = errno;

	if (result >= 0 && shim_raw_is_kfd(fd)) {
		struct shim_event ev = {.type = EV_QUEUES_LEFT, .fd = fd};
		several_pid = shim_sys_getpid();
		shim_record(&ev, shim_peek());
	}
	errno = saved_errno;
	return result;
}

int rbt_shim_call_kfd(int fd, unsigned long request, void *arg)
{
	if (shim_config_active() && makes_process(request)) {
		return make_process(fd, request, arg);
	}
	if (!is_wanted(request) || !shim_config_active() ||
		(several_pid != 0 && several_pid == shim_sys_getpid())) {
		return shim_raw_ioctl(fd, request, arg);
	}
	struct shim *s = shim_peek();
	struct shim_event ev = {.fd = fd, .serial_before = s != NULL ? s->serial : 0};
	int saved_errno = errno;
	uint32_t id = begin_call(s, request, arg);
	errno = saved_errno;
	int result = shim_raw_ioctl(fd, request, arg);
	saved_errno = errno;
	uint32_t n_done = 0;

	if (result >= 0 && arg != NULL && shim_raw_is_kfd(fd)) {
		decode(&ev, request, arg);
		ev.tid = shim_sys_gettid();
		shim_record(&ev, s);
		/* The event may have been lost for lack of room. */
		n_done = ev.type == EV_NONE ? 1 : 2;
	}
	end_call(s, id, n_done);
	errno = saved_errno;
	return result;
}
