/* SPDX-License-Identifier: Apache-2.0 */
/* The link to the host, and a channel of it for each thread of the program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "remote/guest/guest.h"
#include "remote/guest/map.h"
#include "remote/link_virtio.h"

/* About 20 µs. */
#define SPINS 500

struct guest guest = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct guest_thread *mine;
static pthread_key_t key;
static struct guest_thread *free_threads; /* closed ones: their areas are used again */
static uint32_t n_threads;
static unsigned spins;

void guest_is_lost(void)
{
	atomic_store(&guest.lost, true);
}

/* The child of fork(2) has no link, as it would have no driver. */
static void on_fork(void)
{
	if (atomic_load(&guest.open)) {
		atomic_store(&guest.forked, true);
	}
}

static void drain(struct guest_thread *t);

/* A thread ends. Its calls are done first: the worker joins its own thread. */
static void on_thread_exit(void *data)
{
	struct guest_thread *t = data;

	if (atomic_load(&guest.forked)) {
		return;
	}
	drain(t);
	if (!atomic_load(&guest.lost) &&
		guest.link->ops->channel_close(guest.link, t->channel) < 0) {
		guest_is_lost();
	}
	pthread_mutex_lock(&guest.lock);
	t->next_free = free_threads;
	free_threads = t;
	pthread_mutex_unlock(&guest.lock);
}

static void identify(struct rbt_link_identity *id)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, id->command, sizeof(id->command) - 1);

	if (fd >= 0) {
		close(fd);
	}
	for (ssize_t i = 0; i + 1 < n; i++) {
		if (id->command[i] == '\0') {
			id->command[i] = ' ';
		}
	}
	id->command[n < 0 ? 0 : n] = '\0';
	id->pid = (uint32_t)getpid();
}

static CUresult from_errno(int r)
{
	switch (r) {
	case 0:
		return CUDA_SUCCESS;
	case -EUSERS:
		return CUDA_ERROR_NOT_PERMITTED;
	case -ENOMEM:
	case -E2BIG:
	case -EMFILE:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -ECONNRESET:
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	default:
		return CUDA_ERROR_NO_DEVICE;
	}
}

/* A virtual machine has a device, a container a socket. */
static const struct rbt_link_ops *ops_for(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISCHR(st.st_mode) ? &rbt_link_virtio : &rbt_link_unix;
}

static int open_link(void)
{
	struct rbt_link_identity id = {0};
	const char *path = getenv(GUEST_ENV_PATH), *always = getenv("RUBATO_REMOTE_SYNC");
	int r = path == NULL ? -ENOENT : 0;

	if (r == 0) {
		identify(&id);
		r = ops_for(path)->open(path, &id, &guest.link);
	}
	if (r == 0) {
		r = -pthread_key_create(&key, on_thread_exit);
	}
	if (r == 0) {
		(void)pthread_atfork(NULL, NULL, on_fork);
		guest.always_waits = always != NULL && strcmp(always, "1") == 0;
		spins = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPINS : 0;
		atomic_store(&guest.open, true);
	}
	return r;
}

CUresult guest_open(void)
{
	int r = 0;

	if (atomic_load(&guest.forked)) {
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	pthread_mutex_lock(&guest.lock);
	if (!atomic_load(&guest.open)) {
		r = open_link();
		/* A host that went away while it started the worker has no device. */
		r = r == -ECONNRESET ? -ENODEV : r;
	}
	pthread_mutex_unlock(&guest.lock);
	return from_errno(r);
}

static int make_thread(struct guest_thread **ret)
{
	struct guest_thread *t = calloc(1, sizeof(*t));
	void *area = NULL;

	if (t == NULL) {
		return -ENOMEM;
	}
	t->call = malloc(RBT_WIRE_MAX_CALL);
	t->answer = malloc(RBT_WIRE_MAX_CALL);
	int r = n_threads == RBT_LINK_CHANNELS         ? -EUSERS
		: t->call == NULL || t->answer == NULL ? -ENOMEM
						       : guest_map(RBT_WIRE_AREA, &area);

	if (r < 0) {
		free(t->call);
		free(t->answer);
		free(t);
		return r;
	}
	t->channel = n_threads++;
	t->wire.area = area;
	*ret = t;
	return 0;
}

/* With the lock. */
static int take_thread(struct guest_thread **ret)
{
	struct guest_thread *t = free_threads;
	int r = 0;

	if (t != NULL) {
		free_threads = t->next_free;
		memset(t->wire.area, 0, RBT_WIRE_HEADER);
		t->has_context = false;
	} else {
		r = make_thread(&t);
	}
	if (r < 0) {
		return r;
	}
	rbt_wire_guest_init(&t->wire, t->wire.area);
	r = guest.link->ops->channel(guest.link, t->channel, t->wire.area, RBT_WIRE_AREA);
	if (r < 0) {
		t->next_free = free_threads;
		free_threads = t;
		return r;
	}
	*ret = t;
	return 0;
}

CUresult guest_thread_get(struct guest_thread **ret)
{
	if (mine == NULL) {
		struct guest_thread *t;

		pthread_mutex_lock(&guest.lock);
		int r = take_thread(&t);
		pthread_mutex_unlock(&guest.lock);
		if (r == -ECONNRESET) {
			guest_is_lost();
		}
		if (r < 0) {
			return from_errno(r);
		}
		mine = t;
		pthread_setspecific(key, t);
	}
	*ret = mine;
	return CUDA_SUCCESS;
}

/* Sleeps until the worker has moved on. */
static CUresult sleep_on(struct guest_thread *t)
{
	int r = guest.link->ops->wait(guest.link, t->channel, RBT_LINK_FOREVER);

	if (r < 0 || atomic_load(&guest.lost)) {
		guest_is_lost();
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	return CUDA_SUCCESS;
}

/* Waits until there is room for this many bytes in the ring. */
static CUresult wait_for_room(struct guest_thread *t, uint32_t size)
{
	CUresult result = CUDA_SUCCESS;
	int r = rbt_wire_guest_has_room(&t->wire, size);

	while (r == 0 && result == CUDA_SUCCESS) {
		rbt_wire_guest_sleeps(&t->wire, true);
		r = rbt_wire_guest_has_room(&t->wire, size);
		if (r == 0) {
			result = sleep_on(t);
		}
	}
	if (r < 0) {
		guest_is_lost();
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	return result;
}

static void drain(struct guest_thread *t)
{
	if (!atomic_load(&guest.lost)) {
		(void)wait_for_room(t, RBT_WIRE_REQUESTS);
	}
}

static CUresult put(struct guest_thread *t, struct rbt_wire_call *call)
{
	if (atomic_load_explicit(&guest.lost, memory_order_relaxed)) {
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	CUresult result = wait_for_room(t, call->size);

	if (result != CUDA_SUCCESS) {
		return result;
	}
	if (call->flags & RBT_WIRE_QUEUED) {
		/* Last, so that a ticket is on its way to the worker at once. */
		call->after = atomic_fetch_add(&guest.tickets, 1);
		call->ticket = call->after + 1;
	} else {
		call->after = atomic_load(&guest.tickets);
		call->sequence = ++t->wire.sequence;
	}
	if (rbt_wire_guest_put(&t->wire, call) &&
		guest.link->ops->ring(guest.link, t->channel) < 0) {
		guest_is_lost();
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	return CUDA_SUCCESS;
}

CUresult guest_send(struct guest_thread *t, struct rbt_wire_call *call)
{
	return put(t, call);
}

CUresult guest_ask(struct guest_thread *t, struct rbt_wire_call *call)
{
	CUresult result = put(t, call);
	uint64_t sequence = t->wire.sequence;

	for (unsigned i = 0; result == CUDA_SUCCESS && i < spins; i++) {
		if (rbt_wire_guest_is_answered(&t->wire, sequence)) {
			break;
		}
		rbt_wire_pause();
	}
	while (result == CUDA_SUCCESS && !rbt_wire_guest_is_answered(&t->wire, sequence)) {
		rbt_wire_guest_sleeps(&t->wire, true);
		if (!rbt_wire_guest_is_answered(&t->wire, sequence)) {
			result = sleep_on(t);
		}
	}
	if (result == CUDA_SUCCESS &&
		rbt_wire_guest_answer(&t->wire, sequence, t->answer, RBT_WIRE_MAX_CALL) < 0) {
		guest_is_lost();
		result = CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	return result;
}
