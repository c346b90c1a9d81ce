/* SPDX-License-Identifier: Apache-2.0 */
#include "test_cuda_world.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"
#include "softgpu/device/device.h"
#include "softgpu/serve/gpu_link.h"
#include "util/fd.h"

#define MAX_CONTEXTS 64
#define STEP         20000
#define MEMORY       (64ull << 20)

static struct rbt_device *dev;
static struct rbt_context *contexts[MAX_CONTEXTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t device_thread, server_thread;
static int server_sock = -1;
static atomic_bool paused, stop;
static atomic_int n_fail, fail_error, n_rm_contexts;
static _Atomic uint64_t rm_memory;

static void *run_device(void *data)
{
	while (!atomic_load(&stop)) {
		bool more = false;

		pthread_mutex_lock(&lock);
		if (!atomic_load(&paused)) {
			more = rbt_device_step(dev, STEP);
		}
		pthread_mutex_unlock(&lock);
		if (!more) {
			rbt_device_sleep(dev, 1);
		}
	}
	return NULL;
}

static struct rbt_context **context_at(uint32_t number)
{
	return number < MAX_CONTEXTS && contexts[number] != NULL ? &contexts[number] : NULL;
}

static void answer_context(struct gpu_reply *reply, int *ret_fd)
{
	uint32_t i = 0;

	while (i < MAX_CONTEXTS && contexts[i] != NULL) {
		i++;
	}
	reply->error = i == MAX_CONTEXTS
			       ? -ENOSPC
			       : rbt_context_create(dev, GPU_MAX_CHANNELS, i, &contexts[i]);
	if (reply->error == 0) {
		reply->value = i;
		*ret_fd = dup(rbt_context_room_fd(contexts[i]));
	}
}

static void answer_memory(const struct gpu_memory *m, struct gpu_reply *reply, int *ret_fd)
{
	struct rbt_context **ctx = context_at(m->context);

	if (ctx == NULL) {
		reply->error = -ENOENT;
	} else if (m->h.type == GPU_ALLOC) {
		reply->error = rbt_context_alloc(*ctx, m->size, &reply->value);
	} else if (m->h.type == GPU_PIN) {
		reply->error = rbt_context_pin(*ctx, m->size, m->address, ret_fd);
	} else {
		reply->error = rbt_context_free(*ctx, m->address);
	}
}

static void answer_module(
	const struct gpu_module *m, int fd, struct gpu_reply *reply, uint64_t *vas)
{
	struct rbt_context **ctx = context_at(m->context);
	struct rbt_ptx_error error = {.text = ""};
	char *text = malloc(m->size + 1);
	uint32_t module = 0;
	size_t n = 0;

	if (ctx == NULL || text == NULL || pread(fd, text, m->size, 0) != (ssize_t)m->size) {
		reply->error = -EINVAL;
	} else {
		reply->error = rbt_context_load(
			*ctx, text, m->size, &module, vas, GPU_MAX_VARIABLES, &n, &error);
	}
	reply->value = module;
	reply->count = reply->error == 0 ? (uint32_t)n : 0;
	snprintf(
		reply->text, sizeof(reply->text), "%.*s", (int)sizeof(reply->text) - 1, error.text);
	free(text);
}

static void answer_object(const struct gpu_object *m, struct gpu_reply *reply)
{
	struct rbt_context **ctx = context_at(m->context);
	uint64_t total;

	if (ctx == NULL) {
		reply->error = -ENOENT;
	} else if (m->h.type == GPU_CONTEXT_END) {
		rbt_context_destroy(*ctx);
		*ctx = NULL;
	} else if (m->h.type == GPU_UNLOAD) {
		reply->error = rbt_context_unload(*ctx, m->object);
	} else {
		rbt_device_memory(dev, &reply->value, &total);
		reply->memory_bytes = total;
	}
}

union request {
	struct link_header h;
	struct gpu_hello hello;
	struct gpu_context context;
	struct gpu_memory memory;
	struct gpu_module module;
	struct gpu_object object;
};

static struct {
	struct gpu_reply reply;
	uint64_t vas[GPU_MAX_VARIABLES];
} out;

static size_t answer(const union request *m, int fd, int fds[2])
{
	size_t n_fds = 0;

	switch (m->h.type) {
	case GPU_HELLO:
		fds[0] = dup(rbt_device_arena_fd(dev));
		fds[1] = dup(rbt_device_bell_fd(dev));
		out.reply.n_sms = rbt_device_config(dev)->n_sms;
		out.reply.memory_bytes = rbt_device_config(dev)->memory_bytes;
		out.reply.value = rbt_device_arena_bytes(dev);
		return 2;
	case GPU_CONTEXT:
		answer_context(&out.reply, &fds[0]);
		n_fds = out.reply.error == 0;
		break;
	case GPU_ALLOC:
	case GPU_PIN:
	case GPU_FREE:
		answer_memory(&m->memory, &out.reply, &fds[0]);
		n_fds = out.reply.error == 0 && m->h.type == GPU_PIN;
		break;
	case GPU_MODULE:
		answer_module(&m->module, fd, &out.reply, out.vas);
		break;
	default:
		answer_object(&m->object, &out.reply);
		break;
	}
	return n_fds;
}

static bool serve_one(int sock)
{
	union request m;
	int fds[RBT_MAX_FDS_PER_MSG], answer_fds[2] = {-1, -1};
	size_t n_fds = 0, n_answer = 0;

	if (rbt_recv(sock, &m, sizeof(m), fds, &n_fds, 0) <= 0) {
		return false;
	}
	out.reply = (struct gpu_reply){.h = {LINK_MAGIC, GPU_REPLY, m.h.cookie}};
	pthread_mutex_lock(&lock);
	if (atomic_load(&n_fail) > 0) {
		atomic_fetch_sub(&n_fail, 1);
		out.reply.error = atomic_load(&fail_error);
	} else {
		n_answer = answer(&m, n_fds > 0 ? fds[0] : -1, answer_fds);
	}
	pthread_mutex_unlock(&lock);
	(void)rbt_send(sock, &out, sizeof(out.reply) + out.reply.count * sizeof(uint64_t),
		answer_fds, n_answer, 0);
	for (size_t i = 0; i < n_fds; i++) {
		rbt_close(&fds[i]);
	}
	rbt_close(&answer_fds[0]);
	rbt_close(&answer_fds[1]);
	return true;
}

static void *run_server(void *data)
{
	while (serve_one(server_sock)) {
	}
	return NULL;
}

int front_world_connect(void)
{
	struct rbt_device_config config = {.memory_bytes = MEMORY};
	int pair[2];
	int r = rbt_device_create(&config, &dev);

	if (r < 0) {
		return r;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	server_sock = pair[0];
	pthread_create(&device_thread, NULL, run_device, NULL);
	pthread_create(&server_thread, NULL, run_server, NULL);
	return pair[1];
}

void cuda_world_pause(bool is_paused)
{
	atomic_store(&paused, is_paused);
}

void cuda_world_kill(void)
{
	/* The device first: nothing more is done once the program can know. */
	atomic_store(&stop, true);
	pthread_join(device_thread, NULL);
	shutdown(server_sock, SHUT_RDWR);
	pthread_join(server_thread, NULL);
	rbt_close(&server_sock);
}

void cuda_world_fail(int count, int error)
{
	atomic_store(&fail_error, error);
	atomic_store(&n_fail, count);
}

int cuda_world_contexts(void)
{
	return atomic_load(&n_rm_contexts);
}

unsigned long long cuda_world_memory(void)
{
	return atomic_load(&rm_memory);
}

int front_rm_open(struct front_rm *rm, struct front_card cards[FRONT_RM_GPUS])
{
	rm->client = 1;
	cards[0] = (struct front_card){.bus = 0x1b, .name = "Rubato software GPU"};
	return 1;
}

void front_rm_forked(struct front_rm *rm)
{
}

int front_rm_context_make(struct front_rm *rm, int gpu, struct front_rm_context *ret)
{
	*ret = (struct front_rm_context){.client = 1, .tsgs = {2}};
	atomic_fetch_add(&n_rm_contexts, 1);
	return 0;
}

void front_rm_context_free(struct front_rm *rm, struct front_rm_context *x)
{
	atomic_fetch_sub(&n_rm_contexts, 1);
	atomic_store(&rm_memory, 0);
}

int front_rm_memory(struct front_rm *rm, struct front_rm_context *x, uint64_t bytes)
{
	atomic_store(&rm_memory, bytes);
	return 0;
}
