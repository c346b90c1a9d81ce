/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/class.h"
#include "shim/shim.h"
#include "util/parse.h"

#define WAIT_YIELDS 1000

struct shim_config shim_config;

static _Atomic int stage;
enum { UNREAD, WRITING, ACTIVE, INACTIVE };

static bool flag(const char *name)
{
	const char *s = secure_getenv(name);

	return s != NULL && strcmp(s, "1") == 0;
}

static const char *get(void *ctx, const char *name)
{
	return secure_getenv(name);
}

/* CUDA_DEVICE_MEMORY_LIMIT_N, for N below SHIM_GPU_LIMITS. */
static void read_gpu_limits(struct shim_config *c)
{
	char name[] = "CUDA_DEVICE_MEMORY_LIMIT_00";
	char *digits = name + sizeof(name) - 3;

	for (int i = 0; i < SHIM_GPU_LIMITS; i++) {
		digits[0] = i >= 10 ? (char)('0' + i / 10) : (char)('0' + i);
		digits[1] = i >= 10 ? (char)('0' + i % 10) : '\0';
		const char *value = secure_getenv(name);
		if (value != NULL && rbt_parse_size(value, RBT_MEMORY_MIN, RBT_MEMORY_MAX,
					     &c->gpu_limits[i]) == 0) {
			c->has_gpu_limits = true;
		}
	}
}

/* Nothing is taken from a text that is not as `rubato serve` writes it. */
static void read_guest(struct rbt_program_guest *g)
{
	const char *text = secure_getenv(RBT_ENV_GUEST);
	const char *vm = text != NULL ? strchr(text, ' ') : NULL;
	const char *command = vm != NULL ? strchr(vm + 1, ' ') : NULL;
	char digits[16] = "";
	uint64_t pid;

	if (command == NULL || (size_t)(vm - text) >= sizeof(digits) ||
		(size_t)(command - vm) > sizeof(g->vm) || strlen(command) > sizeof(g->command)) {
		return;
	}
	memcpy(digits, text, (size_t)(vm - text));
	if (rbt_parse_u64(digits, 0, UINT32_MAX, &pid) == 0) {
		g->pid = (uint32_t)pid;
		memcpy(g->vm, vm + 1, (size_t)(command - vm) - 1);
		memcpy(g->command, command + 1, strlen(command) - 1);
	}
}

static void read_environment(struct shim_config *c)
{
	const char *path = secure_getenv(RBT_ENV_SOCKET), *run = secure_getenv(RBT_ENV_RUN);
	struct rbt_treatment *t = &c->treat;

	if (!rbt_treatment_read_env(get, NULL, t, c->ignored)) {
		return;
	}
	rbt_treatment_find_strays(environ, c->ignored);
	rbt_treatment_find_group(get, NULL, t);
	rbt_treatment_find_memory(get, NULL, t);
	read_gpu_limits(c);
	read_guest(&c->guest);
	if (run != NULL && strlen(run) < sizeof(c->run)) {
		memcpy(c->run, run, strlen(run) + 1);
	}
	c->active = true;
	c->loaded_ns = shim_raw_now_ns();
	c->no_daemon = flag(RBT_ENV_NO_DAEMON);
	c->wanted_us =
		t->timeslice_us != 0 ? t->timeslice_us : rbt_priority_timeslice_us(t->priority);
	if (path != NULL && strlen(path) < sizeof(c->socket)) {
		memcpy(c->socket, path, strlen(path) + 1);
		c->expects_gate = !c->no_daemon && flag(RBT_ENV_GATE);
	}
}

bool shim_config_active(void)
{
	struct shim_config fresh = {0};
	int expected = UNREAD;

	if (stage >= ACTIVE) {
		return stage == ACTIVE;
	}
	read_environment(&fresh);
	if (atomic_compare_exchange_strong(&stage, &expected, WRITING)) {
		shim_config = fresh;
		stage = fresh.active ? ACTIVE : INACTIVE;
		return fresh.active;
	}
	/* Another thread is copying, which takes a moment. The wait is bounded, because a fork may
	 * have left that thread behind. */
	for (int i = 0; i < WAIT_YIELDS && stage == WRITING; i++) {
		shim_sys_yield();
	}
	return stage == ACTIVE;
}
