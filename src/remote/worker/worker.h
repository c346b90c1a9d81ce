/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: the process on the host that does the calls of one guest process. Its main thread
 * serves the connection (remote/peer.h), and one more thread per channel does the calls of one
 * guest thread. To Rubato it is an ordinary program.
 */
#ifndef RBT_REMOTE_WORKER_WORKER_H
#define RBT_REMOTE_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "remote/peer.h"
#include "remote/worker/account.h"
#include "remote/worker/served.h"

#define WORKER_MAX_HANDLES (1u << 20)
#define WORKER_MAX_MAPS    1024

/* The files stay open: a driver may look for the file behind memory that it is to register. */
struct worker_map {
	uint64_t address, size;
	int fds[RBT_PEER_MAX_FDS];
};

struct worker_channel {
	struct worker *worker;
	uint32_t number;
	uint8_t *_Atomic area; /* NULL: not open */
	int worker_bell, guest_bell;
	atomic_bool closing;
	_Atomic uint64_t done; /* the last ticket that is done */
	CUresult deferred;     /* the first error of queued calls that nobody knows yet */
	pthread_t thread;
};

struct worker {
	int sock;
	int printed; /* the pipe's end; -1: none */
	const struct worker_driver *driver;
	struct worker_account account;
	pthread_mutex_t lock; /* of the handles and maps */
	struct rbt_handles handles;
	struct worker_map maps[WORKER_MAX_MAPS]; /* sorted by address */
	size_t n_maps;
	struct worker_channel channels[RBT_LINK_CHANNELS];
	_Atomic uint32_t progress;  /* grows when a ticket is done; a futex */
	_Atomic uint32_t n_waiting; /* threads that wait for it */
};

/* Kernels print to the guest. Their text is taken out of this process's standard output, which
 * is a pipe for that. */
void worker_print_open(struct worker *w);
/* Adds the text that is there to an answer; returns its size. */
size_t worker_take_print(struct worker *w, struct rbt_wire_writer *answer);

int worker_init(struct worker *w, int sock, const struct worker_driver *driver);

/* Serves the connection until it ends. */
void worker_run(struct worker *w);

/* Finds the driver's library and its functions; NULL if there is none. */
const struct worker_driver *worker_driver_load(void);

/* peer.c: one message. Returns what the answer says; takes ownership of the files. */
int worker_message(struct worker *w, const void *message, size_t size, int *fds, size_t n_fds);

/* channel.c */
int worker_channel_open(struct worker *w, const struct rbt_peer_channel *m, int *fds);
int worker_channel_close(struct worker *w, uint32_t number);
/* Does the next call of the channel, if there is one. 1: it was done; 0: there is none;
 * -EPROTO: it is malformed. */
struct worker_buffers {
	struct rbt_wire_call *call; /* RBT_WIRE_MAX_CALL bytes each */
	struct rbt_wire_answer *answer;
	uint8_t *scratch; /* SERVED_SCRATCH bytes */
};
struct rbt_wire_host;
int worker_step(
	struct worker_channel *ch, struct rbt_wire_host *host, const struct worker_buffers *b);

/* table.c: thread-safe. */
void *worker_find(struct worker *w, enum rbt_handle_kind kind, uint64_t handle);
uint64_t worker_handle(struct worker *w, enum rbt_handle_kind kind, void *object);
void worker_forget(struct worker *w, uint64_t handle);
bool worker_is_shared(struct worker *w, uint64_t address, uint64_t size);
/* -EEXIST: it overlaps another; -E2BIG: there are too many. */
int worker_map_add(struct worker *w, uint64_t address, uint64_t size);
/* Gives the map its files. */
void worker_map_keep(struct worker *w, uint64_t address, int *fds, size_t n_fds);
/* Removes all maps inside the range; -ENOENT: there is none, or one is not wholly inside. */
int worker_map_remove(struct worker *w, uint64_t address, uint64_t size);

#endif
