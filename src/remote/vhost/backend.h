/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vhost-user device of one virtual machine. It moves messages between the guest's driver
 * (kernel/rubato_uapi.h) and workers (remote/peer.h), and understands none of the calls that
 * programs make: those are in memory that guest and worker share.
 *
 * Threads, and what they may touch:
 *   main    the connection to QEMU. It starts and stops lanes.
 *   lane    one per request queue that runs: takes requests, forwards them to workers.
 *   events  answers and doorbells of workers: completes requests, fills event buffers.
 *
 * Locks, in this order: `turn` (main while it handles a message, events while it handles an event;
 * so the events thread sees no queue that is stopped only for a moment), `sessions.lock`, and a
 * lane's `lock`, which protects its ring.
 */
#ifndef RBT_REMOTE_VHOST_BACKEND_H
#define RBT_REMOTE_VHOST_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "remote/link.h"
#include "remote/vhost/message.h"
#include "rubato_uapi.h"

#define MAX_SESSIONS 256
#define MAX_PENDING  32 /* requests of one session that its worker has not answered */

/* A request of the guest that has not been answered. */
struct request {
	uint32_t lane;
	uint32_t type;   /* enum rubato_request_type */
	uint32_t number; /* of its channel */
	uint16_t head;   /* of its chain */
	uint64_t answer; /* the guest's address of the answer */
};

struct channel {
	int to_worker, to_guest; /* eventfds; -1: the channel is not open */
	bool is_rung;            /* the guest has not been told yet */
};

/* One open file of the guest's driver. */
struct session {
	uint64_t id;
	bool is_used;
	bool is_lost; /* the worker is gone; the entry stays until the guest closes it */
	bool must_tell_lost;
	int sock; /* to the worker; -1: lost */
	size_t n_pending;
	struct request pending[MAX_PENDING]; /* in the order of their answers */
	bool is_closing;
	struct request close;
	struct channel channels[RBT_LINK_CHANNELS];
};

/* One queue. */
struct lane {
	pthread_mutex_t lock;
	bool is_live;      /* the ring may be touched */
	bool is_malformed; /* the guest must reset its device first */
	bool has_thread;
	pthread_t thread;
	int stop; /* eventfd that ends the thread */
};

struct backend {
	struct vhost_device device;
	const char *serve_path; /* the socket of `rubato serve`, borrowed */
	pthread_mutex_t turn;
	struct lane lanes[VHOST_MAX_QUEUES];
	bool has_popped; /* a request: the guest's memory is shared indeed */
	unsigned n_empty_kicks;
	int epoll;
	pthread_t events;
	struct {
		pthread_mutex_t lock;
		bool has_news; /* a channel is_rung, or a session must_tell_lost */
		struct session all[MAX_SESSIONS];
	} sessions;
};

/* backend.c. Returns 0 or -errno; the backend is static or zeroed memory. */
int backend_init(struct backend *b, const char *serve_path);
/* Serves one connection of QEMU (takes ownership) until it ends. Returns 0, or -errno after a
 * message. */
int backend_serve(struct backend *b, int sock);

/* lane.c: queues. start and stop are called by the main thread, within a turn. */
void lane_start(struct backend *b, uint32_t i);
void lane_stop(struct backend *b, uint32_t i);
/* Answers a request. `error` is 0 or a negative errno. */
void lane_complete(struct backend *b, const struct request *r, int error);
/* Fills an event buffer of the guest; false if it has none to spare now. */
bool lane_send_event(struct backend *b, const struct rubato_event *e);
/* The queue of events has been kicked. */
void lane_drain_kick(struct backend *b);

/* session.c: what lanes ask for. `chain` is valid during the call. */
void session_request(struct backend *b, const struct rubato_request *q, struct request *r,
	const struct vhost_chain *chain);

/* worker.c: what workers say. Called by the events thread, within a turn. */
void worker_event(struct backend *b, uint64_t source);
/* Tells the guest what it has not been told, as far as there are buffers. */
void worker_tell_guest(struct backend *b);
/* Ends all sessions: QEMU has stopped the device. Returns when the workers have gone, after 1 s at
 * the latest. Called by the main thread, within a turn. */
void worker_end_all(struct backend *b);

/* For both. The caller holds sessions.lock. */
struct session *session_find(struct backend *b, uint64_t id);
void session_lose(struct backend *b, struct session *s);
void session_free(struct backend *b, struct session *s);
void session_close_channel(struct backend *b, struct session *s, uint32_t number);

/* Sources of the events thread's epoll: a session and its channel, its socket, or the queue of
 * events. */
#define SOURCE_KICK              UINT64_MAX
#define SOURCE_SOCKET            0xffffu
#define SOURCE(session, channel) ((uint64_t)(session) << 16 | (channel))

#endif
