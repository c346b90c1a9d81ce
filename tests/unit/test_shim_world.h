/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world in which the shim is tested: a driver that accepts everything it is told to, a clock
 * that is moved by hand, GPUs that are plain files, and a daemon that is a socket. Each test runs
 * in a process of its own, so that each meets the shim as it is when a program starts.
 */
#ifndef RBT_TESTS_UNIT_TEST_SHIM_WORLD_H
#define RBT_TESTS_UNIT_TEST_SHIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "shim/shim.h"

/* The shortest slice a program sets without a daemon, whatever its class asks for. */
#define SHORT_US 1000

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

struct test {
	const char *name;
	void (*run)(void);
};
#define TEST(fn)                                                                                   \
	{                                                                                          \
#fn, fn                                                                            \
	}

/* Runs each in a child with a time limit; the result for main(). */
int run_tests(const struct test *tests, size_t n);

struct slice_write {
	uint32_t client, object;
	uint64_t us;
};

struct world {
	char dir[64];
	char socket_path[100];
	int device_fd; /* what the program thinks is /dev/nvidiactl */
	int kfd_fd;    /* and /dev/kfd */
	const char *driver_version;
	_Atomic uint64_t clock_ns; /* added to the real one */
	_Atomic bool clock_stopped;

	/* AMD's driver, if there is one; and threads that were started, or not */
	int (*kfd_call)(int fd, unsigned long request, void *arg);
	unsigned n_threads;
	bool no_threads;
	bool no_kfd; /* it cannot be opened */
	unsigned n_spawned;
	const struct shim_spawn *spawned; /* the last one */

	/* The driver */
	bool foreign;   /* another one, which accepts anything */
	int fail_errno; /* the next calls fail altogether */
	uint64_t
		default_us; /* the slice that the driver says it gives a task; 0: it does not say */
	uint32_t fail_status; /* RM refuses the next calls */
	void (*during_call)(unsigned long request, void *arg);
	uint32_t refuse_slice_status;
	_Atomic unsigned n_calls, n_gpu_id, n_card_info, n_tsg_info;
	unsigned n_writes;
	struct slice_write writes[256]; /* SET_TIMESLICE by the shim itself */

	/* The daemon */
	int listener, peer;
};
extern struct world world;

/* Sets up the world and the environment; NULL leaves a variable unset. */
void world_start(const char *priority, const char *socket, const char *no_daemon);

/* Removes the world's folder. */
void world_remove(void);

/* The shim's table, which must be there. */
struct shim *table(void);
bool known(uint32_t client, uint32_t handle, enum shim_type type);
unsigned count_objects(void);

/* The last slice that the shim set on a task; 0 when it set none. */
uint64_t last_write(uint32_t object);

/* Another program's hold on a GPU's lock: fd, or -1 when it is taken. */
int lock_gpu(uint32_t gpu);

/* What libcuda does; 0 or RM's status. `client` and objects are handles. */
uint32_t rm_alloc(uint32_t client, uint32_t parent, uint32_t object, uint32_t hclass);
uint32_t rm_alloc_tsg(uint32_t client, uint32_t device, uint32_t object, uint32_t engine);
uint32_t rm_free(uint32_t client, uint32_t object);
uint32_t rm_control(uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size);
uint32_t rm_schedule(uint32_t client, uint32_t tsg, bool enable);
uint32_t rm_set_timeslice(uint32_t client, uint32_t tsg, uint64_t us);
uint32_t rm_token(uint32_t client, uint32_t channel, uint32_t token);

/* An 'F' ioctl that says nothing about tasks. */
void rm_nothing(void);

#define CLIENT    0xc1d00001u
#define DEVICE    0x5c000002u
#define SUBDEVICE 0x5c000003u
/* Compute group i; its channels are the handles that follow. */
#define TSG(i) (0x5c000100u + (i)*0x100u)

/* A client with a device and its subdevice on GPU `minor`. */
void make_client(uint32_t client, uint32_t minor);
/* A group with two channels, scheduled; libcuda's own slice for compute. */
void make_task(uint32_t client, uint32_t tsg, uint32_t engine);

/* The daemon's side */
void daemon_listen(void);
bool daemon_accept(void);

struct received {
	uint32_t type; /* 0: nothing there; UINT32_MAX: end of file */
	size_t size;
	int fd; /* -1: none; the test's to close */
	struct rbt_msg_hello hello;
	struct rbt_treatment treat; /* of the TREAT that follows a HELLO */
	struct rbt_msg_client client;
	struct rbt_msg_record record;
	struct rbt_task tasks[RBT_RECORD_MAX_TASKS];
	uint32_t channels[RBT_RECORD_MAX_CHANNELS];
};
/* The next message, without waiting. The memory is static. */
struct received *daemon_receive(void);
/* The last message there is. */
struct received *daemon_receive_last(void);

#endif
