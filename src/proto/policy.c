/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *rbt_policy_engine_name(uint32_t engine)
{
	static const char *const names[RBT_POLICY_N_ENGINES] = {"auto", "kernel", "vm"};

	return engine < RBT_POLICY_N_ENGINES ? names[engine] : "unknown";
}

const char *rbt_policy_state_name(uint32_t state)
{
	static const char *const names[RBT_POLICY_N_STATES] = {"none", "loaded", "ejected"};

	return state < RBT_POLICY_N_STATES ? names[state] : "unknown";
}

ssize_t rbt_policy_load_encode(const struct rbt_policy_load *load, void *buf, size_t size)
{
	struct rbt_msg_policy_load msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY_LOAD},
		.engine = (uint32_t)load->engine,
		.flags = load->flags,
		.n_settings = (uint32_t)load->n_settings,
	};
	size_t end = sizeof(msg);

	if (load->n_settings > RBT_POLICY_MAX_SETTINGS) {
		return -E2BIG;
	}
	if (size < sizeof(msg)) {
		return -EMSGSIZE;
	}
	snprintf(msg.label, sizeof(msg.label), "%s", load->label);
	memcpy(buf, &msg, sizeof(msg));
	for (size_t i = 0; i < load->n_settings; i++) {
		size_t n = strlen(load->settings[i]) + 1;
		if (n > size - end) {
			return -EMSGSIZE;
		}
		memcpy((char *)buf + end, load->settings[i], n);
		end += n;
	}
	return (ssize_t)end;
}

int rbt_policy_load_decode(const void *buf, size_t size, struct rbt_policy_load *ret)
{
	const char *p = buf, *end = p + size;
	struct rbt_msg_policy_load msg;
	struct rbt_policy_load load = {
		.label = p + offsetof(struct rbt_msg_policy_load, label),
	};

	if (size < sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	p += sizeof(msg);
	if (msg.engine >= RBT_POLICY_N_ENGINES ||
		(msg.flags & ~(uint32_t)(RBT_POLICY_FOREGROUND | RBT_POLICY_JOIN)) != 0 ||
		msg.n_settings > RBT_POLICY_MAX_SETTINGS ||
		memchr(msg.label, '\0', sizeof(msg.label)) == NULL) {
		return -EBADMSG;
	}
	load.engine = (enum rbt_policy_engine)msg.engine;
	load.flags = msg.flags;
	for (load.n_settings = 0; load.n_settings < msg.n_settings; load.n_settings++) {
		const char *nul = memchr(p, '\0', (size_t)(end - p));
		if (nul == NULL) {
			return -EBADMSG;
		}
		load.settings[load.n_settings] = p;
		p = nul + 1;
	}
	if (p != end) {
		return -EBADMSG;
	}
	*ret = load;
	return 0;
}

ssize_t rbt_policy_entry_encode(const struct rbt_policy_entry *entry, void *buf, size_t size)
{
	struct rbt_msg_policy_map msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY_MAP},
		.op = (uint32_t)entry->op,
		.load = entry->load,
		.map = entry->map,
		.key_size = (uint32_t)entry->key_size,
		.value_size = (uint32_t)entry->value_size,
	};
	char *p = (char *)buf + sizeof(msg);

	if (entry->key_size > RBT_POLICY_ENTRY_MAX || entry->value_size > RBT_POLICY_ENTRY_MAX ||
		sizeof(msg) + entry->key_size + entry->value_size > size) {
		return -EMSGSIZE;
	}
	memcpy(buf, &msg, sizeof(msg));
	if (entry->key_size > 0) {
		memcpy(p, entry->key, entry->key_size);
	}
	if (entry->value_size > 0) {
		memcpy(p + entry->key_size, entry->value, entry->value_size);
	}
	return (ssize_t)(sizeof(msg) + entry->key_size + entry->value_size);
}

int rbt_policy_entry_decode(const void *buf, size_t size, struct rbt_policy_entry *ret)
{
	const char *p = buf;
	struct rbt_msg_policy_map msg;

	if (size < sizeof(msg)) {
		return -EBADMSG;
	}
	memcpy(&msg, buf, sizeof(msg));
	p += sizeof(msg);
	if (msg.op >= RBT_POLICY_N_MAP_OPS || msg.key_size > RBT_POLICY_ENTRY_MAX ||
		msg.value_size > RBT_POLICY_ENTRY_MAX ||
		size != sizeof(msg) + msg.key_size + msg.value_size) {
		return -EBADMSG;
	}
	*ret = (struct rbt_policy_entry){
		.op = (enum rbt_policy_map_op)msg.op,
		.load = msg.load,
		.map = msg.map,
		.key = msg.key_size > 0 ? p : NULL,
		.value = msg.value_size > 0 ? p + msg.key_size : NULL,
		.key_size = msg.key_size,
		.value_size = msg.value_size,
	};
	return 0;
}
