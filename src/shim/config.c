/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class.h"
#include "shim/shim.h"

#define WAIT_YIELDS 1000

struct shim_config shim_config;

static _Atomic int stage;
enum { UNREAD, WRITING, ACTIVE, INACTIVE };

/* strtoull() has a newer version in newer C libraries. */
static int parse_u64(const char *s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (s == NULL || *s == '\0') {
		return -EINVAL;
	}
	for (; *s != '\0'; s++) {
		if (*s < '0' || *s > '9') {
			return -EINVAL;
		}
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > max) {
			return -ERANGE;
		}
	}
	*ret = v;
	return 0;
}

static bool flag(const char *name)
{
	const char *s = secure_getenv(name);

	return s != NULL && strcmp(s, "1") == 0;
}

static const char *get(void *ctx, const char *name)
{
	return secure_getenv(name);
}

static void read_environment(struct shim_config *c)
{
	const char *path = secure_getenv(RBT_ENV_SOCKET);
	uint64_t v;

	if (parse_u64(secure_getenv(RBT_ENV_PRIORITY), RBT_PRIORITY_MAX, &v) < 0) {
		return;
	}
	c->active = true;
	c->loaded_ns = shim_raw_now_ns();
	c->priority = (uint32_t)v;
	c->no_daemon = flag(RBT_ENV_NO_DAEMON);
	c->force = flag(RBT_ENV_FORCE);
	if (parse_u64(secure_getenv(RBT_ENV_WEIGHT), RBT_WEIGHT_MAX, &v) == 0) {
		c->weight = (uint32_t)v;
	}
	if (parse_u64(secure_getenv(RBT_ENV_MAX_RESERVE), RBT_RESERVE_MAX_MS, &v) == 0) {
		c->limits.max_reserve_ms = (uint32_t)v;
	}
	if (parse_u64(secure_getenv(RBT_ENV_MIN_SHARE), RBT_SHARE_MAX_PERMILLE, &v) == 0) {
		c->limits.min_share_permille = v == 0 ? RBT_SHARE_NONE : (uint32_t)v;
	}
	if (parse_u64(secure_getenv(RBT_ENV_TIMESLICE), RBT_TIMESLICE_MAX_US, &v) == 0) {
		c->timeslice_us = v;
	}
	c->wanted_us =
		c->timeslice_us != 0 ? c->timeslice_us : rbt_priority_timeslice_us(c->priority);
	if (rbt_rankgroup_find(get, NULL, c->group) < 0) {
		c->group[0] = '\0';
	}
	if (path != NULL && strlen(path) < sizeof(c->socket)) {
		memcpy(c->socket, path, strlen(path) + 1);
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
	/* Another thread is copying: a moment, and bounded in case it was lost in a fork. */
	for (int i = 0; i < WAIT_YIELDS && stage == WRITING; i++) {
		shim_sys_yield();
	}
	return stage == ACTIVE;
}
