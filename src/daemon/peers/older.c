/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shims of version 0.1.0. A program keeps its shim loaded for as long as it runs, also after an
 * upgrade. These shims say by HELLO, WEIGHT, LIMITS and GROUP how to treat their program. This file
 * turns each of these messages into a treatment; the rest of the daemon does not know their layout.
 */
#include "daemon/peers/older.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "proto/protocol.h"

struct old_hello {
	struct rbt_msg_header h;
	uint32_t priority;
	uint32_t force;
	uint64_t timeslice_us; /* 0: the slice of the priority */
	uint64_t loaded_ns;    /* the first shims do not send this field */
};

struct old_weight {
	struct rbt_msg_header h;
	uint32_t weight;
	uint32_t pad;
};

struct old_limits {
	struct rbt_msg_header h;
	struct rbt_limits limits; /* each 0: not said */
};

struct old_group {
	struct rbt_msg_header h;
	char name[RBT_GROUP_NAME_MAX];
};

static_assert(sizeof(struct old_hello) == 32, "wire");
static_assert(sizeof(struct old_weight) == 16, "wire");
static_assert(sizeof(struct old_limits) == 16, "wire");
static_assert(sizeof(struct old_group) == 72, "wire");

union message {
	struct rbt_msg_header h;
	struct old_hello hello;
	struct old_weight weight;
	struct old_limits limits;
	struct old_group group;
};

static bool is_size_right(uint32_t type, size_t size)
{
	switch (type) {
	case RBT_MSG_HELLO:
		return size == sizeof(struct old_hello) ||
		       size == offsetof(struct old_hello, loaded_ns);
	case RBT_MSG_WEIGHT:
		return size == sizeof(struct old_weight);
	case RBT_MSG_LIMITS:
		return size == sizeof(struct old_limits);
	default:
		return size == sizeof(struct old_group);
	}
}

/* A value of 0 resets the key. */
static void put(struct rbt_treatment *t, uint32_t bit, uint32_t *to, uint32_t value)
{
	if (value != 0) {
		*to = value;
		t->said |= bit;
	} else {
		t->reset |= bit;
	}
}

int older_decode(const void *buf, size_t size, struct rbt_treatment *ret, bool *ret_is_hello,
	uint64_t *ret_loaded_ns)
{
	struct rbt_treatment t = RBT_TREATMENT_INIT;
	union message msg = {0};
	char why[RBT_TREAT_WHY_MAX];

	memcpy(&msg, buf, size < sizeof(msg) ? size : sizeof(msg));
	if (!is_size_right(msg.h.type, size)) {
		return -EBADMSG;
	}
	switch (msg.h.type) {
	case RBT_MSG_HELLO:
		t.priority = msg.hello.priority;
		t.said |= RBT_TREAT_BIT(PRIORITY);
		if (msg.hello.timeslice_us > RBT_TIMESLICE_MAX_US) {
			return -EBADMSG;
		}
		put(&t, RBT_TREAT_BIT(TIMESLICE), &t.timeslice_us,
			(uint32_t)msg.hello.timeslice_us);
		put(&t, RBT_TREAT_BIT(FORCE), &t.force, msg.hello.force != 0);
		break;
	case RBT_MSG_WEIGHT:
		t.weight = msg.weight.weight;
		t.said |= RBT_TREAT_BIT(WEIGHT);
		break;
	case RBT_MSG_LIMITS:
		put(&t, RBT_TREAT_BIT(MAX_RESERVE), &t.limits.max_reserve_ms,
			msg.limits.limits.max_reserve_ms);
		put(&t, RBT_TREAT_BIT(MIN_SHARE), &t.limits.min_share_permille,
			msg.limits.limits.min_share_permille);
		break;
	default:
		memcpy(t.group, msg.group.name, strnlen(msg.group.name, sizeof(t.group)));
		t.said |= RBT_TREAT_BIT(GROUP);
		if (t.group[0] == '\0') {
			return -EBADMSG;
		}
	}
	if (rbt_treatment_check(&t, why) < 0) {
		return -EBADMSG;
	}
	*ret_is_hello = msg.h.type == RBT_MSG_HELLO;
	*ret_loaded_ns = *ret_is_hello ? msg.hello.loaded_ns : 0;
	*ret = t;
	return 0;
}
