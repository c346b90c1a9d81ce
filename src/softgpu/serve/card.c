/* SPDX-License-Identifier: Apache-2.0 */
/* One GPU's device and its thread. */
#include <sched.h>

#include "softgpu/serve/gpus_impl.h"

/* The work of a device between two checks for waiting threads: some 0.2 ms. */
#define STEP_INSTRUCTIONS 20000
#define SLEEP_MS          500

/* The device's thread takes its lock again and again; with a mutex alone it would always win. */
void card_lock(struct card *card)
{
	atomic_fetch_add(&card->wanted, 1);
	pthread_mutex_lock(&card->lock);
	atomic_fetch_sub(&card->wanted, 1);
}

void card_unlock(struct card *card)
{
	pthread_mutex_unlock(&card->lock);
	rbt_device_wake(card->dev);
}

static void *run_card(void *data)
{
	struct card *card = data;

	for (;;) {
		pthread_mutex_lock(&card->lock);
		bool more = rbt_device_step(card->dev, STEP_INSTRUCTIONS);
		pthread_mutex_unlock(&card->lock);
		while (atomic_load(&card->wanted) > 0) {
			sched_yield();
		}
		if (!more) {
			rbt_device_sleep(card->dev, SLEEP_MS);
		}
	}
	return NULL;
}

static void log_fault(void *user, const char *line)
{
	server_log(user, line);
}

int card_start(struct card *card, struct server *server)
{
	const struct link_config *have = &server->config;
	struct rbt_device_config config = {
		.n_sms = have->n_sms,
		.memory_bytes = have->rm.memory_bytes,
		.switch_ns = RBT_DEVICE_SWITCH_NS,
		.save_ns_per_kib = RBT_DEVICE_SAVE_NS_PER_KIB,
		.mechanism = (enum rbt_mechanism)have->mechanism,
	};
	pthread_t thread;
	int r = rbt_device_create(&config, &card->dev);

	if (r < 0) {
		return r;
	}
	rbt_device_log(card->dev, log_fault, server);
	r = pthread_create(&thread, NULL, run_card, card);
	if (r != 0) {
		rbt_device_destroy(card->dev);
		card->dev = NULL;
		return -r;
	}
	pthread_detach(thread);
	return 0;
}
