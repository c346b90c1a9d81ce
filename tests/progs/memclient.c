/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that takes memory of GPUs as libcuda does, by RM_ALLOC. One line of standard input is
 * one command, and has one line as its answer:
 *
 *   alloc GPU BYTES       "handle N", or "status N" if RM refuses
 *   old GPU BYTES         the same with the older form of the call
 *   below GPU BYTES       the same with the subdevice as its parent
 *   free HANDLE           "ok"
 *   device GPU            frees the GPU's device with all that is below it, and makes another one
 *   client                frees the client with everything, and makes another one
 *   poke                  a call that changes nothing
 *   fork IN OUT           "forked PID": a child with nothing, which reads and writes these files
 *   exec                  becomes a new program; its first line is "ready pid=…" again
 *   race THREADS N BYTES  each thread allocates and frees N times: "race MADE REFUSED"
 *   quit
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "softgpu/rm/params.h"

#define MAX_GPUS    8
#define MAX_THREADS 64

static int ctl = -1, n_gpus = 1;
static uint32_t client;
static struct {
	uint32_t device, subdevice, group;
} gpus[MAX_GPUS];

static uint32_t call(uint32_t parent, uint32_t hclass, void *params, uint32_t size, uint32_t *ret)
{
	struct nv_alloc64 a = {.root = client,
		.parent = parent,
		.hclass = hclass,
		.params = (uintptr_t)params,
		.params_size = size};

	if (ioctl(ctl, NV_IOCTL_ALLOC64, &a) < 0) {
		perror("memclient");
		exit(1);
	}
	*ret = a.object;
	return a.status;
}

static uint32_t make(uint32_t parent, uint32_t hclass, void *params, uint32_t size)
{
	uint32_t handle, status = call(parent, hclass, params, size, &handle);

	if (status != NV_OK) {
		fprintf(stderr, "memclient: class 0x%x: RM status 0x%x\n", hclass, status);
		exit(1);
	}
	return handle;
}

static void drop(uint32_t parent, uint32_t object)
{
	struct nv_free f = {.client = client, .parent = parent, .object = object};

	if (ioctl(ctl, NV_IOCTL_FREE, &f) < 0 || f.status != NV_OK) {
		fprintf(stderr, "memclient: free: RM status 0x%x\n", f.status);
		exit(1);
	}
}

/* With one task, so that the program is known to the daemon. */
static void make_device(int gpu)
{
	struct nv_device_params device = {.device_id = (uint32_t)gpu};
	struct nv_subdevice_params subdevice = {0};
	struct nv_tsg_params tsg = {.engine_type = NV_ENGINE_TYPE_GRAPHICS};
	struct nv_schedule_params schedule = {.enable = 1};
	struct nv_control c = {.client = client,
		.cmd = NV_CTRL_TSG_GPFIFO_SCHEDULE,
		.params = (uintptr_t)&schedule,
		.params_size = NV_SCHEDULE_PARAMS_SIZE};
	uint8_t channel[368] = {0};

	gpus[gpu].device = make(client, NV_CLASS_DEVICE, &device, sizeof(device));
	gpus[gpu].subdevice =
		make(gpus[gpu].device, NV_CLASS_SUBDEVICE, &subdevice, sizeof(subdevice));
	gpus[gpu].group = make(gpus[gpu].device, NV_CLASS_TSG, &tsg, sizeof(tsg));
	make(gpus[gpu].group, NV_CLASS_CHANNEL_HOPPER, channel, sizeof(channel));
	c.object = gpus[gpu].group;
	if (ioctl(ctl, NV_IOCTL_CONTROL, &c) < 0 || c.status != NV_OK) {
		fprintf(stderr, "memclient: schedule: RM status 0x%x\n", c.status);
		exit(1);
	}
}

static void make_client(void)
{
	client = 0;
	client = make(0, NV_CLASS_ROOT_CLIENT, NULL, 0);
	for (int i = 0; i < n_gpus; i++) {
		make_device(i);
	}
}

static void open_device(void)
{
	ctl = open(NV_CTL_PATH, O_RDWR | O_CLOEXEC);
	if (ctl < 0) {
		perror("memclient");
		exit(1);
	}
	make_client();
	printf("ready pid=%d\n", (int)getpid());
	fflush(stdout);
}

static uint32_t take(uint32_t parent, uint64_t bytes, uint32_t *ret_handle)
{
	struct nv_memory_params p = {.size = bytes};

	return call(parent, NV_CLASS_MEMORY_LOCAL, &p, sizeof(p), ret_handle);
}

static void answer(uint32_t status, uint32_t handle)
{
	if (status == NV_OK) {
		printf("handle %u\n", handle);
	} else {
		printf("status %u\n", status);
	}
}

static void take_old(int gpu, uint64_t bytes)
{
	struct nv_memory_params p = {.size = bytes};
	struct nv_alloc21 a = {.root = client,
		.parent = gpus[gpu].device,
		.hclass = NV_CLASS_MEMORY_LOCAL,
		.params = (uintptr_t)&p,
		.params_size = sizeof(p)};

	if (ioctl(ctl, NV_IOCTL_ALLOC21, &a) < 0) {
		perror("memclient");
		exit(1);
	}
	answer(a.status, a.object);
}

static int race_n;
static uint64_t race_bytes;
static _Atomic uint64_t n_made, n_refused;

static void *race(void *data)
{
	for (int i = 0; i < race_n; i++) {
		uint32_t handle;

		if (take(gpus[0].device, race_bytes, &handle) == NV_OK) {
			n_made++;
			drop(gpus[0].device, handle);
		} else {
			n_refused++;
		}
	}
	return NULL;
}

static void run_race(int n_threads)
{
	pthread_t threads[MAX_THREADS];

	n_made = n_refused = 0;
	for (int i = 0; i < n_threads; i++) {
		if (pthread_create(&threads[i], NULL, race, NULL) != 0) {
			exit(1);
		}
	}
	for (int i = 0; i < n_threads; i++) {
		pthread_join(threads[i], NULL);
	}
	printf("race %llu %llu\n", (unsigned long long)n_made, (unsigned long long)n_refused);
}

static void fork_off(const char *in, const char *out)
{
	pid_t pid = fork();

	if (pid != 0) {
		printf("forked %d\n", (int)pid);
		return;
	}
	close(ctl);
	if (freopen(in, "r", stdin) == NULL || freopen(out, "w", stdout) == NULL) {
		_exit(1);
	}
	open_device();
}

static void become_new(void)
{
	char n[16];

	snprintf(n, sizeof(n), "%d", n_gpus);
	execl("/proc/self/exe", "memclient", n, (char *)NULL);
	exit(1);
}

/* Returns false to end. */
static bool obey(const char *line)
{
	unsigned gpu = 0, n = 0, m = 0;
	unsigned long long bytes = 0;
	char in[256], out[256];
	uint32_t handle = 0;

	if (sscanf(line, "alloc %u %llu", &gpu, &bytes) == 2 && gpu < MAX_GPUS) {
		uint32_t status = take(gpus[gpu].device, bytes, &handle);
		answer(status, handle);
	} else if (sscanf(line, "below %u %llu", &gpu, &bytes) == 2 && gpu < MAX_GPUS) {
		uint32_t status = take(gpus[gpu].subdevice, bytes, &handle);
		answer(status, handle);
	} else if (sscanf(line, "old %u %llu", &gpu, &bytes) == 2 && gpu < MAX_GPUS) {
		take_old((int)gpu, bytes);
	} else if (sscanf(line, "free %u", &handle) == 1) {
		drop(gpus[0].device, handle);
		puts("ok");
	} else if (sscanf(line, "device %u", &gpu) == 1 && gpu < MAX_GPUS) {
		drop(client, gpus[gpu].device);
		make_device((int)gpu);
		puts("ok");
	} else if (strcmp(line, "client\n") == 0) {
		drop(client, client);
		make_client();
		puts("ok");
	} else if (strcmp(line, "poke\n") == 0) {
		struct nv_name_params name = {0};
		struct nv_control c = {.client = client,
			.object = gpus[0].subdevice,
			.cmd = NV_CTRL_GPU_GET_NAME_STRING,
			.params = (uintptr_t)&name,
			.params_size = sizeof(name)};
		ioctl(ctl, NV_IOCTL_CONTROL, &c);
		puts("ok");
	} else if (sscanf(line, "fork %255s %255s", in, out) == 2) {
		fork_off(in, out);
	} else if (strcmp(line, "exec\n") == 0) {
		become_new();
	} else if (sscanf(line, "race %u %u %llu", &n, &m, &bytes) == 3 && n <= MAX_THREADS) {
		race_n = (int)m;
		race_bytes = bytes;
		run_race((int)n);
	} else {
		return strcmp(line, "quit\n") != 0;
	}
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	char line[1024];

	n_gpus = argc > 1 ? atoi(argv[1]) : 1;
	if (n_gpus < 1 || n_gpus > MAX_GPUS) {
		return 2;
	}
	open_device();
	while (fgets(line, sizeof(line), stdin) != NULL && obey(line)) {
	}
	return 0;
}
