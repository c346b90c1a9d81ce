/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/client.h"

#include "orion/impl.h"

struct client orion_clients[RUBATO_ORION_MAX_CLIENTS];
struct orion_config orion_config = {.others = -1};

/* Plus one, so that threads have none at first. */
static _Thread_local int own_client;

void orion_clients_begin(const struct orion_config *config)
{
	orion_config.n_clients = config->n_clients;
	orion_config.hp_clients = config->hp_clients;
	orion_config.others = config->others;
	orion_config.policy = config->policy;
	orion_config.partition_sms = config->partition_sms;
	for (int i = 0; i < config->n_clients; i++) {
		struct client *c = &orion_clients[i];

		c->is_hp = (config->hp_clients >> i & 1) != 0;
		c->n_launches = c->n_held = c->held_ns = c->n_overdue = c->n_partitioned = 0;
	}
}

int orion_client_of_thread(void)
{
	return own_client - 1;
}

void orion_client_set(int idx)
{
	own_client = idx >= 0 && idx < RUBATO_ORION_MAX_CLIENTS ? idx + 1 : 0;
}

bool orion_client_exists(int idx)
{
	return idx >= 0 && (orion_config.n_clients == 0 || idx < orion_config.n_clients);
}

int orion_client_others(void)
{
	return orion_config.others;
}

bool orion_client_is_hp(int idx)
{
	return orion_clients[idx].is_hp;
}

int orion_client_stats(int idx, struct rubato_orion_stats *ret)
{
	if (idx < 0 || idx >= orion_config.n_clients || ret == NULL) {
		return -1;
	}
	const struct client *c = &orion_clients[idx];
	*ret = (struct rubato_orion_stats){.launches = c->n_launches,
		.held = c->n_held,
		.held_ns = c->held_ns,
		.overdue = c->n_overdue,
		.partitioned = c->n_partitioned};
	return 0;
}

void orion_client_partitioned(int idx)
{
	orion_clients[idx].n_partitioned++;
}

void orion_hp_launch(int idx, const struct rbt_kernel_facts *facts)
{
	struct client *c = &orion_clients[idx];

	atomic_fetch_add_explicit(&c->n_launches, 1, memory_order_relaxed);
	if (facts != NULL) {
		atomic_store_explicit(&orion_scheduler.hp_kind, facts->kind, memory_order_relaxed);
		atomic_store_explicit(&orion_scheduler.hp_sms, facts->sms, memory_order_relaxed);
	}
}
