/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world with an NVIDIA driver for tests of one process: open(), readlinkat() and ioctl() of this
 * program answer for /dev/nvidiactl out of the RM model. The programs that tests attach to are
 * children (this executable again, see world_target()) with nothing in their memory but what a test
 * put there.
 */
#ifndef RBT_TESTS_NVIDIA_WORLD_H
#define RBT_TESTS_NVIDIA_WORLD_H

#include <stdint.h>
#include <sys/types.h>

/* Starts over: a driver whose next client has this number, two GPUs. */
void world_reset(uint32_t first_client);
void world_finish(void);
uint64_t world_log_lines(void);

/* Called before the given ioctl from now (1: the next one), once; NULL: never. */
void world_before_ioctl(unsigned countdown, void (*fn)(void *data), void *data);

/* A description of /dev/nvidiactl. */
int world_open(void);

/* RM calls on it, as the program that owns it makes them. Each must succeed. */
uint32_t world_client(int fd);
void world_alloc(int fd, uint32_t client, uint32_t parent, uint32_t object, uint32_t hclass,
	const void *params, uint32_t params_size);
void world_control(
	int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t size);

/*
 * What libcuda makes for a context on a GPU, with handles from `base` (0x5c…) on: device,
 * subdevice, a compute group with 8 channels, three copy groups with 4 each.
 */
void world_context(int fd, uint32_t client, uint32_t gpu, uint32_t base);
#define WORLD_CONTEXT_TASKS    4
#define WORLD_CONTEXT_CHANNELS 20

/*
 * Starts a target that has the descriptions at the numbers 40, 41, … (the caller's are closed) and
 * in its memory what the words say, each "PLACE,HANDLE,COUNT,OBJECT": HANDLE so many times, with
 * OBJECT beside it unless that is 0. Places: data, heap, big. Returns its pid.
 */
pid_t world_start(const int *fds, size_t n_fds, const char *const *words);
#define WORLD_FIRST_FD 40
void world_stop(pid_t pid);

/* The pid of a worker the target forks (it lives as long as the target); SIGUSR1 makes a target
 * exec. */
pid_t world_fork_worker(pid_t pid);

/* The target's side; call it first in main. Returns only when this process is not one. */
void world_target(int argc, char **argv);

#endif
